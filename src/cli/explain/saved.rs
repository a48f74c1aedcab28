//! Reads answers as people save them: `curl -i` output, a HAR file, or a bare body.
//!
//! Tools undo codings and keep the headers that told of them. What is plainly undone is taken so, with a
//! note; `--wire` says that nothing was, and then the framing counts as it does on a socket.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::outbound::{Typed, shown};

/// A message's head and what follows it.
#[derive(Debug)]
pub struct Message {
    /// The request or status line.
    pub first: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An answer and what had to be assumed to read it.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the body ended where its framing said.
    pub complete: bool,
}

/// A request as a HAR file keeps it.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What the command line says about the answer.
#[derive(Debug, Default)]
pub struct Said<'a> {
    pub status: Option<u16>,
    pub headers: &'a [String],
    /// Nothing was undone by whoever saved it.
    pub wire: bool,
    /// Which entry of a HAR file, from 1.
    pub entry: Option<usize>,
}

/// Reads an answer in any of the three forms; of a HAR file also the request.
///
/// # Errors
/// In one line, what is wrong with it.
pub fn read(
    bytes: &[u8],
    said: &Said<'_>,
    notes: &mut Vec<String>,
) -> Result<(Answer, Option<Request>), String> {
    let (mut answer, request) = if let Some(har) = as_har(bytes)? {
        let (answer, request) = har.entry(said.entry)?;
        (answer, Some(request))
    } else if let Some(entry) = said.entry {
        return Err(format!("--entry {entry} is of a HAR file, and this is none"));
    } else if bytes.starts_with(b"HTTP/") {
        (of_message(bytes, said, notes)?, None)
    } else {
        if bytes.is_empty() && said.status.is_none() && said.headers.is_empty() {
            return Err("there is no answer in it; for one with an empty body give --status".to_owned());
        }
        (bare(bytes, notes, said), None)
    };
    if let Some(status) = said.status {
        answer.status = StatusCode::from_u16(status).map_err(|_| format!("{status} is no HTTP status"))?;
    }
    let mut seen = Vec::new();
    for line in said.headers {
        let (name, value) = header(line)?;
        if !seen.contains(&name) {
            answer.headers.remove(&name);
            seen.push(name.clone());
        }
        answer.headers.append(name, value);
    }
    if answer.status.is_informational() {
        return Err(format!("{} is no final answer", answer.status.as_u16()));
    }
    Ok((answer, request))
}

/// `NAME: VALUE`.
///
/// # Errors
/// When it is no header. What was given may be a credential: it is not repeated.
pub fn header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = line.split_once(':').ok_or("a header without a colon; write NAME: VALUE")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| "a header with a name that is none; write NAME: VALUE")?;
    let value = HeaderValue::from_bytes(value.trim().as_bytes())
        .map_err(|_| format!("what {name} is set to is no header's value"))?;
    Ok((name, value))
}

/// Cuts a message into its head and its body. Lines may end with LF alone.
///
/// # Errors
/// When the head has no end or a line of it is no header.
pub fn message(bytes: &[u8]) -> Result<Message, String> {
    let mut rest = bytes;
    let mut lines = Vec::new();
    loop {
        let end = memchr::memchr(b'\n', rest);
        let Some((line, after)) = end.and_then(|end| Some((rest.get(..end)?, rest.get(end + 1..)?))) else {
            // Editors and shells take the last line's end away.
            lines.push(rest);
            rest = &[];
            break;
        };
        rest = after;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let at = memchr::memchr(b':', line);
        let parsed = at.and_then(|at| {
            let name = HeaderName::from_bytes(line.get(..at)?.trim_ascii()).ok()?;
            Some((name, HeaderValue::from_bytes(line.get(at + 1..)?.trim_ascii()).ok()?))
        });
        let (name, value) = parsed
            .ok_or_else(|| format!("a line of its head is no header: {:?}", String::from_utf8_lossy(line)))?;
        headers.append(name, value);
    }
    Ok(Message { first, headers, body: Bytes::copy_from_slice(rest) })
}

