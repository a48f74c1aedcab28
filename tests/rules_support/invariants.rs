//! What must hold for any request and any answer, each told by a reading of its own, not by the proxy's. The property
//! tests and the fuzz targets hold the same things to be true.

use a2a_errata::normalize::{Binding, Mode, Target, Verdict};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    Answer, Ending, Finish, Host, Order, ROOM_ALWAYS, Request, Seen, Split, faults_in_any_order, faults_of,
};
use super::{reading, strict};

/// Bodies up to this length are judged whole (F-9).
const JUDGED_WHOLE: usize = 4096;

/// Everything here, of one request and one answer; `cuts` are other pieces for the request and the answer.
///
/// # Errors
/// The first thing that does not hold.
pub fn all(host: &Host, request: &Request, answer: &Answer, cuts: (&Split, &Split)) -> Result<(), String> {
    let seen = host.run(request, answer);
    let hold = |what: &str, result: Result<(), String>| {
        result.map_err(|why| format!("{what}: {why}\nstatus {}, body {:?}", seen.status, seen.text()))
    };
    hold("E-1, passed or valid", passed_or_valid(host, request, answer, &seen))?;
    hold("S-2, events", events_in_shape(host, request, answer, &seen))?;
    hold("C-1, cap", within_the_cap(host, &seen))?;
    hold("C-3, held", holds_little(host, answer, &seen))?;
    hold("D-3, headers", no_header_of_the_hosts(host, &seen))?;
    hold("Q-1, id", never_an_id_of_others(host, request, &seen))?;
    hold("O-1, one answer", one_not_found(host, request, answer, &seen))?;
    hold("limits.held_bytes, no room", no_room(host, request, answer, &seen))?;
    hold("F-9, split", same_in_any_split(host, request, answer, cuts, &seen))?;
    hold("E-5, twice", twice_is_once(host, request, answer, &seen))?;
    hold("D-1, marker", no_marker_leaves(host, request, answer, &seen))?;
    hold("I-5, observed", observed_untouched(host, request, answer))
}

