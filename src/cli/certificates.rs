//! Looks every few seconds whether a certificate or key that the configuration names has changed, and takes what can
//! be used. What cannot, such as a certificate whose key has not arrived yet, is told and tried again; what was
//! before it stays in effect.
//!
//! It looks at what the files hold, not at their times: secrets that a cluster mounts change by a link.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;

use super::reload::Reloader;
use crate::config::{Fault, Model, Owner, Reading};
use crate::observe::certificates::{Certificate, RefusedFile, SOON_DAYS};
use crate::observe::{Metrics, unix_now};

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// How long a change must have come to rest: whoever writes a file may not be done.
const SETTLE: Duration = Duration::from_millis(300);

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Whose files hold something else from here on.
    pub(super) taken: Vec<Owner>,
    /// Something has just changed: worth another look soon.
    pub(super) unsettled: bool,
}

/// What has become of the files since the configuration was read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By owner: contents that are not taken (yet), and what is wrong with them.
    open: HashMap<Owner, Open>,
    /// What was said of a certificate's end.
    said: HashMap<(Owner, String, String), Age>,
}

#[derive(Debug)]
struct Open {
    print: u64,
    /// It has come to rest, and this is wrong with it; else what was wrong with what was there before.
    judged: bool,
    faults: Vec<Fault>,
    since: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Fresh,
    Ending,
    Over,
}

impl Changes {
    /// Takes into the model what can be used of what was read for it.
    pub(super) fn look(&mut self, model: &mut Model, readings: Vec<Reading>, metrics: &Metrics) -> Looked {
        let mut looked = Looked::default();
        self.open.retain(|of, _| readings.iter().any(|reading| reading.of == *of));
        for reading in readings {
            let of = reading.of;
            let new = || Open { print: 0, judged: false, faults: Vec::new(), since: unix_now() };
            let open = self.open.entry(of).or_insert_with(new);
            if open.print != reading.print {
                (open.print, open.judged) = (reading.print, false);
                looked.unsettled = true;
                continue;
            }
            match reading.found {
                Ok(found) => {
                    model.take_files(of, found);
                    self.open.remove(&of);
                    metrics.certificates().taken(of);
                    tracing::info!(
                        r#use = of.as_str(),
                        host = host(model, of),
                        "certificate files taken anew"
                    );
                    note(model.notes().filter(|(owner, _)| *owner == of));
                    looked.taken.push(of);
                }
                // It is judged again and again, because time alone can make it right, and told once.
                Err(faults) if open.judged && open.faults == faults => {}
                Err(faults) => {
                    for fault in &faults {
                        metrics.certificates().failed(of, fault.cause);
                        tracing::error!(
                            key = fault.key,
                            path = fault.path,
                            cause = fault.cause.as_str(),
                            problem = fault.says,
                            "certificate files not taken; those before stay in effect"
                        );
                    }
                    (open.judged, open.faults) = (true, faults);
                }
            }
        }
        self.tell(model, metrics);
        self.warn(model);
        looked
    }

    /// Tells what is in effect, and what is not taken.
    pub(super) fn tell(&self, model: &Model, metrics: &Metrics) {
        let in_effect = model.validities().into_iter().map(|validity| Certificate {
            r#use: validity.of.as_str().into(),
            host: validity.host,
            key: validity.key,
            expires: validity.until,
        });
        metrics.certificates().are(in_effect.collect());
        metrics.certificates().outside_their_time(model.notes().map(|(of, _)| of));
        let refused = self.open.iter().flat_map(|(of, open)| {
            open.faults.iter().map(|fault| RefusedFile {
                r#use: of.as_str().into(),
                key: fault.key.clone(),
                path: fault.path.clone(),
                cause: fault.cause.as_str().into(),
                says: fault.says.clone(),
                at: open.since,
            })
        });
        let mut refused: Vec<_> = refused.collect();
        refused.sort_by(|a, b| a.key.cmp(&b.key));
        metrics.certificates().refused_are(refused);
    }

    /// Says of each certificate once that it ends soon, and once that it has ended: it is in effect all the same.
    fn warn(&mut self, model: &Model) {
        let now = unix_now();
        for validity in model.validities() {
            let left = validity.until - now;
            let age = match left {
                ..=0 => Age::Over,
                left if left <= SOON_DAYS * 86_400 => Age::Ending,
                _ => Age::Fresh,
            };
            let (r#use, host, key) = (validity.of.as_str(), validity.host.clone(), validity.key.clone());
            let said = self.said.insert((validity.of, validity.host, validity.key), age);
            match age {
                Age::Ending if said != Some(age) => {
                    tracing::warn!(r#use, host, key, days = left / 86_400, "certificate expires soon");
                }
                Age::Over if said != Some(age) => {
                    tracing::error!(r#use, host, key, "certificate has expired and is still in effect");
                }
                Age::Fresh | Age::Ending | Age::Over => {}
            }
        }
    }
}

/// Says which certificates are outside their time in files that are taken all the same.
pub(super) fn note<'a>(notes: impl Iterator<Item = (Owner, &'a Fault)>) {
    for (_, note) in notes {
        tracing::warn!(
            key = note.key,
            path = note.path,
            cause = note.cause.as_str(),
            problem = note.says,
            "certificate outside its time"
        );
    }
}

/// The name of the host whose files they are.
fn host(model: &Model, of: Owner) -> Option<&str> {
    match of {
        Owner::Listen => None,
        Owner::Upstream { host, .. } => model.hosts.get(host).map(|host| host.name.as_str()),
    }
}

/// Looks until the process ends.
pub(super) struct Watcher {
    reloader: Arc<Reloader>,
}

impl Watcher {
    pub(super) fn new(reloader: Arc<Reloader>) -> Self {
        Self { reloader }
    }
}

#[async_trait]
impl BackgroundService for Watcher {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut pause = PERIOD;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = shutdown.changed() => return,
            }
            let reloader = self.reloader.clone();
            // It reads files.
            let looked = tokio::task::spawn_blocking(move || reloader.look()).await;
            pause = if looked.is_ok_and(|looked| looked.unsettled) { SETTLE } else { PERIOD };
        }
    }
}
