//! Reads an answer as A2A 1.0 and RFC 0211 describe it, and says in words where it is otherwise.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::normalize::Binding;
use crate::protocol::a2a::{A2aError, DOMAIN};
use crate::protocol::google_rpc::{BAD_REQUEST, ERROR_INFO, is_status_word};
use crate::protocol::{openwop, sse, tree};

/// An answer whose outer form is the binding's.
#[derive(Debug)]
pub enum Read {
    Success(Value),
    Error(ErrorAnswer),
}

/// An error in the binding's outer form; what is in `details` is not judged yet.
#[derive(Debug, Clone)]
pub struct ErrorAnswer {
    pub binding: Binding,
    /// JSON-RPC's code, or a Status's HTTP status.
    pub code: i64,
    pub message: String,
    /// `data` or `details` as they are; `Null` when there are none.
    pub details: Value,
    /// Whether there is such a member, be it null.
    pub has_details: bool,
    /// A Status's word; empty on JSON-RPC.
    pub word: String,
    /// Members that the binding's shape has not.
    pub extra: Vec<String>,
    /// The raw token; `None` when there is no such member (or the binding has none).
    pub id: Option<String>,
}

/// Reads an answer's body.
///
/// # Errors
/// What it is instead.
pub fn read(binding: Binding, body: &[u8]) -> Result<Read, String> {
    let document = tree::parse(body).map_err(|_| format!("{}, no JSON", looks(body)))?;
    if document.root.has_duplicates() {
        return Err("JSON with a member twice".to_owned());
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| format!("{}, no JSON", looks(body)))?;
    if let Some(envelope) = envelope(&value) {
        return Err(envelope);
    }
    match binding {
        Binding::JsonRpc => read_json_rpc(body, &value),
        Binding::HttpJson => read_http_json(&value),
    }
}

fn read_json_rpc(body: &[u8], value: &Value) -> Result<Read, String> {
    let Some(object) = value.as_object() else {
        return Err(format!("{}, no JSON-RPC response", looks(body)));
    };
    if object.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err("JSON without \"jsonrpc\": \"2.0\"".to_owned());
    }
    match (object.get("result"), object.get("error")) {
        (Some(_), Some(error)) if !error.is_null() => Err("a response with result and error".to_owned()),
        (Some(result), _) => Ok(Read::Success(result.clone())),
        (None, Some(Value::Object(error))) => Ok(Read::Error(ErrorAnswer {
            binding: Binding::JsonRpc,
            code: integer(error.get("code"), "error.code")?,
            message: text(error.get("message"), "error.message")?,
            details: error.get("data").cloned().unwrap_or_default(),
            has_details: error.contains_key("data"),
            word: String::new(),
            extra: extra(object, &["jsonrpc", "id", "error"], error, &["code", "message", "data"]),
            id: id_of(body),
        })),
        (None, _) => Err("a response with neither result nor an error object".to_owned()),
    }
}

fn read_http_json(value: &Value) -> Result<Read, String> {
    let (Some(object), Some(error)) = (value.as_object(), value.get("error")) else {
        return Ok(Read::Success(value.clone()));
    };
    let Some(error) = error.as_object() else {
        return Err("an \"error\" that is no google.rpc.Status".to_owned());
    };
    let code = integer(error.get("code"), "error.code")?;
    let word = text(error.get("status"), "error.status")?;
    Ok(Read::Error(ErrorAnswer {
        binding: Binding::HttpJson,
        code,
        message: text(error.get("message"), "error.message")?,
        details: error.get("details").cloned().unwrap_or_default(),
        has_details: error.contains_key("details"),
        word,
        extra: extra(object, &["error"], error, &["code", "status", "message", "details"]),
        id: None,
    }))
}

