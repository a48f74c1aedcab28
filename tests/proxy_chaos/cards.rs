//! Hosts whose agent card changes while calls are under way (I-1): those keep the interface that they began with, and
//! what is known of the host is enforced all along.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::{
    CALL, ERROR, PATIENCE, Proxy, ScriptedHost, Visit, chunked, eventually, post, settings, sized,
};
use crate::{
    Asked, Becomes, CHUNKED, Got, Script, begun_error, begun_success, check, chunk, half, over_http_1,
    over_http_2,
};

const REFRESH: Duration = Duration::from_millis(30);
const MOST_BYTES: usize = 10_000;

/// What is behind a URL, once the card has changed.
#[derive(Debug, Clone, Copy)]
pub enum Is {
    /// A JSON-RPC interface.
    Rpc,
    /// The base of an HTTP+JSON interface.
    Rest,
    /// No interface: everything passes (I-4).
    Nothing,
}

/// What a host does with its card: what it answers from now on, whether that can be used, and what is then where.
pub type Change = (&'static str, fn() -> String, bool, &'static [(&'static str, Is)]);

/// Nothing has become of it.
const AS_BEFORE: &[(&str, Is)] = &[("/a2a", Is::Rpc), ("/rest", Is::Rest), ("/other", Is::Nothing)];

fn card(interfaces: &[(&str, &str)]) -> String {
    let one = |(url, binding): &(&str, &str)| json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"});
    json!({"name": "x", "supportedInterfaces": interfaces.iter().map(one).collect::<Vec<_>>()}).to_string()
}

fn first_card() -> String {
    card(&[("/a2a", "JSONRPC"), ("/rest", "HTTP+JSON")])
}

fn shown(interfaces: &[(&str, &str)]) -> String {
    sized(200, &card(interfaces))
}

#[rustfmt::skip]
pub static CHANGES: &[Change] = &[
    ("loses an interface", || shown(&[("/rest", "HTTP+JSON")]), true,
        &[("/a2a", Is::Nothing), ("/rest", Is::Rest), ("/other", Is::Nothing)]),
    ("loses all that it had", || shown(&[("/new", "JSONRPC")]), true,
        &[("/a2a", Is::Nothing), ("/rest/message:send", Is::Nothing), ("/new", Is::Rpc), ("/other", Is::Nothing)]),
    ("gets an interface", || shown(&[("/a2a", "JSONRPC"), ("/rest", "HTTP+JSON"), ("/other", "JSONRPC")]), true,
        &[("/a2a", Is::Rpc), ("/rest", Is::Rest), ("/other", Is::Rpc)]),
    ("swaps its bindings", || shown(&[("/a2a", "HTTP+JSON"), ("/rest", "JSONRPC")]), true,
        &[("/a2a", Is::Rest), ("/a2a", Is::Nothing), ("/rest", Is::Rpc), ("/rest/message:send", Is::Nothing)]),
    ("lists no interface", || shown(&[]), false, AS_BEFORE),
    ("lists none that is known", || shown(&[("/a2a", "GRPC")]), false, AS_BEFORE),
    ("is no JSON", || sized(200, "<html>acme"), false, AS_BEFORE),
    ("is half a card", || sized(200, half(&first_card())), false, AS_BEFORE),
    ("breaks off", || half(&sized(200, &first_card())).into(), false, AS_BEFORE),
    ("is huge", || sized(200, &format!("{}{}", first_card(), " ".repeat(MOST_BYTES))), false, AS_BEFORE),
    ("is huge and says so late", || chunked(200, &format!("{}{}", first_card(), " ".repeat(MOST_BYTES)), 500), false, AS_BEFORE),
    ("is gone", || sized(404, ""), false, AS_BEFORE),
    ("asks for credentials", || sized(401, ""), false, AS_BEFORE),
    ("fails", || sized(500, &first_card()), false, AS_BEFORE),
    ("is no HTTP", || "acme\r\n\r\n".into(), false, AS_BEFORE),
];

/// What the host says before its card changes and after, of a call under way, and what becomes of it: unary, streamed.
type UnderWay = (&'static str, Script, Script, Becomes, Becomes);

fn rest(visit: &mut Visit, whole: &str) {
    visit.send(format!("{}0\r\n\r\n", chunk(&whole[whole.len() / 2..])));
}

fn error(asked: Asked) -> String {
    format!("{}{}", asked.before(), asked.bad())
}

#[rustfmt::skip]
static UNDER_WAY: &[UnderWay] = &[
    ("has said nothing", |_, _| {}, |visit, asked| {
        visit.send(format!("{}{}0\r\n\r\n", asked.bad_head(CHUNKED), chunk(&error(asked))));
    }, Becomes::Fault, Becomes::FaultInside),
    ("is inside an error", |visit, asked| {
        visit.send(format!("{}{}", asked.bad_head(CHUNKED), chunk(half(&error(asked)))));
    }, |visit, asked| rest(visit, &error(asked)), Becomes::Fault, Becomes::FaultInside),
    ("is inside a success", |visit, asked| {
        visit.send(format!("{}{}", asked.good_head(CHUNKED), chunk(half(&asked.good()))));
    }, |visit, asked| rest(visit, &asked.good()), Becomes::Success, Becomes::Success),
    ("dies without an answer", |_, _| {}, |_, _| {}, Becomes::Own(502), Becomes::Own(502)),
    ("dies inside an error", |visit, asked| _ = visit.send(begun_error(asked)), |_, _| {}, Becomes::Own(502), Becomes::Abort),
    ("dies inside a success", |visit, asked| _ = visit.send(begun_success(asked)), |_, _| {}, Becomes::Abort, Becomes::Abort),
];

/// What host and test share.
struct Stage {
    card: Mutex<String>,
    /// Calls under way.
    begun: AtomicUsize,
    goes_on: AtomicBool,
}

impl Stage {
    /// A call names what becomes of it in its query; another one is answered with an error at once.
    fn host(self: &Arc<Self>) -> ScriptedHost {
        let stage = self.clone();
        ScriptedHost::start(move |visit| {
            while let Some(request) = visit.request() {
                if request.first_line.contains("/.well-known/") {
                    let card = stage.card.lock().unwrap().clone();
                    // What breaks off has to end.
                    visit.send(card.replacen("\r\n", "\r\nConnection: close\r\n", 1));
                    return;
                }
                let query = request.first_line.split(['?', ' ']).nth(2).and_then(|query| query.parse().ok());
                let Some(number) = query.filter(|_| request.first_line.contains('?')) else {
                    visit.send(sized(200, ERROR));
                    continue;
                };
                let (_, begin, end, ..) = UNDER_WAY.get::<usize>(number).unwrap();
                let asked = Asked::of(&request);
                begin(visit, asked);
                stage.begun.fetch_add(1, Ordering::SeqCst);
                eventually(|| stage.goes_on.load(Ordering::SeqCst), || "it never goes on".into());
                return end(visit, asked);
            }
        })
    }
}

pub fn try_out((name, change, usable, then): &Change) {
    let stage = Arc::new(Stage {
        card: Mutex::new(sized(200, &first_card())),
        begun: AtomicUsize::new(0),
        goes_on: AtomicBool::new(false),
    });
    let host = stage.host();
    let mut settings = settings(&[host.address]);
    settings.hosts[0].interfaces.clear();
    settings.hosts[0].card.refresh = REFRESH;
    settings.hosts[0].card.max_bytes = MOST_BYTES;
    // A call under way is silent until the card has been read again.
    settings.hosts[0].timeouts.read = PATIENCE;
    let proxy = Proxy::learning(settings);
    proxy.assert_ready();

    thread::scope(|scope| {
        let (proxy, mut calls) = (&proxy, 0);
        for (number, (says, _, _, unary, streamed)) in UNDER_WAY.iter().enumerate() {
            for asked in Asked::ALL {
                let becomes = if asked.stream { *streamed } else { *unary };
                let (path, body) = asked.request(0);
                let path = format!("{path}?{number}");
                let name = format!("a card that {name} under a host that {says}, {asked:?}");
                let (path_2, body_2, name_2) = (path.clone(), body.clone(), name.clone());
                scope.spawn(move || {
                    let got = over_http_1(proxy, (&path, &body), asked);
                    check(&format!("{name}, HTTP/1.1"), asked, becomes, &got);
                });
                scope.spawn(move || {
                    let got = over_http_2(proxy, (&path_2, &body_2));
                    check(&format!("{name_2}, HTTP/2"), asked, becomes, &got);
                });
                calls += 2;
            }
        }
        // To what is no interface when it comes, even if it becomes one.
        scope.spawn(move || {
            let mut client = proxy.client();
            client.send(post("/other?0", CALL));
            let answer = client.answer();
            assert!(answer.complete && answer.text() == Asked::ALL[0].error(), "{name}: {answer:?}");
        });
        calls += 1;
        let begun = || stage.begun.load(Ordering::SeqCst);
        eventually(|| begun() == calls, || format!("{name}: {} of {calls} calls arrive", begun()));
        *stage.card.lock().unwrap() = change();
        // One reading may have been under way.
        let result = if *usable { "result=\"usable\"" } else { "result=\"unusable\"" };
        proxy.await_more("card_reads_total", result, 2.0);
        is_enforced(name, proxy, then);
        stage.goes_on.store(true, Ordering::SeqCst);
    });
    is_enforced(name, &proxy, then);
    proxy.assert_counts("inflight", "", 0.0);
    proxy.assert_counts("held_bytes", "", 0.0);
}

fn is_enforced(name: &str, proxy: &Proxy, then: &[(&str, Is)]) {
    for (path, is) in then {
        let says = format!("after a card that {name}, {path}, {is:?}");
        let rest = matches!(is, Is::Rest);
        let path = if rest { format!("{path}/message:send") } else { (*path).to_owned() };
        let answer = proxy.ask(post(&path, CALL));
        if matches!(is, Is::Nothing) {
            assert!(answer.complete && answer.text() == ERROR, "{says}: {answer:?}");
            continue;
        }
        let got = Got { status: answer.status(), text: answer.text(), complete: answer.complete };
        check(&says, Asked { rest, stream: false }, Becomes::Fault, &got);
    }
}
