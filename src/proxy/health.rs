//! Asks the addresses of hosts whether they can be used, where the configuration wants that.
//!
//! Once per process, whatever the number of threads that serve requests. Each host's addresses are asked in a task
//! of its own, all at once in every round; a reload ends what asks others than those in effect.

use std::sync::Arc;

use async_trait::async_trait;
use http::Uri;
use pingora::connectors::TransportConnector;
use pingora::lb::Backend;
use pingora::lb::health_check::{HealthCheck, HttpHealthCheck};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use pingora::upstreams::peer::Peer as _;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::task::{AbortHandle, JoinSet};

use super::routes::Hosts;
use super::settings::{Health, Http2};
use super::upstream::{Checked, Upstreams};

/// Checks the addresses of every host that wants it.
pub struct Checker {
    hosts: Arc<Hosts>,
}

impl Checker {
    pub fn new(hosts: &Arc<Hosts>) -> Self {
        Self { hosts: hosts.clone() }
    }
}

#[async_trait]
impl BackgroundService for Checker {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        // Ends with everything it began.
        let mut tasks = JoinSet::new();
        let mut asked: Vec<(Arc<Upstreams>, AbortHandle)> = Vec::new();
        let mut replacements = self.hosts.replacements();
        loop {
            let wanted: Vec<_> = self.hosts.all().iter().map(|host| host.upstreams.clone()).collect();
            asked.retain(|(known, task)| {
                let stays = wanted.iter().any(|wanted| Arc::ptr_eq(wanted, known));
                if !stays {
                    task.abort();
                }
                stays
            });
            for upstreams in wanted.into_iter().filter(|wanted| wanted.health().is_some()) {
                if !asked.iter().any(|(known, _)| Arc::ptr_eq(known, &upstreams)) {
                    let task = tasks.spawn(watch(upstreams.clone()));
                    asked.push((upstreams, task));
                }
            }
            tokio::select! {
                replaced = replacements.changed() => if replaced.is_err() { return },
                _ = shutdown.changed() => return,
            }
            while tasks.try_join_next().is_some() {}
        }
    }
}

/// Asks the addresses of one host, round after round.
async fn watch(upstreams: Arc<Upstreams>) {
    let Some(health) = upstreams.health().cloned() else { return };
    loop {
        // Those of a round that is broken off end with it.
        let mut round = JoinSet::new();
        for one in upstreams.to_check().await {
            let (upstreams, health) = (upstreams.clone(), health.clone());
            round.spawn(async move {
                let asked = tokio::time::timeout(health.timeout, ask(&one, &health)).await;
                let good = matches!(asked, Ok(Ok(())));
                upstreams.checked(&one.address, good);
            });
        }
        while round.join_next().await.is_some() {}
        tokio::time::sleep(health.interval).await;
    }
}

/// One check.
async fn ask(one: &Checked, health: &Health) -> Result<()> {
    if health.path.is_empty() {
        return TransportConnector::new(None).new_stream(&one.peer).await.map(drop);
    }
    let (authority, tls) = (&*one.authority, one.peer.tls());
    let mut check = HttpHealthCheck::new(authority, tls);
    check.peer_template = one.peer.clone();
    check.req = request(authority, &health.path, one.http2)?;
    check.validator = Some(Box::new(is_success));
    let backend = Backend::new(&one.address.socket.to_string())?;
    check.check(&backend).await
}

fn request(authority: &str, path: &str, http2: Http2) -> Result<RequestHeader> {
    let unsendable = |_| Error::explain(ErrorType::InvalidHTTPHeader, "health.path cannot be asked for");
    let mut request = RequestHeader::build("GET", path.as_bytes(), None)?;
    request.insert_header(http::header::USER_AGENT, concat!("a2a-errata/", env!("CARGO_PKG_VERSION")))?;
    if http2 == Http2::PriorKnowledge {
        // Pingora believes that HTTP/2 is always over TLS.
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query(path);
        request.set_uri(uri.build().map_err(unsendable)?);
    } else {
        request.insert_header(http::header::HOST, authority)?;
    }
    Ok(request)
}

fn is_success(head: &ResponseHeader) -> Result<()> {
    if head.status.is_success() {
        return Ok(());
    }
    Error::e_explain(ErrorType::HTTPStatus(head.status.as_u16()), "the host says that it is not well")
}
