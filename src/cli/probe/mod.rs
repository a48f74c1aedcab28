//! `probe`: RFC 0211's checks against any endpoint (U-2). What is checked and how is [`crate::probe`]'s; here
//! are the command line, the progress, and what is printed.

mod junit;
mod show;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::explain::BindingName;
use super::screen::{self, Screen};
use super::{FAILED, REFUSED, output, say};
use crate::outbound::Typed;
use crate::probe::{
    self, Bounds, CHECKS, Client, Finding, Follow, Found, Interface, Options, Secrets, Session, Trust,
    Verdict, Wire,
};

/// Check from outside what a host answers when something goes wrong.
///
/// Finds the host's interfaces by its agent card, causes every error that RFC 0211 (§A to §E) speaks of and that can
/// be caused from outside, and says which answers are as they should be. It sends no message, so it creates no task,
/// unless --allow-create is given; it cancels nothing that is still going on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Of an agent card, of a host, or of one interface; `https://user:password@host` sends Basic
    #[arg(value_name = "URL", required_unless_present = "list")]
    url: Option<String>,

    /// A header of every request, also of those without a credential, but none that a check sets; may be repeated
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

    /// A task that does not exist [default: a random UUID; where the foreign one is compared, ids that look like it]
    #[arg(long, value_name = "ID")]
    unknown_task: Option<String>,

    /// Only interfaces with this binding; for a URL without a card, what it speaks
    #[arg(long, value_name = "BINDING")]
    binding: Option<BindingName>,

    /// Go to other origins that the card names, without credentials, headers or query; never from https to http
    #[arg(long)]
    follow: bool,

    /// The same with credentials, headers and query: whoever wrote the card gets them
    #[arg(long)]
    follow_credentials: bool,

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

    /// Requests in all, at the most; what they do not suffice for is "not run"
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_requests: u32,

    /// Trust the certificate authorities in this PEM file, and not the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,

    /// Take any certificate of the host's, whoever signed it and whatever it says
    #[arg(long)]
    insecure: bool,

    /// Speak HTTP/2 from the first byte, with or without TLS; else HTTP/1.1, or over TLS what the host prefers
    #[arg(long)]
    http2: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Also write a JUnit report; a file that cannot be written is refused before anything is asked
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

Exit code 0: nothing failed. 1: something did. 2: nothing did, but there was nothing to probe, an interface gave no
answer, the host put checks off (429, 503), --max-requests did not suffice for every check, no check passed at all, or
the result could not be written.";

/// All that was found out.
pub(super) struct Probed {
    pub url: String,
    pub notes: Vec<String>,
    /// Interfaces that could not be probed, each in one line.
    pub problems: Vec<String>,
    pub requests: usize,
    pub interfaces: Vec<(Interface, Vec<Finding>)>,
}

impl Probed {
    fn count(&self, verdict: Verdict) -> usize {
        let all = self.interfaces.iter().flat_map(|(_, findings)| findings);
        all.filter(|finding| finding.verdict == verdict).count()
    }

    /// Whether something was not decided, or nothing at all was.
    fn is_open(&self) -> bool {
        self.count(Verdict::NotRun) + self.count(Verdict::Undecided) > 0
            || self.count(Verdict::Pass) == 0
            || !self.problems.is_empty()
    }

    /// Without what was typed as a credential, and no line longer than anybody reads, whatever a host sent.
    fn tidy(&mut self, secrets: &Secrets) {
        let lines = self.notes.iter_mut().chain(&mut self.problems);
        let findings = self.interfaces.iter_mut().flat_map(|(_, findings)| findings);
        let said = findings.flat_map(|finding| finding.notes.iter_mut().chain([&mut finding.reason]));
        for line in lines.chain(said) {
            *line = told(secrets, line);
        }
        // A card may say it back as well.
        for (interface, _) in &mut self.interfaces {
            let shown =
                [&mut interface.origin, &mut interface.path].into_iter().chain(&mut interface.versions);
            shown.for_each(|text| *text = told(secrets, text));
        }
    }

    /// A failure is one, whatever else was not looked at.
    fn exit_code(&self) -> ExitCode {
        if self.count(Verdict::Fail) > 0 {
            ExitCode::from(FAILED)
        } else if self.is_open() {
            ExitCode::from(REFUSED)
        } else {
            ExitCode::SUCCESS
        }
    }
}

#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let screen = Screen::detect();
    if args.list {
        return output::print(show::list(screen).as_bytes(), ExitCode::SUCCESS);
    }
    let refuse = |why: &str| {
        say(&format!("a2a-errata: {}", screen::clean(why)));
        ExitCode::from(REFUSED)
    };
    // Minutes of asking are not thrown away because of a name.
    let junit = match args.junit.as_deref().map(junit::Report::open).transpose() {
        Ok(junit) => junit,
        Err(why) => return refuse(&why),
    };
    let probed = match probe_all(args) {
        Ok(probed) => probed,
        Err(why) => {
            let told = refuse(&why);
            return match junit.map(|junit| junit.write(&junit::nothing(&why))) {
                Some(Err(why)) => refuse(&why),
                Some(Ok(())) | None => told,
            };
        }
    };
    let text = if args.json { show::json(&probed) } else { show::text(screen, &probed) };
    let ended = output::print(text.as_bytes(), probed.exit_code());
    for problem in &probed.problems {
        refuse(problem);
    }
    match junit.map(|junit| junit.write(&junit::text(&probed))) {
        Some(Err(why)) => refuse(&why),
        Some(Ok(())) | None => ended,
    }
}

