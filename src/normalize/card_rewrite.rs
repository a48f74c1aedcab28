//! The state machine of one agent card on its way to a client who knows the host by another URL (P-3).
//!
//! A card is held until its end, edited, and leaves with a length and an entity tag of its own. What
//! cannot be edited (no JSON, larger than `card.max_bytes`, another status) passes as it came.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::outcome::{DroppedKind, Rule, Verdict};
use super::output::{Failure, Output, OwnAnswer, ResponseHead};
use super::{Mode, Outcome};
use crate::protocol::coding::Decoder;
use crate::protocol::public_url::{Edited, NoCard, PublicUrl};

/// What describes the bytes that were, and not those that are (C-4).
const OF_OTHER_BYTES: [HeaderName; 12] = [
    ACCEPT_RANGES,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    ETAG,
    LAST_MODIFIED,
    TRANSFER_ENCODING,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature"),
    HeaderName::from_static("signature-input"),
];

/// What became of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardFate {
    Rewritten {
        /// Its signatures were dropped.
        was_signed: bool,
    },
    /// No interface in it is on the host's own origin.
    Unchanged,
    /// Larger than `card.max_bytes`: passed as it is.
    TooLarge,
    /// No JSON object, or in an unknown coding: passed as it is.
    Unreadable,
}

impl CardFate {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rewritten { .. } => "rewritten",
            Self::Unchanged => "unchanged",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A card while it is held.
struct Kept {
    status: StatusCode,
    headers: HeaderMap,
    pieces: Vec<Bytes>,
    raw_len: usize,
    coding: Option<Decoder>,
    /// Without its coding, if it has one.
    plain: Vec<u8>,
    undecodable: bool,
}

enum Phase {
    Waiting,
    Holding(Box<Kept>),
    Passing,
    Finished,
}

/// One request for an agent card and the answer to it.
pub struct CardRewrite {
    public: Arc<PublicUrl>,
    is_observing: bool,
    max_bytes: usize,
    is_head: bool,
    /// The card is the `result` of a JSON-RPC call.
    is_result: bool,
    /// What the client has already: told to us only, as the host knows other bytes by other tags.
    has: Vec<HeaderValue>,
    request_ended: bool,
    phase: Phase,
    out: VecDeque<Output>,
    outcome: Outcome,
    fate: Option<CardFate>,
}

impl CardRewrite {
    #[must_use]
    pub fn new(
        public: &Arc<PublicUrl>,
        mode: Mode,
        max_bytes: usize,
        method: &Method,
        headers: &HeaderMap,
    ) -> Self {
        Self {
            public: public.clone(),
            is_observing: mode == Mode::Observe,
            max_bytes,
            is_head: *method == Method::HEAD,
            is_result: false,
            has: headers.get_all(IF_NONE_MATCH).iter().cloned().collect(),
            request_ended: false,
            phase: Phase::Waiting,
            out: VecDeque::new(),
            outcome: Outcome::default(),
            fate: None,
        }
    }

    /// The card is the `result` of a JSON-RPC call, which has no tags.
    #[must_use]
    pub fn in_result(self) -> Self {
        Self { is_result: true, has: Vec::new(), ..self }
    }

    /// Whether an answer with this head may be a card, and is held.
    #[must_use]
    pub fn holds(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        status.is_success()
            && !matches!(status.as_u16(), 204..=206)
            && may_be_json(headers)
            && !(self.is_head && self.is_observing)
    }

    /// A card is held right now.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        matches!(self.phase, Phase::Holding(_))
    }

    /// The host must send the whole card, whatever the client has of it.
    #[must_use]
    pub fn wants_whole(&self) -> bool {
        !self.is_observing
    }

    /// The card passes as it is and is only judged (I-5).
    #[must_use]
    pub fn is_observing(&self) -> bool {
        self.is_observing
    }

    /// What became of the card; `None` if the answer was none, or did not get that far.
    #[must_use]
    pub fn fate(&self) -> Option<CardFate> {
        self.fate
    }

