//! An input of the targets that run a whole exchange: twelve bytes of knobs, then texts set apart by a record
//! separator. Every byte sequence is a case, and one can be read and written by hand:
//!
//! ```text
//! <12 knobs>JSONRPC /a2a 1.0,0.3       binding, path and versions of the interface
//! POST /a2a?x=1                        the request's line, then its headers
//! a2a-version: 1.0
//! <RS>{"jsonrpc":"2.0", …}             its body
//! <RS>403                              the answer's status, then its headers
//! content-type: application/json
//! <RS>{"error": …}                     its body, to the end
//! ```
//!
//! A unit separator in a body stands for a long run of `x`, so that small inputs reach the caps.

use std::io::Write as _;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::normalize::{Binding, Failure, Messages};
use crate::rules_support::{Answer, Ending, Host, Order, Request, Split};

pub const KNOBS: usize = 12;
/// Between two texts.
pub const RECORD: u8 = 0x1e;
/// Stands for [`LONG`] times `x`.
pub const UNIT: u8 = 0x1f;
const LONG: usize = 1500;
/// How many are expanded: enough to go over a cap of 4 KiB and an intake of 8.
const UNITS_MAX: usize = 8;

/// An input, taken apart.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub knobs: [u8; KNOBS],
    /// Request head, request body, answer head, answer body; the last one takes what is left.
    pub texts: [Vec<u8>; 4],
}

impl Fields {
    pub fn read(data: &[u8]) -> Self {
        let mut fields = Self::default();
        let (knobs, rest) = data.split_at(data.len().min(KNOBS));
        fields.knobs[..knobs.len()].copy_from_slice(knobs);
        for (text, part) in fields.texts.iter_mut().zip(rest.splitn(4, |b| *b == RECORD)) {
            *text = part.to_vec();
        }
        fields
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = self.knobs.to_vec();
        out.extend_from_slice(&self.texts.join(&RECORD));
        out
    }
}

/// What a target runs.
pub struct Case {
    pub host: Host,
    pub request: Request,
    pub answer: Answer,
    /// Other pieces for both sides.
    pub cuts: (Split, Split),
}

impl Case {
    pub fn read(data: &[u8]) -> Self {
        let Fields { knobs, texts: [head, body, answer_head, answer_body] } = Fields::read(data);
        let (host, request) = read_request(&knobs, &head, &body);
        let answer = read_answer(&knobs, &answer_head, &answer_body);
        Self { host, request, answer, cuts: (lengths(&knobs[8..12]), lengths(&knobs[4..8])) }
    }
}

fn lengths(knobs: &[u8]) -> Split {
    let lengths: Vec<usize> = knobs.iter().filter(|n| **n > 0).map(|n| usize::from(*n)).collect();
    if lengths.is_empty() { Split::Every(1) } else { Split::Lengths(lengths) }
}

fn expanded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut units = 0;
    for byte in text {
        if *byte == UNIT && units < UNITS_MAX {
            units += 1;
            out.resize(out.len() + LONG, b'x');
        } else {
            out.push(*byte);
        }
    }
    out
}

/// In one of the encodings of JSON.
pub fn encoded(text: Vec<u8>, which: u8) -> Vec<u8> {
    let units = || String::from_utf8_lossy(&text).encode_utf16().collect::<Vec<u16>>();
    match which % 8 {
        5 => units().into_iter().flat_map(u16::to_le_bytes).collect(),
        6 => units().into_iter().flat_map(u16::to_be_bytes).collect(),
        7 => [b"\xef\xbb\xbf".as_slice(), &text].concat(),
        _ => text,
    }
}

fn headers(lines: &mut dyn Iterator<Item = &[u8]>) -> HeaderMap {
    let mut found = HeaderMap::new();
    for line in lines {
        let at = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(at + 1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(value)) {
            found.append(name, value);
        }
    }
    found
}

