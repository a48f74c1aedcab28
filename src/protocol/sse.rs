//! Event streams, cut into events as the bytes come (WHATWG HTML §9.2.6): LF, CRLF and CR end lines, a
//! byte order mark may come first, the space after a colon is optional. Nothing is kept but the place
//! in the current line. Lines of JSON (NDJSON) are cut the same way, a line an event.

use memchr::{memchr, memchr2};

/// How a stream's events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    Sse,
    /// `application/x-ndjson` and its like.
    Lines,
}

impl Framing {
    /// From a media type, in any case and with any parameters (S-1).
    #[must_use]
    pub fn of(media_type: &str) -> Option<Self> {
        const LINES: [&str; 5] = [
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
            "application/json-lines",
        ];
        let end = memchr(b';', media_type.as_bytes()).unwrap_or(media_type.len());
        let essence = media_type.get(..end).unwrap_or(media_type).trim();
        if essence.eq_ignore_ascii_case("text/event-stream") {
            return Some(Self::Sse);
        }
        LINES.iter().any(|name| essence.eq_ignore_ascii_case(name)).then_some(Self::Lines)
    }
}

/// How far a [`Splitter`] got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes taken from the input; they belong to the current event.
    pub taken: usize,
    /// The current event is complete; whether it had any `data`. Comments before an event are complete
    /// with their line: they are often all that keeps a connection alive.
    pub ended: Option<bool>,
    /// What was taken is the LF of a CRLF that ended the event before, which a read had cut in two.
    pub trails: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// At a line's beginning, or in its first bytes, which may spell `data`.
    Name(usize),
    /// In the value of a `data` field; true before its first byte, where one space is not part of it.
    Data(bool),
    Comment,
    /// In any other line.
    Other,
}

/// Cuts a stream into events and hands out their data.
#[derive(Debug)]
pub struct Splitter {
    framing: Framing,
    line: Line,
    /// The line just ended with CR: an LF would be the rest of that end.
    after_cr: bool,
    /// That line was an event's last.
    after_event: bool,
    /// The current event has lines that are no comments.
    has_fields: bool,
    /// Bytes of the byte order mark seen so far; `None` once past it.
    mark: Option<usize>,
    has_data: bool,
}

/// The byte order mark a stream may begin with.
pub const MARK: &[u8] = b"\xef\xbb\xbf";
const DATA: &[u8] = b"data";

