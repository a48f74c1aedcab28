//! Learns a host's interfaces from its agent card, and keeps learning (I-1).
//!
//! A host that lists interfaces in the configuration is not asked. Another one is asked as soon as it is configured
//! and then every `card.refresh_s`; what it last said well stands until it says something better. A
//! card that cannot be used is counted and logged with its reason, never with its text (D-4).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use pingora::connectors::http::Connector;
use pingora::protocols::http::client::HttpSession;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use pingora::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use tokio::task::{AbortHandle, JoinSet};

use super::group::{Lease, Verdict};
use super::routes::{Host, Hosts};
use super::service::MOST_ADDRESSES;
use super::settings;
use super::upstream::{Picked, Upstreams};
use crate::normalize::{Binding, Interface};
use crate::observe::{Metrics, Readiness};
use crate::protocol::card::{self, CardBinding, Listed};
use crate::protocol::coding::Decoder;
use crate::protocol::public_url::{Own, PublicUrl};

/// Whole patience with one fetch.
const PATIENCE: Duration = Duration::from_secs(15);
/// Until a first card is known the host is asked again sooner, twice as long apart each time.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Reads the cards of every host that has to be asked, and of those that a reload brings.
pub struct CardReader {
    hosts: Arc<Hosts>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
}

/// One host to be asked.
struct Source {
    host: Arc<Host>,
    /// Sent as `Host`; if there are any, absolute URLs in the card that name no other than these, an
    /// upstream or the public one are another host's.
    authorities: Vec<String>,
    own: Own,
    public: Option<PublicUrl>,
    card: settings::Card,
}

impl Source {
    fn new(host: Arc<Host>) -> Self {
        let settings = &host.settings;
        Self {
            authorities: settings.authorities.iter().map(|a| a.to_ascii_lowercase()).collect(),
            own: settings.own(),
            public: settings.public_url(),
            card: settings.card,
            host,
        }
    }
}

/// What was last learned.
#[derive(Default)]
struct Known {
    etag: Option<header::HeaderValue>,
    /// The card differs by `A2A-Version`, so the one for 0.3 is read too.
    varies: bool,
    interfaces: Vec<Interface>,
}

/// What one fetch gave.
enum Fetched {
    Card { listed: Vec<Listed>, etag: Option<header::HeaderValue>, varies: bool },
    NotModified,
}

impl CardReader {
    #[must_use]
    pub fn new(hosts: &Arc<Hosts>, metrics: &Arc<Metrics>, readiness: &Arc<Readiness>) -> Self {
        Self { hosts: hosts.clone(), metrics: metrics.clone(), readiness: readiness.clone() }
    }
}

/// Who is asked, each in a task of its own.
#[derive(Default)]
struct Asked {
    tasks: JoinSet<()>,
    hosts: Vec<(Arc<Host>, AbortHandle)>,
}

impl Asked {
    /// These are the hosts: what asks another one ends, what is new is begun.
    fn are(&mut self, reader: &CardReader) {
        let wanted = reader.hosts.all();
        self.hosts.retain(|(host, task)| {
            let stays = wanted.iter().any(|wanted| Arc::ptr_eq(wanted, host));
            if !stays {
                task.abort();
            }
            stays
        });
        for host in wanted.into_iter().filter(|host| host.settings.interfaces.is_empty()) {
            if !self.hosts.iter().any(|(asked, _)| Arc::ptr_eq(asked, &host)) {
                let watch = Watch {
                    hosts: reader.hosts.clone(),
                    metrics: reader.metrics.clone(),
                    readiness: reader.readiness.clone(),
                    source: Source::new(host.clone()),
                };
                self.hosts.push((host, self.tasks.spawn(watch.run())));
            }
        }
    }
}

/// What asks one host.
struct Watch {
    hosts: Arc<Hosts>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    source: Source,
}

