//! OpenWOP error envelopes where A2A expects JSON-RPC (F-4), on calls that name no foreign task.

use super::{TASK, on_task, send};
use crate::demo::{Answer, Call, Group, Scenario};
use crate::normalize::Rule::{D3, E2, E3, E7, F1, F4, F7, F8};

pub fn scenarios() -> Vec<Scenario> {
    let new =
        |name, title, call, answer| Scenario::new(Group::OpenWop, name, title, "OpenWOP hosts", call, answer);
    vec![
        new(
            "openwop-401",
            "no valid token",
            send(),
            Answer::envelope(
                401,
                "unauthenticated",
                "OIDC token of acme rejected.",
                r#","details":{"reason":"verification_failed"}"#,
            )
            .header("www-authenticate", "Bearer resource_metadata=\"https://agent.example/meta\"")
            .header("set-cookie", "sid=; Max-Age=0"),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[F1, E2, D3]),
        new(
            "openwop-403",
            "a tenant the caller is not in, on a call that names no task",
            send(),
            Answer::envelope(403, "forbidden_tenant", "principal cannot operate under tenant 'acme'", ""),
        )
        .becomes(403, -32000, "PERMISSION_DENIED")
        .rules(&[F1, F4, E2]),
        new(
            "openwop-404",
            "the endpoint is switched off; the message says by which variable",
            send(),
            Answer::envelope(
                404,
                "not_found",
                "a2a server endpoint disabled (set ACME_A2A_SERVER_ENABLED=true)",
                "",
            ),
        )
        .becomes(200, -32601, "NOT_FOUND")
        .rules(&[F4, F8, E2]),
        new(
            "openwop-404-card",
            "no extended card",
            Call::json_rpc("7", "GetExtendedAgentCard", "{}"),
            Answer::envelope(404, "not_found", "no extended card in workspace ws-9", ""),
        )
        .becomes(200, -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        .rules(&[F4]),
        new(
            "openwop-409-terminal",
            "cancel a task that is over",
            on_task("CancelTask"),
            Answer::envelope(
                409,
                "run_terminal",
                "run acme/5d2f6a7b8c9d0e1f2a3b4c is completed",
                r#","details":{"runStatus":"completed"}"#,
            ),
        )
        .becomes(200, -32002, "TASK_NOT_CANCELABLE")
        .rules(&[F4, E2]),
        new(
            "openwop-409-conflict",
            "a registered code without an A2A twin",
            send(),
            Answer::envelope(
                409,
                "version_conflict",
                "expected version 7 of /runs/1",
                r#","details":{"currentVersion":8}"#,
            ),
        )
        .becomes(200, -32600, "VERSION_CONFLICT")
        .rules(&[F4, E2]),
        new(
            "openwop-409-vendor",
            "a vendor's code",
            send(),
            Answer::envelope(
                409,
                "billing-labs.ledger_locked",
                "ledger is locked",
                r#","details":{"tenantId":"acme","workspaceId":"ws-9","correlationId":"c-1"}"#,
            ),
        )
        .becomes(200, -32600, "BILLING_LABS_LEDGER_LOCKED")
        .rules(&[F4, E2]),
        new(
            "openwop-413",
            "the request is too large",
            send(),
            Answer::envelope(
                413,
                "payload_too_large",
                "body exceeds the quota of acme",
                r#","details":{"max":4194304}"#,
            ),
        )
        .becomes(413, -32600, "PAYLOAD_TOO_LARGE")
        .rules(&[F1, E2]),
        new(
            "openwop-415",
            "a media type it cannot read",
            send(),
            Answer::envelope(415, "unsupported_media_type", "text/csv is not supported", ""),
        )
        .becomes(200, -32005, "CONTENT_TYPE_NOT_SUPPORTED")
        .rules(&[F4, E2]),
        new(
            "openwop-422-capability",
            "a capability that is not there",
            send(),
            Answer::envelope(
                422,
                "capability_required",
                "enable streaming at https://acme.example/admin",
                r#","details":{"orgId":"o-1"}"#,
            ),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[F4, E2]),
        new(
            "openwop-422-push",
            "the same code on a push operation",
            Call::json_rpc("7", "ListTaskPushNotificationConfigs", &format!(r#"{{"taskId":"{TASK}"}}"#)),
            Answer::envelope(
                422,
                "capability_required",
                "a2a.push is not enabled for org acme",
                r#","details":{"capability":"a2a.push"}"#,
            ),
        )
        .becomes(200, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")
        .rules(&[F4, E2]),
        new(
            "openwop-400-validation",
            "the request does not validate",
            send(),
            Answer::envelope(
                400,
                "validation_error",
                "field message.parts of acme/1 is required",
                r#","details":{"field":"message.parts","tenantId":"acme"}"#,
            ),
        )
        .becomes(200, -32602, "VALIDATION_ERROR")
        .rules(&[F4, E2]),
        new(
            "openwop-400-version",
            "a version refusal",
            send().version("9.9"),
            Answer::envelope(
                400,
                "interop_version_unsupported",
                "A2A 9.9 is not served here",
                r#","details":{"protocol":"a2a","requested":"9.9","supported":["1.0","0.3"]}"#,
            ),
        )
        .becomes(200, -32009, "VERSION_NOT_SUPPORTED")
        .rules(&[F4, F7, E7]),
        new(
            "openwop-429",
            "too many requests; the quota's owner in the details",
            send(),
            Answer::envelope(
                429,
                "rate_limited",
                "Request denied by rate limit of acme.",
                r#","details":{"scope":"tenant","reason":"daily_tenant","retryAfterMs":1000}"#,
            )
            .header("retry-after", "2")
            .header("ratelimit-remaining", "0")
            .header("x-quota-bucket", "acme-daily"),
        )
        .becomes(429, -32000, "RATE_LIMITED")
        .rules(&[F1, E2, E3, D3]),
        new(
            "openwop-500",
            "something broke",
            send(),
            Answer::envelope(500, "internal_error", "unexpected: row of acme is locked", ""),
        )
        .becomes(500, -32603, "INTERNAL_ERROR")
        .rules(&[F4, E2]),
        new(
            "openwop-503",
            "no runner is free",
            send(),
            Answer::envelope(503, "runner_unavailable", "no runner in pool acme-eu", "")
                .header("retry-after", "4"),
        )
        .becomes(503, -32603, "RUNNER_UNAVAILABLE")
        .rules(&[F4, E2, E3]),
        new(
            "openwop-401-at-200",
            "\"sign in\", at HTTP 200",
            send(),
            Answer::json(200, r#"{"message":"sign in to acme first","error":"unauthenticated"}"#),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[F4, E2]),
    ]
}
