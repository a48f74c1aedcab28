//! The state machine of one request and its answer.
//!
//! ```text
//!              head               piece, piece …                 end
//!   Waiting ──────────► Holding ───────────────► Holding ───────────────► judged ──► Finished
//!      │                   │ a success has begun (F-9)                      ▲
//!      │ no rule's         ▼                                                │ request_end
//!      └──────────────► Passing                                    Due: the answer needs the
//!        business                                                  request's id first (Q-1)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::call::{Call, CallReader, Id, query_in_order};
use super::decode::{Evidence, Shape, decode};
use super::disclose::{self, Gate};
use super::encode::{Additions, Frame, Shaped, says_the_same};
use super::fault::{Decision, Extent, Fault, Kind, Refusal, Setting, Undecided, decide};
use super::outcome::{DroppedKind, Rule, Verdict};
use super::stream::Stream;
use super::watch::Watch;
use super::{Binding, Interface, Mode, Outcome, Policy, Target};
use crate::protocol::a2a::{Operation, Route, percent_decode};
use crate::protocol::charset::Charset;
use crate::protocol::coding::Decoder;
use crate::protocol::json_rpc::RpcError;
use crate::protocol::scan::Scanner;
use crate::protocol::sse::Framing;
use crate::protocol::tree::{self, Document, Node};

/// A body that ends within this many bytes is judged whole (F-9).
const JUDGED_WHOLE: usize = 4096;
/// The media type of every JSON answer.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The media type of an answer that is a stream of one event (S-3).
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The request header, and query parameter, that names the protocol version (I-3).
const A2A_VERSION: &str = "a2a-version";
/// The version of a request that names none (I-3).
const VERSION_OF_SILENCE: &str = "0.3";

/// What the rules need of a request's head.
#[derive(Debug, Clone)]
pub struct RequestFacts<'a> {
    pub method: &'a Method,
    /// The path as it was sent, without the query.
    pub path: &'a str,
    /// The query as it was sent, without the question mark.
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

/// A head to be written in place of the host's. Complete: nothing of the host's is added but the
/// framing of the connection itself.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    pub status: StatusCode,
    /// Holds `content-length` when the body's length is known; without it the body is a stream.
    pub headers: HeaderMap,
}

/// What the client gets next.
#[derive(Debug)]
pub enum Output {
    /// The host's own head, unchanged.
    HostHead,
    /// This head in place of the host's.
    Head(ResponseHead),
    /// A piece of the body.
    Body(Bytes),
    /// The message is complete. After [`Output::HostHead`] the host's trailers go with it.
    End,
    /// The message cannot be completed: the client must not see a clean end (C-5).
    Abort,
    /// From here on the host's bytes go through as they are, its end and trailers included: the
    /// caller need not ask again.
    PassRest,
    /// What the host still sends is not wanted: close its connection (C-3).
    CloseUpstream,
}

/// Why the host's answer ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Closed or reset.
    Closed,
    /// Silent for longer than allowed.
    TimedOut,
}

/// An answer of the proxy's own (P-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnAnswer {
    /// 502: the host could not be reached, or hung up without an answer.
    BadGateway,
    /// 504: connecting or waiting took too long.
    GatewayTimeout,
    /// 503 with `Retry-After: 1`: no healthy upstream, or no room.
    Unavailable,
    /// 413: the request is larger than `limits.request_bytes`.
    RequestTooLarge,
    /// 400: the request's framing is unreadable.
    BadRequest,
    /// 508: `Via` names this instance.
    Loop,
    /// 408: the client did not finish its request in time.
    RequestTimeout,
    /// 500: something in the proxy itself.
    Internal,
}

impl Failure {
    pub(super) fn own_answer(self) -> OwnAnswer {
        match self {
            Self::Closed => OwnAnswer::BadGateway,
            Self::TimedOut => OwnAnswer::GatewayTimeout,
        }
    }
}

impl OwnAnswer {
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::RequestTimeout => 408,
            Self::RequestTooLarge => 413,
            Self::Internal => 500,
            Self::BadGateway => 502,
            Self::Unavailable => 503,
            Self::GatewayTimeout => 504,
            Self::Loop => 508,
        }
    }

    /// Seconds after which trying again makes sense.
    #[must_use]
    pub fn retry_after(self) -> Option<u64> {
        (self == Self::Unavailable).then_some(1)
    }

    /// The client's fault, not the host's.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        self.status() < 500 || self == Self::Loop
    }

    fn kind(self) -> Kind {
        match self {
            Self::RequestTooLarge => Kind::Refusal(Refusal::PayloadTooLarge),
            Self::BadRequest | Self::RequestTimeout => Kind::Rpc(RpcError::InvalidRequest),
            _ => Kind::Rpc(RpcError::Internal),
        }
    }
}