impl Watch {
    async fn run(self) {
        let source = &self.source;
        let connector = Connector::new(None);
        let learned = source.host.learned();
        let mut known =
            Known { interfaces: learned.iter().map(|i| Interface::clone(i)).collect(), ..Known::default() };
        let mut wait = FIRST_RETRY;
        loop {
            let name = &source.host.name;
            match refresh(&connector, source, &mut known).await {
                Ok(changed) => {
                    self.metrics.card_read(name, true);
                    if changed {
                        let interfaces: Vec<_> = known.interfaces.iter().cloned().map(Arc::new).collect();
                        let number = interfaces.len();
                        if self.hosts.learn(&source.host, interfaces) {
                            self.readiness.set(name, true);
                        }
                        tracing::info!(host = %name, interfaces = number, "agent card read");
                    }
                    wait = source.card.refresh;
                }
                Err(reason) => {
                    self.metrics.card_read(name, false);
                    let kept = known.interfaces.len();
                    tracing::warn!(host = %name, reason, kept, "agent card not usable");
                    wait = if kept > 0 { source.card.refresh } else { (wait * 2).min(source.card.refresh) };
                }
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// Asks the host. `true` if its interfaces are others than before.
async fn refresh(connector: &Connector, source: &Source, known: &mut Known) -> Result<bool, &'static str> {
    let (mut listed, etag, varies) = match fetch(connector, source, "1.0", known.etag.as_ref()).await? {
        Fetched::NotModified if !known.varies => return Ok(false),
        // The other card may have changed without this one.
        Fetched::NotModified => match fetch(connector, source, "1.0", None).await? {
            Fetched::Card { listed, etag, varies } => (listed, etag, varies),
            Fetched::NotModified => return Ok(false),
        },
        Fetched::Card { listed, etag, varies } => (listed, etag, varies),
    };
    if varies && let Ok(Fetched::Card { listed: other, .. }) = fetch(connector, source, "0.3", None).await {
        listed.extend(other);
    }
    let interfaces = interfaces(listed, &source.authorities, &source.own, source.public.as_ref());
    if interfaces.is_empty() {
        return Err(ELSEWHERE);
    }
    known.etag = etag;
    known.varies = varies;
    let changed = interfaces != known.interfaces;
    known.interfaces = interfaces;
    Ok(changed)
}

#[async_trait]
impl BackgroundService for CardReader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        // Ends with everything it began.
        let mut asked = Asked::default();
        let mut replacements = self.hosts.replacements();
        loop {
            asked.are(self);
            tokio::select! {
                replaced = replacements.changed() => if replaced.is_err() { return },
                _ = shutdown.changed() => return,
            }
            while asked.tasks.try_join_next().is_some() {}
        }
    }
}

/// The interfaces a request may be for: one per path and binding, with all their versions in the card's
/// order. Where the host is selected by authority, a URL of another one is another host's (I-1).
fn interfaces(
    listed: Vec<Listed>,
    authorities: &[String],
    own: &Own,
    public: Option<&PublicUrl>,
) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for mut one in listed {
        if let Some(authority) = one.authority.as_deref() {
            if let Some(inner) = public.and_then(|public| public.inner_path(authority, &one.path)) {
                // The host knows its public URL, and gets requests without that URL's path (P-3).
                let inner = inner.to_owned();
                one.path = inner;
            } else if !authorities.is_empty() && !own.has(authority) {
                continue;
            }
        }
        let binding = match one.binding {
            CardBinding::JsonRpc => Binding::JsonRpc,
            CardBinding::HttpJson => Binding::HttpJson,
        };
        match interfaces.iter_mut().find(|i| i.path == one.path && i.binding == binding) {
            Some(known) if known.versions.contains(&one.version) => {}
            Some(known) => known.versions.push(one.version),
            None => interfaces.push(Interface { path: one.path, binding, versions: vec![one.version] }),
        }
    }
    interfaces
}

impl settings::Host {
    /// What the proxy would learn from this card of the host's (I-1).
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn interfaces_of_card(&self, card: &[u8]) -> Result<Vec<Arc<Interface>>, &'static str> {
        let listed = card::read(card).map_err(card::Unusable::as_str)?;
        let authorities: Vec<_> = self.authorities.iter().map(|a| a.to_ascii_lowercase()).collect();
        let found = interfaces(listed, &authorities, &self.own(), self.public_url().as_ref());
        if found.is_empty() { Err(ELSEWHERE) } else { Ok(found.into_iter().map(Arc::new).collect()) }
    }
}

/// Fetches the card, at its place or at the old one.
async fn fetch(
    connector: &Connector,
    source: &Source,
    version: &'static str,
    etag: Option<&header::HeaderValue>,
) -> Result<Fetched, &'static str> {
    let mut last = "no card was found";
    for path in card::PATHS {
        let asked = tokio::time::timeout(PATIENCE, ask(connector, source, path, version, etag)).await;
        match asked.unwrap_or(Err("the host took too long")) {
            Ok(Some(fetched)) => return Ok(fetched),
            Ok(None) => {}
            Err(reason) => {
                last = reason;
                // A page for every path that is not known is as good as none (I-1).
                if reason != card::Unusable::NotJson.as_str() {
                    break;
                }
            }
        }
    }
    Err(last)
}

