//! What the proxy needs to know to run, already checked; the configuration is turned into this.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Identity;
use crate::normalize::{Binding, Interface, Mode, Policy};
use crate::protocol::public_url::{Own, PublicUrl};

/// One process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `ADDRESS:PORT` to listen on.
    pub listen: String,
    /// `None`: in the clear.
    pub tls: Option<ListenTls>,
    /// Proxy services, each with one thread and its own upstream pool (`so_reuseport`).
    pub services: usize,
    /// How long a shutdown waits for requests in flight.
    pub grace: Duration,
    /// A new process can take this one's place: there are no more services than sockets can be handed over.
    pub handover: bool,
    pub bounds: Bounds,
    pub hosts: Vec<Host>,
}

/// What clients may take, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of hosts' answers that are held back, over all exchanges.
    pub held_bytes: u64,
    /// Connections at once; 0: any number.
    pub connections: usize,
    /// Streams of one HTTP/2 connection at once.
    pub concurrent_streams: u32,
    /// Of a request's head.
    pub request_header_bytes: u32,
    /// Of one client address; 0: any number.
    pub requests_per_second: u32,
    /// From the first byte of a request's head to its last.
    pub request_headers: Duration,
    /// Without a request.
    pub keep_alive: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            held_bytes: 64 << 20,
            connections: 20_000,
            concurrent_streams: 100,
            request_header_bytes: 64 << 10,
            requests_per_second: 0,
            request_headers: Duration::from_secs(10),
            keep_alive: Duration::from_mins(1),
        }
    }
}

/// How clients are spoken to over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenTls {
    /// At least one; the first is for every name that no other has.
    pub identities: Vec<Identity>,
    /// `None`: no client is asked for a certificate.
    pub client: Option<ClientCertificates>,
    /// HTTP/2 is offered.
    pub http2: bool,
}

/// Whose certificates clients show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Certificates (DER) of those who sign theirs.
    pub ca: Vec<Vec<u8>>,
    /// Nobody comes in without one.
    pub required: bool,
}

/// One host behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Names the host in metrics and logs.
    pub name: String,
    pub upstreams: Vec<Upstream>,
    /// How the next request's address is found among them.
    pub group: Group,
    /// `Host` values that select this host; empty: every value that selects no other.
    pub authorities: Vec<String>,
    pub policy: Arc<Policy>,
    /// Empty: not known (yet), see I-1.
    pub interfaces: Vec<Arc<Interface>>,
    /// The interfaces with a mode of their own; the others have the policy's (I-5).
    pub modes: Vec<InterfaceMode>,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub card: Card,
    /// What clients know the host by, as the configuration writes it (P-3); empty: nothing else.
    pub public_url: String,
}

impl Host {
    /// The authorities that the host's card may name and that are the host itself (I-1, P-3).
    #[must_use]
    pub fn own(&self) -> Own {
        let upstreams = self.upstreams.iter().map(|upstream| upstream.address.as_str());
        Own::new(upstreams, self.authorities.iter().map(String::as_str))
    }

    /// `None` when card rewriting is off (P-3).
    #[must_use]
    pub fn public_url(&self) -> Option<PublicUrl> {
        PublicUrl::new(&self.public_url, self.own())
    }
}

/// An interface that is observed or enforced whatever its host is (I-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceMode {
    /// As [`Interface::path`].
    pub path: String,
    pub binding: Binding,
    pub mode: Mode,
}

/// How the agent card is read, where no interface is configured (I-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Time between two readings.
    pub refresh: Duration,
    /// Bytes of a card, at the most.
    pub max_bytes: usize,
}

impl Default for Card {
    fn default() -> Self {
        Self { refresh: Duration::from_mins(1), max_bytes: 4 << 20 }
    }
}

/// One upstream of a host: an address, or a name with one or more of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// `NAME:PORT` or `ADDRESS:PORT`.
    pub address: String,
    /// The share of each of its addresses; with 0 they get nothing new.
    pub weight: u32,
    pub http2: Http2,
    /// `None`: in the clear.
    pub tls: Option<UpstreamTls>,
}

impl Upstream {
    /// In the clear, over HTTP/1.1, with the usual weight.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), weight: 1, http2: Http2::Off, tls: None }
    }
}

/// Whether an upstream is spoken to in HTTP/2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Http2 {
    #[default]
    Off,
    /// In the clear, without asking.
    PriorKnowledge,
    /// Over TLS, if the host offers it.
    Alpn,
}

/// How a host's addresses are chosen from, and when one is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    pub balance: Balance,
    /// `None`: they are not asked.
    pub health: Option<Health>,
    /// `None`: failures have no consequences.
    pub ejection: Option<Ejection>,
}

/// How requests are shared out, by weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Balance {
    #[default]
    RoundRobin,
    LeastConnections,
}

/// Checks whether addresses can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What must answer 2xx; empty: a connection is enough.
    pub path: String,
    /// Time between two checks of an address.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// So many in a row change what is thought of an address.
    pub failures: u32,
    pub successes: u32,
}

/// Leaves an address alone for a while that fails requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ejection {
    /// So many in a row.
    pub failures: u32,
    /// For the first time; longer for the next.
    pub lasts: Duration,
    /// Of the group's addresses, at once.
    pub max_percent: u32,
}

/// How an upstream is spoken to over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The name on its certificate; empty: the one in its address.
    pub sni: String,
    /// Whether its certificate has to be trusted and to have that name.
    pub verify: bool,
    /// Certificates (DER) that are trusted; empty: those of the system.
    pub ca: Vec<Vec<u8>>,
    /// What the proxy shows itself.
    pub client: Option<Identity>,
}

/// Bounds on what a client and the host may send (P-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub request_bytes: u64,
    /// Of an answer's head.
    pub response_header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_bytes: 64 << 20, response_header_bytes: (1 << 20) - 1 }
    }
}

/// Silence that is tolerated, not length (U-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    pub read: Duration,
    pub write: Duration,
    /// How long an unused upstream connection is kept.
    pub idle: Duration,
}
