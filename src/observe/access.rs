//! The access log's JSON lines, one per finished request, put together by hand and written in batches.
//!
//! A line that goes through `tracing` costs an allocation per field, a lock and a system call: more than
//! all the rules together (`benches/README.md` has the figures). Here it is appended to what is pending,
//! and a thread of its own writes that, [`DELAY`] after the first line of a batch. So a stderr that is
//! read slowly holds up no request either; what is more than [`ROOM`] is dropped and told.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::shards::Shards;
use crate::normalize::{Mode, RuleSet};

/// How long a line may wait for company.
const DELAY: Duration = Duration::from_millis(20);
/// Bytes that may be pending: a second of a busy proxy.
const ROOM: usize = 4 << 20;
/// How long the end of the process waits for the last lines.
const LAST: Duration = Duration::from_secs(1);

/// Where access lines go, once they go anywhere.
static SINK: OnceLock<Sink> = OnceLock::new();

/// What is said of one request: names and numbers only (D-4).
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The lane's part of the line, see [`lane`].
    pub lane: &'a str,
    pub status: u16,
    pub outcome: &'static str,
    pub reason: Option<&'static str>,
    pub collapsed: Option<&'static str>,
    pub rules: RuleSet,
    pub stream: bool,
    pub upstream: Duration,
    pub added: Duration,
}

