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
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::shape;
use super::tape::{Tape, Taping};
use crate::outbound::{self, Remedy};

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 4 << 20;

/// Header lines of an answer over HTTP/1 that are read: as many as the proxy takes.
const HEADER_LINES: usize = 256;

/// What the probe may cost the host.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub per_second: u32,
    pub in_all: usize,
    /// One exchange, connecting included.
    pub timeout: Duration,
}

/// Whose certificates are taken.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those that an authority of the system's has signed.
    #[default]
    System,
    /// Those that one of these has signed.
    Only(Vec<CertificateDer<'static>>),
    Anybody,
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// HTTP/1.1; over TLS, HTTP/2 where the host prefers it.
    #[default]
    Either,
    /// HTTP/2 from the first byte.
    Http2,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum End {
    /// All of it came.
    #[default]
    Whole,
    /// Less than was announced, and why that is known.
    Cut(String),
    /// It goes on for longer than anybody waits.
    Silence(Duration),
    /// More than is read.
    TooLong,
    /// So many bytes more than were announced.
    Beyond(usize),
}

impl End {
    /// What is missing; `None` when nothing is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Cut(why) => Some(format!("is cut short: {why}")),
            Self::Silence(patience) => {
                Some(format!("has no end within {} s (--timeout)", patience.as_secs_f64()))
            }
            Self::TooLong => Some(format!("is longer than {} MiB", ANSWER_BYTES >> 20)),
            Self::Beyond(bytes) => {
                Some(format!("is followed by {bytes} bytes more than its Content-Length says"))
            }
        }
    }
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    /// `HTTP/1.1`, as the host writes it.
    pub version: String,
    /// The reason phrase; HTTP/2 has none.
    pub phrase: String,
    /// In the order of the wire, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The names as the host writes them, in the same order.
    pub spelled: Vec<String>,
    pub body: Bytes,
    pub trailers: Vec<(String, String)>,
    /// From sending the request to the last byte of the answer.
    pub took: Duration,
    pub end: End,
}

impl Reply {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Why nobody can read it; `None` when there is nothing of the kind.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.end.trouble().or_else(|| {
            let codings = self.headers.iter().filter(|(name, _)| name == "content-encoding");
            let all = codings.flat_map(|(_, value)| value.split(',')).map(str::trim);
            let coding =
                all.filter(|one| !one.is_empty()).find(|one| !one.eq_ignore_ascii_case("identity"))?;
            Some(format!("has the Content-Encoding {}, which was not asked for", shape::brief(coding)))
        })
    }

    /// The media type without parameters, lower case; empty without one.
    #[must_use]
    pub fn media(&self) -> String {
        let media = self.header("content-type").unwrap_or_default();
        media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Why the rest did not come.
    fn missing(&self, why: &hyper::Error) -> String {
        let announced = self.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let chunked = self.header("transfer-encoding").is_some();
        match announced {
            Some(length) if self.body.len() < length => {
                format!("{} of {length} bytes came", self.body.len())
            }
            _ if chunked && why.is_incomplete_message() => "the last chunk is missing".to_owned(),
            _ => "the connection broke".to_owned(),
        }
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
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Broken(why) => write!(f, "the connection ended without an answer: {why}"),
            Self::Spent(all) => write!(f, "budget: the {all} requests of --max-requests are used up"),
        }
    }
}

/// The client.
#[derive(Debug)]
pub struct Client {
    pooled: Pooled<Taping<HttpsConnector<HttpConnector>>, Full<Bytes>>,
    tape: Tape,
    wire: Wire,
    bounds: Bounds,
    sent: AtomicUsize,
    /// When the next request may leave.
    next: Mutex<Instant>,
}

