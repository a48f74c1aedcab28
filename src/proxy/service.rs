//! Pingora's hooks: where a request is routed, wrapped, retried, refused and counted.
//!
//! | hook | does | because |
//! |---|---|---|
//! | `early_request_filter` | takes the session out of the disguise it came in | the first hook, see `front` |
//! | `request_filter` | routes, refuses what must not reach a host | the first hook that may answer |
//! | `upstream_request_filter` | wraps the client's session in a holder | earlier, Pingora's authority policy would see a custom session and skip its `Host` checks |
//! | `error_while_proxy` | unwraps, decides on a retry | runs after every failed attempt; the next one wraps again |
//! | `fail_to_proxy` | unwraps, answers | nothing was written while held, and `set_keepalive` does nothing on a custom session |
//! | `logging` | unwraps, counts | runs before Pingora's `finish`, which could not reuse a custom session |

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{StatusCode, Version};
use pingora::protocols::http::ServerSession;
use pingora::protocols::{ALPN, Digest};
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora_error::{Error, ErrorSource, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};

use super::admission::Admission;
use super::front;
use super::group::{Address, Lease, Verdict};
use super::hold::{self, Held, Slot};
use super::joined;
use super::own_answers;
use super::request;
use super::routes::{Host, Hosts, Routed};
use super::upstream::Picked;
use crate::normalize::{Outcome, OwnAnswer};
#[cfg(feature = "otlp")]
use crate::observe::spans;
use crate::observe::{Finished, InFlight, Lane, Limit};

/// How long a request's unread rest is read so that the connection can be used again.
const DRAIN: Duration = Duration::from_secs(5);

/// Attempts at one request that got as far as a connection, at the most (P-2).
pub const MOST_ATTEMPTS: usize = 8;
/// Addresses that one request looks for a connection at, at the most.
pub const MOST_ADDRESSES: usize = 64;

/// The proxy, as Pingora sees it.
pub struct Shell {
    hosts: Arc<Hosts>,
    admission: Arc<Admission>,
}

impl Shell {
    pub fn new(hosts: Arc<Hosts>, admission: Arc<Admission>) -> Self {
        Self { hosts, admission }
    }
}

/// One request.
#[derive(Default)]
pub struct Call {
    host: Option<Arc<Host>>,
    lane: Option<Arc<Lane>>,
    in_flight: Option<InFlight>,
    /// The exchange, if rules bind the request, while no attempt is under way.
    held: Option<Box<Held>>,
    /// Where the exchange and the client's session are during an attempt.
    wrapped: Option<Arc<Slot>>,
    /// Counts the attempt under way at its address.
    lease: Option<Lease>,
    /// Addresses that the request failed at.
    tried: Vec<Arc<Address>>,
    /// Failures so far, with a connection and without.
    attempts: usize,
    misses: usize,
    first_failure: Option<Instant>,
    /// The attempt uses a connection that was used before.
    reused: bool,
    /// The attempt's connection.
    connection: RawFd,
    /// The client got a complete answer although proxying failed.
    answered: bool,
    /// Something of the request's body was on its way to the host, so its head was written.
    body_began: bool,
    /// What was answered where no exchange counts it.
    own: Option<Outcome>,
    /// For requests without an exchange.
    sent_at: Option<Instant>,
    head_at: Option<Instant>,
    #[cfg(feature = "otlp")]
    span: Option<Box<spans::Begun>>,
}

impl Call {
    /// Finds the request's host and, if rules bind it, begins its exchange. `false` when the
    /// authority selects no host.
    pub fn route(&mut self, hosts: &Hosts, session: &ServerSession) -> bool {
        let request = session.req_header();
        let Some(Routed { host, machine, lane }) = hosts.route(request) else { return false };
        self.held = machine.map(|machine| Box::new(Held::new(machine, request, &host, lane.clone())));
        #[cfg(feature = "otlp")]
        {
            self.span = spans::begin(&request.headers);
        }
        self.in_flight = Some(lane.begin());
        self.lane = Some(lane);
        self.host = Some(host);
        true
    }

