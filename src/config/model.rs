//! The configuration as types (U-3), and what the rules need of it.

use std::sync::Arc;

use http::HeaderName;
use serde::Deserialize;

use super::tls::{Files, ListenFiles};
use crate::normalize;

/// Everything that can be set. Made by [`super::load`] only, so every value is a checked one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub listen: Listen,
    pub admin: Admin,
    #[serde(rename = "limits")]
    pub client_limits: ClientLimits,
    #[serde(rename = "timeouts")]
    pub client_timeouts: ClientTimeouts,
    pub traces: Traces,
    pub hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    pub address: String,
    /// The Unix socket that a new process gets the listening sockets over; empty: it gets none.
    pub handover: String,
    pub tls: ListenTls,
}

/// How clients are spoken to over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenTls {
    /// Empty: in the clear.
    pub cert: String,
    pub key: String,
    /// Further ones, for the names that they have.
    pub certificates: Vec<CertificatePair>,
    /// Empty: no client is asked for a certificate.
    pub client_ca: String,
    pub client_auth: ClientAuth,
    pub http2: bool,
    /// What the files hold.
    #[serde(skip)]
    pub files: ListenFiles,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificatePair {
    pub cert: String,
    pub key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    Required,
    Optional,
}

impl ListenTls {
    /// The keys that name the certificate and the key of the how manieth pair, the default being the first.
    #[must_use]
    pub fn pair(&self, n: usize) -> (String, String) {
        match n.checked_sub(1) {
            None => ("cert".into(), "key".into()),
            Some(n) => (format!("certificates[{n}].cert"), format!("certificates[{n}].key")),
        }
    }

    /// Every file that is named.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let further = self.certificates.iter().flat_map(|pair| [&pair.cert, &pair.key]);
        [&self.cert, &self.key, &self.client_ca].into_iter().chain(further).map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Empty: no admin listener.
    pub address: String,
    /// Others than this machine may reach it.
    pub allow_remote: bool,
}

/// What all clients together, or one of them, may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLimits {
    pub held_bytes: u64,
    /// Zero: as many as the system allows.
    pub connections: usize,
    /// Of one HTTP/2 connection.
    pub concurrent_streams: u32,
    pub request_header_bytes: u32,
    /// Of one address; zero: any number.
    pub requests_per_second: u32,
}

/// How long clients may take. Milliseconds each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTimeouts {
    #[serde(rename = "request_headers_ms")]
    pub request_headers: u64,
    #[serde(rename = "keep_alive_ms")]
    pub keep_alive: u64,
}

/// Export of spans.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Empty: none.
    pub otlp_url: String,
    pub sample_percent: u8,
    pub headers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub name: String,
    pub upstreams: Vec<Upstream>,
    pub balance: Balance,
    pub health: Health,
    pub ejection: Ejection,
    pub authorities: Vec<String>,
    pub mode: Mode,
    pub response_cap_bytes: usize,
    pub intake_bytes: usize,
    pub normalize_0_3: bool,
    pub oracle: Oracle,
    pub disclosure: Disclosure,
    pub cap: Cap,
    pub limits: Limits,
    pub public_url: String,
    pub card: Card,
    pub timeouts: Timeouts,
    #[serde(default)]
    pub interfaces: Vec<Interface>,
}

/// One upstream of a host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct Upstream {
    pub address: String,
    /// Its share of the requests; with 0 it gets nothing new.
    pub weight: u32,
    pub http2: Http2,
    pub tls: Option<UpstreamTls>,
}

/// An upstream as the configuration writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(String),
    Table { address: String, weight: Option<u32>, http2: Option<Http2>, tls: Option<Box<UpstreamTls>> },
}

impl From<Written> for Upstream {
    fn from(written: Written) -> Self {
        let (address, weight, http2, tls) = match written {
            Written::Plain(address) => (address, None, None, None),
            Written::Table { address, weight, http2, tls } => (address, weight, http2, tls.map(|tls| *tls)),
        };
        Self { address, weight: weight.unwrap_or(1), http2: http2.unwrap_or_default(), tls }
    }
}

/// Whether an upstream is spoken to in HTTP/2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Http2 {
    #[default]
    Off,
    PriorKnowledge,
    Alpn,
}

/// How requests are shared out among a host's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    RoundRobin,
    LeastConnections,
}

/// How a host's addresses are checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Empty: a connection is enough.
    pub path: String,
    /// Zero: no checks.
    pub interval_ms: u64,
    pub timeout_ms: u64,
    pub failures: u32,
    pub successes: u32,
}

