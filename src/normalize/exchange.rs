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

use super::asking::Asking;
use super::call::{Call, CallReader, query_in_order};
use super::decode::{Shape, decode};
use super::disclose::{self, Gate};
use super::encode::{Additions, Frame};
use super::fault::{Fault, Refusal};
use super::held::Held;
use super::outcome::{DroppedKind, Rule, Verdict};
use super::output::{Failure, Output, OwnAnswer, ResponseHead};
use super::stream::Stream;
use super::version::{passes_as_0_3, requested_version};
use super::weigh::{Judged, Material, Over};
use super::{Binding, Interface, Mode, Outcome, Policy, Target};
use crate::protocol::a2a::{Operation, Route, percent_decode, plain_path, tidy};
use crate::protocol::sse::Framing;
use crate::protocol::tree::Text;

/// The media type of every JSON answer.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The media type of an answer that is a stream of one event (S-3).
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

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

/// How far the answer is.
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

/// One request to an interface and the answer to it.
pub struct Exchange {
    pub(super) policy: Arc<Policy>,
    /// `None`: no interface of the host is known (I-1).
    pub(super) interface: Option<Arc<Interface>>,
    /// The URL does not tell for certain: rules bind only what turns out to be an A2A call (I-1).
    pub(super) if_call: bool,
    pub(super) binding: Binding,
    pub(super) is_post: bool,
    pub(super) is_head: bool,
    pub(super) path: Text,
    /// The request's `A2A-Version`.
    pub(super) version: Option<Text>,
    pub(super) accepts_stream: bool,
    /// A 0.3 request on the HTTP+JSON binding (I-3).
    pub(super) merged: bool,
    pub(super) route: Option<Route>,
    pub(super) asking: Asking,
    pub(super) phase: Phase,
    pub(super) out: VecDeque<Output>,
    pub(super) outcome: Outcome,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing of the request or the answer: this may end up in a log (D-4).
        f.debug_struct("Exchange")
            .field("binding", &self.binding)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
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
            Target::Likely(interface) if !is_post && interface.binding == Binding::JsonRpc => return None,
            Target::Interface(interface) | Target::Likely(interface) => {
                let is_0_3 = passes_as_0_3(&version, &interface.versions);
                if is_0_3 && !policy.normalize_0_3 {
                    return None;
                }
                let route = match interface.binding {
                    Binding::JsonRpc => None,
                    Binding::HttpJson => {
                        let is_likely = matches!(target, Target::Likely(_));
                        let below = if is_likely {
                            loosely_below(request.path, &interface.path)?
                        } else {
                            plain_path(request.path).strip_prefix(interface.path.as_str())?.to_owned()
                        };
                        let route = Route::parse(&below, request.method)?;
                        if is_likely && route.task.is_none() && !route.operation.is_send() {
                            return None;
                        }
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
            asking: Asking::new(CallReader::new(
                request.headers,
                policy.response_cap_bytes,
                policy.normalize_0_3,
                route,
            )),
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
        self.route.as_ref().map(|r| r.operation).or_else(|| self.asking.call().operation)
    }

    /// The next bytes of the request's body, in order, each once (Q-1).
    pub fn request_piece(&mut self, bytes: &[u8]) {
        self.asking.piece(bytes);
    }

    /// The request is complete.
    pub fn request_end(&mut self) {
        if self.asking.has_ended() {
            return;
        }
        self.asking.end();
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Due(held, over) => self.judge_if_lent(held, over),
            Phase::OwnDue(own) => self.write_own(own),
            Phase::Streaming(stream) => {
                self.asking.settle();
                self.resume_stream(stream);
            }
            other => self.phase = other,
        }
    }

    /// Whether `request_end` was called.
    #[must_use]
    pub fn request_ended(&self) -> bool {
        self.asking.has_ended()
    }

    /// The host's final head (not an informational one but for a 101).
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.take_head(status, headers, true);
    }

    /// The same for a caller that keeps the head anyway and lends it to [`Exchange::poll_with`]: a
    /// success then costs no copy of it.
    pub fn head_lent(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.take_head(status, headers, false);
    }

