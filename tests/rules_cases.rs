//! The black-box cases without the sockets: every case that is not about connections goes
//! through an exchange, and what the client gets must not depend on how the bytes were split.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod rules_support;

use std::io::Write;
use std::path::Path;

use a2a_errata::normalize::{Binding, Messages, Mode, Policy};
use base64_lite::decode;
use http::Method;
use rules_support::*;
use serde_json::Value;

/// Base64 as the case files use it: standard alphabet, padded.
mod base64_lite {
    pub fn decode(text: &str) -> Vec<u8> {
        let value = |c: u8| -> u32 {
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            u32::try_from(alphabet.iter().position(|a| *a == c).expect("base64")).unwrap()
        };
        let text: Vec<u8> = text.bytes().filter(|b| *b != b'=').collect();
        let mut out = Vec::new();
        for chunk in text.chunks(4) {
            let bits = chunk.iter().fold(0, |bits, c| bits << 6 | value(*c)) << (6 * (4 - chunk.len()));
            out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
        }
        out
    }
}

/// Bodies up to this long are split at every position.
const EVERY_SPLIT: usize = 300;

fn body_of(spec: &Value) -> Vec<u8> {
    let raw = if let Some(parts) = spec["parts"].as_array() {
        parts.iter().flat_map(body_of).collect()
    } else if let Some(json) = spec.get("json") {
        json.to_string().into_bytes()
    } else if let Some(text) = spec["base64"].as_str() {
        decode(text)
    } else {
        spec["text"].as_str().unwrap_or_default().as_bytes().to_vec()
    };
    match spec["repeat"].as_u64() {
        Some(n) => raw.repeat(usize::try_from(n).unwrap()),
        None => raw,
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    w.write_all(bytes).unwrap();
    w.finish().unwrap()
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// The policy that a case's `host` table stands for; `None` if it has a key that is not the rules'.
fn policy_of(host: &Value) -> Option<Policy> {
    let mut policy = Policy::default();
    let size = |v: &Value| usize::try_from(v.as_u64().unwrap()).unwrap();
    for (key, value) in host.as_object().into_iter().flatten() {
        match key.as_str() {
            "mode" if value == "observe" => policy.mode = Mode::Observe,
            "mode" => {}
            "response_cap_bytes" => policy.response_cap_bytes = size(value),
            "intake_bytes" => policy.intake_bytes = size(value),
            "normalize_0_3" => policy.normalize_0_3 = value == true,
            "cap" => policy.cap.success = value["success"] == true,
            "oracle" => {
                policy.oracle.collapse_scope = value["collapse_scope"] == true;
                policy.oracle.keep_headers =
                    names(&value["keep_headers"]).iter().map(|n| n.parse().unwrap()).collect();
            }
            "disclosure" => {
                policy.disclosure.messages = match value["messages"].as_str() {
                    Some("canonical") => Messages::Canonical,
                    Some("upstream") => Messages::Upstream,
                    _ => Messages::Guarded,
                };
                policy.disclosure.words = names(&value["words"]);
                policy.disclosure.metadata_keys = names(&value["metadata_keys"]);
                policy.disclosure.detail_types = names(&value["detail_types"]);
                policy.disclosure.headers =
                    names(&value["headers"]).iter().map(|n| n.parse().unwrap()).collect();
            }
            _ => return None,
        }
    }
    Some(policy)
}

/// The host of a case whose request is for one of its interfaces.
fn host_of(case: &Value, path: &str) -> Option<Host> {
    if case.get("card").is_some() || case.get("top").is_some() {
        return None;
    }
    let mut host = match case["interfaces"].as_array() {
        None if path == "/a2a" || path == "/a2a/" => Host::rpc(),
        None => return None,
        Some(interfaces) => {
            let interface = interfaces.iter().find(|i| {
                let base = i["path"].as_str().unwrap().trim_end_matches('/');
                if i["binding"] == "JSONRPC" {
                    path.trim_end_matches('/') == base
                } else {
                    path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
                }
            })?;
            let binding =
                if interface["binding"] == "JSONRPC" { Binding::JsonRpc } else { Binding::HttpJson };
            let versions = names(&interface["versions"]);
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            Host::with(interface["path"].as_str().unwrap().trim_end_matches('/'), binding, &versions)
        }
    };
    host.policy = policy_of(&case["host"])?;
    Some(host)
}

fn request_of(case: &Value) -> Request {
    let spec = &case["request"];
    let url = spec["path"].as_str().unwrap_or("/a2a");
    let (path, query) = url.split_once('?').map_or((url, None), |(p, q)| (p, Some(q.to_owned())));
    let method = spec["method"].as_str().unwrap_or("POST");
    let mut request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        path: path.into(),
        query,
        headers: http::HeaderMap::new(),
        body: body_of(spec),
        split: Split::Whole,
    };
    for (name, value) in
        [("content-type", "application/json"), ("accept", "application/json"), ("a2a-version", "1.0")]
    {
        request = request.header(name, value);
    }
    for (name, value) in spec["headers"].as_object().into_iter().flatten() {
        request = request.set(name, value.as_str());
    }
    request
}

fn answer_of(case: &Value) -> Answer {
    let spec = &case["upstream"];
    let status = u16::try_from(spec["status"].as_u64().unwrap_or(200)).unwrap();
    let mut answer = Answer::raw(status, body_of(spec));
    for (name, value) in spec["headers"].as_object().into_iter().flatten() {
        answer = answer.set(name, None);
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for value in values.iter().filter_map(Value::as_str) {
            answer = answer.header(name, value);
        }
    }
    if spec["gzip"] == true {
        answer.body = gzip(&answer.body);
        answer = answer.header("content-encoding", "gzip");
    }
    answer
}

/// The cases that need no socket.
fn cases() -> Vec<(String, Value, Host, Request, Answer)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/black_box/cases");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for case in list.as_array().unwrap() {
            let up = &case["upstream"];
            let on_the_wire = ["answer_after", "claim_length", "hangup", "abort", "silent", "version"];
            if on_the_wire.iter().any(|k| up.get(k).is_some()) {
                continue;
            }
            let request = request_of(case);
            let Some(host) = host_of(case, &request.path) else { continue };
            let answer = answer_of(case);
            let framed = ["upgrade", "transfer-encoding", "content-length"];
            if framed.iter().any(|n| request.headers.contains_key(*n)) {
                continue;
            }
            found.push((case["name"].as_str().unwrap().to_owned(), case.clone(), host, request, answer));
        }
    }
    found
}

