//! Configurations: any text is either refused with its place, its key and what would be right, or a model that, printed
//! and read back, is the same.

use std::path::PathBuf;
use std::sync::LazyLock;

use super::{hold, mutate};
use crate::config::{Effective, KEYS, Kind, Place, Problem, Problems, Sources, load};

/// Values that mean something to some key, and some that mean nothing to any.
const VALUES: &[&str] = &[
    "true",
    "false",
    "0",
    "1",
    "-1",
    "4096",
    "1048576",
    "9223372036854775807",
    "9223372036854775808",
    "1.5",
    "\"\"",
    "\"enforce\"",
    "\"observe\"",
    "\"host\"",
    "\"guarded\"",
    "\"upstream\"",
    "\"JSONRPC\"",
    "\"HTTP+JSON\"",
    "\"127.0.0.1:9000\"",
    "\"[::1]:9464\"",
    "\"0.0.0.0:8080\"",
    "\"localhost:9000\"",
    "\"127.0.0.1\"",
    "[\"127.0.0.1:9000\"]",
    "[{ address = \"127.0.0.1:9000\", tls = { sni = \"a.example\" } }]",
    "[{ address = \"127.0.0.1:9000\", weight = 1 }]",
    "[{ address = 7 }]",
    "[{ tls = { verify = false } }]",
    "[{ address = \"127.0.0.1:9443\", tls = { ca = \"/none\", client_cert = \"/none\" } }]",
    "[]",
    "[\"1.0\"]",
    "[\"1.0\", \"0.3\"]",
    "[\"1.0\", 1]",
    "[\"x-request-id\"]",
    "[\"x request\"]",
    "\"/a2a\"",
    "\"/a2a/\"",
    "\"a2a\"",
    "\"/a2a?x\"",
    "\"https://agents.example/billing\"",
    "\"ftp://x\"",
    "\"http://collector:4318/v1/traces\"",
    "[\"authorization: Bearer zz@marker.example\"]",
    "\"\\u0000\"",
    "\"\\n\"",
    "\"\\U0001F600\"",
    "'''a\nb'''",
    "{ x = 1 }",
    "1979-05-27",
    "inf",
    "nan",
    "0x10",
    "\"acme\"",
    "[[]]",
    "[\"agents.example\"]",
    "[\"Agents.Example:443\"]",
];

static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut lines: Vec<String> =
        ["[[hosts]]", "[[hosts.interfaces]]", "[listen]", "[admin]", "[traces]", "[hosts]", "# x"]
            .map(str::to_owned)
            .to_vec();
    for key in KEYS {
        let (table, name) = key.split();
        if matches!(key.kind, Kind::Table) {
            lines.push(format!("[{}]", key.path.replace("[]", "")));
        }
        lines.push(format!("{name} = {}", key.default.unwrap_or("[\"127.0.0.1:9000\"]")));
        if let Some(inner) = table.rsplit_once("[].").map(|(_, inner)| inner) {
            lines.push(format!("{inner}.{name} = {}", key.default.unwrap_or("\"/a2a\"")));
        }
    }
    lines
});

/// The file that inputs are read from: reading one is part of what is tested.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let fast = PathBuf::from("/dev/shm");
    let folder = if fast.is_dir() { fast } else { std::env::temp_dir() };
    folder.join(format!("a2a-errata-fuzz-{}.toml", std::process::id()))
});

fn read(text: &[u8]) -> Result<Effective, Problems> {
    std::fs::write(&*FILE, text).expect("a file in a temporary folder");
    let read = load(&Sources { file: Some(FILE.clone()), ..Sources::default() });
    _ = std::fs::remove_file(&*FILE);
    read
}

/// The input is a file.
pub fn check(data: &[u8]) {
    match read(data) {
        Err(Problems(problems)) => {
            hold(if problems.is_empty() { Err("refused without a reason".into()) } else { Ok(()) });
            for problem in &problems {
                hold(says_enough(problem, data));
            }
        }
        Ok(effective) => {
            for host in &effective.model.hosts {
                _ = (host.policy(), host.interfaces());
            }
            _ = effective.shown();
            let printed = effective.to_toml(false);
            hold(match read(printed.as_bytes()) {
                Ok(again) if again.model == effective.model && same_lines(&again, &effective) => Ok(()),
                Ok(again) => Err(format!("another model:\n{printed}\nwas read as\n{}", again.to_toml(false))),
                Err(problems) => Err(format!("{problems}\n{printed}")),
            });
        }
    }
}

fn same_lines(a: &Effective, b: &Effective) -> bool {
    let lines = |e: &Effective| e.lines.iter().map(|l| (l.key.clone(), l.value.clone())).collect::<Vec<_>>();
    lines(a) == lines(b)
}

/// U-1: in one line, with a place that is there, and what would be right.
fn says_enough(problem: &Problem, text: &[u8]) -> Result<(), String> {
    let shown = problem.to_string();
    let lines = text.iter().filter(|b| **b == b'\n').count() + 1;
    if problem.says.trim().is_empty() || shown.contains('\n') || shown.contains('\r') {
        return Err(format!("{shown:?}"));
    }
    match &problem.place {
        Place::File { line, column, .. } if *line == 0 || *line > lines || *column == 0 => {
            Err(format!("{shown}: there are {lines} lines"))
        }
        Place::File { .. } | Place::WholeFile(_) => Ok(()),
        // A list that is missing, or two defaults that do not fit, stand nowhere.
        Place::Default if !problem.key.is_empty() => Ok(()),
        Place::Default | Place::Env(_) | Place::Flag(_) => Err(format!("a place outside the file: {shown}")),
    }?;
    if problem.key.starts_with("traces.headers") && problem.value.is_some() {
        return Err("a credential is repeated".into());
    }
    Ok(())
}

/// Changes an input.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    mutate::toml(&LINES, VALUES, data, size, max_size, seed)
}
