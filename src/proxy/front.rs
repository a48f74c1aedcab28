//! What stands in front of Pingora's proxy.
//!
//! [`enter`] tells prior-knowledge HTTP/2 from HTTP/1 by the first three bytes. Pingora's own `h2c`
//! option waits for twenty-four of them, and `OPTIONS / HTTP/1.0` with its two line ends has fewer. Over TLS
//! it is what was negotiated (ALPN), and nothing else: without it the connection is HTTP/1.
//!
//! [`Door`] reads each HTTP/1 head itself, because Pingora answers one it cannot accept
//! (`Content-Length: abc`) before any hook runs, with an empty body and a `Server` header. Here such a
//! request gets P-1's answer. Pingora does not read a custom session's head again; so the session
//! goes in disguised as one, and the first hook takes the disguise off ([`take_off`]), before anything
//! looks at what it is.

use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use pingora::apps::{HttpPersistentSettings, HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora::protocols::{ALPN, Stream};
use pingora::proxy::{HttpProxy, ProcessCustomSession};
use pingora::server::ShutdownWatch;
use pingora_error::ErrorType;
use tokio::sync::watch;
use tokio::time::timeout;

use super::admission::{Admission, Place};
use super::gather::{Gather, Gathering};
use super::hold::{self, Slot};
use super::joined::Connector;
use super::own_answers;
use super::routes::Hosts;
use super::service::{Call, Shell};
use super::settings::Bounds;
use super::tls::{PREFACE, Prompt, Terminator};
use crate::normalize::OwnAnswer;
use crate::observe::Limit;

/// What the hooks of one request find behind the door.
struct Behind {
    /// Where the disguised session comes out.
    slot: Arc<Slot>,
    gather: Arc<Gather>,
    /// A connection that Pingora gives up and that is good for another request.
    kept: Mutex<Option<Reused>>,
    /// Where a session that Pingora is done with comes out.
    out: Mutex<Option<Arc<Slot>>>,
}

/// A connection that is good for another request.
struct Reused {
    stream: Stream,
    settings: Option<HttpPersistentSettings>,
    /// So many bytes of that request are there: Pingora keeps them to itself.
    ahead: u32,
}

impl From<ReusedHttpStream> for Reused {
    /// Of a connection on which nothing else was read.
    fn from(reused: ReusedHttpStream) -> Self {
        let (stream, settings) = reused.consume();
        Self { stream, settings, ahead: 0 }
    }
}

/// Reads what the client still sends of its request, within the drain's time.
async fn reuse(session: ServerSession) -> Option<Reused> {
    let mut settings = HttpPersistentSettings::for_session(&session);
    let (stream, prefix) = session.finish().await.ok()??.into_parts();
    let mut ahead = 0;
    if let Some(prefix) = prefix {
        // Some clients end a body with an empty line that is not part of it.
        if !prefix.iter().all(|byte| b"\r\n".contains(byte)) {
            ahead = u32::try_from(prefix.len()).unwrap_or(u32::MAX);
        }
        settings.set_pipelined_prefix(prefix);
    }
    Some(Reused { stream, settings: Some(settings), ahead })
}

tokio::task_local! {
    static BEHIND: Arc<Behind>;
}

/// So many times the longest head are read of a client that was refused one.
const LINGER_HEADS: usize = 16;

/// How long a connection without a request is kept when the process ends or hands over: the next request may be on
/// its way, and gets its answer and a `Connection: close` in place of a connection that is gone.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The same for one service, whose connections ask it with each request: what all services ask is carried from core to
/// core each time.
fn nearby(shutdown: &ShutdownWatch) -> ShutdownWatch {
    let mut far = shutdown.clone();
    let (sender, near) = watch::channel(*far.borrow());
    tokio::spawn(async move {
        // Without a sender there is nothing more to be told, and dropping ours says so.
        if far.wait_for(|ending| *ending).await.is_ok() {
            sender.send_replace(true);
        }
    });
    near
}

/// Until the process is ending and what was under way then had time to arrive.
async fn last_words(ending: &mut ShutdownWatch) {
    let _ = ending.wait_for(|ending| *ending).await;
    // Boxed: every connection has room for what is here, and hardly one gets so far.
    Box::pin(tokio::time::sleep(LAST_WORDS)).await;
}

/// Pingora's proxy with our hooks and our connections to hosts.
pub type Proxy = HttpProxy<Shell, Connector>;

/// Pingora's proxy with a look at every request before it.
pub struct Door {
    proxy: Arc<Proxy>,
    hosts: Arc<Hosts>,
    options: HttpServerOptions,
    admission: Arc<Admission>,
    bounds: Arc<Bounds>,
    /// The connection's, if it is HTTP/1.
    gather: Arc<Gather>,
    /// The connection counts for as long as anything of it is under way.
    _place: Place,
}

/// Where Pingora hands every new connection over: makes the TLS handshake, if there is to be one, and sorts them by
/// protocol.
pub fn enter(
    hosts: &Arc<Hosts>,
    tls: &Arc<Terminator>,
    admission: &Arc<Admission>,
) -> ProcessCustomSession<Shell, Connector> {
    let (hosts, tls, admission) = (hosts.clone(), tls.clone(), admission.clone());
    let near = OnceLock::new();
    Arc::new(move |proxy, stream, shutdown: &ShutdownWatch| {
        let Some(place) = admission.connection() else {
            // Closed as it is: a client that was not let in is told the same by every protocol.
            drop(stream);
            return Box::pin(std::future::ready(None));
        };
        let shutdown = near.get_or_init(|| nearby(shutdown)).clone();
        let (hosts, tls) = (hosts.clone(), tls.clone());
        Box::pin(sort(proxy, hosts, tls, admission.clone(), place, stream, shutdown))
    })
}

async fn sort(
    proxy: Arc<Proxy>,
    hosts: Arc<Hosts>,
    tls: Arc<Terminator>,
    admission: Arc<Admission>,
    place: Place,
    stream: Stream,
    shutdown: ShutdownWatch,
) -> Option<Stream> {
    let bounds = admission.bounds();
    let mut ending = shutdown.clone();
    // Boxed: what comes before the first request takes no room in what lasts.
    let sorted = Box::pin(async {
        tokio::select! {
            biased;
            sorted = protocol(&tls, stream, &admission) => sorted,
            () = last_words(&mut ending) => None,
        }
    });
    let (stream, is_h2) = sorted.await?;
    let mut options = HttpServerOptions::default();
    options.h2c = is_h2;
    options.h2_idle_timeout = Some(bounds.keep_alive);
    let write = hosts.longest_write();
    let door =
        Arc::new(Door { proxy, hosts, options, admission, bounds, gather: Arc::default(), _place: place });
    if is_h2 {
        let prompt = Prompt::new(stream, door.bounds.keep_alive, write, door.admission.clone());
        door.process_new(Box::new(prompt), &shutdown).await
    } else {
        door.http1(stream, write, &shutdown).await
    }
}

/// The connection with TLS taken off, and whether it is HTTP/2. `None` when nothing can come of it.
async fn protocol(tls: &Terminator, mut stream: Stream, admission: &Admission) -> Option<(Stream, bool)> {
    let Some(acceptor) = tls.current() else {
        let silence = admission.bounds().keep_alive;
        let mut start = [0; 3];
        timeout(silence, stream.try_peek(&mut start)).await.ok()?.ok()?;
        let is_h2 = start == *b"PRI";
        if is_h2 {
            // Pingora looks at all of it, and for as long as it takes.
            let Ok(peeked) = timeout(silence, stream.try_peek(&mut [0; PREFACE])).await else {
                admission.reached(Limit::RequestHeaders);
                return None;
            };
            peeked.ok()?;
        }
        return Some((stream, is_h2));
    };
    let stream = tls.accept(&acceptor, stream).await?;
    let is_h2 = stream.selected_alpn_proto() == Some(ALPN::H2);
    Some((stream, is_h2))
}

/// Gives the request its real session back.
pub fn take_off(session: &mut Box<ServerSession>) {
    if session.is_custom() {
        let _ = BEHIND.try_with(|behind| hold::unwrap(session, &behind.slot));
    }
}

/// What gathers the pieces of this request's answer; nothing does on HTTP/2, which frames each.
pub fn gather() -> Option<Arc<Gather>> {
    BEHIND.try_with(|behind| behind.gather.clone()).ok()
}

/// What this client is sent may wait so long for it. On HTTP/1 its connection sees to that: Pingora's timer would end a
/// client that takes a long piece slowly.
pub fn write_within(session: &mut ServerSession, limit: Duration) {
    match gather() {
        Some(gather) => gather.write_within(limit),
        None => session.set_write_timeout(Some(limit)),
    }
}

/// Keeps the connection of a client that got a complete answer although proxying failed. Pingora
/// closes it after every error; with a host that is down, that would be a new connection for every
/// request. Nothing may use the session afterwards.
pub async fn keep(session: &mut Box<ServerSession>) {
    if session.as_http1().is_none() || session.get_keepalive().is_none() {
        return;
    }
    let Ok(behind) = BEHIND.try_with(Arc::clone) else { return };
    let session = mem::replace(&mut **session, ServerSession::new_custom(Box::new(())));
    if let Some(kept) = reuse(session).await {
        *behind.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    }
}

/// The last hook: where some of the next request may have been read with this one, what comes of the connection is seen
/// to here, as Pingora does not tell how much of it.
pub fn see_out(session: &mut Box<ServerSession>) {
    let is_read = session.is_body_done();
    let Some(http1) = session.as_http1() else { return };
    // A body in chunks has more bytes than that, and is seen to in any case.
    let own = http1.get_headers_raw_bytes().len() + http1.body_bytes_read();
    let _ = BEHIND.try_with(|behind| {
        if is_read && u64::try_from(own).is_ok_and(|own| own == behind.gather.read()) {
            return;
        }
        let slot = hold::cover(session);
        *behind.out.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    });
}

#[async_trait]
impl HttpServerApp for Door {
    /// A request of HTTP/2: its head is read and checked by the HTTP/2 layer.
    ///
    /// An `async fn` written out: as one it would keep room for the session itself for as long as the request takes.
    fn process_new_http<'a, 'b, 'f>(
        self: &'a Arc<Self>,
        session: ServerSession,
        shutdown: &'b ShutdownWatch,
    ) -> Pin<Box<dyn Future<Output = Option<ReusedHttpStream>> + Send + 'f>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        self.proxy.process_new_http(session, shutdown)
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = default_h2_options();
        options.max_concurrent_streams(self.bounds.concurrent_streams);
        options.max_header_list_size(self.bounds.request_header_bytes);
        Some(options)
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }

    async fn http_cleanup(&self) {
        self.proxy.http_cleanup().await;
    }
}