/// Fails with this text unless `holds`.
fn expect(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

pub fn binding(host: &Host) -> Binding {
    match &host.target {
        Target::Interface(i) | Target::Likely(i) => i.binding,
        Target::Unknown => Binding::JsonRpc,
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let media = headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        media.as_str(),
        "text/event-stream"
            | "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/json-lines"
    )
}

/// A 0.3 body of the HTTP+JSON binding has a shape of its own (I-3).
fn is_merged(host: &Host) -> bool {
    host.policy.normalize_0_3 && binding(host) == Binding::HttpJson
}

/// An escape for one half of a surrogate pair in the request's own id is echoed as it came.
fn echoes_odd_text(request: &Request) -> bool {
    let text = String::from_utf8_lossy(&reading::as_utf8(&request.body)).to_ascii_lowercase();
    text.contains("\\ud") || coded(&request.headers)
}

fn coded(headers: &HeaderMap) -> bool {
    headers.get_all("content-encoding").iter().any(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The body that a client reads: what is not coded.
fn plain<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<&'a [u8]> {
    (!coded(headers)).then_some(body)
}

/// Whether an `error` member makes an error of its body. A redirect is judged only for what JSON-RPC it says: no rule
/// makes an error of another (F-5, I-4).
fn is_error(status: u16, is_rpc: bool, error: &Value) -> bool {
    !error.is_null() && (is_rpc || !(300..400).contains(&status) || error.get("code").is_some())
}

/// Passed bytes or a valid answer; never anything between. An error that passes is in shape, whoever reads it: its
/// first `error` member, its last, or any other.
pub fn passed_or_valid(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> Result<(), String> {
    let cap = host.policy.response_cap_bytes;
    match (answer.ending, seen.finish) {
        (Ending::End, Finish::End | Finish::PassRest) | (Ending::Fail(_), Finish::End | Finish::Abort) => {}
        // What flows and has to hold back what there is no room for.
        (Ending::End, Finish::Abort)
            if seen.shed.is_some()
                && is_stream(&answer.headers)
                && (seen.host_head || !seen.headers.contains_key("content-length")) => {}
        // A stream in a content coding that breaks has no clean end, whatever its host thinks (C-5).
        (Ending::End, Finish::Abort) if coded(&answer.headers) && seen.host_head => {}
        // What follows the answer of ours is nobody's to see.
        (ending, finish) => return Err(format!("{ending:?} became {finish:?}")),
    }
    if seen.unbound || request.method == Method::HEAD {
        return Ok(());
    }
    if seen.host_head {
        if is_stream(&answer.headers) && answer.status < 300 {
            return Ok(()); // see `events_in_shape`
        }
        expect(seen.finish == Finish::Abort || seen.passed(answer), || {
            "the head passed, the body did not".into()
        })?;
        let has_body = !matches!(answer.status, 204 | 304) && answer.status >= 200;
        let Some(body) = plain(&answer.headers, &answer.body) else { return Ok(()) };
        let whole = body.len() <= JUDGED_WHOLE && matches!(answer.ending, Ending::End);
        if !has_body || !whole {
            return Ok(());
        }
        let is_post = request.method == Method::POST;
        return match binding(host) {
            Binding::JsonRpc if is_post || answer.status >= 400 => {
                let members = reading::members(&reading::as_utf8(body)).unwrap_or_default();
                let is_rpc = members.iter().any(|(name, _)| name == "jsonrpc");
                let has_error = members
                    .iter()
                    .any(|(name, value)| name == "error" && is_error(answer.status, is_rpc, value));
                let valid = || faults_in_any_order(body, Binding::JsonRpc, cap);
                if has_error { valid().map_err(|why| format!("an error passed: {why}")) } else { Ok(()) }
            }
            Binding::HttpJson if answer.status >= 400 && !is_merged(host) => {
                faults_in_any_order(body, Binding::HttpJson, cap)
                    .map_err(|why| format!("an error passed: {why}"))
            }
            Binding::JsonRpc | Binding::HttpJson => Ok(()),
        };
    }
    if seen.body.is_empty() || !seen.headers.contains_key("content-length") {
        return Ok(()); // a stream goes on: see `events_in_shape`
    }
    let length = seen.body.len().to_string();
    expect(seen.header("content-length") == Some(length), || "the length is another".into())?;
    let (body, media) = match seen.body.strip_prefix(b"data: ").and_then(|b| b.strip_suffix(b"\n\n")) {
        Some(event) => (event, "text/event-stream"),
        None => (seen.body.as_slice(), "application/json"),
    };
    expect(seen.header("content-type").as_deref() == Some(media), || "another media type".into())?;
    let valid =
        if is_merged(host) { strict::parse(body).map(|_| ()) } else { faults_of(body, binding(host), cap) };
    if echoes_odd_text(request) { Ok(()) } else { valid }
}

/// One event of a stream as a client reads it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
}

/// The events of a stream, read in one piece, as the WHATWG algorithm is written.
pub fn events(stream: &[u8]) -> Vec<Event> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut lines = Vec::new();
    let mut rest = stream;
    while let Some(at) = rest.iter().position(|b| matches!(b, b'\r' | b'\n')) {
        lines.push(&rest[..at]);
        let end = if rest[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 };
        rest = &rest[end..];
    }
    let mut found = Vec::new();
    let (mut name, mut data) = (Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            if data.pop().is_some() {
                found.push(Event { name: std::mem::take(&mut name), data: std::mem::take(&mut data) });
            }
            name.clear();
            continue;
        }
        let at = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(at + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..at] {
            b"event" => name = value.to_vec(),
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            _ => {}
        }
    }
    found
}

/// A JSON document, or what is too long to tell (F-9).
fn begins_as_document(body: &[u8]) -> bool {
    let blank = |b: &u8| b.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(b);
    let document = body.iter().position(|b| !blank(b)).and_then(|at| body.get(at..)).unwrap_or_default();
    matches!(document.first(), Some(b'{' | b'['))
        && (body.len() > JUDGED_WHOLE || serde_json::from_slice::<Value>(document).is_ok())
}