/// `curl -i` output. Interim answers, and those that a redirect or a proxy gave before, come first.
fn of_message(bytes: &[u8], said: &Said<'_>, notes: &mut Vec<String>) -> Result<Answer, String> {
    let mut message = message(bytes)?;
    let mut status = status_of(&message.first)?;
    while message.body.starts_with(b"HTTP/") && (status.is_informational() || !said.wire) {
        message = self::message(&message.body)?;
        status = status_of(&message.first)?;
    }
    let Message { mut headers, mut body, .. } = message;
    let is_chunked = headers
        .get(TRANSFER_ENCODING)
        .is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
    let mut complete = true;
    if is_chunked {
        match unchunk(&body) {
            Some((plain, whole)) if said.wire || whole => {
                body = plain.into();
                complete = whole;
            }
            _ if said.wire => return Err("its chunks cannot be read".to_owned()),
            // The tool has undone them.
            _ => {}
        }
    } else if said.wire
        && let Some(length) = length
    {
        complete = body.len() >= length;
        body.truncate(length);
    }
    if !said.wire {
        if is_chunked {
            headers.remove(TRANSFER_ENCODING);
        }
        if headers.contains_key(CONTENT_ENCODING) && looks_like_text(&body) {
            notes.push("the body is plain text: whoever saved it undid the Content-Encoding".to_owned());
            headers.remove(CONTENT_ENCODING);
        }
        if length.is_some_and(|length: usize| length != body.len()) {
            notes.push(format!(
                "Content-Length does not fit the {} bytes that were saved; with --wire it counts",
                body.len()
            ));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
    }
    Ok(Answer { status, headers, body, complete })
}

fn status_of(first: &str) -> Result<StatusCode, String> {
    let status = first.split_ascii_whitespace().nth(1);
    let status = status.and_then(|status| StatusCode::from_bytes(status.as_bytes()).ok());
    status.ok_or_else(|| format!("{first:?} is no status line"))
}

/// The bytes in the chunks and whether the last one came; `None` when they are no chunks.
fn unchunk(bytes: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut rest = bytes;
    let mut plain = Vec::new();
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let line = std::str::from_utf8(rest.get(..end)?).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = rest.get(end + 2..)?;
        if size == 0 {
            return Some((plain, true));
        }
        let Some(chunk) = rest.get(..size) else {
            plain.extend_from_slice(rest);
            return Some((plain, false));
        };
        plain.extend_from_slice(chunk);
        rest = rest.get(size..)?;
        if rest.is_empty() {
            return Some((plain, false));
        }
        rest = rest.strip_prefix(b"\r\n")?;
    }
    Some((plain, false)).filter(|_| rest.is_empty())
}

/// Text as servers send it begins in one of these ways; compressed bytes do not.
fn looks_like_text(body: &[u8]) -> bool {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_none_or(|first| b"{[<".contains(first)) && std::str::from_utf8(body).is_ok()
}

/// A body alone: what it is, is told by its first character.
fn bare(body: &[u8], notes: &mut Vec<String>, said: &Said<'_>) -> Answer {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let media = match first {
        Some(b'{' | b'[') => Some("application/json"),
        Some(b'<') => Some("text/html"),
        Some(_) => Some("text/plain"),
        None => None,
    };
    let mut headers = HeaderMap::new();
    if let Some(media) = media {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if said.status.is_none() {
        notes
            .push("a body without a head: taken as HTTP 200; --status and --header say otherwise".to_owned());
    }
    Answer { status: StatusCode::OK, headers, body: Bytes::copy_from_slice(body), complete: true }
}

