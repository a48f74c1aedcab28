//! Requests that are refused before a task comes into it.

use http::Method;
use serde_json::Value;

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::Reply;
use crate::probe::session::{Ask, ID, Lookup, Session};
use crate::probe::shape::{self, ErrorAnswer, Read, short};
use crate::protocol::a2a::{A2aError, Operation};

/// A POST that both bindings have and that changes nothing: to a task that does not exist.
fn post(session: &Session<'_>, asked: &str, json_rpc: &str, http_json: &str) -> Ask {
    match session.interface.binding {
        Binding::JsonRpc => session.post(asked, json_rpc.to_owned()),
        Binding::HttpJson => {
            session.call(Operation::CancelTask, &session.unknown).named(asked).body(http_json.to_owned())
        }
    }
}

/// Asks, and judges what must be an error in shape.
async fn refused(session: &Session<'_>, asked: &str, ask: Ask) -> Result<ErrorAnswer, Miss> {
    let reply = session.hear(ask).await?;
    let error = session.error(asked, &reply)?;
    error.is_in_shape().map_err(|why| Miss::Fails(format!("{asked}: {why}")))?;
    looked_at(asked, &reply)?;
    Ok(error)
}

/// What is refused for want of a credential was not looked at.
fn looked_at(asked: &str, reply: &Reply) -> Result<(), Miss> {
    match reply.status {
        401 | 403 | 407 => Err(Miss::NotApplicable(format!(
            "{asked} is refused with HTTP {} before it is read",
            reply.status
        ))),
        _ => Ok(()),
    }
}

/// The same where nobody could read an id: it must be null.
async fn refused_without_id(session: &Session<'_>, asked: &str, ask: Ask) -> Result<ErrorAnswer, Miss> {
    let error = refused(session, asked, ask).await?;
    if session.is_json_rpc() && error.id.as_deref() != Some("null") {
        let id = shape::brief(error.id.as_deref().unwrap_or("absent"));
        return Err(Miss::Fails(format!("{asked}: the id is {id} instead of null")));
    }
    Ok(error)
}

/// Which errors show that a request was refused for what is wrong with it. Any other shows that something else was.
struct Wanted {
    /// JSON-RPC's code.
    code: i64,
    /// Codes that say nearly the same: RFC 0211 does not choose, so they are a note.
    near: &'static [i64],
    /// HTTP+JSON's statuses, the best one first.
    statuses: &'static [u16],
    /// The A2A error that says it, if there is one.
    a2a: Option<A2aError>,
    /// Whether a host may read such a request all the same.
    lenient: bool,
}

/// That an error is the one that was caused.
fn conforms(session: &Session<'_>, asked: &str, error: &ErrorAnswer, wanted: &Wanted) -> Result<(), Miss> {
    let said = error.says();
    if let (Some(said), true) = (said, said == wanted.a2a) {
        return error.is(said).map_err(|why| Miss::Fails(format!("{asked}: {why}")));
    }
    if said == Some(A2aError::TaskNotFound) && (wanted.lenient || !session.is_json_rpc()) {
        return Err(Miss::NotApplicable(format!("the host takes {asked} as if nothing were wrong with it")));
    }
    let (best, near, is_other) = match session.interface.binding {
        Binding::JsonRpc => (wanted.code, wanted.near.contains(&error.code), said.is_some()),
        Binding::HttpJson => {
            let best = wanted.statuses.first().copied().unwrap_or_default();
            let near = wanted.statuses.iter().any(|status| i64::from(*status) == error.code);
            (i64::from(best), near, said.is_some())
        }
    };
    if is_other || (error.code != best && !near) {
        return Err(Miss::Fails(format!("{} for {asked} instead of {best}", error.name())));
    }
    if error.code != best {
        let whose = if session.is_json_rpc() { "JSON-RPC" } else { "A2A" };
        session.note(format!("{asked}: {} where {whose} has {best}", error.code));
    }
    Ok(())
}

