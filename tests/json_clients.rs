//! The proxy's JSON reading against the parsers that clients use, Python's and Node's: no client may read a document
//! that the proxy found unreadable, nor a member that it did not see. `JSON_DOCUMENTS` sets how many are tried.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::format_collect
)]

mod rules_support;

use std::path::Path;
use std::process::Command;

use a2a_errata::protocol::charset::Charset;
use a2a_errata::protocol::tree::{self, Document, Node};
use rules_support::grammar::{Change, NAMES, SCALARS, apply};
use serde_json::Value;

/// Numbers that look random and are the same every time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % n as u64).unwrap()
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Bytes that one parser or another is lenient about.
const ODD: &[&[u8]] = &[
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"-NaN",
    b"+1",
    b"01",
    b"-01",
    b"1.",
    b".5",
    b"1e",
    b"1e+",
    b"0x10",
    b"1_0",
    b"1e400",
    b"-0",
    b"-0.0",
    b"'a'",
    b"a",
    b"undefined",
    b"None",
    b"True",
    b"nul",
    b"nulll",
    b"[1,]",
    b"{\"a\":1,}",
    b"[,1]",
    b"/**/1",
    b"//\n1",
    b"#\n1",
    b"\"\\x41\"",
    b"\"\\'\"",
    b"\"\\0\"",
    b"\"\\u12\"",
    b"\"\\uD800\"",
    b"\"\\uDC00\\uD800\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\u0000\"",
    b"\"\x00\"",
    b"\"\x01\"",
    b"\"\t\"",
    b"\"\n\"",
    b"\"\r\"",
    b"\"\x7f\"",
    b"\"\xff\"",
    b"\"\xc0\x80\"",
    b"\"\xed\xa0\x80\"",
    b"\"\xf5\x80\x80\x80\"",
    b"\"\xe2\x80\xa8\"",
    b"\"\xc2\x85\"",
    b"\"\xef\xbb\xbf\"",
    b"\xc2\xa01",
    b"\x0b1",
    b"\x0c1",
    b"\x1a",
    b"\x001",
    b"1\x00",
    b"\xe2\x80\xa81",
    b"\xe3\x80\x801",
    b"{\"a\" \"b\"}",
    b"{a:1}",
    b"{1:2}",
    b"{\"a\":}",
    b"{\"a\":1 \"b\":2}",
    b"[1 2]",
    b"\"a\"\"b\"",
    b"{}{}",
    b"[]]",
    b"12 34",
    b"\"\\ud800\xed\xb0\x80\"",
    b"1E5",
    b"1e-400",
    b"100000000000000000000000000000000000000000",
    b"{\"__proto__\":{\"error\":1}}",
];

/// The bodies of the black-box cases, both sides'.
fn real() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/black_box/cases");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for side in list.as_array().unwrap().iter().flat_map(|case| [&case["upstream"], &case["request"]]) {
            if let Some(json) = side.get("json") {
                found.push(json.to_string().into_bytes());
            } else if let Some(text) = side["text"].as_str() {
                found.push(text.as_bytes().to_vec());
            }
        }
    }
    found.retain(|text| !text.is_empty() && text.len() < 2000);
    assert!(found.len() > 300);
    found
}

fn change(dice: &mut Dice) -> Change {
    let at = dice.below(1 << 16);
    let scalar = |dice: &mut Dice| dice.of(SCALARS).to_owned();
    match dice.below(12) {
        0..=2 => Change::Value(at, scalar(dice)),
        3..=5 => Change::Member(at, dice.of(NAMES), scalar(dice)),
        6 => Change::Rename(at, dice.of(NAMES)),
        7 => Change::Byte(at, u8::try_from(dice.below(256)).unwrap()),
        8 => Change::Cut(at),
        9 => {
            let (before, after) =
                dice.of(&[("\u{feff}", ""), ("", "{}"), ("[", "]"), (" \n", "\n"), ("", ",")]);
            Change::Around(before, after)
        }
        _ => Change::Byte(at, dice.of(b"\"\\{}[],: \t\nu0e-.")),
    }
}

/// In one of the encodings of JSON, with a byte order mark or without.
fn encoded(text: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let units = || String::from_utf8_lossy(&text).encode_utf16().collect::<Vec<u16>>();
    match dice.below(40) {
        0 => units().into_iter().flat_map(u16::to_le_bytes).collect(),
        1 => units().into_iter().flat_map(u16::to_be_bytes).collect(),
        2 => [vec![0xff, 0xfe], units().into_iter().flat_map(u16::to_le_bytes).collect()].concat(),
        3 => [vec![0xfe, 0xff], units().into_iter().flat_map(u16::to_be_bytes).collect()].concat(),
        4 => String::from_utf8_lossy(&text).chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        5 => String::from_utf8_lossy(&text).chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        6 => [b"\xef\xbb\xbf", text.as_slice()].concat(),
        _ => text,
    }
}

