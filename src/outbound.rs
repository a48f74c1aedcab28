//! Requests of the process's own: to a proxy's report, a Prometheus, a collector of spans. One way to ask, with
//! the system's certificate authorities. What hosts are asked goes through Pingora.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// Asks with this much patience for each whole answer; a status is no error.
#[must_use]
pub fn agent(patience: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .user_agent(concat!("a2a-errata/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    config.into()
}