    /// Writes an answer of the proxy's own: in the interface's binding on an interface, else as text.
    ///
    /// # Errors
    /// When the client cannot be written to.
    pub async fn answer(&mut self, session: &mut ServerSession, own: OwnAnswer) -> Result<()> {
        match own {
            // What still comes is not worth reading, or not to be understood.
            OwnAnswer::RequestTooLarge
            | OwnAnswer::BadRequest
            | OwnAnswer::RequestTimeout
            | OwnAnswer::Internal => {
                session.set_keepalive(None);
            }
            OwnAnswer::BadGateway
            | OwnAnswer::GatewayTimeout
            | OwnAnswer::Unavailable
            | OwnAnswer::TooManyRequests
            | OwnAnswer::Loop => {}
        }
        if let Some(held) = &mut self.held {
            held.say(session, own).await?;
        } else {
            self.own = Some(Outcome::of_own_answer(own));
            own_answers::plain(session, own_answers::status(own)).await?;
        }
        if session.get_keepalive().is_none() && !session.is_body_done() {
            own_answers::linger(session).await;
        }
        Ok(())
    }

    /// Counts the request, once, when it is over.
    pub fn count(&self, session: &ServerSession) {
        let Some(lane) = &self.lane else { return };
        let answer = session.response_written();
        let stream = answer.is_some_and(is_event_stream);
        let status = answer.map_or(0, |answer| answer.status.as_u16());
        let finished = if let Some(held) = &self.held {
            if let (Some(fate), Some(host)) = (held.exchange().card_fate(), &self.host) {
                lane.card(fate);
                if let Some(public) = &host.public {
                    public.note(&host.name, fate);
                }
            }
            Finished {
                status,
                outcome: Some(held.exchange().outcome()),
                stream,
                upstream: held.upstream_time(),
                added: held.added_time(),
            }
        } else {
            let times = self.head_at.zip(self.sent_at);
            let upstream = times.map_or(Duration::ZERO, |(head, sent)| head.saturating_duration_since(sent));
            Finished { status, outcome: self.own.as_ref(), stream, upstream, added: Duration::ZERO }
        };
        lane.finished(&finished);
        #[cfg(feature = "otlp")]
        if let Some(span) = &self.span {
            span.end(lane, &finished);
        }
    }

    fn unwrap(&mut self, session: &mut Session) {
        if let Some(slot) = self.wrapped.take() {
            self.held = hold::unwrap(&mut session.downstream_session, &slot);
        }
        if self.held.as_ref().is_some_and(|held| held.has_host_failed()) {
            self.judge(Verdict::Bad);
        }
    }

    /// What the attempt under way says of its address.
    fn judge(&mut self, verdict: Verdict) {
        if let Some(lease) = &mut self.lease {
            lease.verdict = verdict;
        }
    }

    /// The attempt is over.
    fn settle(&mut self) {
        if let (Some(lease), Some(host)) = (self.lease.take(), &self.host) {
            host.upstreams.settle(lease);
        }
    }

    fn address(&self) -> Option<Arc<Address>> {
        self.lease.as_ref().map(|lease| lease.address.clone())
    }

    /// After a failure: whether there is another attempt in the time and number that one request has.
    fn has_attempts_left(&mut self) -> bool {
        let first = *self.first_failure.get_or_insert_with(Instant::now);
        let patience = self.host.as_ref().map_or(Duration::ZERO, |host| host.timeouts.connect);
        self.attempts < MOST_ATTEMPTS && self.misses < MOST_ADDRESSES && first.elapsed() < patience
    }

    /// The request failed here; whether there is another address to try.
    fn is_left_by(&mut self, address: Option<Arc<Address>>) -> bool {
        self.tried.extend(address);
        self.host.as_ref().is_some_and(|host| host.upstreams.has_other(&self.tried))
    }
}

#[async_trait]
impl ProxyHttp for Shell {
    type CTX = Call;

    fn new_ctx(&self) -> Call {
        Call::default()
    }

    /// The very first hook.
    async fn early_request_filter(&self, session: &mut Session, _call: &mut Call) -> Result<()> {
        front::take_off(&mut session.downstream_session);
        Ok(())
    }

