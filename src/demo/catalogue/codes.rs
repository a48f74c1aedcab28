//! Codes that contradict their reason or their status, and messages that tell too much (F-1 to F-3,
//! F-7, F-10, D-1).

use super::{A2A, error_info, get_task, on_task, send};
use crate::demo::{Answer, Group, Scenario};
use crate::normalize::Rule::{D1, E1, E2, E7, F1, F2, F3, F7, F10, I3};

pub fn scenarios() -> Vec<Scenario> {
    let new =
        |name, title, seen_at, call, answer| Scenario::new(Group::Codes, name, title, seen_at, call, answer);
    vec![
        new(
            "code-contradicts-reason",
            "-32603, but the reason says what really happened",
            "a2a-sdk 1.1's adapter for 0.3",
            send(),
            Answer::error(&format!(
                r#""code":-32603,"message":"no such operation at /srv/agent/main.py","data":[{}]"#,
                error_info("UnsupportedOperationError", A2A, ""),
            )),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[F2, E1, D1]),
        new(
            "code-as-string",
            "the code in quotes",
            "PHP and JavaScript hosts",
            on_task("CancelTask"),
            Answer::error(r#""code":"-32002","message":"Task cannot be canceled""#),
        )
        .becomes(200, -32002, "TASK_NOT_CANCELABLE")
        .rules(&[F3, E1]),
        new(
            "code-as-float",
            "the code as a float",
            "Lua and PHP hosts",
            send(),
            Answer::error(r#""code":-32004.0,"message":"This operation is not supported""#),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[F3, E1]),
        new(
            "code-is-a-word",
            "a word where the code belongs",
            "hand-written hosts",
            send(),
            Answer::error(r#""code":"E_TENANT","message":"acme has no such skill""#),
        )
        .becomes(200, -32603, "")
        .rules(&[F3, E1]),
        new(
            "code-of-a-vendor",
            "a vendor's code at HTTP 400",
            "Bedrock AgentCore",
            send(),
            Answer::error(r#""code":-32052,"message":"Validation error - Invalid request data""#).status(400),
        )
        .becomes(200, -32052, "")
        .rules(&[F3, E2]),
        new(
            "code-on-500",
            "an A2A code at HTTP 500: no client reads the body",
            "@a2a-js/sdk 0.3, litellm",
            send(),
            Answer::error(r#""code":-32004,"message":"This operation is not supported""#).status(500),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[F10, E2]),
        new(
            "unauthorized-as-32001",
            "401 with the code of \"task not found\"",
            "JSON-RPC agents behind an API key",
            get_task(),
            Answer::json(
                401,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Unauthorized for tenant acme"}}"#,
            )
            .header("www-authenticate", "Bearer"),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[F1, E2]),
        new(
            "message-with-path",
            "a file name in the message",
            "any host that hands its exceptions on",
            send(),
            Answer::error(r#""code":-32004,"message":"open /srv/data/tenants/acme/runs/9c1.json failed""#),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[D1, E1]),
        new(
            "message-with-user",
            "who, where and what, in one message",
            "Go agents",
            send(),
            Answer::error(r#""code":-32003,"message":"user u-9 of workspace ws-9 has no push plan""#),
        )
        .becomes(200, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")
        .rules(&[D1, E1]),
        new(
            "message-is-a-crash",
            "a crash told as an internal error",
            "openwop-app, a2a-sdk 0.3",
            get_task(),
            Answer::error(
                r#""code":-32603,"message":"ENOENT: no such file or directory, open '/srv/data/tenants/acme/runs/9c1.json'""#,
            ),
        )
        .becomes(200, -32603, "")
        .rules(&[D1, F3]),
        new(
            "message-missing",
            "no message",
            "hand-written hosts",
            send(),
            Answer::error(r#""code":-32006"#),
        )
        .becomes(200, -32006, "INVALID_AGENT_RESPONSE")
        .rules(&[E1, D1]),
        new(
            "version-wrong-code",
            "a version refusal as \"invalid request\", the list in an object",
            "hosts that learned of A2A-Version late",
            send().version("9.9"),
            Answer::error(
                r#""code":-32600,"message":"unsupported","data":{"supportedVersions":["1.0","0.3"],"host":"acme-1"}"#,
            )
            .status(400),
        )
        .becomes(200, -32009, "VERSION_NOT_SUPPORTED")
        .rules(&[F7, E7, I3, E2]),
        new(
            "version-as-not-found",
            "a version refusal under the code of \"task not found\"",
            "opencode-a2a",
            get_task().version("1.1"),
            Answer::error(&format!(
                r#""code":-32001,"message":"Unsupported version","data":[{}]"#,
                error_info(
                    "VERSION_NOT_SUPPORTED",
                    A2A,
                    r#","metadata":{"requestedVersion":"1.1","supportedVersions":"1.0","defaultProtocolVersion":"0.3"}"#,
                ),
            )),
        )
        .becomes(200, -32009, "VERSION_NOT_SUPPORTED")
        .rules(&[F2, E7]),
    ]
}
