//! Holds an answer's head back until the exchange has its verdict.
//!
//! Pingora's filters send the head before any body filter runs, so nothing in the head could depend
//! on the body. But `Session::downstream_session` is public and may be a `Custom` session: a
//! [`Holder`] takes the place of the client's real session, passes every call on to it, and is clever
//! in two places only. Reading the request, it shows the bytes to the exchange; writing the answer,
//! it writes what the exchange says. Pools, retries, keep-alive, HTTP/2 stay Pingora's.
//!
//! What Pingora 0.9.1 does with a custom session, as far as it matters here:
//!
//! - An answer reaches it through `response_duplex_vec` only. The proxy-task calls belong to the
//!   cache, and `proxy_tasks_enabled` says no by default. The call is awaited in the body of a
//!   `select!` branch, never as one of the branches, and the one thing that could drop it, the
//!   upstream half's failure in `try_join!`, needs the task pipe to be closed, which this call keeps
//!   open. So it may wait: for the rest of the request, for the floor (O-4).
//! - `read_body_or_idle` is a branch and is dropped at any await. Showing bytes to the exchange
//!   happens after the last await, so each byte is shown once. A retry sends Pingora's own copy of
//!   the body and does not read again.
//! - `finish` is called when both directions are done, and `set_keepalive` and its like do nothing on
//!   a custom session: they belong before wrapping or after unwrapping.
//! - A client that is answered while it still sends costs the next answer nothing: Pingora goes on
//!   reading the request, and drains it before the connection is used again.

use std::mem;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Method, StatusCode, Version, header};
use pingora::protocols::Digest;
use pingora::protocols::http::custom::CustomMessageWrite;
use pingora::protocols::http::custom::server::Session as CustomSession;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::protocols::l4::socket::SocketAddr;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::task::unconstrained;
use tokio::time::Sleep;

use super::routes::Host;
use super::{front, gather, own_answers};
use crate::normalize::{JUDGED_WHOLE, Machine, Output, OwnAnswer, ResponseHead};
use crate::observe::{Lane, Limit};
use crate::protocol::a2a::Operation;

/// Where wrapping has put the client's session, and where it comes back to.
#[derive(Default)]
pub struct Slot {
    returned: Mutex<Option<Returned>>,
    /// Both directions are done, and the connection may go on.
    finished: AtomicBool,
}

impl Slot {
    /// The session, if it came back finished.
    pub fn finished(&self) -> Option<ServerSession> {
        let returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.finished.load(Ordering::Relaxed).then_some(*returned.client)
    }
}

struct Returned {
    client: Box<ServerSession>,
    held: Option<Box<Held>>,
}

/// Dresses a session up as a custom one that does nothing of its own.
pub fn disguise(session: Box<ServerSession>) -> (ServerSession, Arc<Slot>) {
    let slot = Arc::new(Slot::default());
    let holder = Holder { client: Some(session), held: None, slot: slot.clone() };
    (ServerSession::new_custom(Box::new(holder)), slot)
}

/// Puts a [`Holder`] in the place of the client's session.
pub fn wrap(target: &mut Box<ServerSession>, held: Box<Held>) -> Arc<Slot> {
    let slot = Arc::new(Slot::default());
    // The unit type is a session that answers nothing, and needs no memory.
    let client = mem::replace(target, Box::new(ServerSession::new_custom(Box::new(()))));
    let holder = Holder { client: Some(client), held: Some(held), slot: slot.clone() };
    **target = ServerSession::new_custom(Box::new(holder));
    slot
}

/// Puts a holder in the place of the client's session that only sees to what an HTTP/1.0 client can
/// read, and in which pieces one of HTTP/2 does.
pub fn cover(target: &mut Box<ServerSession>) -> Arc<Slot> {
    let client = mem::replace(target, Box::new(ServerSession::new_custom(Box::new(()))));
    let (holder, slot) = disguise(client);
    **target = holder;
    slot
}

