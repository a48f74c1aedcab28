//! For how long a Prometheus can know what an interface's proxies did.
//!
//! Counters tell what was counted only while somebody read them. Time is looked at in steps: an interface is seen
//! in one if a proxy's series has a sample there. It is known since the last moment that any of this is so:
//! no proxy was seen before; a proxy was lost for a step or more and came back as another process, whose
//! predecessor may have repaired unseen; a proxy turned up that had run for longer. One that began when it was first
//! seen (scaled up, rolled out) hides nothing, and one that was lost and is still the same process kept its counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::removal::span;

/// Seconds of a step. Gaps shorter than this are how Prometheus works.
pub const STEP: i64 = 900;

/// What is scraped: the labels that Prometheus gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub job: String,
    pub instance: String,
}

impl Target {
    /// As people would say which it is.
    pub fn shown(&self) -> String {
        if self.instance.is_empty() { "a proxy".to_owned() } else { format!("the proxy {}", self.instance) }
    }
}

/// The steps' ends at which something was seen.
pub type Steps = BTreeSet<i64>;
/// The process that a target was at each step: when it began.
pub type Starts = BTreeMap<Target, BTreeMap<i64, i64>>;

/// What can be known of an interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// Since when.
    pub since: i64,
    /// It is seen now.
    pub is_seen: bool,
    /// Why not for longer, if the window is not whole.
    pub why: Option<String>,
}

/// What can be known at `to` of the time since `from`, which is a whole number of steps before it.
pub fn known(seen: &BTreeMap<Target, Steps>, starts: &Starts, from: i64, to: i64) -> Known {
    let mut covered = Steps::new();
    let mut known = Known { since: from, is_seen: true, why: None };
    let mut not_before = |time: i64, why: &dyn Fn() -> String| {
        if time > known.since {
            known.since = time;
            known.why = Some(why());
        }
    };
    for (target, steps) in seen {
        let began = |step: i64| starts.get(target).and_then(|starts| starts.get(&step)).copied();
        let mut last: Option<i64> = None;
        for &step in steps {
            match last {
                Some(last) if step - last <= STEP => {}
                // Its counters went on.
                Some(last) if began(step).is_some_and(|began| began <= last) => {
                    covered.extend((1..).map(|n| last + n * STEP).take_while(|lost| *lost < step));
                }
                Some(last) => not_before(step, &|| {
                    format!("before that, {} was not scraped for {}", target.shown(), span(step - last))
                }),
                None if step <= from || is_new(target, step, starts) => {}
                None => not_before(step, &|| {
                    format!("{} may have run before that without being scraped", target.shown())
                }),
            }
            covered.insert(step);
            last = Some(step);
        }
    }
    let Some(&last) = covered.last() else {
        return Known { since: to, is_seen: false, why: Some("it was never scraped".to_owned()) };
    };
    if last < to {
        let why =
            format!("it was last scraped {} ago, and what is repaired now is not known", span(to - last));
        return Known { since: to, is_seen: false, why: Some(why) };
    }
    let mut first = to;
    while first > from && covered.contains(&(first - STEP)) {
        first -= STEP;
    }
    let before = covered.range(..first).next_back().copied();
    not_before(first, &|| match before {
        Some(before) => format!("before that, nothing was scraped for {}", span(first - before)),
        None => "Prometheus has nothing from before that".to_owned(),
    });
    known
}