/// The host's answer while it is held.
pub(super) struct Held {
    status: u16,
    headers: HeaderMap,
    pieces: Vec<Bytes>,
    /// Bytes as they came, and after decoding.
    raw_len: usize,
    len: usize,
    coding: Option<Decoder>,
    /// The content coding is unknown, or the bytes are not in it.
    undecodable: bool,
    charset: Charset,
    scanner: Scanner,
    watch: Watch,
    /// The bytes so far are no JSON.
    malformed: bool,
    /// Decoded bytes, when they are others than the raw ones.
    decoded: Vec<u8>,
    /// More was decoded than the intake allows.
    over: bool,
}

impl Held {
    fn new(status: u16, headers: &HeaderMap) -> Self {
        let (coding, undecodable) = match Decoder::for_head(headers) {
            Ok(coding) => (coding, false),
            Err(_) => (None, true),
        };
        Self {
            status,
            headers: headers.clone(),
            pieces: Vec::new(),
            raw_len: 0,
            len: 0,
            coding,
            undecodable,
            charset: Charset::default(),
            scanner: Scanner::new(),
            watch: Watch::default(),
            malformed: false,
            decoded: Vec::new(),
            over: false,
        }
    }

    /// Takes the next bytes and scans as much of them as the verdict needs.
    fn take(&mut self, bytes: Bytes, intake: usize) {
        self.raw_len += bytes.len();
        match self.coding.take() {
            None => {
                self.scan(&bytes, intake);
                self.over |= self.len > intake;
            }
            Some(mut coding) => {
                let result = coding.feed(&bytes, &mut |piece| {
                    self.scan(piece, intake);
                    self.decoded.extend_from_slice(piece);
                    self.over |= self.len > intake;
                    !self.over
                });
                self.undecodable |= result.is_err();
                self.coding = Some(coding);
                // Endless input that decodes to nothing must not pile up either.
                self.over |= self.raw_len > intake;
            }
        }
        self.pieces.push(bytes);
    }

    fn scan(&mut self, bytes: &[u8], intake: usize) {
        // What is decided at a boundary is decided by the bytes before it, however they were split:
        // the first bytes are judged whole if nothing follows, and past the intake nothing is read.
        let room = |limit: usize| limit.saturating_sub(self.len).min(bytes.len());
        let (before, after) = bytes.split_at_checked(room(JUDGED_WHOLE)).unwrap_or_default();
        let after = after.get(..room(intake).saturating_sub(before.len())).unwrap_or_default();
        let is_longer = self.len + bytes.len() > JUDGED_WHOLE;
        let was_longer = self.len > JUDGED_WHOLE;
        self.len += bytes.len();
        self.scan_part(before);
        if is_longer && !was_longer {
            self.watch.settle();
        }
        if !after.is_empty() && !self.watch.flows() {
            self.scan_part(after);
        }
    }

    fn scan_part(&mut self, bytes: &[u8]) {
        let Self { charset, scanner, watch, malformed, .. } = self;
        charset.feed(bytes, &mut |text| {
            *malformed = *malformed || scanner.feed(text, watch).is_err();
        });
    }

    fn finish_scan(&mut self) {
        let Self { charset, scanner, watch, malformed, .. } = self;
        charset.finish(&mut |text| {
            *malformed = *malformed || scanner.feed(text, watch).is_err();
        });
        *malformed = *malformed || scanner.finish(watch).is_err();
    }

    /// F-9: more than is judged whole is there, and a success has begun.
    fn flows(&self) -> bool {
        self.len > JUDGED_WHOLE && !self.malformed && self.watch.flows()
    }

    /// The head calls it JSON as an error's head must, and it is written in plain UTF-8 (E-9).
    fn is_plain_json(&self, binding: Binding) -> bool {
        let media = self.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let media: String = media.to_ascii_lowercase().split_whitespace().collect();
        let is_json = match binding {
            Binding::JsonRpc => {
                matches!(media.as_str(), "application/json" | "application/json;charset=utf-8")
            }
            Binding::HttpJson => media == "application/json",
        };
        is_json && !self.charset.is_odd()
    }

