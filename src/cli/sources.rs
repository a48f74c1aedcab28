//! Where `run` and `check` take their configuration from: both take the same flags, so that `check` shows
//! exactly what `run` would do (U-1, U-2).

use std::path::PathBuf;

use crate::config::{self, Effective, Flags, Model, Problems, is_loopback};

/// A file and what goes above it.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Sources {
    /// Configuration file (TOML); `config/reference.toml` explains every key
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address of the A2A host; repeat it for several addresses of the same host
    ///
    /// Sets `hosts[0].upstreams`. Without a file, this is all that is needed.
    #[arg(long, value_name = "HOST:PORT")]
    upstream: Vec<String>,

    /// Address to listen on [default: 0.0.0.0:8080]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// Address of the admin listener, "" for none [default: 127.0.0.1:9464]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
}

/// How the environment takes part, for `--help`.
pub(super) const ENVIRONMENT: &str = "\
Environment:
  Every key can be set by a variable: A2A_ERRATA_, then the key in capitals, `__` between its parts
  and the number of a host or interface, from 0. Lists are comma-separated.
    A2A_ERRATA_LISTEN__ADDRESS=0.0.0.0:8443
    A2A_ERRATA_HOSTS__0__UPSTREAMS=10.0.0.5:9000,10.0.0.6:9000
    A2A_ERRATA_HOSTS__0__ORACLE__FLOOR_MS=50
    A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH=/a2a
  Defaults give way to the file, the file to the environment, the environment to flags.
  A2A_ERRATA_LOG sets the log level.";

impl Sources {
    /// Layer and check everything.
    pub(super) fn load(&self) -> Result<Effective, Problems> {
        config::load(&self.sources())
    }

    /// The same while this runs.
    pub(super) fn load_again(&self, running: &Model) -> Result<Effective, Problems> {
        config::load_again(&self.sources(), running)
    }

    fn sources(&self) -> config::Sources {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        config::Sources {
            file: self.config.clone(),
            environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
            flags: Flags {
                listen: self.listen.clone(),
                admin: self.admin.clone(),
                upstreams: self.upstream.clone(),
            },
        }
    }

    /// What to call the source in a sentence.
    pub(super) fn title(&self) -> String {
        self.config.as_ref().map_or_else(|| "flags and environment".into(), |path| path.display().to_string())
    }
}

/// Say on stderr why nothing was started.
pub(super) fn refuse(problems: &Problems) {
    for problem in &problems.0 {
        super::say(&format!("a2a-errata: {problem}"));
    }
}

/// What may be run but is probably not meant.
pub(super) fn warnings(model: &Model) -> Vec<String> {
    let mut warnings = Vec::new();
    let admin = &model.admin.address;
    if !admin.is_empty() && !is_loopback(admin) {
        warnings.push(format!(
            "admin.address {admin} can be reached from elsewhere and asks for no credentials; bind 127.0.0.1"
        ));
    }
    for host in &model.hosts {
        let blind =
            |upstream: &&crate::config::Upstream| upstream.tls.as_ref().is_some_and(|tls| !tls.verify);
        if let Some(upstream) = host.upstreams.iter().find(blind) {
            warnings.push(format!(
                "host {}: whoever answers at {} is believed, since tls.verify = false",
                host.name, upstream.address
            ));
        }
    }
    warnings.extend(super::descriptors::warning(model));
    warnings
        .extend(model.notes().map(|(_, note)| format!("{} = \"{}\": {}", note.key, note.path, note.says)));
    warnings
}