/// Nothing was counted there before this step: the process began then, or was seen already and only the interface
/// is new. Two jobs may scrape one process.
fn is_new(target: &Target, step: i64, starts: &Starts) -> bool {
    let Some(began) = starts.get(target).and_then(|starts| starts.get(&step)).copied() else { return false };
    let was_seen = |(other, starts): (&Target, &BTreeMap<i64, i64>)| {
        other.instance == target.instance && starts.get(&(step - STEP)) == Some(&began)
    };
    began > step - 2 * STEP || starts.iter().any(was_seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: i64 = 1_800_000_000;
    const DAY: i64 = 86_400;
    const FROM: i64 = TO - 14 * DAY;

    fn target(name: &str) -> Target {
        Target { job: "a2a".into(), instance: name.into() }
    }

    /// Processes: where, when each began, and from when to when it was scraped.
    fn judged(processes: &[(&str, i64, i64, i64)]) -> (i64, bool, String) {
        let (mut seen, mut starts) = (BTreeMap::<_, Steps>::new(), Starts::new());
        for &(name, began, from, to) in processes {
            for step in (0..).map(|n| FROM + n * STEP).take_while(|step| *step <= TO) {
                // A sample is seen until the step's end.
                if step >= from && step <= to {
                    seen.entry(target(name)).or_default().insert(step);
                    starts.entry(target(name)).or_default().insert(step, began);
                }
            }
        }
        let known = known(&seen, &starts, FROM, TO);
        (TO - known.since, known.is_seen, known.why.unwrap_or_default())
    }

    #[test]
    fn what_was_scraped_all_along_is_known() {
        assert_eq!(judged(&[("a", 0, FROM, TO)]), (14 * DAY, true, String::new()));
        // Restarted, with no step lost.
        let restarted = [("a", 0, FROM, TO - DAY), ("a", TO - DAY + 5, TO - DAY + STEP, TO)];
        assert_eq!(judged(&restarted), (14 * DAY, true, String::new()));
        // Replaced by another, as a rollout does.
        let (begun, gone) = (TO - 3 * DAY, TO - 3 * DAY + 2 * STEP);
        let rolled = [("a", 0, FROM, gone), ("b", begun, begun, TO)];
        assert_eq!(judged(&rolled), (14 * DAY, true, String::new()));
        // Lost for two days, and still the process it was.
        let lost = [("a", 0, FROM, TO - 5 * DAY), ("a", 0, TO - 3 * DAY, TO)];
        assert_eq!(judged(&lost), (14 * DAY, true, String::new()));
    }

    #[test]
    fn what_was_not_scraped_is_not_known() {
        for (processes, since, why) in [
            (&[("a", 0, TO - 7200, TO)][..], 7200, "the proxy a may have run before that"),
            (&[("a", TO - 7200, TO - 7200, TO)], 7200, "Prometheus has nothing from before that"),
            (
                &[("a", 0, FROM, TO - 5 * DAY), ("a", TO - 4 * DAY, TO - 3 * DAY, TO)],
                3 * DAY,
                "the proxy a was not scraped for 2 days",
            ),
            (
                &[("a", 0, FROM, TO - 5 * DAY), ("b", TO - 3 * DAY, TO - 3 * DAY, TO)],
                3 * DAY,
                "nothing was scraped for 2 days",
            ),
            // One of two was there unseen.
            (
                &[("a", 0, FROM, TO), ("b", TO - 9 * DAY, TO - DAY, TO)],
                DAY,
                "the proxy b may have run before that",
            ),
            // One of two was lost, and is another process now.
            (
                &[("a", 0, FROM, TO), ("b", 0, FROM, TO - 4 * DAY), ("b", TO - 3 * DAY, TO - 2 * DAY, TO)],
                2 * DAY,
                "the proxy b was not scraped for 2 days",
            ),
        ] {
            let (found, is_seen, says) = judged(processes);
            assert_eq!((found, is_seen), (since, true), "{processes:?}: {says}");
            assert!(says.contains(why), "{processes:?}: {says}");
        }
    }

    #[test]
    fn what_is_gone_is_not_known() {
        let (since, is_seen, why) = judged(&[("a", 0, FROM, TO - 3 * DAY)]);
        assert_eq!((since, is_seen), (0, false));
        assert!(why.contains("last scraped 3 days ago"), "{why}");
        assert!(!judged(&[]).1);
    }

    #[test]
    fn a_new_interface_of_a_known_process_hides_nothing() {
        let mut seen = BTreeMap::from([(target("a"), Steps::new())]);
        let mut starts = Starts::new();
        for step in (0..).map(|n| FROM + n * STEP).take_while(|step| *step <= TO) {
            starts.entry(target("a")).or_default().insert(step, 5);
            if step >= TO - DAY {
                seen.get_mut(&target("a")).unwrap().insert(step);
            }
        }
        let known = known(&seen, &starts, FROM, TO);
        assert_eq!((TO - known.since, known.is_seen), (DAY, true));
        assert!(known.why.unwrap().contains("nothing from before that"));
    }

    #[test]
    fn one_process_in_two_jobs_is_one() {
        let other = Target { job: "b".into(), instance: "a".into() };
        let all: Vec<i64> = (0..=14 * DAY / STEP).map(|n| FROM + n * STEP).collect();
        let late: Vec<i64> = all.iter().copied().filter(|step| *step > TO - DAY).collect();
        let begun = |steps: &[i64]| steps.iter().map(|step| (*step, 5)).collect::<BTreeMap<_, _>>();
        let starts = Starts::from([(target("a"), begun(&all)), (other.clone(), begun(&late))]);
        let seen = BTreeMap::from([
            (target("a"), all.iter().copied().collect()),
            (other, late.iter().copied().collect::<Steps>()),
        ]);
        assert_eq!(known(&seen, &starts, FROM, TO).since, FROM);
    }
}
