//! Reading the configuration again while the proxy runs: on `SIGHUP`, and on `POST /-/reload` (admin).
//!
//! The sources are those of the start. What cannot be used is refused as a whole and the old configuration runs
//! on; what can be used is in effect for the next request, while requests under way keep their host as it was.
//! Of certificates and keys, [`Reloader::look`] takes what has changed without reading the configuration again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::certificates::{self, Changes, Looked};
use super::sources::Sources;
use super::{descriptors, run};
use crate::config::{Effective, Model, Owner, Problems};
use crate::observe::{Metrics, Readiness, Shown};
use crate::proxy::{Admission, Assembly, Hosts, Terminator};

/// What a new configuration reaches.
pub(super) struct Reloader {
    sources: Sources,
    /// Lets one reload happen after the other.
    turn: Mutex<()>,
    /// The one in effect. Nobody reads a file while it is locked: a disk may hang.
    current: Mutex<Current>,
    hosts: Arc<Hosts>,
    tls: Arc<Terminator>,
    admission: Arc<Admission>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    shown: Arc<Shown>,
}

/// A configuration, and what has become of its files since.
struct Current {
    model: Model,
    changes: Changes,
    /// How many reloads there were before.
    reloads: u64,
}

impl Reloader {
    pub(super) fn new(
        sources: Sources,
        model: Model,
        assembly: &Assembly,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
        shown: Arc<Shown>,
    ) -> Self {
        let (hosts, tls, admission) = (assembly.hosts(), assembly.tls(), assembly.admission());
        let changes = Changes::default();
        changes.tell(&model, &metrics);
        let current = Mutex::new(Current { model, changes, reloads: 0 });
        Self { sources, turn: Mutex::new(()), current, hosts, tls, admission, metrics, readiness, shown }
    }

    /// Reads the configuration and puts it into effect. Says what changed, or everything that is wrong.
    pub(super) fn reload(&self) -> Result<String, Vec<String>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let running = self.current().model.clone();
        let loaded = self.sources.load_again(&running);
        let mut current = self.current();
        match loaded.and_then(|effective| unchangeable(&current.model, effective)) {
            Ok(effective) => {
                let changes = changes(&current.model, &effective.model);
                self.apply(&current.model, &effective);
                let reloads = current.reloads + 1;
                *current = Current { model: effective.model, changes: Changes::default(), reloads };
                current.changes.tell(&current.model, &self.metrics);
                self.metrics.reloaded(None);
                tracing::info!(changes, "configuration reloaded");
                descriptors::make_room(&current.model);
                if let Some(warning) = descriptors::warning(&current.model) {
                    tracing::warn!("{warning}");
                }
                certificates::note(current.model.notes());
                Ok(changes)
            }
            Err(problems) => {
                let says: Vec<String> =
                    problems.0.iter().map(|problem| problem.shown().to_string()).collect();
                for problem in &says {
                    tracing::error!(problem, "configuration not reloaded; the one before stays in effect");
                }
                for (of, cause) in problems.0.iter().filter_map(|problem| problem.file) {
                    self.metrics.certificates().failed(of, cause);
                }
                self.metrics.reloaded(Some(says.clone()));
                Err(says)
            }
        }
    }

    /// Takes what has changed of the certificates and keys that the configuration names.
    pub(super) fn look(&self) -> Looked {
        let (model, reloads) = {
            let current = self.current();
            (current.model.clone(), current.reloads)
        };
        let readings = model.changed_files();
        let mut current = self.current();
        if current.reloads != reloads {
            // They may be other files by now.
            return Looked { unsettled: true, ..Looked::default() };
        }
        let Current { model, changes, .. } = &mut *current;
        let looked = changes.look(model, readings, &self.metrics);
        if looked.taken.contains(&Owner::Listen) {
            self.meet_connections(model);
        }
        if looked.taken.iter().any(|of| matches!(of, Owner::Upstream { .. })) {
            // Those that are as before stay as they are.
            self.hosts.replace(&run::hosts(model));
        }
        looked
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New connections get these certificates.
    fn meet_connections(&self, model: &Model) {
        if let Err(error) = self.tls.replace(run::listen_tls(model).as_ref()) {
            // What was read was checked to be usable.
            tracing::error!(error, "listen.tls stays as it was");
        }
    }

    fn apply(&self, before: &Model, effective: &Effective) {
        if before.listen.tls != effective.model.listen.tls {
            self.meet_connections(&effective.model);
            self.metrics.certificates().taken(Owner::Listen);
        }
        self.admission.replace(run::bounds(&effective.model));
        self.hosts.replace(&run::hosts(&effective.model));
        self.readiness.replace(self.hosts.known());
        // What a card taught in between was set on the list before.
        for (name, _) in self.hosts.known().into_iter().filter(|(_, known)| *known) {
            self.readiness.set(&name, true);
        }
        self.metrics.hosts_are(effective.model.hosts.iter().map(|host| host.name.clone()));
        self.shown.set(effective.shown());
    }
}