/// Puts the client's session back and returns what is known of its answer. The trait object cannot
/// be asked for its parts, so dropping the [`Holder`] leaves them in the slot.
pub fn unwrap(target: &mut Box<ServerSession>, slot: &Slot) -> Option<Box<Held>> {
    **target = ServerSession::new_custom(Box::new(()));
    let returned = slot.returned.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    *target = returned.client;
    returned.held
}

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The exchange decides what is written.
    Judging,
    /// The host's bytes go through as they are.
    Passing,
    /// The answer is complete; what the host still sends is not for the client.
    Complete,
    /// The answer cannot be completed (C-5).
    Aborted,
}

/// One request's exchange and what the shell knows of its answer. It outlives the attempts.
pub struct Held {
    exchange: Machine,
    lane: Arc<Lane>,
    /// Bytes of a request, at the most.
    request_limit: u64,
    /// Silence of a client that is waited for.
    patience: Duration,
    /// TASK_NOT_FOUND leaves at a multiple of this (O-4).
    floor: Option<Duration>,
    /// Until the first of them, from the request's last byte on.
    floor_timer: Option<Pin<Box<Sleep>>>,
    /// What the client speaks, for the framing of a head of ours.
    version: Version,
    method: Method,
    /// The client waits for `100 Continue` before it sends its body.
    expects_continue: bool,
    /// The request's last byte was read.
    asked_at: Option<Instant>,
    /// This attempt uses a connection that was used before (P-2).
    reused: bool,

    phase: Phase,
    head_seen: bool,
    /// The host's head, until it or another one is written.
    head: Option<Box<ResponseHeader>>,
    /// The head that was written is the host's.
    head_is_hosts: bool,
    trailers: Option<Box<HeaderMap>>,
    host_ended: bool,
    /// Some of the request was read without being sent to the host.
    read_past_host: bool,
    written: bool,
    /// The host failed, and the client has a complete answer all the same.
    host_failed: bool,
    /// Bytes held back, as last reported.
    reported: usize,
    sent_at: Option<Instant>,
    head_at: Option<Instant>,
    added: Duration,
}

impl Held {
    pub fn new(exchange: Machine, request: &RequestHeader, host: &Host, lane: Arc<Lane>) -> Self {
        // What is observed is not touched, in time either (I-5).
        let floor = if exchange.is_observing() { 0 } else { host.policy.oracle.floor_ms };
        let expects = request.headers.get(header::EXPECT).map(http::HeaderValue::as_bytes);
        Self {
            exchange,
            lane,
            request_limit: host.limits.request_bytes,
            patience: host.timeouts.read,
            floor: (floor > 0).then(|| Duration::from_millis(floor)),
            floor_timer: None,
            version: request.version,
            method: request.method.clone(),
            expects_continue: expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")),
            asked_at: None,
            reused: false,
            phase: Phase::Judging,
            head_seen: false,
            head: None,
            head_is_hosts: false,
            trailers: None,
            host_ended: false,
            read_past_host: false,
            written: false,
            host_failed: false,
            reported: 0,
            sent_at: None,
            head_at: None,
            added: Duration::ZERO,
        }
    }

    pub fn exchange(&self) -> &Machine {
        &self.exchange
    }

    /// A new attempt begins.
    pub fn begin(&mut self, reused: bool) {
        self.reused = reused;
        self.sent_at = Some(Instant::now());
    }

    /// Whether another attempt is possible: nothing came of the host's answer and nothing was written.
    pub fn untouched(&self) -> bool {
        !self.head_seen && !self.written && self.phase == Phase::Judging
    }

    /// Whether the host may see the request twice (P-2): its HTTP method says so, or it is a call that
    /// only asks. What a JSON-RPC call is, is known once all of it was read.
    pub fn may_be_seen_twice(&self) -> bool {
        let asks = match self.exchange.operation() {
            Some(
                Operation::GetTask
                | Operation::ListTasks
                | Operation::SubscribeToTask
                | Operation::GetPushConfig
                | Operation::ListPushConfigs
                | Operation::GetExtendedAgentCard,
            ) => true,
            Some(
                Operation::SendMessage
                | Operation::SendStreamingMessage
                | Operation::CancelTask
                | Operation::CreatePushConfig
                | Operation::DeletePushConfig,
            )
            | None => false,
        };
        self.method.is_idempotent() || asks && self.exchange.request_ended()
    }

