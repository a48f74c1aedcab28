//! Listening sockets go from one process to the next: whoever takes them says first whether it can use them, and later
//! that it serves. The one before lets go only then; until then it goes on as if nothing had happened.
//!
//! Pingora's own hand-over is not used: it gives the process up before anybody knows what becomes of the next one.
//!
//! The next process listens on a Unix socket, the one before connects and sends [`TITLE`], the name of each socket in
//! a line of its own, an empty line, and the sockets with it. The answer is `yes` or `no REASON`, and to `yes` the
//! one before says `done`, or `no` when it has waited too long. An end of the connection is no word at all.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use pingora::server::{Fds, ListenFds, ShutdownWatch};
use pingora::services::{ServiceReadyNotifier, ServiceWithDependents};

/// What the names begin with. Another number is another language.
const TITLE: &str = "a2a-errata sockets 1";
/// Sockets that are sent at the most.
pub(super) const MOST: usize = 32;
/// Bytes of all that is said at once.
const MOST_BYTES: usize = 64 * 1024;

/// How long the next process waits for the sockets.
const AWAITED: Duration = Duration::from_secs(6);
/// How long the one before tries to reach the next one.
const REACHED: Duration = Duration::from_secs(5);
/// How long either waits for a word that takes no thinking.
const PROMPT: Duration = Duration::from_secs(5);
/// How long the one before waits until the next one serves.
const SERVES: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Why nothing was handed over. The process before goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// No process waits for the sockets.
    Nobody,
    /// The next process said no, and why.
    Refused(String),
    /// It was gone before it served.
    Ended,
    /// It said nothing.
    Silent,
    /// The sockets could not be sent.
    Unsent(String),
}

/// The listening sockets of this process, by the address as it was written.
#[derive(Default)]
pub struct Sockets {
    /// Pingora's table, once it runs.
    table: OnceLock<ListenFds>,
    /// To be in it from the beginning.
    received: Mutex<Option<Fds>>,
}

impl Sockets {
    /// Whether all of these are open.
    pub fn are_open(&self, names: &[String]) -> bool {
        self.table.get().is_some_and(|table| {
            let table = table.lock();
            names.iter().all(|name| table.get(name).is_some())
        })
    }

    /// Gives them to the process that waits at this Unix socket.
    ///
    /// # Errors
    /// When the other process does not serve; then this one is to go on.
    pub fn give(&self, socket: &Path) -> Result<(), Kept> {
        let mut stream = reach(socket).ok_or(Kept::Nobody)?;
        self.send(&stream).map_err(|error| Kept::Unsent(error.to_string()))?;
        match listen_to(&mut stream, SERVES) {
            Ok(says) if says == "yes" => {
                // Whether it hears it or not: it serves.
                let _ = stream.write_all(b"done\n");
                Ok(())
            }
            Ok(says) if says.is_empty() => Err(Kept::Ended),
            Ok(says) => Err(Kept::Refused(says.strip_prefix("no ").unwrap_or(&says).to_owned())),
            Err(_) => {
                let _ = stream.write_all(b"no\n");
                Err(Kept::Silent)
            }
        }
    }

    fn send(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PROMPT))?;
        let table = self.table.get().ok_or(io::ErrorKind::NotConnected)?.lock();
        let (names, fds) = table.serialize();
        let text = format!("{TITLE}\n{}\n\n", names.join("\n"));
        let rights = [ControlMessage::ScmRights(&fds)];
        let piece = [IoSlice::new(text.as_bytes())];
        let sent = sendmsg::<UnixAddr>(stream.as_raw_fd(), &piece, &rights, MsgFlags::empty(), None)?;
        let mut stream = stream;
        stream.write_all(text.as_bytes().get(sent..).unwrap_or_default())
    }
}

