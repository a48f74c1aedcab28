//! Putting together what several proxies say of the same host, and what a Prometheus remembers of it.

use std::collections::BTreeMap;

use crate::observe::groups::{Address, AddressState};
use crate::observe::removal::Criterion;
use crate::observe::report::{Host, Interface, RuleCount, can_go};

/// Hosts of the same name are one host behind several proxies. It is clean since the last repair of any of
/// them, and watched since the last of them began: before, another process counted.
pub fn proxies<'a>(reports: impl IntoIterator<Item = &'a [Host]>) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for mut host in reports.into_iter().flatten().cloned() {
        for interface in &mut host.interfaces {
            // The minutes of several proxies have no sum worth showing.
            interface.last_hour.clear();
        }
        let Some(known) = hosts.iter_mut().find(|known| known.name == host.name) else {
            hosts.push(host);
            continue;
        };
        known.ready &= host.ready;
        known.card_age = match (known.card_age, host.card_age) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        for address in host.addresses {
            let is_it = |known: &&mut Address| {
                (&known.upstream, &known.address) == (&address.upstream, &address.address)
            };
            match known.addresses.iter_mut().find(is_it) {
                Some(known) => {
                    known.in_flight = known.in_flight.saturating_add(address.in_flight);
                    if known.state == AddressState::Healthy {
                        // One that any of them has trouble with.
                        known.state = address.state;
                    }
                }
                None => known.addresses.push(address),
            }
        }
        for interface in host.interfaces {
            match same(&mut known.interfaces, &interface) {
                Some(known) => add(known, interface),
                None => known.interfaces.push(interface),
            }
        }
    }
    hosts
}

/// Prometheus knows what was counted by processes that are gone, so its word on how long something was
/// watched goes; the proxies know better what is now.
pub fn with_memory(mut hosts: Vec<Host>, remembered: Vec<Host>) -> Vec<Host> {
    for memory in remembered {
        let Some(known) = hosts.iter_mut().find(|known| known.name == memory.name) else {
            hosts.push(memory);
            continue;
        };
        for interface in memory.interfaces {
            let Some(known) = same(&mut known.interfaces, &interface) else {
                known.interfaces.push(interface);
                continue;
            };
            known.since = known.since.min(interface.since);
            known.last_repair = known.last_repair.max(interface.last_repair);
            known.last_rewrite = known.last_rewrite.max(interface.last_rewrite);
            known.clean_errors = known.clean_errors.max(interface.clean_errors);
            known.clean_answers = known.clean_answers.max(interface.clean_answers);
            known.repairs = known.repairs.max(interface.repairs);
            known.right_errors = known.right_errors.max(interface.right_errors);
            most(&mut known.responses, interface.responses);
            for rule in interface.rules {
                match known.rules.iter_mut().find(|known| known.rule == rule.rule) {
                    Some(known) => known.count = known.count.max(rule.count),
                    None => known.rules.push(rule),
                }
            }
        }
    }
    hosts
}

/// The criterion that fails where a proxy or a Prometheus could not be read.
pub const EVERYTHING_READ: &str = "everything read";

/// Why no more is known of an interface than since when it is watched.
pub struct Limit {
    pub host: String,
    pub interface: String,
    pub says: String,
}

/// A proxy that Prometheus does not scrape has no memory there: of its interfaces no more is known than it tells.
pub fn forgets(hosts: &mut [Host], report: &[Host], says: &str, limits: &mut Vec<Limit>) {
    for told in report {
        let Some(host) = hosts.iter_mut().find(|host| host.name == told.name) else { continue };
        for lane in &told.interfaces {
            let Some(known) = same(&mut host.interfaces, lane) else { continue };
            if known.since < lane.since {
                known.since = lane.since;
                limits.push(Limit {
                    host: told.name.clone(),
                    interface: lane.interface.clone(),
                    says: says.to_owned(),
                });
            }
        }
    }
}

/// Judges every interface by these days. Where not everything was read, no shim can go.
pub fn judge(hosts: &mut [Host], now: i64, clean_days: u32, limits: &[Limit], is_whole: bool) {
    for host in hosts {
        for interface in &mut host.interfaces {
            let mut removal = interface.judge(host.ready, now, clean_days);
            let is_it = |limit: &&Limit| limit.host == host.name && limit.interface == interface.interface;
            if let Some(watched) = removal.criteria.iter_mut().find(|c| c.name == "watched" && !c.holds)
                && let Some(limit) = limits.iter().rev().find(is_it)
            {
                watched.says = format!("{}; {}", watched.says, limit.says);
            }
            if !is_whole {
                removal.can_go = false;
                removal.criteria.push(Criterion {
                    name: EVERYTHING_READ.to_owned(),
                    holds: false,
                    says: "not everything could be read, and what is missing may be repairing".to_owned(),
                });
            }
            interface.removal = removal;
        }
        host.can_go = can_go(&host.interfaces);
    }
}

fn same<'a>(known: &'a mut [Interface], other: &Interface) -> Option<&'a mut Interface> {
    known.iter_mut().find(|known| known.interface == other.interface && known.binding == other.binding)
}

fn add(known: &mut Interface, other: Interface) {
    if known.mode != other.mode {
        "mixed".clone_into(&mut known.mode);
    }
    known.since = known.since.max(other.since);
    known.mode_since = known.mode_since.max(other.mode_since);
    known.last_rewrite = known.last_rewrite.max(other.last_rewrite);
    known.last_repair = known.last_repair.max(other.last_repair);
    more(&mut known.repairs, other.repairs);
    more(&mut known.right_errors, other.right_errors);
    more(&mut known.clean_answers, other.clean_answers);
    more(&mut known.clean_errors, other.clean_errors);
    sum(&mut known.responses, other.responses);
    sum(&mut known.faults, other.faults);
    sum(&mut known.dropped, other.dropped);
    sum(&mut known.collapsed, other.collapsed);
    sum(&mut known.upstream_failures, other.upstream_failures);
    for RuleCount { rule, says, count } in other.rules {
        match known.rules.iter_mut().find(|known| known.rule == rule) {
            Some(known) => more(&mut known.count, count),
            None => known.rules.push(RuleCount { rule, says, count }),
        }
    }
}

/// Counts are what proxies say, and may be as large as any number.
fn more(known: &mut u64, other: u64) {
    *known = known.saturating_add(other);
}

fn sum(known: &mut BTreeMap<String, u64>, other: BTreeMap<String, u64>) {
    for (name, count) in other {
        more(known.entry(name).or_default(), count);
    }
}

fn most(known: &mut BTreeMap<String, u64>, other: BTreeMap<String, u64>) {
    for (name, count) in other {
        let known = known.entry(name).or_default();
        *known = count.max(*known);
    }
}
