//! `a2a-errata demo`: the built-in legacy host, the proxy in front of it, and every kind of fault before
//! and after.
//!
//! Each scenario's request goes to the host directly and through the proxy. What the host said is then
//! also run through the rules without a socket: that tells which rules fired, and the proxy's answer
//! must be those bytes. The demo judges by itself and ends with 0 only if everything holds.

mod child;
mod model;
mod show;
mod verdict;
mod wire;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use self::child::Proxy;
use self::verdict::{Rehearsal, Verdict};
use self::wire::Reply;
use super::output;
use super::screen::{Ink, Screen};
use crate::demo::{
    Expect, FINISHED, FOREIGN, INTERFACE, LegacyHost, REFERENCE, REST_INTERFACE, Scenario, catalogue,
};
use crate::normalize::Rule;
use crate::proxy::Hosts;

/// Shown in full, before the table.
const HIGHLIGHTS: &[&str] = &[
    "data-object",
    REFERENCE,
    "foreign-403-envelope",
    "openwop-429",
    "nginx-502",
    "code-contradicts-reason",
    "stream-error-later",
    "rest-flat-code",
    "ok-failed-task",
];

/// See every kind of fault before and after, with a legacy host that is built in.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep the host and the proxy up afterwards and print `curl` and `probe` lines to try.
    #[arg(long)]
    serve: bool,
    /// Play only the kinds whose name contains this, side by side.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// List the kinds of fault and what they stand for, and start nothing.
    #[arg(long)]
    list: bool,
    /// Show every kind side by side, not only the highlights.
    #[arg(long, short)]
    verbose: bool,
    /// Only start the model host, which answers every error as it should be, to try `probe` on.
    #[arg(long, conflicts_with_all = ["serve", "only", "list", "verbose"])]
    model: bool,
    /// Only start the legacy host, on this address, to try the proxy in front of it elsewhere.
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["serve", "only", "list", "verbose", "model"])]
    host: Option<SocketAddr>,
    /// What the model host does wrong; `list` lists it.
    #[arg(long, value_name = "NAME", requires = "model")]
    sabotage: Option<String>,
}

/// One scenario after it was played.
#[derive(Debug)]
struct Played {
    scenario: Scenario,
    /// The id the client must get back.
    id: String,
    /// What the host said; `None` without a byte.
    direct: Option<Reply>,
    /// What the client gets.
    proxied: Option<Reply>,
    rehearsed: Option<Rehearsal>,
    verdict: Verdict,
}

impl Played {
    /// The rules that fired.
    fn rules(&self) -> String {
        let fired = self.rehearsed.iter().flat_map(|rehearsal| rehearsal.rules.iter());
        fired.map(Rule::id).collect::<Vec<_>>().join(" ")
    }

    fn is_wrong(&self) -> bool {
        matches!(self.verdict, Verdict::Wrong(_))
    }
}

/// Why the demo ended early.
enum Stop {
    /// Ctrl-C or SIGTERM.
    Asked,
    /// Something that is not a verdict: no port, no proxy.
    Failed(String),
}

#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let screen = Screen::detect();
    let all = catalogue();
    if args.list {
        return output::print(show::list(screen, &all).as_bytes(), ExitCode::SUCCESS);
    }
    if args.model {
        return model::run(screen, args.sabotage.as_deref());
    }
    if let Some(address) = args.host {
        return alone(LegacyHost::start_on(address), |host| {
            let at = host.address();
            format!(
                "The legacy host listens on {at}; its interface is {INTERFACE}. Its faults:  curl -s http://{at}/\n"
            )
        });
    }
    let chosen: Vec<Scenario> = match &args.only {
        Some(part) => all.iter().filter(|scenario| scenario.name.contains(part.as_str())).cloned().collect(),
        None => all.clone(),
    };
    if chosen.is_empty() {
        complain("no kind of fault has such a name; `a2a-errata demo --list` names them");
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            complain(&format!("cannot start: {why}"));
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        // Whatever the demo is doing, a signal ends it; what it started goes when it is dropped.
        tokio::select! {
            biased;
            done = play_all(args, screen, &all, &chosen) => done,
            stop = asked_to_stop() => Err(stop),
        }
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Stop::Asked) => ExitCode::from(130),
        Err(Stop::Failed(why)) => {
            complain(&why);
            ExitCode::FAILURE
        }
    }
}

