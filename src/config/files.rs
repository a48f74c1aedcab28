//! Reads the files that a configuration names, and the configuration itself, so that none of them holds anybody up: a
//! pipe, a device, a disk of another machine that does not answer, or one without an end.

use std::collections::HashMap;
use std::fs::{File, FileType, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;

/// A certificate, a key or a bundle has no more bytes than this.
const MOST: u64 = 1024 * 1024;
/// Nor has a configuration.
const MOST_TOML: u64 = 4 * 1024 * 1024;
/// How long the files of one look may take together…
const TOGETHER: Duration = Duration::from_secs(5);
/// …and how long each has when one before it took all of that.
const LEAST: Duration = Duration::from_millis(100);

/// Reads that have not come back, by their file: no second one waits beside the first.
static HANGING: Mutex<Option<HashMap<PathBuf, JoinHandle<()>>>> = Mutex::new(None);

/// Reads several files within a time that is bounded for all of them.
pub(super) struct Pass {
    end: Instant,
}

impl Pass {
    pub(super) fn new() -> Self {
        Self { end: Instant::now() + TOGETHER }
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let patience = self.end.saturating_duration_since(Instant::now()).max(LEAST);
        let owned = path.to_owned();
        within(path, patience, move || regular(&owned, MOST))
    }
}

/// The text of a configuration. Whoever starts a process may give it a pipe, which has nothing to say when it is read
/// again.
pub(super) fn toml(path: &Path, again: bool) -> Result<String, String> {
    let owned = path.to_owned();
    let read = move || {
        if again {
            return regular(&owned, MOST_TOML);
        }
        let kind = std::fs::metadata(&owned).map_err(|error| error.to_string())?.file_type();
        if kind.is_fifo() {
            bounded(&File::open(&owned).map_err(|error| error.to_string())?, MOST_TOML)
        } else {
            regular(&owned, MOST_TOML)
        }
    };
    let bytes = within(path, TOGETHER, read)?;
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

/// What the file holds, if it is one.
fn regular(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| error.to_string();
    // Opening alone makes some devices do something.
    is_regular(std::fs::metadata(path).map_err(told)?.file_type())?;
    // A pipe that took its place meanwhile would wait for somebody who writes.
    let file =
        OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(told)?;
    is_regular(file.metadata().map_err(told)?.file_type())?;
    bounded(&file, most)
}

fn is_regular(kind: FileType) -> Result<(), String> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(format!("is {what}, no regular file"))
}

fn bounded(file: &File, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("has more than {} MiB", most / (1024 * 1024)));
    }
    Ok(bytes)
}

/// Reads in a thread of its own: nothing ends a read that hangs, so nobody waits for it any longer than this.
fn within(
    path: &Path,
    patience: Duration,
    read: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
) -> Result<Vec<u8>, String> {
    let hanging = || HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if hanging().as_ref().and_then(|all| all.get(path)).is_some_and(|read| !read.is_finished()) {
        return Err("an earlier read of it still hangs".into());
    }
    let (tell, told) = sync_channel(1);
    let reader = thread::Builder::new().name("file".into()).spawn(move || {
        let _ = tell.send(read());
    });
    let reader = reader.map_err(|error| error.to_string())?;
    match told.recv_timeout(patience) {
        Ok(read) => read,
        Err(RecvTimeoutError::Disconnected) => Err("reading it failed".into()),
        Err(RecvTimeoutError::Timeout) => {
            let mut all = hanging();
            let all = all.get_or_insert_default();
            all.retain(|_, read| !read.is_finished());
            all.insert(path.to_owned(), reader);
            Err(format!("was not read within {} ms", patience.as_millis()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_read_that_hangs_is_waited_for_once() {
        let path = Path::new("/a/disk/that/does/not/answer");
        let (answer, asked) = channel::<()>();
        let hangs = move || asked.recv().map(|()| Vec::new()).map_err(|error| error.to_string());
        let says = within(path, Duration::from_millis(20), hangs).unwrap_err();
        assert_eq!(says, "was not read within 20 ms");
        let says = within(path, Duration::from_mins(1), || Ok(Vec::new())).unwrap_err();
        assert_eq!(says, "an earlier read of it still hangs");
        // Others have nothing to do with it.
        assert_eq!(within(Path::new("/b"), Duration::from_mins(1), || Ok(vec![1])), Ok(vec![1]));
        drop(answer);
        let end = Instant::now() + Duration::from_secs(10);
        while within(path, Duration::from_mins(1), || Ok(vec![2])) != Ok(vec![2]) {
            assert!(Instant::now() < end, "it is still held against it");
        }
    }

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let pass = Pass::new();
        assert_eq!(pass.read(directory.path()), Err("is a directory, no regular file".into()));
        assert_eq!(pass.read(Path::new("/dev/zero")), Err("is a device, no regular file".into()));
        let file = directory.path().join("f");
        for (size, fits) in [(MOST, true), (MOST + 1, false)] {
            File::create(&file).unwrap().set_len(size).unwrap();
            assert_eq!(pass.read(&file).is_ok(), fits, "{size}");
        }
        assert_eq!(pass.read(&file), Err("has more than 1 MiB".into()));
        assert!(toml(&file, true).is_ok());
        File::create(&file).unwrap().set_len(MOST_TOML + 1).unwrap();
        assert_eq!(toml(&file, false), Err("has more than 4 MiB".into()));
    }
}
