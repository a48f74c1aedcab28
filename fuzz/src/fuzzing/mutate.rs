//! Changes to inputs that keep their shape: JSON stays nearly JSON, heads stay heads, streams stay streams. A part of
//! all changes is libFuzzer's own, for what no grammar has in it.

use fastrand::Rng;
use libfuzzer_sys::fuzzer_mutate;

use super::case::{Fields, KNOBS, UNIT};
use crate::rules_support::grammar::{Change, NAMES, SCALARS, apply, places};
use crate::rules_support::invariants::MARKER;

const HEADERS: &[&str] = &[
    "content-type: application/json",
    "content-type: application/json; charset=utf-8",
    "content-type: application/problem+json",
    "content-type: text/html",
    "content-type: text/event-stream",
    "content-type: application/x-ndjson",
    "accept: text/event-stream",
    "a2a-version: 1.0",
    "a2a-version: 0.3",
    "a2a-version: 2.0",
    "a2a-version:",
    "retry-after: 5",
    "retry-after: Tue, 01 Dec 2026 00:00:00 GMT",
    "www-authenticate: Bearer",
    "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"a\"",
    "etag: \"1\"",
    "set-cookie: s=zz@marker.example",
    "x-tenant: zz@marker.example",
    "x-request-id: 7",
    "content-length: 10",
    "content-encoding: br",
    "content-encoding: identity",
    "content-language: en",
    "cache-control: no-store",
    "server: zz@marker.example",
    "link: <https://zz@marker.example>",
    "trailer: x",
];
const STATUSES: &[&str] = &[
    "200", "201", "202", "204", "304", "400", "401", "403", "404", "405", "407", "409", "410", "413", "415",
    "422", "429", "500", "501", "502", "503", "504",
];
const LINES: &[&str] = &[
    "POST /a2a",
    "GET /a2a",
    "POST /a2a/",
    "GET /rest/tasks/t-1",
    "HEAD /rest/tasks/t-1",
    "GET /rest/tasks",
    "GET /rest/tasks/a%2Fb?historyLength=3",
    "POST /rest/tasks/t-1:cancel",
    "POST /rest/tasks/t-1:subscribe",
    "GET /rest/tasks/t-1:subscribe",
    "POST /rest/message:send",
    "POST /rest/message:stream",
    "GET /rest/acme/tasks/t-1",
    "DELETE /rest/tasks/t-1/pushNotificationConfigs/c",
    "GET /rest/tasks/t-1/pushNotificationConfigs",
    "GET /rest/extendedAgentCard",
    "POST /rest/nothing",
];
const INTERFACES: &[&str] = &[
    "JSONRPC /a2a 1.0",
    "JSONRPC /a2a 1.0,0.3",
    "HTTP+JSON /rest 1.0",
    "HTTP+JSON /rest 1.0,0.3",
    "HTTP+JSON / 0.3",
];
const METHODS: &[&str] = &[
    "GetTask",
    "CancelTask",
    "ListTasks",
    "SendMessage",
    "SendStreamingMessage",
    "SubscribeToTask",
    "GetExtendedAgentCard",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "tasks/get",
    "tasks/cancel",
    "message/send",
    "message/stream",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "nope",
];
/// More names than the property tests use: of requests, cards and Task events.
const MORE_NAMES: &[&str] = &[
    "params",
    "method",
    "message",
    "taskId",
    "task_id",
    "TaskID",
    "contextId",
    "messageId",
    "parts",
    "Params",
    "Method",
    "MESSAGE",
    "ta\\u0073kId",
    "pushNotificationConfigId",
    "pageSize",
    "task",
    "statusUpdate",
    "kind",
    "url",
    "supportedInterfaces",
    "additionalInterfaces",
    "protocolBinding",
    "protocolVersion",
    "transport",
    "preferredTransport",
    "signatures",
    "requested",
    "retryDelay",
    "ctx",
    "input",
    "instance",
];
const STREAM_LINES: &[&[u8]] = &[
    b"data: ",
    b"data:",
    b"data",
    b"id: 4",
    b"event: error",
    b"event: message",
    b"retry: 50",
    b": keep",
    b":",
    b"\xef\xbb\xbf",
    b"datax: 1",
    b"event",
    b"id",
    b"data: [DONE]",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\r\r",
    b"\r\n\r\n",
];