fn probe_all(args: &Args) -> Result<Probed, String> {
    let url = Typed::read(args.url.as_deref().unwrap_or_default())?;
    let options = options(args, url.basic.clone())?;
    let secrets = Secrets::of(&options, url.uri.query());
    let probed = probe_with(args, &url, &options);
    probed
        .map(|mut probed| {
            probed.tidy(&secrets);
            probed
        })
        .map_err(|why| told(&secrets, &why))
}

/// Characters of one line, at the most.
const LONGEST: usize = 1000;

/// A line as it may be shown. What is hidden is hidden first: half of a secret is harder to know.
fn told(secrets: &Secrets, line: &str) -> String {
    screen::cut(&secrets.hide(line), LONGEST)
}

fn probe_with(args: &Args, url: &Typed, options: &Options) -> Result<Probed, String> {
    let bounds = Bounds {
        per_second: args.rps,
        in_all: args.max_requests as usize,
        timeout: Duration::from_secs(args.timeout.into()),
    };
    let trust = match &args.ca {
        Some(file) => Trust::Only(authorities(file)?),
        None if args.insecure => Trust::Anybody,
        None => Trust::System,
    };
    let wire = if args.http2 { Wire::Http2 } else { Wire::Either };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("cannot start: {why}"))?;
    let client = Client::new(bounds, trust, wire).map_err(|why| match &args.ca {
        Some(file) => format!("--ca {}: {why}", file.display()),
        None => why,
    })?;
    let binding = args.binding.map(BindingName::binding);
    let follow = match (args.follow, args.follow_credentials) {
        (_, true) => Follow::WithCredentials,
        (true, false) => Follow::Bare,
        (false, false) => Follow::No,
    };
    runtime.block_on(async {
        let mut headers = options.headers.clone();
        headers.extend(options.credentials.clone());
        let Found { interfaces, mut notes, mut problems } =
            probe::resolve(&client, url, &headers, binding, follow).await?;
        let progress = Progress::new(args, interfaces.len());
        let sessions: Vec<Session<'_>> = interfaces
            .iter()
            .map(|interface| Session::new(&client, interface, interface.twin(&interfaces), options))
            .collect();
        let mut done = 0;
        let played = probe::run(&sessions, |check| {
            done += 1;
            progress.show(done, check.id);
        })
        .await;
        progress.clear();
        notes.extend(sessions.iter().filter_map(Session::hint));
        let mut found = Vec::with_capacity(interfaces.len());
        for (interface, played) in interfaces.iter().zip(played) {
            match played {
                Ok(findings) => found.push((interface.clone(), findings)),
                Err(why) => problems.push(why),
            }
        }
        if found.is_empty() {
            let none = || "there is no interface to probe".to_owned();
            let more = problems.len().saturating_sub(1);
            let first = problems.into_iter().next().unwrap_or_else(none);
            return Err(if more > 0 { format!("{first} (and {more} more)") } else { first });
        }
        Ok(Probed {
            url: without_query(&url.url),
            notes,
            problems,
            requests: client.sent(),
            interfaces: found,
        })
    })
}

/// A query may hold a key.
fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

/// Bytes of a file that names authorities, or of one with a token: a device gives them for ever.
const FILE_BYTES: u64 = 16 << 20;

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|why| why.to_string())?;
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("it is larger than {} MiB", FILE_BYTES >> 20));
    }
    Ok(bytes)
}

/// Every certificate of a PEM file.
fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fail = |why: &str| format!("--ca {}: {why}; name a PEM file with certificates", file.display());
    let pem = read(file).map_err(|why| fail(&why))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|_| fail("it is no PEM file"))?;
    if all.is_empty() { Err(fail("there is no certificate in it")) } else { Ok(all) }
}

/// Headers that say how a request is framed or read, or that checks set: another value would be the check's own error.
const OWN_HEADERS: &[&str] = &[
    "a2a-version",
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn header(flag: &str, line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = super::explain::header(line)?;
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err(format!("{flag} cannot set {name}: the checks set it themselves"));
    }
    Ok((name, value))
}

fn options(args: &Args, basic: Option<HeaderValue>) -> Result<Options, String> {
    let mut headers = HeaderMap::new();
    for line in &args.header {
        let (name, value) = header("--header", line)?;
        headers.append(name, value);
    }
    let mut credentials = HeaderMap::new();
    for line in &args.credential {
        let (name, value) = header("--credential", line)?;
        credentials.append(name, value);
    }
    // A credential is one wherever it was given.
    if let Some(value) = headers.remove(http::header::AUTHORIZATION) {
        credentials.insert(http::header::AUTHORIZATION, value);
    }
    if let Some(basic) = basic
        && (args.bearer.is_some() || credentials.insert(http::header::AUTHORIZATION, basic).is_some())
    {
        return Err(
            "the URL has a user, and there is another credential besides; give one of them".to_owned()
        );
    }
    if let Some(token) = &args.bearer {
        let token = match token.strip_prefix('@') {
            Some(path) => {
                let bytes = read(Path::new(path));
                let bytes = bytes.map_err(|why| format!("cannot read the token in {path}: {why}"))?;
                String::from_utf8(bytes)
                    .map_err(|_| format!("cannot read the token in {path}: it is no text"))?
            }
            None => token.clone(),
        };
        if token.trim().is_empty() {
            return Err("--bearer is empty; give the token, or @FILE with it".to_owned());
        }
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
    // One task compared with itself is alike in everything.
    for (one, id, other, its) in [
        ("--task", &args.task, "--foreign-task", &args.foreign_task),
        ("--task", &args.task, "--unknown-task", &args.unknown_task),
        ("--foreign-task", &args.foreign_task, "--unknown-task", &args.unknown_task),
    ] {
        if id.is_some() && id == its {
            return Err(format!("{one} and {other} name the same task, and it cannot be both"));
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
