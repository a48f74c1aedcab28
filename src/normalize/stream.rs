//! Streams: one event after the other, a success untouched and at once, an error in its place and in
//! its shape (section 7, S-1 to S-4; O-1's first event).

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, StatusCode};
use memchr::memmem;

use super::Binding;
use super::call::Call;
use super::decode::{Evidence, Shape, decode};
use super::disclose;
use super::encode::Shaped;
use super::exchange::{Body, EVENT_STREAM, Exchange, Phase};
use super::held::JUDGED_WHOLE;
use super::outcome::{DroppedKind, Outcome, Rule, Verdict};
use super::output::{Failure, Output, ResponseHead};
use super::watch::Watch;
use super::weigh::{Judged, Material, Over};
use crate::protocol::coding::Decoder;
use crate::protocol::scan::{Kind, Scanner, Visitor};
use crate::protocol::sse::{self, Framing, Splitter};
use crate::protocol::tree::{self, Node};

/// Bytes that one read may decode to: a stream cannot be told to wait, so a bomb ends it (C-3).
const DECODED_AT_ONCE: usize = 64 << 20;

/// Blank bytes that may come before a document: what follows as many more is no error that a client reads.
const LEAD_MAX: usize = JUDGED_WHOLE;

/// Bytes of data that are looked at before it is asked whether they were enough: a success says so in its
/// first forty, and the rest of it is not parsed (S-2).
const LOOK: usize = 64;

/// What an event's data tells so far.
#[derive(Debug, Default)]
struct Reading {
    scanner: Scanner,
    watch: EventWatch,
    malformed: bool,
    len: usize,
}

/// An answer's members, and those only a stream of the HTTP+JSON binding has.
#[derive(Debug, Default)]
struct EventWatch {
    watch: Watch,
    /// The member is one of a `StreamResponse`.
    is_payload: bool,
    /// A `StreamResponse` member has begun before an error did (A2A §11.7).
    payload_begun: bool,
    /// The event is longer than what is judged whole; its data has begun up to there, and nothing says "error".
    settled: bool,
}

impl EventWatch {
    /// A success has begun before anything of an error (S-2).
    fn is_success(&self, binding: Binding) -> bool {
        match binding {
            Binding::JsonRpc => self.watch.flows(),
            Binding::HttpJson => self.payload_begun || self.settled,
        }
    }
}

impl Visitor for EventWatch {
    fn name(&mut self, depth: usize, name: Option<&[u8]>) {
        self.is_payload = depth == 1
            && matches!(
                name.unwrap_or_default(),
                b"task"
                    | b"message"
                    | b"statusUpdate"
                    | b"artifactUpdate"
                    | b"status_update"
                    | b"artifact_update"
            );
        self.watch.name(depth, name);
    }

    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        if depth == 1 && self.is_payload && kind == Kind::Object && !self.watch.has_error() {
            self.payload_begun = true;
        }
        self.is_payload = false;
        self.watch.begin(depth, kind)
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.watch.raw(bytes);
    }

    fn end(&mut self, depth: usize, kind: Kind) {
        self.watch.end(depth, kind);
    }
}

/// What is being done with the current event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Not known yet whether it is an error: held.
    Wondering,
    /// A success: passes as it comes.
    Passing,
    /// Answered already: the rest of it is left out.
    Skipping,
}

/// The state of one stream.
pub(super) struct Stream {
    framing: Framing,
    binding: Binding,
    status: u16,
    headers: HeaderMap,
    coding: Option<Decoder>,
    is_coded: bool,
    splitter: Splitter,
    /// The blank bytes it began with, until something else came (S-1).
    lead: Option<Vec<u8>>,
    reading: Reading,
    doing: Doing,
    /// The current event's bytes while it is held.
    held: Vec<u8>,
    /// Nothing came yet (S-4).
    is_empty: bool,
    /// The current event is the stream's first, the one that a byte order mark may precede.
    at_start: bool,
    /// The event before was replaced, its end included.
    replaced: bool,
    /// The head waits for the first event to be classified (O-1); what came before that event waits too.
    waiting: Option<Vec<Bytes>>,
    waiting_len: usize,
    /// An error event needs the request's id; what follows waits here.
    due: Option<Due>,
}