/// An HTTP archive (HAR 1.2), as far as an answer needs it. Browsers fill archives with what is no HTTP at all, so an
/// entry is read when it is chosen.
struct Har {
    entries: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Entry {
    request: HarRequest,
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    headers: Option<Vec<HarHeader>>,
    post_data: Option<HarContent>,
}

#[derive(Deserialize)]
struct HarResponse {
    status: u16,
    headers: Option<Vec<HarHeader>>,
    content: Option<HarContent>,
}

#[derive(Deserialize)]
struct HarHeader {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct HarContent {
    size: Option<f64>,
    text: Option<String>,
    encoding: Option<String>,
}

/// `None` if it is something else.
fn as_har(bytes: &[u8]) -> Result<Option<Har>, String> {
    #[derive(Deserialize)]
    struct Looks<'a> {
        #[serde(borrow)]
        log: &'a RawValue,
        /// What an answer of either binding has.
        jsonrpc: Option<serde::de::IgnoredAny>,
        error: Option<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Log {
        entries: Option<Vec<Box<RawValue>>>,
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let looks: Looks<'_> = match serde_json::from_slice(bytes) {
        Ok(looks) => looks,
        // Cut off while it was saved, say.
        Err(why) if !why.is_data() && begins_like_har(bytes) => {
            return Err(format!("it begins like a HAR file and is no JSON: {why}"));
        }
        Err(_) => return Ok(None),
    };
    if !looks.log.get().starts_with('{') || looks.jsonrpc.is_some() || looks.error.is_some() {
        return Ok(None);
    }
    match serde_json::from_str(looks.log.get()) {
        Ok(Log { entries: Some(entries) }) => Ok(Some(Har { entries })),
        Ok(Log { entries: None }) => Err("it looks like a HAR file and has no log.entries".to_owned()),
        Err(why) => Err(format!("it looks like a HAR file and cannot be read as one: {why}")),
    }
}

/// `{"log":{`, with any white space.
fn begins_like_har(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    [&b"{"[..], b"\"log\"", b":", b"{"].iter().all(|token| {
        rest = rest.trim_ascii_start();
        rest.strip_prefix(*token).map(|after| rest = after).is_some()
    })
}

/// Entries that are listed to choose from.
const LISTED: usize = 20;

impl Har {
    fn entry(&self, number: Option<usize>) -> Result<(Answer, Request), String> {
        let (number, entry) = match (number, self.entries.as_slice()) {
            (_, []) => return Err("the HAR file has no entries".to_owned()),
            (None, [one]) => (1, one),
            (None, many) => {
                let list: String =
                    many.iter().take(LISTED).enumerate().map(|(at, entry)| line(at + 1, entry)).collect();
                let more = if many.len() > LISTED { "\n  …" } else { "" };
                return Err(format!("it has {} entries; choose one with --entry N:{list}{more}", many.len()));
            }
            (Some(number), many) => {
                let entry = number.checked_sub(1).and_then(|at| many.get(at));
                let none = || format!("there is no entry {number}; it has {}", many.len());
                (number, entry.ok_or_else(none)?)
            }
        };
        let entry: Entry = serde_json::from_str(entry.get())
            .map_err(|why| format!("entry {number} of the HAR file cannot be read: {why}"))?;
        Ok((entry.response.read()?, entry.request.read()?))
    }
}

/// An entry in the list to choose from.
fn line(number: usize, entry: &RawValue) -> String {
    match serde_json::from_str::<Entry>(entry.get()) {
        Ok(Entry { request: HarRequest { method, url, .. }, response }) => {
            format!("\n  {number} {method} {} -> {}", shown(&url), response.status)
        }
        Err(_) => format!("\n  {number} (cannot be read)"),
    }
}

/// With padding or without.
const AS_BROWSERS_WRITE: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl HarContent {
    fn bytes(&self) -> Result<Bytes, String> {
        match (&self.text, self.encoding.as_deref()) {
            (None, _) if self.size.is_some_and(|size| size > 0.0) => {
                Err("the HAR file was saved without bodies; save it \"with content\"".to_owned())
            }
            (None, _) => Ok(Bytes::new()),
            (Some(text), Some("base64")) => {
                let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
                let decoded = AS_BROWSERS_WRITE.decode(digits);
                let none = |_| "a body in the HAR file says it is base64 and is not".to_owned();
                decoded.map(Bytes::from).map_err(none)
            }
            (Some(text), _) => Ok(Bytes::from(text.clone())),
        }
    }
}

/// Without the pseudo headers of HTTP/2 and what browsers cannot have sent.
fn har_headers(headers: Option<&Vec<HarHeader>>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for HarHeader { name, value } in headers.into_iter().flatten() {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        if let Some((name, value)) = parsed {
            map.append(name, value);
        }
    }
    map
}

impl HarResponse {
    fn read(&self) -> Result<Answer, String> {
        let status = StatusCode::from_u16(self.status)
            .map_err(|_| format!("the request got no answer (status {})", self.status))?;
        let body = self.content.as_ref().map_or(Ok(Bytes::new()), HarContent::bytes)?;
        let mut headers = har_headers(self.headers.as_ref());
        // A HAR file keeps the decoded body with the headers of the encoded one.
        headers.remove(CONTENT_ENCODING);
        headers.remove(TRANSFER_ENCODING);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        Ok(Answer { status, headers, body, complete: true })
    }
}

impl HarRequest {
    fn read(&self) -> Result<Request, String> {
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| format!("{:?} is no method", self.method))?;
        let Typed { uri, basic, .. } = Typed::read(&self.url)?;
        let mut headers = har_headers(self.headers.as_ref());
        if let Some(authority) = uri.authority()
            && let Ok(value) = HeaderValue::from_str(authority.as_str())
        {
            headers.entry(http::header::HOST).or_insert(value);
        }
        if let Some(basic) = basic {
            headers.entry(http::header::AUTHORIZATION).or_insert(basic);
        }
        let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let body = self.post_data.as_ref().map_or(Ok(Bytes::new()), HarContent::bytes)?;
        Ok(Request { method, target, headers, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: &[u8], said: &Said<'_>) -> (Answer, Vec<String>) {
        let mut notes = Vec::new();
        let (answer, _) = read(bytes, said, &mut notes).unwrap();
        (answer, notes)
    }

    #[test]
    fn curl_output_is_read_past_interim_heads() {
        let saved = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 404 \r\ncontent-type: text/plain\r\n\r\nno";
        let (answer, _) = answer(saved, &Said::default());
        assert_eq!((answer.status.as_u16(), &*answer.body), (404, &b"no"[..]));
        let lf = b"HTTP/1.1 500 Oops\nA: b\n\nx";
        assert_eq!(self::answer(lf, &Said::default()).0.headers["a"], "b");
    }

    #[test]
    fn chunks_and_codings_that_the_tool_undid_stay_undone() {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-encoding: gzip\r\n\r\n";
        for body in [&b"{\"a\":1}"[..], b"7\r\n{\"a\":1}\r\n0\r\n\r\n"] {
            let (answer, notes) = answer(&[head, body].concat(), &Said::default());
            assert_eq!(&*answer.body, b"{\"a\":1}");
            assert!(answer.headers.is_empty(), "{:?}", answer.headers);
            assert_eq!(notes.len(), 1, "{notes:?}");
        }
    }

    #[test]
    fn on_the_wire_the_framing_counts() {
        let wire = Said { wire: true, ..Said::default() };
        let (answer, _) = answer(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", &wire);
        assert!(!answer.complete);
        let (answer, _) = self::answer(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}", &wire);
        assert_eq!((&*answer.body, answer.complete), (&b"{"[..], true));
        let cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n";
        let (answer, _) = self::answer(cut, &wire);
        assert_eq!((&*answer.body, answer.complete), (&b"{}"[..], false));
    }

    #[test]
    fn a_bare_body_gets_the_head_that_is_said() {
        let headers = ["Content-Type: text/x".to_owned(), "A: 1".to_owned(), "a: 2".to_owned()];
        let said = Said { status: Some(403), headers: &headers, ..Said::default() };
        let (answer, _) = answer(b" {}", &said);
        assert_eq!(answer.status.as_u16(), 403);
        assert_eq!(answer.headers["content-type"], "text/x");
        assert_eq!(answer.headers.get_all("a").iter().count(), 2);
        assert!(read(b"", &Said::default(), &mut Vec::new()).is_err());
    }

    #[test]
    fn a_har_file_has_the_request_too() {
        let entry = |path: &str| {
            format!(
                r#"{{"request":{{"method":"POST","url":"https://a.example{path}?x=1","headers":[{{"name":":method","value":"POST"}},{{"name":"A2A-Version","value":"1.0"}}],"postData":{{"mimeType":"application/json","text":"{{}}"}}}},"response":{{"status":403,"headers":[{{"name":"content-encoding","value":"br"}}],"content":{{"size":2,"encoding":"base64","text":"e30="}}}}}}"#
            )
        };
        let one = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entry("/a"));
        let (answer, request) = read(one.as_bytes(), &Said::default(), &mut Vec::new()).unwrap();
        let request = request.unwrap();
        assert_eq!((answer.status.as_u16(), &*answer.body), (403, &b"{}"[..]));
        assert!(!answer.headers.contains_key("content-encoding"));
        assert_eq!(
            (request.target.as_str(), request.headers["host"].as_bytes()),
            ("/a?x=1", &b"a.example"[..])
        );
        let two = format!(r#"{{"log":{{"entries":[{},{}]}}}}"#, entry("/a"), entry("/b"));
        let why = read(two.as_bytes(), &Said::default(), &mut Vec::new()).unwrap_err();
        assert!(why.contains("--entry") && why.contains("2 POST https://a.example/b?x=1 -> 403"), "{why}");
        let second = Said { entry: Some(2), ..Said::default() };
        assert_eq!(read(two.as_bytes(), &second, &mut Vec::new()).unwrap().1.unwrap().target, "/b?x=1");
        assert!(read(br#"{"log":{"entries":[{}]}}"#, &Said::default(), &mut Vec::new()).is_err());
    }

    #[test]
    fn what_looks_like_an_archive_is_no_answer() {
        for (text, says) in [
            (r#"{"log":{}}"#, "has no log.entries"),
            (r#"{"log":{"entries":null}}"#, "has no log.entries"),
            (r#"{"log":{"entries":{}}}"#, "cannot be read as one"),
            (r#"{"log":{"entries":[]}}"#, "has no entries"),
            ("\u{feff}{ \"log\" : {\"version\":\"1.2\",\"entr", "begins like a HAR file and is no JSON"),
        ] {
            let why = read(text.as_bytes(), &Said::default(), &mut Vec::new()).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
        for text in [r#"{"log":"x"}"#, r#"{"jsonrpc":"2.0","log":{}}"#, r#"{"error":{},"log":{}}"#, "{\"lo"] {
            assert!(read(text.as_bytes(), &Said::default(), &mut Vec::new()).is_ok(), "{text}");
        }
        let chosen = Said { entry: Some(1), ..Said::default() };
        assert!(read(b"{}", &chosen, &mut Vec::new()).unwrap_err().contains("this is none"));
    }

    #[test]
    fn one_odd_entry_spoils_no_other() {
        let good =
            r#"{"request":{"method":"GET","url":"https://u:secret@a.example/x"},"response":{"status":404}}"#;
        for odd in
            ["{}", "null", "7", r#"{"request":{"method":"GET","url":"data:,x"},"response":{"status":-1}}"#]
        {
            let file = format!(r#"{{"log":{{"version":"1.2","entries":[{odd},{good}]}}}}"#);
            let pick = |number| {
                let said = Said { entry: Some(number), ..Said::default() };
                read(file.as_bytes(), &said, &mut Vec::new())
            };
            let (answer, request) = pick(2).unwrap();
            let request = request.unwrap();
            assert_eq!((answer.status.as_u16(), request.target.as_str()), (404, "/x"));
            assert_eq!(request.headers["host"].as_bytes(), b"a.example");
            assert_eq!(request.headers["authorization"].as_bytes(), b"Basic dTpzZWNyZXQ=");
            assert!(pick(1).unwrap_err().contains("entry 1 of the HAR file cannot be read"));
            let list = read(file.as_bytes(), &Said::default(), &mut Vec::new()).unwrap_err();
            assert!(list.contains("1 (cannot be read)") && list.contains("2 GET https://a.example/x -> 404"));
            assert!(!list.contains("secret"), "{list}");
        }
    }

    #[test]
    fn base64_is_read_as_browsers_write_it() {
        for text in ["eyJhIjoxfQ==", "eyJhIjoxfQ", "eyJh\\nIjox\\r\\nfQ==\\n", "eyJhIjoxfR=="] {
            let file = format!(
                r#"{{"log":{{"entries":[{{"request":{{"method":"GET","url":"http://a/"}},"response":{{"status":404,"content":{{"encoding":"base64","text":"{text}"}}}}}}]}}}}"#
            );
            let (answer, _) = read(file.as_bytes(), &Said::default(), &mut Vec::new()).unwrap();
            assert_eq!(&*answer.body, br#"{"a":1}"#, "{text}");
        }
    }
}