impl Splitter {
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            line: Line::Name(0),
            after_cr: false,
            after_event: false,
            has_fields: false,
            mark: Some(0),
            has_data: false,
        }
    }

    /// Of events that a byte order mark may not precede: all but a stream's first.
    #[must_use]
    fn past_mark(self) -> Self {
        Self { mark: None, ..self }
    }

    /// The current event has `data`, so far.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// How many bytes at the end of what was taken may be the beginning of `data`.
    #[must_use]
    pub fn undecided(&self) -> usize {
        if let Line::Name(seen) = self.line { seen } else { 0 }
    }

    /// Takes input up to the end of the current event, or all of it. `data` gets the event's data,
    /// lines joined by LF, in pieces.
    pub fn next(&mut self, input: &[u8], data: &mut dyn FnMut(&[u8])) -> Step {
        match self.framing {
            Framing::Lines => self.next_line(input, data),
            Framing::Sse => self.next_event(input, data),
        }
    }

    fn next_line(&mut self, input: &[u8], data: &mut dyn FnMut(&[u8])) -> Step {
        let mut start = 0;
        while let (Some(seen), Some(byte)) = (self.mark, input.get(start)) {
            if MARK.get(seen) == Some(byte) {
                self.mark = Some(seen + 1).filter(|n| *n < MARK.len());
                start += 1;
            } else {
                self.mark = None;
                data(MARK.get(..seen).unwrap_or_default()); // no mark after all
            }
        }
        let rest = input.get(start..).unwrap_or_default();
        let (line, taken, complete) = match memchr(b'\n', rest) {
            Some(at) => (rest.get(..at).unwrap_or_default(), start + at + 1, true),
            None => (rest, input.len(), false),
        };
        self.has_data |= line.iter().any(|b| !b.is_ascii_whitespace());
        data(line);
        Step { taken, ended: complete.then(|| std::mem::take(&mut self.has_data)), trails: false }
    }

    fn next_event(&mut self, input: &[u8], data: &mut dyn FnMut(&[u8])) -> Step {
        if std::mem::take(&mut self.after_event) && input.first() == Some(&b'\n') {
            self.after_cr = false;
            return Step { taken: 1, ended: None, trails: true };
        }
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|r| !r.is_empty()) {
            let byte = rest.first().copied().unwrap_or_default();
            if let Some(seen) = self.mark {
                if MARK.get(seen) == Some(&byte) {
                    self.mark = Some(seen + 1).filter(|n| *n < MARK.len());
                    at += 1;
                    continue;
                }
                self.mark = None;
                if seen > 0 {
                    self.line = Line::Other; // not a mark after all: some field nobody knows
                }
            }
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                at += 1;
                continue;
            }
            let stop = memchr2(b'\n', b'\r', rest);
            let (text, end) = match stop {
                Some(stop) => (rest.get(..stop).unwrap_or_default(), rest.get(stop).copied()),
                None => (rest, None),
            };
            self.text(text, data);
            at += text.len();
            let Some(end) = end else { continue };
            at += 1;
            self.after_cr = end == b'\r';
            if self.end_of_line(data) {
                // Its LF belongs to this event: a client may wait for it.
                if self.after_cr && input.get(at) == Some(&b'\n') {
                    self.after_cr = false;
                    at += 1;
                }
                self.after_event = self.after_cr;
                self.has_fields = false;
                return Step { taken: at, ended: Some(std::mem::take(&mut self.has_data)), trails: false };
            }
        }
        Step { taken: input.len(), ended: None, trails: false }
    }

    /// Part of a line, without its end.
    fn text(&mut self, text: &[u8], data: &mut dyn FnMut(&[u8])) {
        let mut rest = text;
        while !rest.is_empty() {
            match self.line {
                Line::Other | Line::Comment => return,
                Line::Data(first) => {
                    let value = if first { rest.strip_prefix(b" ").unwrap_or(rest) } else { rest };
                    self.line = Line::Data(false);
                    if !value.is_empty() {
                        data(value);
                    }
                    return;
                }
                Line::Name(seen) => {
                    let Some((byte, after)) = rest.split_first() else { return };
                    if seen == DATA.len() && *byte == b':' {
                        self.begin_data(data);
                    } else if DATA.get(seen) == Some(byte) {
                        self.line = Line::Name(seen + 1);
                    } else if seen == 0 && *byte == b':' {
                        self.line = Line::Comment;
                    } else {
                        self.line = Line::Other;
                    }
                    rest = after;
                }
            }
        }
    }

    fn begin_data(&mut self, data: &mut dyn FnMut(&[u8])) {
        if std::mem::replace(&mut self.has_data, true) {
            data(b"\n");
        }
        self.line = Line::Data(true);
    }

    /// True if the line was empty, so that the event is complete, or a comment before any field.
    fn end_of_line(&mut self, data: &mut dyn FnMut(&[u8])) -> bool {
        let line = std::mem::replace(&mut self.line, Line::Name(0));
        if line == Line::Name(DATA.len()) {
            self.begin_data(data); // `data` without a colon: an empty line of it
            self.line = Line::Name(0);
        }
        let is_comment = line == Line::Comment;
        let ends = line == Line::Name(0) || is_comment && !self.has_fields;
        self.has_fields |= !is_comment;
        ends
    }
}

/// The data of one complete event; `is_first` if the stream begins with it.
#[must_use]
pub fn data_of(framing: Framing, event: &[u8], is_first: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len());
    let splitter = Splitter::new(framing);
    let mut splitter = if is_first { splitter } else { splitter.past_mark() };
    let mut rest = event;
    while !rest.is_empty() {
        let step = splitter.next(rest, &mut |piece| out.extend_from_slice(piece));
        rest = rest.get(step.taken..).unwrap_or_default();
    }
    out
}

/// What the event's `event` field says: the last one counts.
#[must_use]
pub fn name_of(event: &[u8]) -> &[u8] {
    let mut name: &[u8] = b"";
    for line in event.split(|b| matches!(b, b'\n' | b'\r')) {
        match line.strip_prefix(b"event") {
            Some(b"") => name = b"",
            Some(rest) => {
                if let Some(value) = rest.strip_prefix(b":") {
                    name = value.strip_prefix(b" ").unwrap_or(value);
                }
            }
            None => {}
        }
    }
    name
}