/// Members on either level that are none of these.
fn extra(
    outer: &Map<String, Value>,
    known: &[&str],
    error: &Map<String, Value>,
    inner: &[&str],
) -> Vec<String> {
    let more = |object: &Map<String, Value>, known: &[&str], prefix: &str| -> Vec<String> {
        let names = object.keys().filter(|name| !known.contains(&name.as_str()));
        names.map(|name| format!("{prefix}{name}")).collect()
    };
    [more(outer, known, ""), more(error, inner, "error.")].concat()
}

fn integer(value: Option<&Value>, name: &str) -> Result<i64, String> {
    match value {
        None => Err(format!("an error without {name}")),
        Some(value) => value.as_i64().ok_or_else(|| format!("{name} is {}, no integer", short(value))),
    }
}

fn text(value: Option<&Value>, name: &str) -> Result<String, String> {
    match value {
        None => Err(format!("an error without {name}")),
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(value) => Err(format!("{name} is {}, no text", short(value))),
    }
}

/// `{error, message}` in place of the binding's shape (RFC 0211 §C).
fn envelope(value: &Value) -> Option<String> {
    let object = value.as_object().filter(|object| !object.contains_key("jsonrpc"))?;
    let code = object.get("error")?.as_str()?;
    object.get("message")?.as_str()?;
    Some(if openwop::classify(code).is_some() {
        format!("an OpenWOP error envelope ({})", brief(code))
    } else {
        "an {error, message} body".to_owned()
    })
}

/// Whether a body is one.
pub fn is_envelope(body: &[u8]) -> Option<String> {
    envelope(&serde_json::from_slice(body).ok()?)
}

/// Whether a body that need not be in shape says that there is no such task: by a code, a reason, or an envelope's word.
pub fn says_not_found(body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return false };
    if holds_success(&value) {
        return false;
    }
    let of = |object: &Value| {
        object.get("code").and_then(Value::as_i64) == Some(A2aError::TaskNotFound.code())
            || object.get("reason").and_then(Value::as_str).and_then(A2aError::from_reason)
                == Some(A2aError::TaskNotFound)
    };
    let error = value.get("error").unwrap_or(&Value::Null);
    of(&value)
        || of(error)
        || matches!(error.as_str(), Some("not_found" | "task_not_found" | "run_not_found"))
        || error.get("data").is_some_and(of)
}

/// Whether a body is one object with an `error` that is not null, whatever else is in it.
pub fn begins_as_error(body: &[u8]) -> bool {
    let members: Option<std::collections::HashMap<String, &RawValue>> = serde_json::from_slice(body).ok();
    members.and_then(|members| members.get("error").map(|raw| raw.get() != "null")).unwrap_or_default()
}

/// Whether a body has, at whatever status, what only a success has: a result, or a task.
pub fn has_success(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|value| holds_success(&value))
}

fn holds_success(value: &Value) -> bool {
    let is_task =
        |value: &Value| value.get("id").is_some() && value.get("status").is_some_and(Value::is_object);
    value.get("result").is_some_and(|result| !result.is_null())
        || value.get("task").is_some_and(Value::is_object)
        || is_task(value)
}

/// Whether an error says, at whatever status, that there were too many requests.
pub fn says_too_often(body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return false };
    let error = value.get("error").unwrap_or(&Value::Null);
    let list = error.get("data").or_else(|| error.get("details")).and_then(Value::as_array);
    let reasons = list.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
    reasons.chain(error.as_str()).any(|reason| reason.eq_ignore_ascii_case("RATE_LIMITED"))
        || error.get("status").and_then(Value::as_str) == Some("RESOURCE_EXHAUSTED")
}

/// The raw token of a JSON-RPC response's id; `None` without one.
pub fn id_of(body: &[u8]) -> Option<String> {
    // `Option` would make nothing of a null.
    let members: std::collections::HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    members.get("id").map(|raw| raw.get().to_owned())
}

/// What a body looks like, for people.
pub fn looks(body: &[u8]) -> &'static str {
    let text = body.trim_ascii_start();
    if text.is_empty() {
        "an empty body"
    } else if text.starts_with(b"<") {
        "HTML"
    } else if let Ok(value) = serde_json::from_slice::<Value>(body) {
        match value {
            Value::Object(_) => "a JSON object",
            Value::Array(_) => "a JSON array",
            _ => "a JSON scalar",
        }
    } else if std::str::from_utf8(body).is_ok() {
        "text"
    } else {
        "bytes that are no text"
    }
}

