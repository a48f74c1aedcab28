//! Interfaces learned from agent cards (I-1), and everything that can be wrong with a card: the host
//! stays unready and guarded until a first card can be used, and what it last said well stands.
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use a2a_errata::proxy::Settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use support::*;

/// Between two readings in these tests.
const REFRESH: Duration = Duration::from_millis(30);
const JSON: &str = "Content-Type: application/json\r\n";

type Make = fn() -> Vec<u8>;
type Say = Arc<dyn Fn(&Message) -> Vec<u8> + Send + Sync>;

/// A host whose card can be exchanged; calls are answered with an error that needs repair.
struct CardHost {
    host: ScriptedHost,
    say: Arc<Mutex<Say>>,
}

impl CardHost {
    fn start(say: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let say: Arc<Mutex<Say>> = Arc::new(Mutex::new(Arc::new(say)));
        let said = say.clone();
        let host = ScriptedHost::start(move |visit| {
            while let Some(request) = visit.request() {
                let say = said.lock().unwrap().clone();
                let is_card = request.first_line.contains("/.well-known/");
                let answer = if is_card { say(&request) } else { sized(200, ERROR).into_bytes() };
                // Nothing to say: it hangs.
                if answer.is_empty() {
                    thread::sleep(PATIENCE);
                }
                if !visit.send(&answer) {
                    break;
                }
            }
        });
        Self { host, say }
    }

    /// One card at the new place only.
    fn with(card: impl Into<String>) -> Self {
        let card = card.into();
        Self::start(move |request| at_new_place(request, &sized(200, &card)))
    }

    fn says(&self, say: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) {
        *self.say.lock().unwrap() = Arc::new(say);
    }

    fn changes_to(&self, card: impl Into<String>) {
        let card = card.into();
        self.says(move |request| at_new_place(request, &sized(200, &card)));
    }

    fn settings(&self, name: &str) -> Settings {
        let mut settings = settings(&[self.host.address]);
        let host = &mut settings.hosts[0];
        host.name = name.into();
        host.interfaces.clear();
        host.card.refresh = REFRESH;
        host.timeouts.read = Duration::from_millis(300);
        settings
    }

    fn proxy(&self, name: &str) -> Proxy {
        logged();
        Proxy::learning(self.settings(name))
    }

    fn card_requests(&self) -> Vec<Message> {
        let mut requests = self.host.requests();
        requests.retain(|request| request.first_line.contains("/.well-known/"));
        requests
    }
}

fn at_new_place(request: &Message, answer: &str) -> Vec<u8> {
    if request.first_line.contains("agent-card") { answer.into() } else { sized(404, "").into() }
}

