//! Prometheus metrics (U-4) of one process, and its lanes. Every label value is from the configuration, from
//! a host's card within bounds, or from a closed list (D-4).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Encoder, GaugeVec, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::Lane;
use super::certificates::Certificates;
use super::groups::{AddressState, Addresses, Groups};
use super::handshakes::Handshakes;
use super::lane::unix_now;
use super::limits::Limits;
use super::reloads::Told;
use super::shards::{ShardedGauge, ShardedHistogram};
use crate::normalize::{Binding, Mode};

const PREFIX: &str = "a2a_errata";

/// The configuration was taken, or not.
const RELOAD_RESULTS: [&str; 2] = ["ok", "refused"];

/// Holding an answer costs microseconds; a floor (O-4) or a slow client makes it longer.
const ADDED_BUCKETS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// Hosts answer within a network round trip or after a model has thought for a minute.
const UPSTREAM_BUCKETS: &[f64] =
    &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// Interfaces of one host that have lanes of their own; a host's card may list any number.
const MOST_INTERFACES: usize = 64;
/// The longest path that is a label, in bytes.
const LONGEST_PATH: usize = 256;
/// The lane of interfaces that are beyond these bounds.
const MORE: &str = "more";

/// Every metric of one process, in its own registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(super) responses: IntCounterVec,
    pub(super) repairs: IntCounterVec,
    pub(super) rewrites: IntCounterVec,
    pub(super) faults: IntCounterVec,
    pub(super) dropped: IntCounterVec,
    pub(super) collapsed: IntCounterVec,
    pub(super) overflows: IntCounter,
    limits: Limits,
    pub(super) added: ShardedHistogram,
    pub(super) upstream: ShardedHistogram,
    pub(super) upstream_failures: IntCounterVec,
    pub(super) inflight: ShardedGauge,
    pub(super) streams: IntGauge,
    pub(super) last_rewrite: IntGaugeVec,
    pub(super) last_repair: IntGaugeVec,
    mode_info: IntGaugeVec,
    upstream_addresses: IntGaugeVec,
    upstream_ejections: IntCounterVec,
    health_checks: IntCounterVec,
    groups: Arc<Groups>,
    host_ready: IntGaugeVec,
    card_reads: IntCounterVec,
    card_age: GaugeVec,
    config_reloads: IntCounterVec,
    config_ok: IntGauge,
    handshakes: Handshakes,
    pub(super) certificates: Certificates,
    pub(super) reloads: Told,
    pub(super) card_rewrites: IntCounterVec,
    pub(super) card_signatures: IntCounterVec,
    span_batches: IntCounterVec,
    /// Unix time of the process's beginning.
    started: i64,
    instance: String,
    lanes: Mutex<Lanes>,
    /// When each host's card was last read well.
    cards: Mutex<Vec<(String, Instant)>>,
}

/// Every lane that is in use, and every label that ever was.
#[derive(Debug, Default)]
struct Lanes {
    live: Vec<Weak<Lane>>,
    /// Host and interface.
    named: Vec<(String, String)>,
    /// The configured hosts, once they were replaced.
    hosts: Option<Vec<String>>,
}

pub(super) fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace(PREFIX)
}

pub(super) fn counters(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    IntCounterVec::new(opts(name, help), labels)
}

pub(super) fn gauge(name: &str, help: &str) -> prometheus::Result<IntGauge> {
    IntGauge::with_opts(opts(name, help))
}

