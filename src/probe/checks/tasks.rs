//! Calls that name a task: one that does not exist, one of somebody else's, a finished one of the caller's.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::Reply;
use crate::probe::ranks::signed_ranks;
use crate::probe::session::{ID, Session, task_of};
use crate::probe::shape::Read;
use crate::probe::target::{Protocol, TASK_PATIENCE};
use crate::protocol::a2a::{A2aError, Operation, percent_encode};

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

/// Only calls that change nothing: on a host without isolation they would reach the task.
pub async fn foreign(session: &Session<'_>) -> Ruling {
    let foreign = foreign_id(session)?;
    let operations = [Operation::GetTask, Operation::ListPushConfigs, Operation::SubscribeToTask];
    let mut unlike = None;
    for operation in operations {
        let mut seen = Vec::new();
        for task in [session.unknown.as_str(), session.other.as_str(), foreign] {
            let ask = session.call(operation, task);
            let ask = if operation.is_stream() { ask.header("accept", "text/event-stream") } else { ask };
            let reply = session.hear(ask).await?;
            if operation == Operation::GetTask {
                unlike = unlike.or(is_no_not_found(session, &reply));
            }
            seen.push(Seen::of(&reply, task));
        }
        let [unknown, other, foreign] = seen.as_slice() else { continue };
        let told = foreign.apart_from(unknown, other);
        if !told.is_empty() {
            return Err(Miss::Fails(format!("{}: {}", operation.method(), told.join("; "))));
        }
    }
    // That a host refuses both alike, or breaks on both, shows nothing about tasks.
    match unlike {
        Some(why) => Err(Miss::NotApplicable(format!("GetTask gives no \"not found\" to compare: {why}"))),
        None => Ok("the same bytes and headers as for an unknown task".to_owned()),
    }
}

/// What an answer is that does not say, in whatever shape, that there is no such task.
fn is_no_not_found(session: &Session<'_>, reply: &Reply) -> Option<String> {
    match session.error("GetTask", reply) {
        Ok(error) if error.says() == Some(A2aError::TaskNotFound) => None,
        Ok(error) => Some(format!("HTTP {}, {}", reply.status, error.name())),
        Err(Miss::Fails(why) | Miss::NotApplicable(why) | Miss::NotRun(why)) => Some(why),
    }
}

/// An answer without what may differ: the echo of the task's id, and what belongs to the connection.
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

const OF_THE_CONNECTION: &[&str] =
    &["date", "connection", "keep-alive", "transfer-encoding", "content-length"];

impl Seen {
    fn of(reply: &Reply, task: &str) -> Self {
        let quoted = serde_json::Value::from(task).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        let encoded = percent_encode(task);
        let without = |text: &str| {
            let text = if quoted.is_empty() { text.to_owned() } else { text.replace(&quoted, "$TASK") };
            text.replace(task, "$TASK").replace(&encoded, "$TASK")
        };
        let kept = reply.headers.iter().filter(|(name, _)| !OF_THE_CONNECTION.contains(&name.as_str()));
        let mut headers: Vec<_> = kept.map(|(name, value)| (name.clone(), without(value))).collect();
        headers.sort();
        Self { status: reply.status, headers, body: without(&String::from_utf8_lossy(&reply.body)) }
    }

    /// What tells this answer from those of unknown tasks. What those differ in among themselves (a request's
    /// number, say) tells nothing.
    fn apart_from(&self, unknown: &Self, other: &Self) -> Vec<String> {
        let mut told = Vec::new();
        if self.status != unknown.status {
            told.push(format!("HTTP {} instead of {}", self.status, unknown.status));
        }
        let value = |of: &Self, name: &str| -> Vec<String> {
            of.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
        };
        let mut names: Vec<&str> =
            self.headers.iter().chain(&unknown.headers).map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (ours, theirs) = (value(self, name), value(unknown, name));
            if ours.len() != theirs.len() {
                let which = if ours.len() > theirs.len() { "foreign" } else { "unknown" };
                told.push(format!("header {name} only on the {which} task's"));
            } else if ours != theirs && theirs == value(other, name) {
                told.push(format!("header {name} differs"));
            }
        }
        if self.body != unknown.body && unknown.body == other.body {
            let at = self.body.bytes().zip(unknown.body.bytes()).take_while(|(a, b)| a == b).count();
            told.push(format!("the body differs from byte {at} on"));
        } else if self.body != unknown.body {
            told.push("the body differs, as those of two unknown tasks do".to_owned());
        }
        told
    }
}