/// The same of a stream that is to be judged: all of it must be events that a client reads.
///
/// # Errors
/// What of it no client can read.
pub fn stream(body: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "bytes that are no UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with(':');
    for line in text.lines().filter(is_said) {
        let field = line.split(':').next().unwrap_or_default();
        if !matches!(field, "data" | "event" | "id" | "retry") {
            return Err(format!("a line that is no event's: {}", short(&Value::from(line))));
        }
    }
    let rest = text.rsplit_once("\n\n").map_or(text.as_str(), |(_, rest)| rest);
    match rest.lines().find(is_said) {
        Some(line) => Err(format!("an event that is cut off: {}", short(&Value::from(line)))),
        None => Ok(events(body)),
    }
}

/// The data of a stream's events with their names.
pub fn events(body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n").replace('\r', "\n");
    let Some((whole, _)) = text.rsplit_once("\n\n") else { return Vec::new() };
    let named = |(at, event): (usize, &str)| {
        let event = format!("{event}\n\n");
        let data = sse::data_of(sse::Framing::Sse, event.as_bytes(), at == 0);
        let name = String::from_utf8_lossy(sse::name_of(event.as_bytes())).into_owned();
        (!data.is_empty()).then_some((name, data))
    };
    whole.split("\n\n").enumerate().filter_map(named).collect()
}

impl ErrorAnswer {
    /// The A2A error it says it is, by its code or its reason.
    pub fn says(&self) -> Option<A2aError> {
        let by_code = match self.binding {
            Binding::JsonRpc => A2aError::from_code(self.code),
            Binding::HttpJson => None,
        };
        by_code.or_else(|| self.info().and_then(|info| A2aError::from_reason(info.get("reason")?.as_str()?)))
    }

    /// The first ErrorInfo.
    pub fn info(&self) -> Option<&Value> {
        self.infos().next()
    }

    fn infos(&self) -> impl Iterator<Item = &Value> {
        let list = self.details.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter(|detail| detail.get("@type").and_then(Value::as_str) == Some(ERROR_INFO))
    }

    /// The reason, if there is an ErrorInfo.
    pub fn reason(&self) -> Option<&str> {
        self.info()?.get("reason")?.as_str()
    }

    /// What it is called in a sentence.
    pub fn name(&self) -> String {
        match (self.binding, self.reason()) {
            (_, Some(reason)) => format!("{} {}", self.code, brief(reason)),
            (Binding::JsonRpc | Binding::HttpJson, None) => self.code.to_string(),
        }
    }

    /// That it is this A2A error in the shape of RFC 0211 §A or §B.
    ///
    /// # Errors
    /// Where it is not.
    pub fn is(&self, error: A2aError) -> Result<(), String> {
        let (member, code) = match self.binding {
            Binding::JsonRpc => ("error.data", error.code()),
            Binding::HttpJson => ("error.details", i64::from(error.http_status())),
        };
        if self.code != code {
            return Err(format!("{} instead of {code} {}", self.name(), error.reason()));
        }
        match &self.details {
            Value::Array(list) if list.is_empty() => return Err(format!("{member} is empty, no ErrorInfo")),
            Value::Array(_) => {}
            Value::Null if self.has_details => return Err(format!("{member} is null, no ErrorInfo")),
            Value::Null => return Err(format!("{member} is absent, no ErrorInfo")),
            Value::Object(_) => return Err(format!("{member} is an object, not an array of typed details")),
            other => return Err(format!("{member} is {}, not an array of typed details", short(other))),
        }
        match self.infos().count() {
            0 => return Err(format!("{member} has no {ERROR_INFO}")),
            1 => {}
            many => return Err(format!("{member} has {many} ErrorInfos instead of one")),
        }
        let says = |name| self.info().and_then(|info| info.get(name)).cloned().unwrap_or_default();
        if says("reason") != error.reason() {
            return Err(format!("reason is {} instead of {}", short(&says("reason")), error.reason()));
        }
        if says("domain") != DOMAIN {
            return Err(format!("domain is {} instead of {DOMAIN}", short(&says("domain"))));
        }
        Ok(())
    }

