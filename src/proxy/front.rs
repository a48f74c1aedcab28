//! What stands in front of Pingora's proxy.
//!
//! [`Front`] tells prior-knowledge HTTP/2 from HTTP/1 by the first three bytes. Pingora's own `h2c`
//! option waits for twenty-four of them, and `OPTIONS / HTTP/1.0` with its two line ends has fewer.
//!
//! [`Door`] reads each HTTP/1 head itself, because Pingora answers one it cannot accept
//! (`Content-Length: abc`) before any hook runs, with an empty body and a `Server` header. Here such a
//! request gets P-1's answer. Pingora does not read a custom session's head again; so the session
//! goes in disguised as one, and the first hook takes the disguise off ([`take_off`]), before anything
//! looks at what it is.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use pingora::apps::{HttpPersistentSettings, HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;
use pingora_error::ErrorType;

use super::hold::{self, Slot};
use super::own_answers;
use super::routes::Hosts;
use super::service::{Call, Shell};
use crate::normalize::OwnAnswer;

/// What the hooks of one request find behind the door.
struct Behind {
    /// Where the disguised session comes out.
    slot: Arc<Slot>,
    /// A connection that Pingora gives up and that is good for another request.
    kept: Mutex<Option<ReusedHttpStream>>,
}

tokio::task_local! {
    static BEHIND: Arc<Behind>;
}

/// How long a new connection may say nothing.
const SILENCE: Duration = Duration::from_mins(1);

/// Sorts connections by protocol.
pub struct Front {
    http1: Arc<Door>,
    h2c: Arc<Door>,
}

/// Pingora's proxy with a look at every request before it.
pub struct Door {
    proxy: Arc<HttpProxy<Shell>>,
    hosts: Arc<Hosts>,
    options: HttpServerOptions,
}

impl Front {
    pub fn new(proxy: HttpProxy<Shell>, hosts: &Arc<Hosts>) -> Self {
        let proxy = Arc::new(proxy);
        let door = |h2c| {
            let mut options = HttpServerOptions::default();
            options.h2c = h2c;
            Arc::new(Door { proxy: proxy.clone(), hosts: hosts.clone(), options })
        };
        Self { http1: door(false), h2c: door(true) }
    }
}

#[async_trait]
impl ServerApp for Front {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let mut start = [0; 3];
        let mut ending = shutdown.clone();
        let peeked = tokio::select! {
            biased;
            peeked = tokio::time::timeout(SILENCE, stream.try_peek(&mut start)) => peeked,
            _ = ending.wait_for(|ending| *ending) => return None,
        };
        match peeked {
            // No stream of ours refuses to be peeked at; it would be HTTP/1.
            Ok(Ok(_)) if start == *b"PRI" => self.h2c.process_new(stream, shutdown).await,
            Ok(Ok(_)) => self.http1.process_new(stream, shutdown).await,
            Ok(Err(_)) | Err(_) => None,
        }
    }

    async fn cleanup(&self) {
        self.http1.cleanup().await;
    }
}

/// Gives the request its real session back.
pub fn take_off(session: &mut Box<ServerSession>) {
    if session.is_custom() {
        let _ = BEHIND.try_with(|behind| hold::unwrap(session, &behind.slot));
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
    let settings = HttpPersistentSettings::for_session(&session);
    // Reads what the client still sends of its request, within the drain's time.
    if let Ok(Some(stream)) = session.finish().await {
        let kept = ReusedHttpStream::from_reusable_stream(stream, settings);
        *behind.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    }
}

#[async_trait]
impl HttpServerApp for Door {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        if session.is_http2() {
            // Its head is read and checked by the HTTP/2 layer.
            return self.proxy.process_new_http(session, shutdown).await;
        }
        let mut ending = shutdown.clone();
        let read = tokio::select! {
            biased; // a request that is there is answered
            read = session.read_request() => read,
            _ = ending.wait_for(|ending| *ending) => return None,
        };
        match read {
            Ok(true) if session.req_header().method == Method::CONNECT => {
                // Pingora opens no tunnels, and would say so under its own name.
                let _ = own_answers::plain(&mut session, StatusCode::METHOD_NOT_ALLOWED).await;
                session.shutdown().await;
                None
            }
            Ok(true) => {
                if *shutdown.borrow() {
                    session.set_keepalive(None);
                }
                let (disguised, slot) = hold::disguise(session);
                let behind = Arc::new(Behind { slot, kept: Mutex::new(None) });
                let processed = self.proxy.process_new_http(disguised, shutdown);
                let reused = BEHIND.scope(behind.clone(), processed).await;
                reused.or_else(|| behind.kept.lock().unwrap_or_else(PoisonError::into_inner).take())
            }
            Ok(false) => None,
            Err(error) => {
                if *error.etype() == ErrorType::InvalidHTTPHeader {
                    // A client that is gone has no use for it.
                    let _ = refuse(&self.hosts, &mut session).await;
                    own_answers::linger(&mut session).await;
                }
                session.shutdown().await;
                None
            }
        }
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.proxy.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }

    async fn http_cleanup(&self) {
        self.proxy.http_cleanup().await;
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