fn head_and(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// A card of 1.0 with these interfaces: URL, binding, version.
fn card(interfaces: &[(&str, &str, &str)]) -> String {
    let interfaces: Vec<_> = interfaces
        .iter()
        .map(|(url, binding, version)| {
            serde_json::json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
        })
        .collect();
    serde_json::json!({"name": "x", "supportedInterfaces": interfaces}).to_string()
}

fn main_card() -> String {
    card(&[("http://agent.example/main", "JSONRPC", "1.0")])
}

#[track_caller]
fn assert_repaired(proxy: &Proxy, path: &str) {
    proxy.ask(post(path, CALL)).assert_fault(200, "7");
}

#[track_caller]
fn assert_passes(proxy: &Proxy, path: &str) {
    proxy.ask(post(path, CALL)).assert_passed(200, ERROR);
}

/// Waits until the routes are the ones of the newest card.
#[track_caller]
fn await_routes(proxy: &Proxy, repaired: &str) {
    eventually(|| proxy.ask(post(repaired, CALL)).text() != ERROR, || format!("{repaired} is no interface"));
}

/// I-1: until a card could be used, every POST that is a call is one to an interface, all else passes;
/// what is wrong is counted and logged; and once the card is right, the host is ready.
#[track_caller]
fn assert_unusable(name: &str, reason: &str, say: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) {
    let host = CardHost::start(say);
    let mut settings = host.settings(name);
    settings.hosts[0].card.max_bytes = 1000;
    logged();
    let proxy = Proxy::learning(settings);
    assert_unusable_at(&host, &proxy, name, reason);
}

#[track_caller]
fn assert_unusable_at(host: &CardHost, proxy: &Proxy, name: &str, reason: &str) {
    proxy.await_more("card_reads_total", &format!("host=\"{name}\",result=\"unusable\""), 2.0);
    assert_eq!(proxy.readiness.waiting(), [name]);
    assert_logged(&[name, reason, "agent card not usable", "kept=0"]);
    proxy.assert_counts("card_reads_total", "result=\"usable\"", 0.0);
    assert_repaired(proxy, "/main");
    assert_repaired(proxy, "/anything");
    proxy.ask(post("/main", r#"{"not":"a call"}"#)).assert_passed(200, ERROR);
    proxy.ask(get("/main")).assert_passed(200, ERROR);

    host.changes_to(main_card());
    proxy.assert_ready();
    assert_repaired(proxy, "/main");
    assert_passes(proxy, "/anything");
}

#[test]
fn a_card_that_is_refused() {
    assert_unusable("card-401", "the host refuses to show it", |_| sized(401, &main_card()).into());
    assert_unusable("card-403", "the host refuses to show it", |_| sized(403, "{}").into());
}

#[test]
fn a_card_that_fails() {
    assert_unusable("card-500", "the host failed to show it", |_| sized(500, &main_card()).into());
    assert_unusable("card-418", "unexpected status", |_| sized(418, "").into());
}

#[test]
fn a_card_that_is_not_there() {
    assert_unusable("card-404", "no card was found", |_| sized(404, "{}").into());
    assert_unusable("card-405", "no card was found", |_| sized(405, "").into());
}

#[test]
fn a_card_that_is_html_or_nothing() {
    assert_unusable("card-html", "it is not JSON", |_| {
        head_and(200, "Content-Type: text/html\r\n", b"<html>")
    });
    assert_unusable("card-empty", "it is not JSON", |_| sized(200, "").into());
    assert_unusable("card-list", "it is not an object", |_| sized(200, "[]").into());
}

#[test]
fn a_card_over_max_bytes() {
    let long = || format!("{}{}", main_card(), " ".repeat(1000));
    assert_unusable("card-long", "larger than card.max_bytes", move |_| sized(200, &long()).into());
    assert_unusable("card-endless", "larger than card.max_bytes", move |_| chunked(200, &long(), 100).into());
    // A bomb is measured while it unfolds.
    assert_unusable("card-bomb", "larger than card.max_bytes", |_| {
        let bomb = gzip(" ".repeat(400_000).as_bytes());
        assert!(bomb.len() < 1000);
        head_and(200, "Content-Encoding: gzip\r\n", &bomb)
    });
}

#[test]
fn a_card_with_nothing_to_guard() {
    let foreign = || {
        card(&[("agent.example:50051", "GRPC", "1.0"), ("ws://agent.example", "https://x.example/ws", "1.0")])
    };
    assert_unusable("card-grpc", "no interface with the binding", move |_| sized(200, &foreign()).into());
    assert_unusable("card-bare", "no interface with the binding", |_| sized(200, "{\"name\":\"x\"}").into());
}

#[test]
fn a_card_that_is_elsewhere() {
    assert_unusable("card-302", "the host redirects", |_| {
        head_and(302, "Location: /.well-known/other.json\r\n", b"")
    });
}

#[test]
fn a_card_in_an_unknown_or_broken_coding() {
    assert_unusable("card-coding", "content coding cannot be undone", |_| {
        head_and(200, "Content-Encoding: zip\r\n", b"{}")
    });
    assert_unusable("card-no-gzip", "content coding cannot be undone", |_| {
        head_and(200, "Content-Encoding: gzip\r\n", main_card().as_bytes())
    });
}

#[test]
fn a_host_that_hangs_or_breaks_off() {
    assert_unusable("card-hangs", "the host broke off", |_| Vec::new());
    assert_unusable("card-stalls", "the host broke off", |_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{".to_vec()
    });
}

/// I-1: on another origin than the host's; without `authorities` every origin is the host's.
#[test]
fn origins_count_only_where_hosts_are_told_apart_by_them() {
    let everywhere = card(&[("https://elsewhere.example/main", "JSONRPC", "1.0")]);
    let host = CardHost::with(everywhere.clone());
    let proxy = host.proxy("any-origin");
    proxy.assert_ready();
    assert_repaired(&proxy, "/main");

    let host = CardHost::with(everywhere);
    let mut settings = host.settings("own-origin");
    settings.hosts[0].authorities = vec!["h".into()];
    logged();
    let proxy = Proxy::learning(settings);
    proxy.await_more("card_reads_total", "result=\"unusable\"", 2.0);
    assert_logged(&["own-origin", "none of its interfaces is on one of the host's authorities"]);
    assert_eq!(proxy.readiness.waiting(), ["own-origin"]);
    let address = host.host.address;
    host.changes_to(card(&[
        ("https://elsewhere.example/foreign", "JSONRPC", "1.0"),
        ("https://H:8443/named", "JSONRPC", "1.0"),
        (&format!("http://{address}/upstream"), "JSONRPC", "1.0"),
        ("/relative", "JSONRPC", "1.0"),
    ]));
    proxy.assert_ready();
    for path in ["/named", "/upstream", "/relative"] {
        assert_repaired(&proxy, path);
    }
    assert_passes(&proxy, "/foreign");
}

#[test]
fn relative_urls_are_the_hosts() {
    let host = CardHost::with(card(&[
        ("/main", "JSONRPC", "1.0"),
        ("rest/", "HTTP+JSON", "1.0"),
        ("//h/other?x=y#z", "jsonrpc", "1.0.1"),
    ]));
    let proxy = host.proxy("relative");
    proxy.assert_ready();
    for path in ["/main", "/main/", "/other"] {
        assert_repaired(&proxy, path);
    }
    assert_eq!(proxy.ask(get("/rest/tasks/t-1")).status(), 400);
    assert_passes(&proxy, "/rest");
}

/// Both bindings on one path, and one binding in two versions.
#[test]
fn two_interfaces_on_one_path() {
    let host = CardHost::with(card(&[
        ("http://h/a2a", "JSONRPC", "1.0"),
        ("http://h/a2a/", "HTTP+JSON", "1.0"),
        ("http://h/two", "JSONRPC", "1.0"),
        ("http://h/two", "JSONRPC", "0.3"),
    ]));
    let proxy = host.proxy("one-path");
    proxy.assert_ready();
    assert_repaired(&proxy, "/a2a");
    let answer = proxy.ask(post("/a2a/message:send", CALL));
    assert_eq!((answer.status(), &answer.json()["error"]["status"]), (400, &"FAILED_PRECONDITION".into()));
    assert_repaired(&proxy, "/two");
    let old = post("/two", CALL).replace("A2A-Version: 1.0", "A2A-Version: 0.3");
    proxy.ask(&old).assert_passed(200, ERROR);
    // Not offered on the other path, so the rules bind it.
    proxy.ask(old.replace("/two", "/a2a")).assert_fault(200, "7");
    proxy.assert_counts("responses_total", "binding=\"HTTP+JSON\",host=\"one-path\",interface=\"/a2a\"", 1.0);
}

/// The old place, in the old shape.
#[test]
fn the_old_place_is_looked_at_too() {
    let card = r#"{"protocolVersion":"0.3.0","url":"http://h/old","preferredTransport":"JSONRPC",
        "additionalInterfaces":[{"url":"http://h/r","transport":"HTTP+JSON"}]}"#;
    for (name, status) in [("old-404", 404), ("old-405", 405), ("old-410", 410)] {
        let host = CardHost::start(move |request| {
            let is_old = request.first_line.contains("agent.json");
            if is_old { sized(200, card).into() } else { sized(status, "").into() }
        });
        let proxy = host.proxy(name);
        proxy.assert_ready();
        // At 0.3 nothing is touched, and a version that is not offered is bound.
        proxy.ask(post("/old", CALL).replace("A2A-Version: 1.0\r\n", "")).assert_passed(200, ERROR);
        assert_repaired(&proxy, "/old");
        assert_passes(&proxy, "/main");
        let asked: Vec<_> = host.card_requests().iter().take(2).map(|r| r.first_line.clone()).collect();
        assert_eq!(
            asked,
            ["GET /.well-known/agent-card.json HTTP/1.1", "GET /.well-known/agent.json HTTP/1.1"]
        );
    }
}

/// Hosts that answer every path they do not know with a page.
#[test]
fn a_page_at_the_new_place_is_no_card() {
    let host = CardHost::start(|request| {
        let is_old = request.first_line.contains("agent.json");
        if is_old { sized(200, &main_card()).into() } else { sized(200, "<html>").into() }
    });
    let proxy = host.proxy("page");
    proxy.assert_ready();
    assert_repaired(&proxy, "/main");
    assert_passes(&proxy, "/other");
}

/// What the host is asked, and that an unchanged card costs no body.
#[test]
fn a_card_is_read_on_condition() {
    let host = CardHost::start(|request| {
        if request.header("if-none-match") == Some("\"1\"") {
            return b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_vec();
        }
        head_and(200, &format!("{JSON}ETag: \"1\"\r\n"), main_card().as_bytes())
    });
    let proxy = host.proxy("etag");
    proxy.assert_ready();
    proxy.await_more("card_reads_total", "host=\"etag\",result=\"usable\"", 3.0);
    assert_repaired(&proxy, "/main");
    assert_eq!(assert_logged(&["etag", "agent card read"]), 1, "nothing new");
    let asked = host.card_requests();
    assert_eq!(asked[0].header("if-none-match"), None);
    assert!(asked[1..].iter().all(|request| request.header("if-none-match") == Some("\"1\"")));
    for request in &asked {
        assert_eq!(request.header("a2a-version"), Some("1.0"));
        assert_eq!(request.header("accept"), Some("application/json"));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.header("host"), Some(host.host.address.to_string().as_str()));
        assert_eq!(request.header("authorization"), None);
    }
    assert!(proxy.count("card_age_seconds", "host=\"etag\"") < 5.0);
    proxy.assert_counts("card_reads_total", "result=\"unusable\"", 0.0);

    host.says(|_| head_and(200, "ETag: \"2\"\r\n", card(&[("/new", "JSONRPC", "1.0")]).as_bytes()));
    await_routes(&proxy, "/new");
    assert_passes(&proxy, "/main");
}

/// Routes change at once for requests that come, and not for those under way.
#[test]
fn a_request_in_flight_keeps_its_interface() {
    let card_now = Arc::new(Mutex::new(card(&[("/before", "JSONRPC", "1.0")])));
    let may_answer = Arc::new(Mutex::new(()));
    let (said, gate) = (card_now.clone(), may_answer.clone());
    let host = ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            let answer = if request.first_line.contains("agent-card") {
                sized(200, &said.lock().unwrap())
            } else if request.first_line.contains("held") {
                drop(gate.lock());
                sized(200, ERROR)
            } else {
                sized(200, ERROR)
            };
            visit.send(answer);
        }
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].interfaces.clear();
    settings.hosts[0].card.refresh = REFRESH;
    let proxy = Proxy::learning(settings);
    proxy.assert_ready();

    let held = may_answer.lock().unwrap();
    let (mut before, mut after) = (proxy.client(), proxy.client());
    before.send(post("/before?held", CALL));
    after.send(post("/after?held", CALL));
    let arrived = || host.requests().iter().filter(|r| r.first_line.contains("held")).count();
    eventually(|| arrived() == 2, || "the calls do not arrive".into());
    *card_now.lock().unwrap() = card(&[("/after", "JSONRPC", "1.0")]);
    await_routes(&proxy, "/after");
    assert_passes(&proxy, "/before");
    drop(held);
    before.answer().assert_fault(200, "7");
    after.answer().assert_passed(200, ERROR);
}