/// A host without a proxy, until a signal comes.
fn alone<H>(start: impl Future<Output = io::Result<H>>, greeting: impl FnOnce(&H) -> String) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            complain(&format!("cannot start: {why}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        let host = match start.await {
            Ok(host) => host,
            Err(why) => {
                complain(&format!("cannot start the host: {why}"));
                return ExitCode::FAILURE;
            }
        };
        let stop = match say(&greeting(&host)) {
            Ok(()) => asked_to_stop().await,
            Err(stop) => stop,
        };
        match stop {
            Stop::Asked => ExitCode::SUCCESS,
            Stop::Failed(why) => {
                complain(&why);
                ExitCode::FAILURE
            }
        }
    })
}

/// Whether everything holds.
async fn play_all(args: &Args, screen: Screen, all: &[Scenario], chosen: &[Scenario]) -> Result<bool, Stop> {
    let host =
        LegacyHost::start().await.map_err(|why| Stop::Failed(format!("cannot start the host: {why}")))?;
    let mut proxy = Proxy::start(host.address()).await.map_err(Stop::Failed)?;
    // What each kind of call gets for a task that does not exist.
    let mut references = HashMap::new();
    for unknown in all.iter().filter(|scenario| scenario.reference() == scenario.name) {
        if let Some(reply) = wire::ask(proxy.address, unknown).await.ok().flatten() {
            references.insert(unknown.name, reply);
        }
    }
    let hosts = verdict::hosts();
    let mut played = Vec::with_capacity(chosen.len());
    for scenario in chosen {
        let reference = references.get(scenario.reference());
        let done = play(scenario, &hosts, host.address(), proxy.address, reference).await;
        let highlight = args.verbose || args.only.is_some() || HIGHLIGHTS.contains(&scenario.name);
        if highlight {
            say(&screen.side_by_side(&done))?;
        }
        played.push(done);
    }
    say(&format!("{}\n{}\n", screen.rule("every kind"), screen.table(&played)))?;
    if !proxy.is_alive() {
        return Err(Stop::Failed("the proxy ended during the demo".to_owned()));
    }
    let good = !played.iter().any(Played::is_wrong);
    if args.serve {
        say(&to_try(screen, host.address(), &proxy))?;
        say(&summary(screen, &played))?;
        stay_up(&mut proxy).await?;
    } else {
        say(&summary(screen, &played))?;
    }
    Ok(good)
}

/// Until a signal comes; a proxy that ends by itself is a failure.
async fn stay_up(proxy: &mut Proxy) -> Result<(), Stop> {
    let ended = async {
        while proxy.is_alive() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Stop::Failed("the proxy ended".to_owned())
    };
    let stop = tokio::select! {
        stop = asked_to_stop() => stop,
        stop = ended => stop,
    };
    match stop {
        Stop::Asked => Ok(()),
        failed @ Stop::Failed(_) => Err(failed),
    }
}

async fn play(
    scenario: &Scenario,
    hosts: &Hosts,
    host: SocketAddr,
    proxy: SocketAddr,
    reference: Option<&Reply>,
) -> Played {
    let direct = wire::ask(host, scenario).await.ok().flatten();
    let proxied = wire::ask(proxy, scenario).await;
    let rehearsed = verdict::rehearse(hosts, scenario, direct.as_ref());
    let verdict = match &proxied {
        Ok(proxied) => {
            verdict::judge(scenario, direct.as_ref(), proxied.as_ref(), rehearsed.as_ref(), reference)
        }
        Err(why) => Verdict::Wrong(vec![format!("no answer through the proxy: {why}")]),
    };
    Played {
        scenario: scenario.clone(),
        id: verdict::id_of(&scenario.call.body),
        direct,
        proxied: proxied.ok().flatten(),
        rehearsed,
        verdict,
    }
}

