//! `explain`: a saved answer becomes what the client would get, with the rules that made it (U-2).
//!
//! It is the proxy's own machine that is fed, routes and policy included; see [`crate::proxy::rehearse`].

mod asked;
mod har;
mod saved;
mod show;
mod written;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use self::asked::Asked;
pub(super) use self::saved::header;
use super::screen::{Screen, clean, cut};
use super::{FAILED, REFUSED, input, output, run::settings, say};
use crate::config::{self, Flags};
use crate::normalize::{Binding, Failure, Interface, Verdict};
use crate::proxy::{self, Ending, Hosts, Question, Rehearsed, Told};

/// Characters of a line that says what is wrong: some of it is what a file says, of any length.
const LINE: usize = 600;

/// Turn a saved answer into the normalized one and say why.
///
/// Reads what `curl -i` printed, a HAR file, or a bare body, and shows what the proxy would have made of it:
/// the answer, what changed, and each rule that fired with the section that it follows from.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The saved answer; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    answer: Option<PathBuf>,

    /// The request: JSON, or a file with its body or with all of it (`POST /a2a HTTP/1.1` …)
    #[arg(long, value_name = "JSON|FILE")]
    request: Option<String>,

    /// What the interface speaks [default: what the request looks like]
    #[arg(long, value_name = "BINDING")]
    binding: Option<BindingName>,

    /// Without a request: the operation (`GetTask`). In capitals: the HTTP method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,

    /// Without a request: its id, as JSON [default: the answer's]
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    id: Option<String>,

    /// Without a request: the task that it names
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    task: Option<String>,

    /// The URL's path and query
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// A header of the request, such as `A2A-Version: 1.0`; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    request_header: Vec<String>,

    /// The answer's status, where the file does not say it or says another
    #[arg(long, value_name = "CODE")]
    status: Option<u16>,

    /// A header of the answer; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// Which entry of a HAR file, from 1
    #[arg(long, value_name = "N")]
    entry: Option<usize>,

    /// The file has the very bytes of the wire (`curl --raw`): nothing is taken for undone or converted
    #[arg(long)]
    wire: bool,

    /// Protocol versions that the interface offers, comma-separated
    #[arg(long, value_name = "LIST", default_value = "1.0", conflicts_with = "config")]
    versions: String,

    /// The proxy's configuration: its interfaces and what its hosts may disclose
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The host's agent card, for interfaces that the configuration leaves to it
    #[arg(long, value_name = "FILE", requires = "config")]
    card: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print the client's answer alone, head and body, byte for byte
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum BindingName {
    #[value(name = "JSONRPC", alias = "jsonrpc")]
    JsonRpc,
    #[value(name = "HTTP+JSON", alias = "http+json", alias = "http-json")]
    HttpJson,
}

