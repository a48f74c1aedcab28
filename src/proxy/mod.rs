//! The Pingora shell: it moves bytes and asks [`crate::normalize::Exchange`] what they become.

mod settings;

pub use settings::{Host, Limits, Settings, Timeouts, Upstream};

/// Runs the proxy together with `extra` services until a signal ends it. Only the services, for now.
pub fn run(
    settings: &Settings,
    _metrics: &std::sync::Arc<crate::observe::Metrics>,
    extra: Vec<Box<dyn pingora::services::ServiceWithDependents>>,
) {
    let mut server = pingora::server::Server::new_with_opt_and_conf(None, Default::default());
    server.bootstrap();
    _ = settings;
    for service in extra {
        server.add_boxed_service(service);
    }
    server.run(Default::default());
}
