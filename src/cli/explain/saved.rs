//! Reads answers as people save them: `curl -i` output, a HAR file, or a bare body.
//!
//! Tools undo codings and keep the headers that told of them. What is plainly undone is taken so, with a
//! note; `--wire` says that nothing was. Either way an answer that ends before its framing says was cut off, as it
//! would be on a socket.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::har;
use super::written::{self, Written};
use crate::cli::input::quoted;

/// A message's head and what follows it.
#[derive(Debug)]
pub struct Message {
    /// The request or status line.
    pub first: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Its lines end with LF alone, which they did not on the wire.
    pub is_lf: bool,
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

/// A request as it was sent, as far as that is known.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Its headers were saved with it.
    pub has_head: bool,
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
    /// It answers a HEAD.
    pub is_head: bool,
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
    let written = written::read(bytes, said.wire, notes)?;
    let bytes = &*written.bytes;
    let (answer, request) = if let Some(har) = har::read(bytes)? {
        let (mut answer, request) = har.entry(said.entry)?;
        said.overrule(&mut answer.status, &mut answer.headers)?;
        (answer, Some(request))
    } else if let Some(entry) = said.entry {
        return Err(format!("--entry {entry} is of a HAR file, and this is none"));
    } else if bytes.starts_with(b"HTTP/") {
        (of_message(&written, said, notes)?, None)
    } else {
        if bytes.is_empty() && said.status.is_none() && said.headers.is_empty() {
            return Err("there is no answer in it; for one with an empty body give --status".to_owned());
        }
        (bare(bytes, notes, said)?, None)
    };
    if answer.status.is_informational() {
        return Err(format!("{} is no final answer", answer.status.as_u16()));
    }
    Ok((answer, request))
}

impl Said<'_> {
    /// What the command line says counts, whatever the head does.
    fn overrule(&self, status: &mut StatusCode, headers: &mut HeaderMap) -> Result<(), String> {
        if let Some(said) = self.status {
            *status = StatusCode::from_u16(said).map_err(|_| format!("{said} is no HTTP status"))?;
        }
        let mut seen = Vec::new();
        for line in self.headers {
            let (name, value) = header(line)?;
            if !seen.contains(&name) {
                headers.remove(&name);
                seen.push(name.clone());
            }
            headers.append(name, value);
        }
        Ok(())
    }
}

/// These end with their head, whatever a Content-Length says (C-4).
pub fn has_no_body(status: StatusCode, is_head: bool) -> bool {
    is_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
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

/// A line of a head that is no header. What it says may be a credential where it is a request's.
#[derive(Debug)]
pub struct NoHeader {
    /// From 1, which is the request or status line.
    pub number: usize,
    pub line: String,
}

/// Cuts a message into its head and its body. Lines may end with LF alone.
///
/// # Errors
/// When a line of its head is no header.
pub fn message(bytes: &[u8]) -> Result<Message, NoHeader> {
    let mut rest = bytes;
    let mut lines = Vec::new();
    let mut is_lf = false;
    loop {
        let end = memchr::memchr(b'\n', rest);
        let Some((line, after)) = end.and_then(|end| Some((rest.get(..end)?, rest.get(end + 1..)?))) else {
            // Editors and shells take the last line's end away.
            lines.push(rest);
            rest = &[];
            break;
        };
        rest = after;
        is_lf |= !line.ends_with(b"\r");
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let lines = lines.zip(2..);
    let mut headers = HeaderMap::new();
    // Some tools list HTTP/2's pseudo headers, too.
    for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b":")) {
        let at = memchr::memchr(b':', line);
        let parsed = at.and_then(|at| {
            let name = HeaderName::from_bytes(line.get(..at)?.trim_ascii()).ok()?;
            Some((name, HeaderValue::from_bytes(line.get(at + 1..)?.trim_ascii()).ok()?))
        });
        let (name, value) =
            parsed.ok_or_else(|| NoHeader { number, line: String::from_utf8_lossy(line).into_owned() })?;
        headers.append(name, value);
    }
    Ok(Message { first, headers, body: Bytes::copy_from_slice(rest), is_lf })
}