struct Due {
    over: Over,
    backlog: Vec<Bytes>,
    /// Bytes in it: asked for with every piece.
    backlog_len: usize,
    ended: bool,
    failed: Option<Failure>,
}

impl Due {
    fn push(&mut self, bytes: Bytes) {
        // Behind a gap nothing can be made of it.
        if self.failed.is_none() {
            self.backlog_len += bytes.len();
            self.backlog.push(bytes);
        }
    }
}

impl Stream {
    /// `None` if its content coding cannot be undone.
    pub(super) fn new(framing: Framing, binding: Binding, status: u16, headers: &HeaderMap) -> Option<Self> {
        let coding = Decoder::for_head(headers).ok()?;
        Some(Self {
            framing,
            binding,
            status,
            headers: headers.clone(),
            // Of a coded one `Held` sees to that, which decodes it.
            lead: (framing == Framing::Sse && coding.is_none()).then(Vec::new),
            is_coded: coding.is_some(),
            coding,
            splitter: Splitter::new(framing),
            reading: Reading::default(),
            doing: Doing::Wondering,
            held: Vec::new(),
            is_empty: true,
            at_start: true,
            replaced: false,
            waiting: Some(Vec::new()),
            waiting_len: 0,
            due: None,
        })
    }

    /// Some if the stream begins, with these bytes, as a JSON object or array: no field of an event
    /// does. What came before them is blank.
    pub(super) fn lead_of_document(&mut self, bytes: &Bytes) -> Option<Bytes> {
        let lead = self.lead.as_mut()?;
        match begins_as_document(lead.len(), bytes) {
            None => {
                lead.extend_from_slice(bytes);
                None
            }
            Some(true) => self.lead.take().map(Bytes::from),
            Some(false) => {
                self.lead = None;
                None
            }
        }
    }

    /// Its bytes must be decoded before they tell whether it is one (S-1).
    pub(super) fn is_coded(&self) -> bool {
        self.is_coded && self.framing == Framing::Sse
    }

    pub(super) fn head(&self) -> (u16, &HeaderMap) {
        (self.status, &self.headers)
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let backlog = self.due.as_ref().map_or(0, |due| due.backlog_len);
        self.held.len() + self.waiting_len + backlog
    }

    /// Gives up the bytes; what was read of them stays known, and is enough for what becomes of them.
    fn let_go(&mut self) {
        self.held = Vec::new();
        self.waiting = self.waiting.take().map(|_| Vec::new());
        self.waiting_len = 0;
    }

    fn next_event(&mut self) {
        self.reading = Reading::default();
        self.doing = Doing::Wondering;
        self.held.clear();
        self.at_start = false;
    }

    /// How many more bytes of an event are looked at before something is decided: what is decided at a
    /// boundary is decided by the bytes before it, however they were split (F-9, C-3).
    fn room(&self, intake: usize) -> usize {
        let boundary = if self.held.len() <= JUDGED_WHOLE { JUDGED_WHOLE.min(intake) } else { intake };
        (boundary + 1).saturating_sub(self.held.len()).max(1)
    }

    /// HTTP+JSON says by the event's name that it is an error (S-3).
    fn is_named_error(&self) -> bool {
        self.names_error(&self.held)
    }

    fn names_error(&self, event: &[u8]) -> bool {
        self.framing == Framing::Sse && sse::name_of(event) == b"error"
    }

