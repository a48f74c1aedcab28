//! Which host and which interface a request is for: by public URL or authority (I-1, P-3), then by path
//! (I-2).
//!
//! A look-up costs a handful of hash probes, whatever the number of hosts and interfaces. It only
//! proposes: whether rules bind the request is decided by [`crate::normalize::Exchange::new`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderValue, Version};
use pingora_http::RequestHeader;
use tokio::sync::watch;

use super::public::Public;
use super::request;
use super::settings::{self, InterfaceMode, Limits, Settings, Timeouts};
use super::upstream::Upstreams;
use crate::normalize::{Binding, Exchange, Interface, Machine, Mode, Policy, RequestFacts, Target};
use crate::observe::{Lane, Metrics};
use crate::protocol::a2a::{percent_decode, plain_path, tidy};

/// The longest A2A route below a base: `/{tenant}/tasks/{id}/pushNotificationConfigs/{configId}`.
const ROUTE_SEGMENTS: usize = 5;

/// The hosts behind the proxy, which a reload replaces all at once.
pub struct Hosts {
    table: ArcSwap<Table>,
    /// Told of every replacement.
    replaced: watch::Sender<()>,
    metrics: Arc<Metrics>,
    /// How `Via` names this process (P-1): new in every process, so that a chain of proxies of this
    /// kind is no loop.
    pseudonym: String,
    via_1: HeaderValue,
    via_2: HeaderValue,
}

/// Every host of one configuration, and how they are told apart.
struct Table {
    all: Vec<Arc<Host>>,
    /// By lower-case `Host` value, as configured (with or without a port).
    by_authority: HashMap<Box<str>, usize>,
    /// Hosts with a path of their own below a public authority, which several may share (P-3): by
    /// authority, then by path.
    by_public_path: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    /// Slashes in the public path that has most of them.
    public_depth: usize,
    /// The host for every value that selects no other.
    fallback: Option<usize>,
    /// The longest that any of them lets a client take.
    longest_write: Duration,
}

/// One host, as the shell needs it.
pub struct Host {
    pub name: String,
    /// What it was made from.
    pub settings: settings::Host,
    pub policy: Arc<Policy>,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub upstreams: Arc<Upstreams>,
    /// The URL that clients know it by, if that is another one (P-3).
    pub public: Option<Public>,
    /// Where everything is counted that is no interface's.
    pub other: Arc<Lane>,
    policies: Policies,
    interfaces: ArcSwap<Interfaces>,
    /// What its card last said well; empty where the interfaces are configured.
    learned: ArcSwap<Vec<Arc<Interface>>>,
}

/// What a request is for.
pub struct Routed {
    pub host: Arc<Host>,
    /// What the host's answer is fed to; `None` where it passes as it is.
    pub machine: Option<Machine>,
    pub lane: Arc<Lane>,
}

/// An interface that a request may be for.
#[derive(Clone)]
pub struct Candidate {
    pub target: Target,
    /// The host's, with the interface's own mode if it has one (I-5).
    pub policy: Arc<Policy>,
    pub lane: Arc<Lane>,
}

/// What an interface is bound by: the host's policy, in the one mode or the other (I-5).
struct Policies {
    host: Arc<Policy>,
    modes: Vec<InterfaceMode>,
    /// The host's policy in the mode it has not.
    other: Arc<Policy>,
}

#[derive(Default)]
struct Interfaces {
    /// Exact paths without a trailing slash.
    json_rpc: HashMap<Box<str>, Candidate>,
    /// Base paths without a trailing slash.
    http_json: HashMap<Box<str>, Candidate>,
    /// Interfaces by the spelling that lenient routers reduce a path to, see [`loose`].
    likely_json_rpc: HashMap<String, Candidate>,
    likely_http_json: HashMap<String, Candidate>,
    /// Until an interface is known, every POST may be a call (I-1).
    unknown: Option<Candidate>,
}

impl Hosts {
    pub fn new(settings: &Settings, metrics: &Arc<Metrics>) -> Self {
        let pseudonym = pseudonym();
        // Shared by every request's copy; the name is letters, digits and dashes.
        let via = |protocol: &str| {
            let value = Bytes::from(format!("{protocol} {pseudonym}"));
            HeaderValue::from_maybe_shared(value).unwrap_or(HeaderValue::from_static("1.1 a2a-errata"))
        };
        let (via_1, via_2) = (via("1.1"), via("2.0"));
        Self {
            table: ArcSwap::from_pointee(Table::new(&settings.hosts, &[], metrics)),
            replaced: watch::Sender::new(()),
            metrics: metrics.clone(),
            pseudonym,
            via_1,
            via_2,
        }
    }

