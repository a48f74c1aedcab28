//! When a shim can go: the criteria, in one place, for the status page, `/report` and `a2a-errata report`.
//!
//! The proxy can be taken out of an interface's way once it has watched long enough, repaired nothing in
//! that time, and has seen errors there that were right: silence proves nothing.

use serde::{Deserialize, Serialize};

/// Days an interface must have been clean, unless somebody says otherwise.
pub const CLEAN_DAYS: u32 = 14;
/// The most days that may be asked for.
pub const MOST_DAYS: u32 = 3650;
const DAY: i64 = 86_400;

/// What the criteria are judged by; times in Unix time.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    pub now: i64,
    /// Since when answers are counted.
    pub since: i64,
    pub last_repair: Option<i64>,
    /// Errors since the last repair that were right as the host gave them.
    pub right_errors: u64,
    /// It is an interface: one on which errors can be right. Other URLs have none.
    pub is_interface: bool,
    /// The host's interfaces are known.
    pub ready: bool,
}

/// Whether the shim can go from an interface, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    pub can_go: bool,
    pub clean_days: u32,
    /// Since when nothing had to be repaired.
    pub clean_since: i64,
    /// How long that is.
    pub clean_seconds: i64,
    pub criteria: Vec<Criterion>,
}

/// One of the things that must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    pub name: String,
    pub holds: bool,
    /// How it stands, for people.
    pub says: String,
}

/// Judges the criteria.
#[must_use]
pub fn judge(evidence: &Evidence, clean_days: u32) -> Removal {
    let wanted = i64::from(clean_days) * DAY;
    // The times may be another process's word, and then any number.
    let since = |time: i64| evidence.now.saturating_sub(time).max(0);
    let watched = since(evidence.since);
    let clean_since = evidence.last_repair.unwrap_or(evidence.since).max(evidence.since);
    let clean = since(clean_since);
    let mut criteria = vec![
        Criterion {
            name: "interfaces known".into(),
            holds: evidence.ready,
            says: if evidence.ready {
                "the host's interfaces are known".into()
            } else {
                "the host's agent card could not be used yet, so every POST may be a call".into()
            },
        },
        Criterion {
            name: "watched".into(),
            holds: watched >= wanted,
            says: format!("watched for {} of {}", span(watched), days(clean_days)),
        },
        Criterion {
            name: "clean".into(),
            holds: clean >= wanted,
            says: if evidence.last_repair.is_some() {
                format!("nothing repaired for {} of {}", span(clean), days(clean_days))
            } else {
                format!("nothing repaired since it is watched, {} of {}", span(clean), days(clean_days))
            },
        },
    ];
    if evidence.is_interface {
        criteria.push(Criterion {
            name: "errors seen".into(),
            holds: evidence.right_errors > 0,
            says: match evidence.right_errors {
                0 => "no error since then that was right as the host gave it, so nothing is proved".into(),
                1 => "1 error since then, right as the host gave it".into(),
                n => format!("{n} errors since then, all right as the host gave them"),
            },
        });
    }
    Removal {
        can_go: criteria.iter().all(|criterion| criterion.holds),
        clean_days,
        clean_since,
        clean_seconds: clean,
        criteria,
    }
}

fn days(days: u32) -> String {
    if days == 1 { "1 day".into() } else { format!("{days} days") }
}

/// A length of time as people say it, never rounded up: `13 days`, `5 hours`, `2 minutes`.
#[must_use]
pub fn span(seconds: i64) -> String {
    let (number, unit) = match seconds {
        ..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..DAY => (seconds / 3600, "hour"),
        _ => (seconds / DAY, "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn good() -> Evidence {
        Evidence {
            now: NOW,
            since: NOW - 14 * DAY,
            last_repair: None,
            right_errors: 3,
            is_interface: true,
            ready: true,
        }
    }

    fn missing(evidence: &Evidence) -> Vec<String> {
        let removal = judge(evidence, CLEAN_DAYS);
        assert_eq!(removal.can_go, removal.criteria.iter().all(|criterion| criterion.holds));
        removal.criteria.into_iter().filter(|criterion| !criterion.holds).map(|c| c.name).collect()
    }

    #[test]
    fn each_criterion_is_needed() {
        assert!(missing(&good()).is_empty());
        assert_eq!(missing(&Evidence { since: NOW - 14 * DAY + 1, ..good() }), ["watched", "clean"]);
        assert_eq!(missing(&Evidence { last_repair: Some(NOW - 14 * DAY + 1), ..good() }), ["clean"]);
        assert_eq!(missing(&Evidence { last_repair: Some(NOW - 14 * DAY), ..good() }), [""; 0]);
        assert_eq!(missing(&Evidence { right_errors: 0, ..good() }), ["errors seen"]);
        assert_eq!(missing(&Evidence { ready: false, ..good() }), ["interfaces known"]);
    }

    #[test]
    fn urls_that_are_no_interface_have_no_errors_to_show() {
        assert!(missing(&Evidence { right_errors: 0, is_interface: false, ..good() }).is_empty());
    }

    #[test]
    fn a_clock_that_was_set_back_proves_nothing() {
        assert_eq!(missing(&Evidence { since: NOW + 5, ..good() }), ["watched", "clean"]);
    }

    #[test]
    fn times_at_the_ends_of_what_there_is_are_judged() {
        for time in [i64::MIN, i64::MAX] {
            for other in [i64::MIN, 0, NOW, i64::MAX] {
                let evidence = Evidence { now: time, since: other, last_repair: Some(other), ..good() };
                assert_eq!(judge(&evidence, MOST_DAYS).can_go, time > other, "{time} {other}");
                let evidence = Evidence { now: other, since: time, last_repair: Some(time), ..good() };
                assert_eq!(judge(&evidence, MOST_DAYS).can_go, other > time, "{time} {other}");
            }
        }
    }

    #[test]
    fn spans_are_not_rounded_up() {
        for (seconds, says) in [
            (0, "0 seconds"),
            (59, "59 seconds"),
            (61, "1 minute"),
            (7199, "1 hour"),
            (DAY, "1 day"),
            (14 * DAY - 1, "13 days"),
        ] {
            assert_eq!(span(seconds), says);
        }
    }
}
