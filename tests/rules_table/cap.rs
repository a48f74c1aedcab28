//! C-1 to C-5: the byte cap, without truncation, and answers that break off.

use a2a_errata::normalize::{Binding, Failure, Target, Verdict};
use http::Method;
use serde_json::json;

use crate::rules_support::*;

const OVERFLOW: &str = "response exceeds configured byte limit";

fn small() -> Host {
    Host::rpc().policy(|p| p.response_cap_bytes = 4096)
}

/// An error whose normalized form has exactly this many bytes.
fn of_length(length: usize) -> Answer {
    let with = |n: usize| json!({"code": -32005, "message": "x", "data": {"mediaType": "a".repeat(n)}});
    let base = Host::rpc().run(&Request::send(), &Answer::error(200, &with(1))).body.len() - 1;
    Answer::error(200, &with(length - base))
}

#[test]
fn c1_the_cap_is_exact() {
    for length in [4095, 4096] {
        let seen = small().run(&Request::send(), &of_length(length));
        assert_eq!((seen.body.len(), seen.code()), (length, -32005));
    }
    for length in [4097, 4098, 20_000] {
        let seen = small().run(&Request::send(), &of_length(length));
        let want = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": OVERFLOW}});
        assert_eq!((seen.status, seen.json()), (200, want));
        assert_eq!(seen.outcome.verdict, Verdict::Overflow);
    }
}

#[test]
fn c1_what_normalizing_makes_small_is_no_overflow() {
    let big = json!({"code": -32004, "message": "x".repeat(9000), "data": {"trace": "y".repeat(9000)}});
    let seen = small().run(&Request::send(), &Answer::error(200, &big));
    assert_eq!(seen.code(), -32004);
    assert!(seen.body.len() < 300);
}

#[test]
fn c1_successes_are_held_to_it_only_when_configured() {
    for size in [4000, 5000, 20_000] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "result": "x".repeat(size)}).to_string();
        let answer = Answer::raw(200, body);
        assert!(small().run(&Request::send(), &answer).passed(&answer));
        let host = small().policy(|p| p.cap.success = true);
        let seen = host.run(&Request::send(), &answer);
        if answer.body.len() <= 4096 {
            assert!(seen.passed(&answer));
        } else {
            assert_eq!(seen.error(), json!({"code": -32603, "message": OVERFLOW}), "{size}");
        }
    }
}

#[test]
fn c2_statuses_and_ids() {
    for (status, leaves) in [(200, 200), (400, 200), (500, 500), (503, 503)] {
        let answer = Answer { status, ..of_length(6000) };
        let seen = small().run(&Request::send(), &answer);
        // The fault was an A2A error; the overflow that stands for it is none.
        assert_eq!((seen.status, seen.code()), (leaves, -32603), "{status}");
    }
    let long = "i".repeat(4090);
    let request = Request::raw(json!({"jsonrpc": "2.0", "id": long, "method": "SendMessage"}).to_string());
    let seen = small().run(&request, &Answer::error(200, &json!({"code": -32004, "message": "x"})));
    assert_eq!(
        seen.json(),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": OVERFLOW}})
    );
    let fits = "i".repeat(3900);
    let request = Request::raw(json!({"jsonrpc": "2.0", "id": fits, "method": "SendMessage"}).to_string());
    let seen = small().run(&request, &of_length(4097));
    assert_eq!((seen.json()["id"].clone(), seen.code()), (json!(fits), -32603));
}

#[test]
fn c2_on_http_json() {
    let host = Host::http().policy(|p| p.response_cap_bytes = 4096);
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    for (status, leaves, word) in [
        (200, 500, "INTERNAL"),
        (400, 400, "INVALID_ARGUMENT"),
        (404, 404, "NOT_FOUND"),
        (503, 503, "UNAVAILABLE"),
    ] {
        let details = json!([{"@type": ERROR_INFO, "reason": "CONTENT_TYPE_NOT_SUPPORTED",
            "metadata": {"mediaType": "a".repeat(5000)}}]);
        let body =
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x", "details": details}});
        let seen = host.run(&send, &Answer::json(status, &body));
        let want = json!({"error": {"code": leaves, "status": word, "message": OVERFLOW}});
        assert_eq!((seen.status, seen.json()), (leaves, want), "{status}");
    }
}

