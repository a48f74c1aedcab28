//! Logs on stderr: JSON, or text for a person at a terminal. One access event per finished request; as
//! JSON those take a shorter way, see `access`.
//!
//! Only this crate's own events are written. Libraries below log requests and peers, and what they log
//! names paths and headers (D-4).

use std::io::{self, IsTerminal as _};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::Dispatch;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use super::access;

/// The target of access events.
pub const ACCESS: &str = "a2a_errata::access";

/// How much is logged. Access events are at `info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Level {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as clap::ValueEnum>::from_str(text.trim(), true)
            .map_err(|_| "must be off, error, warn, info, debug or trace".to_owned())
    }
}

impl Level {
    const ALL: [Self; 6] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Text at a terminal, else JSON.
    #[default]
    Auto,
    Text,
    Json,
}

/// Log to stderr from here on. A second call changes nothing.
pub fn init(level: Level, format: Format) {
    let terminal = io::stderr().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let json = match format {
        Format::Auto => !terminal,
        Format::Text => false,
        Format::Json => true,
    };
    let (dispatch, filter) = dispatch(level, json, colour, io::stderr);
    if tracing::dispatcher::set_global_default(dispatch).is_ok() {
        std::panic::set_hook(Box::new(|panic| told(panic.location())));
        if json {
            access::init();
        }
        let _ = CONTROL.set(filter);
        note(level);
    }
}

/// What the level is changed with.
type Filter = reload::Handle<Targets, Registry>;

static CONTROL: OnceLock<Filter> = OnceLock::new();
/// The place of the level in [`Level::ALL`].
static LEVEL: AtomicUsize = AtomicUsize::new(0);

/// How much is logged.
#[must_use]
pub fn level() -> Level {
    Level::ALL.get(LEVEL.load(Ordering::Relaxed)).copied().unwrap_or_default()
}

/// Logs so much from here on. `false` when this process does not log at all.
pub fn set_level(level: Level) -> bool {
    let changed = CONTROL.get().is_some_and(|filter| filter.reload(only_ours(level)).is_ok());
    if changed {
        note(level);
        tracing::info!(to = level.as_str(), "log level changed");
    }
    changed
}

fn note(level: Level) {
    LEVEL.store(Level::ALL.iter().position(|known| *known == level).unwrap_or_default(), Ordering::Relaxed);
    access::set(LevelFilter::from(level) >= LevelFilter::INFO);
}

fn only_ours(level: Level) -> Targets {
    Targets::new().with_target("a2a_errata", LevelFilter::from(level))
}

/// Waits, not for long, until every event is written: for the end of the process.
pub fn flush() {
    access::flush();
}

/// A panic is a bug of ours; its message may quote what came from the wire, so only the place is told.
fn told(location: Option<&std::panic::Location<'_>>) {
    let place = location.map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(place, thread = thread.name(), "panicked; this is a bug");
}

