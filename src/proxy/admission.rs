//! How many clients there may be, and how much each of them may ask for.
//!
//! What is over a limit is refused where it costs least: a connection before its handshake, a request before its host
//! is asked. The count of requests by client address is an estimate (a count-min sketch) of fixed size: many clients
//! cannot fill the memory with it, and nothing of it can be read back.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora_limits::rate::Rate;

use super::settings::Bounds;
use crate::observe::{Limit, Metrics};

/// Of the sketch: with so many counters in each row, thousands of clients at once hardly ever share one in all rows.
const ROWS: usize = 4;
const COUNTERS: usize = 1 << 14;

/// What is in effect, and what is taken of it.
pub struct Admission {
    bounds: ArcSwap<Bounds>,
    /// Connections right now.
    open: AtomicUsize,
    /// Of one address; 0: nobody counts.
    per_second: AtomicU32,
    /// Behind a lock because two threads that begin a second at the same time would confuse it.
    rate: Mutex<Option<Rate>>,
    metrics: Arc<Metrics>,
}

impl Admission {
    pub fn new(bounds: Bounds, metrics: &Arc<Metrics>) -> Arc<Self> {
        let admission = Arc::new(Self {
            bounds: ArcSwap::from_pointee(bounds),
            open: AtomicUsize::new(0),
            per_second: AtomicU32::new(0),
            rate: Mutex::new(None),
            metrics: metrics.clone(),
        });
        admission.replace(bounds);
        admission
    }

    /// These are in effect from here on; what stands, stays.
    pub fn replace(&self, bounds: Bounds) {
        self.metrics.limits().hold_at_most(bounds.held_bytes);
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if bounds.requests_per_second == 0 {
            *rate = None;
        } else if rate.is_none() {
            *rate = Some(Rate::new_with_estimator_config(Duration::from_secs(1), ROWS, COUNTERS));
        }
        drop(rate);
        self.per_second.store(bounds.requests_per_second, Ordering::Relaxed);
        self.bounds.store(Arc::new(bounds));
    }

    pub fn bounds(&self) -> Arc<Bounds> {
        self.bounds.load_full()
    }

    /// A place for one more connection, if there is one.
    pub fn connection(self: &Arc<Self>) -> Option<Place> {
        let most = self.bounds.load().connections;
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        self.metrics.limits().connection(1);
        let place = Place(self.clone());
        if most > 0 && before >= most {
            self.reached(Limit::Connections);
            return None;
        }
        Some(place)
    }

    /// Whether a client at this address may ask for one more thing now.
    pub fn admits(&self, client: Option<IpAddr>) -> bool {
        let most = self.per_second.load(Ordering::Relaxed);
        most == 0 || client.is_none_or(|client| self.is_within(client, most))
    }

    fn is_within(&self, client: IpAddr, most: u32) -> bool {
        let rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = rate.as_ref().map_or(0, |rate| rate.observe(&network(client), 1));
        drop(rate);
        let admits = u64::try_from(seen).unwrap_or(u64::MAX) <= most.into();
        if !admits {
            self.reached(Limit::RequestsPerSecond);
        }
        admits
    }

    pub fn reached(&self, limit: Limit) {
        self.metrics.limits().reached(limit);
    }
}

/// One client: an address, but with IPv6 the network that a client has all to itself.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A connection's place, until it is dropped.
pub struct Place(Arc<Admission>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.limits().connection(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(bounds: Bounds) -> Arc<Admission> {
        Admission::new(bounds, &Metrics::new())
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_is_gone() {
        let admission = admission(Bounds { connections: 2, ..Bounds::default() });
        let (one, two) = (admission.connection(), admission.connection());
        assert!(one.is_some() && two.is_some());
        assert!(admission.connection().is_none());
        drop(one);
        assert!(admission.connection().is_some());
        admission.replace(Bounds { connections: 0, ..Bounds::default() });
        assert!((0..9).map(|_| admission.connection()).all(|place| place.is_some()));
    }

    #[test]
    fn each_client_has_its_own_second() {
        let admission = admission(Bounds { requests_per_second: 1_000_000, ..Bounds::default() });
        let of = |text: &str| Some(text.parse().unwrap());
        assert!(admission.admits(of("192.0.2.1")));
        // From here on the seconds that pass do not matter: the next request is over the limit in any of them.
        admission.per_second.store(0, Ordering::Relaxed);
        assert!(admission.admits(of("192.0.2.1")), "off");
        let most = 3;
        let over = |client: &str| (0..=2 * most).any(|_| !admission.is_within(client.parse().unwrap(), most));
        assert!(over("192.0.2.1"));
        assert!(admission.is_within("192.0.2.2".parse().unwrap(), most));
    }

    #[test]
    fn a_client_of_ipv6_is_its_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