fn histogram(name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<ShardedHistogram> {
    ShardedHistogram::new(&HistogramOpts::new(name, help).namespace(PREFIX).buckets(buckets.to_vec()))
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
        let started = unix_now();
        let start = gauge("start_time_seconds", "When the process began, in Unix time.")?;
        start.set(started);
        let metrics = Self {
            registry: Registry::new(),
            responses: counters(
                "responses_total",
                "Answers, by what became of them.",
                &["host", "interface", "binding", "outcome"],
            )?,
            repairs: counters(
                "repairs_total",
                "Answers that clients could not have used as the host gave them.",
                &["host", "interface"],
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
            limits: Limits::new()?,
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
            upstream_failures: counters(
                "upstream_failures_total",
                "Exchanges that failed on the host's side, by how.",
                &["host", "kind"],
            )?,
            inflight: ShardedGauge::new(opts("inflight", "Requests being served right now."))?,
            streams: gauge("streams_open", "Event streams open right now.")?,
            last_rewrite: IntGaugeVec::new(
                opts("last_rewrite_timestamp_seconds", "When an answer was last rewritten, in Unix time."),
                &["host", "interface"],
            )?,
            last_repair: IntGaugeVec::new(
                opts("last_repair_timestamp_seconds", "When an answer last needed repair, in Unix time."),
                &["host", "interface"],
            )?,
            mode_info: IntGaugeVec::new(
                opts("mode_info", "1; says whether an interface's answers are enforced or only observed."),
                &["host", "interface", "mode"],
            )?,
            upstream_addresses: IntGaugeVec::new(
                opts("upstream_addresses", "Addresses of an upstream, by what they are good for right now."),
                &["host", "upstream", "state"],
            )?,
            upstream_ejections: counters(
                "upstream_ejections_total",
                "Times an address was left alone for a while because it failed requests.",
                &["host", "upstream"],
            )?,
            health_checks: counters(
                "health_checks_total",
                "Checks of addresses, by whether they were good.",
                &["host", "upstream", "result"],
            )?,
            groups: Arc::default(),
            host_ready: IntGaugeVec::new(
                opts(
                    "host_ready",
                    "1 when the host's interfaces are known and one of its addresses can be used, else 0.",
                ),
                &["host"],
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
            span_batches: counters(
                "span_batches_total",
                "Batches of spans for the collector, by whether it took them.",
                &["result"],
            )?,
            config_reloads: counters(
                "config_reloads_total",
                "Readings of the configuration while the proxy ran, by whether it could be used.",
                &["result"],
            )?,
            config_ok: gauge(
                "config_last_reload_successful",
                "1; 0 while the last reading of the configuration was refused and the one before is in effect.",
            )?,
            handshakes: Handshakes::new()?,
            certificates: Certificates::new()?,
            reloads: Told::new(started),
            started,
            instance: format!("{:016x}", RandomState::new().hash_one(started)),
            lanes: Mutex::default(),
            cards: Mutex::default(),
        };
        metrics.config_ok.set(1);
        for result in RELOAD_RESULTS {
            // A first step is to be seen as one.
            metrics.config_reloads.with_label_values(&[result]).reset();
        }
        let handshakes = metrics.handshakes.collectors();
        for collector in handshakes.into_iter().chain(metrics.certificates.collectors()) {
            metrics.registry.register(collector)?;
        }
        for collector in metrics.limits.collectors() {
            metrics.registry.register(collector)?;
        }
        let all: [Box<dyn Collector>; 28] = [
            Box::new(metrics.config_reloads.clone()),
            Box::new(metrics.config_ok.clone()),
            Box::new(metrics.span_batches.clone()),
            Box::new(metrics.repairs.clone()),
            Box::new(metrics.upstream_failures.clone()),
            Box::new(metrics.last_repair.clone()),
            Box::new(metrics.mode_info.clone()),
            Box::new(metrics.upstream_addresses.clone()),
            Box::new(metrics.upstream_ejections.clone()),
            Box::new(metrics.health_checks.clone()),
            Box::new(metrics.host_ready.clone()),
            Box::new(start),
            Box::new(metrics.responses.clone()),
            Box::new(metrics.rewrites.clone()),
            Box::new(metrics.faults.clone()),
            Box::new(metrics.dropped.clone()),
            Box::new(metrics.collapsed.clone()),
            Box::new(metrics.overflows.clone()),
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

    /// The handles of one interface of one host; `interface` is its path, or a word with no binding for
    /// everything that is no interface. A lane that is in use is used again, with its history.
    #[must_use]
    pub fn lane(
        self: &Arc<Self>,
        host: &str,
        interface: &str,
        binding: Option<Binding>,
        mode: Mode,
    ) -> Arc<Lane> {
        let interface = if interface.is_empty() { "/" } else { interface };
        let mut lanes = self.lanes();
        let interface = lanes.label(host, interface);
        let found = lanes.live.iter().filter_map(Weak::upgrade).find(|lane| {
            lane.host() == host
                && lane.interface() == interface
                && lane.binding() == binding.map_or("none", Binding::as_str)
        });
        let lane = if let Some(lane) = found {
            if lane.set_mode(mode) {
                tracing::info!(host, interface, mode = mode.as_str(), "another mode");
            }
            lane
        } else {
            let lane = Arc::new(Lane::new(self, host, &interface, binding, mode));
            lanes.live.retain(|known| known.strong_count() > 0);
            lanes.live.push(Arc::downgrade(&lane));
            lane
        };
        drop(lanes);
        lane
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every lane in use, in the order they were made.
    #[must_use]
    pub fn live(&self) -> Vec<Arc<Lane>> {
        self.lanes().live.iter().filter_map(Weak::upgrade).collect()
    }

    /// The configuration was read again: it is in effect, or was refused for these reasons.
    pub fn reloaded(&self, refused: Option<Vec<String>>) {
        let [ok, bad] = RELOAD_RESULTS;
        let result = if refused.is_some() { bad } else { ok };
        self.config_reloads.with_label_values(&[result]).inc();
        self.config_ok.set(refused.is_none().into());
        self.reloads.set(unix_now(), refused);
    }

    /// How TLS handshakes with clients end.
    #[must_use]
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// What clients take.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is known of certificates and their files.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// These are the hosts from here on. The series of others go once no request counts on them any more, so that
    /// ever new names make no ever new series.
    pub fn hosts_are(&self, names: impl IntoIterator<Item = String>) {
        let names: Vec<_> = names.into_iter().collect();
        self.groups.keep(&names);
        self.lanes().hosts = Some(names);
        self.forget();
    }

    /// Removes the series of hosts that are neither configured nor in use.
    fn forget(&self) {
        let mut lanes = self.lanes();
        let Some(configured) = lanes.hosts.clone() else { return };
        lanes.live.retain(|lane| lane.strong_count() > 0);
        let mut kept = configured;
        kept.extend(lanes.live.iter().filter_map(Weak::upgrade).map(|lane| lane.host().to_owned()));
        lanes.named.retain(|(host, _)| kept.contains(host));
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        cards.retain(|(host, _)| kept.contains(host));
        drop(cards);
        for counters in [
            &self.responses,
            &self.repairs,
            &self.rewrites,
            &self.faults,
            &self.dropped,
            &self.collapsed,
            &self.upstream_failures,
            &self.upstream_ejections,
            &self.health_checks,
            &self.card_reads,
            &self.card_rewrites,
            &self.card_signatures,
        ] {
            keep(counters, &kept);
        }
        for gauges in [&self.last_rewrite, &self.last_repair, &self.host_ready] {
            keep(gauges, &kept);
        }
        keep(&self.card_age, &kept);
    }

    /// Who knows every host's addresses.
    #[must_use]
    pub fn groups(&self) -> Arc<Groups> {
        self.groups.clone()
    }

    /// This is who knows the host's addresses from here on. The series of upstreams that it has no more go.
    pub fn group(&self, host: &str, known: &Arc<impl Addresses + 'static>) {
        let known: Arc<dyn Addresses> = known.clone();
        self.groups.set(host, Arc::downgrade(&known));
        let upstreams = known.upstreams();
        for counters in [&self.upstream_ejections, &self.health_checks] {
            keep_where(counters, |label| {
                label("host") != Some(host)
                    || label("upstream").is_none_or(|one| upstreams.iter().any(|known| known == one))
            });
        }
    }

    /// Counts times an address of the upstream was left alone.
    #[must_use]
    pub fn ejections(&self, host: &str, upstream: &str) -> IntCounter {
        self.upstream_ejections.with_label_values(&[host, upstream])
    }

    /// Counts checks of the upstream's addresses that were good, and those that were not.
    #[must_use]
    pub fn health_checks(&self, host: &str, upstream: &str) -> [IntCounter; 2] {
        ["ok", "failed"].map(|result| self.health_checks.with_label_values(&[host, upstream, result]))
    }

    /// Closes the minute for the trends; to be called once a minute.
    pub fn tick(&self) {
        self.forget();
        let now = unix_now();
        for lane in self.live() {
            lane.tick(now);
        }
    }

    /// Unix time of the process's beginning.
    #[must_use]
    pub fn started(&self) -> i64 {
        self.started
    }

    /// A random word that no other process has, so that one that is read under two names is known again. The
    /// standard library's hash keys are random in every process.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether the host's interfaces are known (I-1).
    pub fn host_ready(&self, host: &str, ready: bool) {
        self.host_ready.with_label_values(&[host]).set(ready.into());
    }

    /// Seconds since the host's card was last read well.
    #[must_use]
    pub fn card_age(&self, host: &str) -> Option<f64> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        cards.iter().find(|(name, _)| name == host).map(|(_, at)| at.elapsed().as_secs_f64())
    }

    /// A batch of spans was taken by the collector, or was not; the first one lost is told.
    pub fn spans_sent(&self, delivered: bool) {
        let count = |result: &str| self.span_batches.with_label_values(&[result]);
        if delivered {
            count("delivered").inc();
            return;
        }
        let lost = count("lost");
        if lost.get() == 0 {
            tracing::warn!(
                "the collector at traces.otlp_url does not take spans; span_batches_total counts on"
            );
        }
        lost.inc();
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
        self.upstream_addresses.reset();
        for (host, known) in self.groups.all() {
            for upstream in known.upstreams() {
                for state in AddressState::ALL {
                    self.upstream_addresses.with_label_values(&[&host, &upstream, state.as_str()]).set(0);
                }
            }
            for one in known.addresses() {
                self.upstream_addresses.with_label_values(&[&host, &one.upstream, one.state.as_str()]).inc();
            }
        }
        self.mode_info.reset();
        for lane in self.live() {
            let labels = [lane.host(), lane.interface(), lane.mode().as_str()];
            self.mode_info.with_label_values(&labels).set(1);
        }
        let mut text = Vec::new();
        // Writing to memory fails only for a metric without a value, and those are left out.
        _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Removes the series of other hosts than these.
fn keep<B: MetricVecBuilder>(metric: &MetricVec<B>, hosts: &[String]) {
    keep_where(metric, |label| label("host").is_none_or(|host| hosts.iter().any(|kept| kept == host)));
}

/// Removes the series that are not to be kept, by their labels.
fn keep_where<B: MetricVecBuilder>(metric: &MetricVec<B>, is_kept: impl Fn(Label<'_>) -> bool) {
    for family in metric.collect() {
        for series in family.get_metric() {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|label| (label.name(), label.value())).collect();
            if !is_kept(&|name| labels.get(name).copied()) {
                // It is there, and has all its labels.
                let _ = metric.remove(&labels);
            }
        }
    }
}

/// The value of a label of this name.
type Label<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

impl Lanes {
    /// What stands for an interface in the labels: its path, as long as there are not too many.
    fn label(&mut self, host: &str, interface: &str) -> String {
        let fits = interface.len() <= LONGEST_PATH;
        let mut of_host = self.named.iter().filter(|(known, _)| known == host);
        if fits && of_host.clone().any(|(_, known)| known == interface) {
            return interface.to_owned();
        }
        if !fits || of_host.by_ref().count() >= MOST_INTERFACES {
            return MORE.to_owned();
        }
        self.named.push((host.to_owned(), interface.to_owned()));
        interface.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::normalize::{Outcome, Rule, RuleSet, Verdict};
    use crate::observe::Finished;
    use crate::observe::lane::{UpstreamFailure, VERDICTS, slot};

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
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Enforce);
        let mut rewritten = outcome(Verdict::Rewritten, &[Rule::E1, Rule::O1]);
        rewritten.reason = Some("TASK_NOT_FOUND");
        rewritten.collapsed = Some("status_403");
        rewritten.dropped = [1, 2, 0, 0, 0];
        lane.finished(&finished(Some(&rewritten)));
        lane.finished(&finished(Some(&rewritten)));
        lane.finished(&finished(Some(&outcome(Verdict::Overflow, &[Rule::C2]))));
        lane.finished(&finished(None));
        lane.held(4096);
        lane.upstream_failed(UpstreamFailure::Timeout);
        metrics.host_ready("legacy", true);
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
            r#"a2a_errata_repairs_total{host="legacy",interface="/a2a"} 3"#,
            r#"a2a_errata_upstream_failures_total{host="legacy",kind="timeout"} 1"#,
            r#"a2a_errata_mode_info{host="legacy",interface="/a2a",mode="enforce"} 1"#,
            r#"a2a_errata_host_ready{host="legacy"} 1"#,
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
        metrics.lane("legacy", "other", None, Mode::Enforce).finished(&finished(None));
        metrics.lane("legacy", "", Some(Binding::HttpJson), Mode::Enforce).finished(&finished(None));
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
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Enforce);
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
        metrics
            .lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Enforce)
            .finished(&finished(Some(&fault)));
        assert!(!metrics.render().contains("planted"));
    }

    /// I-5: observed is told from enforced, and a change of mode leaves no trace of the old one.
    #[test]
    fn a_lane_has_one_mode_and_keeps_its_numbers_when_it_changes() {
        let metrics = Metrics::new();
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Observe);
        lane.finished(&finished(None));
        assert!(metrics.render().contains(r#"{host="legacy",interface="/a2a",mode="observe"} 1"#));
        let again = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Enforce);
        assert!(Arc::ptr_eq(&lane, &again));
        let text = metrics.render();
        assert!(text.contains(r#"{host="legacy",interface="/a2a",mode="enforce"} 1"#), "{text}");
        assert!(!text.contains("observe\"}"), "{text}");
        assert_eq!(again.snapshot(unix_now()).responses[0], 1);
    }

    /// D-4: a host whose card names ever new paths makes no ever new series.
    #[test]
    fn labels_from_cards_are_bounded() {
        let metrics = Metrics::new();
        for n in 0..10 * MOST_INTERFACES {
            let _ = metrics.lane("legacy", &format!("/{n}"), Some(Binding::JsonRpc), Mode::Enforce);
            let long = "/x".repeat(LONGEST_PATH);
            let _ = metrics.lane("legacy", &long, Some(Binding::JsonRpc), Mode::Enforce);
        }
        let text = metrics.render();
        let series = text.lines().filter(|line| line.starts_with("a2a_errata_repairs_total{")).count();
        assert_eq!(series, MOST_INTERFACES + 1);
        assert!(!text.contains("/x/x"));
        assert_eq!(metrics.live().len(), 0, "lanes nobody uses are gone");
    }

    /// "Clean" is counted from the last repair; a TASK_NOT_FOUND the host said itself is no repair (O-1).
    #[test]
    fn what_came_since_the_last_repair_is_known() {
        let metrics = Metrics::new();
        let lane = metrics.lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Enforce);
        lane.finished(&finished(None));
        lane.finished(&finished(Some(&outcome(Verdict::Rewritten, &[Rule::E1]))));
        let said = Outcome { said_already: true, ..outcome(Verdict::Rewritten, &[Rule::O1]) };
        lane.finished(&finished(Some(&said)));
        lane.finished(&finished(Some(&outcome(Verdict::Conformant, &[Rule::E9]))));
        lane.finished(&finished(Some(&outcome(Verdict::Synthesized, &[Rule::P1]))));
        let now = unix_now();
        let snapshot = lane.snapshot(now);
        assert_eq!((snapshot.answers_since, snapshot.errors_since), (2, 2));
        assert!(snapshot.last_repair.is_some_and(|at| at <= now && at > now - 60));
        assert_eq!(snapshot.trend.last().unwrap().rewritten, 2);
    }

    /// D-4: a host that a reload takes away takes its series along, once nothing counts on them.
    #[test]
    fn hosts_that_are_gone_leave_no_series() {
        let metrics = Metrics::new();
        let count = |host: &str| {
            let lane = metrics.lane(host, "/a2a", Some(Binding::JsonRpc), Mode::Enforce);
            let mut fault = outcome(Verdict::Rewritten, &[Rule::E1]);
            fault.reason = Some("TASK_NOT_FOUND");
            fault.collapsed = Some("status_403");
            fault.dropped = [1; 5];
            lane.finished(&finished(Some(&fault)));
            lane.upstream_failed(UpstreamFailure::Timeout);
            metrics.card_read(host, true);
            metrics.host_ready(host, true);
            lane
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (stays, busy) = (count("stays"), count("busy"));
        metrics.hosts_are(names(&["stays"]));
        assert!(metrics.render().contains("busy"), "a request is still under way");
        let total = |host: &str| metrics.render().matches(&format!("host=\"{host}\"")).count();
        let before = total("stays");
        drop(busy);
        for n in 0..100 {
            drop(count(&format!("once-{n}")));
            metrics.hosts_are(names(&["stays"]));
        }
        let text = metrics.render();
        assert!(!text.contains("busy") && !text.contains("once"), "{text}");
        assert_eq!(total("stays"), before);
        assert_eq!(stays.snapshot(unix_now()).repairs, 1);
    }

    struct Known(Vec<(&'static str, AddressState)>);

    impl Addresses for Known {
        fn addresses(&self) -> Vec<super::super::groups::Address> {
            let address = |(upstream, state): &(&str, AddressState)| super::super::groups::Address {
                upstream: (*upstream).to_owned(),
                address: "127.0.0.1:1".into(),
                state: *state,
                weight: 1,
                in_flight: 0,
            };
            self.0.iter().map(address).collect()
        }

        fn upstreams(&self) -> Vec<String> {
            self.0.iter().map(|(upstream, _)| (*upstream).to_owned()).collect()
        }

        fn is_available(&self) -> bool {
            self.0.iter().any(|(_, state)| *state == AddressState::Healthy)
        }
    }

    /// What is known of addresses is asked for when somebody looks; upstreams that are gone leave no series.
    #[test]
    fn addresses_are_counted_by_state() {
        let metrics = Metrics::new();
        let count = |upstream: &str| {
            metrics.ejections("h", upstream).inc();
            metrics.health_checks("h", upstream)[0].inc();
        };
        count("a:1");
        count("b:1");
        let first = Arc::new(Known(vec![("a:1", AddressState::Healthy), ("b:1", AddressState::Unhealthy)]));
        metrics.group("h", &first);
        let text = metrics.render();
        for line in [
            r#"a2a_errata_upstream_addresses{host="h",state="healthy",upstream="a:1"} 1"#,
            r#"a2a_errata_upstream_addresses{host="h",state="unhealthy",upstream="a:1"} 0"#,
            r#"a2a_errata_upstream_addresses{host="h",state="unhealthy",upstream="b:1"} 1"#,
            r#"a2a_errata_upstream_ejections_total{host="h",upstream="a:1"} 1"#,
            r#"a2a_errata_health_checks_total{host="h",result="ok",upstream="b:1"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        let readiness = super::super::Readiness::new([("h".to_owned(), true)]).with(metrics.groups());
        assert!(readiness.waiting().is_empty());
        let second = Arc::new(Known(vec![("b:1", AddressState::Unhealthy)]));
        metrics.group("h", &second);
        assert_eq!(readiness.waiting(), ["h"]);
        let text = metrics.render();
        assert!(!text.contains("a:1") && text.contains("upstream=\"b:1\""), "{text}");
        metrics.hosts_are(["other".to_owned()]);
        assert!(!metrics.render().contains("b:1"));
    }

    #[test]
    fn a_refused_reload_shows_until_one_is_taken() {
        let metrics = Metrics::new();
        let loaded = metrics.reloads.get().loaded;
        metrics.reloaded(Some(vec!["x.toml:1:1: no".into()]));
        let text = metrics.render();
        assert!(text.contains("a2a_errata_config_reloads_total{result=\"refused\"} 1\n"), "{text}");
        assert!(text.contains("a2a_errata_config_reloads_total{result=\"ok\"} 0\n"), "{text}");
        assert!(text.contains("a2a_errata_config_last_reload_successful 0\n"), "{text}");
        let told = metrics.reloads.get();
        assert_eq!((told.loaded, told.refused.unwrap().says), (loaded, vec!["x.toml:1:1: no".to_owned()]));
        metrics.reloaded(None);
        assert_eq!(metrics.reloads.get().refused, None);
        assert!(metrics.render().contains("a2a_errata_config_last_reload_successful 1\n"));
    }
}
