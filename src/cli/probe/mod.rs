//! `probe`: RFC 0211's checks against any endpoint (U-2). What is checked and how is [`crate::probe`]'s; here
//! are the command line, the progress, and what is printed.

mod show;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::explain::BindingName;
use super::screen::Screen;
use super::{FAILED, REFUSED, say};
use crate::normalize::Binding;
use crate::probe::{self, Bounds, CHECKS, Client, Finding, Found, Interface, Options, Session, Verdict};

/// Check from outside what a host answers when something goes wrong.
///
/// Finds the host's interfaces by its agent card, causes every error that RFC 0211 (§A to §E) speaks of and that can
/// be caused from outside, and says which answers are as they should be. It sends no message, so it creates no task,
/// unless --allow-create is given; it cancels nothing that is still going on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Of an agent card, of a host, or of one interface
    #[arg(value_name = "URL", required_unless_present = "list")]
    url: Option<String>,

    /// A header of every request, also of those without a credential; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// The credential: `Authorization: Bearer TOKEN`; `@FILE` reads it
    #[arg(long, value_name = "TOKEN")]
    bearer: Option<String>,

    /// Another credential header (`X-Api-Key: …`); left out where none must be sent; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    credential: Vec<String>,

    /// A finished task of the caller's
    #[arg(long, value_name = "ID")]
    task: Option<String>,

    /// A task of somebody else's
    #[arg(long, value_name = "ID")]
    foreign_task: Option<String>,

    /// A task that does not exist [default: one that looks like the foreign one]
    #[arg(long, value_name = "ID")]
    unknown_task: Option<String>,

    /// Only interfaces with this binding; for a URL without a card, what it speaks
    #[arg(long, value_name = "BINDING")]
    binding: Option<BindingName>,

    /// Go to other hosts that the card names; credentials go with it
    #[arg(long)]
    follow: bool,

    /// Create a task where a check needs a finished one
    #[arg(long)]
    allow_create: bool,

    /// Pairs of requests whose times are compared
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(16..=1000))]
    pairs: u16,

    /// Bytes of a body that should be too large
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u32).range(1..=64 << 20))]
    oversize: u32,

    /// Seconds that one answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    timeout: u16,

    /// Requests per second, at the most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rps: u32,

    /// Requests in all, at the most
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_requests: u32,

    /// Do not check the host's certificate
    #[arg(long)]
    insecure: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Also write a JUnit report
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// List the checks, and ask nobody
    #[arg(long)]
    list: bool,
}

const EXAMPLES: &str = "\
Examples:
  What the host gets wrong, as far as anybody can see:
    a2a-errata probe https://agent.example
  All of it: with a credential, a finished task of your own, and one of somebody else's:
    a2a-errata probe https://agent.example --bearer @token --task t-17 --foreign-task t-42
  One interface that no card lists:
    a2a-errata probe http://127.0.0.1:9000/a2a --binding JSONRPC
  In a pipeline:
    a2a-errata probe https://agent.example --json --junit probe.xml
  Against a host that does everything right, and one that does not:
    a2a-errata demo --model
    a2a-errata demo --model --sabotage foreign-status

Exit code 0: nothing failed. 1: something did. 2: there was nothing to probe.";

/// All that was found out.
pub(super) struct Probed {
    pub url: String,
    pub notes: Vec<String>,
    pub requests: usize,
    pub interfaces: Vec<(Interface, Vec<Finding>)>,
}

impl Probed {
    fn count(&self, verdict: Verdict) -> usize {
        let all = self.interfaces.iter().flat_map(|(_, findings)| findings);
        all.filter(|finding| finding.verdict == verdict).count()
    }
}

