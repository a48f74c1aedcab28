//! The configuration (U-1 to U-3): built-in defaults, then a TOML file, then `A2A_ERRATA_*` variables,
//! then flags. [`load`] gives either a [`Model`] in which everything is checked, with the place each
//! value came from, or the [`Problems`] that stop the start.

mod checks;
mod files;
mod keys;
mod layers;
mod model;
mod print;
mod problem;
mod schema;
mod tls;

use std::path::PathBuf;

pub use checks::is_loopback;
pub(crate) use keys::nearest;
pub use keys::{KEYS, Key, Kind};
pub use model::{
    Admin, Balance, Binding, Cap, Card, CertificatePair, ClientAuth, ClientLimits, ClientTimeouts,
    Disclosure, Ejection, Health, Host, Http2, Interface, InterfaceMode, Limits, Listen, ListenTls, Messages,
    Mode, Model, Oracle, Timeouts, Traces, Upstream, UpstreamTls,
};
pub use problem::{Place, Problem, Problems};
pub use schema::schema;
pub use tls::{Cause, Fault, Files, Found, Identity, ListenFiles, Owner, Reading, Validity};

/// What the name of every variable that sets a key begins with.
pub const ENV_PREFIX: &str = "A2A_ERRATA_";

/// The variable that sets the log level. It has the prefix but is no key of the configuration.
pub const ENV_LOG: &str = "A2A_ERRATA_LOG";

/// What was given on the command line in place of keys.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--listen`: `listen.address`.
    pub listen: Option<String>,
    /// `--admin`: `admin.address`.
    pub admin: Option<String>,
    /// `--upstream`: `hosts[0].upstreams`, of the only host.
    pub upstreams: Vec<String>,
}

/// Where a configuration is read from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// Names and values; those without [`ENV_PREFIX`] are ignored.
    pub environment: Vec<(String, String)>,
    pub flags: Flags,
}

/// A key with the value in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// With indexes, `hosts[0].oracle.floor_ms`.
    pub key: String,
    /// As TOML.
    pub value: String,
    pub place: Place,
}

/// A configuration that may be run.
#[derive(Debug, Clone)]
pub struct Effective {
    pub model: Model,
    /// Every key in effect, in the order of U-3.
    pub lines: Vec<Line>,
}

/// Read, layer and check everything.
///
/// # Errors
/// All that is wrong, each with its place, its key, the bad value and what would be right.
pub fn load(sources: &Sources) -> Result<Effective, Problems> {
    layers::load(sources, None)
}

/// The same once more, for a process that runs: what it has in effect already is no reason to refuse the rest.
///
/// # Errors
/// As [`load`].
pub fn load_again(sources: &Sources, running: &Model) -> Result<Effective, Problems> {
    layers::load(sources, Some(running))
}
