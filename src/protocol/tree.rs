//! A small JSON tree for bodies that were read whole: members in order, duplicates kept, numbers as
//! they were spelled. Built on [`super::scan`], so that there is one grammar in the house.

use std::borrow::Cow;

use compact_str::{CompactString, ToCompactString};

use super::scan::{DEPTH_COMMON, Kind, Malformed, Scanner, Visitor, plain_run};

/// A name or a text. Nearly all are short or written in the program: neither kind costs an allocation.
pub type Text = CompactString;

/// One JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Null,
    Bool(bool),
    /// As it was spelled.
    Number(Text),
    /// Decoded.
    String(Text),
    Array(Vec<Node>),
    Object(Vec<(Text, Node)>),
    /// A token that is written as it is: a request's id, which is never re-escaped.
    Raw(Text),
    /// Nested deeper than common parsers read; never written.
    Opaque,
}

impl Node {
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// A string of the program's.
    #[must_use]
    pub const fn word(text: &'static str) -> Self {
        Self::String(Text::const_new(text))
    }

    #[must_use]
    pub fn integer(number: i64) -> Self {
        Self::Number(number.to_compact_string())
    }

    /// An object of these members.
    #[must_use]
    pub fn object<const N: usize>(members: [(&'static str, Node); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The last member of this name, as most parsers read duplicates.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.members().iter().rev().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }

    /// The members of an object; nothing of anything else.
    #[must_use]
    pub fn members(&self) -> &[(Text, Node)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// The elements of an array; nothing of anything else.
    #[must_use]
    pub fn elements(&self) -> &[Node] {
        if let Self::Array(elements) = self { elements } else { &[] }
    }

    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether two members of one object, here or below, have the same name.
    #[must_use]
    pub fn has_duplicates(&self) -> bool {
        match self {
            Self::Array(elements) => elements.iter().any(Self::has_duplicates),
            Self::Object(members) => {
                has_twins(members) || members.iter().any(|(_, value)| value.has_duplicates())
            }
            _ => false,
        }
    }

    /// Writes it compact.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null | Self::Opaque => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(raw) | Self::Raw(raw) => out.extend_from_slice(raw.as_bytes()),
            Self::String(text) => write_string(text, out),
            Self::Array(elements) => {
                out.push(b'[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Whether it is written in no more than so many bytes. Nearly always that is plain without writing it.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.most_bytes() <= bytes || self.to_bytes().len() <= bytes
    }

    /// At least as many bytes as it is written in: as if every byte of a text were escaped.
    fn most_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Opaque | Self::Bool(_) => 5,
            Self::Number(raw) | Self::Raw(raw) => raw.len(),
            Self::String(text) => 2 + 6 * text.len(),
            Self::Array(elements) => {
                2 + elements.iter().map(|element| 1 + element.most_bytes()).sum::<usize>()
            }
            Self::Object(members) => {
                let member = |(name, value): &(Text, Self)| 4 + 6 * name.len() + value.most_bytes();
                2 + members.iter().map(member).sum::<usize>()
            }
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        self.write(&mut out);
        out
    }
}

/// Whether two members have the same name.
fn has_twins(members: &[(Text, Node)]) -> bool {
    /// So few are compared with each other faster than they are sorted.
    const FEW: usize = 8;
    if members.len() <= FEW {
        let mut rest = members;
        while let [(name, _), more @ ..] = rest {
            if more.iter().any(|(other, _)| other == name) {
                return true;
            }
            rest = more;
        }
        return false;
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}

/// Writes a JSON string, quotes included.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    if plain_run(text.as_bytes()) == (text.len(), false) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

/// What a raw string token says, in place where it needs no decoding. Lone surrogates and bad UTF-8 become U+FFFD;
/// the second value tells whether there were any.
#[must_use]
pub fn decode_string(token: &[u8]) -> (Cow<'_, str>, bool) {
    let inner = token.strip_prefix(b"\"").unwrap_or(token);
    let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
    // The lossy reading is slow, and hardly ever called for.
    let text = std::str::from_utf8(inner).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Borrowed);
    let mut odd = matches!(text, Cow::Owned(_));
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return (text, odd);
    }
    let mut out = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    let mut flush = |units: &mut Vec<u16>, out: &mut String| {
        for unit in char::decode_utf16(units.drain(..)) {
            odd |= unit.is_err();
            out.push(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            flush(&mut units, &mut out);
            out.push(c);
            continue;
        }
        let escape = chars.next().unwrap_or('\\');
        if escape == 'u' {
            let hex: String = chars.by_ref().take(4).collect();
            units.push(u16::from_str_radix(&hex, 16).unwrap_or(0xfffd));
            continue;
        }
        flush(&mut units, &mut out);
        out.push(match escape {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            other => other,
        });
    }
    flush(&mut units, &mut out);
    (Cow::Owned(out), odd)
}

/// A document that was read whole.
#[derive(Debug)]
pub struct Document {
    pub root: Node,
    /// Parsers disagree about it: bad UTF-8, lone surrogates, `NaN`, nesting over 128, or duplicates.
    pub odd: bool,
}

/// Reads a whole UTF-8 document.
///
/// # Errors
/// It is not JSON.
pub fn parse(bytes: &[u8]) -> Result<Document, Malformed> {
    let mut scanner = Scanner::new();
    let mut builder = Builder { whole: std::str::from_utf8(bytes).unwrap_or_default(), ..Builder::default() };
    scanner.feed(bytes, &mut builder)?;
    scanner.finish(&mut builder)?;
    let root = builder.root.ok_or(Malformed)?;
    let odd = scanner.is_odd() || builder.odd || root.has_duplicates();
    Ok(Document { root, odd })
}

/// A container being filled.
#[derive(Debug)]
struct Open {
    node: Node,
    name: Text,
}

#[derive(Debug, Default)]
struct Builder<'a> {
    /// The document, if all of it is UTF-8.
    whole: &'a str,
    open: Vec<Open>,
    token: Vec<u8>,
    /// The string that was read last, if it needed no decoding.
    plain: Option<Text>,
    name: Text,
    root: Option<Node>,
    odd: bool,
}

impl Builder<'_> {
    fn put(&mut self, value: Node) {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Open { node: Node::Array(elements), .. }) => elements.push(value),
            Some(Open { node: Node::Object(members), .. }) => {
                members.push((std::mem::take(&mut self.name), value));
            }
            Some(_) => {}
        }
    }

