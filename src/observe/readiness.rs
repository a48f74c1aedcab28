//! Which hosts are ready: those whose interfaces are known (I-1).

use std::sync::atomic::{AtomicBool, Ordering};

/// The hosts of the process. Bounded by the configuration, shared by everyone who learns about a host.
#[derive(Debug)]
pub struct Readiness {
    hosts: Vec<(String, AtomicBool)>,
}

impl Readiness {
    /// Each host's name and whether its interfaces are known from the start.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self { hosts: hosts.into_iter().map(|(name, known)| (name, AtomicBool::new(known))).collect() }
    }

    /// The interfaces of this host are known (or no longer).
    pub fn set(&self, host: &str, known: bool) {
        for (name, ready) in &self.hosts {
            if name == host {
                ready.store(known, Ordering::Relaxed);
            }
        }
    }

    /// The hosts that are not ready, in the configuration's order.
    #[must_use]
    pub fn waiting(&self) -> Vec<&str> {
        let waiting = self.hosts.iter().filter(|(_, ready)| !ready.load(Ordering::Relaxed));
        waiting.map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ready_once_its_interfaces_are_known() {
        let readiness = Readiness::new([("a".to_owned(), true), ("b".to_owned(), false)]);
        assert_eq!(readiness.waiting(), ["b"]);
        readiness.set("b", true);
        assert!(readiness.waiting().is_empty());
        readiness.set("a", false);
        assert_eq!(readiness.waiting(), ["a"]);
    }
}
