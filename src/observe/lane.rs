//! What is counted for one interface of one host: handles that are resolved once, so that a request costs
//! no label look-up. Every label value is from the configuration, the host's card or a closed list (D-4).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{IntCounter, IntGauge};

use super::access;
use super::limits::Limit;
use super::metrics::Metrics;
use super::trend::Trend;
use crate::normalize::{Binding, CardFate, DroppedKind, Mode, Outcome, Rule, Verdict};

/// Every verdict, in the order of the handles.
pub const VERDICTS: [Verdict; 6] = [
    Verdict::Passed,
    Verdict::Rewritten,
    Verdict::Conformant,
    Verdict::Overflow,
    Verdict::Synthesized,
    Verdict::Refused,
];

/// What is known when an exchange is over.
#[derive(Debug)]
pub struct Finished<'a> {
    /// Status the client got; 0 when it got none.
    pub status: u16,
    /// `None` for a request that was no rule's business.
    pub outcome: Option<&'a Outcome>,
    /// The answer was an event stream.
    pub stream: bool,
    /// From the request's last byte (or head) sent to the host until its head came; zero if none came.
    pub upstream: Duration,
    /// What holding the answer added, from the host's last needed byte to the first byte written.
    pub added: Duration,
}

/// How a host's side failed, as the metric `upstream_failures_total` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// No connection came about.
    Connect,
    /// Connecting, or waiting for bytes, took too long.
    Timeout,
    /// The connection ended before the answer did.
    Closed,
    /// What came was no HTTP.
    Protocol,
}

impl UpstreamFailure {
    pub const ALL: [Self; 4] = [Self::Connect, Self::Timeout, Self::Closed, Self::Protocol];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
        }
    }
}

/// A count of the lane's own, and the series that it is part of: that one may be shared with other lanes.
/// The series exists once it was needed, so that what never happens makes none.
#[derive(Debug, Default)]
struct Tally {
    own: AtomicU64,
    series: OnceLock<IntCounter>,
}

impl Tally {
    /// With a series that exists from the start: its first step is to be seen as one.
    fn of(series: IntCounter) -> Self {
        Self { own: AtomicU64::new(0), series: series.into() }
    }

    fn add(&self, number: u64, make: impl FnOnce() -> IntCounter) {
        self.own.fetch_add(number, Ordering::Relaxed);
        self.series.get_or_init(make).inc_by(number);
    }

    fn get(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }
}

/// Tallies by a name from a closed list in the code.
#[derive(Debug, Default)]
struct Named(RwLock<Vec<(&'static str, Arc<Tally>)>>);

impl Named {
    fn inc(&self, name: &'static str, make: impl FnOnce() -> IntCounter) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tally)) = known.iter().find(|(known, _)| *known == name) {
            return tally.add(1, make);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been quicker.
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, tally)| tally.clone());
        let tally = found.unwrap_or_else(|| {
            let tally = Arc::<Tally>::default();
            known.push((name, tally.clone()));
            tally
        });
        drop(known);
        tally.add(1, make);
    }

    fn all(&self) -> Vec<(&'static str, u64)> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.iter().map(|(name, tally)| (*name, tally.get())).collect();
        all.sort_unstable();
        all
    }
}

/// Seconds since 1970.
#[must_use]
pub fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Pre-resolved handles of one host and interface.
#[derive(Debug)]
pub struct Lane {
    metrics: Arc<Metrics>,
    /// What access lines begin with, enforced and observed.
    lines: [String; 2],
    host: String,
    interface: String,
    binding: &'static str,
    observed: AtomicBool,
    /// Unix time of the lane's beginning, and since when it has its mode.
    since: i64,
    mode_since: AtomicI64,
    responses: [IntCounter; VERDICTS.len()],
    repairs: Tally,
    /// By rule, by kind; see [`Tally`].
    rewrites: Vec<Tally>,
    dropped: Vec<Tally>,
    faults: Named,
    collapsed: Named,
    upstream_failures: [Tally; UpstreamFailure::ALL.len()],
    last_rewrite: OnceLock<IntGauge>,
    last_repair: OnceLock<IntGauge>,
    clean: Clean,
    trend: Mutex<Trend>,
}