/// Less than this is nothing to act upon from outside.
const TELLING: Duration = Duration::from_micros(500);
const SIGNIFICANT: f64 = 0.001;
const STRONG: f64 = 0.5;

/// Pairs of requests, the order turned around each time, so that a drift of the host's falls on both.
pub async fn foreign_time(session: &Session<'_>) -> Ruling {
    let foreign = foreign_id(session)?;
    if let Some(why) = session.client.cannot_afford(2 * (session.options.pairs + 1)) {
        return Err(Miss::NotRun(why));
    }
    let mut pairs = Vec::with_capacity(session.options.pairs);
    // The time of anything else, such as a limiter's refusal, is not that of a look for a task.
    let took = async |task: &str| -> Result<f64, Miss> {
        let reply = session.hear(session.call_with_id(ID, Operation::GetTask, task)).await?;
        match is_no_not_found(session, &reply) {
            Some(why) => Err(Miss::NotApplicable(format!("there is no \"not found\" to time: {why}"))),
            None => Ok(reply.took.as_secs_f64()),
        }
    };
    // The first one connects.
    took(&session.unknown).await?;
    took(foreign).await?;
    for at in 0..session.options.pairs {
        let pair = if at % 2 == 0 {
            let first = took(foreign).await?;
            (first, took(&session.unknown).await?)
        } else {
            let first = took(&session.unknown).await?;
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
    let reply = session.hear(session.call(Operation::CancelTask, &task)).await?;
    let error = session.error("CancelTask", &reply)?;
    error.is(A2aError::TaskNotCancelable).map_err(Miss::Fails)?;
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

/// Whether the task has ended; waits for one that was just created.
async fn finished(session: &Session<'_>, task: &str) -> Result<bool, Miss> {
    let deadline = Instant::now() + TASK_PATIENCE;
    loop {
        let reply = session.hear(session.call(Operation::GetTask, task)).await?;
        let state = match session.read("GetTask", &reply)? {
            Read::Success(result) => task_of(&result).map(|(_, state)| state),
            Read::Error(error) => {
                return Err(Miss::NotApplicable(format!("GetTask of --task says {}", error.name())));
            }
        };
        let state = state.unwrap_or_default().to_ascii_uppercase();
        let ended = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].iter().any(|end| state.ends_with(end));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: u16, headers: &[(&str, &str)], body: &str, task: &str) -> Seen {
        let reply = Reply {
            status,
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            body: body.to_owned().into(),
            took: Duration::ZERO,
            complete: true,
        };
        Seen::of(&reply, task)
    }

    #[test]
    fn only_the_echo_and_the_connection_may_differ() {
        let a = seen(200, &[("date", "1"), ("x-request-id", "1")], "no \"a/b\"", "a/b");
        let b = seen(200, &[("date", "2"), ("x-request-id", "2")], "no \"c/d\"", "c/d");
        let c = seen(200, &[("date", "3"), ("x-request-id", "3")], "no \"e/f\"", "e/f");
        assert!(c.apart_from(&a, &b).is_empty());
        let d = seen(403, &[("etag", "x")], "no! e/f", "e/f");
        assert_eq!(
            d.apart_from(&a, &b),
            [
                "HTTP 403 instead of 200",
                "header etag only on the foreign task's",
                "header x-request-id only on the unknown task's",
                "the body differs from byte 2 on"
            ]
        );
    }
}
