//! An incremental JSON reader: bytes in, in any split, member names and raw tokens out, never a tree.
//!
//! It accepts RFC 8259 and, noted as a [`Quirk`], what lenient peers also accept (`NaN`, bad UTF-8
//! inside strings, control characters there, lone surrogates), because a peer that reads such a document must not see another
//! call or another answer than the proxy does. Memory is bounded: the nesting is one bit a level, a
//! name is kept to [`NAME_MAX`] bytes, and raw tokens are handed on, not kept.

use memchr::memchr2;

/// Longest member name, in decoded bytes, that is handed to a visitor.
pub const NAME_MAX: usize = 64;
/// Containers that may be open at once; a deeper document is malformed.
pub const DEPTH_MAX: usize = 1 << 20;
/// Nesting that common parsers accept; deeper is a [`Quirk::Deep`].
pub const DEPTH_COMMON: usize = 128;

/// What kind of value begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// The document is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// What a document is besides well-formed: parsers disagree about these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// `NaN`, `Infinity` or `-Infinity` as a number.
    NotANumber = 1,
    /// An escape for one half of a surrogate pair.
    LoneSurrogate = 2,
    /// More than [`DEPTH_COMMON`] containers open at once.
    Deep = 4,
    /// A control character inside a string that is not escaped.
    BareControl = 8,
}

/// What wants to know about a document. `depth` is 0 for the document's own value and 1 for a member
/// or element of it.
pub trait Visitor {
    /// Hand the raw bytes of member names to [`Visitor::raw`] first, but for those that need no decoding.
    const RAW_NAMES: bool = false;
    /// A member's name, decoded; `None` if longer than [`NAME_MAX`].
    fn name(&mut self, depth: usize, name: Option<&[u8]>);
    /// A value begins. True if the raw bytes of this scalar are wanted (never asked for containers).
    fn begin(&mut self, depth: usize, kind: Kind) -> bool;
    /// The next raw bytes of the wanted scalar, quotes and escapes included.
    fn raw(&mut self, bytes: &[u8]);
    /// All of a wanted string, if it came whole and needs no decoding: its raw bytes and what is between the quotes.
    fn text(&mut self, raw: &[u8], _text: &[u8]) {
        self.raw(raw);
    }
    /// The value is complete.
    fn end(&mut self, depth: usize, kind: Kind);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must follow.
    Value,
    /// After `[`: a value or `]`.
    FirstElement,
    /// After `{`: a name or `}`.
    FirstName,
    /// After `,` in an object.
    Name,
    Colon,
    /// After a value inside a container.
    Comma,
    Text(Escape),
    Number(Digits),
    Word(&'static [u8], Kind),
    /// The document is complete; white space may follow.
    Done,
    Broken,
}

/// Where in a string the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Backslash,
    /// Digits still to come, value so far.
    Hex(u8, u16),
}

/// Where in a number the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    PowerSign,
    Power,
}

impl Digits {
    /// The next place after `byte`, or `None` if the number cannot go on with it.
    fn next(self, byte: u8) -> Option<Self> {
        use Digits::{Exponent, Fraction, Integer, Minus, Point, Power, PowerSign, Zero};
        Some(match (self, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Integer, b'0'..=b'9') => Integer,
            (Zero | Integer, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Integer | Fraction, b'e' | b'E') => Exponent,
            (Exponent, b'+' | b'-') => PowerSign,
            (Exponent | PowerSign | Power, b'0'..=b'9') => Power,
            _ => return None,
        })
    }

    fn is_complete(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Power)
    }
}

/// Which containers are open, one bit each: set for an object.
#[derive(Debug, Default, Clone)]
struct Nest {
    depth: usize,
    top: u64,
    below: Vec<u64>,
}

impl Nest {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
            self.top = 0;
        }
        self.top = self.top << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.top >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
    }

    fn in_object(&self) -> bool {
        self.top & 1 == 1
    }
}

