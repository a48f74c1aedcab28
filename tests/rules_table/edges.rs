//! Where two rules meet, or the boundary up to which a body is judged whole falls into something: what the fuzz targets
//! found, by rule.

use std::io::Write as _;

use a2a_errata::normalize::Rule;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use serde_json::json;

use crate::rules_support::*;

fn stream_over_http(body: impl Into<Vec<u8>>) -> Answer {
    Answer::raw(200, body).set("content-type", Some("text/event-stream"))
}

fn subscribe_over_http() -> Request {
    Request::http(Method::GET, "/rest/tasks/t-1:subscribe").header("accept", "text/event-stream")
}

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

#[test]
fn f9_an_events_name_counts_up_to_the_boundary_in_any_split() {
    let host = Host::http().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let pad = "x".repeat(5000);
    for (body, passes) in [
        (format!("data:\nevent: error\n: {pad}\n\n"), false),
        (format!("event: error\ndata: {{\"x\":\"{pad}\"}}\n\n"), false),
        (format!("data: {{\"x\":\"{pad}\"}}\n\n"), true),
        (format!("data: {{\"task\":{{\"x\":\"{pad}\"}}}}\n\n"), true),
        // No name, but the data says it: before the boundary, or wherever if it has not begun by then.
        (format!("data: {{\"error\":{{\"code\":500,\"status\":\"INTERNAL\",\"x\":\"{pad}\"}}}}\n\n"), false),
        (
            format!("data: {{{}\"error\":{{\"code\":500,\"status\":\"INTERNAL\"}}}}\n\n", " ".repeat(5000)),
            false,
        ),
        (format!("id: {pad}\ndata: {{\"error\":{{\"code\":500,\"status\":\"INTERNAL\"}}}}\n\n"), false),
        (format!("id: {pad}\ndata: {{\"x\":[],\"error\":{{\"code\":500}}}}\n\n"), false),
        (format!("id: {pad}\ndata: {{\"x\":[]]\"error\":{{\"code\":500}}}}\n\n"), false),
        (format!("id: {pad}\ndata: {{\"x\":[]}}\n\n"), true),
        (format!("id: {pad}\ndata: [DONE]\n\n"), true),
    ] {
        let whole = host.run(&subscribe_over_http(), &stream_over_http(body.clone()));
        let what: String = body.chars().filter(|c| *c != 'x').collect();
        assert_eq!(whole.passed(&stream_over_http(body.clone())), passes, "{what} {}", whole.text());
        let near = 4090..4100;
        for split in [1, 2, 25, 64, 199, 4096].map(Split::Every).into_iter().chain(near.map(Split::At)) {
            let seen = host.run(&subscribe_over_http(), &stream_over_http(body.clone()).split(split.clone()));
            assert_eq!(seen.visible(), whole.visible(), "{split:?} {what}");
        }
    }
}

#[test]
fn s1_events_behind_what_began_as_a_document_are_read() {
    let host = Host::http();
    let bad = r#"data: {"error":{"code":501,"status":"UNIMPLEMENTED","message":"at /srv/acme"}}"#;
    let long = "x".repeat(5000);
    for first in
        ["{}", "[", "\r\n\t\n{", "{\"a\":1}\n", "\u{feff}{\"x\"", "{\"jsonrpc\":\"2.0\",\"error\":{\"x\":1}}"]
    {
        for body in [
            format!("{first}\n\n{bad}\n\n"),
            format!("{first}\n{bad}\n\ndata: {{\"task\":{{\"x\":\"{long}\"}}}}\n\n"),
            format!("{first}\nid: {long}\n\n{bad}\n\n"),
        ] {
            let whole = host.run(&subscribe_over_http(), &stream_over_http(body.clone()));
            assert!(!whole.text().contains("acme"), "{first} {}", whole.text());
            for split in [1, 7, 64, 4096].map(Split::Every).into_iter().chain([4095, 4097].map(Split::At)) {
                for order in [Order::RequestFirst, Order::AnswerFirst] {
                    let answer = stream_over_http(body.clone()).split(split.clone());
                    let seen = host.clone().order(order).run(&subscribe_over_http(), &answer);
                    assert_eq!(seen.visible(), whole.visible(), "{split:?} {first}");
                }
            }
        }
    }
    // One that is a document, blanks around it, is that; and a client finds no event in it.
    let document = stream_over_http("\n{\"task\":{\"x\":\"\\ndata: {}\"}}\n\n");
    assert!(host.run(&subscribe_over_http(), &document).passed(&document));
}

#[test]
fn f9_a_coding_that_breaks_is_the_same_in_any_split() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let long = "x".repeat(9000);
    for (plain, keep, code) in [
        // A success that had begun to flow, an error over the intake, one within it, and next to nothing.
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}"), 6000, None),
        (
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32004,\"x\":\"{long}\"}}}}"),
            9000,
            Some("limit"),
        ),
        (
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32004,\"x\":\"{long}\"}}}}"),
            6000,
            Some("Internal"),
        ),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.into(), 10, Some("Internal")),
    ] {
        // Stored, not compressed, so that each byte comes out as it goes in.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(plain.as_bytes()).unwrap();
        let mut coded = encoder.finish().unwrap();
        coded.truncate(keep);
        // The end of a stored block, then a block of a kind there is none of.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&plain.as_bytes()[..keep.min(plain.len())]).unwrap();
        encoder.flush().unwrap();
        let mut coded_then_broken = encoder.get_ref().clone();
        coded_then_broken.extend([0x06; 40]);
        for bytes in [coded, coded_then_broken] {
            let answer = Answer::raw(200, bytes).header("content-encoding", "gzip");
            let whole = host.run(&Request::send(), &answer);
            match code {
                None => assert!(whole.passed(&answer), "{}", whole.text()),
                Some(word) => assert!(whole.text().contains(word), "{keep} {}", whole.text()),
            }
            for split in [1, 2, 64, 1000, 4096].map(Split::Every) {
                let seen = host.run(&Request::send(), &answer.clone().split(split.clone()));
                assert_eq!(seen.visible(), whole.visible(), "{split:?} {keep}");
            }
        }
    }
}
