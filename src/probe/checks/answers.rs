//! Checks of every answer that the others caused.

use std::future::{Ready, ready};

use bytes::Bytes;
use http::HeaderName;
use serde_json::Value;

use super::{Miss, Ruling};
use crate::normalize::{Binding, Change, Odd, Rule, tells_no_task};
use crate::probe::client::End;
use crate::probe::session::{Heard, Session};
use crate::probe::shape::{self, ErrorAnswer, Read, brief, short};
use crate::probe::tells::{PLACE, names, tells};
use crate::protocol::a2a::{A2aError, DOMAIN};
use crate::protocol::google_rpc::ERROR_INFO;

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
    all_documents(session, good, what, |heard, error, _| judge(heard, error))
}

/// The same with the bytes that each error was read from.
fn all_documents(
    session: &Session<'_>,
    good: &str,
    what: &str,
    mut judge: impl FnMut(&Heard, &ErrorAnswer, &[u8]) -> Option<Result<(), String>>,
) -> Ruling {
    all(session, good, what, |heard| {
        let found = errors(session, heard);
        let judged = found.iter().filter_map(|(error, document)| judge(heard, error, document));
        judged.reduce(Result::and)
    })
}

/// A complaint where there is something wrong.
fn complains(why: Option<String>) -> Result<(), String> {
    why.map_or(Ok(()), Err)
}

/// Bytes of an error, at the most (C-1). One that is larger is told as that, and not read again by every check.
const CAP: usize = 1 << 20;

