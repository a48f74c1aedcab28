//! A host's upstreams: the group of addresses they make, and on what terms each is spoken to.
//!
//! Which address is next says [`super::group`]. Names are resolved when they are first needed and again after
//! [`FRESH`], beside the requests; until then, and when a resolver fails, the last answer stands. A host with a single address that needs
//! no resolving costs no lock: there is nothing to choose.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures::future::join_all;
use pingora::protocols::ALPN;
use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::{HttpPeer, Peer as _};
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use pingora_error::{Error, ErrorType, Result};
use prometheus::IntCounter;

use super::group::{Address, Lease, Member, Members, Verdict};
use super::settings::{self, Group, Http2, Timeouts, Upstream, UpstreamTls};
use crate::observe::{Addresses, Metrics, groups};

/// How long a resolved name is used without asking again.
const FRESH: Duration = Duration::from_secs(30);
/// How soon a resolver that failed is asked again, while an older answer stands.
const AGAIN: Duration = Duration::from_secs(1);

/// Streams on one HTTP/2 connection. A host may allow less.
const STREAMS: usize = 100;
/// Bytes of an answer that may be under way on one stream; for all of them there is room at once, so that a client
/// that reads slowly holds up nobody else's answer.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 100;

/// The upstreams of one host.
pub struct Upstreams {
    host: String,
    all: Vec<Source>,
    /// The only address, if it can never be another.
    only: Option<Arc<Address>>,
    members: ArcSwap<Members>,
    /// Addresses that are no members any more, while requests are under way there. Locked while members change.
    former: Mutex<Vec<Arc<Address>>>,
    /// A task asks for the addresses of names.
    refreshing: AtomicBool,
    group: Group,
    timeouts: Timeouts,
}

/// One upstream, as configured.
struct Source {
    name: Arc<str>,
    weight: u32,
    http2: Http2,
    literal: Option<SocketAddr>,
    resolved: ArcSwapOption<Resolved>,
    /// Held while somebody asks.
    asking: tokio::sync::Mutex<()>,
    tls: Option<Tls>,
    ejections: IntCounter,
    checks: [IntCounter; 2],
}

/// Where the next attempt goes.
pub struct Picked {
    pub peer: Box<HttpPeer>,
    /// Counts the attempt at its address.
    pub lease: Lease,
}

/// An address to be checked, with how it is spoken to.
pub struct Checked {
    pub address: Arc<Address>,
    pub peer: HttpPeer,
    /// The upstream as configured: what the request for its health is addressed to.
    pub authority: Arc<str>,
    pub http2: Http2,
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
    /// When it is to be asked again.
    until: Instant,
}

impl Source {
    fn new(upstream: &Upstream, host: &str, metrics: &Metrics) -> Self {
        Self {
            name: upstream.address.as_str().into(),
            weight: upstream.weight,
            http2: upstream.http2,
            literal: upstream.address.parse().ok(),
            resolved: ArcSwapOption::empty(),
            asking: tokio::sync::Mutex::default(),
            tls: upstream.tls.as_ref().map(|tls| Tls::new(&upstream.address, tls)),
            ejections: metrics.ejections(host, &upstream.address),
            checks: metrics.health_checks(host, &upstream.address),
        }
    }

    /// How it is spoken to at this address.
    fn peer(&self, socket: SocketAddr, timeouts: &Timeouts) -> HttpPeer {
        let mut peer = match &self.tls {
            None => HttpPeer::new(socket, false, String::new()),
            Some(tls) => {
                let mut peer = HttpPeer::new(socket, true, tls.name.clone());
                tls.apply(&mut peer);
                peer
            }
        };
        let options = &mut peer.options;
        options.connection_timeout = Some(timeouts.connect);
        options.total_connection_timeout = Some(timeouts.connect);
        options.read_timeout = Some(timeouts.read);
        options.write_timeout = Some(timeouts.write);
        options.idle_timeout = Some(timeouts.idle);
        options.alpn = match self.http2 {
            Http2::Off => return peer,
            Http2::PriorKnowledge => ALPN::H2,
            Http2::Alpn => ALPN::H2H1,
        };
        options.max_h2_streams = STREAMS;
        options.h2_stream_window_size = Some(STREAM_WINDOW);
        options.h2_connection_window_size = Some(CONNECTION_WINDOW);
        peer
    }

