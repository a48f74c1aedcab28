//! The proxy in front of the demo's host: this very program, `run --config FILE`, as a child process
//! that ends with the demo.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::wire;
use crate::demo::{INTERFACE, REST_INTERFACE};

/// How long the proxy may take to become ready.
const START: Duration = Duration::from_secs(15);
/// Other ports are tried when somebody was faster.
const ATTEMPTS: usize = 3;

/// The running proxy. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    child: Child,
    files: Files,
}

impl Proxy {
    /// Starts the proxy in front of `host` and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready; the text ends with what it logged.
    pub async fn start(host: SocketAddr) -> Result<Self, String> {
        let mut attempt = 1;
        loop {
            match Self::attempt(host).await {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn attempt(host: SocketAddr) -> Result<Self, String> {
        let (address, admin) = free_addresses().map_err(|why| format!("no free port on 127.0.0.1: {why}"))?;
        let files = Files::create(&configuration(address, admin, host))
            .map_err(|why| format!("cannot write the proxy's configuration: {why}"))?;
        let child = spawn(&files).map_err(|why| format!("cannot start the proxy: {why}"))?;
        let mut proxy = Self { address, admin, child, files };
        let deadline = Instant::now() + START;
        loop {
            if let Ok(Some(reply)) = wire::get(admin, "/readyz").await
                && reply.status == 200
            {
                return Ok(proxy);
            }
            let ended = proxy.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let how =
                    ended.map_or("did not become ready".to_owned(), |status| format!("ended ({status})"));
                return Err(format!("the proxy {how}; it said:\n{}", proxy.files.log_tail()));
            }
            sleep(Duration::from_millis(40)).await;
        }
    }

    /// Whether it is still there.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The few lines that put the proxy in front of a host.
fn configuration(address: SocketAddr, admin: SocketAddr, host: SocketAddr) -> String {
    format!(
        r#"[listen]
address = "{address}"
[admin]
address = "{admin}"
[[hosts]]
name = "legacy"
upstreams = ["{host}"]
[[hosts.interfaces]]
path = "{INTERFACE}"
binding = "JSONRPC"
versions = ["1.0"]
[[hosts.interfaces]]
path = "{REST_INTERFACE}"
binding = "HTTP+JSON"
versions = ["1.0"]
"#
    )
}

fn spawn(files: &Files) -> io::Result<Child> {
    let log = File::create(&files.log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").arg("--config").arg(&files.config);
    // The demo shows the defaults, whatever is set around it.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("A2A_ERRATA_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
}

/// Two addresses that were free a moment ago.
fn free_addresses() -> io::Result<(SocketAddr, SocketAddr)> {
    let one = TcpListener::bind(("127.0.0.1", 0))?;
    let two = TcpListener::bind(("127.0.0.1", 0))?;
    Ok((one.local_addr()?, two.local_addr()?))
}

/// The configuration and the log, in a directory of their own.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

impl Files {
    fn create(configuration: &str) -> io::Result<Self> {
        let directory = new_directory(&std::env::temp_dir())?;
        let files = Self { config: directory.join("demo.toml"), log: directory.join("proxy.log"), directory };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&files.config)?
            .write_all(configuration.as_bytes())?;
        Ok(files)
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A directory that was not there before, so that nobody else's files are used or removed.
fn new_directory(parent: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let directory = parent.join(format!("a2a-errata-demo-{}-{number}", std::process::id()));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(why) => return Err(why),
        }
    }
}