impl Door {
    /// One connection of HTTP/1, request by request. Pingora's own loop keeps room for HTTP/2 as well, for as long as
    /// the connection lasts.
    async fn http1(&self, stream: Stream, write: Duration, shutdown: &ShutdownWatch) -> Option<Stream> {
        let (bounds, admission) = (&self.bounds, self.admission.clone());
        let gathering = Gathering::new(stream, self.gather.clone(), bounds, write, admission);
        let mut session = Box::new(ServerSession::new_http1(Box::new(gathering)));
        // How long the next one is waited for is the connection's; none is none at all, zero is for ever.
        session.set_keepalive(if *shutdown.borrow() { None } else { Some(0) });
        // One for all requests: what waits for the process's end is registered once.
        let mut ending = shutdown.clone();
        let mut over = pin!(last_words(&mut ending));
        let mut ahead = 0;
        loop {
            let reused = self.serve(session, ahead, shutdown, over.as_mut()).await?;
            session = Box::new(ServerSession::new_http1(reused.stream));
            if let Some(settings) = reused.settings {
                settings.apply_to_session(&mut session);
            }
            ahead = reused.ahead;
        }
    }

    /// Reads what still comes of a head that was refused, for a while, so that the client gets to read why: see
    /// [`own_answers::linger`], which needs a head. Whatever is read, nothing comes of it.
    async fn drain(&self, session: &mut ServerSession) {
        let read = async {
            for _ in 0..LINGER_HEADS {
                self.gather.begins(self.bounds.request_header_bytes, 0);
                let read = session.read_request().await;
                let limit = self.gather.head().ends(false);
                let goes_on = match read {
                    Ok(more) => more,
                    Err(error) => limit.is_some() || *error.etype() == ErrorType::InvalidHTTPHeader,
                };
                if !goes_on {
                    break;
                }
            }
        };
        let _ = timeout(own_answers::LINGER, read).await;
    }

