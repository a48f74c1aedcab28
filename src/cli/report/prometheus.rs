//! What a Prometheus remembers of the proxies it scrapes, as hosts of a report.

use serde::Deserialize;
use serde_json::Value;

use super::fetch::Client;
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

    #[expect(
        clippy::cast_possible_truncation,
        reason = "counts and times, far below what a float holds exactly"
    )]
    fn whole(&self) -> i64 {
        self.value.round() as i64
    }

    fn count(&self) -> u64 {
        u64::try_from(self.whole()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    metric: serde_json::Map<String, Value>,
    value: (f64, String),
}

/// Every host it knows, and its time.
///
/// # Errors
/// It cannot be asked, does not understand, or knows no a2a-errata.
pub fn hosts(client: &Client, base: &Typed, clean_days: u32) -> Result<(Vec<Host>, i64), String> {
    let ask = |query: &str| ask(client, base, query);
    let days = clean_days.max(1);
    // A scrape or two more, so that a whole window can be told from one that just misses.
    let window = format!("[{days}d:15m]");
    let now = ask("time()")?.first().map_or(0, Series::whole);
    let since = ask(&format!(
        "min by (host, interface) (min_over_time(timestamp(a2a_errata_repairs_total){window} offset 1m)) \
         or min by (host, interface) (timestamp(a2a_errata_repairs_total))"
    ))?;
    if since.is_empty() {
        return Err(format!(
            "{}: knows no series of an a2a-errata; does it scrape the admin address?",
            base.url
        ));
    }
    let earlier = ask(&format!("group by (host, interface) (a2a_errata_repairs_total offset {days}d)"))?;
    let answers = ask(&format!(
        "sum by (host, interface, binding, outcome) (increase(a2a_errata_responses_total[{days}d]))"
    ))?;
    let repairs = ask(&format!("sum by (host, interface) (increase(a2a_errata_repairs_total[{days}d]))"))?;
    let rules =
        ask(&format!("sum by (host, interface, rule) (increase(a2a_errata_rewrites_total[{days}d])) > 0"))?;
    let last = |metric: &str| {
        ask(&format!(
            "max by (host, interface) (max_over_time(a2a_errata_{metric}_timestamp_seconds[{days}d]))"
        ))
    };
    let (last_repair, last_rewrite) = (last("last_repair")?, last("last_rewrite")?);
    let modes = ask("group by (host, interface, mode) (a2a_errata_mode_info)")?;
    let ready = ask("min by (host) (a2a_errata_host_ready)")?;

    let mut hosts: Vec<Host> = Vec::new();
    for series in &answers {
        let (name, path, binding) =
            (series.label("host"), series.label("interface"), series.label("binding"));
        let place = hosts.iter().position(|host| host.name == name).unwrap_or_else(|| {
            hosts.push(Host {
                name: name.to_owned(),
                ready: ready.iter().any(|series| series.label("host") == name && series.count() == 1),
                card_age: None,
                addresses: Vec::new(),
                can_go: false,
                interfaces: Vec::new(),
            });
            hosts.len() - 1
        });
        let Some(host) = hosts.get_mut(place) else { continue };
        let of = |list: &[Series]| {
            let mut found = list.iter().filter(|s| s.label("host") == name && s.label("interface") == path);
            found.next().map(Series::whole)
        };
        // Only the counts of a calls-while-unknown lane that saw something matter.
        let known = host.interfaces.iter().position(|i| i.interface == path && i.binding == binding);
        let place = known.unwrap_or_else(|| {
            let whole_window = of(&earlier).is_some();
            let first = of(&since).unwrap_or(now);
            let mode = modes.iter().filter(|s| s.label("host") == name && s.label("interface") == path);
            let mut mode: Vec<&str> = mode.map(|series| series.label("mode")).collect();
            mode.dedup();
            host.interfaces.push(Interface {
                interface: path.to_owned(),
                binding: binding.to_owned(),
                mode: match mode.as_slice() {
                    [] => "unknown".to_owned(),
                    [one] => (*one).to_owned(),
                    _ => "mixed".to_owned(),
                },
                since: if whole_window { now - i64::from(clean_days) * 86_400 } else { first },
                mode_since: first,
                responses: std::collections::BTreeMap::default(),
                repairs: of(&repairs).and_then(|n| u64::try_from(n).ok()).unwrap_or_default(),
                right_errors: 0,
                last_rewrite: of(&last_rewrite),
                last_repair: of(&last_repair),
                clean_answers: 0,
                clean_errors: 0,
                rules: rules
                    .iter()
                    .filter(|s| s.label("host") == name && s.label("interface") == path)
                    .map(|series| RuleCount {
                        rule: series.label("rule").to_owned(),
                        says: rule_says(series.label("rule")).to_owned(),
                        count: series.count(),
                    })
                    .collect(),
                faults: std::collections::BTreeMap::default(),
                dropped: std::collections::BTreeMap::default(),
                collapsed: std::collections::BTreeMap::default(),
                upstream_failures: std::collections::BTreeMap::default(),
                last_hour: Vec::new(),
                removal: Removal::default(),
            });
            host.interfaces.len() - 1
        });
        let Some(interface) = host.interfaces.get_mut(place) else { continue };
        interface.responses.insert(series.label("outcome").to_owned(), series.count());
    }
    for host in &mut hosts {
        for interface in &mut host.interfaces {
            let (conformant, written) =
                (interface.count("conformant"), interface.count("rewritten") + interface.count("overflow"));
            // What was written anew without need was right.
            interface.clean_errors = conformant + written.saturating_sub(interface.repairs);
            if interface.repairs > 0 && interface.last_repair.is_none() {
                // Counted, but not when: it may have been just now.
                interface.last_repair = Some(now);
            }
            interface.right_errors = interface.clean_errors;
            interface.clean_answers = interface.count("passed") + interface.clean_errors;
        }
        host.interfaces.sort_by_key(|interface| !interface.is_interface());
        // A lane for the time before the interfaces were known is over once they are.
        let ready = host.ready;
        host.interfaces
            .retain(|interface| !ready || interface.is_interface() || interface.interface != "unknown");
    }
    Ok((hosts, now))
}

fn ask(client: &Client, base: &Typed, query: &str) -> Result<Vec<Series>, String> {
    let text = client.get(base, &format!("/api/v1/query?query={}", percent_encoded(query)))?;
    let none = |says: &str| format!("{}: {says}", base.url);
    // A scalar, such as the time, is no list of series.
    if let Ok(value) = serde_json::from_str::<Value>(&text)
        && value.pointer("/data/resultType").and_then(Value::as_str) == Some("scalar")
    {
        let value =
            value.pointer("/data/result/1").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let value = value.ok_or_else(|| none("the answer is no number"))?;
        return Ok(vec![Series { labels: serde_json::Map::new(), value }]);
    }
    let answer: Answer = serde_json::from_str(&text).map_err(|_| none("is no Prometheus"))?;
    if answer.status != "success" {
        return Err(none(&format!("does not answer the query: {}", answer.error.replace('\n', " "))));
    }
    let data =
        answer.data.filter(|data| data.result_type == "vector").ok_or_else(|| none("is no Prometheus"))?;
    let series = data.result.into_iter().filter_map(|one| {
        let value = one.value.1.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some(Series { labels: one.metric, value })
    });
    Ok(series.collect())
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