impl BindingName {
    pub(super) fn binding(self) -> Binding {
        match self {
            Self::JsonRpc => Binding::JsonRpc,
            Self::HttpJson => Binding::HttpJson,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  Ask a host, and see what its answer should have been:
    curl -si https://agent.example/a2a -H 'content-type: application/json' \\
      -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\",\"params\":{\"id\":\"nobody-knows\"}}' |
      a2a-errata explain --method GetTask --task nobody-knows
  A body from a log, with what the log says about it:
    a2a-errata explain body.json --status 403 --method GetTask
  An entry of what a browser saved, under the proxy's configuration:
    a2a-errata explain session.har --entry 3 --config /etc/a2a-errata.toml
  Over HTTP+JSON:
    a2a-errata explain answer.txt --binding HTTP+JSON --method CancelTask --task t-1

A request of which only the body or nothing was saved has the head that curl sends above: it names no
A2A-Version, and means 0.3 by that; --request-header 'A2A-Version: 1.0' says otherwise.

Exit code 0: the answer passes as it is. 1: it is rewritten. 2: it cannot be read, or the result not be written.";

/// A saved answer and what becomes of it.
struct Explained {
    told: Told,
    got: Rehearsed,
    notes: Vec<String>,
}

#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let explained = match explain(args) {
        Ok(explained) => explained,
        Err(why) => {
            // Some of it is what the file says.
            let lines: Vec<String> = why.lines().map(|line| cut(&clean(line), LINE)).collect();
            say(&format!("a2a-errata: {}", lines.join("\n")));
            return ExitCode::from(REFUSED);
        }
    };
    let text = if args.raw {
        show::raw(&explained)
    } else if args.json {
        show::json(&explained).into_bytes()
    } else {
        show::text(Screen::detect(), &explained).into_bytes()
    };
    // 1 would say that the answer is rewritten.
    let done = match explained.got.outcome.verdict {
        Verdict::Passed | Verdict::Conformant => ExitCode::SUCCESS,
        Verdict::Rewritten | Verdict::Overflow | Verdict::Synthesized | Verdict::Refused => {
            ExitCode::from(FAILED)
        }
    };
    output::print(&text, done)
}

fn explain(args: &Args) -> Result<Explained, String> {
    let (name, bytes) = read(args)?;
    let mut notes = Vec::new();
    let given = asked::given(args, &mut notes)?;
    let said = saved::Said {
        status: args.status,
        headers: &args.header,
        wire: args.wire,
        entry: args.entry,
        is_head: asked::is_head(args, given.as_ref()),
    };
    let (answer, asked) =
        saved::read(&bytes, &said, &mut notes).map_err(|why| format!("the answer in {name}: {why}"))?;
    let asked = asked::put_together(args, given.or(asked), &answer.body, &mut notes)?;
    let hosts = hosts(args, &asked, &mut notes)?;
    let Asked { request, .. } = asked;
    let question = Question {
        method: request.method,
        target: request.target,
        headers: request.headers,
        body: request.body,
    };
    let told = Told {
        status: answer.status,
        headers: answer.headers,
        body: answer.body,
        ending: if answer.complete { Ending::Whole } else { Ending::CutOff(Failure::Closed) },
    };
    let got = proxy::rehearse(&hosts, &question, &told)?;
    if !got.bound {
        notes.push("no rule binds this request: everything passes".to_owned());
    }
    Ok(Explained { told, got, notes })
}

/// What to call the answer's source, and its bytes.
fn read(args: &Args) -> Result<(String, Vec<u8>), String> {
    let (name, read) = match args.answer.as_deref() {
        Some(path) if path.as_os_str() != "-" => (input::named(path), input::read(path, input::MOST)),
        _ => ("standard input".to_owned(), input::read_from(std::io::stdin().lock(), input::MOST)),
    };
    match read {
        Ok(bytes) => Ok((name, bytes)),
        Err(why) => Err(format!("cannot read {name}: {why}")),
    }
}

/// The configured hosts, or one with just this interface.
fn hosts(args: &Args, asked: &Asked, notes: &mut Vec<String>) -> Result<Hosts, String> {
    let Some(file) = &args.config else {
        let versions = args.versions.split(',').map(|one| one.trim().to_owned());
        let interface = Interface {
            path: asked.interface.clone(),
            binding: asked.binding,
            versions: versions.filter(|one| !one.is_empty()).collect(),
        };
        return Ok(proxy::hosts_of(vec![proxy::default_host(vec![Arc::new(interface)])]));
    };
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    let effective = config::load(&config::Sources {
        file: Some(file.clone()),
        environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        flags: Flags::default(),
    });
    let effective = effective.map_err(|problems| {
        problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\na2a-errata: ")
    })?;
    let mut settings = settings(&effective.model);
    if args.card.is_some() && settings.hosts.iter().all(|host| !host.interfaces.is_empty()) {
        notes
            .push("--card is not looked at: every host of the configuration lists its interfaces".to_owned());
    }
    for host in settings.hosts.iter_mut().filter(|host| host.interfaces.is_empty()) {
        match &args.card {
            Some(path) => {
                let name = input::named(path);
                // The proxy takes no larger one either.
                let most = u64::try_from(host.card.max_bytes).unwrap_or(u64::MAX);
                let card =
                    input::read(path, most).map_err(|why| format!("cannot read the card {name}: {why}"))?;
                host.interfaces =
                    host.interfaces_of_card(&card).map_err(|why| format!("the card {name}: {why}"))?;
            }
            None => notes.push(format!(
                "the interfaces of host {:?} are left to its card; without --card every A2A call is bound",
                host.name
            )),
        }
    }
    Ok(proxy::hosts_of(settings.hosts))
}
