//! Which hosts are ready: those whose interfaces are known (I-1) and that have an address that can be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::Groups;

/// The hosts of the process. Bounded by the configuration, shared by everyone who learns about a host.
#[derive(Debug)]
pub struct Readiness {
    hosts: ArcSwap<Vec<(String, AtomicBool)>>,
    groups: Arc<Groups>,
}

impl Readiness {
    /// Each host's name and whether its interfaces are known from the start.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self { hosts: ArcSwap::from_pointee(atomic(hosts)), groups: Arc::default() }
    }

    /// With what is known of the hosts' addresses.
    #[must_use]
    pub fn with(self, groups: Arc<Groups>) -> Self {
        Self { groups, ..self }
    }

    /// These are the hosts from here on.
    pub fn replace(&self, hosts: impl IntoIterator<Item = (String, bool)>) {
        self.hosts.store(Arc::new(atomic(hosts)));
    }

    /// The interfaces of this host are known (or no longer).
    pub fn set(&self, host: &str, known: bool) {
        for (name, ready) in self.hosts.load().iter() {
            if name == host {
                ready.store(known, Ordering::Relaxed);
            }
        }
    }

    /// Every host and whether it is ready, in the configuration's order.
    #[must_use]
    pub fn hosts(&self) -> Vec<(String, bool)> {
        let hosts = self.hosts.load();
        let ready = |(name, known): &(String, AtomicBool)| {
            (name.clone(), known.load(Ordering::Relaxed) && self.groups.is_available(name))
        };
        hosts.iter().map(ready).collect()
    }

    /// The hosts that are not ready, in the configuration's order.
    #[must_use]
    pub fn waiting(&self) -> Vec<String> {
        self.hosts().into_iter().filter(|(_, ready)| !ready).map(|(name, _)| name).collect()
    }
}

fn atomic(hosts: impl IntoIterator<Item = (String, bool)>) -> Vec<(String, AtomicBool)> {
    hosts.into_iter().map(|(name, known)| (name, AtomicBool::new(known))).collect()
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
        readiness.replace([("c".to_owned(), false)]);
        assert_eq!(readiness.hosts(), [("c".to_owned(), false)]);
    }
}
