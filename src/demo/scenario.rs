//! What one scenario is: a call, what the legacy host answers, and what the client must get.
//!
//! Plain data without I/O. A scenario names its request in full (method, path, headers, body), so
//! that other bindings, streams and agent cards are more entries, not another model.

use std::io::Write as _;

use crate::normalize::{Binding, Rule};

/// The path of the demo host's JSON-RPC interface.
pub const INTERFACE: &str = "/a2a";
/// The base path of its HTTP+JSON interface.
pub const REST_INTERFACE: &str = "/rest";

/// The scenario whose answer every other "not found" must equal: a task that does not exist.
pub const REFERENCE: &str = "unknown-task";

/// The chapters of the catalogue, in the order they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    Data,
    Codes,
    NotFound,
    OpenWop,
    Frameworks,
    Ids,
    BrokenJson,
    Transport,
    Streams,
    Rest,
    Profile,
    Untouched,
}

impl Group {
    pub const ALL: &'static [Self] = &[
        Self::Data,
        Self::Codes,
        Self::NotFound,
        Self::OpenWop,
        Self::Frameworks,
        Self::Ids,
        Self::BrokenJson,
        Self::Transport,
        Self::Streams,
        Self::Rest,
        Self::Profile,
        Self::Untouched,
    ];

    /// The chapter's heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Data => "error.data in every shape but the right one",
            Self::Codes => "Codes, reasons and messages that mislead",
            Self::NotFound => "Somebody else's task, and no task at all: one answer",
            Self::OpenWop => "OpenWOP envelopes on an A2A interface",
            Self::Frameworks => "Frameworks and gateways that answer for the host",
            Self::Ids => "Ids that come back wrong",
            Self::BrokenJson => "JSON that parsers disagree about",
            Self::Transport => "Bytes: encodings, lengths, sizes, hosts that die",
            Self::Streams => "Streams: errors before, between and in place of events",
            Self::Rest => "The HTTP+JSON binding",
            Self::Profile => "A closed error profile",
            Self::Untouched => "What must stay exactly as it is",
        }
    }
}

/// A request, complete but for `Host` and the framing.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: &'static str,
    /// Without a query.
    pub path: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Call {
    /// A JSON-RPC call from its raw tokens: `id` and `params` are JSON.
    #[must_use]
    pub fn json_rpc(id: &str, method: &str, params: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        Self::post(body)
    }

    /// A POST of these bytes to the interface.
    #[must_use]
    pub fn post(body: String) -> Self {
        Self {
            method: "POST",
            path: INTERFACE,
            headers: vec![("content-type", "application/json".to_owned()), ("a2a-version", "1.0".to_owned())],
            body: body.into_bytes(),
        }
    }

    /// The same call that asks for a stream of events.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.headers.push(("accept", "text/event-stream".to_owned()));
        self
    }

    /// A call of the HTTP+JSON binding.
    #[must_use]
    pub fn rest(method: &'static str, path: &'static str, body: &str) -> Self {
        Self { method, path, ..Self::post(body.to_owned()) }
    }

    /// Whether it asks for a stream of events.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == "accept")
    }

    /// Which of the host's interfaces it is for; `None` for other URLs.
    #[must_use]
    pub fn interface(&self) -> Option<(&'static str, Binding)> {
        let below = self.path.strip_prefix(REST_INTERFACE);
        if self.path == INTERFACE {
            Some((INTERFACE, Binding::JsonRpc))
        } else if below.is_some_and(|rest| rest.starts_with("/tasks/") || rest.starts_with("/message:")) {
            Some((REST_INTERFACE, Binding::HttpJson))
        } else {
            None
        }
    }

    /// A GET without a body.
    #[must_use]
    pub fn get(path: &'static str) -> Self {
        Self { method: "GET", path, headers: Vec::new(), body: Vec::new() }
    }

    /// The same call that asks for this protocol version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        for (name, value) in &mut self.headers {
            if *name == "a2a-version" {
                version.clone_into(value);
            }
        }
        self
    }

    /// The path with the query that selects a scenario.
    #[must_use]
    pub fn target(&self, scenario: &str) -> String {
        format!("{}?fault={scenario}", self.path)
    }
}

/// How the body's bytes are encoded before they are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    /// UTF-8 behind a byte order mark.
    Bom,
    /// UTF-16, little endian, behind a byte order mark.
    Utf16,
    /// With `Content-Encoding: gzip`, whatever the request accepts.
    Gzip,
}

/// How the body's end is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`, correct.
    Length,
    /// `Content-Length`, this many bytes off.
    LengthOff(isize),
    /// Chunks of this many bytes.
    Chunked(usize),
    /// Neither: the connection's end is the body's.
    Close,
}