    fn decoded(&mut self) -> Text {
        if let Some(plain) = self.plain.take() {
            return plain;
        }
        let (text, odd) = decode_string(&self.token);
        self.odd |= odd;
        text.into()
    }

    /// Takes a text that has no escape in it.
    fn take_plain(&mut self, text: &[u8]) {
        match part(self.whole, text).map_or_else(|| std::str::from_utf8(text), Ok) {
            Ok(text) => self.plain = Some(text.into()),
            Err(_) => self.token.extend_from_slice(text),
        }
    }
}

/// These bytes as the text they are, if they lie in `whole`, which was found to be text: there are many in a document,
/// and to look at each once more costs as much as to copy it.
fn part<'a>(whole: &'a str, bytes: &[u8]) -> Option<&'a str> {
    let at = bytes.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    whole.get(at..at.checked_add(bytes.len())?)
}

impl Visitor for Builder<'_> {
    const RAW_NAMES: bool = true;

    fn name(&mut self, depth: usize, name: Option<&[u8]>) {
        if let Some(name) = name.filter(|_| self.token.is_empty()) {
            self.take_plain(name);
        }
        if depth <= DEPTH_COMMON {
            self.name = self.decoded();
        }
        self.token.clear();
        self.plain = None;
    }

    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        self.token.clear();
        if depth < DEPTH_COMMON {
            let node = match kind {
                Kind::Object => Node::Object(Vec::new()),
                Kind::Array => Node::Array(Vec::new()),
                _ => return true,
            };
            self.open.push(Open { node, name: std::mem::take(&mut self.name) });
            return false;
        }
        depth == DEPTH_COMMON && !matches!(kind, Kind::Object | Kind::Array)
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.token.extend_from_slice(bytes);
    }

    fn text(&mut self, _raw: &[u8], text: &[u8]) {
        self.take_plain(text);
    }

    fn end(&mut self, depth: usize, kind: Kind) {
        if depth > DEPTH_COMMON {
            self.token.clear();
            self.plain = None;
            return;
        }
        let value = match kind {
            Kind::Object | Kind::Array if depth == DEPTH_COMMON => Node::Opaque,
            Kind::Object | Kind::Array => {
                let Some(Open { node, name }) = self.open.pop() else { return };
                self.name = name;
                node
            }
            Kind::String => Node::String(self.decoded()),
            Kind::Number => Node::Number(Text::from_utf8_lossy(&self.token)),
            Kind::True => Node::Bool(true),
            Kind::False => Node::Bool(false),
            Kind::Null => Node::Null,
        };
        self.token.clear();
        self.put(value);
    }
}