/// A member name being decoded.
#[derive(Debug, Clone)]
struct NameBuffer {
    bytes: [u8; NAME_MAX],
    len: usize,
    too_long: bool,
}

impl NameBuffer {
    fn clear(&mut self) {
        self.len = 0;
        self.too_long = false;
    }

    fn push(&mut self, more: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + more.len()) {
            Some(room) => {
                room.copy_from_slice(more);
                self.len += more.len();
            }
            None => self.too_long = true,
        }
    }

    fn is_empty(&self) -> bool {
        self.len == 0 && !self.too_long
    }

    fn push_char(&mut self, c: char) {
        self.push(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn get(&self) -> Option<&[u8]> {
        if self.too_long { None } else { self.bytes.get(..self.len) }
    }
}

/// One in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// The high bit of each byte that is less than `bound`, which is at most 128; above the first of them perhaps those of
/// others, too.
const fn less(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word & (ONES << 7)
}

/// Likewise of each byte that is `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    less(word ^ (ONES * byte as u64), 1)
}

/// How many bytes of a string come before its end or an escape, and whether control characters are
/// among them.
pub(super) fn plain_run(bytes: &[u8]) -> (usize, bool) {
    /// Names and most values are shorter: they are done before a search by vectors has set out.
    const SHORT: usize = 24;
    let (near, far) = bytes.split_at_checked(SHORT).unwrap_or((bytes, &[]));
    let (words, left) = near.as_chunks::<8>();
    let mut has_control = false;
    let mut at = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let (stops, controls) = (equal(word, b'"') | equal(word, b'\\'), less(word, b' '));
        if let Some(before) = (stops & stops.wrapping_neg()).checked_sub(1) {
            return (at + stops.trailing_zeros() as usize / 8, has_control || controls & before != 0);
        }
        has_control |= controls != 0;
        at += 8;
    }
    for byte in left {
        if matches!(byte, b'"' | b'\\') {
            return (at, has_control);
        }
        has_control |= *byte < b' ';
        at += 1;
    }
    let stop = memchr2(b'"', b'\\', far).unwrap_or(far.len());
    let far = far.get(..stop).unwrap_or(far);
    // Without an early end, so that the compiler makes vectors of it.
    has_control |= far.iter().map(|byte| u8::from(*byte < b' ')).fold(0, |seen, is| seen | is) != 0;
    (at + stop, has_control)
}

/// A string's text and what follows its closing quote, if all of it is here and nothing in it is odd.
fn plain_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, has_control) = plain_run(bytes);
    let (text, rest) = bytes.split_at_checked(length)?;
    match rest {
        [b'"', rest @ ..] if !has_control => Some((text, rest)),
        _ => None,
    }
}