    /// That it is in shape, whatever error it is: an A2A error in full; of others, details that are typed and
    /// no A2A reason on invalid parameters (RFC 0211 §A).
    ///
    /// # Errors
    /// Where it is not.
    pub fn is_in_shape(&self) -> Result<(), String> {
        if let (Binding::JsonRpc, Some(error)) = (self.binding, A2aError::from_code(self.code)) {
            return self.is(error);
        }
        let member = match self.binding {
            Binding::JsonRpc => "error.data",
            Binding::HttpJson => "error.details",
        };
        let list = match &self.details {
            Value::Null => return Ok(()),
            Value::Array(list) => list,
            other => return Err(format!("{member} is {}, not an array of typed details", short(other))),
        };
        if let Some(untyped) =
            list.iter().find(|detail| detail.get("@type").and_then(Value::as_str).is_none())
        {
            return Err(format!("{member} has an entry without @type: {}", short(untyped)));
        }
        // Without a domain it is A2A's (F-2).
        let is_a2a = |info: &Value| info.get("domain").is_none_or(|domain| domain == DOMAIN);
        if self.code == -32602 && self.info().is_some_and(is_a2a) {
            return Err("-32602 carries an A2A reason".to_owned());
        }
        Ok(())
    }

    /// That it is in shape as the error that it says it is, over either binding.
    ///
    /// # Errors
    /// Where it is not.
    pub fn is_of_its_kind(&self) -> Result<(), String> {
        self.says().map_or_else(|| self.is_in_shape(), |said| self.is(said))
    }

    /// That it has the members of its shape and no others, none of them empty, and a Status the word of its code
    /// (E-1, E-4).
    ///
    /// # Errors
    /// Where it is not.
    pub fn has_its_members(&self) -> Result<(), String> {
        if let Some(first) = self.extra.first() {
            return Err(format!("a member {:?} that the shape has not", brief(first)));
        }
        let member = match self.binding {
            Binding::JsonRpc => "error.data",
            Binding::HttpJson => "error.details",
        };
        match &self.details {
            Value::Null if self.has_details => {
                return Err(format!("{member} is null where it must be absent"));
            }
            Value::Array(list) if list.is_empty() => {
                return Err(format!("{member} is [] where it must be absent"));
            }
            _ => {}
        }
        if let Some(id) = &self.id
            && id.starts_with(['{', '[', 't', 'f'])
        {
            return Err(format!("the id is {}, neither string nor number nor null", brief(id)));
        }
        if self.binding == Binding::HttpJson {
            let said = self.says().filter(|said| self.code == i64::from(said.http_status()));
            let wanted = said.map_or_else(|| words_of(self.code).to_vec(), |said| vec![said.status_word()]);
            let fits = if wanted.is_empty() {
                is_status_word(&self.word)
            } else {
                wanted.contains(&self.word.as_str())
            };
            if !fits {
                let wanted =
                    if wanted.is_empty() { "a google.rpc.Code".to_owned() } else { wanted.join(" or ") };
                return Err(format!("status is {:?} where {} has {wanted}", brief(&self.word), self.code));
            }
        }
        Ok(())
    }

    /// Whether invalid parameters say which.
    pub fn has_bad_request(&self) -> bool {
        let list = self.details.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().any(|detail| detail.get("@type").and_then(Value::as_str) == Some(BAD_REQUEST))
    }
}

