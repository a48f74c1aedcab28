//! Checks of every answer that the others caused.

use std::future::{Ready, ready};

use serde_json::Value;

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::End;
use crate::probe::session::{Heard, Session};
use crate::probe::shape::{self, ErrorAnswer, Read, short};
use crate::probe::tells::{PLACE, is_field, names, tells};
use crate::protocol::a2a::A2aError;
use crate::protocol::google_rpc::{
    BAD_REQUEST, ERROR_INFO, LOCALIZED_MESSAGE, PRECONDITION_FAILURE, QUOTA_FAILURE, RETRY_INFO, STRUCT,
};

/// Goes through all answers. `judge` says `None` where there is nothing of the kind in an answer, and complains; the
/// first complaint counts, with how many there are. Where nothing was of `what`, nothing was shown.
fn all(
    session: &Session<'_>,
    good: &str,
    what: &str,
    mut judge: impl FnMut(&Heard) -> Option<Result<(), String>>,
) -> Ruling {
    let (mut heard, mut looked, mut first, mut wrong) = (0, 0, None, 0);
    session.each_heard(|one| {
        heard += 1;
        // What half an answer shows to be wrong is wrong; that it is right cannot be seen.
        let half = one.reply.end != End::Whole;
        let Some(judged) = judge(one).filter(|judged| !half || judged.is_err()) else { return };
        looked += 1;
        if let Err(why) = judged {
            wrong += 1;
            first.get_or_insert(format!("{}: {why}", one.asked));
        }
    });
    match first {
        Some(why) if wrong > 1 => Err(Miss::Fails(format!("{why} ({wrong} of {looked} answers)"))),
        Some(why) => Err(Miss::Fails(why)),
        None if looked > 0 && looked == heard => Ok(format!("{good} ({looked} answers)")),
        None if looked > 0 => Ok(format!("{good} ({looked} of {heard} answers)")),
        None if session.client.is_spent() => {
            Err(Miss::NotRun(format!("budget: no answer that it sufficed for is {what}")))
        }
        None => Err(Miss::NotApplicable(format!("none of {heard} answers is {what}"))),
    }
}

/// The same for every error in the answers: `None` where there is nothing of the kind in an error.
fn all_errors(
    session: &Session<'_>,
    good: &str,
    what: &str,
    mut judge: impl FnMut(&Heard, &ErrorAnswer) -> Option<Result<(), String>>,
) -> Ruling {
    all(session, good, what, |heard| {
        let judged: Vec<_> = errors(session, heard).iter().filter_map(|error| judge(heard, error)).collect();
        judged.into_iter().reduce(Result::and)
    })
}

/// A complaint where there is something wrong.
fn complains(why: Option<String>) -> Result<(), String> {
    why.map_or(Ok(()), Err)
}

/// The errors in an answer, be it a document or a stream. What is not in shape is other checks' business.
fn errors(session: &Session<'_>, heard: &Heard) -> Vec<ErrorAnswer> {
    let read = |body: &[u8]| match shape::read(session.interface.binding, body) {
        Ok(Read::Error(error)) => Some(error),
        Ok(Read::Success(_)) | Err(_) => None,
    };
    if heard.reply.media() == "text/event-stream" {
        return shape::events(&heard.reply.body).iter().filter_map(|(_, data)| read(data)).collect();
    }
    read(&heard.reply.body).into_iter().collect()
}

pub fn no_envelope(session: &Session<'_>) -> Ready<Ruling> {
    ready(all(session, "none is", "JSON", |heard| {
        let events = shape::events(&heard.reply.body);
        let bodies =
            || std::iter::once(&heard.reply.body[..]).chain(events.iter().map(|(_, data)| &data[..]));
        let found = bodies().find_map(shape::is_envelope);
        let is_json = bodies().any(|body| serde_json::from_slice::<Value>(body).is_ok());
        is_json
            .then(|| found.map_or(Ok(()), |found| Err(format!("HTTP {} with {found}", heard.reply.status))))
    }))
}