/// Refuses what takes a new process.
fn unchangeable(current: &Model, effective: Effective) -> Result<Effective, Problems> {
    let new = &effective.model;
    let pairs = [
        ("listen.address", &current.listen.address, &new.listen.address),
        ("listen.handover", &current.listen.handover, &new.listen.handover),
        ("admin.address", &current.admin.address, &new.admin.address),
    ];
    let mut problems: Vec<_> = pairs
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(key, old, _)| {
            effective.problem(
                key,
                &format!("cannot change while the proxy runs; restart it, or write \"{old}\" again"),
            )
        })
        .collect();
    let (old, traces) = (&current.traces, &new.traces);
    let changed = [
        ("traces.otlp_url", old.otlp_url != traces.otlp_url),
        ("traces.sample_percent", old.sample_percent != traces.sample_percent),
        ("traces.headers", old.headers != traces.headers),
    ];
    // What it was may open something.
    let says = "cannot change while the proxy runs; restart it, or write again what was there";
    problems.extend(changed.iter().filter(|(_, is)| *is).map(|(key, _)| effective.problem(key, says)));
    if problems.is_empty() { Ok(effective) } else { Err(Problems(problems)) }
}

/// Which hosts are new, gone or other than before.
fn changes(old: &Model, new: &Model) -> String {
    let find = |model: &Model, name: &str| model.hosts.iter().find(|host| host.name == name).cloned();
    let names = |model: &Model, is: &dyn Fn(&str) -> bool| -> Vec<String> {
        model.hosts.iter().map(|host| host.name.clone()).filter(|name| is(name)).collect()
    };
    let lists = [
        ("new", names(new, &|name| find(old, name).is_none())),
        ("changed", names(new, &|name| find(old, name).is_some_and(|host| find(new, name) != Some(host)))),
        ("gone", names(old, &|name| find(new, name).is_none())),
    ];
    let mut says: Vec<String> = lists
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(" ")))
        .collect();
    if old.listen.tls != new.listen.tls {
        says.push("changed: listen.tls".to_owned());
    }
    if run::bounds(old) != run::bounds(new) {
        says.push("changed: limits and timeouts".to_owned());
    }
    if says.is_empty() { "no host changed".to_owned() } else { says.join("; ") }
}

/// Reloads whenever `SIGHUP` comes.
pub(super) struct OnHangUp {
    pub(super) reloader: Arc<Reloader>,
    pub(super) hang_ups: Mutex<Option<Signal>>,
}

/// Takes `SIGHUP` from here on, which would end the process otherwise.
pub(super) fn catch_hang_ups() -> std::io::Result<Signal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { signal(SignalKind::hangup()) })
}

#[async_trait]
impl BackgroundService for OnHangUp {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let hang_ups = self.hang_ups.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut hang_ups) = hang_ups else { return };
        loop {
            tokio::select! {
                _ = hang_ups.recv() => {
                    let reloader = self.reloader.clone();
                    // It reads files. What it says is logged and shown.
                    let _ = tokio::task::spawn_blocking(move || reloader.reload()).await;
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}