/// The errors in an answer, be it a document or a stream. What is not in shape is other checks' business.
fn errors(session: &Session<'_>, heard: &Heard) -> Vec<(ErrorAnswer, Bytes)> {
    let read = |body: Bytes| {
        if body.len() > CAP {
            return None;
        }
        match shape::read(session.interface.binding, &body) {
            Ok(Read::Error(error)) => Some((error, body)),
            Ok(Read::Success(_)) | Err(_) => None,
        }
    };
    if heard.reply.media() == "text/event-stream" {
        let events = shape::events(&heard.reply.body).into_iter();
        return events.filter_map(|(_, data)| read(Bytes::from(data))).collect();
    }
    read(heard.reply.body.clone()).into_iter().collect()
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
            [_] if !fits => Some(format!("an error as {:?}", brief(&media))),
            [one] => odd_parameter(one)
                .map(|odd| format!("an error as {media} with the parameter {:?}", brief(&odd))),
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

/// Reasons that upstream gives errors that are none of A2A's: RFC 0211 §F has clients bear with them.
const BORNE: &[&str] =
    &["UNKNOWN_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INTERNAL_ERROR", "INVALID_PARAMS"];

/// Judged by the proxy's own rules: a detail is right exactly if they would let it through as it is.
pub fn details(session: &Session<'_>) -> Ready<Ruling> {
    let mut borne = Vec::new();
    let ruling =
        all_documents(session, "as they may be", "an error with details", |heard, error, document| {
            let list = error.details.as_array().filter(|list| !list.is_empty())?;
            if let Some(untyped) = list.iter().find(|detail| kind_of(detail).is_none()) {
                return Some(Err(format!("a detail without @type: {} ({})", short(untyped), Rule::E5.id())));
            }
            let infos = list.iter().filter(|detail| kind_of(detail) == Some(ERROR_INFO)).count();
            if infos > 1 {
                return Some(Err(format!("{infos} ErrorInfos ({})", Rule::E1.id())));
            }
            let review = session.review(heard, document)?;
            let told = |odd: &Odd| list.get(odd.at).map(|detail| tell(detail, odd));
            let info = review.info.as_ref().filter(|_| {
                let is_borne = is_borne(error);
                if is_borne {
                    let note = format!("{}, of an error that has no reason of A2A's", error.name());
                    if borne.len() < FEW && !borne.contains(&note) {
                        borne.push(note);
                    }
                }
                // What is no error of its kind is told where that error was asked for.
                !is_borne && error.is_of_its_kind().is_ok()
            });
            Some(complains(info.and_then(told).or_else(|| review.detail.as_ref().and_then(told))))
        });
    for one in borne {
        session.note(format!("{one}: RFC 0211 §F has clients bear with it, {} has none", Rule::E1.id()));
    }
    ready(ruling)
}

/// Members of metadata that are looked at; the proxy looks at no more either.
const MEMBERS: usize = 256;

/// So many of a host's names are in a note.
const FEW: usize = 8;

fn kind_of(detail: &Value) -> Option<&str> {
    detail.get("@type").and_then(Value::as_str)
}

/// Whether an error that is none of A2A's names itself by upstream's reason for it, and says no more than that.
fn is_borne(error: &ErrorAnswer) -> bool {
    let members = error.info().and_then(Value::as_object);
    let is_plain = members.is_some_and(|members| {
        members.keys().all(|name| matches!(name.as_str(), "@type" | "reason" | "domain" | "metadata"))
            && members.get("domain").and_then(Value::as_str) == Some(DOMAIN)
    });
    is_plain && error.says().is_none() && error.reason().is_some_and(|reason| BORNE.contains(&reason))
}

/// What is wrong with a detail, in one sentence.
fn tell(detail: &Value, odd: &Odd) -> String {
    let kind = brief(kind_of(detail).unwrap_or_default());
    let rule = odd.rule.id();
    match &odd.change {
        Change::Dropped => {
            format!("a detail of type {kind} that may not be there: {} ({rule})", short(detail))
        }
        Change::Late => format!("a detail of type {kind} that stands too late in the list ({rule})"),
        Change::At(pointer) => {
            let value = detail.pointer(pointer).map_or_else(String::new, short);
            let place = brief(&pointer.trim_start_matches('/').replace('/', "."));
            format!("a detail of type {kind} where {place} may not be {value} ({rule})")
        }
    }
}

pub fn members(session: &Session<'_>) -> Ready<Ruling> {
    let what = "an error in the binding's form";
    ready(all(session, "those of the shape", what, |heard| {
        let length = heard.reply.body.len();
        let is_json = heard.reply.media() != "text/event-stream";
        if is_json && length > CAP && shape::begins_as_error(&heard.reply.body) {
            return Some(Err(format!("an error of {length} bytes, more than 1 MiB (C-1)")));
        }
        let found = errors(session, heard);
        found.iter().map(|(error, _)| error.has_its_members()).reduce(Result::and)
    }))
}

const KEYS: &[&str] =
    &["supportedVersions", "requested", "mediaType", "extension", "method", "field", "taskId", "contextId"];

pub fn metadata(session: &Session<'_>) -> Ready<Ruling> {
    let mut others = Vec::new();
    let ids = [&session.options.foreign, &session.options.task].into_iter().flatten();
    let known: Vec<&str> = ids.map(String::as_str).collect();
    let ruling = all_documents(session, "strings", "an error with metadata", |heard, error, document| {
        let another =
            known.iter().find(|id| heard.task.as_deref() != Some(**id) && holds(&error.details, id));
        if another.is_some() {
            return Some(Err("details with the id of a task that was not asked about".to_owned()));
        }
        let metadata = error.info()?.get("metadata")?;
        let Some(members) = metadata.as_object() else {
            return Some(Err(format!("metadata is {}, no object", short(metadata))));
        };
        if members.len() > MEMBERS {
            return Some(Err(format!("metadata has {} members ({})", members.len(), Rule::D2.id())));
        }
        let mut looked = false;
        // The versions have a check of their own.
        for (name, value) in members.iter().filter(|(name, _)| *name != "supportedVersions") {
            looked = true;
            if !value.is_string() {
                return Some(Err(format!("metadata.{} is {}, no string", brief(name), short(value))));
            }
            if name == "taskId" && value.as_str() != heard.task.as_deref() {
                return Some(Err("metadata.taskId is not the task that was asked about".to_owned()));
            }
            if name == "contextId" {
                return Some(Err("metadata.contextId, and no context was asked about".to_owned()));
            }
            if names(name) {
                return Some(Err(format!("metadata.{} names somebody", brief(name))));
            }
            if !KEYS.contains(&name.as_str()) && others.len() <= FEW && !others.contains(&brief(name)) {
                others.push(brief(name));
            }
        }
        if let Some((name, rule)) = session.review(heard, document).and_then(|review| review.metadata) {
            let value = members.get(&name).map_or_else(String::new, short);
            return Some(Err(format!("metadata.{name} may not be {value} ({})", rule.id())));
        }
        looked.then_some(Ok(()))
    });
    if others.len() > FEW {
        others.truncate(FEW);
        others.push("…".to_owned());
    }
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
        let told = tells(&error.message, &heard.said)
            // Where JSON is malformed the place is one in what the client sent.
            .filter(|found| *found != PLACE || error.code != -32700)
            .map(|found| format!("a message with {found}: {}", short(&Value::from(error.message.as_str()))));
        Some(complains(told))
    }))
}

/// Headers whose values are policies that browsers read: their words name nobody.
fn is_policy(name: &str) -> bool {
    name.contains("-policy")
        || matches!(
            name,
            "strict-transport-security" | "alt-svc" | "nel" | "report-to" | "reporting-endpoints" | "via"
        )
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
            // What the proxy keeps, and what is of the connection, tells no task (D-3).
            let is_plain = name.parse::<HeaderName>().is_ok_and(|name| tells_no_task(&name));
            let tells = matches!(name.as_str(), "set-cookie" | "last-modified" | "server-timing")
                || !is_plain && (names(name) || !is_policy(name) && names(value));
            tells.then(|| format!("header {} on TASK_NOT_FOUND", brief(name)))
        })))
    });
    if tagged {
        session.note("an ETag on \"not found\" is worth nothing, and must not be a task's");
    }
    ready(ruling)
}