/// One request. `None` if there is no card at this place.
async fn ask(
    connector: &Connector,
    source: &Source,
    path: &str,
    version: &'static str,
    etag: Option<&header::HeaderValue>,
) -> Result<Option<Fetched>, &'static str> {
    let upstreams = &source.host.upstreams;
    let (peer, mut session, mut lease) = reach(connector, upstreams).await?;
    let authority = source.authorities.first().map_or_else(|| peer._address.to_string(), Clone::clone);
    let mut request = RequestHeader::build(Method::GET, path.as_bytes(), None).map_err(|_| UNSENDABLE)?;
    let mut put =
        |name: header::HeaderName, value: &str| request.insert_header(name, value).map_err(|_| UNSENDABLE);
    if session.as_http2().is_none() {
        put(header::HOST, &authority)?;
    }
    put(header::ACCEPT, "application/json")?;
    put(header::ACCEPT_ENCODING, "identity")?;
    put(header::HeaderName::from_static("a2a-version"), version)?;
    put(header::USER_AGENT, concat!("a2a-errata/", env!("CARGO_PKG_VERSION")))?;
    if let Some(etag) = etag {
        request.insert_header(header::IF_NONE_MATCH, etag.clone()).map_err(|_| UNSENDABLE)?;
    }
    if session.as_http2().is_some() {
        // Pingora would say `https` to every host.
        let scheme = if peer.is_tls() { "https" } else { "http" };
        let uri = http::Uri::builder().scheme(scheme).authority(authority.as_str()).path_and_query(path);
        request.set_uri(uri.build().map_err(|_| UNSENDABLE)?);
    }
    let answer = exchange(&mut session, request, source).await;
    lease.verdict = if matches!(answer, Err(BROKEN_OFF)) { Verdict::Bad } else { Verdict::Good };
    upstreams.settle(lease);
    match answer {
        // Read to its end: the connection can serve the next refresh.
        Ok(_) if session.response_done() => {
            connector.release_http_session(session, peer.as_ref(), Some(source.host.timeouts.idle)).await;
        }
        _ => session.shutdown().await,
    }
    let (status, headers, body) = answer?;
    match status {
        StatusCode::NOT_MODIFIED if etag.is_some() => Ok(Some(Fetched::NotModified)),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Ok(None),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err("the host refuses to show it"),
        status if status.is_success() => {
            let body = decoded(&headers, body, source.card.max_bytes)?;
            let listed = card::read(&body).map_err(card::Unusable::as_str)?;
            let mut vary = headers.get_all(header::VARY).iter().filter_map(|v| v.to_str().ok());
            let varies = vary.any(|v| v.to_ascii_lowercase().contains("a2a-version"));
            Ok(Some(Fetched::Card { listed, etag: headers.get(header::ETAG).cloned(), varies }))
        }
        status if status.is_redirection() => Err("the host redirects"),
        status if status.is_server_error() => Err("the host failed to show it"),
        _ => Err("the host answers with an unexpected status"),
    }
}

/// A connection to the host: to another of its addresses if one cannot be reached.
async fn reach(
    connector: &Connector,
    upstreams: &Arc<Upstreams>,
) -> Result<(Box<HttpPeer>, HttpSession, Lease), &'static str> {
    let mut tried = Vec::new();
    loop {
        let Picked { peer, mut lease } =
            upstreams.pick(&tried).await.map_err(|_| "the host has no address")?;
        if let Ok((session, _)) = connector.get_http_session(peer.as_ref()).await {
            return Ok((peer, session, lease));
        }
        tried.push(lease.address.clone());
        lease.verdict = Verdict::Bad;
        upstreams.settle(lease);
        if tried.len() >= MOST_ADDRESSES || !upstreams.has_other(&tried) {
            return Err("the host could not be reached");
        }
    }
}

const ELSEWHERE: &str = "none of its interfaces is on one of the host's authorities";
const UNSENDABLE: &str = "the request for it cannot be written";
const TOO_LARGE: &str = "it is larger than card.max_bytes";
const BROKEN_OFF: &str = "the host broke off";

async fn exchange(
    session: &mut HttpSession,
    request: RequestHeader,
    source: &Source,
) -> Result<(StatusCode, HeaderMap, Bytes), &'static str> {
    session.set_read_timeout(Some(source.host.timeouts.read.min(PATIENCE)));
    session.write_request_header(Box::new(request)).await.map_err(|_| BROKEN_OFF)?;
    session.finish_request_body().await.map_err(|_| BROKEN_OFF)?;
    loop {
        session.read_response_header().await.map_err(|_| BROKEN_OFF)?;
        if session.response_header().is_none_or(|head| !head.status.is_informational()) {
            break;
        }
    }
    let head = session.response_header().ok_or(BROKEN_OFF)?;
    let (status, headers) = (head.status, head.headers.clone());
    let mut body = BytesMut::new();
    while let Some(piece) = session.read_response_body().await.map_err(|_| BROKEN_OFF)? {
        if body.len() + piece.len() > source.card.max_bytes {
            return Err(TOO_LARGE);
        }
        body.extend_from_slice(&piece);
    }
    Ok((status, headers, body.freeze()))
}

/// The card without its content coding; it was asked for without one.
fn decoded(headers: &HeaderMap, body: Bytes, max_bytes: usize) -> Result<Bytes, &'static str> {
    const UNREADABLE: &str = "its content coding cannot be undone";
    let Some(mut decoder) = Decoder::for_head(headers).map_err(|_| UNREADABLE)? else { return Ok(body) };
    let mut plain = Vec::new();
    let done = decoder.feed(&body, &mut |piece| {
        plain.extend_from_slice(piece);
        plain.len() <= max_bytes
    });
    done.map_err(|_| UNREADABLE)?;
    if plain.len() > max_bytes { Err(TOO_LARGE) } else { Ok(plain.into()) }
}