#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let screen = Screen::detect();
    let mut stdout = std::io::stdout();
    if args.list {
        let _ = stdout.write_all(show::list(screen).as_bytes());
        return ExitCode::SUCCESS;
    }
    let probed = match probe_all(args) {
        Ok(probed) => probed,
        Err(why) => {
            say(&format!("a2a-errata: {}", super::screen::clean(&why)));
            return ExitCode::from(REFUSED);
        }
    };
    if let Some(path) = &args.junit
        && let Err(why) = std::fs::write(path, show::junit(&probed))
    {
        say(&format!("a2a-errata: cannot write {}: {why}", path.display()));
        return ExitCode::from(FAILED);
    }
    let text = if args.json { show::json(&probed) } else { show::text(screen, &probed) };
    // A reader that went away (`| head`) changes nothing about the host.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    if probed.count(Verdict::Fail) == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn probe_all(args: &Args) -> Result<Probed, String> {
    let options = options(args)?;
    let bounds = Bounds {
        per_second: args.rps,
        in_all: args.max_requests as usize,
        timeout: Duration::from_secs(args.timeout.into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("cannot start: {why}"))?;
    let client = Client::new(bounds, args.insecure)?;
    let binding = args.binding.map(BindingName::binding);
    let url = args.url.clone().unwrap_or_default();
    runtime.block_on(async {
        let mut headers = options.headers.clone();
        headers.extend(options.credentials.clone());
        let Found { interfaces, notes } =
            probe::resolve(&client, &url, &headers, binding, args.follow).await?;
        let progress = Progress::new(args, interfaces.len());
        let json_rpc = interfaces.iter().find(|interface| interface.binding == Binding::JsonRpc);
        let mut found = Vec::with_capacity(interfaces.len());
        for (at, interface) in interfaces.iter().enumerate() {
            let twin = json_rpc.filter(|_| interface.binding == Binding::HttpJson);
            let session = Session::new(&client, interface, twin, &options);
            let mut done = at * CHECKS.len();
            let findings = probe::run(&session, |check| {
                done += 1;
                progress.show(done, check.id);
            })
            .await;
            found.push((interface.clone(), findings));
        }
        progress.clear();
        Ok(Probed { url, notes, requests: client.sent(), interfaces: found })
    })
}

fn options(args: &Args) -> Result<Options, String> {
    let mut headers = HeaderMap::new();
    for line in &args.header {
        let (name, value) = super::explain::header(line)?;
        headers.append(name, value);
    }
    let mut credentials = HeaderMap::new();
    for line in &args.credential {
        let (name, value) = super::explain::header(line)?;
        credentials.append(name, value);
    }
    // A credential is one wherever it was given.
    if let Some(value) = headers.remove(http::header::AUTHORIZATION) {
        credentials.insert(http::header::AUTHORIZATION, value);
    }
    if let Some(token) = &args.bearer {
        let token = match token.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|why| format!("cannot read the token in {path}: {why}"))?,
            None => token.clone(),
        };
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| "--bearer is no token".to_owned())?;
        value.set_sensitive(true);
        credentials.insert(HeaderName::from_static("authorization"), value);
    }
    for (flag, id) in [
        ("--task", &args.task),
        ("--foreign-task", &args.foreign_task),
        ("--unknown-task", &args.unknown_task),
    ] {
        if id.as_deref() == Some("") {
            return Err(format!("{flag} is empty"));
        }
    }
    Ok(Options {
        credentials,
        headers,
        task: args.task.clone(),
        foreign: args.foreign_task.clone(),
        unknown: args.unknown_task.clone(),
        allow_create: args.allow_create,
        pairs: args.pairs.into(),
        oversize: args.oversize as usize,
    })
}

/// One line on a terminal that says how far it is.
struct Progress {
    shown: bool,
    all: usize,
}

impl Progress {
    fn new(args: &Args, interfaces: usize) -> Self {
        Self { shown: std::io::stderr().is_terminal() && !args.json, all: interfaces * CHECKS.len() }
    }

    fn show(&self, done: usize, what: &str) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K[{done}/{}] {what}", self.all);
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