fn pick<'a, T: ?Sized>(rng: &mut Rng, list: &[&'a T]) -> &'a T {
    list[rng.usize(..list.len())]
}

fn scalar(rng: &mut Rng) -> String {
    match rng.u8(..12) {
        0 => format!("\"{}\"", pick(rng, METHODS)),
        1 | 2 => format!("\"{MARKER}\""),
        3 => rng.i64(..).to_string(),
        4 => format!("{}.0", -32001 - rng.i64(..9)),
        5 => (-32000 - rng.i64(..704)).to_string(),
        6 => format!("\"{}\"", char::from(UNIT)),
        7 => format!("\"{}\"", pick(rng, NAMES)),
        _ => pick(rng, SCALARS).to_owned(),
    }
}

fn name(rng: &mut Rng) -> &'static str {
    if rng.bool() { pick(rng, NAMES) } else { pick(rng, MORE_NAMES) }
}

/// One change to a JSON text.
fn json(text: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.usize(..);
    let found = places(text);
    let value =
        |rng: &mut Rng| (!found.values.is_empty()).then(|| found.values[rng.usize(..found.values.len())]);
    let bounded =
        |(a, b): (usize, usize), text: &[u8]| a.min(text.len())..b.min(text.len()).max(a.min(text.len()));
    match rng.u8(..24) {
        0..=4 => apply(text, &Change::Value(at, scalar(rng))),
        5..=7 => apply(text, &Change::Member(at, name(rng), scalar(rng))),
        8 | 9 => apply(text, &Change::Rename(at, name(rng))),
        10 => apply(text, &Change::Byte(at, rng.u8(..))),
        11 if rng.u8(..4) == 0 => apply(text, &Change::Cut(at)),
        11 | 12 => {
            let around = [("\u{feff}", ""), ("", "{}"), ("[", "]"), (" \n", "\n"), ("", ","), ("\t", " ")];
            let (before, after) = around[rng.usize(..around.len())];
            apply(text, &Change::Around(before, after));
        }
        // A member once more, with another value.
        13 if !found.names.is_empty() && !found.objects.is_empty() => {
            let span = bounded(found.names[rng.usize(..found.names.len())], text);
            let twin = [&text[span], b":", scalar(rng).as_bytes(), b","].concat();
            let at = found.objects[rng.usize(..found.objects.len())].min(text.len());
            text.splice(at..at, twin);
        }
        // A name or a text written with an escape.
        14 | 15 => {
            let all: Vec<(usize, usize)> = found.names.iter().chain(&found.values).copied().collect();
            let Some(&(from, to)) = all.get(rng.usize(..all.len().max(1))) else { return };
            if to.min(text.len()) > from + 2 && text[from] == b'"' {
                let at = rng.usize(from + 1..to.min(text.len()) - 1);
                if text[at].is_ascii_alphanumeric() && text[at - 1] != b'\\' {
                    let escape = format!("\\u{:04x}", text[at]);
                    text.splice(at..=at, escape.into_bytes());
                }
            }
        }
        // A value in place of another.
        16 => {
            if let (Some(from), Some(to)) = (value(rng), value(rng)) {
                let copy = text[bounded(from, text)].to_vec();
                text.splice(bounded(to, text), copy);
            }
        }
        // A value in a list or an object.
        17 | 18 => {
            if let Some(span) = value(rng) {
                let span = bounded(span, text);
                let inner = text[span.clone()].to_vec();
                let outer = if rng.bool() {
                    [b"[", inner.as_slice(), b"]"].concat()
                } else {
                    [b"{\"", name(rng).as_bytes(), b"\":", &inner, b"}"].concat()
                };
                text.splice(span, outer);
            }
        }
        // A member less, roughly.
        19 | 20 if !found.names.is_empty() => {
            let (from, to) = found.names[rng.usize(..found.names.len())];
            let end = found.values.iter().filter(|(a, _)| *a >= to).map(|(_, b)| *b).min().unwrap_or(to);
            let end = if text.get(end) == Some(&b',') { end + 1 } else { end };
            text.drain(bounded((from, end), text));
        }
        21 => {
            if let Some((at, _)) = value(rng) {
                let blank = [" ", "\n", "\t", "\r\n", "\u{a0}", "/**/"][rng.usize(..6)];
                let at = at.min(text.len());
                text.splice(at..at, blank.bytes());
            }
        }
        22 if rng.u8(..4) == 0 => {
            let depth = if rng.bool() { 127 } else { 130 };
            let deep = "[".repeat(depth) + &"]".repeat(depth);
            apply(text, &Change::Value(at, deep));
        }
        // Something in the middle of a text.
        _ => {
            if let Some((from, to)) = value(rng)
                && text.get(from) == Some(&b'"')
            {
                let at = rng.usize(from + 1..to.max(from + 2)).min(text.len());
                let odd: &[u8] = [
                    &b"\\ud800"[..],
                    b"\\ud83d\\ude00",
                    b"\\u0000",
                    b"\x01",
                    b"\xff",
                    b"\xc3\xa9",
                    b"\\",
                    b"\"",
                    b"\\/",
                    b"\xed\xa0\x80",
                    b" tenant ",
                    b"@acme.example",
                    b"\x1f",
                    b"\xef\xbb\xbf",
                ][rng.usize(..14)];
                text.splice(at..at, odd.iter().copied());
            }
        }
    }
}

