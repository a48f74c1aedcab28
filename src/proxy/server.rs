//! Assembles the process: the listening services, their runtimes and what else wants to run with
//! them (the admin pages, the agent-card refresher).

use std::sync::Arc;

use pingora::apps::HttpServerOptions;
use pingora::connectors::ConnectorOptions;
use pingora::listeners::{L4BufferSettings, ListenerConfig, TcpSocketOptions};
use pingora::proxy::ProxyServiceBuilder;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownSignalWatch};
use pingora::services::background::background_service;
use pingora::services::listening::Service;
use pingora::services::{ServiceHandle, ServiceWithDependents};

use super::admission::Admission;
use super::handover::{self, Keeper, Sockets};
use super::health::Checker;
use super::routes::Hosts;
use super::service::{self, Shell};
use super::settings::Settings;
use super::tls::Terminator;
use super::{front, joined};
use crate::observe::Metrics;

/// Idle upstream connections that one service keeps.
const POOL: usize = 256;
/// How long a runtime may take to end after the grace period, in seconds.
const RUNTIME_EXIT_S: u64 = 1;

/// A proxy that is built but does not run yet: the place to add services of one's own.
pub struct Assembly {
    server: Server,
    hosts: Arc<Hosts>,
    tls: Arc<Terminator>,
    sockets: Arc<Sockets>,
    /// What knows the sockets that are there before anything listens.
    keeper: ServiceHandle,
    names: Vec<String>,
    admission: Arc<Admission>,
}

impl Assembly {
    /// Builds the proxy's services; nothing listens before [`Assembly::run`].
    ///
    /// There is one service per `settings.services`, each with a thread, a listening socket and an
    /// upstream pool of its own, and no work stealing: a connection stays on its thread, which was
    /// measured to need 0.87 of the stock runtime's CPU time. Pingora keeps its listening sockets by
    /// the address as it was written and would hand one socket to all of them; so each service
    /// writes the port with another number of leading zeros and `SO_REUSEPORT` does the rest.
    ///
    /// # Errors
    /// When TLS towards clients is configured and cannot be made.
    pub fn new(settings: &Settings, metrics: &Arc<Metrics>) -> Result<Self, String> {
        let tls = Arc::new(Terminator::new(metrics));
        tls.replace(settings.tls.as_ref())?;
        let conf = ServerConf {
            threads: 1,
            work_stealing: false,
            upstream_keepalive_pool_size: POOL,
            // Retries are decided in `service`; this only bounds their number.
            max_retries: service::MOST_ATTEMPTS + service::MOST_ADDRESSES,
            // `SIGTERM` stops the listening at once; requests in flight have this long (Pingora's own
            // default is five minutes).
            grace_period_seconds: Some(settings.grace.as_secs()),
            graceful_shutdown_timeout_seconds: Some(RUNTIME_EXIT_S),
            ..ServerConf::default()
        };
        let mut server = Server::new_with_opt_and_conf(None, conf);
        server.bootstrap();

        let hosts = Arc::new(Hosts::new(settings, metrics));
        let sockets = Arc::<Sockets>::default();
        let keeper = server.add_service(Keeper(sockets.clone()));
        let admission = Admission::new(settings.bounds, metrics);
        let names: Vec<_> = (0..services(settings)).map(|index| respelled(&settings.listen, index)).collect();
        for (index, name) in names.iter().enumerate() {
            let service = service(&server.configuration, &hosts, &tls, &admission, name, index);
            server.add_service(service).add_dependency(&keeper);
        }
        // Not one per service: every address is asked once.
        server.add_service(background_service("health checks", Checker::new(&hosts)));
        Ok(Self { server, hosts, tls, sockets, keeper, names, admission })
    }

    /// The listening sockets, for whoever hands them over or takes them.
    #[must_use]
    pub fn sockets(&self) -> Arc<Sockets> {
        self.sockets.clone()
    }

    /// The names that the proxy's sockets have among them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How connections are met, for whoever changes it later.
    #[must_use]
    pub fn tls(&self) -> Arc<Terminator> {
        self.tls.clone()
    }

    /// What clients may take, for whoever changes it later.
    #[must_use]
    pub fn admission(&self) -> Arc<Admission> {
        self.admission.clone()
    }

    /// The hosts behind the proxy, for whoever learns their interfaces later (I-1).
    #[must_use]
    pub fn hosts(&self) -> Arc<Hosts> {
        self.hosts.clone()
    }

