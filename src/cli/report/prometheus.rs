//! What a Prometheus remembers of the proxies it scrapes, as hosts of a report.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::coverage::{self, STEP, Starts, Steps, Target};
use super::fetch::Client;
use super::merge::Limit;
use crate::observe::removal::Removal;
use crate::observe::report::{Host, Interface, RuleCount};
use crate::observe::rule_says;
use crate::outbound::Typed;

/// One series of an answer.
#[derive(Debug)]
struct Series {
    labels: serde_json::Map<String, Value>,
    value: f64,
}

impl Series {
    fn label(&self, name: &str) -> &str {
        self.labels.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn whole(&self) -> i64 {
        whole(self.value)
    }

    fn count(&self) -> u64 {
        u64::try_from(self.whole()).unwrap_or_default()
    }
}

/// What a float holds exactly. Counts and times lie far below it, and none of them is negative.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A count or a time, if it can be one.
fn possible(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value| (0.0..=EXACT).contains(value))
}

/// What is beyond what there can be becomes the last number that is, of which sums and differences fit as well.
#[expect(clippy::cast_possible_truncation, reason = "within what a float holds exactly")]
fn whole(value: f64) -> i64 {
    value.round().clamp(-EXACT, EXACT) as i64
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

#[derive(Deserialize)]
struct Vector {
    metric: serde_json::Map<String, Value>,
    value: (f64, String),
}

#[derive(Deserialize)]
struct Matrix {
    metric: serde_json::Map<String, Value>,
    values: Vec<(f64, String)>,
}

/// What a Prometheus knows.
pub struct Memory {
    pub hosts: Vec<Host>,
    pub now: i64,
    /// When the processes began that it scrapes now.
    pub starts: BTreeSet<i64>,
    /// Why no more is known of an interface.
    pub limits: Vec<Limit>,
    /// Proxies that it should scrape and cannot, each in a line.
    pub lost: Vec<String>,
    /// Targets that are one process.
    pub notes: Vec<String>,
}

/// Steps that are asked for at once.
const STEPS_AT_ONCE: i64 = 960;
const DAY: i64 = 86_400;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// Every host it knows, and its time.
///
/// # Errors
/// It cannot be asked, does not understand, answers in part, or knows no a2a-errata.
pub fn memory(client: &Client, base: &Typed, clean_days: u32) -> Result<Memory, String> {
    let source = Source { client, base };
    let ask = |query: &str| source.ask(query);
    let days = clean_days.max(1);
    let now = ask("time()")?.first().map(Series::whole).ok_or_else(|| source.none("is no Prometheus"))?;
    if !(0..=LAST).contains(&now) {
        return Err(source.none("its time is none"));
    }
    let from = now - i64::from(days) * DAY;
    let seen = source.steps(
        "count by (host, interface, job, instance) (count_over_time(a2a_errata_repairs_total[15m]))",
        (from, now),
    )?;
    if seen.is_empty() {
        return Err(format!(
            "{}: knows no series of an a2a-errata; does it scrape the admin address?",
            base.url
        ));
    }
    let starts = source
        .steps("max by (job, instance) (max_over_time(a2a_errata_start_time_seconds[15m]))", (from, now))?;
    let starts: Starts = starts.into_iter().map(|run| (run.target(), run.values)).collect();
    let mut lanes: BTreeMap<(String, String), BTreeMap<Target, Steps>> = BTreeMap::new();
    for run in &seen {
        let lane =
            lanes.entry((run.label("host").to_owned(), run.label("interface").to_owned())).or_default();
        lane.entry(run.target()).or_default().extend(run.values.keys().copied());
    }

    // A proxy that two jobs scrape counts once.
    let grown = |labels: &str, metric: &str| {
        ask(&format!(
            "sum by ({labels}) (max by ({labels}, instance) (increase(a2a_errata_{metric}_total[{days}d])))"
        ))
    };
    let answers = grown("host, interface, binding, outcome", "responses")?;
    let repairs = grown("host, interface", "repairs")?;
    let rules = grown("host, interface, rule", "rewrites")?;
    let last = |metric: &str| {
        ask(&format!(
            "max by (host, interface) (max_over_time(a2a_errata_{metric}_timestamp_seconds[{days}d]))"
        ))
    };
    let (last_repair, last_rewrite) = (last("last_repair")?, last("last_rewrite")?);
    let modes = ask("group by (host, interface, mode) (a2a_errata_mode_info)")?;
    let ready = ask("min by (host) (a2a_errata_host_ready)")?;
    let down = ask(&lost(days))?;

    let mut limits = Vec::new();
    let mut hosts: Vec<Host> = Vec::new();
    for ((name, path), targets) in &lanes {
        let known = coverage::known(targets, &starts, from, now);
        let place = hosts.iter().position(|host| host.name == *name).unwrap_or_else(|| {
            let of_host = ready.iter().find(|series| series.label("host") == name);
            hosts.push(Host {
                name: name.clone(),
                // One that is gone has no interfaces that could be unknown; what it lacks is said there.
                ready: of_host.map_or(!known.is_seen, |series| series.count() == 1),
                card_age: None,
                addresses: Vec::new(),
                can_go: false,
                interfaces: Vec::new(),
            });
            hosts.len() - 1
        });
        let Some(host) = hosts.get_mut(place) else { continue };
        if let Some(says) = known.why {
            limits.push(Limit { host: name.clone(), interface: path.clone(), says });
        }
        let is_lane = |s: &&Series| s.label("host") == name && s.label("interface") == path;
        let of = |list: &[Series]| list.iter().find(is_lane).map(Series::whole);
        let mut mode: Vec<&str> = modes.iter().filter(is_lane).map(|series| series.label("mode")).collect();
        mode.dedup();
        let blank = |binding: &str| Interface {
            interface: path.clone(),
            binding: binding.to_owned(),
            mode: match mode.as_slice() {
                [] => "unknown".to_owned(),
                [one] => (*one).to_owned(),
                _ => "mixed".to_owned(),
            },
            since: known.since,
            mode_since: known.since,
            responses: BTreeMap::default(),
            repairs: of(&repairs).and_then(|n| u64::try_from(n).ok()).unwrap_or_default(),
            right_errors: 0,
            last_rewrite: of(&last_rewrite),
            last_repair: of(&last_repair),
            clean_answers: 0,
            clean_errors: 0,
            rules: rules
                .iter()
                .filter(is_lane)
                .filter(|series| series.count() > 0)
                .map(|series| RuleCount {
                    rule: series.label("rule").to_owned(),
                    says: rule_says(series.label("rule")).to_owned(),
                    count: series.count(),
                })
                .collect(),
            faults: BTreeMap::default(),
            dropped: BTreeMap::default(),
            collapsed: BTreeMap::default(),
            upstream_failures: BTreeMap::default(),
            last_hour: Vec::new(),
            removal: Removal::default(),
        };
        let mut interfaces: Vec<Interface> = Vec::new();
        for series in answers.iter().filter(is_lane) {
            let binding = series.label("binding");
            let place = interfaces.iter().position(|i| i.binding == binding).unwrap_or_else(|| {
                interfaces.push(blank(binding));
                interfaces.len() - 1
            });
            let Some(interface) = interfaces.get_mut(place) else { continue };
            interface.responses.insert(series.label("outcome").to_owned(), series.count());
        }
        if interfaces.is_empty() {
            // Seen too seldom for its answers to be counted.
            let is_none = ["other", "unknown", "more"].contains(&path.as_str());
            interfaces.push(blank(if is_none { "none" } else { "unknown" }));
        }
        for interface in &mut interfaces {
            conclude(interface, now);
        }
        host.interfaces.extend(interfaces);
    }
    for host in &mut hosts {
        host.interfaces.sort_by_key(|interface| !interface.is_interface());
        // A lane for the time before the interfaces were known is over once they are.
        let ready = host.ready;
        host.interfaces
            .retain(|interface| !ready || interface.is_interface() || interface.interface != "unknown");
    }
    let missing = down.iter().map(|series| {
        let (job, instance) = (series.label("job"), series.label("instance"));
        format!(
            "{}: it cannot scrape {instance} of job {job:?}, so what that proxy repairs is not known",
            base.url
        )
    });
    Ok(Memory {
        now,
        starts: starts.values().filter_map(|steps| steps.get(&now)).copied().collect(),
        limits,
        lost: missing.collect(),
        notes: twice(&starts, now),
        hosts,
    })
}

/// What the counts say of what was right.
fn conclude(interface: &mut Interface, now: i64) {
    let count = |outcome: &str| interface.count(outcome);
    let (conformant, written) = (count("conformant"), count("rewritten").saturating_add(count("overflow")));
    // What was written anew without need was right.
    interface.clean_errors = conformant.saturating_add(written.saturating_sub(interface.repairs));
    if interface.repairs > 0 && interface.last_repair.is_none() {
        // Counted, but not when: it may have been just now.
        interface.last_repair = Some(now);
    }
    interface.right_errors = interface.clean_errors;
    interface.clean_answers = interface.count("passed").saturating_add(interface.clean_errors);
}

/// Targets that are down and were a proxy within the window, or are in a job of nothing but proxies.
fn lost(days: u32) -> String {
    let was = format!("max_over_time(a2a_errata_build_info[{days}d])");
    format!(
        "group by (job, instance) (up == 0 and on (job, instance) {was}) or group by (job, instance) (up == 0 \
         and on (job) {was} unless on (job) (up == 1 unless on (job, instance) a2a_errata_build_info))"
    )
}

/// What is scraped by several jobs.
fn twice(starts: &Starts, now: i64) -> Vec<String> {
    let mut processes: BTreeMap<(&str, i64), Vec<&str>> = BTreeMap::new();
    for (target, steps) in starts {
        if let Some(began) = steps.get(&now).filter(|_| !target.instance.is_empty()) {
            processes.entry((&target.instance, *began)).or_default().push(&target.job);
        }
    }
    let several = processes.into_iter().filter(|(_, jobs)| jobs.len() > 1);
    several
        .map(|((instance, _), jobs)| {
            format!("{instance} is scraped by several jobs ({}) and counts once", jobs.join(", "))
        })
        .collect()
}

/// A series over time.
struct Run {
    labels: serde_json::Map<String, Value>,
    values: BTreeMap<i64, i64>,
}

impl Run {
    fn label(&self, name: &str) -> &str {
        self.labels.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn target(&self) -> Target {
        Target { job: self.label("job").to_owned(), instance: self.label("instance").to_owned() }
    }
}

/// Where queries go.
struct Source<'a> {
    client: &'a Client,
    base: &'a Typed,
}

impl Source<'_> {
    fn ask(&self, query: &str) -> Result<Vec<Series>, String> {
        let data = self.data(&format!("/api/v1/query?query={}", percent_encoded(query)))?;
        // A scalar, such as the time, is no list of series.
        if data.result_type == "scalar" {
            let value = data.result.get(1).and_then(Value::as_str).and_then(|text| text.parse().ok());
            let value = value
                .filter(|value: &f64| value.is_finite())
                .ok_or_else(|| self.none("the answer is no number"))?;
            return Ok(vec![Series { labels: serde_json::Map::new(), value }]);
        }
        let list: Vec<Vector> = self.list(data, "vector")?;
        let series = list.into_iter().map(|one| match possible(&one.value.1) {
            Some(value) => Ok(Series { labels: one.metric, value }),
            // Left out it would be taken for "never".
            None => Err(self.none("answers a query with what is no count and no time")),
        });
        series.collect()
    }

    /// The values at every step of the window, as far back as there are any.
    fn steps(&self, query: &str, (from, to): (i64, i64)) -> Result<Vec<Run>, String> {
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        let mut end = to;
        while end >= from {
            let start = (end - (STEPS_AT_ONCE - 1) * STEP).max(from);
            let query = percent_encoded(query);
            let data =
                self.data(&format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={STEP}"))?;
            let list: Vec<Matrix> = self.list(data, "matrix")?;
            if list.is_empty() && end < to {
                break;
            }
            for one in list {
                let values = one.values.into_iter().filter_map(|(at, value)| {
                    let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
                    // What was not asked for is no step of the window, and what is between may be any length.
                    Some((whole(at), whole(value))).filter(|(at, _)| (start..=end).contains(at))
                });
                let key = serde_json::to_string(&one.metric).unwrap_or_default();
                let run = runs.entry(key).or_insert(Run { labels: one.metric, values: BTreeMap::new() });
                run.values.extend(values);
            }
            end = start - STEP;
        }
        Ok(runs.into_values().collect())
    }

    fn none(&self, says: &str) -> String {
        format!("{}: {says}", self.base.url)
    }

    fn data(&self, below: &str) -> Result<Data, String> {
        let text = self.client.get(self.base, below)?;
        let answer: Answer = serde_json::from_str(&text).map_err(|_| self.none("is no Prometheus"))?;
        if answer.status != "success" {
            return Err(self.none(&format!("does not answer the query: {}", answer.error)));
        }
        // Some versions also warn of what only might be odd about a query.
        if let Some(warning) = answer.warnings.iter().find(|warning| !warning.starts_with("PromQL info")) {
            return Err(self.none(&format!("answers in part only: {warning}")));
        }
        answer.data.ok_or_else(|| self.none("is no Prometheus"))
    }

    fn list<T: serde::de::DeserializeOwned>(&self, data: Data, kind: &str) -> Result<Vec<T>, String> {
        let list = (data.result_type == kind).then(|| serde_json::from_value(data.result));
        list.and_then(Result::ok).ok_or_else(|| self.none("is no Prometheus"))
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            use std::fmt::Write as _;
            _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        assert_eq!(percent_encoded("a{b=\"c\"}[1d] >0"), "a%7Bb%3D%22c%22%7D%5B1d%5D%20%3E0");
    }
}
