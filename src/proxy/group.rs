//! Which of a host's addresses is next, and which are left out.
//!
//! An address is a socket of one upstream. What is known of it (requests under way, health, ejection) belongs to
//! the [`Address`], which outlives the resolving of names and reloads that keep it; the order in which addresses
//! take turns belongs to the [`Members`] of the moment.
//!
//! Turns are the smooth weighted round robin: every candidate gains its weight, the one that has most goes, and
//! pays what all gained. So weights come out exactly over each round and no address gets its share in one go.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::settings::{Balance, Ejection, Health};
use crate::observe::groups::AddressState;

/// An ejection lasts at most so many times as long as the first.
const LONGEST: u64 = 10;

/// One address of an upstream.
pub struct Address {
    /// The upstream, as configured.
    pub upstream: Arc<str>,
    pub socket: SocketAddr,
    /// Connections of the same key are interchangeable.
    pub key: u64,
    in_flight: AtomicU64,
    /// Checks fail.
    unhealthy: AtomicBool,
    /// It was taken out of the configuration, or out of its name.
    retired: AtomicBool,
    /// Failures in a row.
    failures: AtomicU32,
    /// A moment of [`now`]; 0: it is not ejected.
    ejected_until: AtomicU64,
    history: Mutex<History>,
}

/// What led to an address's state.
#[derive(Default)]
struct History {
    /// Checks in a row that say something else than what is thought; `None` before the first check.
    other_checks: Option<u32>,
    /// How long the last ejection was, when it ended, and how many followed soon on one another.
    ejected_for: u64,
    ejected_end: u64,
    times: u64,
}