    /// With these bytes the event is longer than what is judged whole: on HTTP+JSON, where no `result` tells a success,
    /// one whose data has begun by then and has not said "error", nor does its name, is none. Asked once, of the bytes
    /// up to the boundary, however they were split (F-9); [`Stream::room`] sees to that.
    fn settle(&mut self, segment: &[u8]) {
        let len = self.held.len() + segment.len();
        let crosses = self.held.len() <= JUDGED_WHOLE && len > JUDGED_WHOLE;
        if self.binding == Binding::HttpJson && crosses && !self.reading.malformed {
            let watch = &mut self.reading.watch.watch;
            watch.settle();
            let begins_well = watch.begins_without_error();
            self.reading.watch.settled = begins_well && !self.names_error(&[&self.held, segment].concat());
        }
    }

    fn data(&self) -> Vec<u8> {
        sse::data_of(self.framing, &self.held, self.at_start)
    }
}

/// Whether what is called a stream begins, with these bytes behind so many blank ones, as a JSON object or array;
/// `None` if they are blank, too. Counted from the stream's first byte, so that it does not matter how the bytes
/// come (F-9).
pub(super) fn begins_as_document(blanks: usize, bytes: &[u8]) -> Option<bool> {
    let blank = |b: &u8| b.is_ascii_whitespace() || sse::MARK.contains(b);
    let room = LEAD_MAX.saturating_sub(blanks);
    match bytes.iter().take(room).find(|b| !blank(b)) {
        None if bytes.len() < room => None,
        first => Some(matches!(first, Some(b'{' | b'['))),
    }
}

