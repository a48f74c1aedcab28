//! The last hour of one lane, a minute each, kept in memory for the status page. It is made from the
//! counters once a minute, so that a request costs nothing for it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::lane::VERDICTS;
use crate::normalize::Verdict;

/// How many whole minutes are kept.
const KEPT: usize = 60;
const MINUTE: i64 = 60;

/// What one minute brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Minute {
    /// Unix time of its beginning.
    pub start: i64,
    /// Successes and errors that left as they came.
    pub passed: u64,
    /// Errors put into shape, or replaced for their size.
    pub rewritten: u64,
    /// The proxy's own answers.
    pub own: u64,
}

#[derive(Debug)]
pub struct Trend {
    /// Begin of the minute that is under way.
    minute: i64,
    /// The counters at that time.
    base: [u64; VERDICTS.len()],
    kept: VecDeque<Minute>,
}

impl Trend {
    /// Begins empty, with counters at zero; `now` in Unix time, like every time here.
    pub fn new(now: i64) -> Self {
        Self { minute: begin(now), base: [0; VERDICTS.len()], kept: VecDeque::with_capacity(KEPT) }
    }

    /// Closes the minutes that are over. What came since the last call counts for the first of them: the
    /// caller comes once a minute.
    pub fn tick(&mut self, now: i64, counters: [u64; VERDICTS.len()]) {
        let current = begin(now);
        if current < self.minute {
            // The clock was set back: the minutes under way are one.
            self.minute = current;
        }
        if current == self.minute {
            return;
        }
        self.push(self.since(counters));
        let mut at = (self.minute + MINUTE).max(current - i64::try_from(KEPT).unwrap_or(0) * MINUTE);
        while at < current {
            self.push(Minute { start: at, ..Minute::default() });
            at += MINUTE;
        }
        self.minute = current;
        self.base = counters;
    }

    /// Every kept minute and the one under way, the youngest last.
    pub fn read(&mut self, now: i64, counters: [u64; VERDICTS.len()]) -> Vec<Minute> {
        self.tick(now, counters);
        self.kept.iter().copied().chain([self.since(counters)]).collect()
    }

    fn push(&mut self, minute: Minute) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(minute);
    }

    fn since(&self, counters: [u64; VERDICTS.len()]) -> Minute {
        let mut minute = Minute { start: self.minute, ..Minute::default() };
        for ((now, base), verdict) in counters.into_iter().zip(self.base).zip(VERDICTS) {
            let number = now.saturating_sub(base);
            match verdict {
                Verdict::Passed | Verdict::Conformant => minute.passed += number,
                Verdict::Rewritten | Verdict::Overflow => minute.rewritten += number,
                Verdict::Synthesized | Verdict::Refused => minute.own += number,
            }
        }
        minute
    }
}

fn begin(now: i64) -> i64 {
    now - now.rem_euclid(MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passed and rewritten; the others stay 0.
    fn counters(passed: u64, rewritten: u64) -> [u64; VERDICTS.len()] {
        [passed, rewritten, 0, 0, 0, 0]
    }

    #[test]
    fn a_minute_has_what_came_in_it() {
        let mut trend = Trend::new(1000);
        trend.tick(1021, counters(3, 1));
        trend.tick(1081, counters(3, 2));
        let minutes = trend.read(1090, counters(5, 2));
        let numbers: Vec<_> = minutes.iter().map(|m| (m.start, m.passed, m.rewritten, m.own)).collect();
        assert_eq!(numbers, [(960, 3, 1, 0), (1020, 0, 1, 0), (1080, 2, 0, 0)]);
    }

    #[test]
    fn an_hour_is_kept_and_no_more_and_gaps_are_empty_minutes() {
        let mut trend = Trend::new(0);
        let minutes = trend.read(100 * 3600, counters(7, 0));
        assert_eq!(minutes.len(), KEPT + 1);
        assert_eq!(minutes.iter().map(|minute| minute.passed).sum::<u64>(), 0, "that was long ago");
        assert!(minutes.windows(2).all(|pair| pair[1].start - pair[0].start == MINUTE));
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing() {
        let mut trend = Trend::new(6000);
        assert_eq!(trend.read(60, counters(4, 0)), [Minute { start: 60, passed: 4, ..Minute::default() }]);
    }

    #[test]
    fn every_verdict_is_in_one_of_the_sums() {
        let mut trend = Trend::new(0);
        let [minute] = trend.read(0, [1; VERDICTS.len()])[..] else { panic!() };
        assert_eq!((minute.passed, minute.rewritten, minute.own), (2, 2, 2));
    }
}