    /// One request of HTTP/1, of whose head so many bytes are there. It is not waited for when the connection is `over`.
    async fn serve(
        &self,
        mut session: Box<ServerSession>,
        ahead: u32,
        shutdown: &ShutdownWatch,
        over: Pin<&mut impl Future<Output = ()>>,
    ) -> Option<Reused> {
        self.gather.begins(self.bounds.request_header_bytes, ahead);
        let read = tokio::select! {
            biased; // a request that is there is answered
            read = session.read_request() => read,
            () = over => return None,
        };
        let limit = self.gather.head().ends(read.is_ok());
        match read {
            // Pingora opens no tunnels, and would say so under its own name.
            Ok(true) if session.req_header().method == Method::CONNECT => {
                let answer = async {
                    let _ = own_answers::plain(&mut session, StatusCode::METHOD_NOT_ALLOWED).await;
                    session.shutdown().await;
                };
                // Boxed, like the refusal below: what is rare takes no room in what is not.
                Box::pin(answer).await;
                None
            }
            Ok(true) => {
                if *shutdown.borrow() {
                    session.set_keepalive(None);
                }
                let (disguised, slot) = hold::disguise(session);
                let (kept, out) = (Mutex::new(None), Mutex::new(None));
                let behind = Arc::new(Behind { slot, gather: self.gather.clone(), kept, out });
                let processed = self.proxy.process_new_http(disguised, shutdown);
                let reused = BEHIND.scope(behind.clone(), processed).await;
                let out = behind.out.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(finished) = out.and_then(|out| out.finished()) {
                    return Box::pin(reuse(finished)).await;
                }
                let kept = behind.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
                kept.or_else(|| reused.map(Reused::from))
            }
            Ok(false) => None,
            Err(error) => {
                let answer = async {
                    if let Some(limit) = limit {
                        self.admission.reached(limit);
                        let status = if limit == Limit::RequestHeaders {
                            StatusCode::REQUEST_TIMEOUT
                        } else {
                            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
                        };
                        // What it is for is not known; no binding has an answer to that.
                        session.set_keepalive(None);
                        let _ = own_answers::plain(&mut session, status).await;
                        session.shutdown().await;
                        self.drain(&mut session).await;
                    } else if *error.etype() == ErrorType::InvalidHTTPHeader {
                        // A client that is gone has no use for it.
                        let _ = refuse(&self.hosts, &mut session).await;
                        own_answers::linger(&mut session).await;
                    }
                    session.shutdown().await;
                };
                Box::pin(answer).await;
                None
            }
        }
    }
}

/// Answers a request whose head is refused: like every answer of the proxy's own, in the binding of
/// the interface it was for, if that can be told.
async fn refuse(hosts: &Hosts, session: &mut ServerSession) -> pingora_error::Result<()> {
    session.set_keepalive(None);
    let mut call = Call::default();
    if !own_answers::has_head(session) || !call.route(hosts, session) {
        return own_answers::plain(session, StatusCode::BAD_REQUEST).await;
    }
    call.answer(session, OwnAnswer::BadRequest).await?;
    call.count(session);
    Ok(())
}
