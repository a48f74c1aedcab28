//! HAR files: what browsers save, an answer and its request in one entry.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::saved::{Answer, Request, has_no_body};
use crate::cli::input::quoted;
use crate::cli::screen::{clean, cut};
use crate::outbound::{Typed, shown};

/// An HTTP archive (HAR 1.2), as far as an answer needs it. Browsers fill archives with what is no HTTP at all, so an
/// entry is read when it is chosen.
pub struct Har {
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
///
/// # Errors
/// It looks like one and is none.
pub fn read(bytes: &[u8]) -> Result<Option<Har>, String> {
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
        Err(why) if !why.is_data() && begins_like(bytes) => {
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
pub fn begins_like(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    [&b"{"[..], b"\"log\"", b":", b"{"].iter().all(|token| {
        rest = rest.trim_ascii_start();
        rest.strip_prefix(*token).map(|after| rest = after).is_some()
    })
}

/// Entries that are listed to choose from.
const LISTED: usize = 20;

impl Har {
    /// The answer and its request.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn entry(&self, number: Option<usize>) -> Result<(Answer, Request), String> {
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
        let request = entry.request.read()?;
        Ok((entry.response.read(request.method == Method::HEAD)?, request))
    }
}

/// An entry in the list to choose from.
fn line(number: usize, entry: &RawValue) -> String {
    match serde_json::from_str::<Entry>(entry.get()) {
        Ok(Entry { request: HarRequest { method, url, .. }, response }) => {
            let (method, url) = (clean(&cut(&method, 20)), clean(&shown(&url)));
            format!("\n  {number} {method} {url} -> {}", response.status)
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
    fn read(&self, is_head: bool) -> Result<Answer, String> {
        let status = StatusCode::from_u16(self.status)
            .map_err(|_| format!("the request got no answer (status {})", self.status))?;
        let body = self.content.as_ref().map_or(Ok(Bytes::new()), HarContent::bytes)?;
        let mut headers = har_headers(self.headers.as_ref());
        // A HAR file keeps the decoded body with the headers of the encoded one.
        headers.remove(CONTENT_ENCODING);
        headers.remove(TRANSFER_ENCODING);
        if has_no_body(status, is_head) {
            return Ok(Answer { status, headers, body: Bytes::new(), complete: true });
        }
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        Ok(Answer { status, headers, body, complete: true })
    }
}

impl HarRequest {
    fn read(&self) -> Result<Request, String> {
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| format!("{} is no method", quoted(&self.method)))?;
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
        Ok(Request { method, target, headers, body, has_head: true })
    }
}