/// No event that a client takes for an error leaves in another shape than ours: its first member of `result` and
/// `error` that is not null is `error`.
pub fn events_in_shape(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> Result<(), String> {
    // A 1xx is no answer.
    if seen.unbound
        || !is_stream(&seen.headers)
        || !(200..300).contains(&seen.status)
        || request.method == Method::HEAD
    {
        return Ok(());
    }
    if coded(&seen.headers) || echoes_odd_text(request) || is_merged(host) || matches!(seen.status, 204 | 304)
    {
        return Ok(());
    }
    if binding(host) == Binding::JsonRpc && request.method != Method::POST {
        return Ok(()); // no call
    }
    let of_lines =
        !seen.header("content-type").unwrap_or_default().to_ascii_lowercase().contains("event-stream");
    let events: Vec<Event> = if of_lines {
        let lines = seen.body.split(|b| *b == b'\n');
        lines.map(|line| Event { name: Vec::new(), data: line.to_vec() }).collect()
    } else if seen.host_head && begins_as_document(&answer.body) {
        return Ok(()); // one JSON document in place of a stream (S-1)
    } else {
        events(&seen.body)
    };
    let binding = binding(host);
    for event in events {
        let Some(members) = reading::members(&event.data) else { continue };
        let said = members.iter().find(|(name, value)| {
            !value.is_null()
                && match binding {
                    Binding::JsonRpc => name == "result" || name == "error",
                    Binding::HttpJson => {
                        matches!(name.as_str(), "error" | "result")
                            || value.is_object()
                                && matches!(
                                    name.as_str(),
                                    "task"
                                        | "message"
                                        | "statusUpdate"
                                        | "artifactUpdate"
                                        | "status_update"
                                        | "artifact_update"
                                )
                    }
                }
        });
        if said.is_none_or(|(name, _)| name != "error") {
            continue;
        }
        // A long event of this binding that has not begun as an error is none (F-9).
        let begins = event.data.get(..JUDGED_WHOLE / 2).filter(|_| event.data.len() > JUDGED_WHOLE);
        let says_so = |begin: &[u8]| begin.windows(5).any(|word| word == b"error");
        if binding == Binding::HttpJson && event.name != b"error" && begins.is_some_and(|b| !says_so(b)) {
            continue;
        }
        // C-1 binds the payload.
        faults_in_any_order(&event.data, binding, host.policy.response_cap_bytes)
            .map_err(|why| format!("{why}, in the event {:?}", String::from_utf8_lossy(&event.data)))?;
        if binding == Binding::HttpJson && !of_lines {
            expect(event.name == b"error", || format!("the event of an error is called {:?}", event.name))?;
        }
    }
    Ok(())
}

/// What is written is never over the cap (C-1).
pub fn within_the_cap(host: &Host, seen: &Seen) -> Result<(), String> {
    let cap = host.policy.response_cap_bytes;
    let bound = match seen.outcome.verdict {
        Verdict::Passed => return Ok(()),
        Verdict::Conformant
        | Verdict::Rewritten
        | Verdict::Overflow
        | Verdict::Synthesized
        | Verdict::Refused => cap,
    };
    if seen.unbound || is_stream(&seen.headers) {
        return Ok(());
    }
    expect(seen.body.len() <= bound, || format!("{} bytes for a cap of {bound}", seen.body.len()))
}

/// Where there is no room to hold an answer it is given up: a complete 503 in the interface's shape, unless its head or
/// what was read of it decides by itself (F-1, O-3); in a stream that flows an error event, or a visible end.
pub fn no_room(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> Result<(), String> {
    let Some(still_held) = seen.shed else { return Ok(()) };
    let Target::Interface(_) = host.target else { return Ok(()) };
    if host.policy.mode == Mode::Observe || request.method == Method::HEAD {
        return Ok(());
    }
    // A redirect is no error by its status (F-5): it may have to pass.
    let redirects = (300..400).contains(&answer.status);
    expect(redirects || still_held <= ROOM_ALWAYS, || format!("{still_held} bytes are held all the same"))?;
    if seen.host_head {
        return expect(redirects || is_stream(&answer.headers), || "what had to be held passed".into());
    }
    let decided = redirects || seen.outcome.not_found || matches!(answer.status, 401 | 403 | 407 | 413 | 429);
    if decided || seen.headers.get("content-type").is_none_or(|v| v != "application/json") {
        return Ok(());
    }
    expect(seen.finish == Finish::End && seen.status == 503, || {
        format!("{}, {:?}", seen.status, seen.finish)
    })?;
    expect(seen.outcome.verdict == Verdict::Synthesized, || format!("{:?}", seen.outcome.verdict))?;
    expect(seen.header("retry-after").as_deref() == Some("1"), || "no Retry-After".into())?;
    if is_merged(host) || echoes_odd_text(request) {
        return Ok(());
    }
    let error = strict::parse(&seen.body)?["error"].clone();
    let is = match binding(host) {
        Binding::JsonRpc => error["code"] == -32603,
        Binding::HttpJson => error["code"] == 503 && error["status"] == "UNAVAILABLE",
    };
    expect(is, || format!("the error {error}"))
}

/// What is held back of an answer is bounded by the intake, whatever comes (C-3).
pub fn holds_little(host: &Host, answer: &Answer, seen: &Seen) -> Result<(), String> {
    if host.order == Order::AnswerFirst {
        return Ok(()); // what came before the request had been read is for the shell to bound
    }
    let piece = answer.split.pieces(&answer.body).iter().map(|p| p.len()).max().unwrap_or(0);
    // As it came and decoded, the piece that took it over, and what one step of decoding gives.
    let bound = 2 * (host.policy.intake_bytes + piece) + 16 * 1024;
    expect(seen.most_held <= bound, || format!("{} bytes held for a bound of {bound}", seen.most_held))
}

/// No header of a host's that may tell something is on an answer of ours (D-3, C-4).
pub fn no_header_of_the_hosts(host: &Host, seen: &Seen) -> Result<(), String> {
    let ours = matches!(seen.outcome.verdict, Verdict::Rewritten | Verdict::Overflow | Verdict::Synthesized);
    if seen.host_head || seen.unbound || !ours || !seen.headers.contains_key("content-length") {
        return Ok(());
    }
    let allowed = |name: &str| {
        matches!(
            name,
            "content-type"
                | "content-length"
                | "www-authenticate"
                | "retry-after"
                | "allow"
                | "cache-control"
                | "vary"
                | "date"
                | "a2a-version"
                | "a2a-extensions"
                | "traceparent"
                | "tracestate"
                | "traceresponse"
        ) || name.starts_with("ratelimit")
            || name.starts_with("access-control-")
    };
    let added = &host.policy.disclosure.headers;
    let kept = &host.policy.oracle.keep_headers;
    for name in seen.headers.keys() {
        let listed = added.contains(name) || kept.contains(name);
        expect(allowed(name.as_str()) || listed, || format!("the header {name}"))?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct WithId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// The `id` of a document as it is spelled.
fn id_of(document: &[u8]) -> Option<String> {
    let read: WithId<'_> = serde_json::from_slice(document).ok()?;
    read.id.map(|raw| raw.get().to_owned())
}

/// The id of an answer of ours is the request's own, digit by digit, or null; of one that passes as an
/// error, the same value.
pub fn never_an_id_of_others(host: &Host, request: &Request, seen: &Seen) -> Result<(), String> {
    if binding(host) != Binding::JsonRpc || seen.unbound || coded(&request.headers) {
        return Ok(());
    }
    let asked = reading::as_utf8(&request.body);
    let theirs = match strict::parse(&asked) {
        Ok(Value::Object(call)) => match call.get("id") {
            Some(Value::String(_) | Value::Number(_)) => id_of(&asked),
            _ => Some("null".into()),
        },
        Ok(_) => Some("null".into()),
        Err(_) => None,
    };
    if seen.host_head {
        let Ok(answer) = strict::parse(&seen.body) else { return Ok(()) };
        let judged = seen.body.len() <= JUDGED_WHOLE && seen.finish == Finish::End && !coded(&seen.headers);
        let is_rpc = answer.get("jsonrpc").is_some();
        let is_error = answer.get("error").is_some_and(|error| is_error(seen.status, is_rpc, error));
        if !judged || is_stream(&seen.headers) || !is_error || request.method != Method::POST {
            return Ok(());
        }
        return match theirs {
            Some(id) if seen.status >= 200 && !matches!(seen.status, 204 | 304) => {
                let want: Value = serde_json::from_str(&id).map_err(|e| e.to_string())?;
                expect(answer["id"] == want, || format!("an error with the id {} passed", answer["id"]))
            }
            _ => Ok(()),
        };
    }
    if !seen.headers.contains_key("content-length") {
        return Ok(());
    }
    let body = seen.body.strip_prefix(b"data: ").unwrap_or(&seen.body);
    let Some(id) = id_of(body) else { return Ok(()) };
    match theirs {
        // An id that no answer has room for is left out (O-2, C-2).
        Some(want) if id == "null" => {
            expect(want == "null" || want.len() > 2000, || "the id is missing".into())
        }
        Some(want) => expect(id == want, || format!("the id is {want}, not {id}")),
        None if id == "null" => Ok(()),
        None => {
            let found = asked.windows(id.len()).any(|w| w == id.as_bytes());
            expect(found, || format!("the id {id} is nowhere in the request"))
        }
    }
}

/// The fixed TASK_NOT_FOUND for a request, to the last byte and header: what a bare 404 becomes.
fn fixed(host: &Host, request: &Request) -> Seen {
    let bare = Answer::raw(404, "").set("content-type", None);
    host.clone().order(Order::RequestFirst).run(request, &bare)
}

/// O-1: whatever collapses is the one fixed answer; and what must collapse does (O-3).
pub fn one_not_found(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> Result<(), String> {
    if host.policy.mode == Mode::Observe || seen.unbound {
        return Ok(());
    }
    let must = must_collapse(host, request, answer, seen);
    expect(seen.outcome.not_found || !must, || "it must be the fixed TASK_NOT_FOUND".into())?;
    if seen.outcome.not_found && host.policy.oracle.keep_headers.is_empty() {
        let want = fixed(host, request);
        expect(want.outcome.not_found, || "a bare 404 does not collapse where this does".into())?;
        expect(want.visible() == seen.visible(), || format!("a bare 404 becomes {:?}", want.visible()))?;
    }
    Ok(())
}

/// O-3, of the plainest cases only: a 403 to a call that beyond doubt names a task, and that nothing explains; and a
/// 404 or 410 that was given up before it could explain itself.
fn must_collapse(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> bool {
    let Target::Interface(interface) = &host.target else { return false };
    let at_1_0 = request.headers.get_all("a2a-version").iter().all(|v| v == "1.0")
        && request.headers.contains_key("a2a-version")
        && interface.versions.iter().all(|v| v == "1.0");
    let given_up = seen.shed.is_some() && matches!(answer.status, 404 | 410);
    if !at_1_0 || !(answer.status == 403 || given_up) || !names_task(interface.binding, request) {
        return false;
    }
    if given_up {
        return true;
    }
    let lower = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase().replace('\0', "");
    let challenged =
        answer.headers.get_all("www-authenticate").iter().any(|v| lower(v.as_bytes()).contains("scope"));
    let body = lower(&answer.body);
    let explains = ["version", "3200", "\\u"].iter().any(|word| body.contains(word));
    !challenged && !explains && !coded(&answer.headers)
}

/// The call names a task beyond doubt.
pub fn names_task(binding: Binding, request: &Request) -> bool {
    if coded(&request.headers) {
        return false;
    }
    let named = |value: &Value| value.as_str().is_some_and(|id| !id.is_empty());
    match binding {
        Binding::JsonRpc if request.method == Method::POST => {
            let Ok(call) = strict::parse(&request.body) else { return false };
            let params = &call["params"];
            match call["method"].as_str().unwrap_or_default() {
                "GetTask" | "CancelTask" | "SubscribeToTask" => named(&params["id"]),
                "CreateTaskPushNotificationConfig"
                | "GetTaskPushNotificationConfig"
                | "ListTaskPushNotificationConfigs"
                | "DeleteTaskPushNotificationConfig" => named(&params["taskId"]),
                "SendMessage" | "SendStreamingMessage" => named(&params["message"]["taskId"]),
                _ => false,
            }
        }
        Binding::JsonRpc => false,
        Binding::HttpJson => {
            let plain =
                |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            request.path.strip_prefix("/rest/tasks/").is_some_and(plain) && request.method == Method::GET
        }
    }
}

/// The same whatever the split of either side's bytes, and whoever ends first (F-9).
pub fn same_in_any_split(
    host: &Host,
    request: &Request,
    answer: &Answer,
    (cut_request, cut_answer): (&Split, &Split),
    first: &Seen,
) -> Result<(), String> {
    let (whole_request, whole) = (request, answer);
    let (request, answer) =
        (request.clone().split(cut_request.clone()), answer.clone().split(cut_answer.clone()));
    for order in [Order::RequestFirst, Order::AnswerFirst] {
        let host = host.clone().order(order);
        // An answer that waits for its request's end is held for longer, and may be given up for that.
        let want = match answer.no_room_from {
            Some(_) => host.run(whole_request, whole).visible(),
            None => first.visible(),
        };
        let seen = host.run(&request, &answer).visible();
        expect(seen == want, || format!("{order:?}, {cut_answer:?} and {cut_request:?}: {seen:?}"))?;
    }
    Ok(())
}

/// Our answer, coming from a host, is conformant; TASK_NOT_FOUND becomes itself (E-5, E-9).
pub fn twice_is_once(host: &Host, request: &Request, answer: &Answer, once: &Seen) -> Result<(), String> {
    let whole = matches!(answer.ending, Ending::End) && once.headers.contains_key("content-length");
    if once.host_head || once.unbound || once.body.is_empty() || !whole || is_stream(&once.headers) {
        return Ok(());
    }
    let cap = host.policy.response_cap_bytes;
    if is_merged(host) || faults_of(&once.body, binding(host), cap).is_err() {
        return Ok(());
    }
    // On a task's route a 404 or 410 collapses unless a JSON-RPC body explains it (O-3), and ours is none.
    let was_explained =
        matches!(answer.status, 404 | 410) || once.reason().as_deref() == Some("METHOD_NOT_FOUND");
    if binding(host) == Binding::HttpJson && was_explained && !once.outcome.not_found {
        return Ok(());
    }
    let again =
        Answer { status: once.status, headers: once.headers.clone(), ..Answer::raw(200, once.body.clone()) };
    let twice = host.run(request, &again);
    expect(once.visible() == twice.visible(), || format!("twice it is {:?}", twice.visible()))?;
    match once.outcome.verdict {
        _ if once.outcome.not_found => expect(!twice.host_head, || "the fixed answer passed".into()),
        Verdict::Rewritten => {
            let verdict = twice.outcome.verdict;
            // Without a call of JSON-RPC's, a longer body flows before an error behind a long id is read (E-4, F-9).
            let flows =
                request.method != Method::POST && once.body.len() > 4096 && verdict == Verdict::Passed;
            expect(verdict == Verdict::Conformant || flows, || format!("what was written is {verdict:?}"))
        }
        _ => Ok(()),
    }
}

/// A text that hosts plant and no client may see: one that no message may hold, whatever is around it (D-1).
pub const MARKER: &str = "zz@marker.example";

/// Nothing of a host's marker text, wherever it stands in an error, reaches the client (D-1, D-2).
pub fn no_marker_leaves(host: &Host, request: &Request, answer: &Answer, seen: &Seen) -> Result<(), String> {
    let open = host.policy.disclosure.messages == a2a_errata::normalize::Messages::Upstream
        || !host.policy.disclosure.metadata_keys.is_empty()
        || !host.policy.disclosure.headers.is_empty();
    // What the request says itself may be echoed.
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(MARKER);
    let asked = said(&reading::as_utf8(&request.body))
        || said(request.path.as_bytes())
        || request.headers.values().any(|v| said(v.as_bytes()))
        || coded(&request.headers);
    if seen.host_head || seen.unbound || open || asked || is_stream(&answer.headers) {
        return Ok(());
    }
    // The allow-listed metadata and a valid profile are the host's own words by rule (D-2, E-8).
    let allowed =
        ["mediaType", "extension", "\"requested\"", "\"method\"", "\"field\"", "Struct", "supportedVersions"];
    let text = seen.text();
    expect(!text.contains(MARKER) || allowed.iter().any(|a| text.contains(a)), || "the marker left".into())
}

/// Observe mode touches nothing (I-5).
pub fn observed_untouched(host: &Host, request: &Request, answer: &Answer) -> Result<(), String> {
    let host = host.clone().policy(|p| p.mode = Mode::Observe);
    let seen = host.run(request, answer);
    let untouched = match answer.ending {
        Ending::End => seen.passed(answer),
        // What came before the host broke off.
        Ending::Fail(_) | Ending::Open => {
            seen.unbound || seen.host_head && answer.body.starts_with(&seen.body)
        }
    };
    expect(untouched, || format!("observed: {:?}", seen.visible()))
}
