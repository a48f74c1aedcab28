//! The request that a saved answer answers: from a file, from the command line, or the likeliest one.

use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::value::RawValue;

use super::saved::{self, NoHeader, Request};
use super::written::decoded;
use super::{Args, BindingName};
use crate::cli::input::{self, quoted};
use crate::config::nearest;
use crate::normalize::Binding;
use crate::protocol::a2a::{Operation, Route, percent_decode, plain_path};

/// The task of a call that names one, where nobody says which.
const SOME_TASK: &str = "task-1";
/// The header, or query parameter, that names the protocol's version.
const VERSION: &str = "a2a-version";

/// The request and how it was meant.
pub struct Asked {
    pub request: Request,
    pub binding: Binding,
    /// The interface's path without a trailing slash, as far as the request tells.
    pub interface: String,
}

/// The request that `--request` names.
///
/// # Errors
/// It cannot be read.
pub fn given(args: &Args, notes: &mut Vec<String>) -> Result<Option<Request>, String> {
    args.request.as_deref().map(|request| read(request, notes)).transpose()
}

/// Whether the answer is to a HEAD, and has no body.
pub fn is_head(args: &Args, given: Option<&Request>) -> bool {
    match args.method.as_deref() {
        Some(name) if is_http(name) => name == "HEAD",
        _ => given.is_some_and(|request| request.method == Method::HEAD),
    }
}

fn is_http(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase())
}

const HTTP_METHODS: [&str; 9] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE"];

/// Refuses what is most likely a slip: a name that is near another one, or one that nobody knows where it matters.
fn known_name(args: &Args, name: &str, notes: &mut Vec<String>) -> Result<(), String> {
    let operations = Operation::ALL.map(Operation::method);
    let known: Vec<&str> = operations.into_iter().chain(Operation::ALL.map(Operation::method_0_3)).collect();
    if known.contains(&name) || HTTP_METHODS.contains(&name) {
        return Ok(());
    }
    let near_http =
        nearest(name, &HTTP_METHODS).filter(|near| is_http(name) || near.eq_ignore_ascii_case(name));
    match nearest(name, &known).or(near_http) {
        Some(near) => Err(format!("--method {name:?} is unknown; did you mean {near}?")),
        None if is_http(name) => Ok(()),
        None if args.binding == Some(BindingName::HttpJson) => {
            Err(format!("{name:?} is no operation of A2A; known are {}", operations.join(", ")))
        }
        None => {
            notes.push(format!("{name:?} is no operation of A2A; the call is taken to be of that name"));
            Ok(())
        }
    }
}

/// Puts the request together. `given` is what `--request` or a HAR file says; `answer` the answer's body.
///
/// # Errors
/// What cannot be read, or contradicts itself.
pub fn put_together(
    args: &Args,
    given: Option<Request>,
    answer: &[u8],
    notes: &mut Vec<String>,
) -> Result<Asked, String> {
    if let Some(name) = args.method.as_deref() {
        known_name(args, name, notes)?;
    }
    let (http_method, called) = match args.method.as_deref() {
        Some(name) if is_http(name) => {
            (Some(Method::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no method"))?), None)
        }
        other => (None, other),
    };
    let is_given = given.is_some();
    let mut request = match given {
        Some(request) => {
            if called.is_some() || args.id.is_some() || args.task.is_some() {
                return Err("the request says already what it asks; --method, --id and --task are for when \
                            there is none"
                    .to_owned());
            }
            request
        }
        None => likeliest(args, called, answer, notes)?,
    };
    if let Some(method) = http_method {
        request.method = method;
    }
    if let Some(path) = &args.path {
        let path = if path.starts_with('/') { path.clone() } else { format!("/{path}") };
        // A route that was made from an operation goes below the path.
        let below = if is_given || request.target == "/" { String::new() } else { request.target.clone() };
        request.target = if args.binding == Some(BindingName::HttpJson) && !is_route(&path, &request.method) {
            format!("{}{below}", path.trim_end_matches('/'))
        } else {
            path
        };
    }
    for line in &args.request_header {
        let (name, value) = saved::header(line)?;
        request.headers.insert(name, value);
    }
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    if !request.has_head && !request.headers.contains_key(VERSION) && !names_version(query) {
        notes.push(
            "the request's head was not saved: taken as one without A2A-Version, which means 0.3; \
             --request-header 'A2A-Version: 1.0' says otherwise"
                .to_owned(),
        );
    }
    let base = base_of(path, &request.method);
    let binding = match args.binding {
        Some(BindingName::HttpJson) => Binding::HttpJson,
        None if base.is_some() && memchr::memmem::find(&request.body, b"\"jsonrpc\"").is_none() => {
            Binding::HttpJson
        }
        Some(BindingName::JsonRpc) | None => Binding::JsonRpc,
    };
    let interface = match binding {
        Binding::JsonRpc => path.strip_suffix('/').unwrap_or(path).to_owned(),
        Binding::HttpJson => base.ok_or_else(|| {
            format!("{} {} is no route of the HTTP+JSON binding", request.method, quoted(path))
        })?,
    };
    Ok(Asked { request, binding, interface })
}

/// JSON as it is, or a file: a whole request, or its body alone.
fn read(request: &str, notes: &mut Vec<String>) -> Result<Request, String> {
    let of_body = |body: Bytes| Request {
        method: Method::POST,
        target: "/".to_owned(),
        headers: usual_headers(),
        body,
        has_head: false,
    };
    if request.trim_start().starts_with(['{', '[']) {
        return Ok(of_body(Bytes::copy_from_slice(request.as_bytes())));
    }
    if request.contains(['\r', '\n']) {
        // What is in it may be a credential.
        return Err("--request is neither JSON nor the name of a file; write a whole request to a file, and name that"
            .to_owned());
    }
    let path = Path::new(request);
    let name = input::named(path);
    let mut bytes =
        input::read(path, input::MOST).map_err(|why| format!("cannot read the request {name}: {why}"))?;
    if let Some(text) = decoded(&bytes) {
        notes.push(
            "the request's file has a byte order mark or is in UTF-16: taken as if it were plain UTF-8"
                .to_owned(),
        );
        bytes = text;
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return Ok(of_body(bytes.into())) };
    if !version.starts_with("HTTP/") {
        return Ok(of_body(bytes.into()));
    }
    let message = saved::message(&bytes).map_err(|NoHeader { number, .. }| {
        format!("the request {name}: line {number} of it is no header; write NAME: VALUE")
    })?;
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| format!("the request {name}: {} is no method", quoted(method)))?;
    Ok(Request {
        method,
        target: (*target).to_owned(),
        headers: message.headers,
        body: message.body,
        has_head: true,
    })
}

/// What `curl --json` sends. It names no version, and what nobody is known to have sent is not made up: the rules
/// that the version decides on (I-3, F-7) would say another thing than the proxy does.
fn usual_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("application/json"));
    headers
}