    /// The whole body as one JSON document, if it is one; whether its bytes are plain UTF-8.
    fn document(&mut self) -> Option<Document> {
        if self.undecodable {
            return None;
        }
        let bytes = match (&self.coding, self.pieces.as_slice()) {
            (Some(_), _) => Bytes::from(std::mem::take(&mut self.decoded)),
            (None, [one]) => one.clone(),
            (None, pieces) => Bytes::from(pieces.concat()),
        };
        if !self.charset.is_odd() {
            return tree::parse(&bytes).ok();
        }
        let mut text = Vec::with_capacity(bytes.len());
        let mut charset = Charset::default();
        charset.feed(&bytes, &mut |piece| text.extend_from_slice(piece));
        charset.finish(&mut |piece| text.extend_from_slice(piece));
        tree::parse(&text).ok().map(|document| Document { odd: true, ..document })
    }
}

pub(super) enum Phase {
    Waiting,
    Holding(Box<Held>),
    /// The body is over, for this reason; the answer needs the rest of the request.
    Due(Box<Held>, Over),
    /// The answer is a stream of events (section 7).
    Streaming(Box<Stream>),
    /// The proxy's own answer needs the rest of the request.
    OwnDue(OwnAnswer),
    Passing,
    Finished,
}

/// Why the host's body is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    End,
    Failed(Failure),
    Intake,
}

impl Over {
    pub(super) fn extent(self) -> Extent {
        match self {
            Self::End => Extent::Whole,
            Self::Failed(_) => Extent::CutOff,
            Self::Intake => Extent::OverIntake,
        }
    }
}

/// One request to an interface and the answer to it.
pub struct Exchange {
    pub(super) policy: Arc<Policy>,
    /// `None`: no interface of the host is known (I-1).
    interface: Option<Arc<Interface>>,
    /// The URL does not tell for certain: rules bind only what turns out to be an A2A call (I-1).
    if_call: bool,
    pub(super) binding: Binding,
    pub(super) is_post: bool,
    is_head: bool,
    path: Box<str>,
    /// The request's `A2A-Version`.
    version: Option<Box<str>>,
    accepts_stream: bool,
    /// A 0.3 request on the HTTP+JSON binding (I-3).
    merged: bool,
    route: Option<Route>,
    pub(super) reader: CallReader,
    pub(super) phase: Phase,
    pub(super) out: VecDeque<Output>,
    pub(super) outcome: Outcome,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing of the request or the answer: this may end up in a log (D-4).
        f.debug_struct("Exchange").field("binding", &self.binding).field("outcome", &self.outcome).finish()
    }
}

impl Exchange {
    /// `None`: no rule binds this request (I-2 to I-4: `OPTIONS`, a route that is none, a 0.x version
    /// that passes); it goes through without an exchange.
    #[must_use]
    pub fn new(target: &Target, policy: &Arc<Policy>, request: &RequestFacts<'_>) -> Option<Self> {
        if matches!(*request.method, Method::OPTIONS | Method::CONNECT | Method::TRACE) {
            return None;
        }
        let is_post = *request.method == Method::POST;
        let version = requested_version(request);
        let (interface, binding, route, is_0_3) = match target {
            Target::Unknown if is_post => (None, Binding::JsonRpc, None, false),
            Target::Unknown => return None,
            Target::Likely(interface) if !is_post || interface.binding != Binding::JsonRpc => return None,
            Target::Interface(interface) | Target::Likely(interface) => {
                let is_0_3 = passes_as_0_3(&version, &interface.versions);
                if is_0_3 && !policy.normalize_0_3 {
                    return None;
                }
                let route = match interface.binding {
                    Binding::JsonRpc => None,
                    Binding::HttpJson => {
                        let below = request.path.strip_prefix(interface.path.as_str())?;
                        let route = Route::parse(below, request.method)?;
                        let in_order = query_in_order(request.query, route.operation);
                        Some((route, in_order))
                    }
                };
                (Some(interface.clone()), interface.binding, route, is_0_3)
            }
        };
        let mut accepts = request.headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
        let accepts_stream = accepts.any(|value| value.split(',').any(is_event_stream));
        Some(Self {
            interface,
            if_call: !matches!(target, Target::Interface(_)),
            binding,
            is_post,
            is_head: *request.method == Method::HEAD,
            path: request.path.into(),
            version: version.single(),
            accepts_stream,
            merged: is_0_3 && binding == Binding::HttpJson,
            route: route.as_ref().map(|(route, _)| route.clone()),
            reader: CallReader::new(
                request.headers,
                policy.response_cap_bytes,
                is_0_3 && policy.normalize_0_3,
                route,
            ),
            policy: policy.clone(),
            phase: Phase::Waiting,
            out: VecDeque::new(),
            outcome: Outcome::default(),
        })
    }

