//! Every scenario the legacy host knows, by chapter.
//!
//! Names in the bodies (`acme`, `ws-9`, `u-9`, `/srv/…`) stand for what must not reach a client; no
//! request contains them.

mod broken_json;
mod codes;
mod data;
mod frameworks;
mod ids;
mod not_found;
mod openwop;
mod profile;
mod rest;
mod streams;
mod transport;
mod untouched;

use super::{Call, REFERENCE, Scenario};

/// The task that the catalogue's calls name.
pub const TASK: &str = "task-7f3a";

/// All scenarios, chapter by chapter.
#[must_use]
pub fn catalogue() -> Vec<Scenario> {
    [
        data::scenarios(),
        codes::scenarios(),
        not_found::scenarios(),
        openwop::scenarios(),
        frameworks::scenarios(),
        ids::scenarios(),
        broken_json::scenarios(),
        transport::scenarios(),
        streams::scenarios(),
        rest::scenarios(),
        profile::scenarios(),
        untouched::scenarios(),
    ]
    .concat()
}

const HELLO: &str = r#"{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"hello"}]}}"#;

fn send() -> Call {
    Call::json_rpc("7", "SendMessage", HELLO)
}

fn get_task() -> Call {
    on_task("GetTask")
}

/// A call whose parameters are the task's id alone.
fn on_task(method: &str) -> Call {
    Call::json_rpc("7", method, &format!(r#"{{"id":"{TASK}"}}"#))
}

/// A `google.rpc.ErrorInfo`; `more` is what follows the domain, with its comma.
fn error_info(reason: &str, domain: &str, more: &str) -> String {
    format!(
        r#"{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"{domain}"{more}}}"#
    )
}

const A2A: &str = "a2a-protocol.org";
