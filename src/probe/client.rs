//! The HTTP client of the probe: every request is paced, counted, and bounded in time and bytes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 4 << 20;

/// What the probe may cost the host.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub per_second: u32,
    pub in_all: usize,
    /// One exchange, connecting included.
    pub timeout: Duration,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// In the order of the wire, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// From sending the request to the last byte of the answer.
    pub took: Duration,
    /// Whether the body's end came.
    pub complete: bool,
}

impl Reply {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The media type without parameters, lower case; empty without one.
    #[must_use]
    pub fn media(&self) -> String {
        let media = self.header("content-type").unwrap_or_default();
        media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReply {
    /// It takes too long.
    Silence(Duration),
    /// No connection.
    Unreachable(String),
    /// A connection, but no trust.
    Tls(String),
    /// The connection ended before an answer.
    Broken(String),
    /// `in_all` requests were sent.
    Spent(usize),
}

impl std::fmt::Display for NoReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silence(patience) => write!(f, "no answer within {} s", patience.as_secs_f64()),
            Self::Unreachable(why) => write!(f, "cannot connect: {why}"),
            Self::Tls(why) => write!(f, "TLS: {why}; --insecure does not check certificates"),
            Self::Broken(why) => write!(f, "the connection ended without an answer: {why}"),
            Self::Spent(all) => write!(f, "not asked: the {all} requests of --max-requests are used up"),
        }
    }
}

/// The client.
#[derive(Debug)]
pub struct Client {
    pooled: Pooled<HttpsConnector<HttpConnector>, Full<Bytes>>,
    bounds: Bounds,
    sent: AtomicUsize,
    /// When the next request may leave.
    next: Mutex<Instant>,
}

impl Client {
    /// # Errors
    /// When the system has no certificates to trust.
    pub fn new(bounds: Bounds, insecure: bool) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?;
        let builder = HttpsConnectorBuilder::new();
        let with_tls = if insecure {
            let config = config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
                .with_no_client_auth();
            builder.with_tls_config(config)
        } else {
            builder
                .with_provider_and_native_roots((*provider).clone())
                .map_err(|why| format!("the system's certificates cannot be read: {why}"))?
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(bounds.timeout));
        let connector = with_tls.https_or_http().enable_http1().wrap_connector(http);
        Ok(Self {
            pooled: Pooled::builder(TokioExecutor::new()).build(connector),
            bounds,
            sent: AtomicUsize::new(0),
            next: Mutex::new(Instant::now()),
        })
    }

    /// How many requests were sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed).min(self.bounds.in_all)
    }

    /// Sends one request and reads its answer. A stream that does not end is cut off when time is up.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(
        &self,
        method: Method,
        uri: Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Reply, NoReply> {
        if self.sent.fetch_add(1, Ordering::Relaxed) >= self.bounds.in_all {
            return Err(NoReply::Spent(self.bounds.in_all));
        }
        self.pace().await;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers.clone();
        let agent = HeaderValue::from_static(concat!("a2a-errata-probe/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(http::header::USER_AGENT).or_insert(agent);
        let began = Instant::now();
        let patience = self.bounds.timeout;
        let deadline = began + patience;
        let answer = timeout(patience, self.pooled.request(request)).await;
        let answer = answer.map_err(|_| NoReply::Silence(patience))?.map_err(|why| told_apart(&why))?;
        let (head, mut incoming) = answer.into_parts();
        let text = |name: &HeaderName, value: &HeaderValue| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = head.headers.iter().map(|(name, value)| text(name, value)).collect();
        let mut bytes = Vec::new();
        let mut complete = false;
        while bytes.len() <= ANSWER_BYTES {
            match timeout_at(deadline, incoming.frame()).await {
                Ok(Some(Ok(frame))) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Ok(None) => {
                    complete = true;
                    break;
                }
                Ok(Some(Err(_))) | Err(_) => break,
            }
        }
        let (status, body) = (head.status.as_u16(), Bytes::from(bytes));
        Ok(Reply { status, headers, body, took: began.elapsed(), complete })
    }

    /// Waits until the next request may leave.
    async fn pace(&self) {
        let mut next = self.next.lock().await;
        let due = (*next).max(Instant::now());
        sleep_until(due).await;
        *next = due + Duration::from_secs(1) / self.bounds.per_second.max(1);
    }
}

/// What kind of failure it is, in one line.
fn told_apart(error: &hyper_util::client::legacy::Error) -> NoReply {
    let mut chain = String::new();
    let mut is_tls = false;
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        // Each layer repeats what is below it.
        if !chain.contains(&text) {
            let _ = write!(chain, "{}{text}", if chain.is_empty() { "" } else { ": " });
        }
        is_tls |= is_of_tls(cause);
        next = cause.source();
    }
    let chain: String = chain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if is_tls {
        NoReply::Tls(chain)
    } else if error.is_connect() {
        NoReply::Unreachable(chain)
    } else {
        NoReply::Broken(chain)
    }
}

/// An I/O error hides what it was made of from `source`.
fn is_of_tls(cause: &(dyn std::error::Error + 'static)) -> bool {
    if cause.is::<rustls::Error>() {
        return true;
    }
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| is_of_tls(inner))
}

/// Takes every certificate: for `--insecure`, which asks for it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
