//! What is known of the certificates in effect, and of files that were not taken: for metrics, the status page, the
//! report and alerts. Names and times, never what a file holds (D-4).

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus::core::Collector;
use prometheus::{IntCounterVec, IntGaugeVec};
use serde::{Deserialize, Serialize};

use super::metrics::{counters, opts};
use crate::config::{Cause, Owner};

/// A certificate is to be renewed when it has no more days than this.
pub const SOON_DAYS: i64 = 14;

/// The certificates that one key of the configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// `listen` or `upstream`.
    pub r#use: String,
    /// Empty for the listener.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Below `tls`: `cert`, `client_ca`, …
    pub key: String,
    /// Unix time: when the first of them ends.
    pub expires: i64,
}

/// A file that was not taken; what it held before is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFile {
    /// `listen` or `upstream`.
    pub r#use: String,
    /// The key that names it.
    pub key: String,
    pub path: String,
    pub cause: String,
    pub says: String,
    /// Unix time.
    pub at: i64,
}

/// Both, as the report has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_effect: Vec<Certificate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFile>,
}

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.in_effect.is_empty() && self.refused.is_empty()
    }
}

/// The same with its metrics, shared.
#[derive(Debug)]
pub struct Certificates {
    known: Mutex<Known>,
    expiry: IntGaugeVec,
    failures: IntCounterVec,
    reloads: IntCounterVec,
    refused: IntGaugeVec,
    outside: IntGaugeVec,
}

impl Certificates {
    pub(super) fn new() -> prometheus::Result<Self> {
        let new = Self {
            known: Mutex::default(),
            expiry: IntGaugeVec::new(
                opts(
                    "certificate_expiry_timestamp_seconds",
                    "When a certificate in effect ends, in Unix time.",
                ),
                &["use", "host", "key"],
            )?,
            failures: counters(
                "certificate_failures_total",
                "Files of certificates and keys that were not taken, by why.",
                &["use", "cause"],
            )?,
            reloads: counters(
                "certificate_reloads_total",
                "Files of certificates and keys that were taken anew while the proxy ran.",
                &["use"],
            )?,
            refused: IntGaugeVec::new(
                opts(
                    "certificates_refused",
                    "Files that are not taken right now; what was before is in effect.",
                ),
                &["use"],
            )?,
            outside: IntGaugeVec::new(
                opts(
                    "certificates_outside_their_time",
                    "Certificates outside their time in files that are taken all the same: those beside a leaf and in bundles \
                     are left out, and those in effect already stay.",
                ),
                &["use"],
            )?,
        };
        for of in Owner::USES {
            // A first step is to be seen as one.
            new.reloads.with_label_values(&[of]).reset();
            new.refused.with_label_values(&[of]).set(0);
            new.outside.with_label_values(&[of]).set(0);
            for cause in Cause::ALL {
                new.failures.with_label_values(&[of, cause.as_str()]).reset();
            }
        }
        Ok(new)
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 5] {
        [
            Box::new(self.expiry.clone()),
            Box::new(self.failures.clone()),
            Box::new(self.reloads.clone()),
            Box::new(self.refused.clone()),
            Box::new(self.outside.clone()),
        ]
    }

    /// These are in effect from here on.
    pub fn are(&self, certificates: Vec<Certificate>) {
        let mut known = self.lock();
        self.expiry.reset();
        for one in &certificates {
            let gauge = self.expiry.with_label_values(&[&one.r#use, &one.host, &one.key]);
            // Several upstreams of a host have the same labels: what ends first counts.
            let earlier = if gauge.get() == 0 { one.expires } else { one.expires.min(gauge.get()) };
            gauge.set(earlier);
        }
        known.in_effect = certificates;
    }

    /// A file was not taken.
    pub fn failed(&self, of: Owner, cause: Cause) {
        self.failures.with_label_values(&[of.as_str(), cause.as_str()]).inc();
    }

    /// Files of this owner were taken.
    pub fn taken(&self, of: Owner) {
        self.reloads.with_label_values(&[of.as_str()]).inc();
    }

    /// These files are not taken right now.
    pub fn refused_are(&self, refused: Vec<RefusedFile>) {
        for of in Owner::USES {
            let count = refused.iter().filter(|file| file.r#use == of).count();
            self.refused.with_label_values(&[of]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.lock().refused = refused;
    }

    /// One for each certificate outside its time in files that are in effect.
    pub fn outside_their_time(&self, owners: impl Iterator<Item = Owner>) {
        let owners: Vec<_> = owners.map(Owner::as_str).collect();
        for of in Owner::USES {
            let count = owners.iter().filter(|owner| **owner == of).count();
            self.outside.with_label_values(&[of]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    #[must_use]
    pub fn known(&self) -> Known {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Metrics;

    #[test]
    fn what_ends_first_counts_and_what_is_gone_leaves_no_series() {
        let metrics = Metrics::new();
        let one = |host: &str, expires| Certificate {
            r#use: "upstream".into(),
            host: host.into(),
            key: "ca".into(),
            expires,
        };
        metrics.certificates().are(vec![one("a", 9), one("a", 5), one("b", 7)]);
        let line = |host: &str, at: i64| {
            format!(
                "a2a_errata_certificate_expiry_timestamp_seconds{{host=\"{host}\",key=\"ca\",use=\"upstream\"}} {at}\n"
            )
        };
        let text = metrics.render();
        assert!(text.contains(&line("a", 5)) && text.contains(&line("b", 7)), "{text}");
        metrics.certificates().are(vec![one("b", 7)]);
        assert!(!metrics.render().contains("host=\"a\""));
    }
}