/// The last good card stands, whatever comes after it, and the host stays ready.
#[test]
fn the_last_good_card_is_kept() {
    let host = CardHost::with(main_card());
    let proxy = host.proxy("keeps");
    proxy.assert_ready();
    for (make, reason) in [
        ((|| sized(500, "").into()) as Make, "the host failed to show it"),
        (|| sized(401, "").into(), "the host refuses to show it"),
        (|| sized(404, "").into(), "no card was found"),
        (|| sized(200, "<html>").into(), "it is not JSON"),
        (|| sized(200, "{\"supportedInterfaces\":[]}").into(), "it lists no interface"),
        (|| b"HTTP/1.1 304 X\r\n\r\n".to_vec(), "the host redirects"),
        (|| b"garbage\r\n\r\n".to_vec(), "the host broke off"),
        (Vec::new, "the host broke off"),
    ] {
        host.says(move |_| make());
        proxy.await_more("card_reads_total", "host=\"keeps\",result=\"unusable\"", 2.0);
        assert_logged(&["keeps", reason, "kept=1"]);
        assert!(proxy.readiness.waiting().is_empty(), "{reason}");
        assert_repaired(&proxy, "/main");
        assert_passes(&proxy, "/other");
    }
    thread::sleep(Duration::from_millis(100));
    let age = proxy.count("card_age_seconds", "host=\"keeps\"");
    assert!(age > 0.1, "no reading was good for a while: {age}");
    host.changes_to(card(&[("/other", "JSONRPC", "1.0")]));
    await_routes(&proxy, "/other");
    assert_passes(&proxy, "/main");
}