/// The host's interface and policy, and the request.
pub fn read_request(knobs: &[u8; KNOBS], head: &[u8], body: &[u8]) -> (Host, Request) {
    let mut lines = head.split(|b| *b == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut words = first.split(' ');
    let binding = if words.next() == Some("HTTP+JSON") { Binding::HttpJson } else { Binding::JsonRpc };
    let default = if binding == Binding::JsonRpc { "/a2a" } else { "/rest" };
    let path = words.next().filter(|path| path.starts_with('/')).unwrap_or(default);
    let versions: Vec<&str> = words.next().unwrap_or("1.0").split(',').filter(|v| !v.is_empty()).collect();
    let host = policy(Host::with(path.trim_end_matches('/'), binding, &versions), knobs);

    let line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, url) = line.split_once(' ').unwrap_or(("POST", path));
    let (path, query) = url.split_once('?').map_or((url, None), |(p, q)| (p, Some(q.to_owned())));
    let request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap_or(Method::POST),
        path: path.into(),
        query,
        headers: headers(&mut lines),
        body: encoded(expanded(body), knobs[3]),
        split: Split::Whole,
    };
    (host, request)
}

fn policy(host: Host, knobs: &[u8; KNOBS]) -> Host {
    let bit = |n: u8| knobs[0] & 1 << n != 0;
    let order = if knobs[1] & 1 == 0 { Order::RequestFirst } else { Order::AnswerFirst };
    host.order(order).policy(|policy| {
        policy.normalize_0_3 = bit(0);
        policy.cap.success = bit(1);
        policy.oracle.collapse_scope = bit(2);
        if bit(3) {
            policy.response_cap_bytes = 4096;
        }
        if bit(4) {
            policy.intake_bytes = policy.response_cap_bytes.min(8192);
            policy.response_cap_bytes = policy.response_cap_bytes.min(policy.intake_bytes);
        }
        policy.disclosure.messages = match knobs[0] >> 5 {
            1 | 2 => Messages::Canonical,
            3 | 4 => Messages::Upstream,
            _ => Messages::Guarded,
        };
        if knobs[0] >> 5 == 7 {
            policy.disclosure.metadata_keys = vec!["hint".into(), "retry".into()];
            policy.disclosure.headers = vec![HeaderName::from_static("x-request-id")];
            policy.disclosure.words = vec!["billing-bot".into()];
        }
    })
}

fn read_answer(knobs: &[u8; KNOBS], head: &[u8], body: &[u8]) -> Answer {
    let mut lines = head.split(|b| *b == b'\n');
    let status = std::str::from_utf8(lines.next().unwrap_or_default()).unwrap_or_default();
    let status = status.trim().parse::<u16>().ok().filter(|s| (100..1000).contains(s)).unwrap_or(200);
    let mut headers = headers(&mut lines);
    let body = encoded(expanded(body), knobs[2] >> 3);
    let coding = match knobs[2] % 8 {
        5 => Some("gzip"),
        6 => Some("deflate"),
        7 => Some("x-gzip"),
        _ => None,
    };
    if let Some(coding) = coding {
        headers.insert("content-encoding", HeaderValue::from_static(coding));
    }
    let body = match coding {
        Some("deflate") => deflated(&body, knobs[2] & 0x80 != 0),
        Some(_) => gzipped(&body),
        None => body,
    };
    // In so many fifteenths of the body there is room for it.
    let room = usize::from(knobs[1] >> 4);
    let no_room_from = (room > 0).then_some(body.len() * room / 15);
    Answer {
        status,
        headers,
        body,
        no_room_from,
        split: Split::Whole,
        ending: match knobs[1] >> 1 & 7 {
            6 => Ending::Fail(Failure::Closed),
            7 => Ending::Fail(Failure::TimedOut),
            _ => Ending::End,
        },
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// With the wrapper that the name means, or without, as many hosts send it.
fn deflated(bytes: &[u8], wrapped: bool) -> Vec<u8> {
    if wrapped {
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    } else {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }
}
