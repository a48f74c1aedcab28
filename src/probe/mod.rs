//! Probing a host from outside: does it answer as RFC 0211 and A2A 1.0 ask when something goes wrong?
//!
//! [`resolve`] makes a URL into interfaces, [`run`] plays the checks of [`CHECKS`] against one of them. A
//! check is one small function; what it reads is judged by `shape`, which shares no code with the rules: a
//! judge that asks the accused is none. Nothing here creates a task unless it is allowed to.

mod checks;
mod client;
pub mod ranks;
mod session;
mod shape;
mod target;

pub use checks::{CHECKS, Check};
pub use client::{Bounds, Client, NoReply, Reply};
pub use session::{Options, Session};
pub use target::{Found, Interface, Protocol, resolve};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    NotApplicable,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// One check's verdict on one interface.
#[derive(Debug, Clone)]
pub struct Finding {
    pub check: &'static Check,
    pub verdict: Verdict,
    /// What was seen, in one line.
    pub reason: String,
    /// What SHOULD be otherwise, and what was left out.
    pub notes: Vec<String>,
}

/// Plays every check against one interface, in order. `progress` is told each before it begins.
pub async fn run(session: &Session<'_>, mut progress: impl FnMut(&'static Check)) -> Vec<Finding> {
    let mut findings = Vec::with_capacity(CHECKS.len());
    for check in CHECKS {
        progress(check);
        let ended = (check.run)(session).await;
        let notes = session.take_notes();
        let (verdict, reason) = match ended {
            Ok(seen) => (Verdict::Pass, seen),
            Err(checks::Miss::Fails(why)) => (Verdict::Fail, why),
            Err(checks::Miss::NotApplicable(why)) => (Verdict::NotApplicable, why),
        };
        findings.push(Finding { check, verdict, reason, notes });
    }
    findings
}