/// A connection to the process that waits, if there is one soon.
fn reach(socket: &Path) -> Option<UnixStream> {
    let end = Instant::now() + REACHED;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Some(stream),
            Err(_) if Instant::now() > end => return None,
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// The next line that the other side says; empty when it is gone.
fn listen_to(stream: &mut UnixStream, patience: Duration) -> io::Result<String> {
    let end = Instant::now() + patience;
    let mut line = Vec::new();
    let mut byte = [0; 1];
    while line.len() < 1024 {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut byte) {
            Ok(0) => return Ok(String::new()),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.extend_from_slice(&byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(String::new()),
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Puts the sockets that were received into Pingora's table, before anything listens.
pub(super) struct Keeper(pub(super) Arc<Sockets>);

#[async_trait]
impl ServiceWithDependents for Keeper {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        _shutdown: ShutdownWatch,
        _listeners: usize,
        ready: ServiceReadyNotifier,
    ) {
        let Some(table) = fds else { return };
        if let Some(received) = self.0.received.lock().unwrap_or_else(PoisonError::into_inner).take() {
            *table.lock() = received;
        }
        let _ = self.0.table.set(table);
        ready.notify_ready();
    }

    fn name(&self) -> &'static str {
        "listening sockets"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }

    fn listen_addresses(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

/// A process that waits for the sockets of the one before.
pub struct Waiting {
    socket: PathBuf,
    listener: UnixListener,
    /// Nobody else waits at the same place; it ends with the process, whatever happens to it.
    lock: File,
}

impl Waiting {
    /// From here on the process before may be told to hand over.
    ///
    /// # Errors
    /// When somebody else waits there, or it is no place for a socket.
    pub fn at(socket: &Path) -> Result<Self, String> {
        let says = |what: &str, error: &dyn std::fmt::Display| {
            format!("listen.handover = \"{}\": {what}: {error}", socket.display())
        };
        let mut beside = socket.as_os_str().to_owned();
        beside.push(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&beside);
        let lock = lock.map_err(|error| says("its lock cannot be made", &error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                says("refused", &"another process with --upgrade is about to take over")
            }
            TryLockError::Error(error) => says("its lock cannot be had", &error),
        })?;
        match fs::symlink_metadata(socket) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(says("refused", &"there is a file that is no socket, which is left as it is"));
            }
            // Whoever made it is gone, or the lock would be theirs.
            Ok(_) | Err(_) => _ = fs::remove_file(socket),
        }
        let listener = UnixListener::bind(socket).map_err(|error| says("takes no socket", &error))?;
        // The process before may be another user; its directory says who may come here.
        let open = fs::set_permissions(socket, fs::Permissions::from_mode(0o666));
        let open = open.and_then(|()| listener.set_nonblocking(true));
        open.map_err(|error| says("takes no socket", &error))?;
        Ok(Self { socket: socket.to_owned(), listener, lock })
    }

    /// Waits for the sockets.
    ///
    /// # Errors
    /// When nobody sent them in time, or sent something else.
    pub fn receive(self) -> Result<Received, String> {
        let received = self.accept();
        let _ = fs::remove_file(&self.socket);
        let mut received = received.map_err(|says| format!("--upgrade: {says}"))?;
        received.lock = Some(self.lock);
        Ok(received)
    }

    fn accept(&self) -> Result<Received, String> {
        let end = Instant::now() + AWAITED;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if Instant::now() < end => thread::sleep(LOOK),
                Err(_) => {
                    return Err(format!(
                        "nobody sent the listening sockets within {} s; send SIGQUIT to the process that has them, \
                         and start without --upgrade if none runs",
                        AWAITED.as_secs()
                    ));
                }
            }
        };
        let read = stream.set_nonblocking(false).and_then(|()| read(&stream));
        let (names, fds) = read.map_err(|error| format!("the listening sockets did not come: {error}"))?;
        let mut table = Fds::new();
        table.deserialize(names.clone(), fds);
        Ok(Received { names, table, stream, lock: None })
    }
}

/// The names and the sockets.
fn read(stream: &UnixStream) -> io::Result<(Vec<String>, Vec<RawFd>)> {
    let wrong = |says: &str| io::Error::new(io::ErrorKind::InvalidData, says);
    stream.set_read_timeout(Some(PROMPT))?;
    let (mut text, mut fds) = (Vec::new(), Vec::new());
    let mut space = cmsg_space!([RawFd; MOST]);
    // So that no process of another program keeps a port.
    #[cfg(target_os = "linux")]
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = MsgFlags::empty();
    while !text.ends_with(b"\n\n") {
        let mut piece = [0; 4096];
        let mut pieces = [IoSliceMut::new(&mut piece)];
        let message = recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut pieces, Some(&mut space), flags)?;
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(more) = part {
                fds.extend(more);
            }
        }
        let read = message.bytes;
        text.extend_from_slice(piece.get(..read).unwrap_or_default());
        if read == 0 || text.len() > MOST_BYTES {
            return Err(wrong("the process before sent something else"));
        }
    }
    let text = String::from_utf8(text).map_err(|_| wrong("the process before sent something else"))?;
    let names = text.strip_prefix(TITLE).ok_or_else(|| wrong("the process before is of another version"))?;
    let names: Vec<String> = names.lines().filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
    if names.is_empty() || names.len() != fds.len() {
        return Err(wrong("the process before sent other sockets than it named"));
    }
    Ok((names, fds))
}