pub fn content_type(session: &Session<'_>) -> Ready<Ruling> {
    // What is no error of the binding's is another check's business.
    ready(all_errors(session, "JSON, or a stream of it", "an error in the binding's form", |heard, _| {
        let headers = heard.reply.headers.iter().filter(|(name, _)| name == "content-type");
        let written: Vec<&str> = headers.map(|(_, value)| value.as_str()).collect();
        let media = heard.reply.media();
        let fits = match media.as_str() {
            "application/json" => true,
            "text/event-stream" => heard.streams,
            "application/a2a+json" => session.interface.binding == Binding::HttpJson,
            _ => false,
        };
        Some(complains(match written.as_slice() {
            [] => Some("an error without a Content-Type".to_owned()),
            [_, _, ..] => Some(format!("an error with {} Content-Types", written.len())),
            [_] if media == "text/event-stream" && !fits => {
                Some("an error as a stream that nobody asked for".to_owned())
            }
            [_] if !fits => Some(format!("an error as {media:?}")),
            [one] => odd_parameter(one).map(|odd| format!("an error as {media} with the parameter {odd:?}")),
        }))
    }))
}

/// A parameter of a media type that is not UTF-8's name, which says what JSON and event streams are anyway.
fn odd_parameter(media: &str) -> Option<String> {
    let mut parameters = media.split(';').skip(1).map(str::trim).filter(|one| !one.is_empty());
    let odd = parameters.find(|one| {
        let plain = one.replace('"', "").to_ascii_lowercase();
        !matches!(plain.as_str(), "charset=utf-8" | "charset=utf8")
    });
    odd.map(str::to_owned)
}

pub fn http_status(session: &Session<'_>) -> Ready<Ruling> {
    let what = "an error in the binding's form";
    ready(all_errors(session, "as they should be", what, |heard, error| {
        let status = heard.reply.status;
        let is_stream = heard.reply.media() == "text/event-stream";
        Some(complains(match session.interface.binding {
            Binding::JsonRpc => {
                let refuses = matches!(status, 401 | 403 | 407 | 413 | 429 | 500..)
                    && A2aError::from_code(error.code).is_none();
                let fine = status == 200 || refuses || heard.method != http::Method::POST;
                (!fine).then(|| {
                    format!("HTTP {status} with {}: clients read a JSON-RPC error at 200", error.name())
                })
            }
            // It begins with 200, whatever its events are.
            Binding::HttpJson if is_stream => return None,
            Binding::HttpJson => {
                let wanted = error.says().map_or(error.code, |said| i64::from(said.http_status()));
                let fine = i64::from(status) == error.code && error.code == wanted && status >= 400;
                (!fine).then(|| format!("HTTP {status} with {} where it is {wanted}", error.name()))
            }
        }))
    }))
}

const TYPES: &[&str] =
    &[ERROR_INFO, BAD_REQUEST, RETRY_INFO, PRECONDITION_FAILURE, QUOTA_FAILURE, LOCALIZED_MESSAGE, STRUCT];

pub fn details(session: &Session<'_>) -> Ready<Ruling> {
    ready(all_errors(session, "typed", "an error with details", |_, error| {
        let list = error.details.as_array().filter(|list| !list.is_empty())?;
        let mut infos = 0;
        for detail in list {
            match detail.get("@type").and_then(Value::as_str) {
                None => return Some(Err(format!("a detail without @type: {}", short(detail)))),
                Some(kind) if !TYPES.contains(&kind) => return Some(Err(format!("a detail of type {kind}"))),
                Some(kind) => infos += usize::from(kind == ERROR_INFO),
            }
        }
        Some(complains((infos > 1).then(|| format!("{infos} ErrorInfos"))))
    }))
}

pub fn members(session: &Session<'_>) -> Ready<Ruling> {
    let what = "an error in the binding's form";
    ready(all_errors(session, "those of the shape", what, |_, error| Some(error.has_its_members())))
}

const KEYS: &[&str] =
    &["supportedVersions", "requested", "mediaType", "extension", "method", "field", "taskId", "contextId"];