/// One URL, two cards, told apart by `A2A-Version`: both count, and each may change by itself.
#[test]
fn a_card_that_differs_by_version() {
    let answer = |request: &Message, old: &str| {
        let body = match request.header("a2a-version") {
            Some("0.3") => format!(r#"{{"protocolVersion":"0.3.0","url":"http://h/{old}"}}"#),
            _ => main_card(),
        };
        head_and(200, &format!("{JSON}Vary: Accept, A2A-Version\r\nETag: \"same\"\r\n"), body.as_bytes())
    };
    let host = CardHost::start(move |request| answer(request, "main"));
    let proxy = host.proxy("varies");
    proxy.assert_ready();
    let old = |path: &str| post(path, CALL).replace("A2A-Version: 1.0", "A2A-Version: 0.3");
    assert_repaired(&proxy, "/main");
    proxy.ask(old("/main")).assert_passed(200, ERROR);
    let versions: Vec<_> =
        host.card_requests().iter().take(2).map(|r| r.header("a2a-version").unwrap().to_owned()).collect();
    assert_eq!(versions, ["1.0", "0.3"]);

    // A 304 for the card of 1.0 says nothing of the other one.
    host.says(move |request| match request.header("if-none-match") {
        Some(_) => b"HTTP/1.1 304 X\r\n\r\n".to_vec(),
        None => answer(request, "moved"),
    });
    await_routes(&proxy, "/moved");
    proxy.ask(old("/main")).assert_fault(200, "7");
    proxy.ask(old("/moved")).assert_passed(200, ERROR);
}

#[test]
fn a_host_that_comes_up_late() {
    let port = free_port();
    let mut late = settings(&[format!("127.0.0.1:{port}").parse().unwrap()]);
    late.hosts[0].name = "late".into();
    late.hosts[0].interfaces.clear();
    late.hosts[0].card.refresh = REFRESH;
    logged();
    let proxy = Proxy::learning(late);
    proxy.await_more("card_reads_total", "result=\"unusable\"", 2.0);
    assert_logged(&["late", "the host could not be reached"]);
    assert_eq!(proxy.readiness.waiting(), ["late"]);
    // Not known yet, so guarded, and in the binding of what looks like a call.
    proxy.ask(post("/main", CALL)).assert_fault(502, "7");

    let _host = ScriptedHost::start_at(port, |visit| {
        while let Some(request) = visit.request() {
            let is_card = request.first_line.contains("agent-card");
            visit.send(sized(200, if is_card { main_card() } else { ERROR.into() }.as_str()));
        }
    });
    proxy.assert_ready();
    assert_repaired(&proxy, "/main");
    assert_passes(&proxy, "/x");
}

/// With the refresh of an hour, a first card is still asked for every few hundred milliseconds.
#[test]
fn a_first_card_is_not_waited_for_as_long_as_a_next_one() {
    let host = CardHost::start(|_| sized(503, "").into());
    let mut settings = host.settings("sooner");
    settings.hosts[0].card.refresh = Duration::from_hours(1);
    let proxy = Proxy::learning(settings);
    proxy.await_more("card_reads_total", "result=\"unusable\"", 1.0);
    let since = Instant::now();
    host.changes_to(main_card());
    proxy.assert_ready();
    assert!(since.elapsed() < Duration::from_secs(3));
    // And then no more.
    let asked = host.card_requests().len();
    thread::sleep(Duration::from_millis(600));
    assert_eq!(host.card_requests().len(), asked);
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(plain).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn framings_and_codings_of_a_card() {
    for (name, make) in [
        ("in-chunks", (|| chunked(200, &main_card(), 3).into()) as Make),
        ("in-gzip", || head_and(200, "Content-Encoding: gzip\r\n", &gzip(main_card().as_bytes()))),
        ("with-bom", || head_and(200, JSON, format!("\u{feff}{}", main_card()).as_bytes())),
        ("to-the-close", || format!("HTTP/1.0 200 OK\r\n\r\n{}", main_card()).into()),
        ("after-a-hint", || {
            format!("HTTP/1.1 103 X\r\nLink: <x>\r\n\r\n{}", sized(200, &main_card())).into()
        }),
        ("as-text", || head_and(203, "Content-Type: text/plain\r\n", main_card().as_bytes())),
    ] {
        let host = ScriptedHost::start(move |visit| {
            while let Some(request) = visit.request() {
                let is_card = request.first_line.contains("agent-card");
                let answer = if is_card { make() } else { sized(200, ERROR).into() };
                if !visit.send(&answer) || is_card && answer.starts_with(b"HTTP/1.0") {
                    break;
                }
            }
        });
        let mut settings = settings(&[host.address]);
        settings.hosts[0].name = name.into();
        settings.hosts[0].interfaces.clear();
        settings.hosts[0].card.refresh = REFRESH;
        let proxy = Proxy::learning(settings);
        proxy.assert_ready();
        assert_repaired(&proxy, "/main");
        assert_passes(&proxy, "/other");
    }
}
