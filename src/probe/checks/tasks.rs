//! Calls that name a task: one that does not exist, one of somebody else's, a finished one of the caller's.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::Reply;
use crate::probe::compare::Seen;
use crate::probe::ranks::signed_ranks;
use crate::probe::session::{ID, Lookup, Session, alike, task_of};
use crate::probe::shape::Read;
use crate::probe::target::{Protocol, TASK_PATIENCE};
use crate::protocol::a2a::{A2aError, Operation};

async fn is_not_found(session: &Session<'_>, operation: Operation) -> Ruling {
    let reply = session.hear(session.call(operation, &session.unknown)).await?;
    let error = session.error(operation.method(), &reply)?;
    error.is(A2aError::TaskNotFound).map_err(Miss::Fails)?;
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

pub async fn unknown(session: &Session<'_>) -> Ruling {
    is_not_found(session, Operation::GetTask).await
}

pub async fn unknown_cancel(session: &Session<'_>) -> Ruling {
    is_not_found(session, Operation::CancelTask).await
}

fn foreign_id<'a>(session: &'a Session<'_>) -> Result<&'a str, Miss> {
    let id = session.options.foreign.as_deref();
    id.ok_or_else(|| Miss::NotApplicable("needs --foreign-task ID, a task of somebody else's".to_owned()))
}

/// Ids that nobody has, as long as the foreign one and with the same kinds of characters: only reads are asked of
/// them until one says that there is no such task. The first is the one that was given as unknown, if any was.
async fn lookalikes(session: &Session<'_>, foreign: &str) -> Result<[String; 2], Miss> {
    const TRIES: usize = 8;
    let mut found: Vec<String> = Vec::new();
    let mut next = session.options.unknown.clone().unwrap_or_else(|| alike(foreign));
    for _ in 0..TRIES {
        let known =
            session.options.task.as_deref() == Some(&next) || found.contains(&next) || next == foreign;
        if !known {
            let reply = session.hear_half(session.call(Operation::GetTask, &next)).await?;
            match session.found(&next, &reply) {
                // Somebody has it.
                Lookup::Some => {}
                Lookup::PutOff(why) => return Err(Miss::Undecided(format!("GetTask: {why}"))),
                Lookup::None | Lookup::Unclear(_) => found.push(next),
            }
            if let [first, second] = found.as_slice() {
                return Ok([first.clone(), second.clone()]);
            }
        }
        next = alike(foreign);
    }
    Err(Miss::NotApplicable(format!(
        "no unknown id like the foreign one to compare with: of {TRIES} made-up ones too many are somebody's"
    )))
}

/// Only reads, and of what is "not found" a subscription: on a host without isolation they would reach the task.
pub async fn foreign(session: &Session<'_>) -> Ruling {
    let foreign = foreign_id(session)?;
    let [unknown, other] = lookalikes(session, foreign).await?;
    let tasks = [unknown.as_str(), other.as_str(), foreign];
    for operation in [Operation::GetTask, Operation::ListPushConfigs, Operation::SubscribeToTask] {
        let (mut told, unlike) = told_apart(session, operation, tasks).await?;
        if !told.is_empty() {
            // What a moment does (a connection's last answer, a new second) does not come twice.
            let (again, _) = told_apart(session, operation, tasks).await?;
            let (twice, once): (Vec<_>, Vec<_>) = told.into_iter().partition(|one| again.contains(one));
            if !once.is_empty() {
                session.note(format!("{}, once and not again: {}", operation.method(), once.join("; ")));
            }
            told = twice;
        }
        if !told.is_empty() {
            return Err(Miss::Fails(format!("{}: {}", operation.method(), told.join("; "))));
        }
        // That a host refuses both alike, or breaks on both, shows nothing about tasks.
        if let (Some(why), Operation::GetTask) = (unlike, operation) {
            return Err(match why {
                Miss::Fails(why) | Miss::NotApplicable(why) => {
                    Miss::NotApplicable(format!("GetTask gives no \"not found\" to compare: {why}"))
                }
                put_off @ (Miss::Undecided(_) | Miss::NotRun(_)) => put_off,
            });
        }
    }
    Ok("the same bytes and headers as for an unknown task, framed alike".to_owned())
}

/// What an answer is that does not say, in whatever shape, that there is no such task.
fn is_no_not_found(session: &Session<'_>, reply: &Reply) -> Option<Miss> {
    match session.error("GetTask", reply) {
        Ok(error) if error.says() == Some(A2aError::TaskNotFound) => None,
        Ok(error) => Some(Miss::NotApplicable(format!("HTTP {}, {}", reply.status, error.name()))),
        Err(miss) => Some(miss),
    }
}

/// What tells the third task's answer from the first two, and the first answer that is not "not found".
async fn told_apart(
    session: &Session<'_>,
    operation: Operation,
    tasks: [&str; 3],
) -> Result<(Vec<String>, Option<Miss>), Miss> {
    let mut replies: Vec<Reply> = Vec::new();
    let mut unlike = None;
    for task in tasks {
        let ask = session.call(operation, task);
        let ask = if operation.is_stream() { ask.header("accept", "text/event-stream") } else { ask };
        let reply = session.hear_half(ask).await?;
        unlike = unlike.or(is_no_not_found(session, &reply));
        replies.push(reply);
    }
    let seen: Vec<_> = replies.iter().zip(tasks).map(|(reply, task)| Seen::of(reply, task)).collect();
    let [unknown, other, foreign] = seen.as_slice() else { return Ok((Vec::new(), unlike)) };
    let told = foreign.apart_from(unknown, other);
    // All three alike may be cut short, and that is no comparison.
    match replies.iter().find_map(Reply::trouble) {
        Some(trouble) if told.is_empty() => {
            Err(Miss::Fails(format!("{}: the answer {trouble}", operation.method())))
        }
        _ => Ok((told, unlike)),
    }
}

/// Less than this is nothing to act upon from outside.
const TELLING: Duration = Duration::from_micros(500);
const SIGNIFICANT: f64 = 0.001;
const STRONG: f64 = 0.5;

/// Pairs of requests, the order turned around each time, so that a drift of the host's falls on both.
pub async fn foreign_time(session: &Session<'_>) -> Ruling {
    let foreign = foreign_id(session)?;
    if let Some(why) = session.client.cannot_afford(2 * (session.options.pairs + 2)) {
        return Err(Miss::NotRun(why));
    }
    let [unknown, _] = lookalikes(session, foreign).await?;
    let mut pairs = Vec::with_capacity(session.options.pairs);
    let untimed = |why: String| Miss::NotApplicable(format!("there is no \"not found\" to time: {why}"));
    // The time of anything else, such as a limiter's refusal, is not that of a look for a task.
    let took = async |task: &str| -> Result<f64, Miss> {
        let reply = session.hear_half(session.call_with_id(ID, Operation::GetTask, task)).await?;
        if let Some(trouble) = reply.trouble() {
            return Err(untimed(format!("an answer {trouble}")));
        }
        match is_no_not_found(session, &reply) {
            None => Ok(reply.took.as_secs_f64()),
            Some(Miss::Fails(why) | Miss::NotApplicable(why)) => Err(untimed(why)),
            Some(put_off) => Err(put_off),
        }
    };
    // The first one connects.
    took(&unknown).await?;
    took(foreign).await?;
    for at in 0..session.options.pairs {
        let pair = if at % 2 == 0 {
            let first = took(foreign).await?;
            (first, took(&unknown).await?)
        } else {
            let first = took(&unknown).await?;
            (took(foreign).await?, first)
        };
        pairs.push(pair);
    }
    let Some(ranked) = signed_ranks(&pairs) else {
        return Err(Miss::NotApplicable(format!(
            "{} pairs are too few to tell; --pairs takes more",
            session.options.pairs
        )));
    };
    let figures = format!(
        "{} pairs, median difference {:+.2} ms, effect {:+.2}, p = {:.2e}",
        ranked.pairs,
        ranked.median * 1000.0,
        ranked.effect,
        ranked.p
    );
    if ranked.p < SIGNIFICANT && ranked.effect.abs() >= STRONG {
        if ranked.median.abs() >= TELLING.as_secs_f64() {
            return Err(Miss::Fails(format!("time tells a foreign task from an unknown one: {figures}")));
        }
        session.note("there is a difference, too small to be told from elsewhere");
    }
    Ok(figures)
}

/// Never cancels a task that is still going on.
pub async fn cancel_finished(session: &Session<'_>) -> Ruling {
    let task = match &session.options.task {
        Some(task) => task.clone(),
        None if session.options.allow_create => create(session).await?,
        None => {
            return Err(Miss::NotApplicable(
                "needs --task ID, a finished one of the caller's, or --allow-create".to_owned(),
            ));
        }
    };
    if !finished(session, &task).await? {
        return Err(Miss::NotApplicable("the task is not finished: canceling it would change it".to_owned()));
    }
    let reply = session.hear(session.call(Operation::CancelTask, &task).allowed()).await?;
    let error = session.error("CancelTask", &reply)?;
    error.is(A2aError::TaskNotCancelable).map_err(Miss::Fails)?;
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

/// The states of a task that nothing changes any more, as 1.0 and 0.3 write them. Any other may be going on.
const ENDED: &[&str] = &[
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_REJECTED",
    "completed",
    "failed",
    "canceled",
    "rejected",
];

/// Whether the task has ended; waits for one that was just created.
async fn finished(session: &Session<'_>, task: &str) -> Result<bool, Miss> {
    let deadline = Instant::now() + TASK_PATIENCE;
    loop {
        let reply = session.hear(session.call(Operation::GetTask, task)).await?;
        let state = match session.read("GetTask", &reply)? {
            Read::Success(result) => match task_of(&result) {
                Some((id, _)) if id != task => {
                    return Err(Miss::Fails("GetTask of one task answers with another's id".to_owned()));
                }
                found => found.map(|(_, state)| state),
            },
            Read::Error(error) => {
                return Err(Miss::NotApplicable(format!("GetTask of --task says {}", error.name())));
            }
        };
        let ended = state.is_some_and(|state| ENDED.contains(&state.as_str()));
        if ended || session.options.task.is_some() || Instant::now() > deadline {
            return Ok(ended);
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// The one request that makes a task, and only if that is allowed.
async fn create(session: &Session<'_>) -> Result<String, Miss> {
    let (role, part) = match session.interface.protocol {
        Protocol::V1_0 => ("ROLE_USER", r#"{"text":"hello"}"#),
        Protocol::V0_3 => ("user", r#"{"kind":"text","text":"hello"}"#),
    };
    let message = format!(r#"{{"message":{{"messageId":"probe-1","role":"{role}","parts":[{part}]}}}}"#);
    let ask = match session.interface.binding {
        Binding::JsonRpc => {
            let method = match session.interface.protocol {
                Protocol::V1_0 => Operation::SendMessage.method(),
                Protocol::V0_3 => Operation::SendMessage.method_0_3(),
            };
            let body = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{message}}}"#);
            session.post("SendMessage", body)
        }
        Binding::HttpJson => session.call(Operation::SendMessage, "").body(message),
    };
    let reply = session.hear(ask).await?;
    match session.read("SendMessage", &reply)? {
        Read::Success(result) => task_of(&result)
            .map(|(id, _)| id)
            .ok_or_else(|| Miss::NotApplicable("the agent answers a message without a task".to_owned())),
        Read::Error(error) => Err(Miss::NotApplicable(format!("no task could be created: {}", error.name()))),
    }
}
