//! What answers and requests are made of, and changes to a text that keep most of its shape. The property tests and
//! the fuzz targets draw from the same list, so that what one of them learns to say the others say as well.

/// Scalars that mean something somewhere in the rules.
pub const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "-32001",
    "-32001.0",
    "\"-32001\"",
    "-32002",
    "-32004",
    "-32009",
    "-32602",
    "-32603",
    "-32600",
    "-31403",
    "-32000",
    "403",
    "404",
    "500",
    "5",
    "1e400",
    "-1e-7",
    "NaN",
    "\"2.0\"",
    "\"1.0\"",
    "\"not_found\"",
    "\"run_forbidden\"",
    "\"forbidden\"",
    "\"validation_error\"",
    "\"acme.thing\"",
    "\"TASK_NOT_FOUND\"",
    "\"TASK_NOT_CANCELABLE\"",
    "\"VERSION_NOT_SUPPORTED\"",
    "\"PERMISSION_DENIED\"",
    "\"NOT_FOUND\"",
    "\"INVALID_PARAMS\"",
    "\"a2a-protocol.org\"",
    "\"openwop.dev\"",
    "\"type.googleapis.com/google.rpc.ErrorInfo\"",
    "\"google.rpc.BadRequest\"",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"t-1\"",
    "\"0.3,1.0\"",
    "{}",
    "[]",
    "[null]",
    "[[]]",
];

/// Names that do.
pub const NAMES: &[&str] = &[
    "jsonrpc",
    "id",
    "result",
    "error",
    "code",
    "message",
    "data",
    "details",
    "reason",
    "domain",
    "metadata",
    "status",
    "@type",
    "detail",
    "errors",
    "type",
    "title",
    "supportedVersions",
    "supported",
    "taskId",
    "fieldViolations",
    "method",
    "params",
    "historyLength",
    "tenant",
    "x",
    "loc",
    "msg",
    "err\\u006fr",
    "\\u0063ode",
    "value",
    "schema",
];

/// One change to a document's text that keeps most of its shape. A number picks one of the places there are.
#[derive(Debug, Clone)]
pub enum Change {
    /// In place of one of the values.
    Value(usize, String),
    /// One more member in one of the objects: a new one, or a double.
    Member(usize, &'static str, String),
    /// One of the names becomes another.
    Rename(usize, &'static str),
    /// A byte.
    Byte(usize, u8),
    /// Cut there.
    Cut(usize),
    /// Something before or after it.
    Around(&'static str, &'static str),
}

/// Where values and names begin and end in a well-formed text.
#[derive(Default)]
pub struct Places {
    pub values: Vec<(usize, usize)>,
    pub objects: Vec<usize>,
    pub names: Vec<(usize, usize)>,
}

/// A plain reader of compact JSON text, only for finding places to change.
pub fn places(text: &[u8]) -> Places {
    let mut found = Places::default();
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut i = 0;
    let mut name_next = false;
    while i < text.len() {
        let start = i;
        match text[i] {
            b'{' => {
                open.push((i, true));
                found.objects.push(i + 1);
                name_next = true;
                i += 1;
            }
            b'[' => {
                open.push((i, false));
                name_next = false;
                i += 1;
            }
            b'}' | b']' => {
                i += 1;
                if let Some((begin, _)) = open.pop() {
                    found.values.push((begin, i));
                }
            }
            b',' => {
                name_next = open.last().is_some_and(|o| o.1);
                i += 1;
            }
            b':' => {
                name_next = false;
                i += 1;
            }
            b'"' => {
                i += 1;
                while i < text.len() && text[i] != b'"' {
                    i += if text[i] == b'\\' { 2 } else { 1 };
                }
                i = (i + 1).min(text.len());
                if name_next { found.names.push((start, i)) } else { found.values.push((start, i)) }
            }
            b' ' | b'\n' | b'\r' | b'\t' => i += 1,
            _ => {
                while i < text.len() && !b",]} \n".contains(&text[i]) {
                    i += 1;
                }
                i = i.max(start + 1);
                found.values.push((start, i));
            }
        }
    }
    found
}

/// Makes the change, where there is a place for it.
pub fn apply(text: &mut Vec<u8>, change: &Change) {
    let found = places(text);
    let splice = |text: &mut Vec<u8>, (a, b): (usize, usize), with: &str| {
        text.splice(a..b.min(text.len()), with.bytes());
    };
    match change {
        Change::Value(at, with) if !found.values.is_empty() => {
            splice(text, found.values[at % found.values.len()], with);
        }
        Change::Member(at, name, value) if !found.objects.is_empty() => {
            let at = found.objects[at % found.objects.len()];
            let comma = if text.get(at) == Some(&b'}') { "" } else { "," };
            splice(text, (at, at), &format!("\"{name}\":{value}{comma}"));
        }
        Change::Rename(at, name) if !found.names.is_empty() => {
            splice(text, found.names[at % found.names.len()], &format!("\"{name}\""));
        }
        Change::Byte(at, byte) if !text.is_empty() => {
            let at = at % text.len();
            text[at] = *byte;
        }
        Change::Cut(at) if !text.is_empty() => text.truncate(at % text.len()),
        Change::Around(before, after) => {
            splice(text, (0, 0), before);
            text.extend_from_slice(after.as_bytes());
        }
        Change::Value(..) | Change::Member(..) | Change::Rename(..) | Change::Byte(..) | Change::Cut(_) => {}
    }
}