    /// Pingora's configuration, for building further services.
    #[must_use]
    pub fn configuration(&self) -> Arc<ServerConf> {
        self.server.configuration.clone()
    }

    /// Runs one more service in the same process.
    pub fn add(&mut self, service: Box<dyn ServiceWithDependents>) {
        // It may listen, too.
        self.server.add_boxed_service(service).add_dependency(&self.keeper);
    }

    /// Runs until `SIGTERM` (graceful) or `SIGINT` (at once) was received.
    pub fn run(self) {
        self.server.run(RunArgs::default());
    }

    /// Runs until `shutdown` says so.
    pub fn run_until(self, shutdown: Box<dyn ShutdownSignalWatch>) {
        self.server.run(RunArgs { shutdown_signal: shutdown });
    }
}

/// Runs the proxy together with `extra` services until a signal ends it.
///
/// # Errors
/// As [`Assembly::new`].
pub fn run(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    extra: Vec<Box<dyn ServiceWithDependents>>,
) -> Result<(), String> {
    let mut assembly = Assembly::new(settings, metrics)?;
    for service in extra {
        assembly.add(service);
    }
    assembly.run();
    Ok(())
}

/// Services that fit into a hand-over, beside the admin pages.
const HANDED_SOCKETS: usize = handover::MOST - 1;

/// How many services there are: no more than can be handed over, where that is wanted.
fn services(settings: &Settings) -> usize {
    let wanted = settings.services.max(1);
    if settings.handover { wanted.min(HANDED_SOCKETS) } else { wanted }
}

/// The pieces of one service: connections arrive at [`front::enter`], requests leave on [`joined`] connections.
fn service(
    conf: &Arc<ServerConf>,
    hosts: &Arc<Hosts>,
    tls: &Arc<Terminator>,
    admission: &Arc<Admission>,
    address: &str,
    index: usize,
) -> Service<front::Proxy> {
    let known = hosts.clone();
    let is_wanted = Box::new(move |key| known.has_key(key));
    let connector = joined::Connector::new(ConnectorOptions::from_server_conf(conf), is_wanted);
    let mut options = HttpServerOptions::default();
    options.force_custom = true;
    let mut service = ProxyServiceBuilder::new(conf, Shell::new(hosts.clone(), admission.clone()))
        .name(format!("proxy-{index}"))
        .custom(connector, front::enter(hosts, tls, admission))
        .server_options(options)
        .build();
    let mut socket = TcpSocketOptions::default();
    socket.so_reuseport = Some(true);
    // Pingora puts 64 KiB before every connection's reads. Heads and bodies are read into buffers of their own; TLS
    // (rustls reads four KiB at a time) would gain on large uploads, and pay with the buffer of every idle connection.
    let unbuffered = L4BufferSettings::default().read(0);
    service.add_listener(ListenerConfig::tcp(address).tcp_socket_options(socket).l4_buffer(unbuffered));
    service.threads = Some(1);
    service
}

/// The same address, written with `zeros` leading zeros in the port.
fn respelled(listen: &str, zeros: usize) -> String {
    match listen.rsplit_once(':') {
        Some((address, port)) => format!("{address}:{}{port}", "0".repeat(zeros)),
        None => listen.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs;
    use std::time::Duration;

    use super::super::settings::Bounds;
    use super::*;

    #[test]
    fn respelled_addresses_are_the_same_address() {
        let plain: Vec<_> = "127.0.0.1:8080".to_socket_addrs().unwrap().collect();
        for zeros in 0..64 {
            let written = respelled("127.0.0.1:8080", zeros);
            assert_eq!(written.to_socket_addrs().unwrap().collect::<Vec<_>>(), plain, "{written}");
        }
        assert!(respelled("[::1]:9", 3).to_socket_addrs().is_ok());
        assert!(respelled("localhost:9", 3).to_socket_addrs().is_ok());
    }

    /// What is sent in one message has room for these sockets.
    #[test]
    fn no_more_services_than_can_be_handed_over() {
        let settings = |handover| Settings {
            listen: "0.0.0.0:8080".into(),
            tls: None,
            services: 64,
            grace: Duration::ZERO,
            handover,
            bounds: Bounds::default(),
            hosts: Vec::new(),
        };
        assert_eq!(services(&settings(false)), 64);
        assert_eq!(services(&settings(true)), HANDED_SOCKETS);
    }
}
