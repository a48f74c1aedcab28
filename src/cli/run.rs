//! `run`: from the configuration to a running proxy (U-1). Everything that can be refused is refused
//! before anything listens.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::{BackgroundService, background_service};
use pingora::services::listening::Service;

use super::certificates::Watcher;
use super::descriptors;
use super::ending::{self, Drain};
use super::reload::{OnHangUp, Reloader, catch_hang_ups};
use super::sources::{self, Sources};
use super::takeover::{self, Opening};
use super::{FAILED, KEPT, REFUSED, say};
use crate::config::{self, ClientAuth, ENV_LOG, Host, Model};
use crate::observe::log::{self, Format, Level};
#[cfg(feature = "otlp")]
use crate::observe::spans;
use crate::observe::{Admin, Few, Metrics, Readiness, Shown};
use crate::proxy::{
    self, Assembly, Balance, Bounds, CardReader, ClientCertificates, Ejection, Group, Health, Http2,
    InterfaceMode, Limits, ListenTls, Settings, Timeouts, Upstream, UpstreamTls, Waiting,
};

/// Run the proxy.
///
/// Takes a configuration file, or just the address of a host. Requests to the host's A2A interfaces get
/// their errors repaired; everything else passes as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = help())]
pub struct Args {
    #[command(flatten)]
    sources: Sources,

    /// How much is logged; one event per request at `info` [default: info, or A2A_ERRATA_LOG]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,

    /// How it is logged; `auto` is text at a terminal, else JSON
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    log_format: Format,

    /// Take the listening sockets over from the process that runs, which then drains and ends
    ///
    /// Needs `listen.handover` in both configurations. Send SIGQUIT to the process that runs, within six seconds. It
    /// goes on if this one cannot serve.
    #[arg(long)]
    upgrade: bool,
}

const EXAMPLES: &str = "\
Examples:
  Try it in front of a host, without a file:
    a2a-errata run --upstream 127.0.0.1:9000 --listen 127.0.0.1:8080
  With a file, one value changed:
    a2a-errata run --config /etc/a2a-errata.toml --listen 0.0.0.0:8443
  Only look at what would be changed:
    A2A_ERRATA_HOSTS__0__MODE=observe a2a-errata run --upstream 127.0.0.1:9000
  Then ask it how it is:
    curl http://127.0.0.1:9464/readyz http://127.0.0.1:9464/metrics

Signals: SIGHUP reads the configuration again, SIGTERM drains and ends, SIGQUIT hands over to a process that was
started with --upgrade, SIGINT ends at once.

Exit code 1: it failed at run time, for example because the address is taken. 2: it was not started,
because the configuration or the command line is wrong. 3: --upgrade took nothing over, for example because nobody
sent the sockets or an address is taken; the process that runs goes on.";

fn help() -> String {
    format!("{EXAMPLES}\n\n{}", sources::ENVIRONMENT)
}

