//! What the tests of `a2a-errata report` share: reports as proxies give them, and what was printed.
#![allow(dead_code)]

use std::process::Output;

use a2a_errata::observe::certificates::Known;
use a2a_errata::observe::reloads::Reloads;
use a2a_errata::observe::removal::Removal;
use a2a_errata::observe::report::{FORMAT, Host, Interface, Report, RuleCount};
use serde_json::Value;

use crate::support::{ScriptedHost, sized};

pub const NOW: i64 = 1_800_000_000;
pub const DAY: i64 = 86_400;

/// Watched for a month and right all the time.
pub fn clean() -> Interface {
    Interface {
        interface: "/a2a".into(),
        binding: "JSONRPC".into(),
        mode: "enforce".into(),
        since: NOW - 30 * DAY,
        mode_since: NOW - 30 * DAY,
        responses: [("passed".to_owned(), 90), ("conformant".to_owned(), 4)].into(),
        repairs: 0,
        right_errors: 4,
        last_rewrite: None,
        last_repair: None,
        clean_answers: 94,
        clean_errors: 4,
        rules: vec![],
        faults: [].into(),
        dropped: [].into(),
        collapsed: [].into(),
        upstream_failures: [].into(),
        last_hour: vec![],
        removal: Removal::default(),
    }
}

pub fn repaired() -> Interface {
    Interface {
        repairs: 5,
        last_repair: Some(NOW - 2 * DAY),
        rules: vec![RuleCount { rule: "E-1".into(), says: "written in shape".into(), count: 5 }],
        ..clean()
    }
}

/// Of a process that does not say which it is.
pub fn report_of(interfaces: Vec<Interface>) -> Report {
    let host = Host {
        name: "legacy".into(),
        ready: true,
        card_age: None,
        addresses: Vec::new(),
        can_go: false,
        interfaces,
    };
    Report {
        format: FORMAT,
        version: "1".into(),
        instance: String::new(),
        started: NOW - 30 * DAY,
        now: NOW,
        configuration: Reloads::default(),
        certificates: Known::default(),
        hosts: vec![host],
    }
}

pub fn report(interfaces: Vec<Interface>) -> String {
    serde_json::to_string(&report_of(interfaces)).unwrap()
}

/// A proxy's admin address that answers with this body.
pub fn proxy(body: &str) -> (ScriptedHost, String) {
    let host = ScriptedHost::saying(sized(200, body));
    let address = host.address.to_string();
    (host, address)
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