    /// These are the hosts for every request that comes from here on; one under way keeps its own. A host
    /// whose settings are the same stays as it is, and one of the same name keeps what was learned.
    pub fn replace(&self, hosts: &[settings::Host]) {
        let known = self.all();
        self.table.store(Arc::new(Table::new(hosts, &known, &self.metrics)));
        self.replaced.send_replace(());
    }

    /// Changes whenever the hosts were replaced.
    pub fn replacements(&self) -> watch::Receiver<()> {
        self.replaced.subscribe()
    }

    /// The host that `authority` (a `Host` header or `:authority`) selects: one whose public URL has
    /// this authority and `path` below it, else one that lists the authority, with its port or
    /// without, else the host that takes all others.
    pub fn select(&self, authority: &str, path: &str) -> Option<Arc<Host>> {
        let table = self.table.load();
        let index = table.index_of(authority, path).or(table.fallback)?;
        table.all.get(index).cloned()
    }

    /// Finds the request's host and, if rules bind it, what its answer is fed to. `None` when the
    /// authority selects no host.
    pub fn route(&self, request: &RequestHeader) -> Option<Routed> {
        let (path, query) = request::target(&request.uri);
        let host = self.select(request::authority(request), path)?;
        let path = host.public.as_ref().map_or(path, |public| public.inner(path));
        let facts = RequestFacts { method: &request.method, path, query, headers: &request.headers };
        let bound = host.find(path, |candidate| {
            // Boxed at once: it is too large to be passed on by value.
            Exchange::new(&candidate.target, &candidate.policy, &facts).map(Box::new)
        });
        let (machine, lane) = if let Some((exchange, lane)) = bound {
            let machine = match &host.public {
                None => Machine::Exchange(exchange),
                Some(public) => {
                    let policy = exchange.policy().clone();
                    Machine::Extended(Box::new(public.extended(*exchange, &policy, request)))
                }
            };
            (Some(machine), lane)
        } else {
            let card = host.public.as_ref().and_then(|public| public.card(&host.policy, request, path));
            (card.map(Machine::Card), host.other.clone())
        };
        Some(Routed { host, machine, lane })
    }

    /// Every host, in the order of the configuration.
    pub fn all(&self) -> Vec<Arc<Host>> {
        self.table.load().all.clone()
    }

    /// How long a client may take at the most what is written to it, whichever host it asks for.
    pub fn longest_write(&self) -> Duration {
        self.table.load().longest_write
    }

    /// Connections of this key lead to an address of one of the hosts.
    pub fn has_key(&self, key: u64) -> bool {
        self.table.load().all.iter().any(|host| host.upstreams.has_key(key))
    }

    /// Each host's name and whether its interfaces are known (I-1).
    pub fn known(&self) -> Vec<(String, bool)> {
        let table = self.table.load();
        table.all.iter().map(|host| (host.name.clone(), host.is_known())).collect()
    }

    /// Replaces what is known of a host's interfaces (I-1); requests under way keep what they have. `false` if a
    /// reload has put another host in its place.
    pub fn learn(&self, host: &Arc<Host>, interfaces: Vec<Arc<Interface>>) -> bool {
        let table = Interfaces::new(&host.name, &interfaces, &host.policies, &self.metrics);
        host.interfaces.store(Arc::new(table));
        host.learned.store(Arc::new(interfaces));
        self.table.load().all.iter().any(|known| Arc::ptr_eq(known, host))
    }

    pub fn pseudonym(&self) -> &str {
        &self.pseudonym
    }

    /// What this process adds to `Via` for a request that came in this version of HTTP.
    pub fn via(&self, version: Version) -> HeaderValue {
        if version == Version::HTTP_2 { self.via_2.clone() } else { self.via_1.clone() }
    }
}

