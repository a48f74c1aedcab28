//! Where two rules meet, or the boundary up to which a body is judged whole falls into something: what the fuzz targets
//! found, by rule.

use a2a_errata::normalize::Rule;
use http::Method;
use serde_json::json;

use crate::rules_support::*;

#[test]
fn e5_a_list_of_versions_is_kept_only_where_it_misleads_nobody() {
    let host = Host::http();
    let data = json!([{"supportedVersions": "1.0", "field": "a.b", "reason": "x"}]);
    for status in [400, 409, 418] {
        for code in [400, 403, 409] {
            let answer = Answer::json(
                status,
                &json!({"error": {"code": code, "status": "x", "message": "m", "details": data}}),
            );
            let request = Request::http(Method::POST, "/rest/message:send").set("a2a-version", Some("9.9"));
            let seen = host.run(&request, &answer);
            let again = Answer {
                status: seen.status,
                headers: seen.headers.clone(),
                ..Answer::raw(200, seen.body.clone())
            };
            let twice = host.run(&request, &again);
            assert_eq!(twice.visible(), seen.visible(), "{status} {code}");
        }
    }
    // D-2: on A2A's errors it may leave, but as nothing else than versions.
    for (versions, want) in [
        (json!("1.0"), Some("1.0")),
        (json!("0.3, 1.0"), Some("0.3, 1.0")),
        (json!(["0.3", "1.0"]), Some("0.3,1.0")),
        (json!("zz@marker.example"), None),
        (json!("1.0,"), None),
        (json!("1.0 for acme"), None),
        (json!(""), None),
    ] {
        let answer = Answer::error(
            200,
            &json!({"code": -32004, "message": "x", "data": {"supportedVersions": versions}}),
        );
        let error = Host::rpc().run(&Request::send(), &answer).error();
        assert_eq!(error["data"][0]["metadata"]["supportedVersions"].as_str(), want, "{error}");
    }
    // -32602 has an OpenWOP reason at most, and with it no versions.
    let envelope = json!({"code": -32602, "message": "x", "data": [{"@type": ERROR_INFO, "reason": "VALIDATION_ERROR",
        "domain": "openwop.dev", "metadata": {"supportedVersions": "1.0", "field": "a"}}]});
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &envelope));
    assert_eq!(seen.error()["data"][0]["metadata"], json!({"field": "a"}));
    assert!(seen.fired(Rule::D2));
}

#[test]
fn f5_a_redirect_is_judged_only_for_what_json_rpc_it_says() {
    let host = Host::rpc();
    for body in [
        r#"{"error":1285891676274193740,"protocolVersion":{}}"#,
        r#"{"error":"moved"}"#,
        r#"{"error":{"message":"moved"}}"#,
    ] {
        let answer = Answer::raw(302, body).header("location", "/login");
        let seen = host.run(&Request::send(), &answer);
        assert!(seen.passed(&answer), "{body} {}", seen.text());
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"error":5}"#,
        r#"{"error":{"code":-32004}}"#,
        // F-6: whichever of the two a client reads.
        r#"{"error":{"code":-32004},"error":5}"#,
        r#"{"error":5,"error":{"code":-32004}}"#,
        r#"{"error":{"code":-32004},"error":null}"#,
    ] {
        let seen = host.run(&Request::send(), &Answer::raw(302, body));
        let code = if body.contains("32004") { -32004 } else { -32603 };
        assert_eq!((seen.status, seen.code()), (200, code), "{body} {}", seen.text());
    }
}