/// Sockets of the process before, which still listens on them, too.
pub struct Received {
    names: Vec<String>,
    table: Fds,
    stream: UnixStream,
    lock: Option<File>,
}

impl Received {
    /// The addresses as the process before has them written.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Uses these of the sockets, and closes the others.
    pub fn keep(mut self, names: &[String], sockets: &Sockets) -> Promise {
        let keep: HashSet<String> = names.iter().cloned().collect();
        self.table.close_unclaimed(&keep);
        *sockets.received.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.table);
        Promise { stream: self.stream, _lock: self.lock }
    }

    /// The process before goes on.
    pub fn refuse(mut self, says: &str) {
        refuse(&mut self.stream, says);
    }
}

fn refuse(stream: &mut UnixStream, says: &str) {
    let line = format!("no {}\n", says.replace('\n', " "));
    let _ = stream.set_write_timeout(Some(PROMPT)).and_then(|()| stream.write_all(line.as_bytes()));
}

/// The word that the process before waits for.
pub struct Promise {
    stream: UnixStream,
    _lock: Option<File>,
}

/// What became of the process before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It answers what it has, and ends.
    LetsGo,
    /// It is gone already.
    Gone,
    /// It has waited too long, and goes on.
    Stays,
}

impl Promise {
    /// This process serves.
    pub fn keep(mut self) -> Before {
        let _ = self.stream.write_all(b"yes\n");
        match listen_to(&mut self.stream, PROMPT) {
            Ok(says) if says == "done" => Before::LetsGo,
            Ok(says) if says.is_empty() => Before::Gone,
            Ok(_) | Err(_) => Before::Stays,
        }
    }

    /// This process does not serve.
    pub fn break_off(mut self, says: &str) {
        refuse(&mut self.stream, says);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::IntoRawFd as _;

    use super::*;

    /// A process that has these sockets.
    fn before(names: &[&str]) -> Sockets {
        let mut table = Fds::new();
        for name in names {
            table.add((*name).to_owned(), TcpListener::bind("127.0.0.1:0").unwrap().into_raw_fd());
        }
        let sockets = Sockets::default();
        assert!(sockets.table.set(Arc::new(table.into())).is_ok());
        sockets
    }

    fn given(to: impl FnOnce(Received) + Send) -> Result<(), Kept> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let waiting = Waiting::at(&socket).unwrap();
        thread::scope(|scope| {
            let giving = scope.spawn(|| before(&["127.0.0.1:1", "127.0.0.1:2"]).give(&socket));
            to(waiting.receive().unwrap());
            giving.join().unwrap()
        })
    }

    #[test]
    fn who_serves_gets_the_place() {
        let after = Sockets::default();
        let gave = given(|received| {
            let mut names = received.names().to_vec();
            names.sort();
            assert_eq!(names, ["127.0.0.1:1", "127.0.0.1:2"]);
            let promise = received.keep(&names[..1], &after);
            assert_eq!(promise.keep(), Before::LetsGo);
        });
        assert_eq!(gave, Ok(()));
        let kept = after.received.lock().unwrap().take().unwrap();
        assert!(kept.get("127.0.0.1:1").is_some() && kept.get("127.0.0.1:2").is_none());
    }

    #[test]
    fn the_process_before_keeps_its_place_when_the_next_one_cannot_serve() {
        let refused = given(|received| received.refuse("the address\nis taken"));
        assert_eq!(refused, Err(Kept::Refused("the address is taken".into())));
        assert_eq!(given(drop), Err(Kept::Ended));
        let broken =
            given(|received| received.keep(&[], &Sockets::default()).break_off("it does not listen"));
        assert_eq!(broken, Err(Kept::Refused("it does not listen".into())));
    }

    #[test]
    fn one_waits_at_a_time_and_a_place_that_was_left_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let first = Waiting::at(&socket).unwrap();
        let second = Waiting::at(&socket).err().unwrap();
        assert!(second.contains("another process with --upgrade is about to take over"), "{second}");
        drop(first);
        assert!(socket.exists() && Waiting::at(&socket).is_ok());
    }

    #[test]
    fn what_else_is_sent_is_no_socket() {
        let says = |bytes: &[u8]| {
            let (mut near, far) = UnixStream::pair().unwrap();
            near.write_all(bytes).unwrap();
            drop(near);
            read(&far).unwrap_err().to_string()
        };
        assert!(says(b"").contains("something else"));
        assert!(says(b"127.0.0.1:1 127.0.0.1:2\n\n").contains("another version"));
        assert!(says(b"a2a-errata sockets 1\n127.0.0.1:1\n\n").contains("other sockets"));
        assert!(says(&vec![b'x'; MOST_BYTES * 2]).contains("something else"));
    }
}
