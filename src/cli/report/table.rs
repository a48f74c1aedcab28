//! The report for people at a terminal.

use std::fmt::Write as _;

use super::merge::EVERYTHING_READ;
use crate::cli::screen::{clean, cut, pad};
use crate::observe::removal::span;
use crate::observe::report::{Host, Interface};

/// Characters of a cell. All rows are as wide as the widest, and a name may be of any length.
const CELL: usize = 80;
/// Of a sentence that somebody else wrote.
const SAYS: usize = 600;

/// A table of every interface, and below each one that is still needed, why.
///
/// The names are a proxy's or a Prometheus's word: nothing in them is for the terminal.
pub fn print(hosts: &[Host], is_whole: bool, colour: bool) -> String {
    let paint =
        |code: &str, text: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let rows: Vec<(&Host, &Interface, [String; 5])> = hosts
        .iter()
        .flat_map(|host| host.interfaces.iter().map(move |interface| (host, interface)))
        // Where nothing ever came and no shape is asked for, there is nothing to say.
        .filter(|(_, interface)| interface.is_interface() || !interface.is_idle())
        .map(|(host, interface)| (host, interface, cells(host, interface)))
        .collect();
    let titles = ["HOST", "INTERFACE", "MODE", "REPAIRED", "CLEAN FOR"];
    let mut widths = titles.map(str::len);
    for (_, _, cells) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 5]| {
        cells.iter().zip(widths).map(|(cell, width)| pad(cell, width) + "  ").collect::<String>()
    };
    let mut text = format!("{}VERDICT\n", paint("1", &line(&titles.map(str::to_owned))));
    for (_, interface, cells) in &rows {
        let mut failing = interface.removal.criteria.iter().filter(|criterion| !criterion.holds);
        let verdict = if interface.removal.can_go {
            paint("32", "can go")
        } else if failing.all(|criterion| criterion.name == EVERYTHING_READ) {
            paint("33", "not known")
        } else {
            paint("33", "still needed")
        };
        _ = writeln!(text, "{}{verdict}", line(cells));
        if interface.removal.can_go {
            continue;
        }
        for criterion in interface.removal.criteria.iter().filter(|criterion| !criterion.holds) {
            _ = writeln!(text, "    {} {}", paint("31", "✗"), cut(&clean(&criterion.says), SAYS));
        }
        for rule in &interface.rules {
            _ = writeln!(
                text,
                "    {:5} {:>8}  {}",
                cut(&clean(&rule.rule), CELL),
                rule.count,
                paint("2", &cut(&clean(&rule.says), SAYS))
            );
        }
    }
    for host in hosts.iter().filter(|host| !host.interfaces.iter().any(Interface::is_interface)) {
        let why = if host.ready {
            "it has no interface that was asked, so nothing is proved"
        } else {
            "its agent card could not be used yet, so no interface of it is known and nothing is proved"
        };
        _ = writeln!(text, "{}: {} {why}", cut(&clean(&host.name), CELL), paint("31", "✗"));
    }
    let go = hosts.iter().filter(|host| host.can_go).count();
    _ = writeln!(text, "\n{}", closing(go, hosts.len(), is_whole));
    text
}

fn cells(host: &Host, interface: &Interface) -> [String; 5] {
    let name = if interface.is_interface() {
        format!("{} {}", interface.interface, interface.binding)
    } else {
        format!("({})", interface.interface)
    };
    let clean_for = span(interface.removal.clean_seconds);
    [&host.name, &name, &interface.mode, &interface.repairs.to_string(), &clean_for]
        .map(|cell| cut(&clean(cell), CELL))
}

fn closing(go: usize, all: usize, is_whole: bool) -> String {
    match (go, all) {
        _ if !is_whole => {
            "Not everything could be read, so nothing here says that a shim is not needed.".to_owned()
        }
        (1, 1) => "The shim can go.".to_owned(),
        (0, 1) => "The shim is still needed.".to_owned(),
        (go, all) if go == all => format!("All {all} shims can go."),
        (go, all) => format!("{go} of {all} shims can go."),
    }
}
