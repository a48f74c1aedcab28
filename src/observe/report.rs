//! `/report`: what is passed, repaired and dropped per host and interface, as JSON of a versioned shape
//! (docs/report.md). The status page shows the same; `a2a-errata report` reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::certificates::Known;
use super::groups::Address;
use super::lane::{Lane, VERDICTS, unix_now};
use super::reloads::Reloads;
use super::removal::{self, Evidence, Removal};
use super::trend::Minute;
use super::{Metrics, Readiness, rule_text};

/// The shape's version. Members may be added to a version; none is removed, renamed or given another
/// meaning.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    /// Of the proxy.
    pub version: String,
    /// A random word of this process; empty where an older build does not tell.
    #[serde(default)]
    pub instance: String,
    /// Unix times: when the process began, when this was made.
    pub started: i64,
    pub now: i64,
    /// How the configuration in effect came about.
    #[serde(default)]
    pub configuration: Reloads,
    /// The certificates in effect, and files that were not taken.
    #[serde(default, skip_serializing_if = "Known::is_empty")]
    pub certificates: Known,
    pub hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    /// Its interfaces are known.
    pub ready: bool,
    /// Seconds since its agent card was last read well; absent if it is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_age: Option<f64>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Every criterion holds on every interface.
    pub can_go: bool,
    pub interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Its path; `other` is everything that is no interface, `unknown` every POST while no interface is
    /// known, `more` what is beyond the number of interfaces told apart.
    pub interface: String,
    /// `JSONRPC`, `HTTP+JSON`, or `none` where it is no interface.
    pub binding: String,
    /// `enforce` or `observe`.
    pub mode: String,
    /// Unix times: since when it is counted, and since when in this mode.
    pub since: i64,
    pub mode_since: i64,
    /// By outcome.
    pub responses: BTreeMap<String, u64>,
    /// Answers that clients could not have used as the host gave them, and errors that were right.
    pub repairs: u64,
    pub right_errors: u64,
    /// Unix times: the last answer written anew, and the last one that needed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rewrite: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_repair: Option<i64>,
    /// Since the last repair: the host's answers, and the right errors among them.
    pub clean_answers: u64,
    pub clean_errors: u64,
    /// Rules that fired.
    pub rules: Vec<RuleCount>,
    /// Each by name.
    pub faults: BTreeMap<String, u64>,
    pub dropped: BTreeMap<String, u64>,
    pub collapsed: BTreeMap<String, u64>,
    pub upstream_failures: BTreeMap<String, u64>,
    /// The last hour, a minute each, the one under way last.
    pub last_hour: Vec<Minute>,
    pub removal: Removal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    pub rule: String,
    /// What the rule is about.
    pub says: String,
    pub count: u64,
}

impl Interface {
    /// It has a binding: answers there have a shape.
    #[must_use]
    pub fn is_interface(&self) -> bool {
        self.binding != "none"
    }

    /// How many answers had this outcome.
    #[must_use]
    pub fn count(&self, outcome: &str) -> u64 {
        self.responses.get(outcome).copied().unwrap_or_default()
    }

    /// Nothing at all came.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.responses.values().all(|count| *count == 0)
    }

    /// The criteria with another number of days.
    #[must_use]
    pub fn judge(&self, ready: bool, now: i64, clean_days: u32) -> Removal {
        let evidence = Evidence {
            now,
            since: self.since,
            last_repair: self.last_repair,
            right_errors: self.clean_errors,
            is_interface: self.is_interface(),
            ready,
        };
        removal::judge(&evidence, clean_days)
    }
}

/// The numbers of now.
#[must_use]
pub fn make(metrics: &Metrics, readiness: &Readiness, clean_days: u32) -> Report {
    let now = unix_now();
    let (lanes, groups) = (metrics.live(), metrics.groups());
    let hosts = readiness.hosts().into_iter().map(|(name, ready)| {
        let of_host = lanes.iter().filter(|lane| lane.host() == name);
        let mut interfaces: Vec<_> = of_host.map(|lane| interface(lane, ready, now, clean_days)).collect();
        // Interfaces first, in the order of their making; what is no interface after them.
        interfaces.sort_by_key(|interface| !interface.is_interface());
        Host {
            card_age: metrics.card_age(&name),
            addresses: groups.addresses(&name),
            name,
            ready,
            can_go: can_go(&interfaces),
            interfaces,
        }
    });
    Report {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: metrics.instance().to_owned(),
        started: metrics.started(),
        now,
        configuration: metrics.reloads.get(),
        certificates: metrics.certificates().known(),
        hosts: hosts.collect(),
    }
}

/// A host's shim can go when it can from every interface, and there is one.
#[must_use]
pub fn can_go(interfaces: &[Interface]) -> bool {
    interfaces.iter().any(Interface::is_interface)
        && interfaces.iter().all(|interface| interface.removal.can_go)
}

fn interface(lane: &Lane, ready: bool, now: i64, clean_days: u32) -> Interface {
    let numbers = lane.snapshot(now);
    let named = |list: Vec<(&'static str, u64)>| -> BTreeMap<String, u64> {
        list.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    };
    let rules = numbers.rules.into_iter().map(|(rule, count)| RuleCount {
        rule: rule.id().to_owned(),
        says: rule_text::says(rule).to_owned(),
        count,
    });
    let mut interface = Interface {
        interface: lane.interface().to_owned(),
        binding: lane.binding().to_owned(),
        mode: numbers.mode.as_str().to_owned(),
        since: numbers.since,
        mode_since: numbers.mode_since,
        responses: VERDICTS
            .iter()
            .zip(numbers.responses)
            .map(|(verdict, count)| (verdict.as_str().to_owned(), count))
            .collect(),
        repairs: numbers.repairs,
        right_errors: numbers.right_errors,
        last_rewrite: numbers.last_rewrite,
        last_repair: numbers.last_repair,
        clean_answers: numbers.answers_since,
        clean_errors: numbers.errors_since,
        rules: rules.collect(),
        faults: named(numbers.faults),
        dropped: named(numbers.dropped),
        collapsed: named(numbers.collapsed),
        upstream_failures: named(numbers.upstream_failures),
        last_hour: numbers.trend,
        removal: Removal::default(),
    };
    interface.removal = interface.judge(ready, now, clean_days);
    interface
}