/// Milliseconds since the first question, and never 0.
fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    millis(BEGIN.get_or_init(Instant::now).elapsed()).saturating_add(1)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Address {
    pub fn new(upstream: Arc<str>, socket: SocketAddr, key: u64) -> Arc<Self> {
        Arc::new(Self {
            upstream,
            socket,
            key,
            in_flight: AtomicU64::new(0),
            unhealthy: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            history: Mutex::default(),
        })
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub fn is_healthy(&self) -> bool {
        !self.unhealthy.load(Ordering::Relaxed)
    }

    pub fn set_retired(&self, retired: bool) {
        self.retired.store(retired, Ordering::Relaxed);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Nobody checks it any more, so nothing is against it.
    pub fn forget_checks(&self) {
        self.unhealthy.store(false, Ordering::Relaxed);
        self.history().other_checks = None;
    }

    /// Takes note of a check. `Some` when that changes what is thought of the address.
    pub fn checked(&self, good: bool, health: &Health) -> Option<AddressState> {
        let mut history = self.history();
        let before = history.other_checks;
        if good == self.is_healthy() {
            history.other_checks = Some(0);
            return None;
        }
        let checks = before.unwrap_or_default() + 1;
        let enough = if good { health.successes } else { health.failures };
        // The very first one decides: until then nothing was known.
        if before.is_some() && checks < enough {
            history.other_checks = Some(checks);
            return None;
        }
        history.other_checks = Some(0);
        self.unhealthy.store(!good, Ordering::Relaxed);
        Some(if good { AddressState::Healthy } else { AddressState::Unhealthy })
    }

    /// It is left alone at the moment. Tells once that it is not any more.
    pub fn is_ejected(&self) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        if now() < until {
            return true;
        }
        let ends = self.ejected_until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        if ends.is_ok() {
            tracing::info!(upstream = %self.upstream, address = %self.socket, "address is tried again");
        }
        false
    }

    /// Leaves it alone; for how long.
    fn eject(&self, ejection: &Ejection) -> Duration {
        let now = now();
        let mut history = self.history();
        // Soon: within the same time again.
        let soon = now.saturating_sub(history.ejected_end) <= history.ejected_for;
        history.times = if soon { (history.times + 1).min(LONGEST) } else { 1 };
        history.ejected_for = millis(ejection.lasts).saturating_mul(history.times);
        history.ejected_end = now.saturating_add(history.ejected_for);
        self.failures.store(0, Ordering::Relaxed);
        self.ejected_until.store(history.ejected_end, Ordering::Relaxed);
        Duration::from_millis(history.ejected_for)
    }

    /// It gave a good answer.
    pub fn did_well(&self) {
        // Mostly it is 0, and what is only read stays with every core.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// It failed a request, which is one too many or not.
    pub fn failed(&self, ejection: &Ejection) -> bool {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        before.saturating_add(1) >= ejection.failures
    }

    pub fn state(&self, weight: u32) -> AddressState {
        if weight == 0 || self.is_retired() {
            AddressState::Draining
        } else if !self.is_healthy() {
            AddressState::Unhealthy
        } else if self.is_ejected() {
            AddressState::Ejected
        } else {
            AddressState::Healthy
        }
    }
}

/// What became of a request, as far as it says something about the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the client went away, or a connection had grown old.
    Nothing,
    Good,
    Bad,
}

/// A request or stream that is under way at an address, while it lives.
pub struct Lease {
    pub address: Arc<Address>,
    pub verdict: Verdict,
}

impl Lease {
    pub fn new(address: &Arc<Address>) -> Self {
        address.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { address: address.clone(), verdict: Verdict::Nothing }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.address.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An address with the part it has in a group.
#[derive(Clone)]
pub struct Member {
    pub address: Arc<Address>,
    /// The place of its upstream in the configuration.
    pub upstream: usize,
    pub weight: u32,
}

/// The addresses of a host at one moment.
#[derive(Default)]
pub struct Members {
    pub all: Vec<Member>,
    /// What each has gained.
    turns: Mutex<Vec<i64>>,
}

/// How good a candidate is; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Able,
    /// It is only suspected of failing, and the others cannot be used.
    Suspected,
    /// This very request has failed there, or nothing new goes there.
    Last,
}

impl Members {
    pub fn new(all: Vec<Member>) -> Self {
        let turns = Mutex::new(vec![0; all.len()]);
        Self { all, turns }
    }

    fn tier(member: &Member, tried: &[Arc<Address>]) -> Option<Tier> {
        let address = &member.address;
        if member.weight == 0 || !address.is_healthy() {
            None
        } else if address.is_retired() || tried.iter().any(|one| Arc::ptr_eq(one, address)) {
            Some(Tier::Last)
        } else if address.is_ejected() {
            Some(Tier::Suspected)
        } else {
            Some(Tier::Able)
        }
    }

    /// There is an address that this request has not been tried at.
    pub fn has_other(&self, tried: &[Arc<Address>]) -> bool {
        self.all.iter().any(|member| Self::tier(member, tried).is_some_and(|tier| tier < Tier::Last))
    }

    /// An address can be used.
    pub fn is_available(&self) -> bool {
        self.has_other(&[])
    }

    /// The address whose turn it is, with the request counted already, so that whoever chooses next knows of it.
    pub fn choose(&self, balance: Balance, tried: &[Arc<Address>]) -> Option<(usize, Lease)> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let tiers: Vec<_> = self.all.iter().map(|member| Self::tier(member, tried)).collect();
        let best = *tiers.iter().flatten().min()?;
        let candidates = || self.all.iter().zip(&tiers).filter(|(_, tier)| **tier == Some(best));
        // Load by weight, as a fraction: compared crosswise.
        let load = |member: &Member| (member.address.in_flight().saturating_add(1), u64::from(member.weight));
        let less = |a: (u64, u64), b: (u64, u64)| a.0.saturating_mul(b.1) < b.0.saturating_mul(a.1);
        let least = match balance {
            Balance::RoundRobin => None,
            Balance::LeastConnections => candidates()
                .map(|(member, _)| load(member))
                .reduce(|least, one| if less(one, least) { one } else { least }),
        };
        let mut total = 0;
        let mut chosen: Option<(&Member, &mut i64)> = None;
        for ((member, tier), turn) in self.all.iter().zip(&tiers).zip(turns.iter_mut()) {
            if *tier != Some(best) || least.is_some_and(|least| less(least, load(member))) {
                continue;
            }
            let weight = i64::from(member.weight);
            total += weight;
            *turn += weight;
            if chosen.as_ref().is_none_or(|(_, most)| *turn > **most) {
                chosen = Some((member, turn));
            }
        }
        let (member, turn) = chosen?;
        *turn -= total;
        Some((member.upstream, Lease::new(&member.address)))
    }

    /// Leaves an address alone that failed too often, unless too many are by then. For how long.
    pub fn eject(&self, address: &Arc<Address>, ejection: &Ejection) -> Option<Duration> {
        // One at a time, so that two do not both count on the other.
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let of_use: Vec<_> = self.all.iter().filter(|member| member.weight > 0).collect();
        let is_it = |member: &Member| Arc::ptr_eq(&member.address, address);
        let ejected = of_use.iter().filter(|member| member.address.is_ejected()).count();
        let fits = (ejected + 1).saturating_mul(100)
            <= of_use.len().saturating_mul(usize::try_from(ejection.max_percent).unwrap_or(100));
        let is_left =
            |member: &&Member| !is_it(member) && member.address.is_healthy() && !member.address.is_ejected();
        let may = of_use.iter().any(|member| is_it(member))
            && !address.is_ejected()
            && fits
            && of_use.iter().copied().any(|member| is_left(&member));
        let lasts = may.then(|| address.eject(ejection));
        drop(turns);
        lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(weights: &[u32]) -> Members {
        let one = |(n, weight): (usize, &u32)| {
            let port = u16::try_from(n).unwrap() + 1;
            let address = Address::new(format!("h:{port}").into(), ([127, 0, 0, 1], port).into(), n as u64);
            Member { address, upstream: n, weight: *weight }
        };
        Members::new(weights.iter().enumerate().map(one).collect())
    }

    fn turns(members: &Members, number: usize, tried: &[Arc<Address>]) -> Vec<usize> {
        (0..number).map(|_| members.choose(Balance::RoundRobin, tried).unwrap().0).collect()
    }

    fn ejection(max_percent: u32) -> Ejection {
        Ejection { failures: 1, lasts: Duration::from_millis(50), max_percent }
    }

    const HEALTH: Health = Health {
        path: String::new(),
        interval: Duration::ZERO,
        timeout: Duration::ZERO,
        failures: 3,
        successes: 2,
    };

    #[test]
    fn weights_come_out_smoothly() {
        assert_eq!(turns(&members(&[1, 1]), 4, &[]), [0, 1, 0, 1]);
        assert_eq!(turns(&members(&[5, 1, 1]), 7, &[]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns(&members(&[0, 1]), 3, &[]), [1, 1, 1]);
        assert!(members(&[0]).choose(Balance::RoundRobin, &[]).is_none());
        assert!(Members::default().choose(Balance::RoundRobin, &[]).is_none());
    }

    #[test]
    fn what_was_tried_is_the_last_choice() {
        let group = members(&[1, 1, 1]);
        let tried = [group.all[0].address.clone()];
        assert!(!turns(&group, 6, &tried).contains(&0));
        let tried: Vec<_> = group.all.iter().map(|member| member.address.clone()).collect();
        assert!(!group.has_other(&tried) && group.choose(Balance::RoundRobin, &tried).is_some());
    }

    #[test]
    fn the_least_busy_one_is_chosen_by_weight() {
        let group = members(&[1, 1, 2]);
        let mut held = Vec::new();
        let mut chosen = Vec::new();
        for _ in 0..8 {
            let (n, lease) = group.choose(Balance::LeastConnections, &[]).unwrap();
            chosen.push(n);
            held.push(lease);
        }
        let count = |n| chosen.iter().filter(|one| **one == n).count();
        assert_eq!([count(0), count(1), count(2)], [2, 2, 4], "{chosen:?}");
        // Those at the second are done: it is the one.
        held.retain(|lease| !Arc::ptr_eq(&lease.address, &group.all[1].address));
        assert_eq!(group.choose(Balance::LeastConnections, &[]).unwrap().0, 1);
        drop(held);
        assert!(group.all.iter().all(|member| member.address.in_flight() == 0));
    }

    #[test]
    fn the_first_check_decides_and_then_it_takes_some() {
        let address = members(&[1]).all.remove(0).address;
        assert_eq!(address.checked(false, &HEALTH), Some(AddressState::Unhealthy));
        assert_eq!(address.checked(true, &HEALTH), None);
        assert_eq!(address.checked(false, &HEALTH), None);
        assert_eq!(address.checked(true, &HEALTH), None);
        assert_eq!(address.checked(true, &HEALTH), Some(AddressState::Healthy));
        for bad in [false, false, true, false, false] {
            assert_eq!(address.checked(bad, &HEALTH), None);
        }
        assert_eq!(address.checked(false, &HEALTH), Some(AddressState::Unhealthy));
        address.forget_checks();
        assert!(address.is_healthy());
    }

    #[test]
    fn never_the_last_and_never_too_many_are_ejected() {
        let alone = members(&[1, 0]);
        assert_eq!(alone.eject(&alone.all[0].address, &ejection(100)), None);
        let group = members(&[1, 1, 1, 1]);
        let eject = |n: usize, percent| group.eject(&group.all[n].address, &ejection(percent)).is_some();
        assert_eq!([eject(0, 24), eject(0, 50), eject(1, 50), eject(2, 50)], [false, true, true, false]);
        assert!(!eject(0, 100), "it is already");
        assert_eq!([eject(2, 100), eject(3, 100)], [true, false]);
        assert_eq!(turns(&group, 3, &[]), [3, 3, 3]);
        // The last one is found dead: those that are only suspected are better than none.
        group.all[3].address.checked(false, &HEALTH);
        assert!(group.is_available() && turns(&group, 4, &[]).iter().all(|n| *n != 3));
    }

    #[test]
    fn an_ejection_ends_and_the_next_is_longer() {
        let group = members(&[1, 1]);
        let bad = &group.all[0].address;
        let short = Ejection { lasts: Duration::from_millis(20), ..ejection(50) };
        for times in 1..=3 {
            assert_eq!(group.eject(bad, &short), Some(short.lasts * times));
            while bad.is_ejected() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // After a long good time it begins anew.
        bad.history().ejected_end = 0;
        bad.history().ejected_for = 0;
        assert_eq!(group.eject(bad, &short), Some(short.lasts));
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let address = members(&[1]).all.remove(0).address;
        let three = Ejection { failures: 3, ..ejection(50) };
        assert_eq!([address.failed(&three), address.failed(&three)], [false, false]);
        address.did_well();
        assert_eq!(
            [address.failed(&three), address.failed(&three), address.failed(&three)],
            [false, false, true]
        );
    }
}