/// Run until a signal ends it.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let effective = match args.sources.load() {
        Ok(effective) => effective,
        Err(problems) => {
            sources::refuse(&problems);
            return ExitCode::from(REFUSED);
        }
    };
    let model = &effective.model;
    let level = match level(args.log_level) {
        Ok(level) => level,
        Err(says) => {
            say(&format!("a2a-errata: {says}"));
            return ExitCode::from(REFUSED);
        }
    };
    if let Err(says) = can_start(model, args.upgrade) {
        return failed(args.upgrade, &says);
    }
    log::init(level, args.log_format);
    announce(model);
    descriptors::make_room(model);
    let hang_ups = catch_hang_ups().inspect_err(|error| {
        tracing::error!(%error, "SIGHUP cannot be received; POST /-/reload still works");
    });

    let settings = settings(model);
    let metrics = Metrics::new();
    if let Err(says) = export_spans(model, &metrics) {
        return failed(args.upgrade, &format!("traces.otlp_url: {says}"));
    }
    let mut assembly = match Assembly::new(&settings, &metrics) {
        Ok(assembly) => assembly,
        Err(says) => return failed(args.upgrade, &format!("listen.tls: {says}")),
    };
    // The last thing that can be refused.
    let waiting = args.upgrade.then(|| Waiting::at(Path::new(&model.listen.handover)));
    let promise =
        waiting.map(|waiting| waiting.and_then(|waiting| takeover::take(model, waiting, &assembly)));
    let promise = match promise.transpose() {
        Ok(promise) => promise,
        Err(says) => return failed(args.upgrade, &says),
    };
    let hosts = assembly.hosts();
    let readiness = Arc::new(Readiness::new(hosts.known()).with(metrics.groups()).before_listening());
    let shown = Arc::new(Shown::new(effective.shown()));
    let reloader = Arc::new(Reloader::new(
        args.sources.clone(),
        model.clone(),
        &assembly,
        metrics.clone(),
        readiness.clone(),
        shown.clone(),
    ));
    assembly.add(Box::new(background_service("certificates", Watcher::new(reloader.clone()))));
    assembly.add(Box::new(background_service(
        "reload",
        OnHangUp { reloader: reloader.clone(), hang_ups: Mutex::new(hang_ups.ok()) },
    )));
    let opening = Opening {
        sockets: assembly.sockets(),
        names: takeover::names(model, &assembly),
        readiness: readiness.clone(),
        announcement: listening(model),
        promise: Mutex::new(promise),
    };
    assembly.add(Box::new(background_service("listening", opening)));
    let reader = CardReader::new(&hosts, &metrics, &readiness);
    assembly.add(Box::new(background_service("agent cards", reader)));
    if !model.admin.address.is_empty() {
        let pages =
            Admin::new(metrics.clone(), readiness, shown).with_reload(Arc::new(move || reloader.reload()));
        let mut admin = Service::new("admin".to_owned(), Few::new(pages));
        admin.add_tcp(&model.admin.address);
        admin.threads = Some(1);
        assembly.add(Box::new(admin));
    }
    assembly.add(Box::new(background_service("trend", Ticker { metrics: metrics.clone() })));
    let drain = Drain::new(metrics, model.listen.handover.clone(), assembly.sockets());
    assembly.run_until(Box::new(drain));
    flush();
    ExitCode::SUCCESS
}

/// Nothing was started. A process whose place this one was to take goes on.
fn failed(upgrade: bool, says: &str) -> ExitCode {
    flush();
    say(&format!("a2a-errata: {says}"));
    if upgrade {
        say("a2a-errata: not taking over; the process that runs, if one does, goes on");
    }
    ExitCode::from(if upgrade { KEPT } else { FAILED })
}

/// Begins to export spans, if a collector is configured.
#[cfg(feature = "otlp")]
fn export_spans(model: &Model, metrics: &Arc<Metrics>) -> Result<(), String> {
    let traces = &model.traces;
    if traces.otlp_url.is_empty() {
        return Ok(());
    }
    let (scheme, rest) = traces.otlp_url.split_once("://").unwrap_or(("http", &traces.otlp_url));
    let rest = rest.trim_end_matches('/');
    let url =
        if rest.contains('/') { traces.otlp_url.clone() } else { format!("{scheme}://{rest}/v1/traces") };
    let pair = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers = traces.headers.iter().filter_map(pair).collect();
    spans::init(&spans::Settings { url, sample_percent: traces.sample_percent, headers }, metrics)
}

/// The configuration's checks refuse a collector in this build.
#[cfg(not(feature = "otlp"))]
#[expect(clippy::unnecessary_wraps, reason = "the other build's may fail")]
fn export_spans(_: &Model, _: &Arc<Metrics>) -> Result<(), String> {
    Ok(())
}

/// What is pending for whoever watches is written out: for the end of the process.
pub(super) fn flush() {
    #[cfg(feature = "otlp")]
    spans::flush();
    log::flush();
}

/// Closes each minute of the trends the status page draws.
struct Ticker {
    metrics: Arc<Metrics>,
}

#[async_trait]
impl BackgroundService for Ticker {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let into = Duration::new(now.as_secs() % 60, now.subsec_nanos());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_mins(1).saturating_sub(into)) => self.metrics.tick(),
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// The flag, else the variable, else the default.
fn level(flag: Option<Level>) -> Result<Level, String> {
    match (flag, std::env::var(ENV_LOG)) {
        (Some(level), _) => Ok(level),
        (None, Ok(text)) if !text.is_empty() => {
            text.parse().map_err(|says| format!("environment {ENV_LOG} = \"{text}\": {says}"))
        }
        (None, _) => Ok(Level::default()),
    }
}

