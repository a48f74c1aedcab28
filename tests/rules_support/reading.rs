//! The proxy's JSON reading against serde's: what is taken and refused, which members, which tokens; and the same in
//! whatever pieces the bytes come. Shared by the property tests and the fuzz targets.

use std::fmt;

use a2a_errata::protocol::scan::{Kind, NAME_MAX, Scanner, Visitor};
use a2a_errata::protocol::tree;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::Value;

use super::strict;

/// What a reader says of a document, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `None` if longer than the scanner keeps.
    Name(usize, Option<Vec<u8>>),
    Begin(usize, Kind),
    /// A string's text, decoded; any other scalar as it is spelled, an exponent as serde spells it.
    Token(Vec<u8>),
    End(usize, Kind),
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    token: Vec<u8>,
}

impl Visitor for Log {
    fn name(&mut self, depth: usize, name: Option<&[u8]>) {
        self.events.push(Event::Name(depth, name.map(<[u8]>::to_vec)));
    }
    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        self.events.push(Event::Begin(depth, kind));
        self.token.clear();
        true
    }
    fn raw(&mut self, bytes: &[u8]) {
        self.token.extend_from_slice(bytes);
    }
    fn end(&mut self, depth: usize, kind: Kind) {
        let token = std::mem::take(&mut self.token);
        match kind {
            Kind::Object | Kind::Array => {}
            Kind::String => {
                self.events.push(Event::Token(tree::decode_string(&token).0.into_owned().into_bytes()));
            }
            Kind::Number => self.events.push(Event::Token(as_serde_spells(&token))),
            Kind::True | Kind::False | Kind::Null => self.events.push(Event::Token(token)),
        }
        self.events.push(Event::End(depth, kind));
    }
}

/// A number the way serde hands it on: `1E5` as `1e+5`.
fn as_serde_spells(number: &[u8]) -> Vec<u8> {
    let number = number.to_ascii_lowercase();
    match number.iter().position(|b| *b == b'e') {
        Some(at) if !matches!(number.get(at + 1), Some(b'+' | b'-')) => {
            [&number[..=at], b"+", &number[at + 1..]].concat()
        }
        _ => number,
    }
}

/// What the scanner made of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Scanned {
    pub ok: bool,
    /// It is one that parsers disagree about; false if it is none at all.
    pub odd: bool,
    pub events: Vec<Event>,
}

/// Feeds the pieces to a scanner.
pub fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Scanned {
    let mut scanner = Scanner::new();
    let mut log = Log::default();
    let ok = pieces.into_iter().all(|piece| scanner.feed(piece, &mut log).is_ok())
        && scanner.finish(&mut log).is_ok();
    Scanned { ok, odd: ok && scanner.is_odd(), events: log.events }
}

