//! `run --upgrade`: takes the place of the process that runs, or leaves everything to it. What can be refused is refused
//! before it lets go of anything; it lets go when this process has listened for a moment.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use tokio::time::sleep;

use super::{KEPT, run};
use crate::config::Model;
use crate::observe::Readiness;
use crate::proxy::{Assembly, Before, Promise, Sockets, Waiting};

/// Between two looks whether the sockets are open.
const LOOK: Duration = Duration::from_millis(10);
/// How long a listening socket may take to open: Pingora tries for half a minute.
const OPENS: Duration = Duration::from_secs(40);
/// The same when there is a process that goes on otherwise.
const OPENS_IN_PLACE: Duration = Duration::from_secs(10);
/// How long this process must have served before the one before may go: who ends at once ends within this.
const SERVED: Duration = Duration::from_secs(1);

/// The addresses to listen on, each with its key.
pub(super) fn addresses(model: &Model) -> impl Iterator<Item = (&'static str, &str)> {
    let both =
        [("listen.address", model.listen.address.as_str()), ("admin.address", model.admin.address.as_str())];
    both.into_iter().filter(|(_, address)| !address.is_empty())
}

/// Everything that is to listen, by the names that the sockets have in the process.
pub(super) fn names(model: &Model, assembly: &Assembly) -> Vec<String> {
    let admin = Some(&model.admin.address).filter(|address| !address.is_empty());
    assembly.names().iter().chain(admin).cloned().collect()
}

/// Waits for the sockets of the process that runs and takes them, if this process can listen everywhere with them.
pub(super) fn take(model: &Model, waiting: Waiting, assembly: &Assembly) -> Result<Promise, String> {
    tracing::info!(
        "waiting for the listening sockets, for six seconds; send SIGQUIT to the process that has them"
    );
    let received = waiting.receive()?;
    if let Err(says) = can_listen(model, received.names()) {
        received.refuse(&says);
        return Err(says);
    }
    let names = names(model, assembly);
    for gone in received.names().iter().filter(|name| !is_among(name, &names)) {
        tracing::warn!(address = gone, "nobody listens here any more once the process before has ended");
    }
    Ok(received.keep(&names, &assembly.sockets()))
}

/// Either the socket was handed over, or the address is free.
fn can_listen(model: &Model, handed: &[String]) -> Result<(), String> {
    for (key, address) in addresses(model).filter(|(_, address)| !is_handed(address, handed)) {
        TcpListener::bind(address).map_err(|error| {
            let theirs: Vec<_> = handed.iter().filter(|name| !name.contains(":0")).map(String::as_str).collect();
            format!(
                "--upgrade: cannot listen on {address} ({key}): {error}; the process that runs hands over {} only, \
                 written like this",
                theirs.join(" and ")
            )
        })?;
    }
    Ok(())
}

fn is_handed(address: &str, handed: &[String]) -> bool {
    handed.iter().any(|name| name == address)
}

/// The same address; the sockets of several services differ by zeros before the port.
fn is_among(name: &str, names: &[String]) -> bool {
    fn plain(name: &str) -> (&str, &str) {
        let (host, port) = name.rsplit_once(':').unwrap_or((name, ""));
        (host, port.trim_start_matches('0'))
    }
    names.iter().any(|known| plain(known) == plain(name))
}

/// Finds out when everything listens: Pingora tells nobody, and its services start side by side. A process that listens
/// in part is of no use to anybody and ends.
pub(super) struct Opening {
    pub(super) sockets: Arc<Sockets>,
    pub(super) names: Vec<String>,
    pub(super) readiness: Arc<Readiness>,
    /// What to say then.
    pub(super) announcement: Box<dyn Fn() + Send + Sync>,
    /// Given to the process before, if there is one.
    pub(super) promise: Mutex<Option<Promise>>,
}

#[async_trait]
impl BackgroundService for Opening {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let promise = self.promise.lock().unwrap_or_else(PoisonError::into_inner).take();
        let patience = if promise.is_some() { OPENS_IN_PLACE } else { OPENS };
        tokio::select! {
            opened = tokio::time::timeout(patience, self.opened()) => {
                if opened.is_err() {
                    let says = "a listening socket did not open; is the address taken?";
                    tracing::error!("{says}");
                    if let Some(promise) = promise {
                        promise.break_off(says);
                        give_up();
                    }
                    run::flush();
                    std::process::exit(super::FAILED.into());
                }
            }
            _ = shutdown.changed() => return,
        }
        self.readiness.listens();
        (self.announcement)();
        let Some(promise) = promise else { return };
        tokio::select! {
            () = sleep(SERVED) => {}
            // Dropped, the promise is none: the process before goes on.
            _ = shutdown.changed() => return,
        }
        match tokio::task::spawn_blocking(|| promise.keep()).await {
            Ok(Before::LetsGo) => tracing::info!("took over the listening sockets"),
            Ok(Before::Gone) => {
                tracing::warn!("took over the listening sockets; the process before has ended by itself");
            }
            Ok(Before::Stays) | Err(_) => {
                tracing::error!("the process before has waited too long for this one, and goes on");
                give_up();
            }
        }
    }
}

impl Opening {
    async fn opened(&self) {
        while !self.sockets.are_open(&self.names) {
            sleep(LOOK).await;
        }
    }
}

/// Ends this process; the one before goes on.
fn give_up() -> ! {
    tracing::error!("not taking over; the process that runs goes on");
    run::flush();
    std::process::exit(KEPT.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_before_the_port_tell_services_of_one_address_apart() {
        let names = ["127.0.0.1:8080".to_owned(), "127.0.0.1:9464".to_owned()];
        for name in ["127.0.0.1:8080", "127.0.0.1:08080", "127.0.0.1:0009464"] {
            assert!(is_among(name, &names), "{name}");
        }
        for name in ["127.0.0.1:808", "127.0.0.2:8080", "127.0.0.1:80800"] {
            assert!(!is_among(name, &names), "{name}");
        }
    }
}