/// `curl -i` output. Interim answers, and those that a redirect or a proxy gave before, come first.
fn of_message(written: &Written<'_>, said: &Said<'_>, notes: &mut Vec<String>) -> Result<Answer, String> {
    let head = |bytes: &[u8]| {
        message(bytes).map_err(|NoHeader { line, .. }| {
            format!("a line of its head is no header: {}; write NAME: VALUE", quoted(&line))
        })
    };
    let mut message = head(&written.bytes)?;
    let mut status = status_of(&message.first)?;
    let mut others = 0;
    while let Some(next) = another(&message, status, said.wire) {
        others += usize::from(!is_before_another(&message, status));
        message = head(message.body.get(next..).unwrap_or_default())?;
        status = status_of(&message.first)?;
    }
    if others > 0 {
        notes.push(format!("there are {} answers in it, and the last is taken", others + 1));
    }
    let Message { mut headers, body, is_lf, .. } = message;
    said.overrule(&mut status, &mut headers)?;
    framed(status, headers, body, said, written.is_converted || is_lf, notes)
}

/// Where in its body the next answer begins, if there is one.
fn another(message: &Message, status: StatusCode, is_wire: bool) -> Option<usize> {
    let begins = |at: usize| message.body.get(at..).is_some_and(begins_with_status_line);
    let length = length_of(&message.headers);
    let is_passing = is_before_another(message, status);
    if begins(0) {
        // Two answers, one after the other: what has no body ends with its head.
        let is_over = !is_wire && (has_no_body(status, false) || length == Some(0));
        return (is_passing || is_over).then_some(0);
    }
    // One with a body of its own. On the wire a host may have sent too much, and the proxy leaves that out.
    length.filter(|length| (is_passing || !is_wire) && begins(*length))
}

/// Whether another answer comes after it: an interim one, one of a proxy on the way, or one that curl followed, tried
/// again with a credential, and of which it keeps the head alone.
fn is_before_another(message: &Message, status: StatusCode) -> bool {
    let length = length_of(&message.headers);
    let is_tunnel = status.is_success()
        && message.first.to_ascii_lowercase().contains("connection established")
        && length.is_none_or(|length| length == 0);
    let is_followed = (status.is_redirection() || matches!(status.as_u16(), 401 | 407))
        // Its own body may look like a head.
        && length.is_none_or(|length| length != message.body.len());
    status.is_informational() || is_tunnel || is_followed
}

fn length_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// `HTTP/1.1 404`, `HTTP/2 404 `, and then the line's end or a reason.
pub fn begins_with_status_line(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(rest) = line.strip_prefix(b"HTTP/") else { return false };
    let mut words = rest.splitn(3, |byte| *byte == b' ');
    let is_version =
        words.next().is_some_and(|version| matches!(version, b"1.0" | b"1.1" | b"2" | b"2.0" | b"3"));
    is_version && words.next().is_some_and(|code| code.len() == 3 && code.iter().all(u8::is_ascii_digit))
}

