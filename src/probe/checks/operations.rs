//! Operations that a host may not have, streams, ids, and the two bindings side by side.

use serde_json::Value;

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::Reply;
use crate::probe::session::{Echo, ID, Session};
use crate::probe::shape::{self, ErrorAnswer, Read};
use crate::protocol::a2a::{A2aError, Operation};

/// Reading, listing and deleting on a task that does not exist; creating could leave something behind.
pub async fn push(session: &Session<'_>) -> Ruling {
    let mut seen = Vec::new();
    for operation in [Operation::GetPushConfig, Operation::ListPushConfigs, Operation::DeletePushConfig] {
        let asked = operation.method();
        let reply = session.hear(session.call(operation, &session.unknown)).await?;
        // JSON-RPC has an answer for everything, and so has HTTP+JSON for what asks for something.
        let may_be_empty = !session.is_json_rpc() && operation == Operation::DeletePushConfig;
        if may_be_empty && reply.body.is_empty() && matches!(reply.status, 200..=299) {
            continue;
        }
        let error = match session.read(asked, &reply)? {
            Read::Error(error) => error,
            Read::Success(_) => continue,
        };
        let fails = |why: String| Miss::Fails(format!("{asked}: {why}"));
        let Some(
            said @ (A2aError::PushNotificationNotSupported
            | A2aError::TaskNotFound
            | A2aError::UnsupportedOperation),
        ) = error.says()
        else {
            let wanted = A2aError::PushNotificationNotSupported.reason();
            return Err(fails(format!("{} instead of {wanted} or TASK_NOT_FOUND", error.name())));
        };
        error.is(said).map_err(fails)?;
        let none = session.interface.capabilities.is_some_and(|says| !says.push);
        if none && error.says() != Some(A2aError::PushNotificationNotSupported) {
            session
                .note(format!("{asked}: the card has no push notifications, the error is {}", error.name()));
        }
        seen.push(error.name());
    }
    seen.dedup();
    if seen.is_empty() {
        return Err(Miss::NotApplicable("the host has push notifications: none of it failed".to_owned()));
    }
    Ok(seen.join(", "))
}

pub async fn extended_card(session: &Session<'_>) -> Ruling {
    let asked = "GetExtendedAgentCard";
    let reply = session.hear(session.call(Operation::GetExtendedAgentCard, "")).await?;
    let error = match session.read(asked, &reply)? {
        Read::Success(_) => return Err(Miss::NotApplicable("the host has an extended card".to_owned())),
        Read::Error(error) => error,
    };
    if matches!(reply.status, 401 | 403) {
        error.is_in_shape().map_err(Miss::Fails)?;
        return Err(Miss::NotApplicable("it asks for another credential".to_owned()));
    }
    let Some(said @ (A2aError::ExtendedAgentCardNotConfigured | A2aError::UnsupportedOperation)) =
        error.says()
    else {
        let wanted = A2aError::ExtendedAgentCardNotConfigured.reason();
        return Err(Miss::Fails(format!("{} instead of {wanted}", error.name())));
    };
    error.is(said).map_err(Miss::Fails)?;
    Ok(error.name())
}

/// The error of an answer that may be a stream, and whether it was one.
fn stream_error_of(session: &Session<'_>, reply: &Reply) -> Result<(ErrorAnswer, bool), Miss> {
    let asked = "SubscribeToTask";
    if reply.media() != "text/event-stream" {
        return session.error(asked, reply).map(|error| (error, false));
    }
    let events =
        shape::stream(&reply.body).map_err(|why| Miss::Fails(format!("{asked}: a stream with {why}")))?;
    let Some(((name, data), more)) = events.split_first() else {
        return Err(Miss::Fails(format!("{asked}: a stream without an event")));
    };
    let read = shape::read(session.interface.binding, data)
        .map_err(|why| Miss::Fails(format!("{asked}: an event with {why}")))?;
    let Read::Error(error) = read else {
        return Err(Miss::Fails(format!("{asked}: a success instead of an error")));
    };
    if let Some((_, next)) = more.first() {
        let what = match shape::read(session.interface.binding, next) {
            Ok(Read::Error(_)) => "another error",
            Ok(Read::Success(_)) => "a success",
            Err(_) => shape::looks(next),
        };
        return Err(Miss::Fails(format!("{asked}: {what} after the error, which ends a stream")));
    }
    if session.interface.binding == Binding::HttpJson && name != "error" {
        session.note("an error event is not named \"error\"");
    }
    Ok((error, true))
}

pub async fn stream_error(session: &Session<'_>) -> Ruling {
    let ask =
        session.call(Operation::SubscribeToTask, &session.unknown).header("accept", "text/event-stream");
    let reply = session.hear(ask).await?;
    let (error, streamed) = stream_error_of(session, &reply)?;
    let may_lack = session.interface.capabilities.is_some_and(|says| !says.streaming);
    let wanted = match error.says() {
        Some(A2aError::UnsupportedOperation) if may_lack => A2aError::UnsupportedOperation,
        _ => A2aError::TaskNotFound,
    };
    error.is(wanted).map_err(Miss::Fails)?;
    if session.is_json_rpc() && error.id.as_deref() != Some(ID) {
        return Err(Miss::Fails(format!(
            "the id is {} instead of {ID}",
            brief(error.id.as_deref().unwrap_or("absent"))
        )));
    }
    if streamed && session.interface.binding == Binding::HttpJson {
        session.note("before the first event a status and a JSON body would do (S-3)");
    }
    Ok(format!("{} {}", if streamed { "one event," } else { "JSON," }, error.name()))
}