/// One change to a head: its first lines and its headers.
fn head(text: &mut Vec<u8>, firsts: &[&[&'static str]], rng: &mut Rng) {
    let mut lines: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    match rng.u8(..6) {
        0 | 1 => {
            let n = rng.usize(..firsts.len());
            if n < lines.len() {
                lines[n] = pick(rng, firsts[n]).into();
            }
        }
        2 if lines.len() > firsts.len() => _ = lines.remove(rng.usize(firsts.len()..lines.len())),
        3 if lines.len() > firsts.len() => {
            let n = rng.usize(firsts.len()..lines.len());
            lines[n] = pick(rng, HEADERS).into();
        }
        _ => lines.push(pick(rng, HEADERS).into()),
    }
    *text = lines.join(&b'\n');
}

/// One change to a stream of events.
fn stream(text: &mut Vec<u8>, rng: &mut Rng) {
    let begins: Vec<usize> = std::iter::once(0)
        .chain(text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1))
        .collect();
    let at = begins[rng.usize(..begins.len())].min(text.len());
    match rng.u8(..10) {
        // In the JSON of one line.
        0..=4 => {
            let end =
                text[at..].iter().position(|b| matches!(b, b'\n' | b'\r')).map_or(text.len(), |n| at + n);
            let from = text[at..end].iter().position(|b| *b == b'{').map_or(at, |n| at + n);
            let mut part = text[from..end].to_vec();
            json(&mut part, rng);
            text.splice(from..end, part);
        }
        5 => _ = text.splice(at..at, pick(rng, STREAM_LINES).iter().copied()),
        6 => {
            let line = [pick(rng, STREAM_LINES), b"\n"].concat();
            text.splice(at..at, line);
        }
        // A line end of another kind.
        7 => {
            let ends: Vec<usize> = (0..text.len()).filter(|i| matches!(text[*i], b'\n' | b'\r')).collect();
            if let Some(at) = ends.get(rng.usize(..ends.len().max(1))) {
                let end: &[u8] = [&b"\n"[..], b"\r", b"\r\n", b"\n\n", b""][rng.usize(..5)];
                text.splice(*at..=*at, end.iter().copied());
            }
        }
        // An event once more.
        8 => {
            let to = begins[rng.usize(..begins.len())].min(text.len());
            let copy = text[at.min(to)..at.max(to)].to_vec();
            text.splice(at..at, copy);
        }
        // One data line in two.
        _ => {
            let middle = rng.usize(..=text.len());
            text.splice(middle..middle, b"\ndata: ".iter().copied());
        }
    }
}

/// libFuzzer's own changes, to one text.
fn any(text: &mut Vec<u8>, room: usize) {
    let size = text.len();
    text.resize(size + room.clamp(1, 64), 0);
    let max = text.len();
    let size = fuzzer_mutate(text, size, max);
    text.truncate(size);
}

fn put(data: &mut [u8], max_size: usize, new: &[u8]) -> usize {
    let size = new.len().min(max_size).min(data.len());
    data[..size].copy_from_slice(&new[..size]);
    size
}

/// For inputs that are one JSON document.
pub fn document(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    if rng.u8(..5) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut text = data[..size].to_vec();
    for _ in 0..rng.u8(1..4) {
        json(&mut text, &mut rng);
    }
    put(data, max_size, &text)
}

/// What the last text of a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Json,
    Stream,
    /// There is no answer: the target makes its own.
    None,
}