/// Ends the body where its framing says, and tells whether it goes that far. `is_converted`: line ends or the
/// encoding of characters are no longer the host's, and no length fits to the byte.
fn framed(
    status: StatusCode,
    mut headers: HeaderMap,
    mut body: Bytes,
    said: &Said<'_>,
    is_converted: bool,
    notes: &mut Vec<String>,
) -> Result<Answer, String> {
    if has_no_body(status, said.is_head) {
        if !body.is_empty() {
            notes.push(format!("an answer like this has no body; {} bytes are left out", body.len()));
        }
        return Ok(Answer { status, headers, body: Bytes::new(), complete: true });
    }
    let mut complete = true;
    let mut length = length_of(&headers);
    let coding = headers.get(TRANSFER_ENCODING).and_then(|coding| coding.to_str().ok());
    let last = coding.and_then(|coding| coding.rsplit(',').next());
    if last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked")) {
        match unchunk(&body, is_converted && !said.wire) {
            Some((plain, whole)) if said.wire || !body.is_empty() => {
                body = plain.into();
                complete = whole;
                if !whole {
                    notes.push("its chunks end before the last one: taken as cut off there".to_owned());
                }
            }
            None if said.wire => return Err("its chunks cannot be read".to_owned()),
            // The tool has undone them.
            _ => {}
        }
        length = None;
        if !said.wire {
            headers.remove(TRANSFER_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
    }
    if !said.wire && headers.get(CONTENT_ENCODING).is_some_and(|coding| is_undone(coding, &body)) {
        notes.push("the body is plain text: whoever saved it undid the Content-Encoding".to_owned());
        headers.remove(CONTENT_ENCODING);
        if length.take().is_some() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
    }
    if let Some(length) = length.filter(|length| *length != body.len()) {
        let has = body.len();
        let line_ends = memchr::memchr_iter(b'\n', &body).count() + 2;
        if is_converted && !said.wire && length.abs_diff(has) <= line_ends {
            notes.push(format!(
                "Content-Length says {length} and {has} bytes were saved, with other line ends: taken as whole"
            ));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(has));
        } else if has < length {
            complete = false;
            notes.push(format!(
                "the body has {has} of the {length} bytes that Content-Length says: taken as cut off there, as the \
                 proxy would take it; if only saving it lost them, give --header 'Content-Length: {has}'"
            ));
        } else {
            body.truncate(length);
            notes.push(format!(
                "{} bytes come after the {length} that Content-Length says, and are left out, as the proxy would",
                has - length
            ));
        }
    }
    Ok(Answer { status, headers, body, complete })
}

fn status_of(first: &str) -> Result<StatusCode, String> {
    let status = first.split_ascii_whitespace().nth(1);
    let status = status.and_then(|status| StatusCode::from_bytes(status.as_bytes()).ok());
    status.ok_or_else(|| format!("{} is no status line", quoted(first)))
}

/// The bytes in the chunks and whether the last one came; `None` when they are no chunks. `is_lf`: lines may end
/// with LF alone, which the wire's do not.
fn unchunk(bytes: &[u8], is_lf: bool) -> Option<(Vec<u8>, bool)> {
    let mut rest = bytes;
    let mut plain = Vec::new();
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = rest.get(..end)?;
        let line = line.strip_suffix(b"\r").or(Some(line).filter(|_| is_lf))?;
        let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        rest = rest.get(end + 1..)?;
        if size == 0 {
            return Some((plain, true));
        }
        let Some(chunk) = rest.get(..size) else {
            plain.extend_from_slice(rest);
            return Some((plain, false));
        };
        plain.extend_from_slice(chunk);
        rest = rest.get(size..)?;
        if rest.is_empty() || rest == b"\r" {
            return Some((plain, false));
        }
        rest = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n").filter(|_| is_lf))?;
    }
    let is_size = rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'\r');
    // Cut off within the line of a size, or at its beginning.
    Some((plain, false)).filter(|(plain, _)| rest.is_empty() || (!plain.is_empty() && is_size))
}

/// Whether the tool that saved it undid the coding: compressed bytes begin in their own way and are no text.
fn is_undone(coding: &HeaderValue, body: &[u8]) -> bool {
    let coding = coding.to_str().unwrap_or_default().trim().to_ascii_lowercase();
    let magic: &[u8] = match coding.as_str() {
        "identity" => return false,
        "gzip" | "x-gzip" => b"\x1f\x8b",
        "zstd" => b"\x28\xb5\x2f\xfd",
        _ => b"\0",
    };
    let is_text = std::str::from_utf8(body)
        .is_ok_and(|text| text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace()));
    !body.is_empty() && !body.starts_with(magic) && is_text
}

/// A body alone: what it is, is told by its first character.
fn bare(body: &[u8], notes: &mut Vec<String>, said: &Said<'_>) -> Result<Answer, String> {
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
    let mut status = StatusCode::OK;
    said.overrule(&mut status, &mut headers)?;
    framed(status, headers, Bytes::copy_from_slice(body), said, false, notes)
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
        assert!(why.contains("--entry") && why.contains("2 POST https://a.example/b?… -> 403"), "{why}");
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