/// The last lines: how many of what, and whether all of it holds.
fn summary(screen: Screen, played: &[Played]) -> String {
    let count = |wanted: &Verdict| played.iter().filter(|one| one.verdict == *wanted).count();
    let faults = played.iter().filter(|one| one.scenario.expect != Expect::Untouched).count();
    let identical = count(&Verdict::Identical);
    let mut out = format!(
        "Kinds of fault: {faults}; {} rewritten, {identical} of them to the very same bytes. {} answers untouched.\n",
        count(&Verdict::Rewritten) + identical,
        count(&Verdict::Untouched),
    );
    let wrong: Vec<_> = played.iter().filter(|one| one.is_wrong()).map(|one| one.scenario.name).collect();
    let last = if wrong.is_empty() {
        // Only what was looked at is called good.
        let compared = played
            .iter()
            .any(|one| one.verdict == Verdict::Identical && one.scenario.name != one.scenario.reference());
        let good = [
            (faults > 0, "every fault in shape"),
            (faults < played.len(), "every success untouched"),
            (compared, "\"not yours\" and \"not there\" the same bytes"),
        ];
        let good: Vec<_> = good.iter().filter(|(seen, _)| *seen).map(|(_, what)| *what).collect();
        screen.paint(Ink::Good, &format!("All good: {}.", good.join(", ")))
    } else {
        let some: Vec<_> = wrong.iter().copied().take(8).collect();
        let names = format!("{}{}", some.join(", "), if some.len() < wrong.len() { ", …" } else { "" });
        screen.paint(Ink::Bad, &format!("{} of {} went wrong: {names}", wrong.len(), played.len()))
    };
    out.push_str(&last);
    out.push('\n');
    out
}

/// What to type while both are up.
fn to_try(screen: Screen, host: SocketAddr, proxy: &Proxy) -> String {
    let through = proxy.address;
    let get = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":"{id}"}}}}"#);
    let curl = |at: SocketAddr, query: &str, body: &str| {
        format!(
            "  curl -si 'http://{at}{INTERFACE}{query}' -H 'content-type: application/json' -w '\\n' -d '{body}'\n"
        )
    };
    let both = |title: &str, query: &str, body: &str| {
        format!(
            "{}\n{}{}\n",
            screen.paint(Ink::Bold, title),
            curl(host, query, body),
            curl(through, query, body)
        )
    };
    let probe = |at: SocketAddr, interface: &str| {
        format!("  a2a-errata probe http://{at}{interface} --task {FINISHED} --foreign-task {FOREIGN}\n")
    };
    let rest = format!("{REST_INTERFACE} --binding HTTP+JSON");
    [
        format!("{}\n", screen.rule("try it")),
        format!("The host listens on {host}, the proxy in front of it on {through}. First line: the host itself; second: what a client gets.\n\n"),
        both("A task that does not exist", "", &get("nobody-knows")),
        both("A task of somebody else", "", &get(FOREIGN)),
        both("Any kind of fault, by its name", "?fault=openwop-429", &get("t-1")),
        both("The same by the task's id", "", &get("foreign-410-html")),
        format!("{}\n", screen.paint(Ink::Bold, "Everything that RFC 0211 asks, over both bindings")),
        format!("{}{}{}{}\n", probe(host, ""), probe(through, ""), probe(host, &rest), probe(through, &rest)),
        format!("All names:  curl -s http://{host}/\n"),
        format!("Metrics:    curl -s http://{}/metrics\n\nCtrl-C ends both.\n\n", proxy.admin),
    ]
    .concat()
}

/// Comes back on Ctrl-C or SIGTERM.
async fn asked_to_stop() -> Stop {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            Stop::Asked
        }
        (Err(why), _) | (_, Err(why)) => Stop::Failed(format!("cannot listen for signals: {why}")),
    }
}

/// To standard output, as the demo goes on.
fn say(text: &str) -> Result<(), Stop> {
    output::write(text.as_bytes()).map_err(Stop::Failed)
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "a2a-errata demo: {text}");
}
