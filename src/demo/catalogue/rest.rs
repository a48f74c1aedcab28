//! The HTTP+JSON binding: five error bodies that are no `google.rpc.Status`, statuses that are not the
//! error's, streams (E-4, S-3).

use super::{A2A, HELLO, error_info};
use crate::demo::{Answer, Call, Framing, Group, Scenario};
use crate::normalize::Rule::{C4, D1, E4, E5, F2, F3, F4, F5, F8, I2, I4, O1, O3, S2, S3};

fn get() -> Call {
    Call { body: Vec::new(), ..Call::rest("GET", "/rest/tasks/task-7f3a", "") }
}

fn cancel() -> Call {
    Call::rest("POST", "/rest/tasks/task-7f3a:cancel", "{}")
}

fn send() -> Call {
    Call::rest("POST", "/rest/message:send", HELLO)
}

fn stream() -> Call {
    Call::rest("POST", "/rest/message:stream", HELLO).streaming()
}

const OK_EVENT: &str = "data: {\"task\":{\"id\":\"t-9\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n";

pub fn scenarios() -> Vec<Scenario> {
    let new =
        |name, title, seen_at, call, answer| Scenario::new(Group::Rest, name, title, seen_at, call, answer);
    let not_found = |name, title, seen_at, answer| new(name, title, seen_at, get(), answer).not_found();
    let untouched = |name, title, seen_at, call, answer| new(name, title, seen_at, call, answer).rules(&[I4]);
    let unsupported = format!(
        r#"{{"error":{{"code":501,"status":"UNIMPLEMENTED","message":"at /srv: off for acme","details":[{}]}}}}"#,
        error_info("UNSUPPORTED_OPERATION", A2A, r#","metadata":{"tenant":"acme"}"#)
    );
    vec![
        new(
            "rest-bare-status",
            "a Status without details",
            "a2a-sdk 1.0",
            send(),
            Answer::json(400, r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"acme: no parts"}}"#),
        )
        .status(400, "INVALID_ARGUMENT", "INVALID_REQUEST")
        .rules(&[E4]),
        new(
            "rest-message",
            "a message and nothing else",
            "a2a-sdk 0.3",
            send(),
            Answer::json(500, r#"{"message":"unknown exception at /srv/acme.py"}"#),
        )
        .status(500, "INTERNAL", "INTERNAL_ERROR")
        .rules(&[F5, E4, D1]),
        new(
            "rest-flat-code",
            "an error of JSON-RPC's without JSON-RPC",
            "@a2a-js/sdk 0.3",
            cancel(),
            Answer::json(409, r#"{"code":-32002,"message":"acme/$TASK cannot be canceled"}"#),
        )
        .status(400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
        .rules(&[F3, E4]),
        new(
            "rest-problem",
            "problem+json: its type says which",
            "hosts on early drafts of 1.0",
            cancel(),
            Answer::new(
                409,
                "application/problem+json",
                r#"{"type":"https://a2a-protocol.org/errors/task-not-cancelable","title":"Not cancelable","detail":"owned by u-9","status":409}"#,
            ),
        )
        .status(400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
        .rules(&[F2, E4]),
        new(
            "rest-200-envelope",
            "\"slow down\" on a 200",
            "OpenWOP hosts",
            send(),
            Answer::envelope(200, "rate_limited", "acme sent 500", ""),
        )
        .status(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")
        .rules(&[F4, E4]),
        new(
            "rest-501",
            "UNIMPLEMENTED, where A2A says 400",
            "a2a-sdk 1.0",
            send(),
            Answer::new(501, "application/a2a+json", unsupported),
        )
        .status(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
        .rules(&[F2, E4, E5]),
        new(
            "rest-no-route",
            "a framework that has no such route",
            "FastAPI",
            send(),
            Answer::json(404, r#"{"detail":"Not Found"}"#),
        )
        .status(404, "NOT_FOUND", "METHOD_NOT_FOUND")
        .rules(&[F8, E4]),
        new(
            "rest-401",
            "no token: the challenge stays",
            "every host",
            send(),
            Answer::new(401, "text/plain", "token of u-9 expired").header("www-authenticate", "Bearer realm=\"a\""),
        )
        .status(401, "UNAUTHENTICATED", "UNAUTHENTICATED")
        .rules(&[E4]),
        not_found(
            "rest-unknown-task",
            "there is no such task",
            "a2a-sdk 0.3",
            Answer::json(404, r#"{"message":"Task not found"}"#),
        )
        .rules(&[O1, O3]),
        not_found(
            "rest-foreign-403",
            "somebody else's: 403, with headers that tell",
            "FastAPI",
            Answer::json(403, r#"{"detail":"You do not have access to task $TASK of acme"}"#)
                .header("x-tenant", "acme")
                .header("etag", "\"r-41\"")
                .header("set-cookie", "s=acme"),
        )
        .rules(&[O1, O3]),
        not_found(
            "rest-foreign-410",
            "somebody else's: gone, as a page",
            "gateways",
            Answer::new(410, "text/html", "<h1>acme/$TASK</h1>"),
        )
        .rules(&[O1, O3]),
        not_found(
            "rest-foreign-status",
            "somebody else's: PERMISSION_DENIED on a 200",
            "grpc-gateway",
            Answer::json(200, r#"{"error":{"code":403,"status":"PERMISSION_DENIED","message":"u-9 only"}}"#),
        )
        .rules(&[O1, O3]),
        not_found(
            "rest-foreign-envelope",
            "somebody else's: an OpenWOP envelope",
            "OpenWOP hosts",
            Answer::envelope(403, "workspace_membership_required", "u-9 is no member of 'ws-9'.", ""),
        )
        .rules(&[O1, O3]),
        new(
            "rest-stream-first",
            "an error as the first event: there is still a status to say it with",
            "a2a-sdk 1.0",
            stream(),
            Answer::stream("event: error\ndata: {\"code\":-32004,\"message\":\"at /srv: off for acme\"}\n\n"),
        )
        .status(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
        .rules(&[S3, E4]),
        new(
            "rest-stream-later",
            "an error later, without its name",
            "a2a-sdk 1.0",
            stream(),
            Answer::stream(format!("{OK_EVENT}data: {{\"error\":{{\"code\":500,\"status\":\"INTERNAL\",\"message\":\"acme at /srv\"}}}}\n\n")),
        )
        .event(1, 500, "INTERNAL_ERROR")
        .rules(&[S2, S3]),
        new(
            "rest-stream-text",
            "an error later, as text",
            "hosts of one's own",
            stream(),
            Answer::stream(format!("{OK_EVENT}event: error\ndata: stack of acme\n\n")),
        )
        .event(1, 500, "INTERNAL_ERROR")
        .rules(&[S2, S3]),
        untouched(
            "ok-rest-task",
            "a task in its own media type",
            "@a2a-js/sdk",
            get(),
            Answer::new(200, "application/a2a+json", r#"{"id":"acme/1","status":{"state":"TASK_STATE_COMPLETED"}}"#)
                .header("etag", "\"v1\""),
        ),
        untouched("ok-rest-stream", "a stream", "every host", stream(), Answer::stream(OK_EVENT.repeat(3))),
        untouched(
            "ok-rest-chunked",
            "a task in chunks",
            "streaming frameworks",
            get(),
            Answer::json(200, r#"{"id":"acme/1","error":"text of one's own"}"#).framing(Framing::Chunked(7)),
        )
        .rules(&[I4, C4]),
        untouched(
            "ok-rest-other-url",
            "a 403 below the base that is no route of A2A's",
            "every host",
            Call::get("/rest/health"),
            Answer::envelope(403, "run_forbidden", "health of acme", ""),
        )
        .rules(&[I4, I2]),
    ]
}