pub async fn malformed(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted =
        Wanted { code: -32700, near: &[-32600], statuses: &[400, 422], a2a: None, lenient: false };
    let asked = "malformed JSON";
    let json_rpc = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"#;
    let ask = post(session, asked, json_rpc, r#"{"metadata":"#).without_id();
    let error = refused_without_id(session, asked, ask).await?;
    conforms(session, asked, &error, &WANTED)?;
    Ok(error.name())
}

pub async fn non_object(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted =
        Wanted { code: -32600, near: &[-32700], statuses: &[400, 422], a2a: None, lenient: false };
    let mut seen = Vec::new();
    for body in ["[]", "42", "\"text\"", "null"] {
        let asked = format!("the body {body}");
        let ask = post(session, &asked, body, body).without_id();
        let error = refused_without_id(session, &asked, ask).await?;
        conforms(session, &asked, &error, &WANTED)?;
        seen.push(error.name());
    }
    seen.dedup();
    Ok(seen.join(", "))
}

pub async fn unknown_method(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted =
        Wanted { code: -32601, near: &[-32600], statuses: &[405, 404, 501], a2a: None, lenient: false };
    let asked = "a method that does not exist";
    let ask = match session.interface.binding {
        Binding::JsonRpc => {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"ProbeNoSuchMethod","params":{{}}}}"#);
            session.post(asked, body)
        }
        Binding::HttpJson => {
            let ask = session.call(Operation::GetTask, &session.unknown).named(asked).by(Method::PATCH);
            ask.body("{}").header("content-type", "application/json").changing(&session.unknown)
        }
    };
    let error = refused(session, asked, ask).await?;
    if let Some(said @ A2aError::TaskNotFound) = error.says() {
        return Err(Miss::Fails(format!("{} for {asked}", said.reason())));
    }
    conforms(session, asked, &error, &WANTED)?;
    Ok(error.name())
}

pub async fn invalid_params(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted =
        Wanted { code: -32602, near: &[-32600], statuses: &[400, 422], a2a: None, lenient: false };
    let asked = "GetTask with invalid parameters";
    let ask = match session.interface.binding {
        Binding::JsonRpc => {
            let method = session.method_of(Operation::GetTask);
            session.post(asked, format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{{}}}}"#))
        }
        Binding::HttpJson => {
            session.call(Operation::GetTask, &session.unknown).named(asked).query("historyLength=abc")
        }
    };
    let error = refused(session, asked, ask).await?;
    conforms(session, asked, &error, &WANTED)?;
    if error.code == -32602 && !error.has_bad_request() {
        session.note("it SHOULD carry a google.rpc.BadRequest");
    }
    Ok(error.name())
}

pub async fn wrong_content_type(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted = Wanted {
        code: -32600,
        near: &[-32700],
        statuses: &[415, 400],
        a2a: Some(A2aError::ContentTypeNotSupported),
        lenient: true,
    };
    let asked = "a request as text/plain";
    let (method, id) = (session.method_of(Operation::GetTask), Value::from(session.unknown.as_str()));
    let body = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{{"id":{id}}}}}"#);
    let ask = post(session, asked, &body, "{}").header("content-type", "text/plain").unread();
    let ask = ask.about(&session.unknown);
    let error = refused(session, asked, ask).await?;
    conforms(session, asked, &error, &WANTED)?;
    Ok(error.name())
}

