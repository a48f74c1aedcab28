//! TLS towards clients (U-3): which certificate a client is shown, whose it must show itself, and the handshake.
//!
//! Pingora would make up its mind about certificates and client authorities when a listener starts. Here its listener
//! is in the clear and the handshake is made when the connection has come in ([`Terminator::accept`]), with what is in
//! effect at that moment: a change reaches the next connection, and none that stands.

use std::collections::HashMap;
use std::fmt;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use pingora::listeners::tls::Acceptor;
use pingora::protocols::Stream;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::admission::Admission;
use super::layer::pass_on;
use super::patience::Patience;
use super::settings::ListenTls;
use crate::config::Identity;
use crate::observe::{Handshake, Limit, Metrics};

/// How long a client may take for its handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the first byte of TLS is.
const HANDSHAKE_RECORD: [u8; 1] = [0x16];

/// What connections are met with.
pub struct Terminator {
    /// `None`: in the clear.
    current: ArcSwapOption<Acceptor>,
    metrics: Arc<Metrics>,
}

impl Terminator {
    /// In the clear until it is told otherwise.
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        Self { current: ArcSwapOption::empty(), metrics: metrics.clone() }
    }

    /// This is for every connection that comes from here on.
    ///
    /// # Errors
    /// When something of it cannot be used; then what was before stays.
    pub fn replace(&self, tls: Option<&ListenTls>) -> Result<(), String> {
        let acceptor = tls.map(acceptor).transpose()?;
        self.current.store(acceptor.map(Arc::new));
        Ok(())
    }

    /// What the next connection is met with.
    pub fn current(&self) -> Option<Arc<Acceptor>> {
        self.current.load_full()
    }

    /// The handshake. `None` when there was none within its time; why is the client's to know, and counted here.
    pub async fn accept(&self, acceptor: &Acceptor, mut stream: Stream) -> Option<Stream> {
        let mut first = [0; 1];
        let shake = async {
            // Whoever only looks whether somebody listens, as load balancers do, has failed at nothing.
            stream.try_peek(&mut first).await.ok()?;
            Some(acceptor.tls_handshake(Beneath(stream)).await)
        };
        let (result, stream) = match tokio::time::timeout(PATIENCE, shake).await {
            Ok(None) => return None,
            Ok(Some(Ok(stream))) => (Handshake::Done, Some(stream)),
            Ok(Some(Err(_))) if first != HANDSHAKE_RECORD => (Handshake::NotTls, None),
            Ok(Some(Err(_))) => (Handshake::Failed, None),
            Err(_) => (Handshake::Timeout, None),
        };
        self.metrics.handshake(result);
        stream.map(|stream| Box::new(stream) as Stream)
    }
}

/// What rustls and Pingora need.
fn acceptor(tls: &ListenTls) -> Result<Acceptor, String> {
    let told = |error: rustls::Error| error.to_string();
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(told)?;
    let builder = match &tls.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            for der in &client.ca {
                roots.add(CertificateDer::from(der.as_slice())).map_err(told)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = if client.required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(Certificates::new(&tls.identities)?));
    let protocols: &[&[u8]] = if tls.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    if tls.client.is_some() {
        // A session that is taken up again is not checked again: a certificate that ran out would still let in.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        // New with every change: nothing outlives the certificate it was given out under.
        config.ticketer = ring::Ticketer::new().map_err(told)?;
    }
    Ok(Acceptor::from_server_config(Arc::new(config)))
}

/// Every certificate, by the names that it is for.
#[derive(Debug)]
struct Certificates {
    /// For a client that names no host, or one that nothing else is for.
    default: Arc<CertifiedKey>,
    named: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// `*.example` without the `*.`.
    below: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
}

impl Certificates {
    fn new(identities: &[Identity]) -> Result<Self, String> {
        let mut default = None;
        let mut named: HashMap<Box<str>, Vec<_>> = HashMap::new();
        let mut below: HashMap<Box<str>, Vec<_>> = HashMap::new();
        for identity in identities {
            let certified = Arc::new(certified(identity)?);
            for name in identity.names() {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut below, parent),
                    None => (&mut named, name.as_str()),
                };
                map.entry(name.into()).or_default().push(certified.clone());
            }
            default = default.or(Some(certified));
        }
        Ok(Self { default: default.ok_or("there is no certificate")?, named, below })
    }

    /// The certificates for this name, best first; a wildcard stands for one label.
    fn of(&self, name: &str) -> Option<&Vec<Arc<CertifiedKey>>> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let parent = || name.split_once('.').and_then(|(_, parent)| self.below.get(parent));
        self.named.get(name.as_str()).or_else(parent)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = hello.server_name().and_then(|name| self.of(name));
        // A name may have an RSA certificate beside an ECDSA one, for clients that know but one of them.
        let usable = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let chosen = found.and_then(|keys| keys.iter().find(usable).or_else(|| keys.first()));
        Some(chosen.unwrap_or(&self.default).clone())
    }
}

fn certified(identity: &Identity) -> Result<CertifiedKey, String> {
    let key = PrivateKeyDer::try_from(identity.key.clone()).map_err(ToOwned::to_owned)?;
    let key = ring::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
    let chain = identity.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    Ok(CertifiedKey::new(chain, key))
}

/// A connection under TLS: Pingora's streams are no such thing themselves once they are boxed.
#[derive(Debug)]
struct Beneath(Stream);

impl Beneath {
    fn below(&self) -> &Stream {
        &self.0
    }

    fn below_mut(&mut self) -> &mut Stream {
        &mut self.0
    }
}

/// A client's connection of HTTP/2. What it must begin with is there within its time, and it takes what is written to
/// it; how long it may be silent then is the protocol's.
pub struct Prompt {
    stream: Stream,
    /// Bytes to come, and how long they may take.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    write: Patience,
    admission: Arc<Admission>,
}

/// How long the client's preface is (RFC 9113, section 3.4).
const PREFACE: usize = 24;

impl Prompt {
    pub fn new(stream: Stream, preface: Duration, write: Duration, admission: Arc<Admission>) -> Self {
        let preface = Some((PREFACE, Box::pin(tokio::time::sleep(preface))));
        Self { stream, preface, write: Patience::new(write), admission }
    }

    /// Ends a write that waits for too long.
    fn watch_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let admission = &self.admission;
        self.write.watch(cx, polled, || admission.reached(Limit::Write))
    }

    fn below(&self) -> &Stream {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let Some((left, timer)) = &mut self.preface else { return polled };
        if polled.is_ready() {
            *left = left.saturating_sub(buf.filled().len() - before);
            if *left == 0 {
                self.preface = None;
            }
        } else if timer.as_mut().poll(cx).is_ready() {
            self.admission.reached(Limit::RequestHeaders);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch_write(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch_write(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch_write(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl AsyncWrite for Beneath {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

pass_on!(Beneath);
pass_on!(Prompt);

impl AsyncRead for Beneath {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}