/// The event with this payload in place of its data: its comments and the fields that SSE knows stay, in
/// their order. `name` is what its `event` field must say, if anything.
#[must_use]
pub fn with_data(framing: Framing, event: &[u8], payload: &[u8], name: Option<&str>) -> Vec<u8> {
    if framing == Framing::Lines {
        return [payload, b"\n"].concat();
    }
    let event = event.strip_prefix(MARK).unwrap_or(event);
    let mut out = Vec::with_capacity(payload.len() + 64);
    let mut put = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
        out.push(b'\n');
    };
    let mut named = false;
    let mut written = false;
    // CRLF makes an empty line here, which says nothing.
    for line in event.split(|b| matches!(b, b'\n' | b'\r')).filter(|line| !line.is_empty()) {
        let field = line.split(|b| *b == b':').next().unwrap_or_default();
        match (field, name) {
            (b"data", _) if written => {}
            (b"data", _) => {
                written = true;
                put(&[b"data: ", payload]);
            }
            (b"event", Some(name)) if !named => {
                named = true;
                put(&[b"event: ", name.as_bytes()]);
            }
            (b"event", Some(_)) => {}
            // A comment has no name. Fields nobody knows are dropped: they may say anything.
            (b"" | b"id" | b"retry" | b"event", _) => put(&[line]),
            _ => {}
        }
    }
    if !written {
        put(&[b"data: ", payload]);
    }
    if let (Some(name), false) = (name, named) {
        put(&[b"event: ", name.as_bytes()]);
    }
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Raw bytes and data.
    type Event = (Vec<u8>, Option<Vec<u8>>);

    /// The events, and what is left unterminated.
    fn split(stream: &[u8], framing: Framing, size: usize) -> (Vec<Event>, Vec<u8>) {
        let mut splitter = Splitter::new(framing);
        let (mut events, mut raw, mut data) = (Vec::new(), Vec::new(), Vec::new());
        for piece in stream.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let step = splitter.next(rest, &mut |d| data.extend_from_slice(d));
                raw.extend_from_slice(&rest[..step.taken]);
                rest = &rest[step.taken..];
                if let Some(has_data) = step.ended {
                    let data = std::mem::take(&mut data);
                    events.push((std::mem::take(&mut raw), has_data.then_some(data)));
                }
            }
        }
        (events, raw)
    }

    #[test]
    fn s2_every_line_end_in_every_split() {
        let plain: &[u8] = b"\xef\xbb\xbf: hi\n\nid: 1\nevent: e\ndata:{\"a\":\ndata:  1}\ndata\n\nretry: 5\n\ndatax: no\nda\ndata: T\xc3\xa2che\n\ndata: tail";
        for end in ["\n", "\r\n", "\r"] {
            let mut stream = Vec::new();
            for b in plain {
                if *b == b'\n' { stream.extend_from_slice(end.as_bytes()) } else { stream.push(*b) }
            }
            for size in [1, 2, 3, 7, 1000] {
                let (events, _) = split(&stream, Framing::Sse, size);
                let data: Vec<Option<&[u8]>> = events.iter().map(|(_, d)| d.as_deref()).collect();
                let want: Vec<Option<&[u8]>> =
                    vec![None, None, Some(b"{\"a\":\n 1}\n"), None, Some("Tâche".as_bytes())];
                assert_eq!(data, want, "{end:?} {size}");
            }
        }
    }

    #[test]
    fn s1_lines_are_events() {
        let (events, tail) = split(b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"", Framing::Lines, 3);
        let data: Vec<Option<&[u8]>> = events.iter().map(|(_, d)| d.as_deref()).collect();
        assert_eq!(data, vec![Some(&b"{\"a\":1}"[..]), None, Some(&b"{\"b\":2}\r"[..])]);
        assert_eq!(tail, b"{\"c\"");
        assert_eq!(Framing::of("Application/X-NDJSON; charset=utf-8"), Some(Framing::Lines));
        assert_eq!(Framing::of("TEXT/event-stream;x=y"), Some(Framing::Sse));
        assert_eq!(Framing::of("application/json"), None);
    }

    #[test]
    fn s2_an_event_keeps_its_fields() {
        let event = b"\xef\xbb\xbf: c\r\nid: 4\r\ndata: a\r\ndata: b\r\nretry: 9\r\n\r\n";
        assert_eq!(with_data(Framing::Sse, event, b"X", None), b": c\nid: 4\ndata: X\nretry: 9\n\n");
        assert_eq!(with_data(Framing::Sse, b"event: e\ndata: a\n\n", b"X", None), b"event: e\ndata: X\n\n");
        assert_eq!(
            with_data(Framing::Sse, b"event: e\ndata: a\n\n", b"X", Some("error")),
            b"event: error\ndata: X\n\n"
        );
        assert_eq!(
            with_data(Framing::Sse, b"data: a\n\n", b"X", Some("error")),
            b"data: X\nevent: error\n\n"
        );
        assert_eq!(data_of(Framing::Sse, event, true), b"a\nb");
    }
}
