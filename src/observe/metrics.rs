//! Prometheus metrics (U-4), with handles resolved once per host and interface so that a request
//! costs no label look-up. Every label value is from the configuration or from a closed list (D-4).

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prometheus::core::Collector;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use super::access;
use crate::normalize::{Binding, CardFate, DroppedKind, Outcome, Rule, Verdict};

const PREFIX: &str = "a2a_errata";

/// Holding an answer costs microseconds; a floor (O-4) or a slow client makes it longer.
const ADDED_BUCKETS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// Hosts answer within a network round trip or after a model has thought for a minute.
const UPSTREAM_BUCKETS: &[f64] =
    &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// Every verdict, in the order of the handles.
const VERDICTS: [Verdict; 6] = [
    Verdict::Passed,
    Verdict::Rewritten,
    Verdict::Conformant,
    Verdict::Overflow,
    Verdict::Synthesized,
    Verdict::Refused,
];

/// Every metric of one process, in its own registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    responses: IntCounterVec,
    rewrites: IntCounterVec,
    faults: IntCounterVec,
    dropped: IntCounterVec,
    collapsed: IntCounterVec,
    overflows: IntCounter,
    held: IntGauge,
    added: Histogram,
    upstream: Histogram,
    inflight: IntGauge,
    streams: IntGauge,
    last_rewrite: IntGaugeVec,
    card_reads: IntCounterVec,
    card_age: GaugeVec,
    card_rewrites: IntCounterVec,
    card_signatures: IntCounterVec,
    /// When each host's card was last read well.
    cards: Mutex<Vec<(String, Instant)>>,
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace(PREFIX)
}

fn counters(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    IntCounterVec::new(opts(name, help), labels)
}

fn gauge(name: &str, help: &str) -> prometheus::Result<IntGauge> {
    IntGauge::with_opts(opts(name, help))
}

fn histogram(name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
    Histogram::with_opts(HistogramOpts::new(name, help).namespace(PREFIX).buckets(buckets.to_vec()))
}

impl Metrics {
    /// # Panics
    /// Only if the constants of this file were no valid metrics, which a test excludes.
    #[must_use]
    #[expect(clippy::expect_used, reason = "names, labels and buckets are constants of this file")]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::build().expect("metrics are valid"))
    }

    fn build() -> prometheus::Result<Self> {
        let info = IntGaugeVec::new(opts("build_info", "1; says which build this is."), &["version"])?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            registry: Registry::new(),
            responses: counters(
                "responses_total",
                "Answers, by what became of them.",
                &["host", "interface", "binding", "outcome"],
            )?,
            rewrites: counters(
                "rewrites_total",
                "Rules that fired, by the specification's id.",
                &["host", "interface", "rule"],
            )?,
            faults: counters(
                "faults_total",
                "Faults, by the reason the client sees.",
                &["host", "binding", "reason"],
            )?,
            dropped: counters(
                "dropped_fields_total",
                "Fields of the host's answers that were not disclosed.",
                &["host", "kind"],
            )?,
            collapsed: counters(
                "oracle_collapsed_total",
                "Answers that became the one TASK_NOT_FOUND, by what they were.",
                &["host", "cause"],
            )?,
            overflows: IntCounter::with_opts(opts(
                "overflows_total",
                "Answers over the byte cap or the intake.",
            ))?,
            held: gauge("held_bytes", "Bytes of hosts' answers held back right now.")?,
            added: histogram(
                "added_seconds",
                "Time holding an answer added, from the host's last needed byte to the first written.",
                ADDED_BUCKETS,
            )?,
            upstream: histogram(
                "upstream_seconds",
                "Time from the request sent to the head of the host's answer.",
                UPSTREAM_BUCKETS,
            )?,
            inflight: gauge("inflight", "Requests being served right now.")?,
            streams: gauge("streams_open", "Event streams open right now.")?,
            last_rewrite: IntGaugeVec::new(
                opts("last_rewrite_timestamp_seconds", "When an answer was last rewritten, in Unix time."),
                &["host", "interface"],
            )?,
            card_reads: counters(
                "card_reads_total",
                "Readings of agent cards, by whether the card could be used.",
                &["host", "result"],
            )?,
            card_age: GaugeVec::new(
                opts("card_age_seconds", "Time since the host's agent card was last read and could be used."),
                &["host"],
            )?,
            card_rewrites: counters(
                "card_rewrites_total",
                "Agent cards asked for through the proxy, by what became of their URLs.",
                &["host", "result"],
            )?,
            card_signatures: counters(
                "card_signatures_dropped_total",
                "Signed agent cards whose signatures were dropped with their URLs.",
                &["host"],
            )?,
            cards: Mutex::default(),
        };
        let all: [Box<dyn Collector>; 17] = [
            Box::new(metrics.responses.clone()),
            Box::new(metrics.rewrites.clone()),
            Box::new(metrics.faults.clone()),
            Box::new(metrics.dropped.clone()),
            Box::new(metrics.collapsed.clone()),
            Box::new(metrics.overflows.clone()),
            Box::new(metrics.held.clone()),
            Box::new(metrics.added.clone()),
            Box::new(metrics.upstream.clone()),
            Box::new(metrics.inflight.clone()),
            Box::new(metrics.streams.clone()),
            Box::new(metrics.last_rewrite.clone()),
            Box::new(metrics.card_reads.clone()),
            Box::new(metrics.card_age.clone()),
            Box::new(metrics.card_rewrites.clone()),
            Box::new(metrics.card_signatures.clone()),
            Box::new(info),
        ];
        for collector in all {
            metrics.registry.register(collector)?;
        }
        Ok(metrics)
    }

    /// The handles of one interface of one host; `interface` is its configured path, or `other` with
    /// no binding for everything that is no interface.
    #[must_use]
    pub fn lane(self: &Arc<Self>, host: &str, interface: &str, binding: Option<Binding>) -> Arc<Lane> {
        let interface = if interface.is_empty() { "/" } else { interface };
        let binding = binding.map_or("none", Binding::as_str);
        let responses = VERDICTS
            .map(|verdict| self.responses.with_label_values(&[host, interface, binding, verdict.as_str()]));
        Arc::new(Lane {
            metrics: self.clone(),
            line: access::lane(host, interface, binding),
            host: host.to_owned(),
            interface: interface.to_owned(),
            binding,
            responses,
            rewrites: Rule::ALL.iter().map(|_| OnceLock::new()).collect(),
            dropped: DroppedKind::ALL.iter().map(|_| OnceLock::new()).collect(),
            faults: Named::default(),
            collapsed: Named::default(),
            last_rewrite: OnceLock::new(),
        })
    }

    /// Requests being served right now.
    #[must_use]
    pub fn inflight(&self) -> i64 {
        self.inflight.get()
    }

    /// A host's agent card was read, or could not be used (I-1).
    pub fn card_read(&self, host: &str, usable: bool) {
        let result = if usable { "usable" } else { "unusable" };
        self.card_reads.with_label_values(&[host, result]).inc();
        if !usable {
            return;
        }
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        match cards.iter_mut().find(|(name, _)| name == host) {
            Some((_, at)) => *at = Instant::now(),
            None => cards.push((host.to_owned(), Instant::now())),
        }
    }

    /// The text exposition format of everything.
    #[must_use]
    pub fn render(&self) -> String {
        for (host, at) in self.cards.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            self.card_age.with_label_values(&[host.as_str()]).set(at.elapsed().as_secs_f64());
        }
        let mut text = Vec::new();
        // Writing to memory fails only for a metric without a value, and those are left out.
        _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Counters by a name from a closed list in the code. They exist once they were needed.
