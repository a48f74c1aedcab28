//! Which Unicode encoding JSON bytes are in, and those bytes as UTF-8 (F-6). JSON's first two
//! characters are ASCII, so the place of the zero bytes tells, with or without a byte order mark.

/// The encodings JSON is met in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16 { big: bool },
    Utf32 { big: bool },
}

/// Turns a body's bytes into UTF-8, piece by piece. UTF-8 goes through without a copy, bad or not.
#[derive(Debug, Default)]
pub struct Charset {
    encoding: Option<Encoding>,
    /// The first bytes, until they tell the encoding, then those of a character that is cut.
    pending: Vec<u8>,
    high: Option<u16>,
    odd: bool,
}

impl Charset {
    /// The bytes were not plain UTF-8: there was a byte order mark or another encoding.
    #[must_use]
    pub fn is_odd(&self) -> bool {
        self.odd
    }

    /// Hands on the next bytes as UTF-8.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        if self.encoding == Some(Encoding::Utf8) {
            return sink(bytes);
        }
        if self.encoding.is_none() {
            // The usual first byte of a body, and a second that is no zero, need no waiting.
            if self.pending.is_empty()
                && let [first, second, ..] = bytes
                && first.is_ascii()
                && *first != 0
                && *second != 0
            {
                self.encoding = Some(Encoding::Utf8);
                return sink(bytes);
            }
            self.pending.extend_from_slice(bytes);
            if self.pending.len() >= 4 {
                self.detect(sink);
            }
            return;
        }
        self.pending.extend_from_slice(bytes);
        self.convert(sink);
    }

    /// No more bytes come.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if self.encoding.is_none() {
            self.detect(sink);
        }
        if !self.pending.is_empty() || self.high.take().is_some() {
            self.pending.clear();
            self.odd = true;
            sink("\u{fffd}".as_bytes());
        }
    }

    fn detect(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let (encoding, mark) = match self.pending.as_slice() {
            [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
            [0xff, 0xfe, 0, 0, ..] => (Encoding::Utf32 { big: false }, 4),
            [0, 0, 0xfe, 0xff, ..] => (Encoding::Utf32 { big: true }, 4),
            [0xff, 0xfe, ..] => (Encoding::Utf16 { big: false }, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16 { big: true }, 2),
            [0, 0, 0, _, ..] => (Encoding::Utf32 { big: true }, 0),
            [_, 0, 0, 0, ..] => (Encoding::Utf32 { big: false }, 0),
            [0, _, ..] => (Encoding::Utf16 { big: true }, 0),
            [_, 0, ..] => (Encoding::Utf16 { big: false }, 0),
            _ => (Encoding::Utf8, 0),
        };
        self.odd |= mark > 0 || encoding != Encoding::Utf8;
        self.encoding = Some(encoding);
        self.pending.drain(..mark);
        self.convert(sink);
    }

    fn convert(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let mut out = String::new();
        let used = match self.encoding {
            None => 0,
            Some(Encoding::Utf8) => {
                if !self.pending.is_empty() {
                    sink(&self.pending);
                }
                self.pending = Vec::new();
                return;
            }
            Some(Encoding::Utf16 { big }) => {
                let (units, rest) = self.pending.as_chunks::<2>();
                for unit in units {
                    let unit = if big { u16::from_be_bytes(*unit) } else { u16::from_le_bytes(*unit) };
                    utf16(&mut self.high, unit, &mut out);
                }
                self.pending.len() - rest.len()
            }
            Some(Encoding::Utf32 { big }) => {
                let (units, rest) = self.pending.as_chunks::<4>();
                for unit in units {
                    let unit = if big { u32::from_be_bytes(*unit) } else { u32::from_le_bytes(*unit) };
                    out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                self.pending.len() - rest.len()
            }
        };
        self.pending.drain(..used);
        if !out.is_empty() {
            sink(out.as_bytes());
        }
    }
}

fn utf16(high: &mut Option<u16>, unit: u16, out: &mut String) {
    if let Some(first) = high.take() {
        if let Some(Ok(c)) = char::decode_utf16([first, unit]).next() {
            out.push(c);
            return;
        }
        out.push(char::REPLACEMENT_CHARACTER);
    }
    match unit {
        0xd800..=0xdbff => *high = Some(unit),
        _ => out.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(bytes: &[u8], split: usize) -> (String, bool) {
        let mut charset = Charset::default();
        let mut out = Vec::new();
        for piece in bytes.chunks(split.max(1)) {
            charset.feed(piece, &mut |b| out.extend_from_slice(b));
        }
        charset.finish(&mut |b| out.extend_from_slice(b));
        (String::from_utf8_lossy(&out).into_owned(), charset.is_odd())
    }

    #[test]
    fn f6_every_encoding_in_every_split() {
        let text = "{\"a\":\"Tâche ✓ 😀\"}";
        let utf16: Vec<u16> = text.encode_utf16().collect();
        let mut forms: Vec<(Vec<u8>, bool)> = vec![(text.as_bytes().to_vec(), false)];
        forms.push((["\u{feff}", text].concat().into_bytes(), true));
        for mark in [true, false] {
            for big in [true, false] {
                let mut units = utf16.clone();
                let mut chars: Vec<u32> = text.chars().map(u32::from).collect();
                if mark {
                    units.insert(0, 0xfeff);
                    chars.insert(0, 0xfeff);
                }
                let bytes = |u: &u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
                forms.push((units.iter().flat_map(bytes).collect(), true));
                let bytes = |u: &u32| if big { u.to_be_bytes() } else { u.to_le_bytes() };
                forms.push((chars.iter().flat_map(bytes).collect(), true));
            }
        }
        for (bytes, odd) in forms {
            for split in [1, 2, 3, 5, 1000] {
                assert_eq!(through(&bytes, split), (text.to_owned(), odd), "{bytes:?} {split}");
            }
        }
    }

    #[test]
    fn f6_short_and_cut_texts() {
        assert_eq!(through(b"", 1), (String::new(), false));
        assert_eq!(through(b"7", 1), ("7".into(), false));
        assert_eq!(through(b"{}", 1), ("{}".into(), false));
        assert_eq!(through(b"{\0}\0\x3d\xd8", 1), ("{}\u{fffd}".into(), true));
    }
}
