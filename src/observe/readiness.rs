//! Whether the process is ready: it accepts connections, and of every host the interfaces are known (I-1) and an address
//! can be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::Groups;

/// The hosts of the process. Bounded by the configuration, shared by everyone who learns about a host.
#[derive(Debug)]
pub struct Readiness {
    hosts: ArcSwap<Vec<(String, AtomicBool)>>,
    groups: Arc<Groups>,
    /// The listening socket is open. Services start side by side, and the admin pages' may be the first.
    listens: AtomicBool,
}

/// What a host waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    Interfaces,
    Address,
}

impl Lack {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interfaces => "no interfaces known",
            Self::Address => "no address can be used",
        }
    }
}

impl Readiness {
    /// Each host's name and whether its interfaces are known from the start.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self {
            hosts: ArcSwap::from_pointee(atomic(hosts)),
            groups: Arc::default(),
            listens: AtomicBool::new(true),
        }
    }

    /// With what is known of the hosts' addresses.
    #[must_use]
    pub fn with(self, groups: Arc<Groups>) -> Self {
        Self { groups, ..self }
    }

    /// Not before [`Self::listens`] is said.
    #[must_use]
    pub fn before_listening(self) -> Self {
        Self { listens: AtomicBool::new(false), ..self }
    }

    /// Connections are accepted from here on.
    pub fn listens(&self) {
        self.listens.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
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

    /// Every host and what it waits for, in the configuration's order.
    #[must_use]
    pub fn lacks(&self) -> Vec<(String, Option<Lack>)> {
        let hosts = self.hosts.load();
        let lack = |(name, known): &(String, AtomicBool)| {
            let lack = if !known.load(Ordering::Relaxed) {
                Some(Lack::Interfaces)
            } else if self.groups.is_available(name) {
                None
            } else {
                Some(Lack::Address)
            };
            (name.clone(), lack)
        };
        hosts.iter().map(lack).collect()
    }

    /// Every host and whether it is ready, in the configuration's order.
    #[must_use]
    pub fn hosts(&self) -> Vec<(String, bool)> {
        self.lacks().into_iter().map(|(name, lack)| (name, lack.is_none())).collect()
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
