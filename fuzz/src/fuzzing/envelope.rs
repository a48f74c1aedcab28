//! OpenWOP's error envelope: which bodies are one, what its code becomes on which call, and that nothing else of it
//! leaves. The table of codes is read here from the registry and from the rules' own table, not from the proxy's.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::Method;
use serde_json::{Value, json};

use super::{hold, mutate};
use crate::rules_support::{Answer, Host, Request, Seen, Split, invariants, strict};

/// Statuses that do not decide by themselves (F-1, O-3), and two that do.
const STATUSES: [u16; 10] = [200, 400, 409, 415, 422, 500, 503, 403, 404, 401];

static REGISTRY: LazyLock<HashMap<String, u16>> = LazyLock::new(|| {
    let facts: Value =
        serde_json::from_str(include_str!("../../../tests/facts/openwop-codes.json")).expect("facts");
    let codes = facts["codes"].as_array().expect("codes").iter();
    codes
        .map(|c| {
            let status = c["httpStatus"].as_u64().and_then(|s| u16::try_from(s).ok());
            (c["code"].as_str().expect("a code").to_owned(), status.expect("a status"))
        })
        .collect()
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    GetTask,
    CancelTask,
    Send,
    ExtendedCard,
    PushConfigs,
    HttpGetTask,
    HttpSend,
}

impl Asked {
    const ALL: [Self; 7] = [
        Self::GetTask,
        Self::CancelTask,
        Self::Send,
        Self::ExtendedCard,
        Self::PushConfigs,
        Self::HttpGetTask,
        Self::HttpSend,
    ];

    fn names_task(self) -> bool {
        !matches!(self, Self::Send | Self::ExtendedCard | Self::HttpSend)
    }

    fn request(self) -> (Host, Request) {
        match self {
            Self::GetTask => (Host::rpc(), Request::get_task()),
            Self::CancelTask => (Host::rpc(), Request::call("CancelTask", &json!({"id": "t-1"}))),
            Self::Send => (Host::rpc(), Request::send()),
            Self::ExtendedCard => (Host::rpc(), Request::call("GetExtendedAgentCard", &json!({}))),
            Self::PushConfigs => {
                (Host::rpc(), Request::call("ListTaskPushNotificationConfigs", &json!({"taskId": "t-1"})))
            }
            Self::HttpGetTask => (Host::http(), Request::http(Method::GET, "/rest/tasks/t-1")),
            Self::HttpSend => (
                Host::http(),
                Request::http(Method::POST, "/rest/message:send").body(r#"{"message":{"messageId":"m"}}"#),
            ),
        }
    }
}

/// The input is a byte that picks the status, one that picks the call, and the body.
pub fn check(data: &[u8]) {
    let [status, asked, body @ ..] = data else { return };
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let asked = Asked::ALL[usize::from(*asked) % Asked::ALL.len()];
    let (host, request) = asked.request();
    let answer = Answer::raw(status, body);
    hold(invariants::all(&host, &request, &answer, (&Split::Every(1), &Split::Every(7))));
    let seen = host.run(&request, &answer);
    hold(
        becomes(asked, status, body, &seen)
            .map_err(|why| format!("{asked:?} {status}: {why}\n{}", seen.text())),
    );
}

/// What an answer says, in a few words.
fn said(asked: Asked, seen: &Seen) -> Result<(i64, Option<String>), String> {
    let root = strict::parse(&seen.body)?;
    let error = &root["error"];
    let details = if error["data"].is_array() { &error["data"] } else { &error["details"] };
    let reason = details[0]["reason"].as_str().map(str::to_owned);
    let code = error["code"].as_i64().ok_or_else(|| format!("no code for {asked:?}"))?;
    Ok((code, reason))
}

/// The table of section 3, for the registered codes at statuses that do not decide by themselves.
fn becomes(asked: Asked, status: u16, body: &[u8], seen: &Seen) -> Result<(), String> {
    let Ok(Value::Object(root)) = strict::parse(body) else { return Ok(()) };
    let (Some(Value::String(code)), Some(Value::String(_)), None) =
        (root.get("error"), root.get("message"), root.get("jsonrpc"))
    else {
        return Ok(());
    };
    // A body with members of other protocols beside those may be read as theirs, and long ones flow.
    let plain = root.keys().all(|name| matches!(name.as_str(), "error" | "message" | "details"));
    let Some(own) = REGISTRY.get(code) else { return Ok(()) };
    let details = root.get("details").map(ToString::to_string).unwrap_or_default();
    // A reason in the details would be evidence of its own (F-2), a version list another (F-7).
    let silent = !["reason", "ersion", "upported"].iter().any(|word| details.contains(word));
    if !plain || !silent || matches!(status, 401 | 403 | 404) || body.len() > 4000 {
        return Ok(());
    }
    let is_rpc = !matches!(asked, Asked::HttpGetTask | Asked::HttpSend);
    let first_row = matches!(
        code.as_str(),
        "not_found"
            | "run_forbidden"
            | "id_tenant_mismatch"
            | "workspace_membership_required"
            | "replay_source_missing"
            | "interrupt_not_found"
    );
    // A call whose parameters are in order: -32602 says "not yours" (O-3).
    let hides = asked.names_task();
    let want: i64 = match (code.as_str(), own) {
        _ if first_row && asked.names_task() => -32001,
        ("not_found", _) if asked == Asked::ExtendedCard => -32007,
        _ if first_row => {
            if *own == 403 {
                -32000
            } else {
                -32601
            }
        }
        ("run_terminal", _) => {
            if asked == Asked::CancelTask {
                -32002
            } else {
                -32004
            }
        }
        ("capability_required" | "capability_not_provided", _) => {
            if asked == Asked::PushConfigs {
                -32003
            } else {
                -32004
            }
        }
        ("unsupported_media_type", _) => -32005,
        ("interop_version_unsupported" | "protocol_version_unsupported" | "protocol_version_mismatch", _) => {
            -32009
        }
        (_, 403) if asked.names_task() => -32001,
        (_, 401 | 403 | 429) => -32000,
        (_, 413) => -32600,
        (_, 400 | 422) if hides => -32001,
        (_, 400 | 422) => -32602,
        (_, 404) if !asked.names_task() => -32601,
        (_, 500..) => -32603,
        _ => -32600,
    };
    if seen.host_head {
        return Err(format!("the envelope {code} passed"));
    }
    let (have, reason) = said(asked, seen)?;
    if is_rpc && have != want {
        return Err(format!("{code} became {have}, not {want}"));
    }
    if !is_rpc && want == -32001 && have != 404 {
        return Err(format!("{code} became {have}, not 404"));
    }
    let openwop = code.to_ascii_uppercase();
    let want_reason = match (want, own) {
        (-32009..=-32001, _) => return Ok(()), // the invariants have it
        (_, 401) => "UNAUTHENTICATED",
        (_, 403) => "PERMISSION_DENIED",
        (_, 429) => "RATE_LIMITED",
        (_, 413) => "PAYLOAD_TOO_LARGE",
        _ => openwop.as_str(),
    };
    let expected = Some(want_reason.to_owned());
    if reason == expected {
        Ok(())
    } else {
        Err(format!("the reason of {code} is {reason:?}, not {want_reason}"))
    }
}

/// Changes an input.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = fastrand::Rng::with_seed(u64::from(seed) ^ 0x5eed);
    if size < 2 || max_size < 3 || rng.u8(..8) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    if rng.u8(..3) == 0 {
        data[rng.usize(..2)] = rng.u8(b' '..b'~');
    }
    if rng.u8(..4) == 0 {
        // Another registered code.
        let mut codes: Vec<&String> = REGISTRY.keys().collect();
        codes.sort_unstable();
        let code = codes[rng.usize(..codes.len())];
        let body = format!(
            "{{\"error\":\"{code}\",\"message\":\"x\",\"details\":{{\"runId\":\"zz@marker.example\"}}}}"
        );
        let size = body.len().min(max_size - 2).min(data.len() - 2);
        data[2..2 + size].copy_from_slice(&body.as_bytes()[..size]);
        return size + 2;
    }
    2 + mutate::document(&mut data[2..], size - 2, max_size - 2, seed)
}