/// The scanner takes, refuses and tells what serde takes, refuses and tells; quirks aside, which it must note.
///
/// # Errors
/// How they differ.
pub fn scanner_agrees(text: &[u8]) -> Result<(), String> {
    let ours = scan([text]);
    let mut events = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let theirs = Walk { depth: 0, events: &mut events }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    let is_utf8 = std::str::from_utf8(text).is_ok();
    // serde's numbers come as objects with a name of its own.
    let is_plain = !String::from_utf8_lossy(text).contains("$serde_json");
    match theirs {
        Ok(()) if is_plain && (!ours.ok || ours.odd) => {
            Err(format!("serde takes it, the scanner says {ours:?}"))
        }
        Ok(()) if is_plain && ours.events != events => {
            Err(format!("serde: {events:?}\nscanner: {:?}", ours.events))
        }
        // serde has a limit of its own on nesting.
        Err(e) if is_utf8 && ours.ok && !ours.odd && !e.to_string().contains("recursion") => {
            Err(format!("the scanner takes it, serde says {e}"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The tree says what serde's does, marks as odd what is no strict JSON, and writes what it read.
///
/// # Errors
/// How they differ.
pub fn tree_agrees(text: &[u8]) -> Result<(), String> {
    match (strict::parse(text), tree::parse(text)) {
        (Ok(_), Ok(document)) if document.odd => Err("odd, but strict JSON".into()),
        (Ok(value), Ok(document)) => {
            let written = document.root.to_bytes();
            let again = serde_json::from_slice::<Value>(&written).map_err(|e| e.to_string())?;
            if again != value {
                return Err(format!("serde: {value}\ntree: {again}"));
            }
            let read = tree::parse(&written).map_err(|_| "does not read what it wrote")?;
            if read.root == document.root { Ok(()) } else { Err(format!("wrote {again}")) }
        }
        (Ok(_), Err(_)) => Err("refused, but strict JSON".into()),
        // serde's limit on nesting is one level lower than the proxy's.
        (Err(why), Ok(document)) if !document.odd && !why.contains("recursion") => {
            Err(format!("not odd, but {why}"))
        }
        (Err(_), _) => Ok(()),
    }
}

/// The scanner does not care how its bytes come.
///
/// # Errors
/// How it differs from the document in one piece.
pub fn scans_the_same(text: &[u8], pieces: &[&[u8]]) -> Result<(), String> {
    let (whole, cut) = (scan([text]), scan(pieces.iter().copied()));
    if whole == cut {
        Ok(())
    } else {
        let lengths: Vec<usize> = pieces.iter().map(|p| p.len()).collect();
        Err(format!("in pieces of {lengths:?}: {cut:?}\nwhole: {whole:?}"))
    }
}

/// The top-level members of an object as serde finds them, doubles kept, or `None` if it is no JSON object.
pub fn members(text: &[u8]) -> Option<Vec<(String, Value)>> {
    struct Members(Vec<(String, Value)>);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Collect;
            impl<'de> serde::de::Visitor<'de> for Collect {
                type Value = Members;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                    let mut members = Vec::new();
                    while let Some(member) = map.next_entry()? {
                        members.push(member);
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Collect)
        }
    }
    serde_json::from_slice::<Members>(text).ok().map(|m| m.0)
}

/// A JSON text as UTF-8, whichever of the encodings of RFC 4627 it is in; a byte order mark is taken off.
pub fn as_utf8(bytes: &[u8]) -> Vec<u8> {
    let wide = |skip: usize, size: usize, little: bool| -> Vec<u8> {
        let units = bytes.get(skip..).unwrap_or_default().chunks(size).map(|unit| {
            let order: Vec<u8> = if little { unit.iter().rev().copied().collect() } else { unit.to_vec() };
            order.iter().fold(0u32, |n, b| n << 8 | u32::from(*b))
        });
        let text: String = if size == 2 {
            let units = units.map(|u| u16::try_from(u).unwrap_or(0xfffd));
            char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
        } else {
            units.map(|u| char::from_u32(u).unwrap_or('\u{fffd}')).collect()
        };
        text.into_bytes()
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.to_vec(),
        [0xff, 0xfe, 0, 0, ..] => wide(4, 4, true),
        [0, 0, 0xfe, 0xff, ..] => wide(4, 4, false),
        [0xff, 0xfe, ..] => wide(2, 2, true),
        [0xfe, 0xff, ..] => wide(2, 2, false),
        [_, 0, 0, 0, ..] => wide(0, 4, true),
        [0, 0, 0, _, ..] => wide(0, 4, false),
        [_, 0, ..] => wide(0, 2, true),
        [0, _, ..] => wide(0, 2, false),
        _ => bytes.to_vec(),
    }
}

/// Serde's reading as events.
struct Walk<'e> {
    depth: usize,
    events: &'e mut Vec<Event>,
}

impl Walk<'_> {
    fn scalar(self, kind: Kind, token: impl Into<Vec<u8>>) {
        self.events.extend([
            Event::Begin(self.depth, kind),
            Event::Token(token.into()),
            Event::End(self.depth, kind),
        ]);
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar(Kind::Null, "null");
        Ok(())
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        let (kind, word) = if value { (Kind::True, "true") } else { (Kind::False, "false") };
        self.scalar(kind, word);
        Ok(())
    }
    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.scalar(Kind::Number, number.to_string());
        Ok(())
    }
    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.scalar(Kind::Number, number.to_string());
        Ok(())
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar(Kind::String, text);
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Walk { depth, events } = self;
        events.push(Event::Begin(depth, Kind::Array));
        while seq.next_element_seed(Walk { depth: depth + 1, events: &mut *events })?.is_some() {}
        events.push(Event::End(depth, Kind::Array));
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Walk { depth, events } = self;
        let mut first = true;
        while let Some(name) = map.next_key::<String>()? {
            if std::mem::take(&mut first) {
                if name == "$serde_json::private::Number" {
                    // With `arbitrary_precision` a number comes so, as it is spelled.
                    let spelled = map.next_value::<String>()?;
                    Walk { depth, events }.scalar(Kind::Number, spelled);
                    return Ok(());
                }
                events.push(Event::Begin(depth, Kind::Object));
            }
            let kept = (name.len() <= NAME_MAX).then(|| name.into_bytes());
            events.push(Event::Name(depth + 1, kept));
            map.next_value_seed(Walk { depth: depth + 1, events: &mut *events })?;
        }
        if first {
            events.push(Event::Begin(depth, Kind::Object));
        }
        events.push(Event::End(depth, Kind::Object));
        Ok(())
    }
}
