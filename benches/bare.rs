//! What the proxy is compared with: Pingora passing everything through, and nothing else. No hook but the one that
//! Pingora requires, and the same profile and allocator. There are two of it:
//!
//! - `bare` has the runtime settings of `src/proxy/server.rs` too (a service per core on one port, one thread each,
//!   no work stealing, the same pool): what the rules and their shell cost.
//! - `stock` has Pingora's own settings, on all cores: what somebody has who writes a proxy as Pingora's guide says.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use pingora::listeners::TcpSocketOptions;
use pingora::proxy::{ProxyHttp, Session};
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use pingora::services::listening::Service;
use pingora::upstreams::peer::HttpPeer;
use pingora_error::Result;

struct Bare(SocketAddr);

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        // The timeouts are runtime settings like the others: no proxy in production runs without them.
        let mut peer = HttpPeer::new(self.0, false, String::new());
        let options = &mut peer.options;
        options.connection_timeout = Some(Duration::from_secs(3));
        options.total_connection_timeout = Some(Duration::from_secs(3));
        options.read_timeout = Some(Duration::from_mins(1));
        options.write_timeout = Some(Duration::from_secs(30));
        options.idle_timeout = Some(Duration::from_secs(55));
        Ok(Box::new(peer))
    }
}

/// `bare LISTEN UPSTREAM`, both `ADDRESS:PORT`; runs until it is ended.
pub fn bare(words: &[String]) {
    let conf = ServerConf {
        threads: 1,
        work_stealing: false,
        upstream_keepalive_pool_size: 256,
        ..ServerConf::default()
    };
    run(words, conf, cores());
}

/// `stock LISTEN UPSTREAM`, likewise.
pub fn stock(words: &[String]) {
    run(words, ServerConf { threads: cores(), ..ServerConf::default() }, 1);
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run(words: &[String], conf: ServerConf, services: usize) {
    let [listen, upstream] = words else { panic!("bare LISTEN UPSTREAM") };
    let upstream = upstream.parse().expect("UPSTREAM is ADDRESS:PORT");
    let (address, port) = listen.rsplit_once(':').expect("LISTEN is ADDRESS:PORT");
    let threads = conf.threads;
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    for index in 0..services {
        let proxy = pingora::proxy::http_proxy(&server.configuration, Bare(upstream));
        let mut service = Service::new(format!("bare-{index}"), proxy);
        let mut socket = TcpSocketOptions::default();
        socket.so_reuseport = (services > 1).then_some(true);
        // One spelling per service, or Pingora would give them one socket.
        service.add_tcp_with_settings(&format!("{address}:{}{port}", "0".repeat(index)), socket);
        service.threads = Some(threads);
        server.add_service(service);
    }
    server.run(RunArgs::default());
}