impl Table {
    /// `known` are hosts that may stay.
    fn new(hosts: &[settings::Host], known: &[Arc<Host>], metrics: &Arc<Metrics>) -> Self {
        let make = |settings: &settings::Host| match known.iter().find(|host| host.name == settings.name) {
            Some(host) if host.settings == *settings => host.clone(),
            Some(host) => Arc::new(Host::instead_of(host, settings, metrics)),
            None => Arc::new(Host::new(settings, metrics)),
        };
        let all: Vec<_> = hosts.iter().map(make).collect();
        let mut by_authority = HashMap::new();
        let mut fallback = None;
        for (index, host) in hosts.iter().enumerate() {
            if host.authorities.is_empty() {
                fallback = fallback.or(Some(index));
            }
            for authority in &host.authorities {
                by_authority.entry(authority.to_ascii_lowercase().into_boxed_str()).or_insert(index);
            }
        }
        let public = || all.iter().enumerate().filter_map(|(n, host)| Some((n, host.public.as_ref()?.url())));
        for (index, url) in public().filter(|(_, url)| url.path().is_empty()) {
            // Where clients know a host by an authority alone, that is one of its authorities.
            by_authority.entry(url.authority().into()).or_insert(index);
        }
        let mut by_public_path: HashMap<_, HashMap<_, _>> = HashMap::new();
        let mut public_depth = 0;
        for (index, url) in public().filter(|(_, url)| !url.path().is_empty()) {
            public_depth = public_depth.max(url.path().matches('/').count());
            by_public_path
                .entry(url.authority().into())
                .or_default()
                .entry(url.path().into())
                .or_insert(index);
        }
        let longest_write = all.iter().map(|host| host.timeouts.write).max().unwrap_or_default();
        Self { all, by_authority, by_public_path, public_depth, fallback, longest_write }
    }

    fn index_of(&self, authority: &str, path: &str) -> Option<usize> {
        if self.by_authority.is_empty() && self.by_public_path.is_empty() {
            return None;
        }
        let authority: Cow<'_, str> = if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
            authority.to_ascii_lowercase().into()
        } else {
            authority.into()
        };
        let named = [authority.as_ref(), without_port(&authority)].map(|name| self.by_public_path.get(name));
        if named.iter().any(Option::is_some) {
            let at = |above: &str| named.iter().flatten().find_map(|paths| paths.get(above)).copied();
            // The longest that there is.
            if let Some(index) = heads(path).take(self.public_depth).filter_map(at).last() {
                return Some(index);
            }
        }
        let found = self.by_authority.get(authority.as_ref());
        found.or_else(|| self.by_authority.get(without_port(&authority))).copied()
    }
}

impl Host {
    fn new(host: &settings::Host, metrics: &Arc<Metrics>) -> Self {
        Self::with(host, Upstreams::new(host, metrics), Vec::new(), metrics)
    }

    /// With what is known of the host of this name: what its card said, and where its upstreams are.
    fn instead_of(old: &Self, host: &settings::Host, metrics: &Arc<Metrics>) -> Self {
        let of = |host: &settings::Host| (host.upstreams.clone(), host.group.clone(), host.timeouts);
        let upstreams = if of(&old.settings) == of(host) {
            old.upstreams.clone()
        } else {
            Upstreams::instead_of(&old.upstreams, host, metrics)
        };
        let learned = if host.interfaces.is_empty() { old.learned() } else { Vec::new() };
        Self::with(host, upstreams, learned, metrics)
    }

    fn with(
        host: &settings::Host,
        upstreams: Arc<Upstreams>,
        learned: Vec<Arc<Interface>>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let policies = Policies::new(host);
        let known = if host.interfaces.is_empty() { &learned } else { &host.interfaces };
        let interfaces = Interfaces::new(&host.name, known, &policies, metrics);
        Self {
            name: host.name.clone(),
            settings: host.clone(),
            policy: host.policy.clone(),
            limits: host.limits,
            timeouts: host.timeouts,
            upstreams,
            public: Public::new(host),
            other: metrics.lane(&host.name, "other", None, host.policy.mode),
            policies,
            interfaces: ArcSwap::from_pointee(interfaces),
            learned: ArcSwap::from_pointee(learned),
        }
    }

    /// What its card last said well.
    pub fn learned(&self) -> Vec<Arc<Interface>> {
        Vec::clone(&self.learned.load())
    }

    /// Its interfaces are known (I-1).
    fn is_known(&self) -> bool {
        !self.settings.interfaces.is_empty() || !self.learned.load().is_empty()
    }