/// Pingora finds out that an address is taken in a thread of its own, and with `SO_REUSEPORT` a second
/// process would silently take a share of the connections. So try first, all addresses at once.
fn can_start(model: &Model, upgrade: bool) -> Result<(), String> {
    descriptors::can_start(services())?;
    if !model.listen.handover.is_empty() {
        can_hand_over(Path::new(&model.listen.handover))?;
    } else if upgrade {
        return Err(
            "--upgrade needs listen.handover, in this configuration and in that of the process that runs"
                .into(),
        );
    }
    if upgrade {
        // They are taken, by the process whose place this one takes: it is looked at when the sockets come.
        return Ok(());
    }
    let mut held = Vec::new();
    for (key, address) in takeover::addresses(model) {
        match TcpListener::bind(address) {
            Ok(listener) => held.push(listener),
            Err(error) => {
                let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
                    "; stop what listens there or choose another port"
                } else {
                    ""
                };
                return Err(format!("cannot listen on {address} ({key}): {error}{hint}"));
            }
        }
    }
    Ok(())
}

/// Whoever reaches the socket could get the listening sockets, or send others in their place.
fn can_hand_over(socket: &Path) -> Result<(), String> {
    let directory = socket.parent().unwrap_or(socket);
    let says =
        |what: &str| format!("listen.handover = \"{}\": {} {what}", socket.display(), directory.display());
    let found = std::fs::metadata(directory).map_err(|error| says(&format!("cannot be used: {error}")))?;
    if found.permissions().mode() & 0o007 != 0 {
        return Err(says("is open to every user of this machine; use a directory of mode 0700 or 0750"));
    }
    if found.permissions().mode() & 0o020 != 0 {
        return Err(says("can be written to by a whole group; use a directory of mode 0700 or 0750"));
    }
    let probe = directory.join(format!(".a2a-errata-{}", std::process::id()));
    let made = UnixListener::bind(&probe);
    let _ = std::fs::remove_file(&probe);
    made.map(|_| ()).map_err(|error| says(&format!("takes no socket: {error}")))
}

/// Tell people what it stands in front of.
fn announce(model: &Model) {
    for host in &model.hosts {
        tracing::info!(
            host = host.name,
            mode = host.mode.as_str(),
            upstreams =
                host.upstreams.iter().map(|upstream| upstream.address.as_str()).collect::<Vec<_>>().join(" "),
            authorities = (!host.authorities.is_empty()).then(|| host.authorities.join(" ")),
            public_url = (!host.public_url.is_empty()).then_some(&host.public_url),
            interfaces = interfaces(host),
            "in front of"
        );
    }
    for warning in sources::warnings(model) {
        tracing::warn!("{warning}");
    }
}

/// Tells people what listens where, once it does.
fn listening(model: &Model) -> Box<dyn Fn() + Send + Sync> {
    let (listen, admin, tls, hosts) =
        (model.listen.address.clone(), model.admin.address.clone(), tls(model), model.hosts.len());
    Box::new(move || {
        let admin = if admin.is_empty() { "off" } else { &admin };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), listen, tls, admin, hosts, "listening");
    })
}

/// Whether clients come over TLS, and whether they show a certificate.
fn tls(model: &Model) -> &'static str {
    match listen_tls(model) {
        None => "off",
        Some(ListenTls { client: None, .. }) => "on",
        Some(ListenTls { client: Some(client), .. }) if client.required => "client certificates required",
        Some(_) => "client certificates optional",
    }
}