#[test]
fn cases_hold_without_sockets() {
    let cases = cases();
    assert!(cases.len() > 200, "{} cases", cases.len());
    for (name, case, host, request, answer) in &cases {
        let seen = host.run(request, answer);
        let expect = &case["expect"];
        if let Some(status) = expect["status"].as_u64() {
            assert_eq!(u64::from(seen.status), status, "{name}: {}", seen.text());
        }
        if let Some(json) = expect.get("json")
            && !(expect["or_empty"] == true && seen.body.is_empty())
        {
            assert_eq!(seen.json(), *json, "{name}");
        }
        if expect["identical_to_upstream"] == true {
            assert!(seen.passed(answer), "{name}: {}", seen.text());
        }
        if expect["valid_a2a_error"] == true {
            let valid = faults_of(&seen.body, Binding::JsonRpc, host.policy.response_cap_bytes);
            assert_eq!(valid, Ok(()), "{name}: {}", seen.text());
        }
        for text in names(&expect["absent_text"]) {
            assert!(!seen.text().contains(&text), "{name}: {}", seen.text());
        }
    }
}

#[test]
fn cases_do_not_depend_on_the_split() {
    for (name, _, host, request, answer) in cases() {
        let first = host.run(&request, &answer).visible();
        let check = |request: &Request, answer: &Answer, why: &str| {
            let seen = host.run(request, answer).visible();
            assert!(seen == first, "{name}, {why}:\n{first:?}\n{seen:?}");
        };
        let length = answer.body.len();
        let at: Vec<usize> = if length <= EVERY_SPLIT {
            (1..length).collect()
        } else {
            [1, 2, 3, 17, length / 2, 4095, 4096, 4097, length - 1]
                .into_iter()
                .filter(|n| *n < length)
                .collect()
        };
        for at in at {
            check(&request, &answer.clone().split(Split::At(at)), &format!("the answer at {at}"));
        }
        let every: &[usize] = if length < 5000 { &[1, 7] } else { &[999] };
        for every in every {
            check(&request, &answer.clone().split(Split::Every(*every)), &format!("by {every}"));
        }
        let every = if request.body.len() < 20_000 { 1 } else { 999 };
        let cut = request.clone().split(Split::Every(every));
        check(&cut, &answer, "the request");
        // Who is first, the request's end or the answer's, makes no difference either.
        let late = host.clone().order(Order::AnswerFirst).run(&cut, &answer).visible();
        assert!(late == first, "{name}, answered first:\n{first:?}\n{late:?}");
    }
}

#[test]
fn cases_pass_untouched_in_observe_mode() {
    for (name, _, host, request, answer) in cases() {
        let host = host.policy(|p| p.mode = Mode::Observe);
        for split in [Split::Whole, Split::Every(100)] {
            let seen = host.run(&request, &answer.clone().split(split));
            assert!(seen.passed(&answer), "{name}");
        }
    }
}