/// The reader. One document; feed it in any split.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    nest: Nest,
    name: NameBuffer,
    /// The string being read is a member's name.
    in_name: bool,
    /// The scalar being read is wanted raw.
    wanted: bool,
    /// First half of a surrogate pair, waiting for the second.
    high: Option<u16>,
    quirks: u8,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Value,
            nest: Nest::default(),
            name: NameBuffer { bytes: [0; NAME_MAX], len: 0, too_long: false },
            in_name: false,
            wanted: false,
            high: None,
            quirks: 0,
        }
    }

    /// The document is complete and only white space followed so far.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks & quirk as u8 != 0
    }

    /// Any quirk at all.
    #[must_use]
    pub fn is_odd(&self) -> bool {
        self.quirks != 0
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// The document is not JSON; every later call says so too.
    pub fn feed<V: Visitor>(&mut self, bytes: &[u8], visitor: &mut V) -> Result<(), Malformed> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            match self.state {
                State::Text(escape) => rest = self.text(escape, rest, visitor)?,
                State::Number(digits) => {
                    if let Some(next) = digits.next(byte) {
                        self.state = State::Number(next);
                        if self.wanted {
                            visitor.raw(&[byte]);
                        }
                        rest = after;
                    } else if digits == Digits::Minus && byte == b'I' {
                        self.word(b"nfinity", Kind::Number, byte, visitor);
                        self.quirks |= Quirk::NotANumber as u8;
                        rest = after;
                    } else if digits.is_complete() {
                        self.close(Kind::Number, visitor); // the byte belongs to what follows
                    } else {
                        return self.broken();
                    }
                }
                State::Word(left, kind) if !self.wanted && rest.starts_with(left) => {
                    rest = rest.get(left.len()..).unwrap_or_default();
                    self.close(kind, visitor);
                }
                State::Word(left, kind) => {
                    let Some((&want, left)) = left.split_first() else { return self.broken() };
                    if byte != want {
                        return self.broken();
                    }
                    if self.wanted {
                        visitor.raw(&[byte]);
                    }
                    rest = after;
                    if left.is_empty() {
                        self.close(kind, visitor);
                    } else {
                        self.state = State::Word(left, kind);
                    }
                }
                _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => rest = after,
                State::Value | State::FirstElement if byte == b'"' => {
                    rest = self.open_text(rest, after, visitor);
                }
                State::Value => {
                    self.open(byte, visitor)?;
                    rest = after;
                }
                State::FirstElement => {
                    if byte == b']' {
                        self.close_container(Kind::Array, visitor);
                    } else {
                        self.open(byte, visitor)?;
                    }
                    rest = after;
                }
                State::FirstName | State::Name => {
                    match byte {
                        b'"' => {
                            rest = self.open_name(after, visitor);
                            continue;
                        }
                        b'}' if self.state == State::FirstName => {
                            self.close_container(Kind::Object, visitor);
                        }
                        _ => return self.broken(),
                    }
                    rest = after;
                }
                State::Colon => {
                    if byte != b':' {
                        return self.broken();
                    }
                    self.state = State::Value;
                    rest = after;
                }
                State::Comma => {
                    match (byte, self.nest.in_object()) {
                        (b',', true) => {
                            if let [b'"', name @ ..] = after {
                                rest = self.open_name(name, visitor);
                                continue;
                            }
                            self.state = State::Name;
                        }
                        (b',', false) => self.state = State::Value,
                        (b'}', true) => self.close_container(Kind::Object, visitor),
                        (b']', false) => self.close_container(Kind::Array, visitor),
                        _ => return self.broken(),
                    }
                    rest = after;
                }
                State::Done | State::Broken => return self.broken(),
            }
        }
        Ok(())
    }

    /// The document ends here.
    ///
    /// # Errors
    /// It is not a complete document.
    pub fn finish<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), Malformed> {
        match self.state {
            State::Done => Ok(()),
            State::Number(digits) if self.nest.depth == 0 && digits.is_complete() => {
                self.close(Kind::Number, visitor);
                Ok(())
            }
            _ => self.broken(),
        }
    }

    fn broken(&mut self) -> Result<(), Malformed> {
        self.state = State::Broken;
        Err(Malformed)
    }

    fn open<V: Visitor>(&mut self, byte: u8, visitor: &mut V) -> Result<(), Malformed> {
        let depth = self.nest.depth;
        match byte {
            b'{' | b'[' => {
                if depth >= DEPTH_MAX {
                    return self.broken();
                }
                let object = byte == b'{';
                visitor.begin(depth, if object { Kind::Object } else { Kind::Array });
                self.nest.push(object);
                if self.nest.depth > DEPTH_COMMON {
                    self.quirks |= Quirk::Deep as u8;
                }
                self.state = if object { State::FirstName } else { State::FirstElement };
            }
            b'-' | b'0'..=b'9' => {
                self.wanted = visitor.begin(depth, Kind::Number);
                if self.wanted {
                    visitor.raw(&[byte]);
                }
                self.state = State::Number(match byte {
                    b'-' => Digits::Minus,
                    b'0' => Digits::Zero,
                    _ => Digits::Integer,
                });
            }
            b't' => self.begin_word(b"rue", Kind::True, byte, visitor),
            b'f' => self.begin_word(b"alse", Kind::False, byte, visitor),
            b'n' => self.begin_word(b"ull", Kind::Null, byte, visitor),
            b'N' => {
                self.quirks |= Quirk::NotANumber as u8;
                self.begin_word(b"aN", Kind::Number, byte, visitor);
            }
            b'I' => {
                self.quirks |= Quirk::NotANumber as u8;
                self.begin_word(b"nfinity", Kind::Number, byte, visitor);
            }
            _ => return self.broken(),
        }
        Ok(())
    }

    /// A string begins with the first of these bytes; returns what is left after as much of it as is
    /// here whole.
    fn open_text<'a, V: Visitor>(&mut self, rest: &'a [u8], after: &'a [u8], visitor: &mut V) -> &'a [u8] {
        self.wanted = visitor.begin(self.nest.depth, Kind::String);
        if let Some((text, left)) = plain_text(after) {
            if self.wanted {
                visitor.text(rest.get(..text.len() + 2).unwrap_or(rest), text);
            }
            self.close(Kind::String, visitor);
            return left;
        }
        self.in_name = false;
        self.high = None;
        if self.wanted {
            visitor.raw(b"\"");
        }
        self.state = State::Text(Escape::No);
        after
    }

    fn begin_word<V: Visitor>(&mut self, left: &'static [u8], kind: Kind, byte: u8, visitor: &mut V) {
        self.wanted = visitor.begin(self.nest.depth, kind);
        self.word(left, kind, byte, visitor);
    }

    fn word<V: Visitor>(&mut self, left: &'static [u8], kind: Kind, byte: u8, visitor: &mut V) {
        if self.wanted {
            visitor.raw(&[byte]);
        }
        self.state = State::Word(left, kind);
    }

    /// A name begins before these bytes; returns what is left after as much of it as is here whole.
    fn open_name<'a, V: Visitor>(&mut self, after: &'a [u8], visitor: &mut V) -> &'a [u8] {
        // Nearly every name is here whole, without an escape, and a colon follows it.
        if let Some((name, [b':', value @ ..])) = plain_text(after)
            && name.len() <= NAME_MAX
        {
            visitor.name(self.nest.depth, Some(name));
            self.state = State::Value;
            return value;
        }
        self.in_name = true;
        self.high = None;
        self.name.clear();
        self.wanted = V::RAW_NAMES;
        if self.wanted {
            visitor.raw(b"\"");
        }
        self.state = State::Text(Escape::No);
        after
    }

    fn close<V: Visitor>(&mut self, kind: Kind, visitor: &mut V) {
        let depth = self.nest.depth;
        self.state = if depth == 0 { State::Done } else { State::Comma };
        visitor.end(depth, kind);
    }

    fn close_container<V: Visitor>(&mut self, kind: Kind, visitor: &mut V) {
        self.nest.pop();
        self.close(kind, visitor);
    }

    /// Reads on inside a string and returns what is left.
    fn text<'a, V: Visitor>(
        &mut self,
        escape: Escape,
        bytes: &'a [u8],
        visitor: &mut V,
    ) -> Result<&'a [u8], Malformed> {
        match escape {
            Escape::No => {
                let (stop, has_control) = plain_run(bytes);
                let (plain, rest) = bytes.split_at(stop);
                if has_control {
                    self.quirks |= Quirk::BareControl as u8;
                }
                if !plain.is_empty() {
                    self.lone();
                }
                let Some((&byte, after)) = rest.split_first() else {
                    if self.in_name {
                        self.name.push(plain);
                    }
                    if self.wanted {
                        visitor.raw(plain);
                    }
                    return Ok(rest);
                };
                if self.wanted {
                    visitor.raw(bytes.get(..=stop).unwrap_or(plain));
                }
                if byte == b'\\' {
                    if self.in_name {
                        self.name.push(plain);
                    }
                    self.state = State::Text(Escape::Backslash);
                    return Ok(after);
                }
                self.lone();
                if !self.in_name {
                    self.close(Kind::String, visitor);
                    return Ok(after);
                }
                if self.name.is_empty() && plain.len() <= NAME_MAX {
                    // The whole name is here: it need not be put together.
                    visitor.name(self.nest.depth, Some(plain));
                } else {
                    self.name.push(plain);
                    visitor.name(self.nest.depth, self.name.get());
                }
                // What nearly always follows needs no turn of its own.
                if let [b':', after @ ..] = after {
                    self.state = State::Value;
                    return Ok(after);
                }
                self.state = State::Colon;
                Ok(after)
            }
            Escape::Backslash => {
                let Some((&byte, after)) = bytes.split_first() else { return Ok(bytes) };
                let plain = match byte {
                    b'"' | b'\\' | b'/' => byte,
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'u' => 0,
                    _ => {
                        self.state = State::Broken;
                        return Err(Malformed);
                    }
                };
                if self.wanted {
                    visitor.raw(&[byte]);
                }
                if byte == b'u' {
                    self.state = State::Text(Escape::Hex(4, 0));
                } else {
                    self.lone();
                    if self.in_name {
                        self.name.push(&[plain]);
                    }
                    self.state = State::Text(Escape::No);
                }
                Ok(after)
            }
            Escape::Hex(left, value) => {
                let Some((&byte, after)) = bytes.split_first() else { return Ok(bytes) };
                let Some(digit) = char::from(byte).to_digit(16).and_then(|d| u16::try_from(d).ok()) else {
                    self.state = State::Broken;
                    return Err(Malformed);
                };
                if self.wanted {
                    visitor.raw(&[byte]);
                }
                let value = value << 4 | digit;
                if left > 1 {
                    self.state = State::Text(Escape::Hex(left - 1, value));
                } else {
                    self.unit(value);
                    self.state = State::Text(Escape::No);
                }
                Ok(after)
            }
        }
    }

    /// A UTF-16 unit written as an escape.
    fn unit(&mut self, unit: u16) {
        match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(unit) - 0xdc00);
                if self.in_name {
                    self.name.push_char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
            (waiting, unit) => {
                if waiting.is_some() {
                    self.high = waiting;
                    self.lone();
                }
                match unit {
                    0xd800..=0xdbff => self.high = Some(unit),
                    0xdc00..=0xdfff => {
                        self.high = Some(unit);
                        self.lone();
                    }
                    _ if self.in_name => self
                        .name
                        .push_char(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
                    _ => {}
                }
            }
        }
    }

    /// Something else than the second half follows a first half, if one was waiting.
    fn lone(&mut self) {
        if self.high.take().is_some() {
            self.quirks |= Quirk::LoneSurrogate as u8;
            if self.in_name {
                self.name.push_char(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever follows the end of a string says nothing of the string.
    #[test]
    fn a_run_ends_at_a_quote_or_an_escape() {
        let odd = [0, 0x1f, b' ', b'!', b'"', b'#', b'[', b'\\', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff];
        for length in 0..40 {
            for first in 0..length {
                for second in first..length {
                    for (one, other) in odd.iter().flat_map(|one| odd.map(|other| (*one, other))) {
                        let mut bytes = vec![b'x'; length];
                        bytes[second] = other;
                        bytes[first] = one;
                        let stop = bytes.iter().position(|byte| b"\"\\".contains(byte)).unwrap_or(length);
                        let has_control = bytes[..stop].iter().any(|byte| *byte < b' ');
                        assert_eq!(plain_run(&bytes), (stop, has_control), "{bytes:?}");
                    }
                }
            }
        }
    }
}