impl Client {
    /// # Errors
    /// When the system has no certificates to trust, or one of those given cannot be.
    pub fn new(bounds: Bounds, trust: Trust, wire: Wire) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?;
        let builder = HttpsConnectorBuilder::new();
        let with_tls = match trust {
            Trust::Anybody => {
                let config = config
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
                    .with_no_client_auth();
                builder.with_tls_config(config)
            }
            Trust::Only(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in authorities {
                    roots
                        .add(authority)
                        .map_err(|_| "a certificate in it is no authority's to be trusted".to_owned())?;
                }
                builder.with_tls_config(config.with_root_certificates(roots).with_no_client_auth())
            }
            Trust::System => builder
                .with_provider_and_native_roots((*provider).clone())
                .map_err(|why| format!("the system's certificates cannot be read: {why}"))?,
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(bounds.timeout));
        let with_tls = with_tls.https_or_http();
        let connector = match wire {
            Wire::Either => with_tls.enable_http1().enable_http2().wrap_connector(http),
            Wire::Http2 => with_tls.enable_http2().wrap_connector(http),
        };
        let tape = Tape::default();
        let connector = Taping { inner: connector, tape: tape.clone() };
        Ok(Self {
            tape,
            wire,
            pooled: Pooled::builder(TokioExecutor::new())
                .http2_only(wire == Wire::Http2)
                .http1_max_headers(HEADER_LINES)
                .build(connector),
            bounds,
            sent: AtomicUsize::new(0),
            next: Mutex::new(Instant::now()),
        })
    }

    /// How many requests were sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed).min(self.bounds.in_all)
    }

    /// How many requests may still be sent.
    pub fn left(&self) -> usize {
        self.bounds.in_all.saturating_sub(self.sent.load(Ordering::Relaxed))
    }

    /// That so many requests are more than may still be sent.
    pub fn cannot_afford(&self, requests: usize) -> Option<String> {
        let (left, all) = (self.left(), self.bounds.in_all);
        (requests > left).then(|| {
            format!("budget: it takes {requests} requests, and {left} of --max-requests {all} are left")
        })
    }

    /// Whether a request was refused because there was no budget.
    pub fn is_spent(&self) -> bool {
        self.sent.load(Ordering::Relaxed) > self.bounds.in_all
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
        // What is judged is read as it comes; without a word any coding would do (RFC 9110 §12.5.3).
        let plain = HeaderValue::from_static("identity");
        request.headers_mut().entry(http::header::ACCEPT_ENCODING).or_insert(plain);
        self.tape.wind_back();
        let began = Instant::now();
        let patience = self.bounds.timeout;
        let deadline = began + patience;
        let answer = timeout(patience, self.pooled.request(request)).await;
        let answer = answer
            .map_err(|_| NoReply::Silence(patience))?
            .map_err(|why| told_apart(&why, &self.tape, self.wire))?;
        let (head, mut incoming) = answer.into_parts();
        let mut reply = self.begun(&head);
        let mut bytes = Vec::new();
        reply.end = loop {
            if bytes.len() > ANSWER_BYTES {
                break End::TooLong;
            }
            match timeout_at(deadline, incoming.frame()).await {
                Ok(Some(Ok(frame))) => {
                    bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                    reply.trailers.extend(frame.trailers_ref().map_or_else(Vec::new, pairs));
                }
                Ok(None) => {
                    let announced = reply.header("content-length").and_then(|length| length.parse().ok());
                    let of_http_1 = reply.version.starts_with("HTTP/1");
                    let beyond = announced
                        .filter(|length| of_http_1 && *length == bytes.len())
                        .map_or(0, |length| self.tape.beyond(reply.status, length));
                    break if beyond > 0 { End::Beyond(beyond) } else { End::Whole };
                }
                Ok(Some(Err(why))) => {
                    reply.body = Bytes::from(std::mem::take(&mut bytes));
                    reply.took = began.elapsed();
                    reply.end = End::Cut(reply.missing(&why));
                    return Ok(reply);
                }
                Err(_) => break End::Silence(patience),
            }
        };
        reply.body = Bytes::from(bytes);
        reply.took = began.elapsed();
        Ok(reply)
    }

    /// The answer as far as its head goes, as near to the wire as can be seen.
    fn begun(&self, head: &http::response::Parts) -> Reply {
        let status = head.status.as_u16();
        let of_http_1 = head.version < http::Version::HTTP_2;
        let taped = self.tape.head(status).filter(|_| of_http_1);
        let mut reply = Reply {
            status,
            version: format!("{:?}", head.version),
            headers: pairs(&head.headers),
            ..Reply::default()
        };
        if let Some(taped) = taped {
            reply.version = taped.version;
            reply.phrase = taped.phrase;
            reply.spelled = taped.headers.iter().map(|(name, _)| name.clone()).collect();
            let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
            reply.headers = taped.headers.into_iter().map(lower).collect();
        } else {
            reply.spelled = reply.headers.iter().map(|(name, _)| name.clone()).collect();
        }
        reply
    }

    /// Waits until the next request may leave.
    async fn pace(&self) {
        let mut next = self.next.lock().await;
        let due = (*next).max(Instant::now());
        sleep_until(due).await;
        *next = due + Duration::from_secs(1) / self.bounds.per_second.max(1);
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    headers.iter().map(text).collect()
}

/// What kind of failure it is, in one line.
fn told_apart(error: &hyper_util::client::legacy::Error, tape: &Tape, wire: Wire) -> NoReply {
    if let Some(error) = outbound::tls_error_in(error) {
        let (says, remedy) = outbound::tls_trouble(error);
        let what = match remedy {
            Remedy::Authority => "; --ca FILE trusts who signed it, --insecure trusts anybody",
            Remedy::Blindness => "; --insecure takes it all the same",
            Remedy::None => "",
        };
        return NoReply::Tls(format!("{says}{what}"));
    }
    let mut chain = String::new();
    let mut next = std::error::Error::source(error);
    let mut is_no_http_1 = false;
    while let Some(cause) = next {
        let text = cause.to_string();
        // Each layer repeats what is below it.
        if !chain.contains(&text) {
            let _ = write!(chain, "{}{text}", if chain.is_empty() { "" } else { ": " });
        }
        // What begins an HTTP/2 connection is no status line, and may come before anything was asked.
        is_no_http_1 |= cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(|error| error.is_parse() || error.to_string().contains("unexpected message"));
        next = cause.source();
    }
    let chain: String = chain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if error.is_connect() {
        NoReply::Unreachable(chain)
    } else if tape.is_tls() {
        NoReply::Broken("what answers there speaks TLS; is it https://?".to_owned())
    } else if wire == Wire::Http2 && tape.is_empty() {
        NoReply::Broken(format!("{chain}; if it speaks no HTTP/2, leave --http2 out"))
    } else if wire == Wire::Http2 && !tape.is_http_2() {
        NoReply::Broken("what answers there does not speak HTTP/2; leave --http2 out".to_owned())
    } else if tape.is_http_1() && is_no_http_1 {
        let why = if tape.is_folded() {
            "a header that is folded over two lines".to_owned()
        } else if tape.header_lines() > HEADER_LINES {
            format!("it has more than {HEADER_LINES} header lines")
        } else {
            chain
        };
        NoReply::Broken(format!("the head of the HTTP/1.1 answer cannot be read: {why}"))
    } else if is_no_http_1 {
        NoReply::Broken("what came is no HTTP/1.1; a host that speaks HTTP/2 only needs --http2".to_owned())
    } else {
        NoReply::Broken(chain)
    }
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