    /// Forgets the failed attempt (P-2).
    pub fn reset_answer(&mut self) {
        self.exchange.reset_answer();
        self.trailers = None;
        self.host_ended = false;
    }

    /// Whether the host failed where Pingora did not hear of it.
    pub fn has_host_failed(&self) -> bool {
        self.host_failed
    }

    /// Whether the client got a complete answer.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// From the request's last byte (or the attempt's begin) to the host's head.
    pub fn upstream_time(&self) -> Duration {
        // None is less than any.
        let from = self.asked_at.max(self.sent_at);
        self.head_at.zip(from).map_or(Duration::ZERO, |(head, from)| head.saturating_duration_since(from))
    }

    /// How long the answer was held once all it needed was there.
    pub fn added_time(&self) -> Duration {
        self.added
    }

    /// Nothing more of the request will come, or none was announced.
    pub fn request_ended(&mut self) {
        if !self.exchange.request_ended() {
            self.exchange.request_end();
            let now = Instant::now();
            self.asked_at = Some(now);
            self.floor_timer = self.floor.map(|floor| set(now + floor));
        }
    }

    /// Shows what was read of the request to the exchange.
    fn request_read(&mut self, read: Option<&Bytes>, client: &mut ServerSession) {
        if self.exchange.request_ended() {
            return;
        }
        if let Some(bytes) = read {
            self.exchange.request_piece(bytes);
        }
        if read.is_none() || client.is_body_done() {
            self.request_ended();
        }
    }

