//! The door in front of Pingora's proxy.

use std::sync::Arc;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;

use super::routes::Hosts;
use super::service::Shell;

/// Pingora's proxy with a look at every request before it.
pub struct Front {
    proxy: Arc<HttpProxy<Shell>>,
    hosts: Arc<Hosts>,
}

impl Front {
    pub fn new(proxy: HttpProxy<Shell>, hosts: Arc<Hosts>) -> Self {
        Self { proxy: Arc::new(proxy), hosts }
    }
}

#[async_trait]
impl HttpServerApp for Front {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        let _ = &self.hosts;
        self.proxy.process_new_http(session, shutdown).await
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.proxy.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.proxy.server_options()
    }

    async fn http_cleanup(&self) {
        self.proxy.http_cleanup().await;
    }
}