    /// Where it is, as far as is known.
    fn sockets(&self) -> Vec<SocketAddr> {
        match self.literal {
            Some(literal) => vec![literal],
            None => self.resolved.load().as_ref().map(|known| known.addresses.clone()).unwrap_or_default(),
        }
    }

    /// It is to be asked where it is.
    fn is_due(&self) -> bool {
        self.literal.is_none()
            && self.resolved.load().as_ref().is_none_or(|known| known.until <= Instant::now())
    }

    /// Asks where it is, unless somebody has just done so. Whether something else came of it.
    async fn resolve(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.ask(patience)).await.unwrap_or_default()
    }

    async fn ask(&self, patience: Duration) -> bool {
        let _asking = self.asking.lock().await;
        if !self.is_due() {
            return false;
        }
        let known = self.resolved.load_full();
        // A little less than whoever waits for it, so that what came of it is noted.
        let asked = tokio::time::timeout(patience * 9 / 10, tokio::net::lookup_host(&*self.name)).await;
        let found = match asked {
            Ok(Ok(found)) => {
                let mut addresses: Vec<_> = found.collect();
                // Every time in the same order, each once.
                addresses.sort_unstable();
                addresses.dedup();
                Resolved { addresses, until: Instant::now() + FRESH }
            }
            // Not every request is to wait for a resolver that fails.
            Ok(Err(_)) | Err(_) => Resolved {
                addresses: known.as_ref().map(|known| known.addresses.clone()).unwrap_or_default(),
                until: Instant::now() + AGAIN,
            },
        };
        let is_new = known.is_none_or(|known| known.addresses != found.addresses);
        self.resolved.store(Some(Arc::new(found)));
        is_new
    }
}

impl Upstreams {
    pub fn new(host: &settings::Host, metrics: &Arc<Metrics>) -> Arc<Self> {
        Self::with(host, None, metrics)
    }

    /// With what is known of the addresses that stay. The others get nothing new.
    pub fn instead_of(old: &Self, host: &settings::Host, metrics: &Arc<Metrics>) -> Arc<Self> {
        Self::with(host, Some(old), metrics)
    }

    fn with(host: &settings::Host, old: Option<&Self>, metrics: &Arc<Metrics>) -> Arc<Self> {
        let mut known = Vec::new();
        if let Some(old) = old {
            known.clone_from(&old.former());
            known.extend(old.members.load().all.iter().map(|member| member.address.clone()));
        }
        let new = Self {
            host: host.name.clone(),
            all: host.upstreams.iter().map(|one| Source::new(one, &host.name, metrics)).collect(),
            only: None,
            members: ArcSwap::default(),
            former: Mutex::new(known),
            refreshing: AtomicBool::new(false),
            group: host.group.clone(),
            timeouts: host.timeouts,
        };
        for source in &new.all {
            let old = old.and_then(|old| old.all.iter().find(|old| old.name == source.name));
            source.resolved.store(old.and_then(|old| old.resolved.load_full()));
        }
        new.find_members();
        let only = match new.all.as_slice() {
            [only] if only.literal.is_some() && only.weight > 0 => {
                new.members.load().all.first().map(|member| member.address.clone())
            }
            _ => None,
        };
        let new = Arc::new(Self { only, ..new });
        metrics.group(&host.name, &new);
        new
    }

    fn former(&self) -> MutexGuard<'_, Vec<Arc<Address>>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the members together anew, from where the upstreams are now.
    fn find_members(&self) {
        let mut former = self.former();
        let mut known: Vec<_> = self.members.load().all.iter().map(|member| member.address.clone()).collect();
        known.append(&mut former);
        let mut all = Vec::new();
        for (upstream, source) in self.all.iter().enumerate() {
            for socket in source.sockets() {
                let key = source.peer(socket, &self.timeouts).reuse_hash();
                let is_it = |one: &Arc<Address>| one.key == key && one.upstream == source.name;
                let address = match known.iter().position(is_it) {
                    Some(place) => known.swap_remove(place),
                    None => Address::new(source.name.clone(), socket, key),
                };
                address.set_retired(false);
                if self.group.health.is_none() {
                    address.forget_checks();
                }
                all.push(Member { address, upstream, weight: source.weight });
            }
        }
        for gone in &known {
            gone.set_retired(true);
        }
        known.retain(|gone| gone.in_flight() > 0);
        *former = known;
        self.members.store(Arc::new(Members::new(all)));
    }

