//! What is known of every host's addresses: for the metrics, the report and readiness. The proxy knows it, and
//! is asked when somebody looks, so that requests pay nothing for it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};

/// What an address is good for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressState {
    /// It gets requests.
    Healthy,
    /// Its checks fail.
    Unhealthy,
    /// It failed requests and is left alone for a while.
    Ejected,
    /// It gets nothing new: its weight is 0, or it is not configured any more.
    Draining,
}

impl AddressState {
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Unhealthy, Self::Ejected, Self::Draining];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}

/// One address of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The upstream it belongs to, as configured.
    pub upstream: String,
    /// With its port.
    pub address: String,
    pub state: AddressState,
    pub weight: u32,
    /// Requests and streams under way there.
    pub in_flight: u64,
}

/// Whoever knows a host's addresses.
pub trait Addresses: Send + Sync {
    /// Every one of them, in the configuration's order.
    fn addresses(&self) -> Vec<Address>;

    /// Every upstream, as configured.
    fn upstreams(&self) -> Vec<String>;

    /// One of them at least can be used.
    fn is_available(&self) -> bool;
}

/// The addresses of every host of the process.
#[derive(Default)]
pub struct Groups(Mutex<Vec<(String, Weak<dyn Addresses>)>>);

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().map(|(host, _)| host)).finish()
    }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, Vec<(String, Weak<dyn Addresses>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is who knows the host's addresses from here on.
    pub(super) fn set(&self, host: &str, known: Weak<dyn Addresses>) {
        let mut all = self.lock();
        all.retain(|(name, known)| name != host && known.strong_count() > 0);
        all.push((host.to_owned(), known));
    }

    /// These are the hosts from here on.
    pub(super) fn keep(&self, hosts: &[String]) {
        self.lock().retain(|(name, _)| hosts.contains(name));
    }

    fn of(&self, host: &str) -> Option<Arc<dyn Addresses>> {
        self.lock().iter().find(|(name, _)| name == host).and_then(|(_, known)| known.upgrade())
    }

    /// Every host with what is known of its addresses.
    pub(super) fn all(&self) -> Vec<(String, Arc<dyn Addresses>)> {
        // The lock is not held while they are asked.
        let all = self.lock();
        all.iter().filter_map(|(host, known)| Some((host.clone(), known.upgrade()?))).collect()
    }

    /// The addresses of a host.
    #[must_use]
    pub fn addresses(&self, host: &str) -> Vec<Address> {
        self.of(host).map(|known| known.addresses()).unwrap_or_default()
    }

    /// A request to the host has somewhere to go, as far as is known.
    #[must_use]
    pub fn is_available(&self, host: &str) -> bool {
        self.of(host).is_none_or(|known| known.is_available())
    }
}