    /// The URL is an interface for certain, so that Q-4 applies to the request.
    #[must_use]
    pub fn is_interface(&self) -> bool {
        !self.if_call
    }

    /// What the request asks for, as far as its path or the bytes read so far tell.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.route.as_ref().map(|r| r.operation).or_else(|| self.reader.call().operation)
    }

    /// The next bytes of the request's body, in order, each once (Q-1).
    pub fn request_piece(&mut self, bytes: &[u8]) {
        self.reader.piece(bytes);
    }

    /// The request is complete.
    pub fn request_end(&mut self) {
        if self.reader.has_ended() {
            return;
        }
        self.reader.end();
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Due(held, over) => self.judge(held, over),
            Phase::OwnDue(own) => self.write_own(own),
            Phase::Streaming(stream) => self.resume_stream(stream),
            other => self.phase = other,
        }
    }

    /// Whether `request_end` was called.
    #[must_use]
    pub fn request_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// The host's final head (not an informational one but for a 101).
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        if status.is_informational() || !self.is_bound() {
            return self.pass_rest();
        }
        let code = status.as_u16();
        if self.is_head {
            let named = self.route.as_ref().is_some_and(|r| r.task.is_some());
            if !named || !matches!(code, 403 | 404 | 410) {
                return self.pass_rest();
            }
            self.outcome.rules.insert(Rule::C4);
        } else if matches!(code, 204 | 304) {
            return self.pass_rest();
        }
        if self.is_observing() {
            self.out.push_back(Output::HostHead);
        }
        // S-1: the answer decides whether it is a stream, not the method.
        let framing = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).and_then(Framing::of);
        self.phase = match framing.filter(|_| code < 300 && !self.is_head) {
            Some(framing) => match Stream::new(framing, self.binding, code, headers) {
                Some(stream) => Phase::Streaming(Box::new(stream)),
                None => Phase::Holding(Box::new(Held::new(code, headers))),
            },
            None => Phase::Holding(Box::new(Held::new(code, headers))),
        };
    }

    /// The next bytes of the host's body, as they came.
    pub fn piece(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        if self.is_observing() && !matches!(self.phase, Phase::Passing) {
            self.out.push_back(Output::Body(bytes.clone()));
        }
        if matches!(self.phase, Phase::Streaming(_)) {
            return self.stream_piece(bytes);
        }
        let Phase::Holding(held) = &mut self.phase else { return };
        held.take(bytes, self.policy.intake_bytes);
        let status = held.status;
        let refuses = matches!(status, 401 | 403 | 407 | 413 | 429);
        let flows = if self.policy.cap.success || refuses {
            false
        } else if self.binding == Binding::JsonRpc && (self.is_post || status >= 400) {
            held.flows()
        } else {
            // No JSON-RPC answer: it flows unless an error has begun (E-4).
            status < 400 && held.len > JUDGED_WHOLE && !held.watch.has_error()
        };
        if flows {
            self.outcome.rules.insert(Rule::F9);
            self.release(Output::PassRest);
        } else if held.over {
            self.over(Over::Intake);
        }
    }

    /// The host's answer is complete. With trailers or without.
    pub fn end(&mut self) {
        if matches!(self.phase, Phase::Streaming(_)) {
            self.end_stream();
        } else {
            self.over(Over::End);
        }
    }

    /// The host's answer will never be complete.
    pub fn fail(&mut self, failure: Failure) {
        if self.is_observing() && matches!(self.phase, Phase::Holding(_) | Phase::Streaming(_)) {
            self.phase = Phase::Finished;
            self.out.push_back(Output::Abort);
            return;
        }
        match self.phase {
            Phase::Holding(_) => self.over(Over::Failed(failure)),
            Phase::Streaming(_) => self.fail_stream(failure),
            Phase::Passing => {
                self.phase = Phase::Finished;
                self.out.push_back(Output::Abort);
            }
            _ => {}
        }
    }

    /// The host gave no answer: write the proxy's own. Only while nothing was written.
    pub fn answer(&mut self, own: OwnAnswer) {
        self.reset_answer();
        // What the client did wrong is told at once; for the rest the id is worth reading on.
        if self.reader.has_ended() || own.is_refusal() {
            self.write_own(own);
        } else {
            self.phase = Phase::OwnDue(own);
        }
    }

    /// Forget what the host said: the request is sent again (P-2). Only while nothing was written.
    pub fn reset_answer(&mut self) {
        self.phase = Phase::Waiting;
        self.out.clear();
        self.outcome = Outcome::default();
    }

    /// What the client gets next; `None` until there is more input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// An answer is due but the request has not been read to its end: feed `request_piece` until
    /// `request_end`, then poll again (Q-1).
    #[must_use]
    pub fn wants_request(&self) -> bool {
        match &self.phase {
            Phase::Due(..) | Phase::OwnDue(_) => true,
            Phase::Streaming(stream) => stream.is_due(),
            Phase::Waiting | Phase::Holding(_) | Phase::Passing | Phase::Finished => false,
        }
    }

    /// Bytes of the host's answer held back right now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.phase {
            Phase::Holding(held) | Phase::Due(held, _) => held.raw_len + held.decoded.len(),
            Phase::Streaming(stream) => stream.held_bytes(),
            _ => 0,
        }
    }

    /// What was done; complete once [`Output::End`], [`Output::PassRest`] or [`Output::Abort`] came.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub(super) fn is_observing(&self) -> bool {
        self.policy.mode == Mode::Observe
    }

    /// Where the URL does not tell, a call must be recognized to be bound (I-1).
    fn is_bound(&self) -> bool {
        !self.if_call || !self.reader.has_ended() || self.reader.call().is_a2a
    }

    fn pass_rest(&mut self) {
        self.phase = Phase::Passing;
        self.out.push_back(Output::HostHead);
        self.out.push_back(Output::PassRest);
    }

    /// Lets go of what is held, unchanged, and ends with this.
    fn release(&mut self, then: Output) {
        let phase = if matches!(then, Output::PassRest) { Phase::Passing } else { Phase::Finished };
        let Phase::Holding(held) = std::mem::replace(&mut self.phase, phase) else { return };
        self.send_as_is(held.pieces, then);
    }

    fn send_as_is(&mut self, pieces: Vec<Bytes>, then: Output) {
        if !self.is_observing() {
            self.out.push_back(Output::HostHead);
            self.out.extend(pieces.into_iter().map(Output::Body));
        }
        self.out.push_back(then);
    }

    /// The body is over: judge it now, or once the request has been read.
    fn over(&mut self, over: Over) {
        match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Holding(mut held) => {
                if over == Over::End {
                    held.finish_scan();
                }
                if over == Over::End && self.is_plain_success(&held) {
                    self.send_as_is(held.pieces, Output::End);
                } else if self.reader.has_ended() || self.is_observing() {
                    self.judge(held, over);
                } else {
                    self.phase = Phase::Due(held, over);
                }
            }
            Phase::Passing => self.out.push_back(Output::End),
            Phase::Waiting | Phase::Finished => {}
            other @ (Phase::Due(..) | Phase::OwnDue(_) | Phase::Streaming(_)) => self.phase = other,
        }
    }

    /// A success that needs no knowledge of the request (I-4).
    fn is_plain_success(&self, held: &Held) -> bool {
        self.binding == Binding::JsonRpc
            && !self.policy.cap.success
            && !matches!(held.status, 401 | 403 | 407 | 413 | 429)
            && !held.malformed
            && !held.undecodable
            && held.watch.is_success()
    }

    /// Decides and writes.
    fn judge(&mut self, mut held: Box<Held>, over: Over) {
        self.phase = Phase::Finished;
        let call = self.reader.call();
        if self.if_call && !call.is_a2a {
            return self.send_unjudged(held.pieces, over); // not ours after all (I-1)
        }
        let document = if over == Over::End { held.document() } else { None };
        let empty = held.len == 0 && !held.undecodable;
        let evidence = match over {
            Over::End => decode(document.as_ref().map(|d| &d.root), empty),
            Over::Failed(_) | Over::Intake => held.watch.evidence(),
        };
        let was_json_rpc =
            if over == Over::End { evidence.shape == Shape::RpcError } else { held.watch.is_json_rpc() };
        let material = Material {
            status: held.status,
            headers: &held.headers,
            len: held.len,
            unreadable: over == Over::End && document.is_none() && !empty,
            document: document.as_ref(),
            is_utf8: !held.charset.is_odd(),
            is_exact: held.is_plain_json(self.binding),
            any_status: false,
            over,
        };
        let mut outcome = std::mem::take(&mut self.outcome);
        let judged = self.weigh(&call, evidence, &material, &mut outcome);
        let shaped = match judged {
            Judged::Pass => {
                self.outcome = outcome;
                return self.send_unjudged(held.pieces, over);
            }
            Judged::AsIs => {
                self.outcome = outcome;
                return self.send_as_is(held.pieces, Output::End);
            }
            Judged::CutOff(failure) => {
                self.outcome = outcome;
                return self.write_own(failure.own_answer());
            }
            Judged::Answer(shaped) => shaped,
        };
        if call.notification && empty && !outcome.not_found {
            // Q-2: what had no body stays without one.
            outcome.rules.insert(Rule::Q2);
            return self.write(&held.headers, shaped.status, None, outcome);
        }
        // S-3: on a stream call an answer that was no JSON-RPC becomes one event, the fixed one always.
        let streams =
            self.is_stream_call(&call) && shaped.status == 200 && (outcome.not_found || !was_json_rpc);
        let body = shaped.body.to_bytes();
        let body = if streams {
            outcome.rules.insert(Rule::S3);
            Body::Event(body)
        } else {
            Body::Json(body)
        };
        self.write(&held.headers, shaped.status, Some(body), outcome);
        if over == Over::Intake {
            self.out.push_back(Output::CloseUpstream);
        }
    }

    /// Weighs one answer, or one event of a stream, and gives it its shape.
    pub(super) fn weigh(
        &self,
        call: &Call,
        evidence: Evidence,
        material: &Material<'_>,
        outcome: &mut Outcome,
    ) -> Judged {
        let policy = &self.policy;
        let offered = self.interface.as_deref().map_or(&[][..], |i| &i.versions);
        let setting = Setting {
            binding: self.binding,
            is_post: self.is_post,
            call,
            policy,
            requested: self.version.as_deref(),
            offered,
            status: material.status,
            headers: material.headers,
        };
        let frame = Frame {
            binding: self.binding,
            is_post: self.is_post,
            gate: Gate {
                disclosure: &policy.disclosure,
                call,
                version: self.version.as_deref(),
                path: &self.path,
            },
            offered,
            retry_after: disclose::retry_after(material.headers),
            cap: policy.response_cap_bytes,
            merged: self.merged,
        };
        let odd = material.unreadable || evidence.contested || material.document.is_some_and(|d| d.odd);
        let notes = [
            (odd || !material.is_utf8, Rule::F6),
            (evidence.untyped_data, Rule::E5),
            (evidence.broken_profile, Rule::E8),
            (material.over == Over::Intake, Rule::C3),
        ];
        let left_out = evidence.left_out;
        let over_cap = |body: &Node| body.to_bytes().len() > policy.response_cap_bytes;
        let overflow = |rule: Rule, outcome: &mut Outcome| {
            outcome.rules.insert(rule);
            outcome.rules.insert(Rule::C2);
            outcome.verdict = Verdict::Overflow;
            outcome.reason = Some("INTERNAL_ERROR");
            Judged::Answer(frame.overflow(material.status))
        };
        let note = |outcome: &mut Outcome| {
            for (_, rule) in notes.iter().filter(|(applies, _)| *applies) {
                outcome.rules.insert(*rule);
            }
        };
        let fault = match decide(evidence, material.over.extent(), &setting, &mut outcome.rules) {
            Ok(Decision::Pass) if policy.cap.success && material.len > policy.response_cap_bytes => {
                return overflow(Rule::C1, outcome);
            }
            Ok(Decision::Pass) => return Judged::Pass,
            Ok(Decision::NotFound(cause)) => {
                note(outcome);
                outcome.collapsed = cause;
                outcome.verdict = Verdict::Rewritten;
                return Judged::Answer(frame.not_found(outcome));
            }
            Ok(Decision::Fault(fault)) => fault,
            Err(Undecided) => {
                return match material.over {
                    Over::Failed(failure) => {
                        outcome.rules.insert(Rule::C5);
                        Judged::CutOff(failure)
                    }
                    Over::End | Over::Intake => overflow(Rule::C3, outcome),
                };
            }
        };
        if let Some(document) = material.document.filter(|d| material.is_exact && !d.odd)
            && says_so_already(&fault, &frame, material, &document.root)
        {
            outcome.reason = Some(super::encode::reason(&fault));
            if material.len <= policy.response_cap_bytes {
                outcome.rules.insert(Rule::E9);
                outcome.verdict = Verdict::Conformant;
                return Judged::AsIs;
            }
            outcome.verdict = Verdict::Rewritten;
            if over_cap(&document.root) {
                return overflow(Rule::C1, outcome);
            }
            outcome.rules.insert(Rule::E9);
            return Judged::Answer(Shaped { status: material.status, body: document.root.clone() });
        }
        note(outcome);
        if let Some(root) = material.document.map(|d| &d.root).filter(|root| root.get("error").is_some())
            && self.binding == Binding::JsonRpc
            && !root
                .get("id")
                .is_some_and(|theirs| says_the_same(&Node::Raw(call.id.as_json().into()), theirs))
        {
            outcome.rules.insert(if call.id == Id::Null { Rule::Q2 } else { Rule::Q1 });
        }
        outcome.verdict = Verdict::Rewritten;
        outcome.drop_fields(DroppedKind::Member, left_out);
        let shaped = frame.shape(&fault, Additions::ALL, outcome);
        if over_cap(&shaped.body) { overflow(Rule::C1, outcome) } else { Judged::Answer(shaped) }
    }

    /// Q-3: the client expects a stream of events.
    pub(super) fn is_stream_call(&self, call: &Call) -> bool {
        self.binding == Binding::JsonRpc
            && self.accepts_stream
            && call.operation.is_some_and(Operation::is_stream)
    }

    /// Sends what is held unchanged, and whatever follows it.
    fn send_unjudged(&mut self, pieces: Vec<Bytes>, over: Over) {
        match over {
            Over::End => self.send_as_is(pieces, Output::End),
            Over::Intake => {
                self.phase = Phase::Passing;
                self.send_as_is(pieces, Output::PassRest);
            }
            Over::Failed(_) => self.send_as_is(pieces, Output::Abort),
        }
    }

    /// Writes a whole answer in place of the host's.
    pub(super) fn write(&mut self, host: &HeaderMap, status: u16, body: Option<Body>, mut outcome: Outcome) {
        let disclosure = &self.policy.disclosure;
        let keep_on_not_found = &self.policy.oracle.keep_headers;
        let keep = |name: &HeaderName| {
            if outcome.not_found {
                keep_on_not_found.contains(name) && !disclose::is_framing(name)
            } else {
                disclose::admits_header(name, disclosure)
            }
        };
        let (headers, dropped) = disclose::filter_headers(host, keep);
        if dropped > 0 {
            outcome.rules.insert(Rule::D3);
            outcome.drop_fields(DroppedKind::Header, dropped);
        }
        if [CONTENT_ENCODING, TRANSFER_ENCODING, ETAG].iter().any(|name| host.contains_key(name)) {
            outcome.rules.insert(Rule::C4);
        }
        self.outcome = outcome;
        self.send(status, headers, body);
    }

    pub(super) fn write_own(&mut self, own: OwnAnswer) {
        self.phase = Phase::Finished;
        let call = self.reader.call();
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.rules.insert(Rule::P1);
        let frame = Frame {
            binding: self.binding,
            is_post: self.is_post,
            gate: Gate { disclosure: &self.policy.disclosure, call: &call, version: None, path: &self.path },
            offered: &[],
            retry_after: own.retry_after(),
            cap: self.policy.response_cap_bytes,
            merged: self.merged,
        };
        let fault = Fault::new(own.kind(), own.status());
        let shaped = frame.shape(&fault, Additions::ALL, &mut outcome);
        let body = if shaped.body.to_bytes().len() > self.policy.response_cap_bytes {
            frame.without_id(&fault)
        } else {
            shaped.body
        };
        outcome.verdict = if own.is_refusal() { Verdict::Refused } else { Verdict::Synthesized };
        self.outcome = outcome;
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(seconds) = own.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.send(own.status(), headers, Some(Body::Json(body.to_bytes())));
    }

    fn send(&mut self, status: u16, mut headers: HeaderMap, body: Option<Body>) {
        if self.is_observing()
            && self.outcome.verdict != Verdict::Synthesized
            && self.outcome.verdict != Verdict::Refused
        {
            // The host's bytes went out as they came (I-5).
            self.outcome.rules.insert(Rule::I5);
            self.out.push_back(Output::End);
            return;
        }
        let body = match body {
            None => Bytes::new(),
            Some(Body::Json(json)) => {
                headers.insert(CONTENT_TYPE, JSON);
                Bytes::from(json)
            }
            Some(Body::Event(json)) => {
                headers.insert(CONTENT_TYPE, EVENT_STREAM);
                Bytes::from([b"data: ", json.as_slice(), b"\n\n"].concat())
            }
        };
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        // Every status here comes from a table or from a head that was parsed.
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.out.push_back(Output::Head(ResponseHead { status, headers }));
        if !self.is_head && !body.is_empty() {
            self.out.push_back(Output::Body(body));
        }
        self.out.push_back(Output::End);
    }
}