    // The same interface as that of an exchange: see there.

    pub fn request_end(&mut self) {
        self.request_ended = true;
    }

    #[must_use]
    pub fn request_ended(&self) -> bool {
        self.request_ended
    }

    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        if !self.holds(status, headers) {
            self.phase = Phase::Passing;
            self.out.push_back(Output::HostHead);
            self.out.push_back(Output::PassRest);
            return;
        }
        if self.is_head {
            // What a GET would be told of length and tag depends on a body nobody has seen.
            let head = ResponseHead { status, headers: without(headers, &OF_OTHER_BYTES) };
            self.outcome.rules.insert(Rule::P3);
            self.phase = Phase::Finished;
            self.out.push_back(Output::Head(head));
            self.out.push_back(Output::End);
            return;
        }
        if self.is_observing {
            self.out.push_back(Output::HostHead);
        }
        let coding = Decoder::for_head(headers);
        self.phase = Phase::Holding(Box::new(Kept {
            status,
            headers: headers.clone(),
            pieces: Vec::new(),
            raw_len: 0,
            undecodable: coding.is_err(),
            coding: coding.unwrap_or_default(),
            plain: Vec::new(),
        }));
    }

    pub fn piece(&mut self, bytes: Bytes) {
        if self.is_observing && !matches!(self.phase, Phase::Passing) {
            self.out.push_back(Output::Body(bytes.clone()));
        }
        let Phase::Holding(kept) = &mut self.phase else { return };
        let max_bytes = self.max_bytes;
        kept.raw_len += bytes.len();
        if let Some(coding) = &mut kept.coding {
            let plain = &mut kept.plain;
            let fed = coding.feed(&bytes, &mut |piece| {
                plain.extend_from_slice(piece);
                plain.len() <= max_bytes
            });
            kept.undecodable |= fed.is_err();
        }
        kept.pieces.push(bytes);
        let fate = if kept.raw_len > max_bytes || kept.plain.len() > max_bytes {
            CardFate::TooLarge
        } else if kept.undecodable {
            CardFate::Unreadable
        } else {
            return;
        };
        self.fate = Some(fate);
        self.release(Output::PassRest);
    }

    pub fn end(&mut self) {
        match &self.phase {
            Phase::Holding(_) => self.judge(),
            Phase::Passing => {
                self.phase = Phase::Finished;
                self.out.push_back(Output::End);
            }
            Phase::Waiting | Phase::Finished => {}
        }
    }

    pub fn fail(&mut self, failure: Failure) {
        match self.phase {
            Phase::Holding(_) if !self.is_observing => self.answer(failure.own_answer()),
            Phase::Holding(_) | Phase::Passing => {
                self.phase = Phase::Finished;
                self.out.push_back(Output::Abort);
            }
            Phase::Waiting | Phase::Finished => {}
        }
    }

    /// There is no room for the card (`limits.held_bytes`). As it is it would send clients past the proxy.
    pub fn shed(&mut self) -> bool {
        if !self.is_holding() {
            return false;
        }
        if self.is_observing {
            self.release(Output::PassRest);
        } else {
            self.answer(Failure::NoRoom.own_answer());
        }
        true
    }

    /// In plain text: the URL is no interface (P-1).
    pub fn answer(&mut self, own: OwnAnswer) {
        self.reset_answer();
        self.phase = Phase::Finished;
        self.outcome.verdict = own.verdict();
        self.outcome.rules.insert(Rule::P1);
        let status = StatusCode::from_u16(own.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = Bytes::from_static(status.canonical_reason().unwrap_or("Error").as_bytes());
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CONTENT_LENGTH, text.len().into());
        if let Some(seconds) = own.retry_after() {
            headers.insert(http::header::RETRY_AFTER, seconds.into());
        }
        self.out.push_back(Output::Head(ResponseHead { status, headers }));
        if !self.is_head {
            self.out.push_back(Output::Body(text));
        }
        self.out.push_back(Output::End);
    }

    pub fn reset_answer(&mut self) {
        self.phase = Phase::Waiting;
        self.out.clear();
        self.outcome = Outcome::default();
        self.fate = None;
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if let Phase::Holding(kept) = &self.phase { kept.raw_len + kept.plain.len() } else { 0 }
    }

    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The card is complete.
    fn judge(&mut self) {
        let Phase::Holding(kept) = &mut self.phase else { return };
        let edit = |bytes: &[u8]| {
            if self.is_result { self.public.edit_result(bytes) } else { self.public.edit(bytes) }
        };
        let edited = match (&kept.coding, kept.pieces.as_slice()) {
            _ if kept.undecodable => Err(NoCard),
            (Some(_), _) => edit(&kept.plain),
            (None, [one]) => edit(one),
            (None, pieces) => edit(&pieces.concat()),
        };
        match edited {
            Ok(Some(Edited { bytes, was_signed })) => self.write(bytes.into(), was_signed),
            Ok(None) => {
                self.fate = Some(CardFate::Unchanged);
                let tag = kept.headers.get(ETAG);
                if !self.is_observing && tag.is_some_and(|tag| is_known(&self.has, tag)) {
                    let headers = kept.headers.clone();
                    self.not_modified(&headers);
                } else {
                    self.release(Output::End);
                }
            }
            Err(NoCard) => {
                self.fate = Some(CardFate::Unreadable);
                self.release(Output::End);
            }
        }
    }

    fn write(&mut self, bytes: Bytes, was_signed: bool) {
        let Phase::Holding(kept) = std::mem::replace(&mut self.phase, Phase::Finished) else { return };
        self.fate = Some(CardFate::Rewritten { was_signed });
        self.outcome.verdict = Verdict::Rewritten;
        self.outcome.rules.insert(Rule::P3);
        if was_signed {
            self.outcome.drop_fields(DroppedKind::Member, 1);
        }
        if self.is_observing {
            self.out.push_back(Output::End);
            return;
        }
        let mut headers = without(&kept.headers, &OF_OTHER_BYTES);
        if !self.is_result {
            let tag = tag_of(&bytes);
            let is_known = is_known(&self.has, &tag);
            headers.insert(ETAG, tag);
            if is_known {
                return self.not_modified(&headers);
            }
        }
        headers.insert(CONTENT_LENGTH, bytes.len().into());
        self.out.push_back(Output::Head(ResponseHead { status: kept.status, headers }));
        self.out.push_back(Output::Body(bytes));
        self.out.push_back(Output::End);
    }

    /// The client has these very bytes.
    fn not_modified(&mut self, headers: &HeaderMap) {
        self.phase = Phase::Finished;
        let headers = without(headers, &[CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING]);
        self.out.push_back(Output::Head(ResponseHead { status: StatusCode::NOT_MODIFIED, headers }));
        self.out.push_back(Output::End);
    }

    /// Lets go of what is held, unchanged.
    fn release(&mut self, then: Output) {
        let phase = if matches!(then, Output::PassRest) { Phase::Passing } else { Phase::Finished };
        let Phase::Holding(kept) = std::mem::replace(&mut self.phase, phase) else { return };
        if !self.is_observing {
            self.out.push_back(Output::HostHead);
            self.out.extend(kept.pieces.into_iter().map(Output::Body));
        }
        self.out.push_back(then);
    }
}