fn documents() -> Vec<Vec<u8>> {
    let count = std::env::var("JSON_DOCUMENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(6000);
    let real = real();
    let mut all: Vec<Vec<u8>> = Vec::new();
    for odd in ODD {
        all.push(odd.to_vec());
        for around in [
            ("{\"error\":", "}"),
            ("{\"error\":{\"code\":", ",\"message\":\"x\"}}"),
            ("[", "]"),
            ("{\"result\":1,\"error\":", "}"),
        ] {
            all.push([around.0.as_bytes(), odd, around.1.as_bytes()].concat());
        }
        all.push([b"{\"error\":{\"message\":\"x\"},\"a\":1}".as_slice(), odd].concat());
        all.push([odd, b"{\"error\":{\"message\":\"x\"}}".as_slice()].concat());
    }
    for depth in [1, 63, 64, 65, 126, 127, 128, 129, 500] {
        all.push([b"[".repeat(depth), b"]".repeat(depth)].concat());
        all.push([b"{\"error\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat());
    }
    all.extend(real.iter().cloned());
    let mut dice = Dice(0);
    while all.len() < count {
        let mut text = real[dice.below(real.len())].clone();
        for _ in 0..=dice.below(3) {
            apply(&mut text, &change(&mut dice));
        }
        if dice.below(6) == 0 && !text.is_empty() {
            let at = dice.below(text.len());
            text.splice(at..at, dice.of(ODD).iter().copied());
        }
        all.push(encoded(text, &mut dice));
    }
    all
}

/// As the exchange reads an answer that it holds whole.
fn ours(bytes: &[u8]) -> Option<Document> {
    let mut text = Vec::new();
    let mut charset = Charset::default();
    charset.feed(bytes, &mut |piece| text.extend_from_slice(piece));
    charset.finish(&mut |piece| text.extend_from_slice(piece));
    let document = tree::parse(&text).ok()?;
    Some(Document { odd: document.odd || charset.is_odd(), ..document })
}

/// What a client's parser printed, a line a document.
fn theirs(program: &str, script: &str, file: &Path) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json_clients").join(script);
    let ran = Command::new(program).arg(&script).arg(file).output();
    let ran = ran.unwrap_or_else(|e| panic!("{program} does not run ({e}); `make setup` installs it"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// UTF-16 in hexadecimal, as the scripts print a text.
fn hexed(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("{unit:04x}")).collect()
}

/// Half a surrogate pair is a replacement character here.
fn without_halves(hexed: &str) -> String {
    let units: Vec<u16> = hexed
        .as_bytes()
        .chunks(4)
        .map(|c| u16::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap())
        .collect();
    char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

/// What is wrong between our reading of a document and a client's.
fn disagreement(bytes: &[u8], client: &Value) -> Result<(), String> {
    let document = ours(bytes);
    if client["ok"] != true {
        return match document {
            Some(document) if !document.odd => Err("the client refuses what is plain JSON here".into()),
            _ => Ok(()),
        };
    }
    let Some(document) = document else { return Err("the client reads what is unreadable here".into()) };
    let root = &document.root;
    if client["object"] != root.is_object() {
        return Err(format!("an object for one of both: {client}"));
    }
    if client["doubled"] == true && !document.odd {
        return Err("doubled members that were not noticed".into());
    }
    if !root.is_object() {
        return Ok(());
    }
    // No member that one of both does not see.
    let mut have: Vec<String> = root.members().iter().map(|(name, _)| name.to_string()).collect();
    let mut want: Vec<String> =
        client["names"].as_array().unwrap().iter().map(|n| without_halves(n.as_str().unwrap())).collect();
    for names in [&mut have, &mut want] {
        names.sort();
        names.dedup();
    }
    // Bytes that are no UTF-8 are one replacement character to some decoders and several to others.
    if have != want && std::str::from_utf8(bytes).is_ok() {
        return Err(format!("members {have:?} here, {want:?} there"));
    }
    for name in ["error", "result"] {
        let any = root.members().iter().any(|(n, value)| **n == *name && !value.is_null());
        if client[name] == true && !any {
            return Err(format!("the client sees a {name}"));
        }
        let last = root.get(name).is_some_and(|value| !value.is_null());
        if !document.odd && client[name] != last {
            return Err(format!("{name}: {last} here"));
        }
    }
    if !document.odd
        && let Some(error) = root.get("error").filter(|e| e.is_object())
    {
        let code = match error.get("code") {
            Some(Node::Number(raw)) => raw.parse::<f64>().ok().filter(|n| n.abs() < 1e15),
            _ => None,
        };
        let theirs = client["code"].as_f64().or_else(|| client["code"].as_str()?.parse().ok());
        let message = error.get("message").and_then(Node::as_str).map(hexed);
        if code != theirs || message.as_deref() != client["message"].as_str() {
            return Err(format!("code {code:?} and message {message:?} here"));
        }
    }
    Ok(())
}

#[test]
fn f6_no_client_reads_what_the_proxy_did_not() {
    let documents = documents();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("documents");
    let all: Vec<u8> = documents
        .iter()
        .flat_map(|d| u32::try_from(d.len()).unwrap().to_le_bytes().into_iter().chain(d.iter().copied()))
        .collect();
    std::fs::write(&file, all).unwrap();
    let mut wrong = Vec::new();
    for (program, script) in [("python3", "read.py"), ("node", "read.mjs")] {
        let views = theirs(program, script, &file);
        assert_eq!(views.len(), documents.len(), "{program}");
        let read = views.iter().filter(|view| view["ok"] == true).count();
        assert!(read * 4 > documents.len(), "{program} reads {read} only");
        for (document, view) in documents.iter().zip(&views) {
            if let Err(why) = disagreement(document, view) {
                wrong.push(format!("{program}: {why}: {:?}", String::from_utf8_lossy(document)));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} disagreements:\n{}",
        wrong.len(),
        wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
}