#[test]
fn c2_behind_a_second_proxy_it_is_still_that_answer() {
    let details = json!([{"@type": ERROR_INFO, "reason": "CONTENT_TYPE_NOT_SUPPORTED",
        "metadata": {"mediaType": "a".repeat(5000)}}]);
    let status =
        json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x", "details": details}});
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    let rpc = json!({"code": -32005, "message": "x", "data": {"mediaType": "a".repeat(5000)}});
    for (host, request, answer) in [
        (Host::http(), &send, Answer::json(400, &status)),
        (Host::http(), &send, Answer::json(503, &status)),
        (Host::http(), &send, Answer::json(404, &status)),
        (Host::rpc(), &Request::send(), Answer::error(200, &rpc)),
        (Host::rpc(), &Request::send(), Answer::error(500, &rpc)),
    ] {
        let once = host.clone().policy(|p| p.response_cap_bytes = 4096).run(request, &answer);
        assert_eq!(once.outcome.verdict, Verdict::Overflow, "{}", once.text());
        let again = Answer::raw(once.status, once.body.clone());
        let twice = host.run(request, &again);
        assert!(twice.passed(&again), "{} became {}", once.text(), twice.text());
        assert_eq!(twice.outcome.verdict, Verdict::Conformant);
    }
}

#[test]
fn c3_the_intake_is_bounded_and_the_rest_unread() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32004,\"message\":\"{}",
        "x".repeat(20_000)
    );
    for split in [Split::Whole, Split::Every(1000), Split::Every(8192), Split::At(8193)] {
        let seen =
            host.run(&Request::send(), &Answer::raw(200, body.clone()).split(split).ending(Ending::Open));
        let want = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": OVERFLOW}});
        assert_eq!(seen.json(), want);
        assert!(seen.closes_upstream);
        assert_eq!(seen.finish, Finish::End);
    }
    // Exactly the intake is still read.
    let tail = "\"}}";
    let head = "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"";
    for (length, code) in [(8191, -32004), (8192, -32004), (8193, -32603)] {
        let body = [head, &"x".repeat(length - head.len() - tail.len()), tail].concat();
        for split in [Split::Whole, Split::Every(1), Split::Every(4096)] {
            let seen = host.run(&Request::send(), &Answer::raw(200, body.clone()).split(split.clone()));
            assert_eq!(seen.code(), code, "{length} {split:?}");
        }
    }
}

/// Q-1: what comes while the rest of the request is awaited is not read, but passes if the answer does.
#[test]
fn c3_what_passes_over_the_intake_passes_whole() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 4096));
    for size in [5000, 20_000] {
        let answer = Answer::raw(302, "x".repeat(size)).split(Split::Every(1000));
        for order in [Order::RequestFirst, Order::AnswerFirst] {
            let seen = host.clone().order(order).run(&Request::send(), &answer);
            assert!(seen.passed(&answer), "{order:?}: {} of {size} bytes", seen.body.len());
        }
    }
}

#[test]
fn c3_a_compressed_bomb_is_bounded_by_it_too() {
    use std::io::Write;
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    w.write_all(b"{\"error\":{\"code\":-32004,\"message\":\"").unwrap();
    w.write_all(&vec![b'x'; 8 << 20]).unwrap();
    let bytes = w.finish().unwrap();
    for split in [Split::Whole, Split::Every(100)] {
        let answer = Answer::raw(200, bytes.clone()).header("content-encoding", "gzip").split(split);
        let seen = host.run(&Request::send(), &answer);
        assert_eq!(seen.error(), json!({"code": -32603, "message": OVERFLOW}));
        assert!(seen.closes_upstream);
        assert!(seen.header("content-encoding").is_none());
    }
}

