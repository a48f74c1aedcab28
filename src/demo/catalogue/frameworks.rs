//! Answers that never came from the A2A code: web frameworks, gateways, load balancers (F-1, F-5, F-8).

use super::{get_task, send};
use crate::demo::{Answer, Framing, Group, Scenario};
use crate::normalize::Rule::{D1, D3, E1, E2, E3, E5, F1, F4, F5, F6, F8};

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

pub fn scenarios() -> Vec<Scenario> {
    let new =
        |name, title, seen_at, answer| Scenario::new(Group::Frameworks, name, title, seen_at, send(), answer);
    vec![
        new(
            "fastapi-422",
            "the validator's list, the request echoed",
            "FastAPI",
            Answer::json(
                422,
                r#"{"detail":[{"type":"missing","loc":["body","message","parts"],"msg":"Field required","input":{"tenant":"acme"}}]}"#,
            ),
        )
        .becomes(200, -32602, "")
        .rules(&[F5, E5, D1]),
        new(
            "fastapi-404",
            "no such route",
            "FastAPI",
            Answer::json(404, r#"{"detail":"Not Found"}"#),
        )
        .becomes(200, -32601, "")
        .rules(&[F8, E2]),
        Scenario {
            call: get_task(),
            ..new(
                "starlette-405",
                "no such method here; what is allowed stays",
                "Starlette",
                Answer::new(405, TEXT, "Method Not Allowed").header("allow", "GET"),
            )
        }
        .becomes(200, -32601, "")
        .rules(&[F8, D3]),
        new(
            "starlette-500",
            "three words of text",
            "Google ADK, a2a-sdk (Python)",
            Answer::new(500, TEXT, "Internal Server Error"),
        )
        .becomes(500, -32603, "")
        .rules(&[F5, E2]),
        new(
            "express-400",
            "a page with a stack trace",
            "Express body-parser",
            Answer::new(
                400,
                HTML,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<body>\n<pre>SyntaxError: Expected property name<br> at parse (/srv/app/node_modules/body-parser/lib/types/json.js:93:21)</pre>\n</body>\n</html>\n",
            ),
        )
        .becomes(200, -32600, "")
        .rules(&[F5, E2]),
        new(
            "express-413",
            "too large, as a page",
            "Express, @a2a-js/sdk 0.3",
            Answer::new(
                413,
                HTML,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<body>\n<pre>PayloadTooLargeError: request entity too large<br> at readStream (/srv/app/node_modules/raw-body/index.js:163:17)</pre>\n</body>\n</html>\n",
            ),
        )
        .becomes(413, -32600, "PAYLOAD_TOO_LARGE")
        .rules(&[F1, E2]),
        new(
            "spring-404",
            "looks like an envelope and is none",
            "Spring Boot",
            Answer::json(
                404,
                r#"{"timestamp":"2026-01-01T00:00:00.000+00:00","status":404,"error":"Not Found","message":"No static resource acme.","path":"/a2a"}"#,
            ),
        )
        .becomes(200, -32601, "")
        .rules(&[F4, F5, F8]),
        new(
            "spring-500",
            "with the Java stack",
            "Spring Boot",
            Answer::json(
                500,
                r#"{"status":500,"error":"Internal Server Error","trace":"java.lang.NullPointerException\n\tat com.acme.tenant.Foo.bar(Foo.java:12)","message":"boom","path":"/a2a"}"#,
            ),
        )
        .becomes(500, -32603, "")
        .rules(&[F4, F5]),
        new(
            "java-exception-500",
            "an exception, serialized",
            "Spring AI",
            Answer::json(
                500,
                r#"{"jsonRpcError":{"code":-32600,"message":"Invalid message format"},"cause":null,"message":"Invalid message format","stackTrace":[{"className":"com.acme.Foo","lineNumber":12}]}"#,
            ),
        )
        .becomes(500, -32603, "")
        .rules(&[F5, E2]),
        new(
            "java-sdk-400",
            "a class name where a code belongs",
            "a2a-java 0.3",
            Answer::json(
                400,
                r#"{"error":"io.a2a.spec.InvalidRequestError","message":"Unexpected char at acme, line 3"}"#,
            ),
        )
        .becomes(200, -32600, "")
        .rules(&[F4, F5]),
        new(
            "nestjs-403",
            "\"Forbidden\" is not the code `forbidden`",
            "NestJS",
            Answer::new(403, JSON, r#"{"message":"Forbidden resource","error":"Forbidden","statusCode":403}"#),
        )
        .becomes(403, -32000, "PERMISSION_DENIED")
        .rules(&[F1, F4, E2]),
        new(
            "fastify-404",
            "the route is echoed",
            "Fastify",
            Answer::new(
                404,
                JSON,
                r#"{"message":"Route POST:/a2a/agents/acme not found","error":"Not Found","statusCode":404}"#,
            ),
        )
        .becomes(200, -32601, "")
        .rules(&[F4, F8]),
        new(
            "laravel-500",
            "the database's schema",
            "Laravel in debug mode",
            Answer::json(
                500,
                r#"{"message":"SQLSTATE[42P01]: relation \"acme.tasks\" does not exist","exception":"QueryException","file":"/srv/www/app/Task.php","line":31,"trace":[]}"#,
            ),
        )
        .becomes(500, -32603, "")
        .rules(&[F5, E2]),
        new(
            "aspnet-500",
            "problem+json with a trace id",
            "ASP.NET Core, Semantic Kernel",
            Answer::new(
                500,
                "application/problem+json",
                r#"{"type":"https://tools.ietf.org/html/rfc9110#section-15.6.1","title":"An error occurred while processing your request.","status":500,"traceId":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00","host":"acme-2"}"#,
            ),
        )
        .becomes(500, -32603, "")
        .rules(&[F5, E2]),
        new(
            "axum-422",
            "a parser's sentence",
            "axum",
            Answer::new(422, TEXT, "Failed to deserialize the JSON body of acme: missing field `method`"),
        )
        .becomes(200, -32602, "")
        .rules(&[F5, E2]),
        new(
            "langgraph-400",
            "`error` is a sentence",
            "LangGraph",
            Answer::json(400, r#"{"error":"Invalid JSON payload"}"#),
        )
        .becomes(200, -32600, "")
        .rules(&[F4, F5]),
        new(
            "litellm-500",
            "JSON-RPC without jsonrpc and id",
            "litellm",
            Answer::json(
                500,
                r#"{"error":{"code":-32603,"message":"Internal error: 1 validation error for acme.SendMessageResponse"}}"#,
            ),
        )
        .becomes(500, -32603, "")
        .rules(&[F6, E2]),
        new(
            "go-json-as-text",
            "JSON under text/plain, the file in data",
            "a2a-go 0.3",
            Answer::error(
                r#""code":-32603,"message":"internal error","data":{"error":"open /var/lib/agent/acme.db: permission denied"}"#,
            )
            .header("content-type", TEXT),
        )
        .becomes(200, -32603, "")
        .rules(&[E1, E5]),
        new(
            "kubernetes-404",
            "the API server's Status",
            "kagent",
            Answer::json(
                404,
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"agents.kagent.dev \"acme-billing\" not found","reason":"NotFound","details":{"name":"acme-billing","kind":"agents"},"code":404}"#,
            ),
        )
        .becomes(200, -32601, "")
        .rules(&[F5, F8]),
        new(
            "aws-403",
            "an account and a role",
            "Bedrock AgentCore",
            Answer::json(
                403,
                r#"{"message":"User: arn:aws:sts::111122223333:assumed-role/acme is not authorized to perform: bedrock-agentcore:InvokeAgentRuntime"}"#,
            ),
        )
        .becomes(403, -32000, "PERMISSION_DENIED")
        .rules(&[F1, E2]),
        new(
            "oauth-401",
            "an OAuth error; the challenge stays",
            "OAuth gateways",
            Answer::json(401, r#"{"error":"invalid_token","error_description":"The token of acme expired"}"#)
                .header("www-authenticate", "Bearer error=\"invalid_token\""),
        )
        .becomes(401, -32000, "UNAUTHENTICATED")
        .rules(&[F1, E2, D3]),
        new(
            "kong-429",
            "a gateway's limit; its counters stay",
            "Kong",
            Answer::new(429, JSON, r#"{"message":"API rate limit exceeded","request_id":"acme-c0ffee"}"#)
                .header("ratelimit-limit", "60")
                .header("retry-after", "30"),
        )
        .becomes(429, -32000, "RATE_LIMITED")
        .rules(&[F1, E2, E3]),
        new(
            "nginx-502",
            "the page everybody knows",
            "nginx",
            Answer::new(
                502,
                "text/html",
                "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n",
            )
            .header("server", "nginx/1.18.0 (acme)"),
        )
        .becomes(502, -32603, "")
        .rules(&[F5, E2, D3]),
        new(
            "envoy-503",
            "a mesh that cannot reach the host",
            "Envoy, Istio",
            Answer::new(
                503,
                "text/plain",
                "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
            )
            .header("retry-after", "3"),
        )
        .becomes(503, -32603, "")
        .rules(&[F5, E2, E3]),
        new(
            "gateway-504",
            "the gateway gave up",
            "AWS API Gateway",
            Answer::json(504, r#"{"message":"Endpoint request timed out"}"#),
        )
        .becomes(504, -32603, "")
        .rules(&[F5, E2]),
        new(
            "html-at-200",
            "a login page, told as success",
            "single sign-on proxies",
            Answer::new(200, "text/html", "<html><form action=\"https://login.acme.example/\">Sign in</form></html>"),
        )
        .becomes(200, -32603, "")
        .rules(&[F5, E2]),
        new(
            "text-at-200",
            "a word, told as success",
            "health-check defaults",
            Answer::new(200, "text/plain", "OK acme-3").framing(Framing::Chunked(4)),
        )
        .becomes(200, -32603, "")
        .rules(&[F5, E2]),
        new("empty-at-200", "nothing, told as success", "serverless runtimes", Answer::new(200, "", ""))
            .becomes(200, -32603, "")
            .rules(&[F5, E2]),
    ]
}