/// For inputs that are a case (see [`super::case`]).
pub fn case(body: Body, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    if rng.u8(..12) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut fields = Fields::read(&data[..size]);
    let room = max_size.saturating_sub(size);
    for _ in 0..rng.u8(1..4) {
        let [request_head, request, answer_head, answer] = &mut fields.texts;
        let which = rng.u8(..16);
        match (which, body) {
            (0, _) => fields.knobs[rng.usize(..KNOBS)] = rng.u8(..),
            (1, _) => fields.knobs[rng.usize(..KNOBS)] = 0,
            (2, _) => head(request_head, &[INTERFACES, LINES], &mut rng),
            (3 | 4, Body::Json | Body::Stream) => head(answer_head, &[STATUSES], &mut rng),
            (5 | 6, _) => json(request, &mut rng),
            (7.., Body::None) => json(request, &mut rng),
            (7, _) => any(answer, room),
            (_, Body::Json) => json(answer, &mut rng),
            (_, Body::Stream) => stream(answer, &mut rng),
            (3 | 4, Body::None) => any(request, room),
        }
    }
    put(data, max_size, &fields.write())
}

/// For inputs that are some lines and then a JSON document, a blank line between them.
pub fn lines_and_document(
    firsts: &[&[&'static str]],
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    if rng.u8(..8) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let input = &data[..size];
    let at = input.windows(2).position(|w| w == b"\n\n").unwrap_or(input.len());
    let mut lines = input[..at].to_vec();
    let mut document = input.get(at + 2..).unwrap_or_default().to_vec();
    for _ in 0..rng.u8(1..4) {
        if rng.u8(..5) == 0 { head(&mut lines, firsts, &mut rng) } else { json(&mut document, &mut rng) }
    }
    put(data, max_size, &[&lines, &b"\n\n"[..], &document].concat())
}

/// For inputs that are lines of TOML made of these.
pub fn toml(
    lines: &[String],
    values: &[&'static str],
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    if rng.u8(..6) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut text: Vec<Vec<u8>> = data[..size].split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..rng.u8(1..4) {
        let at = rng.usize(..text.len().max(1)).min(text.len().saturating_sub(1));
        match rng.u8(..8) {
            0..=2 => {
                let line = &lines[rng.usize(..lines.len())];
                text.insert((at + 1).min(text.len()), line.clone().into_bytes());
            }
            3..=5 => {
                // Another value for the key of this line.
                if let Some(line) = text.get_mut(at)
                    && let Some(equals) = line.iter().position(|b| *b == b'=')
                {
                    line.truncate(equals + 1);
                    line.extend_from_slice(format!(" {}", pick(&mut rng, values)).as_bytes());
                }
            }
            6 if text.len() > 1 => _ = text.remove(at),
            _ => {
                if let Some(line) = text.get(at).cloned() {
                    text.insert(rng.usize(..=text.len()), line);
                }
            }
        }
    }
    put(data, max_size, &text.join(&b'\n'))
}