/// One answer, or one event of a stream, to be weighed.
pub(super) struct Material<'a> {
    pub(super) status: u16,
    pub(super) headers: &'a HeaderMap,
    /// Bytes of the body, decoded.
    pub(super) len: usize,
    /// There is a body and it is no JSON document.
    pub(super) unreadable: bool,
    pub(super) document: Option<&'a Document>,
    /// Its bytes are plain UTF-8, without a byte order mark.
    pub(super) is_utf8: bool,
    /// Its head and its encoding are those of an answer that may pass (E-9).
    pub(super) is_exact: bool,
    /// It has no status of its own: an event of a stream that has begun.
    pub(super) any_status: bool,
    pub(super) over: Over,
}

/// What becomes of it.
pub(super) enum Judged {
    /// No error.
    Pass,
    /// An error that says exactly what the rules allow (E-9).
    AsIs,
    Answer(Shaped),
    /// The host broke off and left nothing to go by (C-5).
    CutOff(Failure),
}

/// E-9: the host says exactly what the rules allow, additions of ours aside.
fn says_so_already(fault: &Fault, frame: &Frame<'_>, material: &Material<'_>, root: &Node) -> bool {
    let shaped = frame.shape(fault, Additions::of_host(fault), &mut Outcome::default());
    (material.any_status || shaped.status == material.status) && says_the_same(&shaped.body, root)
}