/// O-1 wherever the status or the code that was read says so by itself; C-2 wherever they say anything else.
#[test]
fn c3_what_was_read_may_say_not_found() {
    let small = |host: Host| host.policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let (rpc, http) = (small(Host::rpc()), small(Host::http()));
    let task = Request::http(Method::GET, "/rest/tasks/t-1");
    let pad = "acme ".repeat(2000);
    let long = |start: &str| format!("{start},\"message\":\"{pad}\"}}}}");
    for (status, start) in [
        (422, "{\"error\":{\"code\":422,\"status\":\"NOT_FOUND\""),
        (422, "{\"error\":{\"code\":422,\"status\":\"INVALID_ARGUMENT\""),
        (422, "{\"error\":{\"x\":1"),
    ] {
        for split in [Split::Whole, Split::Every(100)] {
            let seen = http.run(&task, &Answer::raw(status, long(start)).split(split));
            is_http_not_found(&seen, &format!("{status} {start}"));
            assert!(seen.closes_upstream);
        }
    }
    for (status, start) in
        [(200, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32001"), (422, "{\"detail\":{\"loc\":1")]
    {
        is_not_found(&rpc.run(&Request::get_task(), &Answer::raw(status, long(start))), start);
        // Nobody's task is named.
        assert!(
            !rpc.run(&Request::send(), &Answer::raw(status, long(start))).text().contains("Task not found")
        );
    }
    for (host, request, status, start) in [
        (&http, &task, 500, "{\"error\":{\"code\":500,\"status\":\"INTERNAL\""),
        (&rpc, &Request::get_task(), 200, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32009"),
        (&rpc, &Request::get_task(), 500, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603"),
    ] {
        let seen = host.run(request, &Answer::raw(status, long(start)));
        assert!(seen.text().contains(OVERFLOW), "{start}: {}", seen.text());
    }
}

#[test]
fn c3_the_verdict_does_not_depend_on_the_split() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    // What tells result from error, or the code, comes only after the intake.
    let pad = "x".repeat(9000);
    for body in [
        format!("{{\"x\":\"{pad}\",\"result\":{{}}}}"),
        format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{pad}\",\"error\":{{\"code\":-32001,\"message\":\"x\"}}}}"),
        format!("{{\"error\":{{\"message\":\"{pad}\",\"code\":-31403}}}}"),
    ] {
        let run = |split: Split| {
            host.run(&Request::get_task(), &Answer::raw(200, body.clone()).split(split)).visible()
        };
        let first = run(Split::Every(1));
        for split in [Split::Whole, Split::Every(1000), Split::At(8192), Split::At(8193), Split::At(9050)] {
            assert!(run(split.clone()) == first, "{} {split:?}", body.get(..30).unwrap());
        }
    }
}

#[test]
fn c3_the_verdict_on_coded_bytes_does_not_depend_on_the_split_either() {
    use std::io::Write;
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    // What tells result from error, or the code, comes only after the intake, decoded.
    let pad: String = (0..9000u32).map(|n| char::from(b'a' + u8::try_from(n * n % 26).unwrap())).collect();
    for body in [
        format!("{{\"x\":\"{pad}\",\"result\":{{}}}}"),
        format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{pad}\",\"error\":{{\"code\":-32001,\"message\":\"x\"}}}}"),
        format!("{{\"error\":{{\"message\":\"{pad}\",\"code\":-31403}}}}"),
        format!("{{\"x\":\"{}\",\"result\":{{}}}}", "y".repeat(8180)),
        format!("{{\"x\":\"{}\",\"result\":{{}}}}", "y".repeat(8170)),
    ] {
        let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        w.write_all(body.as_bytes()).unwrap();
        let coded = w.finish().unwrap();
        let run = |split: Split| {
            let answer = Answer::raw(200, coded.clone()).header("content-encoding", "gzip").split(split);
            host.run(&Request::get_task(), &answer).visible()
        };
        let first = run(Split::Every(1));
        for split in
            [Split::Whole, Split::Every(7), Split::Every(100), Split::At(coded.len() - 9), Split::At(30)]
        {
            assert!(run(split.clone()) == first, "{} {split:?}", body.len());
        }
    }
}

#[test]
fn c4_a_rewritten_body_has_no_stale_headers() {
    use std::io::Write;
    let plain =
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32004, "message": "at /srv"}}).to_string();
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    w.write_all(plain.as_bytes()).unwrap();
    let answer = Answer::raw(200, w.finish().unwrap())
        .set("content-type", Some("application/json; charset=utf-16"))
        .header("content-encoding", "gzip")
        .header("content-length", "99999")
        .header("transfer-encoding", "chunked")
        .header("etag", "\"x\"")
        .header("digest", "sha-256=x")
        .header("content-digest", "sha-256=:x:")
        .header("repr-digest", "sha-256=:x:")
        .header("content-md5", "x")
        .header("last-modified", "x")
        .header("content-language", "en")
        .header("accept-ranges", "bytes")
        .header("connection", "keep-alive");
    let host = Host::rpc().policy(|p| {
        p.disclosure.headers = vec!["content-encoding".parse().unwrap(), "etag".parse().unwrap()];
    });
    let seen = host.run(&Request::send(), &answer);
    assert_eq!(seen.code(), -32004);
    let mut names: Vec<String> = seen.headers.keys().map(ToString::to_string).collect();
    names.sort();
    assert_eq!(names, ["content-length", "content-type"]);
    assert_eq!(seen.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string()));
}

