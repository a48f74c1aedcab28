//! A task that does not exist and a task that is not the caller's: whatever the host says, one answer
//! (O-1 to O-3).

use super::{A2A, REFERENCE, error_info, get_task};
use crate::demo::{Answer, Encoding, Ending, Framing, Group, Scenario};
use crate::normalize::Rule::{C3, C4, C5, D3, E5, F2, F3, F4, F5, F10, O1, O2, O3, Q3};

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, seen_at, answer| {
        Scenario::new(Group::NotFound, name, title, seen_at, get_task(), answer).not_found()
    };
    let mut all = vec![
        new(
            REFERENCE,
            "there is no such task",
            "a2a-sdk 0.3, openwop-app",
            Answer::error(r#""code":-32001,"message":"task not found: $TASK""#),
        )
        .rules(&[F3, O1]),
        new(
            "foreign-403-envelope",
            "somebody else's task: 403, an OpenWOP envelope, its owner in it",
            "OpenWOP hosts",
            Answer::envelope(
                403,
                "run_forbidden",
                "run $TASK belongs to acme",
                r#","details":{"tenantId":"acme","workspaceId":"ws-9"}"#,
            )
            .header("etag", "\"r-41\"")
            .header("set-cookie", "sid=1; Path=/acme")
            .header("x-tenant", "acme"),
        )
        .rules(&[F4, O1, O3, D3]),
        new(
            "foreign-403-tenant",
            "the id's tenant is not the caller's",
            "OpenWOP hosts",
            Answer::envelope(403, "id_tenant_mismatch", "tenant segment of $TASK is acme", ""),
        )
        .rules(&[F4, O3]),
        new(
            "foreign-403-membership",
            "not a member of the workspace",
            "OpenWOP hosts",
            Answer::envelope(
                403,
                "workspace_membership_required",
                "The principal is not a member of workspace 'ws-9'.",
                "",
            ),
        )
        .rules(&[F4, O3]),
        new(
            "foreign-404-envelope",
            "a 404 envelope that names the run",
            "openwop-app",
            Answer::envelope(404, "run_not_found", "run acme/$TASK not found", ""),
        )
        .rules(&[F4, O3]),
        new(
            "foreign-200-envelope",
            "an envelope at HTTP 200",
            "gateways that flatten statuses",
            Answer::envelope(200, "not_found", "run $TASK not found in ws-9", ""),
        )
        .rules(&[F4, O3]),
        new(
            "foreign-404-json",
            "a framework's 404",
            "FastAPI",
            Answer::json(404, r#"{"detail":"Task not found for acme"}"#),
        )
        .rules(&[F5, O3]),
        new(
            "foreign-410-html",
            "410 and a page, the connection closed",
            "Apache, nginx in front",
            Answer::new(410, "text/html", "<html><body><h1>Gone</h1>acme archived it</body></html>")
                .framing(Framing::Close),
        )
        .rules(&[F5, O3, C4]),
        new(
            "foreign-32602",
            "\"invalid params\" that means \"not yours\"",
            "LangGraph",
            Answer::error(r#""code":-32602,"message":"Access denied to task""#),
        )
        .rules(&[F3, O3, Q3]),
        new(
            "foreign-422",
            "422 for a request that is well-formed",
            "hosts on OpenWOP 1",
            Answer::envelope(422, "validation_error", "$TASK is not readable by this principal", ""),
        )
        .rules(&[F4, O3]),
        new(
            "foreign-31403",
            "a code of its own, user and workspace in the data",
            "a2a-go 0.3",
            Answer::error(
                r#""code":-31403,"message":"permission denied","data":{"error":"user u-9 not in workspace ws-9"}"#,
            ),
        )
        .rules(&[F3, O3]),
        new(
            "foreign-reason",
            "a server error whose reason says forbidden",
            "hosts half-way to 1.0",
            Answer::error(&format!(
                r#""code":-32000,"message":"forbidden","data":[{}]"#,
                error_info("RUN_FORBIDDEN", "openwop.dev", ""),
            )),
        )
        .rules(&[F2, O3]),
        new(
            "foreign-owner-data",
            "\"not found\", and whose it is",
            "ad servers on a2a-sdk",
            Answer::error(
                r#""code":-32001,"message":"Task not found","data":{"task_id":"$TASK","tenant_id":"acme","owner_principal":"u-9"}"#,
            ),
        )
        .rules(&[F3, O1, E5]),
        new(
            "foreign-resource-info",
            "the right shape, and a ResourceInfo that names the owner",
            "gRPC stacks behind A2A",
            Answer::error(&format!(
                r#""code":-32001,"message":"Task not found","data":[{},{{"@type":"type.googleapis.com/google.rpc.ResourceInfo","resourceType":"task","resourceName":"acme/1","owner":"user:u-9","description":"belongs to acme"}}]"#,
                error_info("TASK_NOT_FOUND", A2A, ""),
            )),
        )
        .rules(&[F2, O1, E5]),
        new(
            "foreign-conformant",
            "already in shape, in another member order, with tell-tale headers",
            "hosts on 1.0",
            Answer::json(
                200,
                format!(
                    r#"{{"error":{{"code":-32001,"message":"Task not found","data":[{}]}},"id":$ID,"jsonrpc":"2.0"}}"#,
                    error_info("TASK_NOT_FOUND", A2A, r#","metadata":{}"#),
                ),
            )
            .header("x-shard", "acme-3"),
        )
        .rules(&[O1, D3]),
        new(
            "foreign-problem-403",
            "problem+json with ids in every member",
            "ASP.NET Core, Quarkus",
            Answer::new(
                403,
                "application/problem+json",
                r#"{"type":"https://example.com/probs/tenant","title":"Forbidden","status":403,"detail":"workspace ws-9 belongs to acme","instance":"/tasks/acme~2F77","workspaceId":"ws-9"}"#,
            ),
        )
        .rules(&[F5, O3]),
        new(
            "foreign-rbac-text",
            "a policy engine's one line",
            "Envoy, Istio",
            Answer::new(403, "text/plain", "RBAC: access denied").header("x-envoy-upstream-service-time", "3"),
        )
        .rules(&[F5, O3]),
        new(
            "foreign-nestjs-403",
            "three members that look like an envelope",
            "NestJS guards",
            Answer::new(
                403,
                "application/json; charset=utf-8",
                r#"{"message":"Forbidden resource","error":"Forbidden","statusCode":403}"#,
            ),
        )
        .rules(&[F4, F5, O3]),
        new("foreign-403-empty", "403 and nothing else", "load balancers", Answer::new(403, "", ""))
            .rules(&[F5, O3]),
        new(
            "foreign-500-32001",
            "the right code at HTTP 500",
            "hosts that throw",
            Answer::error(r#""code":-32001,"message":"no row for acme/$TASK""#).status(500),
        )
        .rules(&[F10, O1]),
        new(
            "foreign-gzip",
            "compressed, though nobody asked",
            "caches in front",
            Answer::error(r#""code":-32001,"message":"Task not found","data":{"reason":"TASK_NOT_FOUND"}"#)
                .encoding(Encoding::Gzip)
                .header("etag", "W/\"g\""),
        )
        .rules(&[C4, O1]),
        new(
            "foreign-chunked",
            "in chunks of seven bytes",
            "streaming frameworks",
            Answer::error(r#""code":-32001,"message":"Task not found","data":{"tenant":"acme"}"#)
                .framing(Framing::Chunked(7)),
        )
        .rules(&[C4, O1]),
        new(
            "foreign-cut-off",
            "404, and the host dies inside the body",
            "hosts that crash while they answer",
            Answer::json(404, r#"{"detail":"task of acme"#)
                .framing(Framing::LengthOff(400))
                .ending(Ending::HangUp),
        )
        .rules(&[O3, C5]),
    ];
    let mut huge = br#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"acme "#.to_vec();
    huge.resize(huge.len() + 5_000_000, b'z');
    huge.extend_from_slice(br#""}}"#);
    all.push(
        new(
            "foreign-huge",
            "five megabytes of \"not found\", past all limits",
            "hosts that dump what they know",
            Answer::json(200, huge),
        )
        .rules(&[O1, O2, C3]),
    );
    all
}