/// A body of the proxy's own.
pub(super) enum Body {
    Json(Vec<u8>),
    /// One event of a stream (S-3).
    Event(Vec<u8>),
}

/// What a request says about its version (I-3).
enum Version {
    None,
    One(Box<str>),
    /// Several that differ: the host may take any.
    Several,
}

impl Version {
    fn single(self) -> Option<Box<str>> {
        if let Self::One(version) = self { Some(version) } else { None }
    }
}

/// The header, else the query parameter; an empty one is none.
fn requested_version(request: &RequestFacts<'_>) -> Version {
    let mut found = Version::None;
    for value in request.headers.get_all(A2A_VERSION) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = text.trim();
        match &found {
            _ if text.is_empty() => {}
            Version::None => found = Version::One(text.into()),
            Version::One(first) if **first == *text => {}
            _ => return Version::Several,
        }
    }
    if !matches!(found, Version::None) {
        return found;
    }
    for pair in request.query.unwrap_or_default().split('&') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = percent_decode(value);
        if percent_decode(name).eq_ignore_ascii_case(A2A_VERSION) && !value.trim().is_empty() {
            match &found {
                Version::None => found = Version::One(value.trim().into()),
                Version::One(first) if **first == *value.trim() => {}
                _ => return Version::Several,
            }
        }
    }
    found
}

/// I-3: a request at a 0.x version that the interface offers; silence is 0.3.
fn passes_as_0_3(version: &Version, offered: &[String]) -> bool {
    let version = match version {
        Version::None => VERSION_OF_SILENCE,
        Version::One(version) => version,
        Version::Several => return false,
    };
    version.starts_with("0.") && offered.iter().any(|v| same_version(v, version))
}

/// Whether two spellings name one version: patch levels do not count (A2A §3.6).
#[must_use]
pub fn same_version(a: &str, b: &str) -> bool {
    a == b || minor(a).is_some_and(|a| minor(b) == Some(a))
}

/// `1.0` of `1.0` and `1.0.1`; nothing of what is no version.
fn minor(version: &str) -> Option<&str> {
    let mut parts = version.split('.');
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let count = parts.clone().count();
    ((2..=3).contains(&count) && parts.all(plain)).then(|| match version.rsplit_once('.') {
        Some((minor, _)) if count == 3 => minor,
        _ => version,
    })
}

fn is_event_stream(media: &str) -> bool {
    Framing::of(media) == Some(Framing::Sse)
}