impl Exchange {
    /// The next bytes of a stream.
    pub(super) fn stream_piece(&mut self, bytes: Bytes) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        stream.is_empty = false;
        let Some(mut coding) = stream.coding.take() else { return self.events(bytes) };
        let limit = self.policy.intake_bytes.max(DECODED_AT_ONCE);
        let mut decoded = 0;
        let result = coding.feed(&bytes, &mut |piece| {
            decoded += piece.len();
            self.events(Bytes::copy_from_slice(piece));
            decoded <= limit && matches!(self.phase, Phase::Streaming(_))
        });
        let Phase::Streaming(stream) = &mut self.phase else { return };
        stream.coding = Some(coding);
        if result.is_ok() && decoded <= limit {
            return;
        }
        if self.is_observing() {
            self.phase = Phase::Passing; // it is the client's to make something of it (I-5)
            self.out.push_back(Output::PassRest);
        } else {
            self.fail_stream(Failure::Closed);
        }
    }

    /// Decoded bytes of a stream.
    fn events(&mut self, bytes: Bytes) {
        if let Phase::Streaming(stream) = &mut self.phase
            && let Some(due) = &mut stream.due
        {
            due.push(bytes);
            return;
        }
        let intake = self.policy.intake_bytes;
        // Nothing that follows makes an error of what began as a success.
        let decides = !self.policy.cap.success;
        let mut at = 0;
        // What may go out as it is, in one piece, from here.
        let mut from = 0;
        while at < bytes.len() {
            let Phase::Streaming(stream) = &mut self.phase else { return };
            let wondering = stream.doing == Doing::Wondering;
            let room = if wondering { stream.room(intake) } else { usize::MAX };
            let rest = bytes.get(at..at.saturating_add(room).min(bytes.len())).unwrap_or_default();
            let binding = stream.binding;
            let Reading { scanner, watch, malformed, len } = &mut stream.reading;
            let step = stream.splitter.next(rest, &mut |data| {
                *len += data.len();
                for part in data.chunks(LOOK) {
                    if !wondering || *malformed || decides && watch.is_success(binding) {
                        break;
                    }
                    // What follows a success might as well have come in the next piece, unread (F-9).
                    *malformed =
                        scanner.feed(part, watch).is_err() && !(decides && watch.is_success(binding));
                }
            });
            let end = at + step.taken;
            if step.trails {
                if stream.replaced {
                    self.emit(bytes.slice(from..at));
                    from = end;
                }
                at = end;
                continue;
            }
            let has_data = step.ended.unwrap_or(stream.splitter.has_data());
            if wondering {
                stream.settle(bytes.get(at..end).unwrap_or_default());
            }
            if wondering && decides && stream.reading.watch.is_success(binding) {
                stream.doing = Doing::Passing;
                let held = std::mem::take(&mut stream.held);
                self.open_stream();
                if !held.is_empty() {
                    self.emit(bytes.slice(from..at));
                    self.emit(Bytes::from(held));
                    from = at;
                }
            }
            let Phase::Streaming(stream) = &mut self.phase else { return };
            match stream.doing {
                Doing::Passing => stream.replaced = false,
                Doing::Skipping => from = end,
                Doing::Wondering if step.ended == Some(false) && stream.held.is_empty() => {
                    stream.replaced = false;
                }
                Doing::Wondering => {
                    let segment = bytes.get(at..end).unwrap_or_default();
                    stream.held.extend_from_slice(segment);
                    let too_long = stream.held.len() > intake;
                    let before = bytes.slice(from..at);
                    self.emit(before);
                    from = end;
                    if step.ended.is_some() || too_long {
                        let over = if step.ended.is_some() { Over::End } else { Over::Intake };
                        self.event(has_data, over);
                        let Phase::Streaming(stream) = &mut self.phase else { return };
                        if let Some(due) = &mut stream.due {
                            due.push(bytes.slice(end..));
                            return;
                        }
                    }
                }
            }
            let Phase::Streaming(stream) = &mut self.phase else { return };
            if step.ended.is_some() {
                stream.next_event();
            }
            at = end;
        }
        self.emit(bytes.slice(from..));
    }

    /// One event is complete, or longer than may be held: judge it.
    fn event(&mut self, has_data: bool, over: Over) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if !has_data {
            stream.replaced = false;
            let held = Bytes::from(std::mem::take(&mut stream.held));
            return self.emit(held); // comments and fields that make no event
        }
        if over == Over::End && !stream.reading.malformed {
            stream.reading.malformed = stream.reading.scanner.finish(&mut stream.reading.watch).is_err();
        }
        let watch = &stream.reading.watch.watch;
        let evidence = match over {
            Over::End => None,
            Over::Intake | Over::Failed(_) => Some(watch.evidence()),
        };
        // S-2: data that is no JSON is no error; data that begins as one is, readable or not.
        let may_be_error = watch.has_error()
            || !stream.reading.malformed
            || self.binding == Binding::HttpJson && stream.is_named_error()
            || begins_as_error(&stream.data());
        let fits = !self.policy.cap.success || stream.reading.len <= self.policy.response_cap_bytes;
        // An answer of ours needs the request's id, or the task it names.
        if (may_be_error || !fits) && !self.is_observing() && !self.asking.has_ended() {
            let Phase::Streaming(stream) = &mut self.phase else { return };
            stream.due = Some(Due { over, backlog: Vec::new(), backlog_len: 0, ended: false, failed: None });
            return;
        }
        if !may_be_error && fits {
            return self.pass_event();
        }
        self.judge_event(evidence, over);
    }

    fn judge_event(&mut self, evidence: Option<Evidence>, over: Over) {
        let call = self.asking.call();
        if !self.is_interface() && !call.is_a2a {
            return self.pass_event();
        }
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let data = stream.data();
        let document = if over == Over::End { tree::parse(&data).ok() } else { None };
        let mut evidence = evidence.unwrap_or_else(|| decode(document.as_ref().map(|d| &d.root), false));
        let is_http = self.binding == Binding::HttpJson;
        let is_named = stream.is_named_error() && (is_http || document.is_some());
        let has_error = stream.reading.watch.watch.has_error()
            || document.as_ref().map_or_else(|| begins_as_error(&data), |d| lists_error(&d.root));
        let speaks = !matches!(evidence.shape, Shape::Other | Shape::Result);
        let mut status = stream.status;
        let is_error = has_error || speaks || is_named && evidence.shape == Shape::Other;
        if over == Over::End && !is_error {
            if !self.policy.cap.success || data.len() <= self.policy.response_cap_bytes {
                return self.pass_event();
            }
            evidence.shape = Shape::Result; // no error, whatever it is: only its size counts (C-1)
        } else if is_http && !matches!(evidence.shape, Shape::RpcError | Shape::RpcStatus | Shape::Envelope) {
            // Where the name or the data says "error" and no status does.
            status = 500;
        }
        let headers = stream.headers.clone();
        let framing = stream.framing;
        let first = stream.waiting.is_some();
        let material = Material {
            status,
            headers: &headers,
            len: data.len(),
            unreadable: over == Over::End && document.is_none(),
            document: document.as_ref(),
            is_utf8: true,
            // On this binding an error event needs its name (S-3), so one that has none does not pass.
            is_exact: !is_http || framing == Framing::Lines || is_named,
            any_status: is_http && !first,
            over,
        };
        let before = std::mem::take(&mut self.outcome);
        let mut outcome = Outcome::default();
        let judged = self.weigh(&call, evidence, &material, &mut outcome);
        self.outcome = merge(before, &outcome);
        let shaped = match judged {
            Judged::Pass | Judged::AsIs => return self.pass_event(),
            Judged::CutOff(Failure::NoRoom) if !first => {
                // The stream goes on without this event's own words.
                let mut outcome = std::mem::take(&mut self.outcome);
                let own = Failure::NoRoom.own_answer();
                let shaped = Shaped { status: own.status(), body: self.own_body(own, &mut outcome) };
                self.outcome = outcome;
                shaped
            }
            Judged::CutOff(failure) => return self.fail_stream(failure),
            Judged::Answer(shaped) => shaped,
        };
        self.outcome.rules.insert(Rule::S2);
        let Phase::Streaming(stream) = &mut self.phase else { return };
        // Before the first event an error can still be a whole answer of its own (O-1, S-3).
        if first && (outcome.not_found || self.binding == Binding::HttpJson || shaped.status != 200) {
            return self.answer_in_place_of_stream(&call, shaped, &outcome);
        }
        let payload = &shaped.body;
        let name = (self.binding == Binding::HttpJson).then_some("error");
        let event = sse::with_data(framing, &stream.held, payload, name);
        stream.held.clear();
        stream.replaced = true;
        if over != Over::End {
            stream.doing = Doing::Skipping;
        }
        self.open_rewritten_stream();
        self.emit(Bytes::from(event));
    }

    fn answer_in_place_of_stream(&mut self, call: &Call, shaped: Shaped, outcome: &Outcome) {
        self.outcome.rules.insert(Rule::S3);
        self.outcome.not_found = outcome.not_found;
        let Phase::Streaming(stream) = std::mem::replace(&mut self.phase, Phase::Finished) else { return };
        let outcome = std::mem::take(&mut self.outcome);
        if self.is_observing() {
            return self.note_only(&stream.headers, outcome); // the stream would end here
        }
        let body = shaped.body;
        let is_event = shaped.status == 200 && self.is_stream_call(call);
        let body = if is_event { Body::Event(body) } else { Body::Json(body) };
        self.write(&stream.headers, shaped.status, Some(body), outcome);
        self.out.push_back(Output::CloseUpstream);
    }

    /// The current event goes out as it came.
    fn pass_event(&mut self) {
        self.open_stream();
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let held = Bytes::from(std::mem::take(&mut stream.held));
        stream.doing = Doing::Passing;
        stream.replaced = false;
        self.emit(held);
    }

    /// The host's head goes out, and what waited behind it.
    fn open_stream(&mut self) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let Some(waiting) = stream.waiting.take() else { return };
        stream.waiting_len = 0;
        // Events may yet become longer or shorter, and coded bytes leave decoded.
        let framed = stream.headers.contains_key(CONTENT_LENGTH) || stream.is_coded;
        let head = if framed {
            let mut headers = stream.headers.clone();
            headers.remove(CONTENT_LENGTH);
            if stream.is_coded {
                // What was said of the coded bytes is not true of the decoded ones (C-4).
                for name in ["content-encoding", "etag", "content-digest", "content-md5", "digest"] {
                    headers.remove(name);
                }
            }
            Output::Head(ResponseHead { status: status_code(stream.status), headers: without_hop(&headers) })
        } else {
            Output::HostHead
        };
        if !self.is_observing() {
            self.out.push_back(head);
            self.out.extend(waiting.into_iter().filter(|b| !b.is_empty()).map(Output::Body));
        }
    }

    /// D-3: a stream that begins with an error keeps only the headers any rewritten answer keeps.
    fn open_rewritten_stream(&mut self) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let Some(waiting) = stream.waiting.take() else { return };
        stream.waiting_len = 0;
        let disclosure = &self.policy.disclosure;
        let keep = |name: &HeaderName| disclose::admits_header(name, disclosure);
        let (mut headers, dropped) = disclose::filter_headers(&stream.headers, keep);
        let media = match stream.framing {
            // In lower case, as some clients look for it.
            Framing::Sse => None,
            Framing::Lines => stream.headers.get(CONTENT_TYPE).cloned(),
        };
        headers.insert(CONTENT_TYPE, media.unwrap_or(EVENT_STREAM));
        if dropped > 0 {
            self.outcome.rules.insert(Rule::D3);
            self.outcome.drop_fields(DroppedKind::Header, dropped);
        }
        let status = status_code(stream.status);
        if !self.is_observing() {
            self.out.push_back(Output::Head(ResponseHead { status, headers }));
            self.out.extend(waiting.into_iter().filter(|b| !b.is_empty()).map(Output::Body));
        }
    }

    /// Sends bytes of the stream, or keeps them until the head may go.
    fn emit(&mut self, bytes: Bytes) {
        if bytes.is_empty() || self.is_observing() {
            return;
        }
        let mut room_left = true;
        if let Phase::Streaming(stream) = &mut self.phase
            && let Some(waiting) = &mut stream.waiting
        {
            stream.waiting_len += bytes.len();
            waiting.push(bytes);
            room_left = stream.waiting_len <= self.policy.intake_bytes;
        } else {
            self.out.push_back(Output::Body(bytes));
        }
        if !room_left {
            self.open_stream(); // nothing but comments, for longer than anybody can wait
        }
    }

    /// The request is complete: judge the event that waited for its id, and go on.
    pub(super) fn resume_stream(&mut self, mut stream: Box<Stream>) {
        let due = stream.due.take();
        self.phase = Phase::Streaming(stream);
        let Some(due) = due else { return };
        let evidence = match (&self.phase, due.over) {
            (Phase::Streaming(stream), Over::Intake | Over::Failed(_)) => {
                Some(stream.reading.watch.watch.evidence())
            }
            _ => None,
        };
        self.judge_event(evidence, due.over);
        if let Phase::Streaming(stream) = &mut self.phase
            && due.over == Over::End
        {
            stream.next_event();
        }
        for bytes in due.backlog {
            if matches!(self.phase, Phase::Streaming(_)) {
                self.events(bytes);
            }
        }
        match due.failed {
            _ if !matches!(self.phase, Phase::Streaming(_)) => {}
            Some(failure) => self.fail_stream(failure),
            None if due.ended => self.end_stream(),
            None => {}
        }
    }

    /// The stream is complete. An event without its blank line is none (S-2); a last line of JSON is.
    pub(super) fn end_stream(&mut self) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if let Some(due) = &mut stream.due {
            due.ended = true;
            return;
        }
        let has_data = stream.splitter.has_data();
        if stream.doing == Doing::Wondering && !stream.held.is_empty() {
            if stream.framing == Framing::Lines {
                self.event(has_data, Over::End);
                if self.wants_request() {
                    return self.end_stream();
                }
            } else if !has_data {
                let mut held = std::mem::take(&mut stream.held);
                held.truncate(held.len().saturating_sub(stream.splitter.undecided()));
                self.emit(Bytes::from(held));
            }
        }
        if let Phase::Streaming(stream) = &mut self.phase {
            if stream.is_empty && stream.waiting.take().is_some() && !self.is_observing() {
                self.out.push_back(Output::HostHead); // S-4
            }
            self.open_stream();
            self.phase = Phase::Finished;
            self.out.push_back(Output::End);
        }
    }

    /// There is no room for what is held of the stream: an event in the making, or what came before the first one.
    pub(super) fn shed_stream(&mut self) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let no_room = Failure::NoRoom;
        if let Some(due) = &mut stream.due {
            due.over = Over::Failed(no_room);
            due.backlog = Vec::new();
            due.backlog_len = 0;
            due.failed = Some(no_room); // what came behind the event is lost
            stream.let_go();
        } else if stream.doing == Doing::Wondering && stream.held.len() > stream.waiting_len {
            let has_data = stream.splitter.has_data();
            if has_data {
                self.event(true, Over::Failed(no_room));
                if let Phase::Streaming(stream) = &mut self.phase
                    && stream.due.is_some()
                    && !self.if_call
                {
                    stream.let_go();
                }
            } else {
                self.fail_stream(no_room); // comments without end
            }
        } else {
            self.fail_stream(no_room);
        }
    }

    /// The stream broke off: a complete fault while its head is held, else no clean end (C-5).
    pub(super) fn fail_stream(&mut self, failure: Failure) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if let Some(due) = &mut stream.due {
            due.failed.get_or_insert(failure);
            return;
        }
        let held = stream.waiting.is_some();
        if failure != Failure::NoRoom {
            self.outcome.rules.insert(Rule::C5);
        }
        if held && self.asking.has_ended() {
            self.write_own(failure.own_answer());
        } else if held {
            self.phase = Phase::OwnDue(failure.own_answer()); // complete means with its id
        } else {
            self.phase = Phase::Finished;
            self.out.push_back(Output::Abort);
        }
    }
}