/// Strings, numbers, what is past a double, what is past 64 bits.
const IDS: &[&str] = &[
    "1",
    "0",
    "-1",
    "\"probe\"",
    "\"\"",
    "\"pr\\u00f6be \\\"7\\\"\"",
    "9007199254740993",
    "-9007199254740993",
    "18446744073709551616",
    "1180591620717411303424",
];

pub async fn id_echo(session: &Session<'_>) -> Ruling {
    if !session.is_json_rpc() {
        return Err(Miss::NotApplicable("HTTP+JSON has no request id".to_owned()));
    }
    let long = Value::from("x".repeat(2000)).to_string();
    let mut wrong = Vec::new();
    let all = IDS.iter().copied().chain([long.as_str()]);
    for id in all {
        let reply = session.hear(session.call_with_id(id, Operation::GetTask, &session.unknown)).await?;
        let error = session.error(&format!("the id {}", brief(id)), &reply)?;
        let echoed = error.id.as_deref().unwrap_or("absent");
        if !same_value(echoed, id) {
            wrong.push(format!("{} comes back as {}", brief(id), brief(echoed)));
        }
    }
    let (others, first) = other_ids(session);
    wrong.extend(first);
    if wrong.is_empty() {
        Ok(format!("{} kinds of id, and {others} other answers", IDS.len() + 1))
    } else {
        Err(Miss::Fails(wrong.join("; ")))
    }
}

/// How many answers to everything else had an id, and the first whose is another. What had none to be read is the
/// business of the checks that send it.
fn other_ids(session: &Session<'_>) -> (usize, Option<String>) {
    let (mut looked, mut wrong) = (0, None);
    session.each_heard(|heard| {
        let (id, or_null) = match &heard.echo {
            Echo::Own(id) if id == ID => (id, false),
            Echo::OwnOrNull(id) => (id, true),
            Echo::Own(_) | Echo::Null | Echo::Absent => return,
        };
        let events = shape::events(&heard.reply.body);
        let streamed = heard.reply.media() == "text/event-stream";
        let documents: Vec<&[u8]> = if streamed {
            events.iter().map(|(_, data)| data.as_slice()).collect()
        } else {
            vec![&heard.reply.body]
        };
        for document in documents {
            if shape::read(Binding::JsonRpc, document).is_err() {
                continue;
            }
            looked += 1;
            let echoed = shape::id_of(document).unwrap_or_else(|| "absent".to_owned());
            // Who is refused at the door was not read.
            let or_null = or_null || matches!(heard.reply.status, 401 | 403 | 407 | 413 | 429 | 500..);
            if !(same_value(&echoed, id) || or_null && echoed == "null") {
                wrong.get_or_insert(format!("{}: {id} comes back as {}", heard.asked, brief(&echoed)));
            }
        }
    });
    (looked, wrong)
}

fn brief(id: &str) -> String {
    if id.chars().count() > 40 {
        format!("{}…", id.chars().take(39).collect::<String>())
    } else {
        id.to_owned()
    }
}

/// The same JSON value: strings may be escaped otherwise, numbers must keep their digits.
fn same_value(a: &str, b: &str) -> bool {
    a == b
        || matches!(
            (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)),
            (Ok(Value::String(a)), Ok(Value::String(b))) if a == b
        )
}

const SUCCESS: &str = "a success";

pub async fn twins(session: &Session<'_>) -> Ruling {
    let Some(twin) = session.twin else {
        return Err(Miss::NotApplicable(if session.is_json_rpc() {
            "looked at from the HTTP+JSON interface, where there is one".to_owned()
        } else {
            "the host lists no JSONRPC interface of the same version".to_owned()
        }));
    };
    let other = session.on(twin);
    let mut seen = Vec::new();
    for (operation, version) in [
        (Operation::GetTask, None),
        (Operation::CancelTask, None),
        (Operation::GetTask, Some("99.0")),
        (Operation::GetPushConfig, None),
        (Operation::GetExtendedAgentCard, None),
    ] {
        let mut reasons = Vec::new();
        for one in [&other, session] {
            let ask = one.call(operation, &one.unknown);
            let ask = if version.is_some() { ask.header("a2a-version", "99.0") } else { ask };
            let reply = match one.hear(ask).await {
                // That it gives no answer is told of that interface.
                Err(Miss::Fails(why)) if one.interface.binding == Binding::JsonRpc => {
                    return Err(Miss::NotApplicable(format!("the JSONRPC interface gives no answer: {why}")));
                }
                heard => heard?,
            };
            let said = match one.read(operation.method(), &reply)? {
                Read::Error(error) => error.says().map(|said| said.reason().to_owned()),
                Read::Success(_) => Some(SUCCESS.to_owned()),
            };
            reasons.push(said);
        }
        // An error that does not say which it is, is another check's business.
        if let [Some(json_rpc), Some(http_json)] = reasons.as_slice() {
            if json_rpc != http_json {
                let what = operation.method();
                let at = version.map_or_else(String::new, |version| format!(" at version {version}"));
                return Err(Miss::Fails(format!("{what}{at}: {json_rpc} over JSONRPC, {http_json} here")));
            }
            // Two successes have no reasons to compare.
            seen.extend(Some(json_rpc.clone()).filter(|said| said != SUCCESS));
        }
    }
    if seen.is_empty() {
        let why = "there was no error that says over both bindings which it is";
        return Err(Miss::NotApplicable(why.to_owned()));
    }
    seen.sort();
    seen.dedup();
    Ok(seen.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_as_values() {
        assert!(same_value(r#""\u0061""#, r#""a""#));
        assert!(same_value("1180591620717411303424", "1180591620717411303424"));
        for (a, b) in [("1.1805916207174113e+21", "1180591620717411303424"), ("\"1\"", "1"), ("null", "1")] {
            assert!(!same_value(a, b), "{a} {b}");
        }
    }
}