#[test]
fn c4_head_has_no_body_to_judge() {
    for (status, path, anew) in [
        (404, "/rest/tasks/t-1", true),
        (403, "/rest/tasks/t-1", true),
        (410, "/rest/tasks/t-1", true),
        (500, "/rest/tasks/t-1", false),
        (401, "/rest/tasks/t-1", false),
        (200, "/rest/tasks/t-1", false),
        (404, "/rest/tasks", false),
    ] {
        let answer = Answer::raw(status, "").header("x-tenant", "acme").header("etag", "\"1\"");
        let seen = Host::http().run(&Request::http(Method::HEAD, path), &answer);
        assert!(seen.body.is_empty());
        if anew {
            assert_eq!(seen.status, 404, "{status}");
            let mut names: Vec<String> = seen.headers.keys().map(ToString::to_string).collect();
            names.sort();
            assert_eq!(names, ["content-length", "content-type"]);
            let get = Host::http().run(&Request::http(Method::GET, path), &Answer::raw(404, ""));
            assert_eq!(seen.header("content-length"), get.header("content-length"));
        } else {
            assert!(seen.passed(&answer), "{status} {path}");
        }
    }
}

#[test]
fn c5_a_held_error_that_breaks_off_is_a_complete_fault() {
    for (failure, status) in [(Failure::Closed, 502), (Failure::TimedOut, 504)] {
        for head in [200, 400, 500] {
            for body in [
                "",
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"mess",
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\"",
            ] {
                for request in [Request::send(), Request::get_task()] {
                    let answer = Answer::raw(head, body).ending(Ending::Fail(failure));
                    let seen = Host::rpc().run(&request, &answer);
                    assert_eq!(
                        (seen.status, seen.code(), seen.json()["id"].clone()),
                        (status, -32603, json!(7)),
                        "{head} {body}"
                    );
                    assert_eq!(seen.finish, Finish::End);
                    assert_eq!(seen.outcome.verdict, Verdict::Synthesized);
                }
            }
        }
        let answer = Answer::raw(500, "x").ending(Ending::Fail(failure));
        let seen = Host::http().run(&Request::http(Method::GET, "/rest/tasks"), &answer);
        assert_eq!((seen.status, seen.error()["code"].clone()), (status, json!(status)));
        faults_of(&seen.body, Binding::HttpJson, 4096).unwrap();
    }
}

/// `limits.held_bytes`: what there is no room for is a 503 with the request's id, in either binding.
#[test]
fn p1_without_room_to_hold_it_an_error_is_a_503() {
    let long =
        |status| Answer::raw(status, format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(9000)));
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    for order in [Order::RequestFirst, Order::AnswerFirst] {
        for split in [Split::Whole, Split::Every(700)] {
            let answer = long(500).split(split).no_room_from(5000);
            let seen = Host::rpc().order(order).run(&Request::send(), &answer);
            assert_eq!((seen.status, seen.code(), &seen.json()["id"]), (503, -32603, &json!(7)), "{order:?}");
            let seen = Host::http().order(order).run(&send, &answer);
            assert_eq!((seen.status, &seen.error()["status"]), (503, &json!("UNAVAILABLE")), "{order:?}");
            assert_eq!((seen.shed, seen.finish), (Some(0), Finish::End), "{order:?}");
            assert_eq!(seen.header("retry-after").as_deref(), Some("1"));
            // What the status decides is not decided otherwise (O-3, F-1).
            for status in [403, 404] {
                let answer = Answer { status, ..answer.clone() };
                is_not_found(&Host::rpc().order(order).run(&Request::get_task(), &answer), "no room");
            }
        }
    }
}

/// What is no error after all is not given up: a redirect (F-5), and what is to no interface (I-1).
#[test]
fn i4_without_room_to_hold_it_what_passes_is_whole() {
    let answer = Answer::json(302, &json!({"trace": "x".repeat(9000)})).header("location", "/elsewhere");
    let unknown = Host { target: Target::Unknown, ..Host::rpc() };
    let other = Request::raw(r#"{"no":"call"}"#);
    for order in [Order::RequestFirst, Order::AnswerFirst] {
        for split in [Split::Whole, Split::Every(700)] {
            let answer = answer.clone().split(split.clone()).no_room_from(5000);
            let seen = Host::rpc().order(order).run(&Request::send(), &answer);
            assert!(seen.shed.is_some() && seen.passed(&answer), "{order:?}, {split:?}: {}", seen.body.len());
            let answer = Answer { status: 200, ..answer };
            let seen = unknown.clone().order(order).run(&other, &answer);
            assert!(seen.passed(&answer), "{order:?}, {split:?}: {}", seen.body.len());
        }
    }
}

#[test]
fn c5_a_success_that_is_flowing_never_ends_cleanly() {
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{}", "x".repeat(6000));
    let answer = Answer::raw(200, body).ending(Ending::Fail(Failure::Closed));
    let seen = Host::rpc().run(&Request::send(), &answer);
    assert!(seen.host_head);
    assert_eq!(seen.finish, Finish::Abort);
}