/// Static file servers call a card all sorts of things; only what is surely none is not held.
fn may_be_json(headers: &HeaderMap) -> bool {
    let Some(media) = headers.get(CONTENT_TYPE) else { return true };
    let media = media.to_str().unwrap_or_default().to_ascii_lowercase();
    ["json", "text/plain", "octet-stream"].iter().any(|kind| media.contains(kind))
}

fn without(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut headers = headers.clone();
    for name in names {
        headers.remove(name);
    }
    headers
}

/// A strong tag, the same in every process of one build: 128 bits of the bytes alone.
fn tag_of(bytes: &[u8]) -> HeaderValue {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(bytes);
        hasher.finish()
    };
    let tag = Bytes::from(format!("\"{:016x}{:016x}\"", half(0), half(1)));
    // Sixteen hexadecimal digits twice are a valid value.
    HeaderValue::from_maybe_shared(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether one of the tags that the client has is this one, compared weakly (RFC 9110, 13.1.2).
fn is_known(has: &[HeaderValue], tag: &HeaderValue) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str().map(strong) else { return false };
    let lists = has.iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| one.trim() == "*" || strong(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::public_url::Own;

    const CARD: &str = r#"{"url":"http://127.0.0.1:9000/a2a","signatures":[{}]}"#;
    const PUBLIC: &str = r#"{"url":"https://agents.example/billing/a2a"}"#;

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn machine(mode: Mode, method: &Method, request: &[(&'static str, &'static str)]) -> CardRewrite {
        let public =
            PublicUrl::new("https://agents.example/billing", Own::new(["127.0.0.1:9000"], [])).unwrap();
        CardRewrite::new(&Arc::new(public), mode, 100, method, &headers(request))
    }

    /// What the client sees, as one text.
    fn told(machine: &mut CardRewrite) -> String {
        let mut told = Vec::new();
        while let Some(output) = machine.poll() {
            told.push(match output {
                Output::HostHead => "host|".to_owned(),
                Output::Head(head) => {
                    let headers: Vec<_> =
                        head.headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
                    format!("{} {}|", head.status.as_u16(), headers.join(", "))
                }
                Output::Body(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Output::End => "|end".to_owned(),
                Output::Abort => "|abort".to_owned(),
                Output::PassRest => "|rest".to_owned(),
                Output::CloseUpstream => "|close".to_owned(),
            });
        }
        told.concat()
    }

    fn answered(machine: &mut CardRewrite, head: &[(&'static str, &'static str)], body: &[u8]) -> String {
        machine.head(StatusCode::OK, &headers(head));
        for byte in body.chunks(7) {
            machine.piece(Bytes::copy_from_slice(byte));
        }
        machine.end();
        told(machine)
    }

    #[test]
    fn p3_a_card_leaves_with_its_own_length_and_tag() {
        let mut get = machine(Mode::Enforce, &Method::GET, &[("if-none-match", "\"h\"")]);
        let head = [
            ("content-type", "application/json"),
            ("content-length", "9"),
            ("etag", "\"h\""),
            ("last-modified", "x"),
            ("vary", "A2A-Version"),
        ];
        let tag = tag_of(PUBLIC.as_bytes());
        let tag = tag.to_str().unwrap();
        assert_eq!(tag.len(), 34);
        let expected = format!(
            "200 content-type: application/json, vary: A2A-Version, etag: {tag}, content-length: {}|{PUBLIC}|end",
            PUBLIC.len()
        );
        let mut parts: Vec<String> = Vec::new();
        for told in [answered(&mut get, &head, CARD.as_bytes()), expected] {
            let (head, body) = told.split_once('|').unwrap();
            let mut lines: Vec<_> = head.trim_start_matches("200 ").split(", ").collect();
            lines.sort_unstable();
            parts.push(format!("{lines:?} {body}"));
        }
        assert_eq!(parts[0], parts[1]);
        assert_eq!(get.fate(), Some(CardFate::Rewritten { was_signed: true }));
        assert_eq!(get.outcome().verdict, Verdict::Rewritten);
        assert!(get.outcome().rules.contains(Rule::P3));
    }

    #[test]
    fn p3_conditions_are_ours_to_answer() {
        let tag: &'static str =
            Box::leak(tag_of(PUBLIC.as_bytes()).to_str().unwrap().to_owned().into_boxed_str());
        let list: &'static str = Box::leak(format!("\"x\", W/{tag}").into_boxed_str());
        for (condition, status) in [(tag, 304), (list, 304), ("*", 304), ("\"x\"", 200), ("", 200)] {
            let mut get = machine(Mode::Enforce, &Method::GET, &[("if-none-match", condition)]);
            let told = answered(&mut get, &[("etag", "\"x\""), ("content-length", "9")], CARD.as_bytes());
            assert!(told.starts_with(&format!("{status} etag: {tag}")), "{condition}: {told}");
            assert_eq!(told.contains("content-length"), status == 200, "{told}");
        }
        let mut get = machine(Mode::Enforce, &Method::GET, &[("if-none-match", "\"x\"")]);
        assert_eq!(answered(&mut get, &[("etag", "W/\"x\"")], b"{}"), "304 etag: W/\"x\"||end");
    }

    #[test]
    fn p3_what_cannot_be_edited_passes() {
        let large = format!("{{\"url\":\"/a\",\"x\":\"{}\"}}", "x".repeat(100));
        for (head, body, seen, fate) in [
            (("x", "y"), "<html>", "host|<html>|end", Some(CardFate::Unreadable)),
            (
                ("x", "y"),
                r#"{"url":"https://e.example/"}"#,
                "host|{\"url\":\"https://e.example/\"}|end",
                Some(CardFate::Unchanged),
            ),
            (("content-type", "text/html"), "<html>", "host||rest|end", None),
            (("content-encoding", "gzip"), "no gzip", "host|no gzip|rest|end", Some(CardFate::Unreadable)),
            (("content-encoding", "zip"), "zip", "host|zip|rest|end", Some(CardFate::Unreadable)),
        ] {
            let mut get = machine(Mode::Enforce, &Method::GET, &[]);
            assert_eq!(answered(&mut get, &[head], body.as_bytes()), seen);
            assert_eq!(get.fate(), fate);
        }
        let mut get = machine(Mode::Enforce, &Method::GET, &[]);
        let seen = answered(&mut get, &[], large.as_bytes());
        // The rest is the shell's to pass.
        assert!(seen.starts_with("host|{\"url\":\"/a\"") && seen.ends_with("x|rest|end"), "{seen}");
        assert_eq!(get.fate(), Some(CardFate::TooLarge));
        for status in [204, 206, 302, 304, 404, 500] {
            let mut get = machine(Mode::Enforce, &Method::GET, &[]);
            get.head(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
            assert_eq!(told(&mut get), "host||rest", "{status}");
        }
    }

    #[test]
    fn p3_a_head_tells_nothing_of_a_body_nobody_saw() {
        let mut head = machine(Mode::Enforce, &Method::HEAD, &[]);
        assert_eq!(
            answered(&mut head, &[("content-length", "9"), ("etag", "\"x\""), ("vary", "*")], b""),
            "200 vary: *||end"
        );
    }

    #[test]
    fn i5_an_observed_card_is_counted_only() {
        let mut get = machine(Mode::Observe, &Method::GET, &[("if-none-match", "*")]);
        assert!(!get.wants_whole());
        assert_eq!(answered(&mut get, &[], CARD.as_bytes()), format!("host|{CARD}|end"));
        assert_eq!(get.fate(), Some(CardFate::Rewritten { was_signed: true }));
    }

    #[test]
    fn p1_and_c5_a_card_that_does_not_come() {
        let mut get = machine(Mode::Enforce, &Method::GET, &[]);
        get.head(StatusCode::OK, &HeaderMap::new());
        get.piece(Bytes::from_static(b"{"));
        assert_eq!(get.held_bytes(), 1);
        get.fail(Failure::TimedOut);
        let text = told(&mut get);
        assert!(text.starts_with("504 content-type: text/plain"), "{text}");
        assert!(text.ends_with("Gateway Timeout|end"), "{text}");
        assert_eq!(get.outcome().verdict, Verdict::Synthesized);

        let mut get = machine(Mode::Enforce, &Method::GET, &[]);
        get.head(StatusCode::NOT_FOUND, &HeaderMap::new());
        get.fail(Failure::Closed);
        assert_eq!(told(&mut get), "host||rest|abort");
    }
}