/// The members that are the same for every request of a lane.
#[must_use]
pub fn lane(host: &str, interface: &str, binding: &str, mode: Mode) -> String {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let (host, interface, binding, mode) = (json(host), json(interface), json(binding), json(mode.as_str()));
    format!(r#""level":"INFO","host":{host},"interface":{interface},"binding":{binding},"mode":{mode}"#)
}

impl Event<'_> {
    /// Appends the line. Member for member what `tracing` writes for the same event.
    pub(super) fn write(&self, now: &Stamp, to: &mut Vec<u8>) {
        to.extend_from_slice(b"{\"timestamp\":\"");
        now.write(to);
        to.extend_from_slice(b"\",");
        to.extend_from_slice(self.lane.as_bytes());
        to.extend_from_slice(b",\"status\":");
        number(self.status.into(), 1, to);
        text(b",\"outcome\":\"", self.outcome, to);
        if let Some(reason) = self.reason {
            text(b",\"reason\":\"", reason, to);
        }
        if let Some(collapsed) = self.collapsed {
            text(b",\"collapsed\":\"", collapsed, to);
        }
        if !self.rules.is_empty() {
            let mut before: &[u8] = b",\"rules\":\"";
            for rule in self.rules.iter() {
                to.extend_from_slice(before);
                to.extend_from_slice(rule.id().as_bytes());
                before = b" ";
            }
            to.push(b'"');
        }
        let stream: &[u8] = if self.stream { b",\"stream\":true" } else { b",\"stream\":false" };
        to.extend_from_slice(stream);
        // One decimal is what a person compares.
        let tenths = (micros(self.upstream) + 50) / 100;
        to.extend_from_slice(b",\"upstream_ms\":");
        number(tenths / 10, 1, to);
        to.push(b'.');
        number(tenths % 10, 1, to);
        to.extend_from_slice(b",\"added_us\":");
        number(micros(self.added), 1, to);
        text(b",\"target\":\"", super::log::ACCESS, to);
        to.extend_from_slice(b"}\n");
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A member's begin, its value from a closed list, and the closing quote.
fn text(begin: &[u8], value: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(begin);
    to.extend_from_slice(value.as_bytes());
    to.push(b'"');
}

/// A number with at least `width` digits. `write!` needs several times as long, twenty times a line.
fn number(value: u64, width: usize, to: &mut Vec<u8>) {
    let from = to.len();
    let mut left = value;
    while left > 0 || to.len() - from < width {
        to.push(b'0' + u8::try_from(left % 10).unwrap_or_default());
        left /= 10;
    }
    if let Some(digits) = to.get_mut(from..) {
        digits.reverse();
    }
}

/// The time of a line: `2026-01-31T23:59:59.000001Z`. Most lines share their second with the one before.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    /// Since 1970.
    second: u64,
    micros: u32,
    /// As far as the second, with the point.
    text: Vec<u8>,
}

impl Stamp {
    #[cfg(test)]
    pub(super) fn at(since: Duration) -> Self {
        let mut stamp = Self::default();
        stamp.set(since);
        stamp
    }

    /// `since` 1970.
    fn set(&mut self, since: Duration) {
        self.micros = since.subsec_micros();
        if self.second == since.as_secs() && !self.text.is_empty() {
            return;
        }
        self.second = since.as_secs();
        let (days, second) = (self.second / 86_400, self.second % 86_400);
        // Years are counted from March, so that a leap day is the last of its year; 719468 days lie
        // between the first of March of the year 0 and 1970.
        let shifted = days + 719_468;
        let (era, day) = (shifted / 146_097, shifted % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + u64::from(month <= 2);
        self.text.clear();
        number(year, 4, &mut self.text);
        let parts = [
            (b'-', month),
            (b'-', day),
            (b'T', second / 3600),
            (b':', second / 60 % 60),
            (b':', second % 60),
        ];
        for (sign, part) in parts {
            self.text.push(sign);
            number(part, 2, &mut self.text);
        }
        self.text.push(b'.');
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.text);
        number(self.micros.into(), 6, to);
        to.push(b'Z');
    }
}

/// A time of the pages, to the second: `2026-01-31T23:59:59Z`.
#[must_use]
pub(super) fn utc(unix: i64) -> String {
    let mut stamp = Stamp::default();
    stamp.set(Duration::from_secs(u64::try_from(unix).unwrap_or_default()));
    let text = String::from_utf8_lossy(&stamp.text).into_owned();
    format!("{}Z", text.trim_end_matches('.'))
}

#[derive(Default)]
struct Pending {
    lines: Vec<u8>,
    dropped: u64,
    now: Stamp,
    /// The thread is writing what it took.
    writing: bool,
}

struct Sink {
    /// A thread's lines are in their order; of those that threads write at the same time none is first.
    pending: Arc<Shards<Mutex<Pending>>>,
    writer: Thread,
}

impl Sink {
    fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let pending = Arc::<Shards<Mutex<Pending>>>::default();
        let shared = pending.clone();
        let writer = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let mut out = out;
            let mut taken = Vec::new();
            loop {
                thread::park();
                thread::sleep(DELAY);
                shared.iter().for_each(|one| write_out(one, &mut taken, &mut out));
            }
        })?;
        Ok(Self { pending, writer: writer.thread().clone() })
    }

    fn push(&self, event: &Event<'_>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut pending = lock(self.pending.mine());
        if pending.lines.len() >= ROOM {
            pending.dropped += 1;
            return;
        }
        let first = pending.lines.is_empty();
        let Pending { lines, now: stamp, .. } = &mut *pending;
        stamp.set(now);
        event.write(stamp, lines);
        drop(pending);
        if first {
            self.writer.unpark();
        }
    }

    fn is_idle(&self) -> bool {
        self.pending.iter().map(lock).all(|pending| pending.lines.is_empty() && !pending.writing)
    }
}

fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_out(shared: &Mutex<Pending>, taken: &mut Vec<u8>, out: &mut impl Write) {
    let mut pending = lock(shared);
    if pending.lines.is_empty() && pending.dropped == 0 {
        return;
    }
    std::mem::swap(&mut pending.lines, taken);
    let dropped = std::mem::take(&mut pending.dropped);
    pending.writing = true;
    drop(pending);
    // A stderr that went away must not end the process.
    let _ = out.write_all(taken);
    taken.clear();
    if dropped > 0 {
        tracing::warn!(dropped, "access events were dropped: stderr is not read as fast as they come");
    }
    lock(shared).writing = false;
}

/// Writes access lines to stderr from here on. A second call changes nothing.
pub fn init() {
    // Without a thread the events go the slow way.
    if SINK.get().is_none()
        && let Ok(sink) = Sink::new(io::stderr())
    {
        let _ = SINK.set(sink);
    }
}

/// Whether access events are wanted.
static WANTED: AtomicBool = AtomicBool::new(true);