/// `JSONRPC /a2a (1.0, 0.3)`, one after the other.
fn interfaces(host: &Host) -> String {
    let one = |interface: &crate::config::Interface| {
        let binding = match interface.binding {
            crate::config::Binding::JsonRpc => "JSONRPC",
            crate::config::Binding::HttpJson => "HTTP+JSON",
        };
        let mode = match interface.own_mode() {
            Some(mode) => format!(", {}", mode.as_str()),
            None => String::new(),
        };
        format!("{binding} {} ({}{mode})", interface.path, interface.versions.join(", "))
    };
    host.interfaces.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The interfaces with a mode of their own (I-5).
fn modes(host: &Host) -> Vec<InterfaceMode> {
    let resolved = host.interfaces();
    let pairs = host.interfaces.iter().zip(&resolved);
    let own = pairs.filter_map(|(configured, resolved)| {
        let (path, binding) = (resolved.path.clone(), resolved.binding);
        configured.own_mode().map(|mode| InterfaceMode { path, binding, mode })
    });
    own.collect()
}

fn upstream(upstream: &config::Upstream) -> Upstream {
    let tls = upstream.tls.as_ref().map(|tls| UpstreamTls {
        sni: tls.sni.clone(),
        verify: tls.verify,
        ca: tls.files.ca.clone(),
        client: tls.files.client.clone(),
    });
    let http2 = match upstream.http2 {
        config::Http2::Off => Http2::Off,
        config::Http2::PriorKnowledge => Http2::PriorKnowledge,
        config::Http2::Alpn => Http2::Alpn,
    };
    Upstream { address: upstream.address.clone(), weight: upstream.weight, http2, tls }
}

/// One for each core.
fn services() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How the host's addresses are chosen from.
fn group(host: &Host) -> Group {
    let millis = Duration::from_millis;
    let (health, ejection) = (&host.health, &host.ejection);
    Group {
        balance: match host.balance {
            config::Balance::RoundRobin => Balance::RoundRobin,
            config::Balance::LeastConnections => Balance::LeastConnections,
        },
        health: (health.interval_ms > 0).then(|| Health {
            path: health.path.clone(),
            interval: millis(health.interval_ms),
            timeout: millis(health.timeout_ms),
            failures: health.failures,
            successes: health.successes,
        }),
        ejection: (ejection.failures > 0).then(|| Ejection {
            failures: ejection.failures,
            lasts: millis(ejection.for_ms),
            max_percent: ejection.max_percent,
        }),
    }
}

/// How clients are spoken to over TLS, if they are.
pub(super) fn listen_tls(model: &Model) -> Option<ListenTls> {
    let tls = &model.listen.tls;
    let client = (!tls.files.client_ca.is_empty()).then(|| ClientCertificates {
        ca: tls.files.client_ca.clone(),
        required: tls.client_auth == ClientAuth::Required,
    });
    (!tls.files.identities.is_empty()).then(|| ListenTls {
        identities: tls.files.identities.clone(),
        client,
        http2: tls.http2,
    })
}

/// What the proxy needs to know of each host.
pub(super) fn hosts(model: &Model) -> Vec<proxy::Host> {
    let millis = Duration::from_millis;
    let host = |host: &Host| proxy::Host {
        name: host.name.clone(),
        upstreams: host.upstreams.iter().map(upstream).collect(),
        group: group(host),
        authorities: host.authorities.clone(),
        policy: Arc::new(host.policy()),
        interfaces: host.interfaces(),
        limits: Limits {
            request_bytes: host.limits.request_bytes,
            response_header_bytes: host.limits.response_header_bytes,
        },
        timeouts: Timeouts {
            connect: millis(host.timeouts.connect),
            read: millis(host.timeouts.read),
            write: millis(host.timeouts.write),
            idle: millis(host.timeouts.idle),
        },
        card: proxy::Card {
            refresh: Duration::from_secs(host.card.refresh_s),
            max_bytes: host.card.max_bytes,
        },
        public_url: host.public_url.clone(),
        modes: modes(host),
    };
    model.hosts.iter().map(host).collect()
}

/// What clients may take.
pub(super) fn bounds(model: &Model) -> Bounds {
    let (limits, timeouts) = (&model.client_limits, &model.client_timeouts);
    Bounds {
        held_bytes: limits.held_bytes,
        connections: limits.connections,
        concurrent_streams: limits.concurrent_streams,
        request_header_bytes: limits.request_header_bytes,
        requests_per_second: limits.requests_per_second,
        request_headers: Duration::from_millis(timeouts.request_headers),
        keep_alive: Duration::from_millis(timeouts.keep_alive),
    }
}

/// What the proxy needs of the configuration.
pub(super) fn settings(model: &Model) -> Settings {
    Settings {
        listen: model.listen.address.clone(),
        tls: listen_tls(model),
        services: services(),
        // `ending` ends the process before.
        grace: ending::LONGEST,
        handover: !model.listen.handover.is_empty(),
        bounds: bounds(model),
        hosts: hosts(model),
    }
}