    /// Takes the host's next tasks and writes what comes of them. `Ok(true)` when the answer is
    /// complete and the host has nothing more that is wanted.
    async fn host_sent(&mut self, client: &mut ServerSession, tasks: Vec<HttpTask>) -> Result<bool> {
        let arrived = Instant::now();
        let mut out = Vec::with_capacity(tasks.len() + 1);
        let mut tasks = tasks.into_iter().peekable();
        while let Some(task) = tasks.next() {
            match self.phase {
                Phase::Passing => {
                    out.push(task);
                    continue;
                }
                Phase::Complete => {
                    self.host_ended |= task.is_end();
                    continue;
                }
                Phase::Judging | Phase::Aborted => {}
            }
            match task {
                // An upgrade that came about is no answer of an interface (I-4).
                HttpTask::Header(head, _)
                    if head.status == StatusCode::SWITCHING_PROTOCOLS && !client.is_upgrade_req() =>
                {
                    let why = "the host switches protocols and was not asked to";
                    let error = Error::explain(ErrorType::InvalidHTTPHeader, why).into_up();
                    return Box::pin(self.host_failed(client, error, out, arrived)).await;
                }
                HttpTask::Header(head, end) if head.status == StatusCode::SWITCHING_PROTOCOLS => {
                    self.phase = Phase::Passing;
                    out.push(HttpTask::Header(head, end));
                    continue;
                }
                // Not the answer yet, and never held. Where a task is named it would tell whether there is one (O-1): of
                // that nothing is passed but "continue" to a client that waits for it.
                HttpTask::Header(head, end) if head.status.is_informational() => {
                    if !self.exchange.may_name_a_task() {
                        client.response_duplex_vec(vec![HttpTask::Header(head, end)]).await?;
                    } else if head.status == StatusCode::CONTINUE && mem::take(&mut self.expects_continue) {
                        let bare = ResponseHeader::build(StatusCode::CONTINUE, None)?;
                        client.response_duplex_vec(vec![HttpTask::Header(Box::new(bare), end)]).await?;
                    }
                    continue;
                }
                HttpTask::Header(head, end) => {
                    self.head_seen = true;
                    self.head_at = Some(arrived);
                    self.exchange.head(head.status, &head.headers);
                    self.head = Some(head);
                    self.host_end_if(end);
                    if self.exchange.is_holding() && tasks.peek().is_some() {
                        continue; // what came with the head is judged with it, or needs it no more
                    }
                }
                HttpTask::Body(bytes, end) => {
                    if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                        self.exchange.piece(bytes);
                    }
                    self.host_end_if(end);
                }
                HttpTask::Trailer(trailers) => {
                    self.trailers = trailers;
                    self.host_end_if(true);
                }
                HttpTask::Done => self.host_end_if(true),
                HttpTask::UpgradedBody(..) => {
                    return Error::e_explain(ErrorType::InternalError, "upgraded bytes without an upgrade");
                }
                HttpTask::Failed(error) => {
                    return Box::pin(self.host_failed(client, error, out, arrived)).await;
                }
            }
            self.make_room();
            self.collect(client, &mut out, arrived).await?;
        }
        self.report_more();
        let ended = self.write(client, &mut out, arrived).await?;
        self.report();
        match self.phase {
            Phase::Passing => Ok(ended),
            Phase::Judging => Ok(false),
            Phase::Complete if self.host_ended && !self.read_past_host => Ok(true),
            // What the host still sends is not wanted (C-3), or it will not get the rest of the
            // request. Being done here would make Pingora wait for the one, and a host that stalls
            // would take the client's connection with it; and end the other, as if it were whole
            // . An error ends the attempt at once, and `front::keep` saves the client's
            // connection.
            Phase::Complete => {
                Err(Error::explain(ErrorType::InternalError, "the host is not needed any more").into_in())
            }
            Phase::Aborted => {
                Err(Error::explain(ErrorType::ConnectionClosed, "the answer is cut off").into_up())
            }
        }
    }

    fn host_end_if(&mut self, end: bool) {
        if end && !self.host_ended {
            self.host_ended = true;
            self.exchange.end();
        }
    }

    /// The host's answer ends here without being complete (C-5, P-1). An answer that is still held
    /// becomes a complete one of ours, and the client's connection goes on; only what may be sent
    /// again (P-2), or has begun to flow, is left to Pingora's error path.
    async fn host_failed(
        &mut self,
        client: &mut ServerSession,
        error: Box<Error>,
        mut out: Vec<HttpTask>,
        arrived: Instant,
    ) -> Result<bool> {
        if self.head_seen {
            self.exchange.fail(own_answers::failure(&error));
        } else if self.reused && self.may_be_seen_twice() && !client.retry_buffer_truncated() {
            return Err(error);
        } else {
            self.exchange.answer(own_answers::of_upstream(&error));
        }
        self.collect(client, &mut out, arrived).await?;
        self.report();
        self.write(client, &mut out, arrived).await?;
        if self.phase != Phase::Complete {
            return Err(error);
        }
        // Nobody else hears of it.
        self.host_failed = true;
        self.lane.upstream_failed(own_answers::upstream_failure(&error));
        Ok(true)
    }

    /// Writes an answer of the proxy's own to `client` (P-1). Only while nothing was written.
    ///
    /// # Errors
    /// When the client cannot be written to, or is not there any more.
    pub async fn say(&mut self, client: &mut ServerSession, own: OwnAnswer) -> Result<()> {
        let arrived = Instant::now();
        if matches!(own, OwnAnswer::RequestTooLarge | OwnAnswer::BadRequest | OwnAnswer::RequestTimeout) {
            // Nothing readable follows: what was read of the id by now is what is known of it.
            self.request_ended();
        }
        self.exchange.answer(own);
        let mut out = Vec::with_capacity(2);
        self.collect(client, &mut out, arrived).await?;
        self.report();
        self.write(client, &mut out, arrived).await?;
        if self.phase == Phase::Complete {
            Ok(())
        } else {
            Error::e_explain(ErrorType::InternalError, "the exchange gave no answer")
        }
    }

    /// Moves what the exchange says to `out`. An answer that is due but needs the rest of the request
    /// reads it here: not as Pingora would, by way of a host that may have stopped reading.
    async fn collect(
        &mut self,
        client: &mut ServerSession,
        out: &mut Vec<HttpTask>,
        arrived: Instant,
    ) -> Result<()> {
        loop {
            while self.phase != Phase::Passing {
                let head = self.head.as_ref().map(|head| &head.headers);
                let Some(output) = self.exchange.poll(head) else { break };
                self.emit(output, out)?;
            }
            let waits = self.phase == Phase::Judging && self.exchange.wants_request();
            if !waits || self.exchange.request_ended() {
                return Ok(());
            }
            self.make_room();
            self.write(client, out, arrived).await?;
            // Boxed, like all that is rare here: what every answer carries along is kept small.
            Box::pin(self.read_request(client)).await?;
        }
    }

    fn emit(&mut self, output: Output, out: &mut Vec<HttpTask>) -> Result<()> {
        match output {
            Output::HostHead => {
                self.head_is_hosts = true;
                if let Some(head) = self.head.take() {
                    out.push(HttpTask::Header(head, false));
                }
            }
            Output::Head(head) => {
                self.head = None;
                out.push(HttpTask::Header(Box::new(self.framed(head)?), false));
            }
            Output::Body(bytes) => out.push(HttpTask::Body(Some(bytes), false)),
            Output::End => {
                self.phase = Phase::Complete;
                self.end(out);
            }
            Output::PassRest => {
                self.phase = Phase::Passing;
                if self.host_ended {
                    self.end(out);
                }
            }
            Output::Abort => self.phase = Phase::Aborted,
            // The answer is complete before the host's is, which says it already.
            Output::CloseUpstream => {}
        }
        Ok(())
    }

    /// Ends the message: with the host's trailers if it is the host's, on the last task if there is
    /// one (a task of its own would make Pingora copy the body).
    fn end(&mut self, out: &mut Vec<HttpTask>) {
        let trailers = self.trailers.take().filter(|_| self.head_is_hosts);
        match out.last_mut() {
            _ if trailers.is_some() => out.push(HttpTask::Trailer(trailers)),
            Some(HttpTask::Header(_, end) | HttpTask::Body(_, end)) => *end = true,
            _ => out.push(HttpTask::Done),
        }
    }

    /// A head of the exchange's with the framing that the client's protocol version has. Pingora adds
    /// `Date` and `Connection` to every head, so neither tells answers apart.
    fn framed(&self, head: ResponseHead) -> Result<ResponseHeader> {
        let (mut parts, ()) = http::Response::new(()).into_parts();
        (parts.status, parts.headers) = (head.status, head.headers);
        let mut framed = ResponseHeader::from(parts);
        let bodyless = self.method == Method::HEAD
            || matches!(framed.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let sized = framed.headers.contains_key(header::CONTENT_LENGTH);
        if !bodyless && !sized && self.version == Version::HTTP_11 {
            framed.insert_header(header::TRANSFER_ENCODING, "chunked")?;
        }
        Ok(framed)
    }

    /// Reads the request to its end, within its limits, past Pingora and the host.
    async fn read_request(&mut self, client: &mut ServerSession) -> Result<()> {
        if mem::take(&mut self.expects_continue)
            && client.body_bytes_read() == 0
            && client.response_written().is_none()
        {
            // The host has answered without asking for the body; its id is still needed.
            client.write_continue_response().await?;
        }
        while !self.exchange.request_ended() {
            let Ok(read) = tokio::time::timeout(self.patience, client.read_request_body()).await else {
                client.set_keepalive(None);
                self.request_ended();
                if !self.written {
                    self.exchange.answer(OwnAnswer::RequestTimeout);
                }
                return Ok(());
            };
            let read = read.map_err(Error::into_down)?;
            self.read_past_host |= read.as_ref().is_some_and(|bytes| !bytes.is_empty());
            self.request_read(read.as_ref(), client);
            if client.body_bytes_read() as u64 > self.request_limit {
                client.set_keepalive(None);
                self.request_ended();
                if !self.written {
                    self.exchange.answer(OwnAnswer::RequestTooLarge);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    async fn write(
        &mut self,
        client: &mut ServerSession,
        out: &mut Vec<HttpTask>,
        arrived: Instant,
    ) -> Result<bool> {
        if out.is_empty() {
            return Ok(false);
        }
        if !self.written {
            self.keep_floor().await;
            self.written = true;
            self.added = arrived.elapsed();
        }
        gather::send(client, mem::take(out), front::gather().as_deref()).await
    }

    /// Waits for the next multiple of the floor since the request's last byte (O-4), so that how long
    /// the host took to say "not yours" shows no finer than that.
    async fn keep_floor(&mut self) {
        let (Some(floor), Some(asked), Some(timer)) = (self.floor, self.asked_at, &mut self.floor_timer)
        else {
            return;
        };
        if self.exchange.outcome().not_found {
            let due = (asked + next_multiple(asked.elapsed(), floor)).into();
            if timer.deadline() < due {
                timer.as_mut().reset(due);
            }
            timer.as_mut().await;
        }
    }

    /// Gives up what is held where all exchanges together hold more than they may (`limits.held_bytes`). What is
    /// judged whole anyway (F-9) has room always, so that no success waits or goes without need.
    fn make_room(&mut self) {
        if self.exchange.held_bytes() <= JUDGED_WHOLE || self.host_ended && !self.exchange.wants_request() {
            return;
        }
        self.report_more();
        if self.lane.holds_too_much() && self.exchange.shed() {
            self.lane.reached(Limit::HeldBytes);
        }
    }

    /// What is let go of counts as held until it is written.
    fn report_more(&mut self) {
        if self.exchange.held_bytes() > self.reported {
            self.report();
        }
    }

    fn report(&mut self) {
        let held = self.exchange.held_bytes();
        if held != self.reported {
            let delta =
                i64::try_from(held).unwrap_or(i64::MAX) - i64::try_from(self.reported).unwrap_or(i64::MAX);
            self.lane.held(delta);
            self.reported = held;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.reported > 0 {
            self.lane.held(-i64::try_from(self.reported).unwrap_or(i64::MAX));
        }
    }
}

/// A timer that is set from here on. Those that are over in the same millisecond go off in the order in which they were set: were that
/// when the host had answered, the order of two answers would tell which of them took longer.
fn set(due: Instant) -> Pin<Box<Sleep>> {
    let mut timer = Box::pin(tokio::time::sleep_until(due.into()));
    let first = pin!(unconstrained(&mut timer));
    // Who waits for it registers a waker of its own.
    let _ = first.poll(&mut Context::from_waker(Waker::noop()));
    timer
}

/// The least multiple of `floor` that is not less than `elapsed`, and at least one of it.
fn next_multiple(elapsed: Duration, floor: Duration) -> Duration {
    let floor = floor.as_nanos().max(1);
    let multiples = elapsed.as_nanos().div_ceil(floor).max(1);
    Duration::from_nanos(u64::try_from(multiples.saturating_mul(floor)).unwrap_or(u64::MAX))
}

/// The session that stands in for the client's.
struct Holder {
    /// `None` only while being dropped.
    client: Option<Box<ServerSession>>,
    /// `None` in a mere disguise.
    held: Option<Box<Held>>,
    slot: Arc<Slot>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let returned = Returned { client, held: self.held.take() };
            *self.slot.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
        }
    }
}

impl Holder {
    fn client(&self) -> &ServerSession {
        match &self.client {
            Some(client) => client,
            None => unreachable!("a session is used after it was dropped"),
        }
    }

    fn client_mut(&mut self) -> &mut ServerSession {
        self.parts().0
    }

    fn parts(&mut self) -> (&mut ServerSession, Option<&mut Held>) {
        match &mut self.client {
            Some(client) => (client, self.held.as_deref_mut()),
            None => unreachable!("a session is used after it was dropped"),
        }
    }
}

#[async_trait]
impl CustomSession for Holder {
    async fn response_duplex_vec(&mut self, mut tasks: Vec<HttpTask>) -> Result<bool> {
        let (client, held) = self.parts();
        if client.req_header().version < Version::HTTP_11 {
            // Pingora writes it in for a host that speaks HTTP/2, after every hook.
            for task in &mut tasks {
                if let HttpTask::Header(head, _) = task {
                    head.remove_header(&header::TRANSFER_ENCODING);
                }
            }
        }
        match held {
            Some(held) if held.phase != Phase::Passing => held.host_sent(client, tasks).await,
            _ => gather::send(client, tasks, front::gather().as_deref()).await,
        }
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        let (client, held) = self.parts();
        let read = client.read_request_body().await?;
        if let Some(held) = held {
            held.request_read(read.as_ref(), client);
        }
        Ok(read)
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        let (client, held) = self.parts();
        let read = client.read_body_or_idle(no_body_expected).await?;
        if let Some(held) = held {
            held.request_read(read.as_ref(), client);
        }
        Ok(read)
    }

    /// Both directions are done. That the host's answer is still being judged here means that its
    /// end never came through: the client gets a complete answer all the same (C-5).
    async fn finish(&mut self) -> Result<()> {
        let (client, held) = self.parts();
        if let Some(held) = held.filter(|held| held.phase == Phase::Judging) {
            let error = Error::explain(ErrorType::ConnectionClosed, "the host's answer has no end").into_up();
            held.reused = false;
            Box::pin(held.host_failed(client, error, Vec::new(), Instant::now())).await?;
        }
        client.finish_body().await?;
        self.slot.finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// HTTP/1 closes, HTTP/2 resets the stream: told apart from a clean end by the client (C-5).
    async fn abandon(&mut self, _context: &str) {
        self.client_mut().shutdown().await;
    }

    async fn shutdown(&mut self, _code: u32, _context: &str) {
        self.client_mut().shutdown().await;
    }

    // From here on every call is the client session's own.

    fn req_header(&self) -> &RequestHeader {
        self.client().req_header()
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.client_mut().req_header_mut()
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        self.client_mut().drain_request_body().await
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, _end: bool) -> Result<()> {
        self.client_mut().write_response_header(head).await
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, _end: bool) -> Result<()> {
        self.client_mut().write_response_header_ref(head).await
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.client_mut().write_response_body(data, end).await
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.client_mut().write_response_trailers(trailers).await
    }

    fn proxy_tasks_enabled(&self) -> bool {
        // The cache's way of writing; it would go around the exchange.
        false
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.client_mut().set_read_timeout(timeout);
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.client().get_read_timeout()
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.client_mut().set_write_timeout(timeout);
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.client().get_write_timeout()
    }

    fn set_total_drain_timeout(&mut self, timeout: Option<Duration>) {
        self.client_mut().set_total_drain_timeout(timeout);
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.client().get_total_drain_timeout()
    }

    fn request_summary(&self) -> String {
        self.client().request_summary()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.client().response_written()
    }

    fn is_body_done(&mut self) -> bool {
        self.client_mut().is_body_done()
    }

    fn is_body_empty(&mut self) -> bool {
        self.client_mut().is_body_empty()
    }

    fn body_bytes_sent(&self) -> usize {
        self.client().body_bytes_sent()
    }

    fn body_bytes_read(&self) -> usize {
        self.client().body_bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        self.client().digest()
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.client_mut().digest_mut()
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.client().client_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.client().server_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.client().to_h1_raw()
    }

    fn enable_retry_buffering(&mut self) {
        self.client_mut().enable_retry_buffering();
    }

    fn retry_buffer_truncated(&self) -> bool {
        self.client().retry_buffer_truncated()
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        self.client().get_retry_buffer()
    }

    fn is_upgrade_req(&self) -> bool {
        self.client().is_upgrade_req()
    }

    fn was_upgraded(&self) -> bool {
        self.client().was_upgraded()
    }

    // No session of ours has custom messages.

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(&mut self) -> Option<MessageReader> {
        None
    }

    fn restore_custom_message_reader(&mut self, _reader: MessageReader) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _writer: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }
}

type MessageReader = Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>;

#[cfg(test)]
mod tests {
    use super::*;

    /// O-4: never before the first multiple, and on one exactly.
    #[test]
    fn the_floor_is_a_multiple() {
        let ms = Duration::from_millis;
        for (elapsed, expected) in [(0, 50), (1, 50), (50, 50), (51, 100), (120, 150)] {
            assert_eq!(next_multiple(ms(elapsed), ms(50)), ms(expected), "{elapsed}");
        }
    }
}
