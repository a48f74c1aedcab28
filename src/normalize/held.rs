//! A host's answer while it is held: its bytes, and what was read of them so far (F-6, F-9, C-3).

use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem::Finder;

use super::Binding;
use super::stream::{Stream, begins_as_document};
use super::watch::Watch;
use crate::protocol::charset::Charset;
use crate::protocol::coding::Decoder;
use crate::protocol::scan::Scanner;
use crate::protocol::tree::{self, Document};

/// A body that ends within this many bytes is judged whole (F-9).
pub const JUDGED_WHOLE: usize = 4096;

/// The host's answer while it is held.
pub(super) struct Held {
    pub(super) status: u16,
    /// The head's; `None` if the caller keeps the head and lends it for the verdict.
    pub(super) headers: Option<HeaderMap>,
    pub(super) pieces: Vec<Bytes>,
    /// Bytes as they came, and after decoding.
    pub(super) raw_len: usize,
    pub(super) len: usize,
    coding: Option<Decoder>,
    /// The content coding is unknown, or the bytes are not in it.
    pub(super) undecodable: bool,
    pub(super) charset: Charset,
    scanner: Scanner,
    /// What was scanned so far tells; nothing while [`Held::unscanned`].
    pub(super) watch: Watch,
    /// All that came is in `pieces` and short enough to be judged whole: scanning can wait, and an error that is
    /// read as a document at its end needs none.
    unscanned: bool,
    /// The bytes so far are no JSON.
    pub(super) malformed: bool,
    /// Decoded bytes, when they are others than the raw ones.
    pub(super) decoded: Vec<u8>,
    /// More was decoded than the intake allows.
    pub(super) over: bool,
    /// It is called a stream, on HTTP+JSON, but began as a document (S-1): what becomes of it should it be none, and
    /// how many of the pieces that stream has seen already.
    pub(super) stream: Option<(Box<Stream>, usize)>,
    /// It is called a stream and coded: what it is, its first decoded bytes tell (S-1).
    pub(super) is_undecided: bool,
    /// It was no JSON up to where a body is judged whole.
    malformed_early: bool,
}

impl Held {
    pub(super) fn new(status: u16, headers: &HeaderMap, keep: bool) -> Self {
        let (coding, undecodable) = match Decoder::for_head(headers) {
            Ok(coding) => (coding, false),
            Err(_) => (None, true),
        };
        Self {
            status,
            headers: keep.then(|| headers.clone()),
            unscanned: coding.is_none(),
            pieces: Vec::new(),
            raw_len: 0,
            len: 0,
            coding,
            undecodable,
            charset: Charset::default(),
            scanner: Scanner::new(),
            watch: Watch::default(),
            malformed: false,
            decoded: Vec::new(),
            over: false,
            stream: None,
            is_undecided: false,
            malformed_early: false,
        }
    }

    /// What is called a stream and coded.
    pub(super) fn coded(status: u16, headers: &HeaderMap, stream: Stream) -> Self {
        let stream = Some((Box::new(stream), 0));
        Self { stream, is_undecided: true, ..Self::new(status, headers, true) }
    }

    /// Whether it begins as a document, if that is known by now.
    pub(super) fn begins_as_document(&self) -> Option<bool> {
        if self.undecodable { Some(false) } else { begins_as_document(0, &self.decoded) }
    }

    /// Takes the next bytes and scans as much of them as the verdict needs.
    pub(super) fn take(&mut self, bytes: Bytes, intake: usize) {
        self.raw_len += bytes.len();
        match self.coding.take() {
            None if self.unscanned && self.raw_len <= JUDGED_WHOLE.min(intake) => self.len = self.raw_len,
            None => {
                self.catch_up();
                self.scan(&bytes, intake);
                self.over |= self.len > intake;
            }
            Some(coding) if self.undecodable => {
                // None of it is read any more, but endless input must not pile up.
                self.coding = Some(coding);
                self.over |= self.raw_len > intake;
            }
            Some(mut coding) => {
                let result = coding.feed(&bytes, &mut |piece| {
                    self.scan(piece, intake);
                    self.decoded.extend_from_slice(piece);
                    self.over |= self.len > intake;
                    !self.over
                });
                self.undecodable |= result.is_err();
                self.coding = Some(coding);
                // Endless input that decodes to nothing must not pile up either.
                self.over |= self.raw_len > intake;
            }
        }
        self.pieces.push(bytes);
    }

    /// Gives up the bytes; what was read of them stays known.
    pub(super) fn let_go(&mut self) {
        self.pieces = Vec::new();
        self.decoded = Vec::new();
        self.raw_len = 0;
    }