/// What happens to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It stays open for the next request.
    KeepAlive,
    /// It is closed after the bytes, complete or not.
    HangUp,
    /// It is closed without a single byte.
    Silence,
}

/// What the host says. In `body`, `$ID` stands for the request's id as it was written (`null` without
/// one), `$TASK` for the task it names.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
    pub encoding: Encoding,
    pub framing: Framing,
    pub ending: Ending,
    /// In place of the status's own reason phrase; empty for that one.
    pub phrase: &'static str,
    /// Behind the last chunk.
    pub trailers: Vec<(&'static str, &'static str)>,
}

impl Answer {
    #[must_use]
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let headers = if content_type.is_empty() { Vec::new() } else { vec![("content-type", content_type)] };
        Self {
            status,
            headers,
            body: body.into(),
            encoding: Encoding::Plain,
            framing: Framing::Length,
            ending: Ending::KeepAlive,
            phrase: "",
            trailers: Vec::new(),
        }
    }

    #[must_use]
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json", body)
    }

    /// A JSON-RPC error at 200 that echoes the id; `members` are the error object's.
    #[must_use]
    pub fn error(members: &str) -> Self {
        Self::json(200, format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{{members}}}}}"#))
    }

    /// A stream of these events, in chunks.
    #[must_use]
    pub fn stream(events: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream", events).framing(Framing::Chunked(40))
    }

    /// A JSON-RPC success; `result` is JSON.
    #[must_use]
    pub fn result(result: &str) -> Self {
        Self::json(200, format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#))
    }

    /// An `OpenWOP` envelope; `more` is what follows the two members, with its comma.
    #[must_use]
    pub fn envelope(status: u16, code: &str, message: &str, more: &str) -> Self {
        let body = format!(r#"{{"error":"{code}","message":"{message}"{more}}}"#);
        Self::new(status, "application/json; charset=utf-8", body)
    }

    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name || name == "set-cookie");
        self.headers.push((name, value));
        self
    }

    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Everything that is written for a request with this id and task, head and framing included;
    /// empty for [`Ending::Silence`].
    #[must_use]
    pub fn wire(&self, id: &str, task: &str) -> Vec<u8> {
        if self.ending == Ending::Silence {
            return Vec::new();
        }
        let body = self.encoding.apply(&fill(&self.body, id, task));
        let reason = http::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|s| s.canonical_reason())
            .unwrap_or("Unknown");
        let reason = if self.phrase.is_empty() { reason } else { self.phrase };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        let mut line = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        for (name, value) in &self.headers {
            line(name, value);
        }
        if self.encoding == Encoding::Gzip {
            line("content-encoding", "gzip");
        }
        match self.framing {
            _ if self.status == 204 => {}
            Framing::Length => line("content-length", &body.len().to_string()),
            Framing::LengthOff(by) => {
                line("content-length", &body.len().saturating_add_signed(by).to_string());
            }
            Framing::Chunked(_) => line("transfer-encoding", "chunked"),
            Framing::Close => {}
        }
        if self.closes() {
            line("connection", "close");
        }
        head.push_str("\r\n");
        let mut wire = head.into_bytes();
        match self.framing {
            Framing::Chunked(size) => {
                for chunk in body.chunks(size.max(1)) {
                    wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    wire.extend_from_slice(chunk);
                    wire.extend_from_slice(b"\r\n");
                }
                if self.ending == Ending::KeepAlive {
                    wire.extend_from_slice(b"0\r\n");
                    for (name, value) in &self.trailers {
                        wire.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                    }
                    wire.extend_from_slice(b"\r\n");
                }
            }
            Framing::Length | Framing::LengthOff(_) | Framing::Close => wire.extend_from_slice(&body),
        }
        wire
    }

    /// Whether the connection ends with this answer.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.ending != Ending::KeepAlive || matches!(self.framing, Framing::Close | Framing::LengthOff(_))
    }
}

impl Encoding {
    fn apply(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => body.to_vec(),
            Self::Bom => [b"\xef\xbb\xbf", body].concat(),
            Self::Utf16 => {
                let text = String::from_utf8_lossy(body);
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                units.flat_map(u16::to_le_bytes).collect()
            }
            Self::Gzip => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                // Writing to memory does not fail.
                let _ = gzip.write_all(body);
                gzip.finish().unwrap_or_default()
            }
        }
    }
}

/// `template` with `$ID` and `$TASK` filled in.
fn fill(template: &[u8], id: &str, task: &str) -> Vec<u8> {
    let mut filled = Vec::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = memchr::memchr(b'$', rest) {
        let (before, from) = rest.split_at(at);
        filled.extend_from_slice(before);
        rest = if let Some(after) = from.strip_prefix(b"$ID") {
            filled.extend_from_slice(id.as_bytes());
            after
        } else if let Some(after) = from.strip_prefix(b"$TASK") {
            filled.extend_from_slice(task.as_bytes());
            after
        } else {
            filled.push(b'$');
            from.get(1..).unwrap_or_default()
        };
    }
    filled.extend_from_slice(rest);
    filled
}