/// When an address that fails is left out for a while.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ejection {
    /// Zero: never.
    pub failures: u32,
    pub for_ms: u64,
    pub max_percent: u32,
}

/// How a host is spoken to over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTls {
    /// The name on the host's certificate; empty: the one in its address.
    pub sni: String,
    pub ca: String,
    pub client_cert: String,
    pub client_key: String,
    pub verify: bool,
    /// What the files hold.
    #[serde(skip)]
    pub files: Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Enforce,
    Observe,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oracle {
    pub collapse_scope: bool,
    pub floor_ms: u64,
    pub keep_headers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disclosure {
    pub messages: Messages,
    pub words: Vec<String>,
    pub metadata_keys: Vec<String>,
    pub detail_types: Vec<String>,
    pub headers: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Messages {
    Guarded,
    Canonical,
    Upstream,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    pub success: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub request_bytes: u64,
    pub response_header_bytes: usize,
}

/// How the agent card is read (I-1).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Seconds between two looks.
    pub refresh_s: u64,
    pub max_bytes: usize,
}

/// Milliseconds each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    #[serde(rename = "connect_ms")]
    pub connect: u64,
    #[serde(rename = "read_ms")]
    pub read: u64,
    #[serde(rename = "write_ms")]
    pub write: u64,
    #[serde(rename = "idle_ms")]
    pub idle: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    pub path: String,
    pub binding: Binding,
    pub versions: Vec<String>,
    pub mode: InterfaceMode,
}

/// An interface's own mode, or that of its host (I-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceMode {
    Host,
    Enforce,
    Observe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Binding {
    #[serde(rename = "JSONRPC")]
    JsonRpc,
    #[serde(rename = "HTTP+JSON")]
    HttpJson,
}

impl Mode {
    /// As the configuration writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

impl Host {
    /// What the rules need to know about this host.
    #[must_use]
    pub fn policy(&self) -> normalize::Policy {
        normalize::Policy {
            mode: match self.mode {
                Mode::Enforce => normalize::Mode::Enforce,
                Mode::Observe => normalize::Mode::Observe,
            },
            response_cap_bytes: self.response_cap_bytes,
            intake_bytes: self.intake_bytes,
            normalize_0_3: self.normalize_0_3,
            oracle: normalize::Oracle {
                collapse_scope: self.oracle.collapse_scope,
                floor_ms: self.oracle.floor_ms,
                keep_headers: header_names(&self.oracle.keep_headers),
            },
            disclosure: normalize::Disclosure {
                messages: match self.disclosure.messages {
                    Messages::Guarded => normalize::Messages::Guarded,
                    Messages::Canonical => normalize::Messages::Canonical,
                    Messages::Upstream => normalize::Messages::Upstream,
                },
                words: self.disclosure.words.iter().map(|word| word.to_lowercase()).collect(),
                metadata_keys: self.disclosure.metadata_keys.clone(),
                detail_types: self.disclosure.detail_types.clone(),
                headers: header_names(&self.disclosure.headers),
            },
            cap: normalize::CapPolicy { success: self.cap.success },
        }
    }

    /// The configured interfaces; none when they are to come from the agent card (I-1).
    #[must_use]
    pub fn interfaces(&self) -> Vec<Arc<normalize::Interface>> {
        self.interfaces.iter().map(|interface| Arc::new(interface.resolve())).collect()
    }
}

impl Interface {
    /// In the mode it has itself, or with its host's.
    #[must_use]
    pub fn own_mode(&self) -> Option<normalize::Mode> {
        match self.mode {
            InterfaceMode::Host => None,
            InterfaceMode::Enforce => Some(normalize::Mode::Enforce),
            InterfaceMode::Observe => Some(normalize::Mode::Observe),
        }
    }

    fn resolve(&self) -> normalize::Interface {
        normalize::Interface {
            path: self.normal_path().to_owned(),
            binding: match self.binding {
                Binding::JsonRpc => normalize::Binding::JsonRpc,
                Binding::HttpJson => normalize::Binding::HttpJson,
            },
            versions: self.versions.clone(),
        }
    }

    /// The path without a trailing slash; the root is empty (I-2).
    #[must_use]
    pub fn normal_path(&self) -> &str {
        self.path.strip_suffix('/').unwrap_or(&self.path)
    }
}

/// The names were checked when the configuration was read.
fn header_names(names: &[String]) -> Vec<HeaderName> {
    names.iter().filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect()
}
