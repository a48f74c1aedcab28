//! Requests that are refused before a task comes into it.

use http::Method;
use serde_json::Value;

use super::{Miss, Ruling};
use crate::normalize::Binding;
use crate::probe::client::Reply;
use crate::probe::session::{Ask, ID, Session};
use crate::probe::shape::{ErrorAnswer, Read};
use crate::protocol::a2a::{A2aError, Operation};

/// A POST that both bindings have and that changes nothing: to a task that does not exist.
fn post(session: &Session<'_>, asked: &str, json_rpc: &str, http_json: &str) -> Ask {
    match session.interface.binding {
        Binding::JsonRpc => session.post(asked, json_rpc.to_owned()),
        Binding::HttpJson => session.call(Operation::CancelTask, &session.unknown).body(http_json.to_owned()),
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
        let id = error.id.as_deref().unwrap_or("absent");
        return Err(Miss::Fails(format!("{asked}: the id is {id} instead of null")));
    }
    Ok(error)
}

/// What JSON-RPC says the code is; RFC 0211 does not, so it is no failure.
fn expect_code(session: &Session<'_>, error: &ErrorAnswer, code: i64) {
    if session.is_json_rpc() && error.code != code {
        session.note(format!("code {} where JSON-RPC has {code}", error.code));
    }
}

pub async fn malformed(session: &Session<'_>) -> Ruling {
    let json_rpc = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"#;
    let ask = post(session, "malformed JSON", json_rpc, r#"{"metadata":"#);
    let error = refused_without_id(session, "malformed JSON", ask).await?;
    expect_code(session, &error, -32700);
    Ok(error.name())
}

pub async fn non_object(session: &Session<'_>) -> Ruling {
    let mut seen = Vec::new();
    for body in ["[]", "42", "\"text\"", "null"] {
        let asked = format!("the body {body}");
        let error = refused_without_id(session, &asked, post(session, &asked, body, body)).await?;
        expect_code(session, &error, -32600);
        seen.push(error.name());
    }
    seen.dedup();
    Ok(seen.join(", "))
}

pub async fn unknown_method(session: &Session<'_>) -> Ruling {
    let asked = "a method that does not exist";
    let ask = match session.interface.binding {
        Binding::JsonRpc => {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"ProbeNoSuchMethod","params":{{}}}}"#);
            session.post(asked, body)
        }
        Binding::HttpJson => {
            let (_, below) = Operation::GetTask.route(&session.unknown, "");
            session.ask(asked, Method::PATCH, &below, "{}")
        }
    };
    let error = refused(session, asked, ask).await?;
    if let (Binding::JsonRpc, Some(said)) = (session.interface.binding, error.says()) {
        return Err(Miss::Fails(format!("{} for {asked}", said.reason())));
    }
    expect_code(session, &error, -32601);
    Ok(error.name())
}

pub async fn invalid_params(session: &Session<'_>) -> Ruling {
    let asked = "GetTask with invalid parameters";
    let ask = match session.interface.binding {
        Binding::JsonRpc => {
            let method = match session.interface.protocol {
                crate::probe::Protocol::V1_0 => "GetTask",
                crate::probe::Protocol::V0_3 => "tasks/get",
            };
            session.post(asked, format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{{}}}}"#))
        }
        Binding::HttpJson => {
            let (method, below) = Operation::GetTask.route(&session.unknown, "");
            session.ask(asked, method, &format!("{below}?historyLength=abc"), "")
        }
    };
    let error = refused(session, asked, ask).await?;
    expect_code(session, &error, -32602);
    if error.code == -32602 && !error.has_bad_request() {
        session.note("it SHOULD carry a google.rpc.BadRequest");
    }
    Ok(error.name())
}

pub async fn wrong_content_type(session: &Session<'_>) -> Ruling {
    let asked = "a request as text/plain";
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{ID},"method":"GetTask","params":{{"id":"{}"}}}}"#,
        session.unknown
    );
    let ask = post(session, asked, &body, "{}").header("content-type", "text/plain");
    Ok(refused(session, asked, ask).await?.name())
}

pub async fn oversized(session: &Session<'_>) -> Ruling {
    let size = session.options.oversize;
    let asked = format!("a body of {size} bytes");
    let padding = " ".repeat(size);
    let head = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"GetTask","params":{{"id":"#);
    let json_rpc = format!("{head}{}{padding}}}}}", Value::from(session.unknown.as_str()));
    let ask = post(session, &asked, &json_rpc, &format!("{{{padding}}}"));
    let reply = session.hear(ask).await?;
    let error = session.error(&asked, &reply)?;
    if error.says() == Some(A2aError::TaskNotFound) {
        return Err(Miss::NotApplicable(format!("the host takes {asked}; --oversize sends more")));
    }
    error.is_in_shape().map_err(|why| Miss::Fails(format!("{asked}: {why}")))?;
    looked_at(&asked, &reply)?;
    if reply.status != 413 {
        session.note(format!("HTTP {} where RFC 9110 has 413", reply.status));
    }
    Ok(format!("HTTP {}, {}", reply.status, error.name()))
}

pub async fn no_credential(session: &Session<'_>) -> Ruling {
    let asked = "a request without a credential";
    let ask = session.call(Operation::GetTask, &session.unknown).named(asked).anonymous();
    let reply = session.hear(ask).await?;
    if !matches!(reply.status, 401 | 403 | 407) {
        let refuses = match session.read(asked, &reply)? {
            Read::Error(error) if error.says() == Some(A2aError::TaskNotFound) => false,
            // Only what a credential changes is about the credential.
            Read::Error(error) => {
                !session.options.credentials.is_empty() && {
                    let with = session.hear(session.call(Operation::GetTask, &session.unknown)).await?;
                    session.read("GetTask", &with).is_ok_and(|with| match with {
                        Read::Error(with) => with.code != error.code,
                        Read::Success(_) => true,
                    })
                }
            }
            Read::Success(_) => false,
        };
        if !refuses {
            return Err(Miss::NotApplicable("the host asks for no credential".to_owned()));
        }
    }
    if reply.body.is_empty() && session.is_json_rpc() {
        return Ok(format!("HTTP {} without a body", reply.status));
    }
    let error = session.error(asked, &reply)?;
    error.is_in_shape().map_err(|why| Miss::Fails(format!("{asked}: {why}")))?;
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
        Err(not_run @ Miss::NotRun(_)) => return Err(not_run),
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
            let offered = &session.interface.versions;
            let listed: Vec<&str> = list.split(',').map(str::trim).collect();
            let extra = listed.iter().find(|version| !offered.iter().any(|known| known == *version));
            match extra {
                Some(extra) if !offered.is_empty() => {
                    let card = offered.join(", ");
                    Err(Miss::Fails(format!("supportedVersions lists {extra:?}, the card only {card}")))
                }
                _ if offered.is_empty() => Ok(format!("{list:?}, with no card to compare it with")),
                _ => Ok(format!("{list:?}")),
            }
        }
        Some(other) => Err(Miss::Fails(format!("supportedVersions is {other}, no comma-joined text"))),
    }
}