/// What the client must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// A JSON-RPC error in shape, with this HTTP status, code and ErrorInfo reason (E-1, E-2).
    Fault { status: u16, code: i64, reason: Option<&'static str> },
    /// A `google.rpc.Status` with this HTTP status, word and reason (E-4).
    Status { status: u16, word: &'static str, reason: &'static str },
    /// A stream that begins with this many of the host's own events, untouched, and ends with an error
    /// in shape: one of JSON-RPC's with this code, or `event: error` with a Status of this code (S-3).
    Event { after: usize, code: i64, reason: Option<&'static str> },
    /// The one fixed "task not found": the same bytes as the reference's (O-1).
    NotFound,
    /// The host's own status, headers and bytes (I-4, E-9).
    Untouched,
}

/// One thing that goes wrong, or right.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Selects it: in `?fault=NAME`, or as the task's id.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub title: &'static str,
    /// Which hosts in the field do it.
    pub seen_at: &'static str,
    pub group: Group,
    pub call: Call,
    pub answer: Answer,
    pub expect: Expect,
    /// The rules it is there for; more may fire.
    pub rules: &'static [Rule],
}

impl Scenario {
    /// Starts as a success that must stay untouched; `becomes`, `not_found` and `rules` say more.
    #[must_use]
    pub fn new(
        group: Group,
        name: &'static str,
        title: &'static str,
        seen_at: &'static str,
        call: Call,
        answer: Answer,
    ) -> Self {
        Self { name, title, seen_at, group, call, answer, expect: Expect::Untouched, rules: &[] }
    }

    /// The client must get this fault; an empty `reason` is none.
    #[must_use]
    pub fn becomes(mut self, status: u16, code: i64, reason: &'static str) -> Self {
        self.expect = Expect::Fault { status, code, reason: (!reason.is_empty()).then_some(reason) };
        self
    }

    /// The client must get this Status.
    #[must_use]
    pub fn status(mut self, status: u16, word: &'static str, reason: &'static str) -> Self {
        self.expect = Expect::Status { status, word, reason };
        self
    }

    /// The client must get this many events as they came, and this error; an empty `reason` is none.
    #[must_use]
    pub fn event(mut self, after: usize, code: i64, reason: &'static str) -> Self {
        self.expect = Expect::Event { after, code, reason: (!reason.is_empty()).then_some(reason) };
        self
    }

    /// The scenario that the same call would be if there were no such task.
    #[must_use]
    pub fn reference(&self) -> &'static str {
        match self.call.interface() {
            Some((_, Binding::HttpJson)) => "rest-unknown-task",
            _ if self.call.is_streaming() => "stream-unknown-task",
            _ => REFERENCE,
        }
    }

    /// The client must get the fixed "task not found".
    #[must_use]
    pub fn not_found(mut self) -> Self {
        self.expect = Expect::NotFound;
        self
    }

    #[must_use]
    pub fn rules(mut self, rules: &'static [Rule]) -> Self {
        self.rules = rules;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_and_task_are_filled_in_and_other_dollars_stay() {
        assert_eq!(fill(b"$ID of $TASK costs $5, $ID", "\"x\"", "t"), b"\"x\" of t costs $5, \"x\"");
    }

    #[test]
    fn a_length_can_be_off_and_a_chunked_body_can_lack_its_end() {
        let answer = Answer::json(200, "{}").framing(Framing::LengthOff(3));
        assert!(answer.wire("1", "t").ends_with(b"content-length: 5\r\nconnection: close\r\n\r\n{}"));
        let answer = Answer::json(200, "{}").framing(Framing::Chunked(1)).ending(Ending::HangUp);
        assert!(answer.wire("1", "t").ends_with(b"\r\n\r\n1\r\n{\r\n1\r\n}\r\n"));
    }

    #[test]
    fn silence_is_not_a_byte() {
        assert!(Answer::json(200, "{}").ending(Ending::Silence).wire("1", "t").is_empty());
    }

    #[test]
    fn utf16_and_gzip_decode_to_the_body() {
        let utf16 = Encoding::Utf16.apply(b"{}");
        assert_eq!(utf16, [0xff, 0xfe, b'{', 0, b'}', 0]);
        let mut text = String::new();
        let zipped = Encoding::Gzip.apply(b"{}");
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&zipped[..]), &mut text).unwrap();
        assert_eq!(text, "{}");
    }
}