    /// Routes the request; refuses loops and announced oversize before a host is asked (P-1).
    async fn request_filter(&self, session: &mut Session, call: &mut Call) -> Result<bool> {
        // A client that is answered before it has sent everything keeps its connection, and may send
        // its next request before it has the answer.
        session.set_close_on_response_before_downstream_finish(false);
        session.set_pipelining_enabled(true);
        session.set_total_drain_timeout(Some(DRAIN));
        if session.req_header().version < Version::HTTP_11 {
            session.set_ignore_info_resp(true);
        }

        if !call.route(&self.hosts, session) {
            front::write_within(session, self.hosts.longest_write());
            own_answers::plain(session, StatusCode::MISDIRECTED_REQUEST).await?;
            return Ok(true);
        }
        // Silence towards the client counts like silence towards the host (U-3).
        let write = call.host.as_ref().map_or_else(|| self.hosts.longest_write(), |host| host.timeouts.write);
        front::write_within(session, write);
        if let Some(held) = &mut call.held
            && session.is_body_empty()
        {
            held.request_ended();
        }
        let headers = &session.req_header().headers;
        let limit = call.host.as_ref().map_or(u64::MAX, |host| host.limits.request_bytes);
        let client = session.client_addr().and_then(|client| client.as_inet()).map(SocketAddr::ip);
        let refusal = if !self.admission.admits(client) {
            Some(OwnAnswer::TooManyRequests)
        } else if !request::is_plain(session.req_header()) {
            Some(OwnAnswer::BadRequest)
        } else if request::has_been_here(headers, self.hosts.pseudonym()) {
            Some(OwnAnswer::Loop)
        } else if request::announced(headers).is_some_and(|size| size > limit) {
            Some(OwnAnswer::RequestTooLarge)
        } else {
            None
        };
        if let Some(own) = refusal {
            call.answer(session, own).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn upstream_peer(&self, session: &mut Session, call: &mut Call) -> Result<Box<HttpPeer>> {
        let Some(host) = &call.host else {
            return Error::e_explain(ErrorType::InternalError, "a request without a host");
        };
        let Picked { mut peer, lease } = host.upstreams.pick(&call.tried).await?;
        call.lease = Some(lease);
        let options = &mut peer.options;
        // An upgrade is HTTP/1.1's own; a host that may speak either is asked in that.
        if options.alpn == ALPN::H1 || options.alpn == ALPN::H2H1 && session.is_upgrade_req() {
            options.alpn = joined::marker();
        }
        Ok(peer)
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        _peer: &HttpPeer,
        connection: RawFd,
        _digest: Option<&Digest>,
        call: &mut Call,
    ) -> Result<()> {
        call.reused = reused || joined::was_used_before(connection);
        call.connection = connection;
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        upstream: &mut RequestHeader,
        call: &mut Call,
    ) -> Result<()> {
        request::leave_trace(upstream, self.hosts.via(session.req_header().version))?;
        request::say_the_length_once(upstream)?;
        let public = call.host.as_ref().and_then(|host| host.public.as_ref());
        if let Some(target) = public.and_then(|public| public.inner_target(upstream)) {
            let authority = upstream.uri.authority().map(|authority| authority.as_str().to_owned());
            if let Some(authority) = authority
                && upstream.version == Version::HTTP_2
                && !upstream.headers.contains_key(header::HOST)
            {
                // A new path is all that the target has then.
                upstream.insert_header(header::HOST, authority)?;
            }
            upstream.set_raw_path(&target)?;
        }
        call.body_began = false;
        if upstream.version == Version::HTTP_2 {
            // Before the session is wrapped.
            prepare_for_http2(session, upstream, call).await?;
        }
        if let Some(mut held) = call.held.take() {
            if held.exchange().is_interface() {
                request::ask_for_plain_bytes(upstream)?;
            } else if held.exchange().wants_whole_card() {
                request::ask_for_the_whole_card(upstream)?;
            }
            held.begin(call.reused);
            call.wrapped = Some(hold::wrap(&mut session.downstream_session, held));
        } else {
            call.sent_at = Some(Instant::now());
            let is_old =
                upstream.version == Version::HTTP_2 && session.req_header().version < Version::HTTP_11;
            if is_old || session.as_http2().is_some() {
                call.wrapped = Some(hold::cover(&mut session.downstream_session));
            }
        }
        if !session.is_body_empty() {
            joined::expect_head(call.connection);
        }
        Ok(())
    }

    /// Bounds a request that did not announce its size (P-1).
    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        call: &mut Call,
    ) -> Result<()> {
        call.body_began = true;
        if end && body.as_ref().is_some_and(Bytes::is_empty) {
            // The end by itself, as HTTP/2 has it in an empty frame. Pingora would write it as a chunk without bytes,
            // which is the end, and then the end: one too many, in front of the connection's next request.
            *body = None;
        }
        // Of a chunk's head without its first byte comes an empty piece, which goes no further.
        if end || !body.as_ref().is_some_and(Bytes::is_empty) {
            joined::expect_body(call.connection);
        }
        let limit = call.host.as_ref().map_or(u64::MAX, |host| host.limits.request_bytes);
        if session.body_bytes_read() as u64 > limit {
            return Err(Error::explain(ErrorType::HTTPStatus(413), "over limits.request_bytes").into_down());
        }
        Ok(())
    }

    /// The host's head as the client's connection can carry it.
    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        call: &mut Call,
    ) -> Result<()> {
        let most = call.host.as_ref().map_or(usize::MAX, |host| host.limits.response_header_bytes);
        if size(response) > most {
            self.admission.reached(Limit::ResponseHeaderBytes);
            let why = "over limits.response_header_bytes";
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, why).into_up());
        }
        if response.status.is_informational() {
            return Ok(());
        }
        if call.wrapped.is_none() {
            call.head_at = Some(Instant::now());
        }
        if is_event_stream(response)
            && let Some(in_flight) = &mut call.in_flight
        {
            in_flight.streaming();
        }
        let is_gateway_error = matches!(response.status.as_u16(), 502..=504);
        call.judge(if is_gateway_error { Verdict::Bad } else { Verdict::Good });
        if response.version < Version::HTTP_2 && closes_on_a_later_line(response) {
            joined::spend(call.connection);
        }
        strip_hop_by_hop(response);
        if session.req_header().version < Version::HTTP_11 {
            // Pingora frames for HTTP/1.1; an HTTP/1.0 client takes what comes until the close.
            response.remove_header(&header::TRANSFER_ENCODING);
        }
        Ok(())
    }

    /// The host has seen nothing: another address is tried at once, if there is one (P-1).
    fn fail_to_connect(
        &self,
        session: &mut Session,
        _: &HttpPeer,
        call: &mut Call,
        mut error: Box<Error>,
    ) -> Box<Error> {
        // A connection that the host was about to close: the next attempt is on another one.
        let was_old = *error.etype() == ErrorType::H2Error && http2_cause(&error).is_some();
        call.judge(if was_old { Verdict::Nothing } else { Verdict::Bad });
        let address = call.address();
        call.settle();
        if was_old {
            call.attempts += 1;
        } else {
            call.misses += 1;
        }
        let is_left = call.is_left_by(address.clone().filter(|_| !was_old)) || was_old;
        let retry = is_left && call.has_attempts_left() && !session.retry_buffer_truncated();
        error.set_retry(retry);
        if retry && !was_old {
            tell_of_another(call, address.as_deref(), &error);
        }
        error
    }

    /// P-2: sent again is only what failed on a reused connection before a byte of an answer, with
    /// its body still held whole, and only what may be seen twice: idempotent methods, and calls that
    /// only ask. Anything else (SendMessage, a POST elsewhere) is sent again only if not even its head
    /// could be written: then the host cannot have seen it. Once the head is written it may have, and
    /// the client gets its 502. What was not sent at all, and what a host says over HTTP/2 that it has not
    /// looked at, is sent again on any connection. Always to another address, if there is one.
    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        call: &mut Call,
        _client_reused: bool,
    ) -> Box<Error> {
        call.unwrap(session);
        call.attempts += 1;
        let unlooked = joined::is_unsent(&error) || is_unlooked_at(&error);
        let unseen = unlooked || *error.etype() == ErrorType::WriteError && !call.body_began;
        let (twice, untouched) = match &call.held {
            Some(held) => (held.may_be_seen_twice(), held.untouched()),
            None => (session.req_header().method.is_idempotent(), call.head_at.is_none()),
        };
        let unanswered = no_byte_came(&error);
        let is_hosts = *error.esource() == ErrorSource::Upstream;
        if is_hosts {
            // A connection that has grown old is no fault of the host's.
            let was_old = untouched && (unlooked || call.reused && (unseen || unanswered));
            call.judge(if was_old { Verdict::Nothing } else { Verdict::Bad });
        }
        let written = session.response_written();
        let retry = (unlooked || call.reused && (unseen || twice && unanswered))
            && untouched
            && is_hosts
            // A 100 of ours, for a host that has not looked at the request, is no answer.
            && written.is_none_or(|head| unlooked && head.status.is_informational())
            && !session.retry_buffer_truncated()
            && call.has_attempts_left();
        error.set_retry(retry);
        if retry {
            let address = call.address();
            call.settle();
            let _ = call.is_left_by(address);
            if let Some(held) = &mut call.held {
                held.reset_answer();
            }
        }
        error
    }

    /// Answers what has no answer, or ends visibly what cannot be completed (C-5, P-1).
    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, call: &mut Call) -> FailToProxy {
        call.unwrap(session);
        if *error.esource() == ErrorSource::Downstream && *error.etype() == ErrorType::WriteTimedout {
            self.admission.reached(Limit::Write);
        }
        if *error.esource() == ErrorSource::Upstream {
            let host = call.host.as_ref().map(|host| host.name.as_str());
            // The kind only: contexts and causes may quote what was sent (D-4).
            tracing::warn!(host, error = error.etype().as_str(), "a host failed");
            if let Some(lane) = &call.lane {
                lane.upstream_failed(own_answers::upstream_failure(error));
            }
        }
        let code = match own_answers::of(error) {
            // The answer is complete, only the host is not done with its own.
            _ if call.held.as_ref().is_some_and(|held| held.is_complete()) => {
                call.answered = true;
                if session.get_keepalive().is_none() && !session.is_body_done() {
                    own_answers::linger(session).await;
                }
                0
            }
            // A final head is out (an informational one does not count): nothing but an abort is left.
            _ if session.response_written().is_some_and(|head| !head.status.is_informational()) => {
                session.shutdown().await;
                0
            }
            Some(own) => {
                let code = own_answers::status(own).as_u16();
                if call.answer(session, own).await.is_ok() {
                    call.answered = true;
                } else {
                    session.shutdown().await;
                }
                code
            }
            None => 0,
        };
        FailToProxy { error_code: code, can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, call: &mut Call) {
        call.unwrap(session);
        call.settle();
        call.count(session);
        if error.is_some() && call.answered {
            front::keep(&mut session.downstream_session).await;
        } else if error.is_none() {
            front::see_out(&mut session.downstream_session);
        }
    }

    /// Pingora's own error lines carry paths, and so task ids: what failed is counted, and logged by
    /// `observe` (D-4).
    fn suppress_error_log(&self, _session: &Session, _call: &Call, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(&self, _: &Session, _: &Call, _: &Error, _: ProxyWarnLogContext) -> bool {
        true
    }

    fn request_summary(&self, _session: &Session, call: &Call) -> String {
        call.host.as_ref().map_or_else(String::new, |host| host.name.clone())
    }
}

/// Makes of a request what HTTP/2 can carry to the host.
async fn prepare_for_http2(session: &mut Session, upstream: &mut RequestHeader, call: &Call) -> Result<()> {
    let expects = upstream.headers.get(header::EXPECT).map(http::HeaderValue::as_bytes);
    if expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        // Pingora reads no 100 of an HTTP/2 host: the client is told to go on right here.
        upstream.remove_header(&header::EXPECT);
        if !session.is_body_empty() && session.req_header().version == Version::HTTP_11 {
            session.downstream_session.write_continue_response().await.map_err(Error::into_down)?;
        }
    }
    if upstream.uri.authority().is_none()
        && !upstream.headers.contains_key(header::HOST)
        && let Some(lease) = &call.lease
    {
        // An HTTP/1.0 client need not say whom it means; HTTP/2 must.
        upstream.insert_header(header::HOST, &*lease.address.upstream)?;
    }
    Ok(())
}