/// The words that google.rpc.Code has for an HTTP status; none where it has no rule.
fn words_of(status: i64) -> &'static [&'static str] {
    match status {
        400 | 413 | 415 | 422 => &["INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"],
        401 | 407 => &["UNAUTHENTICATED"],
        403 => &["PERMISSION_DENIED"],
        404 => &["NOT_FOUND"],
        405 => &["NOT_FOUND", "UNIMPLEMENTED", "INVALID_ARGUMENT"],
        409 => &["ABORTED", "ALREADY_EXISTS", "FAILED_PRECONDITION"],
        429 => &["RESOURCE_EXHAUSTED"],
        500 => &["INTERNAL", "UNKNOWN", "DATA_LOSS"],
        501 => &["UNIMPLEMENTED"],
        502 | 503 => &["UNAVAILABLE"],
        504 => &["DEADLINE_EXCEEDED"],
        _ => &[],
    }
}

/// A value on a few columns.
pub fn short(value: &Value) -> String {
    brief(&value.to_string())
}

/// A text on a few columns.
pub fn brief(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(59).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;

    fn error(binding: Binding, body: &str) -> Result<ErrorAnswer, String> {
        match read(binding, body.as_bytes())? {
            Read::Error(error) => Ok(error),
            Read::Success(_) => Err("a success".to_owned()),
        }
    }

    fn verdict(body: &str) -> String {
        let judged = error(Binding::JsonRpc, body).and_then(|error| error.is(A2aError::TaskNotFound));
        judged.map_or_else(|why| why, |()| "good".to_owned())
    }

    /// The examples of RFC 0211, and the sabotages that it names.
    #[test]
    fn json_rpc_errors_are_judged_by_section_a() {
        assert_eq!(verdict(GOOD), "good");
        for (from, to, why) in [
            ("-32001", "-32603", "-32603 TASK_NOT_FOUND instead of -32001 TASK_NOT_FOUND"),
            ("-32001", "\"-32001\"", "error.code is \"-32001\", no integer"),
            ("[{", "[{}],\"x\":[{", "error.data has no type.googleapis.com/google.rpc.ErrorInfo"),
            ("TASK_NOT_FOUND", "TaskNotFound", "reason is \"TaskNotFound\" instead of TASK_NOT_FOUND"),
            ("a2a-protocol.org", "example.com", "domain is \"example.com\" instead of a2a-protocol.org"),
            ("\"m\"", "\"\"", "error.message is \"\", no text"),
            ("\"2.0\"", "\"1.0\"", "JSON without \"jsonrpc\": \"2.0\""),
            ("\"id\":7", "\"id\":7,\"id\":8", "JSON with a member twice"),
            ("\"id\":7", "\"result\":{}", "a response with result and error"),
        ] {
            assert_eq!(verdict(&GOOD.replacen(from, to, 1)), why, "{to}");
        }
        let with = |data: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32001,"message":"m"{data}}}}}"#)
        };
        assert_eq!(verdict(&with("")), "error.data is absent, no ErrorInfo");
        assert_eq!(verdict(&with(r#","data":[]"#)), "error.data is empty, no ErrorInfo");
        assert_eq!(
            verdict(&with(r#","data":{"reason":"TASK_NOT_FOUND"}"#)),
            "error.data is an object, not an array of typed details"
        );
    }

    /// E-1 and E-4: nothing else on either level, no `data` that is empty, the word of the code.
    #[test]
    fn members_are_those_of_the_shape() {
        let of = |binding, body: &str| error(binding, body).and_then(|error| error.has_its_members());
        let rpc = |more: &str| {
            of(
                Binding::JsonRpc,
                &format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32700,"message":"m"{more}}}"#),
            )
        };
        assert_eq!(rpc("}"), Ok(()));
        assert!(of(Binding::JsonRpc, GOOD).is_ok());
        for (more, why) in [
            (r#","data":null}"#, "error.data is null where it must be absent"),
            (r#","data":[]}"#, "error.data is [] where it must be absent"),
            (r#","stack":"x"}"#, r#"a member "error.stack" that the shape has not"#),
            (r#"},"result":null"#, "a response with result and error"),
            (r#"},"timestamp":1"#, r#"a member "timestamp" that the shape has not"#),
        ] {
            let found = rpc(more);
            assert_eq!(found.unwrap_err(), why, "{more}");
        }
        for id in ["{}", "[7]", "true"] {
            let found = of(Binding::JsonRpc, &GOOD.replace(":7", &format!(":{id}"))).unwrap_err();
            assert!(found.contains("neither string nor number"), "{found}");
        }
        let status = |code: u16, word: &str, more: &str| {
            of(
                Binding::HttpJson,
                &format!(r#"{{"error":{{"code":{code},"status":"{word}","message":"m"{more}}}}}"#),
            )
        };
        assert_eq!(status(400, "INVALID_ARGUMENT", ""), Ok(()));
        assert_eq!(status(418, "ABORTED", ""), Ok(()));
        assert!(status(418, "TEAPOT", "").is_err());
        assert_eq!(
            status(404, "FAILED_PRECONDITION", ""),
            Err("status is \"FAILED_PRECONDITION\" where 404 has NOT_FOUND".to_owned())
        );
        assert!(status(404, "NOT_FOUND", r#","details":[]"#).unwrap_err().contains("error.details is []"));
        let info = r#","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]"#;
        assert_eq!(status(400, "FAILED_PRECONDITION", info), Ok(()));
        assert!(status(400, "INVALID_ARGUMENT", info).is_err());
    }

    #[test]
    fn what_says_not_found_need_not_be_in_shape() {
        for body in [
            r#"{"code":-32001,"message":"m"}"#,
            r#"{"error":{"code":-32001}}"#,
            r#"{"error":"not_found","message":"m"}"#,
            r#"{"error":{"code":1,"data":{"reason":"TaskNotFoundError"}}}"#,
        ] {
            assert!(says_not_found(body.as_bytes()), "{body}");
        }
        for body in ["", r#"{"error":"run_forbidden"}"#, r#"{"error":{"code":-32603}}"#] {
            assert!(!says_not_found(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_is_no_answer_of_the_binding_is_named() {
        for (body, why) in [
            ("", "an empty body, no JSON"),
            ("<html>", "HTML, no JSON"),
            ("oops", "text, no JSON"),
            ("[]", "a JSON array, no JSON-RPC response"),
            (r#"{"error":"run_forbidden","message":"no"}"#, "an OpenWOP error envelope (run_forbidden)"),
            (r#"{"error":"io.a2a.X","message":"no"}"#, "an {error, message} body"),
            (r#"{"detail":"Not Found"}"#, "JSON without \"jsonrpc\": \"2.0\""),
        ] {
            assert_eq!(verdict(body), why, "{body}");
        }
    }

    #[test]
    fn a_status_is_judged_by_section_b() {
        let good = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;
        let judge = |body: &str| error(Binding::HttpJson, body).and_then(|e| e.is(A2aError::TaskNotFound));
        assert_eq!(judge(good), Ok(()));
        assert_eq!(
            judge(&good.replace("\"status\":\"NOT_FOUND\",", "")),
            Err("an error without error.status".into())
        );
        assert!(judge(r#"{"error":"x"}"#).is_err());
    }

    #[test]
    fn ids_keep_their_digits() {
        let id = |id: &str| error(Binding::JsonRpc, &GOOD.replace(":7", &format!(":{id}"))).unwrap().id;
        assert_eq!(id("1180591620717411303424").as_deref(), Some("1180591620717411303424"));
        assert_eq!(id("null").as_deref(), Some("null"));
        assert_eq!(error(Binding::JsonRpc, &GOOD.replace("\"id\":7,", "")).unwrap().id, None);
    }

    #[test]
    fn events_are_cut_at_empty_lines() {
        let found = events(b": hi\n\nevent: error\r\ndata: a\r\ndata: b\r\n\r\ndata: cut");
        assert_eq!(found, [("error".to_owned(), b"a\nb".to_vec())]);
    }
}