    /// Asks for the addresses of all names for which that is due.
    async fn resolve(&self) {
        let due = self.all.iter().filter(|source| source.is_due());
        let found = join_all(due.map(|source| source.resolve(self.timeouts.connect))).await;
        if found.contains(&true) {
            self.find_members();
        }
    }

    /// As [`Self::resolve`]; who has an address does not wait for it.
    async fn refresh(self: &Arc<Self>) {
        if !self.all.iter().any(Source::is_due) {
            return;
        }
        if self.members.load().all.is_empty() {
            self.resolve().await;
        } else if !self.refreshing.swap(true, Ordering::Relaxed) {
            let this = self.clone();
            tokio::spawn(async move {
                this.resolve().await;
                this.refreshing.store(false, Ordering::Relaxed);
            });
        }
    }

    /// The peer for the next attempt of a request that was `tried` already.
    ///
    /// # Errors
    /// 503 when no address can be used; a connect error when a name has no address (P-1).
    pub async fn pick(self: &Arc<Self>, tried: &[Arc<Address>]) -> Result<Picked> {
        if let Some(only) = &self.only {
            return if only.is_healthy() { self.picked(0, Lease::new(only)) } else { unavailable() };
        }
        self.refresh().await;
        let members = self.members.load_full();
        match members.choose(self.group.balance, tried) {
            Some((upstream, lease)) => self.picked(upstream, lease),
            None if members.all.is_empty() && !self.all.is_empty() => {
                Err(Error::explain(ErrorType::ConnectNoRoute, "the upstream's name has no address").into_up())
            }
            None => unavailable(),
        }
    }

    fn picked(&self, upstream: usize, lease: Lease) -> Result<Picked> {
        let Some(source) = self.all.get(upstream) else { return unavailable() };
        Ok(Picked { peer: Box::new(source.peer(lease.address.socket, &self.timeouts)), lease })
    }

    /// There is an address that the request was not tried at.
    pub fn has_other(&self, tried: &[Arc<Address>]) -> bool {
        self.only.is_none() && self.members.load().has_other(tried)
    }

    /// Takes note of how an attempt went, and ends it.
    pub fn settle(&self, lease: Lease) {
        let address = &lease.address;
        match (lease.verdict, &self.group.ejection) {
            (Verdict::Nothing, _) | (Verdict::Bad, None) => {}
            (Verdict::Good, _) => address.did_well(),
            (Verdict::Bad, Some(ejection)) => {
                if self.only.is_none()
                    && address.failed(ejection)
                    && let Some(lasts) = self.members.load().eject(address, ejection)
                {
                    if let Some(source) = self.all.iter().find(|source| source.name == address.upstream) {
                        source.ejections.inc();
                    }
                    tracing::warn!(
                        host = self.host,
                        upstream = %address.upstream,
                        address = %address.socket,
                        for_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
                        "address is left alone: it fails requests"
                    );
                }
            }
        }
        drop(lease);
    }

    /// How the addresses are checked, if they are.
    pub fn health(&self) -> Option<&settings::Health> {
        self.group.health.as_ref()
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Every address that is to be checked.
    pub async fn to_check(&self) -> Vec<Checked> {
        self.resolve().await;
        let members = self.members.load_full();
        let checked = |member: &Member| {
            let source = self.all.get(member.upstream)?;
            Some(Checked {
                address: member.address.clone(),
                peer: source.peer(member.address.socket, &self.timeouts),
                authority: source.name.clone(),
                http2: source.http2,
            })
        };
        members.all.iter().filter(|member| member.weight > 0).filter_map(checked).collect()
    }

    /// Takes note of a check.
    pub fn checked(&self, address: &Address, good: bool) {
        let Some(health) = &self.group.health else { return };
        if let Some(source) = self.all.iter().find(|source| source.name == address.upstream) {
            let [ok, failed] = &source.checks;
            if good { ok.inc() } else { failed.inc() }
        }
        if let Some(state) = address.checked(good, health) {
            let (upstream, address, state) = (&address.upstream, address.socket, state.as_str());
            if good {
                tracing::info!(host = self.host, %upstream, %address, state, "address changed");
            } else {
                tracing::warn!(host = self.host, %upstream, %address, state, "address changed");
            }
        }
    }

    /// Connections of this key lead to one of the addresses that get requests.
    pub fn has_key(&self, key: u64) -> bool {
        self.members.load().all.iter().any(|member| member.address.key == key && member.weight > 0)
    }
}

fn unavailable<T>() -> Result<T> {
    Error::e_explain(ErrorType::HTTPStatus(503), "no address of the host can be used")
}

impl Addresses for Upstreams {
    fn addresses(&self) -> Vec<groups::Address> {
        let members = self.members.load_full();
        let shown = |address: &Address, weight| groups::Address {
            upstream: address.upstream.to_string(),
            address: address.socket.to_string(),
            state: address.state(weight),
            weight,
            in_flight: address.in_flight(),
        };
        let mut all: Vec<_> =
            members.all.iter().map(|member| shown(&member.address, member.weight)).collect();
        let mut former = self.former();
        former.retain(|gone| gone.in_flight() > 0);
        all.extend(former.iter().map(|gone| shown(gone, 0)));
        all
    }