#[derive(Debug, Default)]
struct Named(RwLock<Vec<(&'static str, IntCounter)>>);

impl Named {
    fn inc(&self, name: &'static str, make: impl FnOnce() -> IntCounter) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == name) {
            return counter.inc();
        }
        drop(known);
        let counter = make();
        counter.inc();
        // Two at once may both add theirs: they are the same counter.
        self.0.write().unwrap_or_else(PoisonError::into_inner).push((name, counter));
    }
}

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

/// Pre-resolved handles of one host and interface.
#[derive(Debug)]
pub struct Lane {
    metrics: Arc<Metrics>,
    /// What access lines begin with.
    line: String,
    host: String,
    interface: String,
    binding: &'static str,
    responses: [IntCounter; VERDICTS.len()],
    /// By rule; resolved when first needed, so that rules that never fire make no series.
    rewrites: Vec<OnceLock<IntCounter>>,
    dropped: Vec<OnceLock<IntCounter>>,
    faults: Named,
    collapsed: Named,
    last_rewrite: OnceLock<IntGauge>,
}

impl Lane {
    /// A request came in; the guard counts it as in flight until it is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.metrics.inflight.inc();
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
            if let Some(counter) = self.rewrites.get(rule as usize) {
                let make = || self.metrics.rewrites.with_label_values(&[host, interface, rule.id()]);
                counter.get_or_init(make).inc();
            }
        }
        for ((kind, counter), number) in DroppedKind::ALL.iter().zip(&self.dropped).zip(outcome.dropped) {
            if number > 0 {
                let make = || self.metrics.dropped.with_label_values(&[host, kind.as_str()]);
                counter.get_or_init(make).inc_by(number.into());
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
            Verdict::Overflow => self.metrics.overflows.inc(),
            Verdict::Rewritten => {
                let make = || self.metrics.last_rewrite.with_label_values(&[host, interface]);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                self.last_rewrite.get_or_init(make).set(i64::try_from(now).unwrap_or(i64::MAX));
            }
            Verdict::Passed | Verdict::Conformant | Verdict::Synthesized | Verdict::Refused => {}
        }
    }

    pub(super) fn event(&self, finished: &Finished<'_>, verdict: Verdict) -> access::Event<'_> {
        let outcome = finished.outcome;
        access::Event {
            lane: &self.line,
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

    /// The bytes held back changed by this much (gauge `held_bytes`).
    pub fn held(&self, delta: i64) {
        self.metrics.held.add(delta);
    }
}

/// With one decimal: what a person compares.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Where the handle of a verdict is.
fn slot(verdict: Verdict) -> usize {
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
        self.lane.metrics.inflight.dec();
        if self.stream {
            self.lane.metrics.streams.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::RuleSet;

    fn outcome(verdict: Verdict, rules: &[Rule]) -> Outcome {
        let mut set = RuleSet::default();
        for rule in rules {
            set.insert(*rule);
        }
        Outcome { verdict, rules: set, ..Outcome::default() }
    }

    fn finished(outcome: Option<&Outcome>) -> Finished<'_> {
        Finished {
            status: 200,
            outcome,
            stream: false,
            upstream: Duration::from_millis(20),
            added: Duration::from_micros(30),
        }
    }

    #[test]
    fn every_metric_of_u4_is_there_under_its_name_and_labels() {
        let metrics = Metrics::new();
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc));
        let mut rewritten = outcome(Verdict::Rewritten, &[Rule::E1, Rule::O1]);
        rewritten.reason = Some("TASK_NOT_FOUND");
        rewritten.collapsed = Some("status_403");
        rewritten.dropped = [1, 2, 0, 0, 0];
        lane.finished(&finished(Some(&rewritten)));
        lane.finished(&finished(Some(&rewritten)));
        lane.finished(&finished(Some(&outcome(Verdict::Overflow, &[Rule::C2]))));
        lane.finished(&finished(None));
        lane.held(4096);
        let mut guard = lane.begin();
        guard.streaming();
        guard.streaming();
        let text = metrics.render();
        for line in [
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="rewritten"} 2"#,
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="passed"} 1"#,
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="overflow"} 1"#,
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="conformant"} 0"#,
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="synthesized"} 0"#,
            r#"a2a_errata_responses_total{binding="JSONRPC",host="legacy",interface="/a2a",outcome="refused"} 0"#,
            r#"a2a_errata_rewrites_total{host="legacy",interface="/a2a",rule="E-1"} 2"#,
            r#"a2a_errata_rewrites_total{host="legacy",interface="/a2a",rule="O-1"} 2"#,
            r#"a2a_errata_rewrites_total{host="legacy",interface="/a2a",rule="C-2"} 1"#,
            r#"a2a_errata_faults_total{binding="JSONRPC",host="legacy",reason="TASK_NOT_FOUND"} 2"#,
            r#"a2a_errata_dropped_fields_total{host="legacy",kind="message"} 2"#,
            r#"a2a_errata_dropped_fields_total{host="legacy",kind="metadata"} 4"#,
            r#"a2a_errata_oracle_collapsed_total{cause="status_403",host="legacy"} 2"#,
            "a2a_errata_overflows_total 1",
            "a2a_errata_held_bytes 4096",
            "a2a_errata_added_seconds_count 3",
            "a2a_errata_upstream_seconds_count 4",
            "a2a_errata_inflight 1",
            "a2a_errata_streams_open 1",
            concat!("a2a_errata_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert!(
            text.contains("a2a_errata_last_rewrite_timestamp_seconds{host=\"legacy\",interface=\"/a2a\"} 1")
        );
        drop(guard);
        let text = metrics.render();
        assert!(text.contains("a2a_errata_inflight 0\n") && text.contains("a2a_errata_streams_open 0\n"));
    }

    #[test]
    fn what_is_no_interface_has_a_lane_too() {
        let metrics = Metrics::new();
        metrics.lane("legacy", "other", None).finished(&finished(None));
        metrics.lane("legacy", "", Some(Binding::HttpJson)).finished(&finished(None));
        let text = metrics.render();
        assert!(
            text.contains(r#"{binding="none",host="legacy",interface="other",outcome="passed"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"{binding="HTTP+JSON",host="legacy",interface="/",outcome="passed"} 1"#),
            "{text}"
        );
    }

    #[test]
    fn verdicts_and_slots_agree() {
        for (n, verdict) in VERDICTS.into_iter().enumerate() {
            assert_eq!(slot(verdict), n);
        }
    }

    #[test]
    fn the_same_reason_counts_on_one_counter_from_many_threads() {
        let metrics = Metrics::new();
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut fault = outcome(Verdict::Rewritten, &[]);
                    fault.reason = Some("INTERNAL_ERROR");
                    for _ in 0..100 {
                        lane.finished(&finished(Some(&fault)));
                    }
                });
            }
        });
        let text = metrics.render();
        assert!(
            text.contains(r#"faults_total{binding="JSONRPC",host="legacy",reason="INTERNAL_ERROR"} 400"#),
            "{text}"
        );
    }

    /// D-4: of an outcome, names of members come from the wire; they must not become labels.
    #[test]
    fn names_from_the_wire_are_no_labels() {
        let metrics = Metrics::new();
        let mut fault = outcome(Verdict::Rewritten, &[Rule::D2]);
        fault.dropped_names = vec!["planted-secret".into()];
        fault.dropped = [1, 1, 1, 1, 1];
        metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc)).finished(&finished(Some(&fault)));
        assert!(!metrics.render().contains("planted"));
    }
}