    /// The first interface that `path` may belong to and `accept` takes: a JSON-RPC interface on
    /// this very path (one trailing slash tolerated), else the HTTP+JSON bases above it, the longest
    /// first (I-2).
    pub fn find<T>(
        &self,
        path: &str,
        mut accept: impl FnMut(&Candidate) -> Option<T>,
    ) -> Option<(T, Arc<Lane>)> {
        let interfaces = self.interfaces.load();
        let mut ask = |candidate: &Candidate| accept(candidate).map(|found| (found, candidate.lane.clone()));
        if let Some(candidate) = &interfaces.unknown {
            return ask(candidate);
        }
        let plain = plain_path(path);
        let exact = plain.strip_suffix('/').unwrap_or(&plain);
        if let Some(found) = interfaces.json_rpc.get(exact).and_then(&mut ask) {
            return Some(found);
        }
        if !interfaces.http_json.is_empty() {
            let mut above = bases(exact).filter_map(|base| interfaces.http_json.get(base));
            if let Some(found) = above.find_map(&mut ask) {
                return Some(found);
            }
        }
        let loose = loose(path);
        if loose == exact {
            return None;
        }
        let json_rpc = interfaces.likely_json_rpc.get(&loose).into_iter();
        let http_json = bases(&loose).filter_map(|base| interfaces.likely_http_json.get(base));
        json_rpc.chain(http_json).find_map(ask)
    }
}

impl Policies {
    fn new(host: &settings::Host) -> Self {
        let other = match host.policy.mode {
            Mode::Enforce => Mode::Observe,
            Mode::Observe => Mode::Enforce,
        };
        let other = Arc::new(Policy { mode: other, ..Policy::clone(&host.policy) });
        Self { host: host.policy.clone(), modes: host.modes.clone(), other }
    }

    fn of(&self, interface: &Interface) -> &Arc<Policy> {
        let own = self.modes.iter().find(|m| m.binding == interface.binding && m.path == interface.path);
        if own.is_some_and(|own| own.mode != self.host.mode) { &self.other } else { &self.host }
    }
}

impl Interfaces {
    fn new(host: &str, interfaces: &[Arc<Interface>], policies: &Policies, metrics: &Arc<Metrics>) -> Self {
        let mut table = Self::default();
        if interfaces.is_empty() {
            let policy = policies.host.clone();
            let lane = metrics.lane(host, "unknown", None, policy.mode);
            table.unknown = Some(Candidate { target: Target::Unknown, policy, lane });
        }
        for interface in interfaces {
            let paths = match interface.binding {
                Binding::JsonRpc => &mut table.json_rpc,
                Binding::HttpJson => &mut table.http_json,
            };
            let path = interface.path.strip_suffix('/').unwrap_or(&interface.path);
            match paths.entry(path.into()) {
                Entry::Vacant(place) => {
                    let policy = policies.of(interface);
                    let lane = metrics.lane(host, &interface.path, Some(interface.binding), policy.mode);
                    let likely = match interface.binding {
                        Binding::JsonRpc => &mut table.likely_json_rpc,
                        Binding::HttpJson => &mut table.likely_http_json,
                    };
                    let target = Target::Likely(interface.clone());
                    likely.entry(loose(path)).or_insert(Candidate {
                        target,
                        policy: policy.clone(),
                        lane: lane.clone(),
                    });
                    let target = Target::Interface(interface.clone());
                    place.insert(Candidate { target, policy: policy.clone(), lane });
                }
                // A card lists one URL once per protocol version: one interface with all of them.
                Entry::Occupied(mut place) => {
                    if let Target::Interface(known) = &mut place.get_mut().target {
                        let known = Arc::make_mut(known);
                        for version in &interface.versions {
                            if !known.versions.contains(version) {
                                known.versions.push(version.clone());
                            }
                        }
                    }
                }
            }
        }
        table
    }
}

/// The path's first segment, its first two, and so on.
fn heads(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
    ends.map(|end| path.get(..end).unwrap_or_default())
}

/// What may be the base path above an A2A route, the longest first.
fn bases(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.bytes().enumerate().rev().filter(|(_, byte)| *byte == b'/').map(|(end, _)| end);
    ends.take(ROUTE_SEGMENTS).map(|end| path.get(..end).unwrap_or_default())
}

/// A path as the most lenient router reads it: decoded, in lower case, without empty and dot segments.
/// An interface is its exact path (I-2), but a call that reaches it by another spelling must not get
/// around the rules.
fn loose(path: &str) -> String {
    let path = percent_decode(path).to_lowercase();
    tidy(&path).iter().flat_map(|segment| ["/", segment]).collect()
}

/// `host:80` and `[::1]:80` without the port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => {
            // A bare IPv6 address is all colons and has no port.
            if host.contains(':') && !host.ends_with(']') { authority } else { host }
        }
        _ => authority,
    }
}