/// Says that the request goes to another address.
fn tell_of_another(call: &Call, address: Option<&Address>, error: &Error) {
    let host = call.host.as_ref().map(|host| host.name.as_str());
    let upstream = address.map(|address| &*address.upstream);
    tracing::info!(host, upstream, error = error.etype().as_str(), "no connection; another address is tried");
}

/// Whether the host hung up without a byte of an answer. Pingora tells how many came in the error's
/// context only.
fn no_byte_came(error: &Error) -> bool {
    let says = |what: &str| error.context.as_ref().is_some_and(|context| context.as_str().ends_with(what));
    match error.etype() {
        ErrorType::ConnectionClosed | ErrorType::ReadError => {
            says("bytes already read: 0")
                || says(HTTP2_HEAD) && http2_cause(error).is_some_and(h2::Error::is_io)
        }
        _ => false,
    }
}

/// Where Pingora waits for a head over HTTP/2, and where it hands down that of the request.
const HTTP2_HEAD: &str = "while reading h2 header";
const HTTP2_SENDING: &str = "while sending request";

/// Whether the host has not looked at a request that it got over HTTP/2, and says so: it refused the stream, or closes
/// the connection and names the streams that it did not begin with; no other code promises that (RFC 9113, 6.8 and 8.7).
/// Or the request did not get as far as the connection.
fn is_unlooked_at(error: &Error) -> bool {
    let Some(cause) = http2_cause(error) else { return false };
    let context = error.context.as_ref().map_or("", |context| context.as_str());
    let refused = cause.reason() == Some(h2::Reason::REFUSED_STREAM);
    context == HTTP2_SENDING
        || context == HTTP2_HEAD && cause.is_remote() && (cause.is_go_away() || cause.is_reset() && refused)
}