    fn upstreams(&self) -> Vec<String> {
        self.all.iter().map(|source| source.name.to_string()).collect()
    }

    /// A name that is yet to be asked for, or to be asked for again, may have addresses.
    fn is_available(&self) -> bool {
        let members = self.members.load();
        let is_known = |source: &Source| !source.is_due();
        members.is_available() || !self.all.iter().all(is_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(addresses: &[&str]) -> settings::Host {
        let mut host = crate::proxy::rehearsal::default_host(Vec::new());
        host.upstreams = addresses.iter().map(|address| Upstream::new(*address)).collect();
        host
    }

    fn upstreams(addresses: &[&str]) -> Arc<Upstreams> {
        Upstreams::new(&host(addresses), &Metrics::new())
    }

    async fn picked(upstreams: &Arc<Upstreams>) -> String {
        upstreams.pick(&[]).await.unwrap().peer._address.to_string()
    }

    #[tokio::test]
    async fn upstreams_take_turns() {
        let upstreams = upstreams(&["127.0.0.1:1", "127.0.0.1:2"]);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(picked(&upstreams).await);
        }
        assert_eq!(seen, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:2"]);
    }

    #[tokio::test]
    async fn names_are_resolved_and_no_upstream_is_503() {
        assert!(picked(&upstreams(&["localhost:7"])).await.ends_with(":7"));
        let error = upstreams(&[]).pick(&[]).await.err().unwrap();
        assert_eq!(*error.etype(), ErrorType::HTTPStatus(503));
    }

    /// Whoever has an address does not wait for a resolver; whoever has none waits once.
    #[tokio::test]
    async fn names_are_asked_for_again_beside_the_requests() {
        let upstreams = upstreams(&["agents.invalid:7"]);
        assert!(upstreams.is_available(), "nobody asked yet");
        assert_eq!(*upstreams.pick(&[]).await.err().unwrap().etype(), ErrorType::ConnectNoRoute);
        let source = &upstreams.all[0];
        assert!(!source.is_due() && !upstreams.is_available(), "the next request does not ask at once");

        resolved(&upstreams, &["127.0.0.2:7"]);
        let stale = Resolved { addresses: source.sockets(), until: Instant::now() };
        source.resolved.store(Some(Arc::new(stale)));
        // As if a resolver hung: no request waits for it.
        let asking = source.asking.lock().await;
        for _ in 0..3 {
            let picked = upstreams.pick(&[]);
            assert!(futures::FutureExt::now_or_never(picked).unwrap().is_ok());
        }
        drop(asking);
        while source.is_due() || upstreams.refreshing.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(picked(&upstreams).await, "127.0.0.2:7", "the last answer stands");
    }

    fn resolved(upstreams: &Upstreams, addresses: &[&str]) {
        let addresses = addresses.iter().map(|one| one.parse().unwrap()).collect();
        upstreams.all[0]
            .resolved
            .store(Some(Arc::new(Resolved { addresses, until: Instant::now() + FRESH })));
        upstreams.find_members();
    }

    /// Each address of a name is one of its own; what is known of it stays while it does.
    #[tokio::test]
    async fn a_name_has_addresses_that_come_and_go() {
        let upstreams = upstreams(&["agents.example:7"]);
        resolved(&upstreams, &["127.0.0.2:7", "127.0.0.3:7"]);
        let (first, second) = (upstreams.pick(&[]).await.unwrap(), upstreams.pick(&[]).await.unwrap());
        assert_ne!(first.lease.address.socket, second.lease.address.socket);
        assert!(upstreams.has_key(first.peer.reuse_hash()) && upstreams.has_key(second.peer.reuse_hash()));

        resolved(&upstreams, &["127.0.0.3:7", "127.0.0.4:7"]);
        let states = |upstreams: &Upstreams| -> Vec<_> {
            let all = upstreams.addresses();
            all.into_iter().map(|one| (one.address, one.state.as_str(), one.in_flight)).collect()
        };
        let expected = [
            ("127.0.0.3:7".to_owned(), "healthy", 1),
            ("127.0.0.4:7".to_owned(), "healthy", 0),
            ("127.0.0.2:7".to_owned(), "draining", 1),
        ];
        assert_eq!(states(&upstreams), expected);
        assert!(!upstreams.has_key(first.peer.reuse_hash()), "its idle connections are not kept");
        for _ in 0..4 {
            assert_ne!(picked(&upstreams).await, "127.0.0.2:7");
        }
        drop((first, second));
        assert_eq!(states(&upstreams).len(), 2);
    }

    /// A reload keeps what is known of the addresses that stay, and counts on at those that go.
    #[tokio::test]
    async fn a_replacement_keeps_the_addresses_that_stay() {
        let metrics = Metrics::new();
        let old = Upstreams::new(&host(&["127.0.0.1:1", "127.0.0.1:2"]), &metrics);
        let held = [old.pick(&[]).await.unwrap(), old.pick(&[]).await.unwrap()];
        let new = Upstreams::instead_of(&old, &host(&["127.0.0.1:2", "127.0.0.1:3"]), &metrics);
        let now: Vec<_> =
            new.addresses().into_iter().map(|one| (one.address, one.state.as_str(), one.in_flight)).collect();
        let expected = [
            ("127.0.0.1:2".to_owned(), "healthy", 1),
            ("127.0.0.1:3".to_owned(), "healthy", 0),
            ("127.0.0.1:1".to_owned(), "draining", 1),
        ];
        assert_eq!(now, expected);
        // A request from before, tried again, goes to what stays.
        for _ in 0..3 {
            assert_eq!(picked(&old).await, "127.0.0.1:2");
        }
        // And back: it counts on.
        let again = Upstreams::instead_of(&new, &host(&["127.0.0.1:1"]), &metrics);
        assert_eq!(again.addresses()[0].in_flight, 1);
        drop(held);
        assert_eq!(again.addresses().iter().map(|one| one.in_flight).sum::<u64>(), 0);
    }

    /// What waits for an address that is being taken out of service is closed.
    #[tokio::test]
    async fn an_address_without_weight_keeps_no_connections() {
        let mut host = host(&["127.0.0.1:1", "127.0.0.1:2"]);
        let before = Upstreams::new(&host, &Metrics::new());
        let keys: Vec<_> = before.members.load().all.iter().map(|member| member.address.key).collect();
        assert!(before.has_key(keys[0]) && before.has_key(keys[1]));
        host.upstreams[1].weight = 0;
        let after = Upstreams::instead_of(&before, &host, &Metrics::new());
        assert!(after.has_key(keys[0]) && !after.has_key(keys[1]));
    }

    #[tokio::test]
    async fn an_unhealthy_only_address_is_503() {
        let mut host = host(&["127.0.0.1:1"]);
        host.group.health = Some(settings::Health {
            path: String::new(),
            interval: FRESH,
            timeout: FRESH,
            failures: 1,
            successes: 1,
        });
        let upstreams = Upstreams::new(&host, &Metrics::new());
        let address = upstreams.to_check().await.remove(0).address;
        assert!(upstreams.is_available());
        upstreams.checked(&address, false);
        assert!(!upstreams.is_available());
        let error = upstreams.pick(&[]).await.err().unwrap();
        assert_eq!(*error.etype(), ErrorType::HTTPStatus(503));
        upstreams.checked(&address, true);
        assert!(upstreams.pick(&[]).await.is_ok());
    }
}