/// A name no other process has; the standard library's hash keys are random in every process.
fn pseudonym() -> String {
    format!("a2a-errata-{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn host(name: &str, authorities: &[&str], interfaces: &[(&str, Binding, &str)]) -> settings::Host {
        settings::Host {
            name: name.into(),
            upstreams: Vec::new(),
            group: settings::Group::default(),
            authorities: authorities.iter().map(ToString::to_string).collect(),
            policy: Arc::default(),
            interfaces: interfaces
                .iter()
                .map(|(path, binding, version)| {
                    Arc::new(Interface {
                        path: path.to_string(),
                        binding: *binding,
                        versions: vec![version.to_string()],
                    })
                })
                .collect(),
            limits: Limits::default(),
            timeouts: Timeouts {
                connect: Duration::from_secs(1),
                read: Duration::from_secs(1),
                write: Duration::from_secs(1),
                idle: Duration::from_secs(1),
            },
            card: settings::Card::default(),
            public_url: String::new(),
            modes: Vec::new(),
        }
    }

    fn hosts(hosts: Vec<settings::Host>) -> Hosts {
        let settings = Settings {
            listen: String::new(),
            tls: None,
            services: 1,
            grace: Duration::ZERO,
            handover: false,
            bounds: settings::Bounds::default(),
            hosts,
        };
        Hosts::new(&settings, &Metrics::new())
    }

    fn found(hosts: &Hosts, path: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let _ = hosts.select("x", "/").unwrap().find(path, |candidate| {
            seen.push(match &candidate.target {
                Target::Interface(interface) => format!("{} {}", interface.binding.as_str(), interface.path),
                Target::Likely(interface) => format!("likely {}", interface.path),
                Target::Unknown => "unknown".into(),
            });
            None::<()>
        });
        seen
    }

    /// I-1: by authority, with or without the port, whatever its case; else the host for the rest.
    #[test]
    fn a_host_is_selected_by_its_authority() {
        let hosts = hosts(vec![
            host("a", &["a.example", "[::1]"], &[]),
            host("b", &["b.example:8443"], &[]),
            host("rest", &[], &[]),
        ]);
        for (authority, name) in [
            ("a.example", "a"),
            ("A.Example:80", "a"),
            ("[::1]:80", "a"),
            ("b.example:8443", "b"),
            ("b.example", "rest"),
            ("", "rest"),
            ("::1", "rest"),
        ] {
            assert_eq!(hosts.select(authority, "/").unwrap().name, name, "{authority}");
        }
    }

    /// P-3: hosts that share a public authority are told apart by the path of their public URL.
    #[test]
    fn a_host_is_selected_by_its_public_url() {
        let mut all = vec![
            host("a", &["a.internal"], &[]),
            host("b", &["b.internal"], &[]),
            host("c", &["c.internal"], &[]),
            host("d", &["d.internal"], &[]),
        ];
        all[0].public_url = "https://agents.example/one".into();
        all[1].public_url = "https://agents.example/one/more/".into();
        all[2].public_url = "https://c.example/".into();
        all[3].public_url = "https://d.example:8443/d".into();
        let hosts = hosts(all);
        for (authority, path, name) in [
            ("agents.example", "/one", Some("a")),
            ("Agents.Example:443", "/one/x", Some("a")),
            ("agents.example:8080", "/one/more/x", Some("b")),
            ("agents.example", "/one/more", Some("b")),
            ("agents.example", "/one/mores", Some("a")),
            ("agents.example", "/one/more/and/more", Some("b")),
            ("agents.example", "/one/", Some("a")),
            ("agents.example", "one", None),
            ("agents.example", "", None),
            ("agents.example", "/ones", None),
            ("agents.example", "/", None),
            ("a.internal", "/one/more", Some("a")),
            ("c.example", "/one", Some("c")),
            ("d.example:8443", "/d/x", Some("d")),
            ("d.example", "/d/x", None),
        ] {
            let found = hosts.select(authority, path).map(|host| host.name.clone());
            assert_eq!(found.as_deref(), name, "{authority}{path}");
        }
    }

    #[test]
    fn without_a_host_for_the_rest_an_unknown_authority_selects_none() {
        assert!(hosts(vec![host("a", &["a.example"], &[])]).select("b.example", "/").is_none());
    }

    /// I-2: an exact path, a base with the routes below it, the longest base first.
    #[test]
    fn interfaces_are_proposed_by_path() {
        let hosts = hosts(vec![host(
            "a",
            &[],
            &[
                ("/a2a", Binding::JsonRpc, "1.0"),
                ("", Binding::HttpJson, "1.0"),
                ("/rest", Binding::HttpJson, "1.0"),
            ],
        )]);
        for (path, expected) in [
            ("/a2a", &["JSONRPC /a2a", "HTTP+JSON "][..]),
            ("/a2a/", &["JSONRPC /a2a", "HTTP+JSON "]),
            ("/a2a//", &["HTTP+JSON ", "likely /a2a", "likely "]),
            ("/A2A", &["HTTP+JSON ", "likely /a2a", "likely "]),
            ("/x/../%41%32a", &["HTTP+JSON ", "likely /a2a", "likely "]),
            ("/%612a", &["JSONRPC /a2a", "HTTP+JSON "]),
            ("/a2a%2F", &["HTTP+JSON ", "likely /a2a", "likely "]),
            ("/REST/tasks/1", &["HTTP+JSON ", "likely /rest", "likely "]),
            ("/rest/tasks/1", &["HTTP+JSON /rest", "HTTP+JSON "]),
            ("/rest/t/tasks/1/pushNotificationConfigs/2", &["HTTP+JSON /rest", "likely /rest"]),
            ("/rest/t/tasks/1", &["HTTP+JSON /rest", "HTTP+JSON "]),
            ("/rest/1/2/3/4/5/6", &[]),
        ] {
            assert_eq!(found(&hosts, path), expected, "{path}");
        }
    }

    #[test]
    fn one_path_listed_once_per_version_is_one_interface() {
        let hosts =
            hosts(vec![host("a", &[], &[("/a", Binding::JsonRpc, "1.0"), ("/a", Binding::JsonRpc, "0.3")])]);
        let versions = hosts.select("", "/").unwrap().find("/a", |candidate| match &candidate.target {
            Target::Interface(interface) => Some(interface.versions.clone()),
            Target::Likely(_) | Target::Unknown => None,
        });
        assert_eq!(versions.unwrap().0, ["1.0", "0.3"]);
    }

    /// I-1: nothing known yet, so everything may be a call; once known, it is no longer.
    #[test]
    fn interfaces_can_be_learned() {
        let hosts = hosts(vec![host("a", &[], &[])]);
        assert_eq!(found(&hosts, "/x"), ["unknown"]);
        let learned = Interface { path: "/x".into(), binding: Binding::JsonRpc, versions: vec![] };
        assert!(hosts.learn(&hosts.all()[0], vec![Arc::new(learned)]));
        assert_eq!(found(&hosts, "/x"), ["JSONRPC /x"]);
        assert_eq!(found(&hosts, "/y"), [""; 0]);
    }

    /// A host that is the same stays; one with other settings keeps what its card said; one that is gone is
    /// gone for the next request, and lives on for one that has it.
    #[test]
    fn a_replacement_keeps_what_stays() {
        let before =
            vec![host("same", &["same"], &[]), host("other", &["other"], &[]), host("gone", &[], &[])];
        let hosts = hosts(before.clone());
        let old = hosts.all();
        let learned = Arc::new(Interface {
            path: "/x".into(),
            binding: Binding::JsonRpc,
            versions: vec!["1.0".into()],
        });
        for host in &old {
            assert!(hosts.learn(host, vec![learned.clone()]));
        }
        let mut after = before[..2].to_vec();
        after[1].policy = Arc::new(Policy { mode: Mode::Observe, ..Policy::default() });
        after.push(host("new", &[], &[]));
        let told = hosts.replacements();
        hosts.replace(&after);
        assert!(told.has_changed().unwrap());
        let new = hosts.all();
        assert!(Arc::ptr_eq(&new[0], &old[0]));
        assert!(!Arc::ptr_eq(&new[1], &old[1]) && Arc::ptr_eq(&new[1].upstreams, &old[1].upstreams));
        assert_eq!((new[1].learned(), new[1].policy.mode), (vec![learned.clone()], Mode::Observe));
        assert_eq!(hosts.select("whoever", "/").unwrap().name, "new");
        let known = [("same", true), ("other", true), ("new", false)].map(|(name, is)| (name.to_owned(), is));
        assert_eq!(hosts.known(), known);
        assert!(!hosts.learn(&old[2], vec![learned.clone()]));

        // Once the interfaces are configured, the card has no say.
        after[1].interfaces = vec![Arc::new(Interface { path: "/y".into(), ..Interface::clone(&learned) })];
        hosts.replace(&after);
        assert!(hosts.all()[1].learned().is_empty() && hosts.known()[1].1);
    }
}