fn dispatch<W>(level: Level, json: bool, colour: bool, writer: W) -> (Dispatch, Filter)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(only_ours(level));
    // A stderr that went away must not end the process.
    let layer = fmt::layer().with_writer(writer).log_internal_errors(false);
    let registry = Registry::default().with(filter);
    let dispatch = if json {
        let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
        Dispatch::new(registry.with(layer))
    } else {
        Dispatch::new(registry.with(layer.with_ansi(colour)))
    };
    (dispatch, handle)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::normalize::{Binding, Mode, Outcome, Rule, RuleSet, Verdict};
    use crate::observe::{Finished, Lane, Metrics};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: Level, json: bool, run: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let (dispatch, _) = dispatch(level, json, false, move || writer.clone());
        tracing::dispatcher::with_default(&dispatch, run);
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn with_one(run: impl FnOnce(&Lane, &Finished<'_>)) {
        let mut rules = RuleSet::default();
        rules.insert(Rule::O1);
        rules.insert(Rule::E1);
        let outcome = Outcome {
            verdict: Verdict::Rewritten,
            rules,
            reason: Some("TASK_NOT_FOUND"),
            dropped_names: vec!["planted-secret".into()],
            ..Outcome::default()
        };
        let lane = Metrics::new().lane("legacy", "/a2a", Some(Binding::JsonRpc), Mode::Observe);
        let finished = Finished {
            status: 200,
            outcome: Some(&outcome),
            stream: false,
            upstream: Duration::from_micros(12_340),
            added: Duration::from_micros(41),
        };
        run(&lane, &finished);
    }

    fn finish_one() {
        with_one(Lane::finished);
    }

    /// The short way says what the long way says, member for member.
    #[test]
    fn both_ways_write_the_same_access_event() {
        let long = logged(Level::Info, true, finish_one);
        let mut short = Vec::new();
        with_one(|lane, finished| {
            let now = access::Stamp::at(Duration::ZERO);
            lane.event(finished, Verdict::Rewritten).write(&now, &mut short);
        });
        let short = String::from_utf8(short).unwrap();
        // The time is as long as any other.
        let stamp = r#"{"timestamp":"2026-01-01T00:00:00.000000Z""#.len();
        assert_eq!(short.get(stamp..), long.get(stamp..));
    }

    #[test]
    fn an_access_event_is_one_json_object_with_known_members_only() {
        let text = logged(Level::Info, true, finish_one);
        let event: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        let mut names: Vec<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let known = [
            "added_us",
            "binding",
            "host",
            "interface",
            "level",
            "mode",
            "outcome",
            "reason",
            "rules",
            "status",
            "stream",
            "target",
            "timestamp",
            "upstream_ms",
        ];
        assert_eq!(names, known);
        assert_eq!(event["rules"], "E-1 O-1");
        assert_eq!(event["outcome"], "rewritten");
        assert_eq!(event["upstream_ms"].to_string(), "12.3");
        assert_eq!(event["added_us"], 41);
    }

    /// D-4: at the most talkative level, what a library logs about a request stays out, and so do names
    /// that came from the wire.
    #[test]
    fn planted_secrets_do_not_reach_the_log() {
        for json in [true, false] {
            let text = logged(Level::Trace, json, || {
                tracing::error!(target: "h2::codec", header = "authorization: planted-secret");
                tracing::info!(target: "pingora_core", "GET /tasks/planted-secret");
                let span = tracing::info_span!(target: "hyper", "call", path = "/tasks/planted-secret");
                span.in_scope(finish_one);
            });
            assert!(text.contains("rewritten"), "{text}");
            assert!(!text.contains("planted"), "{text}");
        }
    }

    #[test]
    fn a_panic_is_told_by_its_place() {
        let here = std::panic::Location::caller();
        let text = logged(Level::Error, true, || told(Some(here)));
        let event: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert!(event["place"].as_str().unwrap().starts_with("src/observe/log.rs:"), "{text}");
        assert_eq!(event["message"], "panicked; this is a bug");
    }

    #[test]
    fn below_info_there_are_no_access_events() {
        assert_eq!(logged(Level::Warn, true, finish_one), "");
    }

    /// What was quiet talks once the level is changed, and the other way round.
    #[test]
    fn the_level_changes_while_it_runs() {
        let memory = Memory::default();
        let writer = memory.clone();
        let (dispatch, filter) = dispatch(Level::Warn, true, false, move || writer.clone());
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!(target: "a2a_errata", "one");
            filter.reload(only_ours(Level::Info)).unwrap();
            tracing::info!(target: "a2a_errata", "two");
            filter.reload(only_ours(Level::Off)).unwrap();
            tracing::error!(target: "a2a_errata", "three");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("one") && text.contains("two") && !text.contains("three"), "{text}");
    }

    #[test]
    fn levels_are_read_and_slips_refused() {
        for level in Level::ALL {
            assert_eq!(level.as_str().parse(), Ok(level));
        }
        assert_eq!("INFO".parse(), Ok(Level::Info));
        assert!("inof".parse::<Level>().is_err());
        assert!("a2a_errata=debug".parse::<Level>().is_err());
    }
}