/// Whether the query says which version it is (I-3).
fn names_version(query: &str) -> bool {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| percent_decode(name).eq_ignore_ascii_case(VERSION) && !value.is_empty())
}

/// What was probably asked: the operation of `--method`, or a message that names no task.
fn likeliest(
    args: &Args,
    called: Option<&str>,
    answer: &[u8],
    notes: &mut Vec<String>,
) -> Result<Request, String> {
    let name = called.unwrap_or("SendMessage");
    let operation = Operation::from_method(name).or_else(|| Operation::from_method_0_3(name));
    if called.is_none() {
        notes.push(
            "no request: taken as a SendMessage that names no task; --request or --method say otherwise"
                .to_owned(),
        );
    }
    let task = args.task.clone().or_else(|| {
        operation.filter(|operation| operation.names_task()).map(|_| {
            notes.push(format!("no --task: the call is taken to name {SOME_TASK}"));
            SOME_TASK.to_owned()
        })
    });
    let headers = usual_headers();
    if args.binding == Some(BindingName::HttpJson) {
        let operation = operation.ok_or_else(|| format!("{name:?} is no operation of A2A"))?;
        let (method, target, body) = route_of(operation, task.as_deref());
        return Ok(Request { method, target, headers, body, has_head: false });
    }
    let id = match &args.id {
        Some(id) if serde_json::from_str::<&RawValue>(id).is_ok() => id.clone(),
        Some(id) => {
            // A bare word would be a guess: `7` and `"7"` are two ids.
            return Err(format!(
                "--id {} is no JSON; a text has quotes of its own: --id '\"abc\"'",
                quoted(id)
            ));
        }
        None => id_of(answer).unwrap_or_else(|| "1".to_owned()),
    };
    let params = params_of(operation, task.as_deref());
    let name = serde_json::Value::from(name);
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{name},"params":{params}}}"#);
    Ok(Request { method: Method::POST, target: "/".to_owned(), headers, body: body.into(), has_head: false })
}

/// The id that the answer has, as it is written.
fn id_of(answer: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let id = serde_json::from_slice::<Answer<'_>>(answer).ok()?.id.get();
    (id != "null").then(|| id.to_owned())
}

fn params_of(operation: Option<Operation>, task: Option<&str>) -> serde_json::Value {
    use serde_json::json;
    match (operation, task) {
        (Some(operation), Some(task)) if operation.is_push() => json!({"taskId": task, "id": "1"}),
        (Some(operation), task) if operation.is_send() => {
            let mut message = json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]});
            if let Some(task) = task
                && let Some(message) = message.as_object_mut()
            {
                message.insert("taskId".to_owned(), task.into());
            }
            json!({"message": message})
        }
        (_, Some(task)) => json!({"id": task}),
        (_, None) => json!({}),
    }
}

fn route_of(operation: Operation, task: Option<&str>) -> (Method, String, Bytes) {
    let (method, target) = operation.route(task.unwrap_or(SOME_TASK), "1");
    let body = if operation.is_send() {
        params_of(Some(operation), None).to_string()
    } else if method == Method::POST {
        "{}".to_owned()
    } else {
        String::new()
    };
    (method, target, body.into())
}

fn is_route(path: &str, method: &Method) -> bool {
    base_of(path.split('?').next().unwrap_or_default(), method).is_some()
}

/// The longest base that makes an A2A route of the rest.
fn base_of(path: &str, method: &Method) -> Option<String> {
    let plain = plain_path(path);
    let ends = plain.match_indices('/').map(|(at, _)| at).rev();
    let found = ends
        .filter_map(|at| plain.split_at_checked(at))
        .find(|(_, below)| Route::parse(below, method).is_some_and(|route| !route.has_tenant));
    found.map(|(base, _)| base.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_what_is_above_the_route() {
        for (path, base) in [
            ("/rest/tasks/t-1", Some("/rest")),
            ("/tasks/t-1:cancel", Some("")),
            ("/a/b/message:send", Some("/a/b")),
            ("/a/tasks/t/pushNotificationConfigs/c", Some("/a")),
            ("/a2a", None),
        ] {
            assert_eq!(base_of(path, &Method::POST).as_deref(), base, "{path}");
        }
    }

    #[test]
    fn an_id_is_taken_as_it_is_written() {
        assert_eq!(
            id_of(br#"{"id":1180591620717411303424,"x":1}"#).as_deref(),
            Some("1180591620717411303424")
        );
        assert_eq!(id_of(br#"{"id":null}"#), None);
        assert_eq!(id_of(b"<html>"), None);
    }
}
