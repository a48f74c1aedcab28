//! Whether the connections that are allowed fit into the files that the process may have open (`RLIMIT_NOFILE`).
//!
//! Without the files a new connection waits unaccepted, and one to a host fails, although the limit is not reached.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Model;

/// A connection of a client, and one to a host for it.
const EACH: u64 = 2;
/// Of the proxy itself: listeners and event queues of each thread, admin pages, checks, cards, certificates, and
/// connections to hosts that wait for a next request.
const OWN: u64 = 256;

/// Without these, and so many for each thread, the runtimes do not come about.
const LEAST: u64 = 64;
const EACH_THREAD: u64 = 8;

/// Why the proxy cannot start.
///
/// # Errors
/// It may not have the files that it needs without any connection.
pub(super) fn can_start(threads: usize) -> Result<(), String> {
    let threads = u64::try_from(threads).unwrap_or(u64::MAX);
    let least = threads.saturating_mul(EACH_THREAD).saturating_add(LEAST);
    match may_have() {
        Some((_, hard)) if hard < least => Err(format!(
            "this process may have {hard} open files, and needs {least} to begin with (ulimit -n, LimitNOFILE=)"
        )),
        _ => Ok(()),
    }
}

/// Soft and hard, if the system tells.
fn may_have() -> Option<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).ok()
}

/// How many files so many connections need; 0 is any number of them.
fn needed(connections: usize) -> u64 {
    if connections == 0 {
        return u64::MAX;
    }
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(EACH).saturating_add(OWN)
}

/// Lets the process have as many as it may, if it needs more than it has.
pub(super) fn make_room(model: &Model) {
    let Some((soft, hard)) = may_have() else { return };
    if soft >= hard || soft >= needed(model.client_limits.connections) {
        return;
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => tracing::info!(from = soft, to = hard, "open files: limit raised"),
        Err(error) => tracing::warn!(%error, soft, hard, "open files: the limit cannot be raised"),
    }
}

/// What is wrong with `limits.connections` here, and what would be right.
pub(super) fn warning(model: &Model) -> Option<String> {
    too_many(model.client_limits.connections, may_have()?.1)
}

/// The hard limit counts: `run` raises the other one.
fn too_many(connections: usize, hard: u64) -> Option<String> {
    let needed = needed(connections);
    if connections == 0 || needed <= hard {
        return None;
    }
    let fit = hard.saturating_sub(OWN) / EACH;
    let less = if fit > 0 { format!("write {fit} or less, or ") } else { String::new() };
    Some(format!(
        "limits.connections = {connections} needs {needed} open files ({EACH} for each and {OWN} for the proxy itself), \
         and this process may have {hard}; {less}let it have {needed} (ulimit -n, LimitNOFILE=)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_needs_no_word_and_what_does_not_is_told_with_numbers() {
        for (connections, hard) in [(0, 10), (1, 258), (20_000, 40_256), (20_000, u64::MAX)] {
            assert_eq!(too_many(connections, hard), None, "{connections} in {hard}");
        }
        for (connections, hard, says) in [
            (1, 257, "= 1 needs 258 open files"),
            (20_000, 40_255, "may have 40255; write 19999 or less, or let it have 40256 "),
            (20_000, 1024, "write 384 or less"),
            (usize::MAX, u64::MAX - 1, "needs 18446744073709551615 open files"),
        ] {
            let told = too_many(connections, hard).unwrap();
            assert!(told.contains(says), "{told}");
        }
        assert!(!too_many(20_000, 100).unwrap().contains("or less"), "nothing fits");
    }
}
