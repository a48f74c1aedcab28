//! Streams of JSON-RPC: errors that come first, later, or in place of a stream (S-1 to S-4, O-1).

use super::{HELLO, TASK};
use crate::demo::{Answer, Call, Ending, Framing, Group, Scenario};
use crate::normalize::Rule::{C5, F1, F4, F6, F8, I4, O1, O3, Q1, S1, S2, S3};

fn stream() -> Call {
    Call::json_rpc("7", "SendStreamingMessage", HELLO).streaming()
}

fn subscribe() -> Call {
    Call::json_rpc("7", "SubscribeToTask", &format!(r#"{{"id":"{TASK}"}}"#)).streaming()
}

/// One event with a JSON-RPC error that echoes the id.
fn error(members: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{{{members}}}}}\n\n")
}

const WORKING: &str = "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"statusUpdate\":{\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n";
const REFUSAL: &str = r#""code":-32004,"message":"at /srv/stream.py: off for acme","data":{"tenant":"acme"}"#;

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, seen_at, call, answer| {
        Scenario::new(Group::Streams, name, title, seen_at, call, answer)
    };
    let not_found = |name, title, seen_at, answer| new(name, title, seen_at, subscribe(), answer).not_found();
    let untouched = |name, title, seen_at, body: String| {
        new(name, title, seen_at, stream(), Answer::stream(body)).rules(&[I4, S2])
    };
    vec![
        new("stream-error-first", "the first event is an error", "a2a-sdk 0.3", stream(), Answer::stream(error(REFUSAL)))
            .event(0, -32004, "UNSUPPORTED_OPERATION")
            .rules(&[S2]),
        new(
            "stream-error-later",
            "an error between two events, its id lost",
            "hosts whose model fails",
            stream(),
            Answer::stream(format!(
                "{WORKING}: still here\n\n{WORKING}id: 3\ndata: {}\n\n",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"db of acme is down","data":"/srv/db.py"}}"#
            )),
        )
        .event(2, -32603, "")
        .rules(&[S2, Q1]),
        not_found(
            "stream-unknown-task",
            "no such task, as plain JSON on a stream call",
            "a2a-sdk 1.0",
            Answer::error(r#""code":-32001,"message":"task not found: $TASK""#),
        )
        .rules(&[O1, S3]),
        not_found(
            "stream-gone-event",
            "no such task, as the first event",
            "a2a-sdk 0.3",
            Answer::stream(format!(": hi\n\n{}", error(r#""code":-32001,"message":"task not found: $TASK""#))),
        )
        .rules(&[O1, S3]),
        not_found(
            "stream-foreign-event",
            "somebody else's task: an envelope as the first event",
            "OpenWOP hosts",
            Answer::stream("event: error\ndata: {\"error\":\"run_forbidden\",\"message\":\"run $TASK belongs to acme\"}\n\n")
                .header("x-tenant", "acme")
                .header("etag", "\"acme\""),
        )
        .rules(&[O1, O3, F4]),
        not_found(
            "stream-foreign-403",
            "somebody else's task: 403 and a framework's body",
            "FastAPI",
            Answer::json(403, r#"{"detail":"task $TASK is owned by u-9"}"#),
        )
        .rules(&[O1, O3, S3]),
        new(
            "stream-foreign-later",
            "access is taken away while the stream runs",
            "hosts with short leases",
            subscribe(),
            Answer::stream(format!("{WORKING}{}", error(r#""code":-31403,"message":"acme took $TASK back""#))),
        )
        .event(1, -32001, "TASK_NOT_FOUND")
        .rules(&[O1, O3, S2]),
        new(
            "stream-html",
            "an HTML page in place of a stream",
            "Express",
            stream(),
            Answer::new(404, "text/html; charset=utf-8", "<pre>Cannot POST /acme</pre>"),
        )
        .event(0, -32601, "")
        .rules(&[S3, F8]),
        new(
            "stream-envelope",
            "an OpenWOP envelope in place of a stream",
            "OpenWOP hosts",
            stream(),
            Answer::envelope(422, "capability_required", "streaming of acme is off, see /srv/acme.toml", ""),
        )
        .event(0, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[S3, F4]),
        new(
            "stream-plain-json",
            "a plain JSON-RPC error: it stays one",
            "a2a-sdk 1.0",
            stream(),
            Answer::error(REFUSAL),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[S1]),
        new(
            "stream-401-event",
            "\"who are you?\" as the first event of a 200",
            "OpenWOP hosts",
            stream(),
            Answer::stream("data: {\"error\":\"unauthenticated\",\"message\":\"token of u-9 expired\"}\n\n"),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[S3, F4]),
        new(
            "stream-401",
            "the same as a status",
            "every host",
            stream(),
            Answer::envelope(401, "unauthenticated", "token of u-9 expired", ""),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[S3, F1]),
        new(
            "stream-ndjson",
            "lines of JSON in place of events",
            "hosts of one's own",
            stream(),
            Answer::new(
                200,
                "application/x-ndjson",
                format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{}}}}\n{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{{{REFUSAL}}}}}\n"),
            )
            .framing(Framing::Chunked(30)),
        )
        .event(1, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[S1, S2]),
        new(
            "stream-broken-error",
            "an error event whose JSON breaks off",
            "hosts that cut long texts",
            stream(),
            Answer::stream("data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"acme at /srv\n\n"),
        )
        .event(0, -32603, "")
        .rules(&[S2, F6]),
        new(
            "stream-died",
            "the host dies before its first event",
            "hosts that restart",
            stream(),
            Answer::stream(": one moment\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"err").ending(Ending::HangUp),
        )
        .becomes(502, -32603, "")
        .rules(&[C5]),
        untouched(
            "ok-stream",
            "events with ids, comments and a failed task",
            "every host",
            format!("retry: 50\n\n{WORKING}: still here\n\nid: 2\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"task\":{{\"id\":\"acme/1\",\"status\":{{\"state\":\"TASK_STATE_FAILED\"}}}}}}}}\n\n"),
        ),
        untouched("ok-stream-crlf", "CRLF, as sse-starlette writes it", "a2a-sdk", WORKING.replace('\n', "\r\n").repeat(2)),
        untouched("ok-stream-done", "an end mark that is no JSON", "hosts in front of LLMs", format!("{WORKING}data: [DONE]\n\n")),
        untouched("ok-stream-empty", "not one event", "every host", String::new()).rules(&[I4]),
        untouched(
            "ok-stream-large",
            "an event of five megabytes: never held",
            "hosts that inline files",
            format!("data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"artifactUpdate\":\"{}\"}}}}\n\n", "0123456789abcdef".repeat(327_680)),
        ),
    ]
}
