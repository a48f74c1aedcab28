//! Which of a host's addresses the next request goes to, and on what terms.
//!
//! Round robin over the configured upstreams. Names are resolved when they are first needed and
//! again after [`FRESH`]; until then, and when a resolver fails, the last answer stands.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use pingora::protocols::ALPN;
use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use pingora_error::{Error, ErrorType, Result};

use super::settings::{Timeouts, Upstream, UpstreamTls};

/// How long a resolved name is used without asking again.
const FRESH: Duration = Duration::from_secs(30);

/// The addresses of one host.
pub struct Upstreams {
    all: Vec<Address>,
    next: AtomicUsize,
    timeouts: Timeouts,
}

struct Address {
    /// As configured.
    name: String,
    literal: Option<SocketAddr>,
    resolved: ArcSwapOption<Resolved>,
    tls: Option<Tls>,
}

/// What Pingora needs for TLS towards an address, made once.
struct Tls {
    /// Never empty: without a name Pingora verifies nothing.
    name: String,
    verify: bool,
    ca: Option<Arc<CaType>>,
    client: Option<Arc<CertKey>>,
    /// Tells connections with other certificates apart.
    group: u64,
}

impl Tls {
    fn new(address: &str, tls: &UpstreamTls) -> Self {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = if tls.sni.is_empty() { host.trim_matches(['[', ']']) } else { &tls.sni };
        let ca = tls.ca.iter().map(|der| WrappedX509::new(der.clone(), parse_x509));
        let client = tls.client.as_ref().map(|client| CertKey::new(client.chain.clone(), client.key.clone()));
        let mut group = DefaultHasher::new();
        tls.ca.hash(&mut group);
        tls.client.as_ref().map(|client| (&client.chain, &client.key)).hash(&mut group);
        Self {
            name: name.to_owned(),
            verify: tls.verify,
            ca: (!tls.ca.is_empty()).then(|| ca.collect()),
            client: client.map(Arc::new),
            group: group.finish(),
        }
    }

    fn apply(&self, peer: &mut HttpPeer) {
        peer.group_key = self.group;
        peer.client_cert_key.clone_from(&self.client);
        peer.options.ca.clone_from(&self.ca);
        peer.options.verify_cert = self.verify;
        peer.options.verify_hostname = self.verify;
        peer.options.alpn = ALPN::H1;
    }
}

struct Resolved {
    addresses: Vec<SocketAddr>,
    at: Instant,
}

impl Upstreams {
    pub fn new(upstreams: &[Upstream], timeouts: Timeouts) -> Self {
        let all = upstreams
            .iter()
            .map(|upstream| Address {
                name: upstream.address.clone(),
                literal: upstream.address.parse().ok(),
                resolved: ArcSwapOption::empty(),
                tls: upstream.tls.as_ref().map(|tls| Tls::new(&upstream.address, tls)),
            })
            .collect();
        Self { all, next: AtomicUsize::new(0), timeouts }
    }

    /// The peer for the next attempt.
    ///
    /// # Errors
    /// 503 when the host has no upstream; a connect error when a name has no address (P-1).
    pub async fn pick(&self) -> Result<Box<HttpPeer>> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(self.all.len());
        let Some(address) = place.and_then(|place| self.all.get(place)) else {
            return Err(Error::explain(ErrorType::HTTPStatus(503), "the host has no upstream"));
        };
        let socket = match address.literal {
            Some(literal) => literal,
            None => address.resolve(turn, self.timeouts.connect).await?,
        };
        let mut peer = match &address.tls {
            None => HttpPeer::new(socket, false, String::new()),
            Some(tls) => {
                let mut peer = HttpPeer::new(socket, true, tls.name.clone());
                tls.apply(&mut peer);
                peer
            }
        };
        let options = &mut peer.options;
        options.connection_timeout = Some(self.timeouts.connect);
        options.total_connection_timeout = Some(self.timeouts.connect);
        options.read_timeout = Some(self.timeouts.read);
        options.write_timeout = Some(self.timeouts.write);
        options.idle_timeout = Some(self.timeouts.idle);
        Ok(Box::new(peer))
    }
}

impl Address {
    async fn resolve(&self, turn: usize, patience: Duration) -> Result<SocketAddr> {
        let known = self.resolved.load_full();
        let fresh = known.as_ref().filter(|known| known.at.elapsed() < FRESH);
        let resolved = match fresh {
            Some(fresh) => fresh.clone(),
            None => match tokio::time::timeout(patience, tokio::net::lookup_host(self.name.as_str())).await {
                Ok(Ok(found)) => {
                    let found = Arc::new(Resolved { addresses: found.collect(), at: Instant::now() });
                    self.resolved.store(Some(found.clone()));
                    found
                }
                Ok(Err(_)) | Err(_) => known.ok_or_else(|| {
                    Error::explain(ErrorType::ConnectNoRoute, "the upstream's name has no address").into_up()
                })?,
            },
        };
        // All addresses of the name in turn.
        let place = turn.checked_rem(resolved.addresses.len());
        place.and_then(|place| resolved.addresses.get(place)).copied().ok_or_else(|| {
            Error::explain(ErrorType::ConnectNoRoute, "the upstream's name has no address").into_up()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstreams(addresses: &[&str]) -> Upstreams {
        let second = Duration::from_secs(1);
        let timeouts = Timeouts { connect: second, read: second, write: second, idle: second };
        let all: Vec<_> =
            addresses.iter().map(|address| Upstream { address: address.to_string(), tls: None }).collect();
        Upstreams::new(&all, timeouts)
    }

    #[tokio::test]
    async fn upstreams_take_turns() {
        let upstreams = upstreams(&["127.0.0.1:1", "127.0.0.1:2"]);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(upstreams.pick().await.unwrap()._address.to_string());
        }
        assert_eq!(seen, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:2"]);
    }

    #[tokio::test]
    async fn names_are_resolved_and_no_upstream_is_503() {
        let named = upstreams(&["localhost:7"]).pick().await.unwrap();
        assert!(named._address.to_string().ends_with(":7"));
        let error = upstreams(&[]).pick().await.unwrap_err();
        assert_eq!(*error.etype(), ErrorType::HTTPStatus(503));
    }
}