/// What came since the last repair, so that "clean" can be told from "nobody asked".
#[derive(Debug, Default)]
struct Clean {
    /// Unix time of the last repair; 0 if there was none.
    repaired_at: AtomicI64,
    /// Answers, and right errors among them, up to the last repair.
    answers: AtomicU64,
    errors: AtomicU64,
    /// Errors that were right, ever: conformant ones and TASK_NOT_FOUND that the host said itself.
    right: AtomicU64,
}

impl Lane {
    /// `interface` is a path, or a word for what is none. Called by [`Metrics::lane`], which knows
    /// whether there is one already.
    pub(super) fn new(
        metrics: &Arc<Metrics>,
        host: &str,
        interface: &str,
        binding: Option<Binding>,
        mode: Mode,
    ) -> Self {
        let binding = binding.map_or("none", Binding::as_str);
        let responses = VERDICTS.map(|verdict| {
            metrics.responses.with_label_values(&[host, interface, binding, verdict.as_str()])
        });
        let now = unix_now();
        Self {
            metrics: metrics.clone(),
            lines: [Mode::Enforce, Mode::Observe].map(|mode| access::lane(host, interface, binding, mode)),
            host: host.to_owned(),
            interface: interface.to_owned(),
            binding,
            observed: AtomicBool::new(mode == Mode::Observe),
            since: now,
            mode_since: AtomicI64::new(now),
            responses,
            repairs: Tally::of(metrics.repairs.with_label_values(&[host, interface])),
            rewrites: Rule::ALL.iter().map(|_| Tally::default()).collect(),
            dropped: DroppedKind::ALL.iter().map(|_| Tally::default()).collect(),
            faults: Named::default(),
            collapsed: Named::default(),
            upstream_failures: std::array::from_fn(|_| Tally::default()),
            last_rewrite: OnceLock::new(),
            last_repair: OnceLock::new(),
            clean: Clean::default(),
            trend: Mutex::new(Trend::new(now)),
        }
    }

    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    #[must_use]
    pub fn binding(&self) -> &'static str {
        self.binding
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.observed.load(Ordering::Relaxed) { Mode::Observe } else { Mode::Enforce }
    }

    /// What is counted from here on was done, or only judged (I-5). `true` if that is new.
    pub(super) fn set_mode(&self, mode: Mode) -> bool {
        let observed = mode == Mode::Observe;
        let is_new = self.observed.swap(observed, Ordering::Relaxed) != observed;
        if is_new {
            self.mode_since.store(unix_now(), Ordering::Relaxed);
        }
        is_new
    }

    /// A request came in; the guard counts it as in flight until it is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.metrics.inflight.add(1);
        InFlight { lane: self.clone(), stream: false }
    }

    /// Count one finished exchange and log it: names and numbers only (D-4).
    pub fn finished(&self, finished: &Finished<'_>) {
        let verdict = finished.outcome.map_or(Verdict::Passed, |outcome| outcome.verdict);
        if let Some(counter) = self.responses.get(slot(verdict)) {
            counter.inc();
        }
        if !finished.upstream.is_zero() {
            self.metrics.upstream.observe(finished.upstream.as_secs_f64());
        }
        if let Some(outcome) = finished.outcome {
            self.metrics.added.observe(finished.added.as_secs_f64());
            self.count(outcome);
        }
        self.log(finished, verdict);
    }

    fn count(&self, outcome: &Outcome) {
        let (host, interface) = (self.host.as_str(), self.interface.as_str());
        for rule in outcome.rules.iter() {
            if let Some(tally) = self.rewrites.get(rule as usize) {
                tally.add(1, || self.metrics.rewrites.with_label_values(&[host, interface, rule.id()]));
            }
        }
        for ((kind, tally), number) in DroppedKind::ALL.iter().zip(&self.dropped).zip(outcome.dropped) {
            if number > 0 {
                let make = || self.metrics.dropped.with_label_values(&[host, kind.as_str()]);
                tally.add(number.into(), make);
            }
        }
        if let Some(reason) = outcome.reason {
            let make = || self.metrics.faults.with_label_values(&[host, self.binding, reason]);
            self.faults.inc(reason, make);
        }
        if let Some(cause) = outcome.collapsed {
            self.collapsed.inc(cause, || self.metrics.collapsed.with_label_values(&[host, cause]));
        }
        match outcome.verdict {
            Verdict::Rewritten | Verdict::Overflow => self.written_anew(outcome),
            Verdict::Conformant => _ = self.clean.right.fetch_add(1, Ordering::Relaxed),
            Verdict::Passed | Verdict::Synthesized | Verdict::Refused => {}
        }
    }

    fn written_anew(&self, outcome: &Outcome) {
        let (host, interface) = (self.host.as_str(), self.interface.as_str());
        let now = unix_now();
        if outcome.verdict == Verdict::Overflow {
            self.metrics.overflows.inc();
        } else {
            let make = || self.metrics.last_rewrite.with_label_values(&[host, interface]);
            self.last_rewrite.get_or_init(make).set(now);
        }
        if !outcome.is_repair() {
            self.clean.right.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.repairs.add(1, || self.metrics.repairs.with_label_values(&[host, interface]));
        let make = || self.metrics.last_repair.with_label_values(&[host, interface]);
        self.last_repair.get_or_init(make).set(now);
        self.clean.repaired_at.store(now, Ordering::Relaxed);
        self.clean.answers.store(self.host_answers(), Ordering::Relaxed);
        self.clean.errors.store(self.clean.right.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Answers that the host gave.
    fn host_answers(&self) -> u64 {
        let by = self.responses();
        by.iter().zip(VERDICTS).filter(|(_, v)| is_the_hosts(*v)).map(|(count, _)| count).sum()
    }

    /// How many answers there were, in the order of [`VERDICTS`].
    pub(super) fn responses(&self) -> [u64; VERDICTS.len()] {
        self.responses.each_ref().map(IntCounter::get)
    }

    /// What the report says of the lane.
    pub(super) fn snapshot(&self, now: i64) -> Snapshot {
        let clean = &self.clean;
        let at = |time: &AtomicI64| Some(time.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let kinds = DroppedKind::ALL.iter().map(|kind| kind.as_str());
        let failures = UpstreamFailure::ALL.iter().map(|failure| failure.as_str());
        let seen = |(_, count): &(&'static str, u64)| *count > 0;
        Snapshot {
            mode: self.mode(),
            since: self.since,
            mode_since: self.mode_since.load(Ordering::Relaxed),
            responses: self.responses(),
            repairs: self.repairs.get(),
            right_errors: clean.right.load(Ordering::Relaxed),
            last_rewrite: self.last_rewrite.get().map(IntGauge::get),
            last_repair: at(&clean.repaired_at),
            answers_since: self.host_answers().saturating_sub(clean.answers.load(Ordering::Relaxed)),
            errors_since: clean
                .right
                .load(Ordering::Relaxed)
                .saturating_sub(clean.errors.load(Ordering::Relaxed)),
            rules: Rule::ALL
                .iter()
                .zip(&self.rewrites)
                .map(|(rule, tally)| (*rule, tally.get()))
                .filter(|(_, count)| *count > 0)
                .collect(),
            dropped: kinds.zip(self.dropped.iter().map(Tally::get)).filter(seen).collect(),
            faults: self.faults.all(),
            collapsed: self.collapsed.all(),
            upstream_failures: failures
                .zip(self.upstream_failures.iter().map(Tally::get))
                .filter(seen)
                .collect(),
            trend: self.trend().read(now, self.responses()),
        }
    }

    /// Notes what the minutes so far have brought; asked for once a minute.
    pub(super) fn tick(&self, now: i64) {
        let responses = self.responses();
        self.trend().tick(now, responses);
    }

    fn trend(&self) -> MutexGuard<'_, Trend> {
        self.trend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn event(&self, finished: &Finished<'_>, verdict: Verdict) -> access::Event<'_> {
        let outcome = finished.outcome;
        let [enforced, observed] = &self.lines;
        access::Event {
            lane: if self.mode() == Mode::Observe { observed } else { enforced },
            status: finished.status,
            outcome: verdict.as_str(),
            reason: outcome.and_then(|outcome| outcome.reason),
            collapsed: outcome.and_then(|outcome| outcome.collapsed),
            rules: outcome.map(|outcome| outcome.rules).unwrap_or_default(),
            stream: finished.stream,
            upstream: finished.upstream,
            added: finished.added,
        }
    }

    fn log(&self, finished: &Finished<'_>, verdict: Verdict) {
        let logs_json = access::log(&self.event(finished, verdict));
        if logs_json || !tracing::enabled!(target: super::log::ACCESS, tracing::Level::INFO) {
            return;
        }
        let outcome = finished.outcome;
        let mut rules = String::new();
        for rule in outcome.iter().flat_map(|outcome| outcome.rules.iter()) {
            if !rules.is_empty() {
                rules.push(' ');
            }
            rules.push_str(rule.id());
        }
        tracing::info!(
            target: super::log::ACCESS,
            host = %self.host,
            interface = %self.interface,
            binding = self.binding,
            mode = self.mode().as_str(),
            status = finished.status,
            outcome = verdict.as_str(),
            reason = outcome.and_then(|outcome| outcome.reason),
            collapsed = outcome.and_then(|outcome| outcome.collapsed),
            rules = (!rules.is_empty()).then_some(rules.as_str()),
            stream = finished.stream,
            upstream_ms = milliseconds(finished.upstream),
            added_us = u64::try_from(finished.added.as_micros()).unwrap_or(u64::MAX),
        );
    }

    /// What became of an agent card that was asked for (P-3).
    pub fn card(&self, fate: CardFate) {
        self.metrics.card_rewrites.with_label_values(&[self.host.as_str(), fate.as_str()]).inc();
        if fate == (CardFate::Rewritten { was_signed: true }) {
            self.metrics.card_signatures.with_label_values(&[self.host.as_str()]).inc();
        }
    }

    /// The host's side of an exchange failed.
    pub fn upstream_failed(&self, failure: UpstreamFailure) {
        let place = UpstreamFailure::ALL.iter().position(|known| *known == failure);
        if let Some(tally) = place.and_then(|place| self.upstream_failures.get(place)) {
            let labels = [self.host.as_str(), failure.as_str()];
            tally.add(1, || self.metrics.upstream_failures.with_label_values(&labels));
        }
    }

    /// The bytes held back changed by this much (gauge `held_bytes`).
    pub fn held(&self, delta: i64) {
        self.metrics.limits().held(delta);
    }

    /// All exchanges together hold back more than they may (`limits.held_bytes`).
    #[must_use]
    pub fn holds_too_much(&self) -> bool {
        self.metrics.limits().holds_too_much()
    }

    /// A limit was reached.
    pub fn reached(&self, limit: Limit) {
        self.metrics.limits().reached(limit);
    }
}

/// The numbers of one lane at one moment; lists hold what is not zero.
#[derive(Debug)]
pub struct Snapshot {
    pub mode: Mode,
    pub since: i64,
    pub mode_since: i64,
    pub responses: [u64; VERDICTS.len()],
    pub repairs: u64,
    pub right_errors: u64,
    pub last_rewrite: Option<i64>,
    pub last_repair: Option<i64>,
    pub answers_since: u64,
    pub errors_since: u64,
    pub rules: Vec<(Rule, u64)>,
    pub dropped: Vec<(&'static str, u64)>,
    pub faults: Vec<(&'static str, u64)>,
    pub collapsed: Vec<(&'static str, u64)>,
    pub upstream_failures: Vec<(&'static str, u64)>,
    /// The last hour, a minute each, the youngest last.
    pub trend: Vec<super::trend::Minute>,
}

/// The answer was the host's, in whatever shape it left.
fn is_the_hosts(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Passed | Verdict::Rewritten | Verdict::Conformant | Verdict::Overflow => true,
        Verdict::Synthesized | Verdict::Refused => false,
    }
}

/// With one decimal: what a person compares.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Where the handle of a verdict is.
pub(super) fn slot(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Passed => 0,
        Verdict::Rewritten => 1,
        Verdict::Conformant => 2,
        Verdict::Overflow => 3,
        Verdict::Synthesized => 4,
        Verdict::Refused => 5,
    }
}

/// Counts one request as in flight while it lives.
#[derive(Debug)]
pub struct InFlight {
    lane: Arc<Lane>,
    stream: bool,
}

impl InFlight {
    /// The answer turned out to be an event stream: it counts as open until the guard is dropped.
    pub fn streaming(&mut self) {
        if !self.stream {
            self.stream = true;
            self.lane.metrics.streams.inc();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.lane.metrics.inflight.add(-1);
        if self.stream {
            self.lane.metrics.streams.dec();
        }
    }
}
