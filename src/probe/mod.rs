//! Probing a host from outside: does it answer as RFC 0211 and A2A 1.0 ask when something goes wrong?
//!
//! [`resolve`] makes a URL into interfaces, [`run`] plays the checks of [`CHECKS`] against one of them. A
//! check is one small function; what it reads is judged by `shape` and `tells`, which share no code with the rules: a
//! judge that asks the accused is none. Only of typed details, whose every member has a rule, the rules themselves say
//! what may be there: a second list of them would be another one. Nothing here creates a task unless it is allowed to.

mod checks;
mod client;
mod compare;
pub mod ranks;
mod secrets;
mod session;
mod shape;
mod tape;
mod target;
mod tells;

pub use checks::{CHECKS, Check};
pub use client::{Bounds, Client, End, NoReply, Reply, Trust, Wire};
pub use secrets::Secrets;
pub use session::{Options, Session};
pub use target::{Follow, Found, Interface, Protocol, resolve};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    NotApplicable,
    /// The host put it off.
    Undecided,
    /// The requests that it needs were more than was allowed.
    NotRun,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotApplicable => "not applicable",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
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

/// Plays every check against every interface; what costs many requests comes when everything else has been asked of
/// all, so that it takes nothing from the others. `progress` is told each before it begins. The findings are in the
/// order of [`CHECKS`]; of an interface that nothing comes from there is only why, in one line.
pub async fn run(
    sessions: &[Session<'_>],
    mut progress: impl FnMut(&'static Check),
) -> Vec<Result<Vec<Finding>, String>> {
    let mut all: Vec<Result<Vec<Finding>, String>> = sessions.iter().map(|_| Ok(Vec::new())).collect();
    for costly in [false, true] {
        for (session, played) in sessions.iter().zip(&mut all) {
            for check in CHECKS.iter().filter(|check| check.is_costly() == costly) {
                let Ok(findings) = played else { break };
                progress(check);
                findings.push(play(check, session).await);
                if let Some(why) = session.is_dead() {
                    *played = Err(why);
                }
            }
        }
    }
    let place = |finding: &Finding| CHECKS.iter().position(|check| check.id == finding.check.id);
    for findings in all.iter_mut().flatten() {
        findings.sort_by_key(place);
    }
    all
}

async fn play(check: &'static Check, session: &Session<'_>) -> Finding {
    let ended = (check.run)(session).await;
    let notes = session.take_notes();
    let (verdict, reason) = match ended {
        Ok(seen) => (Verdict::Pass, seen),
        Err(checks::Miss::Fails(why)) => (Verdict::Fail, why),
        Err(checks::Miss::NotApplicable(why)) => (Verdict::NotApplicable, why),
        Err(checks::Miss::Undecided(why)) => (Verdict::Undecided, why),
        Err(checks::Miss::NotRun(why)) => (Verdict::NotRun, why),
    };
    Finding { check, verdict, reason, notes }
}