    /// Scans what waits for it.
    pub(super) fn catch_up(&mut self) {
        if std::mem::take(&mut self.unscanned) {
            let pieces = std::mem::take(&mut self.pieces);
            for piece in &pieces {
                self.scan_part(piece);
            }
            self.pieces = pieces;
        }
    }

    /// The body is over and is to be judged from its document alone.
    pub(super) fn finish_unscanned(&mut self) {
        for piece in &self.pieces {
            self.charset.feed(piece, &mut |_| {});
        }
        self.charset.finish(&mut |_| {});
    }

    /// The body, which is over, says `error` and was not scanned: it is all but certainly no success.
    pub(super) fn looks_like_error(&self) -> bool {
        static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));
        match self.pieces.as_slice() {
            [whole] => self.unscanned && ERROR.find(whole).is_some(),
            _ => false,
        }
    }

    fn scan(&mut self, bytes: &[u8], intake: usize) {
        // What is decided at a boundary is decided by the bytes before it, however they were split:
        // the first bytes are judged whole if nothing follows, and past the intake nothing is read.
        let room = |limit: usize| limit.saturating_sub(self.len).min(bytes.len());
        let (before, after) = bytes.split_at_checked(room(JUDGED_WHOLE)).unwrap_or_default();
        let after = after.get(..room(intake).saturating_sub(before.len())).unwrap_or_default();
        let is_longer = self.len + bytes.len() > JUDGED_WHOLE;
        let was_longer = self.len > JUDGED_WHOLE;
        self.len += bytes.len();
        self.scan_part(before);
        if is_longer && !was_longer {
            self.watch.settle();
            self.malformed_early = self.malformed;
        }
        if !after.is_empty() && !self.watch.flows() {
            let was_malformed = self.malformed;
            self.scan_part(after);
            // What follows the `result` might as well have come in the next piece, unread.
            self.malformed = was_malformed || self.malformed && !self.watch.flows();
        }
    }

    fn scan_part(&mut self, bytes: &[u8]) {
        let Self { charset, scanner, watch, malformed, .. } = self;
        charset.feed(bytes, &mut |text| {
            *malformed = *malformed || scanner.feed(text, watch).is_err();
        });
    }

    pub(super) fn finish_scan(&mut self) {
        self.catch_up();
        let Self { charset, scanner, watch, malformed, .. } = self;
        charset.finish(&mut |text| {
            *malformed = *malformed || scanner.feed(text, watch).is_err();
        });
        *malformed = *malformed || scanner.finish(watch).is_err();
    }

    /// F-9: more than is judged whole is there, and a success has begun.
    pub(super) fn flows(&self) -> bool {
        // What turned out to be broken behind it might as well have come later; in an unknown coding nothing was read.
        let was_read = !self.undecodable || self.coding.is_some();
        self.len > JUDGED_WHOLE && was_read && !self.malformed && self.watch.flows()
    }

    /// The same where a success has no `result`: it begins with something, and not with an error (E-4).
    pub(super) fn flows_without_result(&self) -> bool {
        self.len > JUDGED_WHOLE && (self.malformed || self.watch.begins_without_error())
    }

    /// What is called a stream is no document after all, so it is read as one, in any split (F-9): a client would find
    /// events in it.
    pub(super) fn is_stream_after_all(&self) -> bool {
        let is_none = self.malformed_early || self.malformed && !self.watch.begins_without_error();
        self.stream.is_some() && self.len > JUDGED_WHOLE && is_none
    }

    /// The head calls it JSON as an error's head must, and it is written in plain UTF-8 (E-9).
    pub(super) fn is_plain_json(&self, headers: &HeaderMap, binding: Binding) -> bool {
        let media = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let media: String = media.to_ascii_lowercase().split_whitespace().collect();
        let is_json = match binding {
            Binding::JsonRpc => {
                matches!(media.as_str(), "application/json" | "application/json;charset=utf-8")
            }
            Binding::HttpJson => media == "application/json",
        };
        is_json && !self.charset.is_odd()
    }

    /// The whole body as one JSON document, if it is one; whether its bytes are plain UTF-8.
    pub(super) fn document(&mut self) -> Option<Document> {
        if self.undecodable {
            return None;
        }
        let bytes = match (&self.coding, self.pieces.as_slice()) {
            (Some(_), _) => Bytes::from(std::mem::take(&mut self.decoded)),
            (None, [one]) => one.clone(),
            (None, pieces) => Bytes::from(pieces.concat()),
        };
        if !self.charset.is_odd() {
            return tree::parse(&bytes).ok();
        }
        let mut text = Vec::with_capacity(bytes.len());
        let mut charset = Charset::default();
        charset.feed(&bytes, &mut |piece| text.extend_from_slice(piece));
        charset.finish(&mut |piece| text.extend_from_slice(piece));
        tree::parse(&text).ok().map(|document| Document { odd: true, ..document })
    }
}