    fn take_head(&mut self, status: StatusCode, headers: &HeaderMap, keep: bool) {
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
        let stream = framing
            .filter(|_| code < 300 && !self.is_head)
            .and_then(|framing| Stream::new(framing, self.binding, code, headers));
        self.phase = match stream {
            Some(stream) => {
                self.asking.settle();
                if stream.is_coded() {
                    Phase::Holding(Box::new(Held::coded(code, headers, stream)))
                } else {
                    Phase::Streaming(Box::new(stream))
                }
            }
            None => Phase::Holding(Box::new(Held::new(code, headers, keep))),
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
        if let Phase::Due(held, over @ (Over::Intake | Over::Failed(Failure::NoRoom))) = &mut self.phase {
            // None of it is read any more, but what passes after all passes whole.
            if *over == Over::Intake || may_pass(self.if_call, held) {
                held.raw_len += bytes.len();
                held.pieces.push(bytes);
            }
            return;
        }
        if let Phase::Streaming(stream) = &mut self.phase {
            // Called a stream but is one JSON document: clients find no event in it, and the bytes of an
            // error must not go by unread.
            let Some(lead) = stream.lead_of_document(&bytes) else { return self.stream_piece(bytes) };
            let (status, headers) = stream.head();
            let mut held = Held::new(status, headers, true);
            if !lead.is_empty() {
                held.take(lead, self.policy.intake_bytes);
            }
            let Phase::Streaming(stream) = std::mem::replace(&mut self.phase, Phase::Finished) else {
                return;
            };
            let seen = held.pieces.len();
            held.stream = (self.binding == Binding::HttpJson).then_some((stream, seen));
            self.phase = Phase::Holding(Box::new(held));
        }
        let Phase::Holding(held) = &mut self.phase else { return };
        held.take(bytes, self.policy.intake_bytes);
        if held.is_undecided {
            let begins = held.begins_as_document();
            held.is_undecided = begins.is_none() && !held.over;
            if held.is_undecided {
                return;
            }
            if begins != Some(true) {
                return self.read_as_stream();
            }
            held.stream = held.stream.take().filter(|_| self.binding == Binding::HttpJson);
        }
        let status = held.status;
        let flows = if self.policy.cap.success || Refusal::from_status(status).is_some() {
            false
        } else if self.binding == Binding::JsonRpc && (self.is_post || status >= 400) {
            held.flows()
        } else {
            // No JSON-RPC answer: it flows unless an error has begun (E-4).
            status < 400 && held.flows_without_result()
        };
        if held.is_stream_after_all() && !self.policy.cap.success {
            self.read_as_stream();
        } else if flows {
            self.outcome.rules.insert(Rule::F9);
            self.release();
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

    /// There is no room for what is held (`limits.held_bytes`): decide now, by what is known of it, as where the host
    /// breaks off; what that does not decide is a 503. `false` if nothing is held.
    pub fn shed(&mut self) -> bool {
        let observes = self.is_observing();
        match &mut self.phase {
            Phase::Holding(_) | Phase::Streaming(_) if observes => {
                self.phase = Phase::Passing; // only the verdict is given up (I-5)
                self.out.push_back(Output::PassRest);
            }
            Phase::Holding(_) => self.over(Over::Failed(Failure::NoRoom)),
            // It holds nothing, or nothing more that it could give up.
            Phase::Due(_, Over::Failed(Failure::NoRoom))
            | Phase::Waiting
            | Phase::OwnDue(_)
            | Phase::Passing
            | Phase::Finished => return false,
            Phase::Due(held, over) => {
                *over = Over::Failed(Failure::NoRoom);
                if !may_pass(self.if_call, held) {
                    held.let_go();
                }
            }
            Phase::Streaming(_) => self.shed_stream(),
        }
        true
    }

    /// The host gave no answer: write the proxy's own. Only while nothing was written.
    pub fn answer(&mut self, own: OwnAnswer) {
        self.reset_answer();
        // What the client did wrong is told at once; for the rest the id is worth reading on.
        let at_once =
            matches!(own, OwnAnswer::RequestTooLarge | OwnAnswer::BadRequest | OwnAnswer::RequestTimeout);
        if self.asking.has_ended() || at_once {
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

    /// The same, with the head that was lent, until it or another one was told to be written.
    pub fn poll_with(&mut self, head: Option<&HeaderMap>) -> Option<Output> {
        if let Some(head) = head
            && matches!(self.phase, Phase::Due(..))
            && !self.wants_request()
            && let Phase::Due(held, over) = std::mem::replace(&mut self.phase, Phase::Finished)
        {
            self.judge(held, over, head);
        }
        if matches!(self.out.front(), Some(Output::HostHead))
            && let Phase::Holding(held) = &mut self.phase
        {
            // While observing the head may be gone before there is a verdict, but most answers are there at once.
            held.headers = held.headers.take().or_else(|| head.cloned());
        }
        self.out.pop_front()
    }

    /// An answer is due but the request has not been read to its end: feed `request_piece` until
    /// `request_end`, then poll again (Q-1).
    #[must_use]
    pub fn wants_request(&self) -> bool {
        match &self.phase {
            Phase::Due(..) => !self.asking.has_ended() && !self.is_observing(),
            Phase::OwnDue(_) => true,
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

    /// The call names a task, or might yet, and its answer is not only observed.
    #[must_use]
    pub fn may_name_a_task(&self) -> bool {
        !self.is_observing() && (!self.asking.has_ended() || self.asking.call().task.is_some())
    }

    /// There is a head, and no verdict yet.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        matches!(self.phase, Phase::Holding(_))
    }

    /// What was done; complete once [`Output::End`], [`Output::PassRest`] or [`Output::Abort`] came.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub(super) fn is_observing(&self) -> bool {
        self.policy.mode == Mode::Observe
    }

    /// What binds the exchange: the host's, with the interface's own mode (I-5).
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Where the URL does not tell, a call must be recognized to be bound (I-1).
    fn is_bound(&self) -> bool {
        !self.if_call || !self.asking.has_ended() || self.asking.call().is_a2a
    }

    fn pass_rest(&mut self) {
        self.phase = Phase::Passing;
        self.out.push_back(Output::HostHead);
        self.out.push_back(Output::PassRest);
    }

    /// Lets go of what is held, unchanged; the rest passes.
    fn release(&mut self) {
        let Phase::Holding(held) = std::mem::replace(&mut self.phase, Phase::Passing) else { return };
        self.send_as_is(held.pieces, Output::PassRest);
    }

    /// What is held is no document but a stream that began like one (S-1): its events are read after all.
    fn read_as_stream(&mut self) {
        let Phase::Holding(mut held) = std::mem::replace(&mut self.phase, Phase::Finished) else { return };
        let Some((stream, seen)) = held.stream.take() else { return };
        self.phase = Phase::Streaming(stream);
        for bytes in held.pieces.into_iter().skip(seen) {
            if matches!(self.phase, Phase::Streaming(_)) {
                self.stream_piece(bytes);
            }
        }
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
                let whole = over == Over::End && self.asking.has_ended() && held.looks_like_error();
                match over {
                    Over::End if whole => held.finish_unscanned(),
                    Over::End => held.finish_scan(),
                    Over::Failed(_) | Over::Intake => held.catch_up(),
                }
                if over == Over::Failed(Failure::NoRoom) && !may_pass(self.if_call, &held) {
                    held.let_go();
                }
                if over == Over::End && !whole && self.is_plain_success(&held) {
                    self.send_as_is(held.pieces, Output::End);
                } else if self.asking.has_ended() || self.is_observing() {
                    self.judge_if_lent(held, over);
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
            && Refusal::from_status(held.status).is_none()
            && !held.malformed
            && !held.undecodable
            && held.watch.is_success()
    }

    /// Judges now if the head is kept, else when it is lent again.
    fn judge_if_lent(&mut self, mut held: Box<Held>, over: Over) {
        match held.headers.take() {
            Some(headers) => self.judge(held, over, &headers),
            None => self.phase = Phase::Due(held, over),
        }
    }

    /// Decides and writes.
    fn judge(&mut self, mut held: Box<Held>, over: Over, headers: &HeaderMap) {
        self.phase = Phase::Finished;
        let observing_more = self.is_observing() && over == Over::Intake;
        let call = self.asking.call();
        if self.if_call && !call.is_a2a {
            return self.send_unjudged(held.pieces, over); // not ours after all (I-1)
        }
        let document = if over == Over::End { held.document() } else { None };
        if over == Over::End && document.is_none() && held.stream.is_some() {
            self.phase = Phase::Holding(held);
            self.read_as_stream();
            return self.end();
        }
        let empty = held.len == 0 && !held.undecodable;
        let evidence = match over {
            Over::End => decode(document.as_ref().map(|d| &d.root), empty),
            Over::Failed(_) | Over::Intake => held.watch.evidence(),
        };
        let was_json_rpc =
            if over == Over::End { evidence.shape == Shape::RpcError } else { held.watch.is_json_rpc() };
        let material = Material {
            status: held.status,
            headers,
            len: held.len,
            unreadable: over == Over::End && document.is_none() && !empty,
            document: document.as_ref(),
            is_utf8: !held.charset.is_odd(),
            is_exact: held.is_plain_json(headers, self.binding),
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
            return self.write(headers, shaped.status, None, outcome);
        }
        // S-3: on a stream call an answer that was no JSON-RPC becomes one event, the fixed one always.
        let streams =
            self.is_stream_call(&call) && shaped.status == 200 && (outcome.not_found || !was_json_rpc);
        let body = shaped.body;
        let body = if streams {
            outcome.rules.insert(Rule::S3);
            Body::Event(body)
        } else {
            Body::Json(body)
        };
        if observing_more {
            return self.note_only(headers, outcome);
        }
        self.write(headers, shaped.status, Some(body), outcome);
        if over == Over::Intake {
            self.out.push_back(Output::CloseUpstream);
        }
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
            Over::Intake | Over::Failed(Failure::NoRoom) => {
                self.phase = Phase::Passing;
                self.send_as_is(pieces, Output::PassRest);
            }
            Over::Failed(Failure::Closed | Failure::TimedOut) => self.send_as_is(pieces, Output::Abort),
        }
    }

    /// Writes a whole answer in place of the host's.
    pub(super) fn write(&mut self, host: &HeaderMap, status: u16, body: Option<Body>, mut outcome: Outcome) {
        let headers = self.keep_headers(host, &mut outcome);
        self.outcome = outcome;
        self.send(status, headers, body);
    }

    /// Only the verdict was due; the host's bytes go on, and what follows passes unread (I-5).
    pub(super) fn note_only(&mut self, host: &HeaderMap, mut outcome: Outcome) {
        self.keep_headers(host, &mut outcome);
        outcome.rules.insert(Rule::I5);
        self.outcome = outcome;
        self.phase = Phase::Passing;
        self.out.push_back(Output::PassRest);
    }

    /// What an answer in place of the host's keeps of its headers; nothing while observing, when it is only noted.
    fn keep_headers(&self, host: &HeaderMap, outcome: &mut Outcome) -> HeaderMap {
        let disclosure = &self.policy.disclosure;
        let keep_on_not_found = &self.policy.oracle.keep_headers;
        let not_found = outcome.not_found;
        let keep = |name: &HeaderName| {
            if not_found {
                keep_on_not_found.contains(name) && !disclose::is_framing(name)
            } else {
                disclose::admits_header(name, disclosure)
            }
        };
        let (headers, dropped) = if self.is_observing() {
            (HeaderMap::new(), disclose::drops(host, keep))
        } else {
            disclose::filter_headers(host, keep)
        };
        if dropped > 0 {
            outcome.rules.insert(Rule::D3);
            outcome.drop_fields(DroppedKind::Header, dropped);
        }
        if [CONTENT_ENCODING, TRANSFER_ENCODING, ETAG].iter().any(|name| host.contains_key(name)) {
            outcome.rules.insert(Rule::C4);
        }
        headers
    }

    /// An answer of the proxy's own, in the interface's binding (P-1).
    pub(super) fn own_body(&self, own: OwnAnswer, outcome: &mut Outcome) -> Vec<u8> {
        let call = self.asking.call();
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
        let shaped = frame.shape(&fault, Additions::ALL, outcome);
        let over = shaped.body.len() > self.policy.response_cap_bytes;
        outcome.verdict = own.verdict();
        if over { frame.without_id(&fault).body } else { shaped.body }
    }

    pub(super) fn write_own(&mut self, own: OwnAnswer) {
        self.phase = Phase::Finished;
        let mut outcome = std::mem::take(&mut self.outcome);
        let body = self.own_body(own, &mut outcome);
        self.outcome = outcome;
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(seconds) = own.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.send(own.status(), headers, Some(Body::Json(body)));
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

/// A body of the proxy's own.
pub(super) enum Body {
    Json(Vec<u8>),
    /// One event of a stream (S-3).
    Event(Vec<u8>),
}

/// What is not read to its end may be no error all the same: what is to no interface after all (I-1), a redirect (F-5).
fn may_pass(if_call: bool, held: &Held) -> bool {
    if_call || (300..400).contains(&held.status)
}

/// What follows `base` in a path that only lenient routers find below it.
fn loosely_below(path: &str, base: &str) -> Option<String> {
    let path = percent_decode(path);
    let mut segments = tidy(&path).into_iter();
    for part in tidy(base) {
        segments.next().filter(|segment| segment.to_lowercase() == part.to_lowercase())?;
    }
    Some(segments.flat_map(|segment| ["/", segment]).collect())
}

fn is_event_stream(media: &str) -> bool {
    Framing::of(media) == Some(Framing::Sse)
}
