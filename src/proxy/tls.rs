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
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::admission::Admission;
use super::layer::pass_on;
use super::patience::Patience;
use super::settings::ListenTls;
use crate::config::Identity;
use crate::observe::{HandshakeFailure, Limit, Metrics};

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
        let failure = match tokio::time::timeout(PATIENCE, shake).await {
            Ok(None) => return None,
            Ok(Some(Ok(stream))) => {
                self.metrics.handshakes().done();
                return Some(Box::new(stream));
            }
            Ok(Some(Err(_))) if first != HANDSHAKE_RECORD => HandshakeFailure::NotTls,
            Ok(Some(Err(error))) => cause(&error.to_string()),
            Err(_) => HandshakeFailure::Timeout,
        };
        tracing::debug!(cause = failure.as_str(), "no TLS handshake");
        self.metrics.handshakes().failed(failure);
        None
    }
}

/// What the errors of rustls begin with, for those that say more than their kind; the tests hold the words.
const BEGINNINGS: [(&str, HandshakeFailure); 7] = [
    ("received fatal alert", HandshakeFailure::RefusedByClient),
    ("peer is incompatible", HandshakeFailure::NothingInCommon),
    ("peer misbehaved", HandshakeFailure::Protocol),
    ("received corrupt message", HandshakeFailure::Protocol),
    ("received unexpected message", HandshakeFailure::Protocol),
    ("received unexpected handshake message", HandshakeFailure::Protocol),
    ("tls handshake eof", HandshakeFailure::Closed),
];

/// Why there was no handshake. Pingora keeps no more of it than the text.
fn cause(says: &str) -> HandshakeFailure {
    let invalid = |error| rustls::Error::InvalidCertificate(error).to_string();
    let is = |error: &rustls::Error| says.contains(&error.to_string());
    let gone = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionAborted];
    if let Some((_, cause)) = BEGINNINGS.iter().find(|(words, _)| says.contains(words)) {
        *cause
    } else if is(&rustls::Error::NoCertificatesPresented) {
        HandshakeFailure::NoClientCertificate
    } else if [CertificateError::UnknownIssuer, CertificateError::BadSignature]
        .into_iter()
        .any(|error| says.contains(&invalid(error)))
    {
        // A signature that is wrong is that of another issuer by the same name, such as one whose key has changed.
        HandshakeFailure::UnknownIssuer
    } else if [CertificateError::Expired, CertificateError::NotValidYet]
        .into_iter()
        .any(|error| says.contains(&invalid(error)))
        || OUTSIDE_ITS_TIME.iter().any(|words| says.contains(words))
    {
        HandshakeFailure::Expired
    } else if says.contains(INVALID) {
        HandshakeFailure::ClientCertificate
    } else if is(&rustls::Error::NoApplicationProtocol) {
        HandshakeFailure::NothingInCommon
    } else if is(&rustls::Error::DecryptError) || is(&rustls::Error::PeerSentOversizedRecord) {
        HandshakeFailure::Protocol
    } else if gone.into_iter().any(|kind| says.contains(&io::Error::from(kind).to_string()))
        || OS_GONE.iter().any(|words| says.contains(words))
    {
        HandshakeFailure::Closed
    } else {
        HandshakeFailure::Other
    }
}

/// What every error about a client's certificate begins with…
const INVALID: &str = "invalid peer certificate";
/// …and goes on with, where it names the times.
const OUTSIDE_ITS_TIME: [&str; 2] = ["certificate expired:", "certificate not valid yet:"];
/// As the system says it.
const OS_GONE: [&str; 2] = ["Connection reset by peer", "Broken pipe"];

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
pub const PREFACE: usize = 24;

impl Prompt {
    pub fn new(stream: Stream, preface: Duration, write: Duration, admission: Arc<Admission>) -> Self {
        let preface = Some((PREFACE, Box::pin(tokio::time::sleep(preface))));
        Self { stream, preface, write: Patience::new(write), admission }
    }

    /// Ends a write that waits for too long.
    fn watch_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let admission = &self.admission;
        self.write.watch(cx, polled, &self.stream, || admission.reached(Limit::Write))
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

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

    use super::*;

    /// The words are those of rustls; should it choose others, this says so.
    #[test]
    fn causes_of_failed_handshakes_are_told_apart() {
        let now = rustls::pki_types::UnixTime::now();
        let invalid = Error::InvalidCertificate;
        for (error, expected) in [
            (Error::NoCertificatesPresented, HandshakeFailure::NoClientCertificate),
            (invalid(CertificateError::UnknownIssuer), HandshakeFailure::UnknownIssuer),
            (invalid(CertificateError::BadSignature), HandshakeFailure::UnknownIssuer),
            (invalid(CertificateError::Expired), HandshakeFailure::Expired),
            (
                invalid(CertificateError::ExpiredContext { time: now, not_after: now }),
                HandshakeFailure::Expired,
            ),
            (
                invalid(CertificateError::NotValidYetContext { time: now, not_before: now }),
                HandshakeFailure::Expired,
            ),
            (invalid(CertificateError::BadEncoding), HandshakeFailure::ClientCertificate),
            (Error::AlertReceived(AlertDescription::UnknownCA), HandshakeFailure::RefusedByClient),
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                HandshakeFailure::NothingInCommon,
            ),
            (Error::NoApplicationProtocol, HandshakeFailure::NothingInCommon),
            (Error::PeerMisbehaved(PeerMisbehaved::TooMuchEarlyDataReceived), HandshakeFailure::Protocol),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), HandshakeFailure::Protocol),
            (
                Error::InappropriateMessage {
                    expect_types: vec![rustls::ContentType::Handshake],
                    got_type: rustls::ContentType::Alert,
                },
                HandshakeFailure::Protocol,
            ),
            (Error::DecryptError, HandshakeFailure::Protocol),
            (Error::HandshakeNotComplete, HandshakeFailure::Other),
        ] {
            let says = format!("TLSHandshakeFailure context: tls connect error: {error}");
            assert_eq!(cause(&says), expected, "{says}");
        }
        let reset = io::Error::from_raw_os_error(104);
        assert_eq!(cause(&format!("tls connect error: {reset}")), HandshakeFailure::Closed);
    }
}
