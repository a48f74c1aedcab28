//! What must hold between values: a value may be right by itself and wrong beside another (U-1).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use super::layers::Places;
use super::{Host, Model, Place, Problem};
use crate::protocol::public_url::{Own, PublicUrl};

/// Everything that does not fit together.
pub(super) fn check(model: &Model, places: &Places) -> Vec<Problem> {
    let mut found = Found { places, problems: Vec::new() };
    found.addresses(model);
    if cfg!(not(feature = "otlp")) && !model.traces.otlp_url.is_empty() {
        let says = "this build exports no spans; remove it, or build with the feature `otlp`";
        found.add("traces.otlp_url".into(), &quoted(&model.traces.otlp_url), says);
    }
    found.names(&model.hosts);
    found.authorities(&model.hosts);
    found.public_urls(&model.hosts);
    for (n, host) in model.hosts.iter().enumerate() {
        found.sizes(n, host);
        found.upstreams(n, host, &model.listen.address);
        found.health(n, host);
        found.interfaces(n, host);
    }
    found.problems
}

/// Checks of an address's health are at least this far apart.
const LEAST_INTERVAL_MS: u64 = 100;

struct Found<'a> {
    places: &'a Places,
    problems: Vec<Problem>,
}

impl Found<'_> {
    fn add(&mut self, key: String, value: &str, says: impl Into<String>) {
        let place = self.places.near(&key);
        self.problems.push(Problem::new(place, key, says).with_value(value));
    }

    fn addresses(&mut self, model: &Model) {
        if model.listen.address == model.admin.address {
            let says = "is the address of `listen` too; give each its own port";
            self.add("admin.address".into(), &quoted(&model.admin.address), says);
        }
        if !model.admin.allow_remote && !model.admin.address.is_empty() && !is_loopback(&model.admin.address)
        {
            let says = "can be reached from elsewhere and asks for no credentials; write \"127.0.0.1:9464\", or \
                        set admin.allow_remote = true";
            self.add("admin.address".into(), &quoted(&model.admin.address), says);
        }
    }

    fn names(&mut self, hosts: &[Host]) {
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (n, host) in hosts.iter().enumerate() {
            if let Some(other) = first.get(host.name.as_str()) {
                let says = format!("is the name of hosts[{other}] too; give each host its own");
                self.add(format!("hosts[{n}].name"), &quoted(&host.name), says);
            } else {
                first.insert(&host.name, n);
            }
        }
    }

    /// A request must lead to one host only.
    fn authorities(&mut self, hosts: &[Host]) {
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut any: Option<usize> = None;
        for (n, host) in hosts.iter().enumerate() {
            if host.authorities.is_empty() {
                if let Some(other) = any {
                    let says = format!(
                        "hosts[{other}] takes every Host value already; list this host's, for example \
                         [\"agents.example\"]"
                    );
                    self.add(format!("hosts[{n}].authorities"), "[]", says);
                }
                any = any.or(Some(n));
            }
            for (i, authority) in host.authorities.iter().enumerate() {
                let folded = authority.to_ascii_lowercase();
                if let Some(other) = first.get(&folded) {
                    let place = self.places.near(&format!("hosts[{n}].authorities"));
                    let says = if *other == n {
                        "is listed twice; remove one".to_owned()
                    } else {
                        format!("leads to hosts[{other}] already; list it at one host only")
                    };
                    let key = format!("hosts[{n}].authorities[{i}]");
                    self.problems.push(Problem::new(place, key, says).with_value(&quoted(authority)));
                } else {
                    first.insert(folded, n);
                }
            }
        }
    }

    /// Below a public URL a request leads to one host only (P-3).
    fn public_urls(&mut self, hosts: &[Host]) {
        let mut first: HashMap<(String, String), usize> = HashMap::new();
        for (n, host) in hosts.iter().enumerate() {
            let Some(url) = PublicUrl::new(&host.public_url, Own::default()) else { continue };
            match first.entry((url.authority().to_owned(), url.path().to_owned())) {
                Entry::Occupied(other) => {
                    let says =
                        format!("is the public URL of hosts[{}] too; give each its own path", other.get());
                    self.add(format!("hosts[{n}].public_url"), &quoted(&host.public_url), says);
                }
                Entry::Vacant(place) => {
                    place.insert(n);
                }
            }
        }
    }

    /// The intake is at least the cap (C-3).
    fn sizes(&mut self, n: usize, host: &Host) {
        let (cap, intake) = (host.response_cap_bytes, host.intake_bytes);
        if intake >= cap {
            return;
        }
        let key = format!("hosts[{n}].intake_bytes");
        if self.places.of(&key) == Place::Default {
            let says =
                format!("is more than intake_bytes ({intake} by default); set intake_bytes = {cap} or more");
            self.add(format!("hosts[{n}].response_cap_bytes"), &cap.to_string(), says);
        } else {
            let says = format!("is less than response_cap_bytes ({cap}); write {cap} or more");
            self.add(key, &intake.to_string(), says);
        }
    }

    fn upstreams(&mut self, n: usize, host: &Host, listen: &str) {
        let key = format!("hosts[{n}].upstreams");
        if host.upstreams.is_empty() {
            self.add(key.clone(), "[]", "has no address; write for example [\"127.0.0.1:9000\"]");
        }
        if !host.upstreams.is_empty() && host.upstreams.iter().all(|upstream| upstream.weight == 0) {
            let says = "every weight is 0, so that nothing may go anywhere; give one at least a weight of 1";
            self.problems.push(Problem::new(self.places.near(&key), key.clone(), says));
        }
        for (i, upstream) in host.upstreams.iter().enumerate() {
            if let Some(first) = host.upstreams.iter().position(|other| other.address == upstream.address)
                && first < i
            {
                let place = self.places.near(&key);
                let says = "is listed twice; list it once, with a `weight` if it is to get more than others";
                self.problems.push(
                    Problem::new(place, format!("{key}[{i}]"), says).with_value(&quoted(&upstream.address)),
                );
            }
            if is_same_listener(listen, &upstream.address) {
                let place = self.places.near(&key);
                let says = "is the proxy's own listen.address; write the host's address";
                self.problems.push(
                    Problem::new(place, format!("{key}[{i}]"), says).with_value(&quoted(&upstream.address)),
                );
            }
        }
    }

    fn health(&mut self, n: usize, host: &Host) {
        let health = &host.health;
        let key = format!("hosts[{n}].health.interval_ms");
        if (1..LEAST_INTERVAL_MS).contains(&health.interval_ms) {
            let says = format!(
                "asks more often than a host can bear; write {LEAST_INTERVAL_MS} or more, or 0 for off"
            );
            self.add(key, &health.interval_ms.to_string(), says);
        } else if health.interval_ms == 0 && !health.path.is_empty() {
            let says =
                "is never asked for, because health.interval_ms is 0; write interval_ms = 5000 beside it";
            self.add(format!("hosts[{n}].health.path"), &quoted(&health.path), says);
        }
    }

    fn interfaces(&mut self, n: usize, host: &Host) {
        let mut first = HashMap::new();
        for (i, interface) in host.interfaces.iter().enumerate() {
            let at = format!("hosts[{n}].interfaces[{i}]");
            if let Some(other) = first.get(&(interface.normal_path(), interface.binding)) {
                let says = format!(
                    "hosts[{n}].interfaces[{other}] has this path and binding already; list all versions there"
                );
                self.add(format!("{at}.path"), &quoted(&interface.path), says);
            } else {
                first.insert((interface.normal_path(), interface.binding), i);
            }
            let key = format!("{at}.versions");
            if interface.versions.is_empty() {
                self.add(key, "[]", "has no version; write for example [\"1.0\"]");
            } else if let Some(twice) = repeated(&interface.versions) {
                let value = quoted(twice);
                self.add(key, &value, "is listed twice; remove one");
            }
        }
    }
}

/// Whether only this machine can reach the address. `localhost` is what the resolver makes of it, which on
/// every common system is this machine.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn repeated(texts: &[String]) -> Option<&String> {
    texts
        .iter()
        .enumerate()
        .find(|(n, text)| texts.iter().take(*n).any(|other| other == *text))
        .map(|(_, t)| t)
}

/// Connecting to `upstream` would end at this very listener.
fn is_same_listener(listen: &str, upstream: &str) -> bool {
    let (Some((listen_host, listen_port)), Some((host, port))) =
        (listen.rsplit_once(':'), upstream.rsplit_once(':'))
    else {
        return false;
    };
    let is_local = |host: &str| host.starts_with("127.") || matches!(host, "localhost" | "[::1]");
    listen_port == port
        && (listen_host == host || matches!(listen_host, "0.0.0.0" | "[::]") && is_local(host))
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn loopback_is_told_from_the_rest() {
        for address in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "localhost:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "admin.example:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