/// Writes access events, or leaves them out.
pub fn set(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

/// Whether this way takes care of the event; if not, there is no JSON access log.
pub fn log(event: &Event<'_>) -> bool {
    let Some(sink) = SINK.get() else { return false };
    if WANTED.load(Ordering::Relaxed) {
        sink.push(event);
    }
    true
}

/// Waits until what is pending is written, for [`LAST`] at the most: for the end of the process.
pub fn flush() {
    let Some(sink) = SINK.get() else { return };
    let step = DELAY / 4;
    for _ in 0..LAST.as_millis() / step.as_millis() {
        if sink.is_idle() {
            return;
        }
        thread::sleep(step);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::normalize::Rule;

    fn event(lane: &str) -> Event<'_> {
        let mut rules = RuleSet::default();
        rules.insert(Rule::O1);
        rules.insert(Rule::E1);
        Event {
            lane,
            status: 200,
            outcome: "rewritten",
            reason: Some("TASK_NOT_FOUND"),
            collapsed: None,
            rules,
            stream: false,
            upstream: Duration::from_micros(12_340),
            added: Duration::from_micros(41),
        }
    }

    fn stamp(since: Duration) -> String {
        let mut text = Vec::new();
        Stamp::at(since).write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_written_as_rust_writes_them() {
        for value in [0, 1, 9, 10, 99, 100, 200, 65_535, 1_000_000, u64::MAX] {
            let mut text = Vec::new();
            number(value, 1, &mut text);
            number(value, 6, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), format!("{value}{value:06}"));
        }
    }

    /// A second that goes on, the next one, and one before it: clocks are set back.
    #[test]
    fn a_time_that_is_reused_is_told_right() {
        let mut reused = Stamp::default();
        for (second, nanos) in [(59, 1000), (59, 999_999_000), (60, 0), (59, 5000)] {
            let since = Duration::new(second, nanos);
            reused.set(since);
            let mut text = Vec::new();
            reused.write(&mut text);
            assert_eq!(String::from_utf8(text).unwrap(), stamp(since));
        }
    }

    #[test]
    fn times_are_told_as_the_calendar_has_them() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000007Z"),
            (951_868_800, "2000-03-01T00:00:00.000007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000007Z"),
        ] {
            assert_eq!(stamp(Duration::new(seconds, 7_000)), expected);
        }
        // Day by day against a calendar of someone else's.
        for day in 0..60_000 {
            let since = Duration::from_secs(day * 86_400);
            let http = httpdate::fmt_http_date(UNIX_EPOCH + since);
            assert_eq!(stamp(since).get(8..10), http.get(5..7), "{http}");
            assert_eq!(stamp(since).get(..4), http.get(12..16), "{http}");
        }
    }

    #[test]
    fn names_of_the_configuration_are_escaped() {
        let lane = lane("a\"b", "/\\\n", "JSONRPC", Mode::Enforce);
        let mut written = Vec::new();
        event(&lane).write(&Stamp::default(), &mut written);
        let read: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!((read["host"].as_str(), read["interface"].as_str()), (Some("a\"b"), Some("/\\\n")));
    }

    #[test]
    fn lines_are_written_by_the_other_thread_and_whole() {
        struct Channel(mpsc::Sender<Vec<u8>>);
        impl Write for Channel {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (sender, receiver) = mpsc::channel();
        let sink = Sink::new(Channel(sender)).unwrap();
        let lane = lane("legacy", "/a2a", "JSONRPC", Mode::Enforce);
        for batch in 0..3 {
            for _ in 0..=batch {
                sink.push(&event(&lane));
            }
            let mut lines = 0;
            while lines <= batch {
                let text = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
                assert!(text.ends_with(b"}\n"));
                lines += text.split(|byte| *byte == b'\n').count() - 1;
            }
            assert_eq!(lines, batch + 1);
        }
    }

    #[test]
    fn a_stderr_that_is_not_read_costs_no_memory() {
        struct Stuck(mpsc::Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (_hold, release) = mpsc::channel();
        let sink = Sink::new(Stuck(release)).unwrap();
        let lane = lane("legacy", "/a2a", "JSONRPC", Mode::Enforce);
        sink.push(&event(&lane));
        thread::sleep(DELAY * 5);
        for _ in 0..ROOM / 100 {
            sink.push(&event(&lane));
        }
        let pending = lock(sink.pending.mine());
        assert!(pending.lines.len() < ROOM + 1024);
        assert!(pending.dropped > 0);
    }
}