pub fn metadata(session: &Session<'_>) -> Ready<Ruling> {
    let mut others = Vec::new();
    let ids = [&session.options.foreign, &session.options.task].into_iter().flatten();
    let known: Vec<&str> = ids.map(String::as_str).collect();
    let ruling = all_errors(session, "strings", "an error with metadata", |heard, error| {
        let another =
            known.iter().find(|id| heard.task.as_deref() != Some(**id) && holds(&error.details, id));
        if another.is_some() {
            return Some(Err("details with the id of a task that was not asked about".to_owned()));
        }
        let metadata = error.info()?.get("metadata")?;
        let Some(members) = metadata.as_object() else {
            return Some(Err(format!("metadata is {}, no object", short(metadata))));
        };
        let mut looked = false;
        // The versions have a check of their own.
        for (name, value) in members.iter().filter(|(name, _)| *name != "supportedVersions") {
            looked = true;
            if !value.is_string() {
                return Some(Err(format!("metadata.{name} is {}, no string", short(value))));
            }
            if name == "taskId" && value.as_str() != heard.task.as_deref() {
                return Some(Err("metadata.taskId is not the task that was asked about".to_owned()));
            }
            if name == "contextId" {
                return Some(Err("metadata.contextId, and no context was asked about".to_owned()));
            }
            if names(name) {
                return Some(Err(format!("metadata.{name} names somebody")));
            }
            if !KEYS.contains(&name.as_str()) && !others.contains(name) {
                others.push(name.clone());
            }
        }
        looked.then_some(Ok(()))
    });
    if !others.is_empty() {
        session.note(format!("metadata that is not on the list: {}", others.join(", ")));
    }
    ready(ruling)
}

/// Whether a text is somewhere in a value.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(list) => list.iter().any(|one| holds(one, text)),
        Value::Object(members) => members.values().any(|one| holds(one, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub fn messages(session: &Session<'_>) -> Ready<Ruling> {
    ready(all_errors(session, "harmless", "an error in the binding's form", |heard, error| {
        // What the request said may be said back.
        let told = |what: &str, text: &str| {
            tells(text, &heard.said)
                // Where JSON is malformed the place is one in what the client sent.
                .filter(|found| *found != PLACE || error.code != -32700)
                .map(|found| format!("{what} with {found}: {}", short(&Value::from(text))))
        };
        let in_details = || {
            let details = error.details.as_array().map_or(&[][..], Vec::as_slice);
            details.iter().find_map(|detail| in_detail(detail, &told))
        };
        Some(complains(told("a message", &error.message).or_else(in_details)))
    }))
}

/// The first text in a detail that tells: descriptions pass the same gate as messages, and a field is a field's path.
fn in_detail(detail: &Value, told: &impl Fn(&str, &str) -> Option<String>) -> Option<String> {
    let kind = detail.get("@type").and_then(Value::as_str)?;
    if kind == LOCALIZED_MESSAGE {
        return told("a localized message", detail.get("message")?.as_str()?);
    }
    let rows = match kind {
        BAD_REQUEST => detail.get("fieldViolations")?,
        PRECONDITION_FAILURE | QUOTA_FAILURE => detail.get("violations")?,
        _ => return None,
    };
    rows.as_array()?.iter().find_map(|row| {
        let text = |name: &str| row.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let described = text("description").and_then(|text| told("a description", text));
        let localized = || {
            let message = row.pointer("/localizedMessage/message").and_then(Value::as_str)?;
            told("a localized message", message)
        };
        let odd_field = || {
            let field = text("field").filter(|field| !is_field(field))?;
            Some(format!("a violation of {}, which is no field", short(&Value::from(field))))
        };
        described.or_else(localized).or_else(odd_field)
    })
}

pub fn headers(session: &Session<'_>) -> Ready<Ruling> {
    let mut tagged = false;
    let ruling = all_errors(session, "none does", "TASK_NOT_FOUND", |heard, error| {
        if error.says() != Some(A2aError::TaskNotFound) {
            return None;
        }
        // Frameworks make a tag of every body's hash, which tells nothing by itself.
        tagged |= heard.reply.header("etag").is_some();
        Some(complains(heard.reply.headers.iter().find_map(|(name, value)| {
            let tells = matches!(name.as_str(), "set-cookie" | "last-modified" | "server-timing")
                || name.starts_with("x-") && (names(name) || names(value));
            tells.then(|| format!("header {name} on TASK_NOT_FOUND"))
        })))
    });
    if tagged {
        session.note("an ETag on \"not found\" is worth nothing, and must not be a task's");
    }
    ready(ruling)
}