/// What one more event adds to the outcome of its stream.
fn merge(mut so_far: Outcome, event: &Outcome) -> Outcome {
    for rule in event.rules.iter() {
        so_far.rules.insert(rule);
    }
    for (kind, count) in DroppedKind::ALL.iter().zip(event.dropped) {
        so_far.drop_fields(*kind, count);
    }
    for name in &event.dropped_names {
        so_far.drop_name(name);
    }
    let is_repair = so_far.is_repair() || event.is_repair();
    so_far.verdict = match (so_far.verdict, event.verdict) {
        (before, Verdict::Passed) => before,
        (Verdict::Overflow, _) | (_, Verdict::Overflow) => Verdict::Overflow,
        (Verdict::Rewritten, _) | (_, Verdict::Rewritten) => Verdict::Rewritten,
        (_, event) => event,
    };
    so_far.said_already = so_far.verdict == Verdict::Rewritten && !is_repair;
    so_far.reason = event.reason.or(so_far.reason);
    so_far.collapsed = event.collapsed.or(so_far.collapsed);
    so_far
}

/// Whether data that is no JSON begins as an error does: an object that has such a member, in whatever
/// quotes (S-2). Clients that read more than JSON would read it.
fn begins_as_error(data: &[u8]) -> bool {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data).trim_ascii_start();
    data.first() == Some(&b'{')
        && memmem::find_iter(data, b"error").any(|at| {
            let after = data.get(at + 5..).unwrap_or_default();
            let after = after.strip_prefix(b"\"").or(after.strip_prefix(b"'")).unwrap_or(after);
            after.trim_ascii_start().first() == Some(&b':')
        })
}

/// An array that holds an error where one answer should stand (F-6).
fn lists_error(root: &Node) -> bool {
    root.elements().iter().any(|one| one.get("error").is_some_and(|error| !error.is_null()))
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
}

/// Headers of one connection do not belong on another.
fn without_hop(headers: &HeaderMap) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| {
            !matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "proxy-connection")
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