pub async fn oversized(session: &Session<'_>) -> Ruling {
    const WANTED: Wanted =
        Wanted { code: -32600, near: &[-32000], statuses: &[413, 400], a2a: None, lenient: true };
    let size = session.options.oversize;
    let asked = format!("a body of {size} bytes");
    let padding = " ".repeat(size);
    let method = session.method_of(Operation::GetTask);
    let head = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{{"id":"#);
    let json_rpc = format!("{head}{}{padding}}}}}", Value::from(session.unknown.as_str()));
    let ask = post(session, &asked, &json_rpc, &format!("{{{padding}}}")).unread().about(&session.unknown);
    let reply = session.hear(ask).await?;
    let error = session.error(&asked, &reply)?;
    if error.says() == Some(A2aError::TaskNotFound) {
        return Err(Miss::NotApplicable(format!("the host takes {asked}; --oversize sends more")));
    }
    error.is_in_shape().map_err(|why| Miss::Fails(format!("{asked}: {why}")))?;
    looked_at(&asked, &reply)?;
    conforms(session, &asked, &error, &WANTED)?;
    if reply.status != 413 {
        session.note(format!("HTTP {} where RFC 9110 has 413", reply.status));
    }
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

/// Whether an error is about who asks.
fn is_about_the_caller(reply: &Reply, error: &ErrorAnswer) -> bool {
    let by_reason = error.reason().is_some_and(|reason| {
        let reason = reason.to_ascii_uppercase();
        ["UNAUTHENTICATED", "UNAUTHORIZED", "PERMISSION", "FORBIDDEN", "DENIED"]
            .iter()
            .any(|word| reason.contains(word))
    });
    matches!(reply.status, 401 | 403 | 407) || by_reason || matches!(error.code, -31401 | -31403 | -32000)
}

pub async fn no_credential(session: &Session<'_>) -> Ruling {
    let asked = "a request without a credential";
    let ask = session.call(Operation::GetTask, &session.unknown).named(asked).anonymous();
    let reply = session.hear(ask).await?;
    // RFC 0211 §C lets a 401 have no body, and nothing else.
    if reply.body.is_empty() && session.is_json_rpc() && reply.status == 401 {
        return Ok("HTTP 401 without a body".to_owned());
    }
    let none = || Miss::NotApplicable("the host asks for no credential".to_owned());
    let refuses = matches!(reply.status, 401 | 403 | 407);
    // Who is told that there is no such task was let in, in whatever shape it is said: that is of other checks.
    let is_told = match session.found(&session.unknown, &reply) {
        Lookup::None | Lookup::Some => true,
        Lookup::PutOff(_) => false,
        // Over HTTP+JSON a 404 without a shape says it as well: nothing is asked next that could change a task, so
        // it does not matter if it is the router's.
        Lookup::Unclear(_) => {
            !session.is_json_rpc()
                && matches!(reply.status, 404 | 410)
                && reply.trouble().is_none()
                && !shape::has_success(&reply.body)
        }
    };
    if is_told && !refuses {
        return Err(none());
    }
    let error = match session.read(asked, &reply)? {
        Read::Success(_) => return Err(none()),
        Read::Error(error) => error,
    };
    if !refuses {
        if session.options.credentials.is_empty() {
            return Err(none());
        }
        // Only what a credential changes is about the credential.
        let with = session.hear(session.call(Operation::GetTask, &session.unknown)).await?;
        if let Read::Error(with) = session.read("GetTask", &with)?
            && with.code == error.code
        {
            return Err(none());
        }
    }
    error.is_in_shape().map_err(|why| Miss::Fails(format!("{asked}: {why}")))?;
    if error.says().is_some() || !is_about_the_caller(&reply, &error) {
        let (status, name) = (reply.status, error.name());
        return Err(Miss::Fails(format!("HTTP {status}, {name} for {asked} instead of 401")));
    }
    if reply.status == 401 && reply.header("www-authenticate").is_none() {
        session.note("RFC 9110 asks for WWW-Authenticate on a 401");
    }
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

async fn at_version_99(session: &Session<'_>) -> Result<ErrorAnswer, Miss> {
    let ask = session.call(Operation::GetTask, &session.unknown);
    let ask = ask.named("A2A-Version 99.0").header("a2a-version", "99.0");
    let reply = session.hear(ask).await?;
    session.error("A2A-Version 99.0", &reply)
}

pub async fn bad_version(session: &Session<'_>) -> Ruling {
    let error = at_version_99(session).await?;
    if error.says() == Some(A2aError::TaskNotFound) {
        return Err(Miss::Fails("answers A2A-Version 99.0 as if it offered it".to_owned()));
    }
    error.is(A2aError::VersionNotSupported).map_err(Miss::Fails)?;
    Ok(error.name())
}

pub async fn supported_versions(session: &Session<'_>) -> Ruling {
    let error = match at_version_99(session).await {
        Err(put_off @ (Miss::NotRun(_) | Miss::Undecided(_))) => return Err(put_off),
        Ok(error) if error.says() == Some(A2aError::VersionNotSupported) => error,
        // What it is otherwise is bad-version's business.
        Ok(_) | Err(Miss::Fails(_) | Miss::NotApplicable(_)) => {
            return Err(Miss::NotApplicable("the version is not refused as such".to_owned()));
        }
    };
    let metadata = error.info().and_then(|info| info.get("metadata"));
    match metadata.and_then(|metadata| metadata.get("supportedVersions")) {
        None => {
            session.note("metadata.supportedVersions SHOULD be there");
            Err(Miss::NotApplicable("absent, so the card counts".to_owned()))
        }
        Some(Value::String(list)) => {
            // RFC 0211 §E asks for a subset of the card's, whichever interface they are on.
            let offered = &session.interface.card_versions;
            let listed: Vec<&str> = list.split(',').map(str::trim).collect();
            let beyond = |all: &[String]| {
                listed.iter().copied().find(|version| !all.iter().any(|known| known == version))
            };
            let extra = beyond(offered);
            if let (None, Some(other)) = (extra, beyond(&session.interface.versions)) {
                session.note(format!(
                    "the card has {:?} on another interface, not on this one",
                    shape::brief(other)
                ));
            }
            let is_version = |text: &&str| {
                !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            };
            let odd = listed.iter().copied().find(|one| !is_version(one));
            let told = short(&Value::from(list.as_str()));
            match (extra, odd) {
                (Some(extra), _) if !offered.is_empty() => {
                    let (extra, card) = (short(&Value::from(extra)), shape::brief(&offered.join(", ")));
                    Err(Miss::Fails(format!("supportedVersions lists {extra}, the card only {card}")))
                }
                (_, Some(odd)) if offered.is_empty() => {
                    let odd = short(&Value::from(odd));
                    Err(Miss::Fails(format!("supportedVersions lists {odd}, which is no version (E-7)")))
                }
                _ if offered.is_empty() => Ok(format!("{told}, with no card to compare it with")),
                _ => Ok(told),
            }
        }
        Some(other) => {
            Err(Miss::Fails(format!("supportedVersions is {}, no comma-joined text", short(other))))
        }
    }
}