fn http2_cause(error: &Error) -> Option<&h2::Error> {
    error.root_cause().downcast_ref()
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Whether the host closes the connection, and says so on another `Connection` line than the first, the only
/// one that Pingora looks at.
fn closes_on_a_later_line(response: &ResponseHeader) -> bool {
    let later = response.headers.get_all(header::CONNECTION).iter().skip(1);
    later
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// Takes away what is for this hop only (RFC 9110, 7.6.1); Pingora writes `Connection` itself and
/// does not do this for answers. `Upgrade` stays on the answers that mean it.
pub fn strip_hop_by_hop(response: &mut ResponseHeader) {
    let switches = matches!(response.status, StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED);
    let options = response.headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let nominated: Vec<String> = options
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| {
            !["", "close", "keep-alive", "upgrade"].iter().any(|own| name.eq_ignore_ascii_case(own))
        })
        .map(str::to_ascii_lowercase)
        .collect();
    for name in nominated {
        // What frames the message is not a peer's to take away.
        if name != "content-length" && name != "transfer-encoding" {
            response.remove_header(name.as_str());
        }
    }
    // Looking first costs less than taking away what is hardly ever there.
    for name in [KEEP_ALIVE, PROXY_CONNECTION, header::UPGRADE] {
        if response.headers.contains_key(&name) && !(switches && name == header::UPGRADE) {
            response.remove_header(&name);
        }
    }
}

/// Bytes of a head, by and large: what is between names and values counts as on HTTP/1.
fn size(response: &ResponseHeader) -> usize {
    response.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

fn is_event_stream(response: &ResponseHeader) -> bool {
    const NAME: &[u8] = b"text/event-stream";
    let value = response.headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let start = value.and_then(|value| value.get(..NAME.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(NAME))
}
