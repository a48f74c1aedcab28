//! What the tests of the binary share: starting it, asking its pages, ending it. Everything is on 127.0.0.1
//! and bounded in time.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn command() -> Command {
    command_of(env!("CARGO_BIN_EXE_a2a-errata").as_ref())
}

/// The same with another build of the binary.
pub fn command_of(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("A2A_ERRATA_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    command().args(arguments).envs(environment.iter().copied()).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Below the range that outgoing connections use, so that nothing else takes it before the proxy does.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + u16::try_from((std::process::id() * 131 + u32::from(step)) % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Running {
    let mut command = command();
    command.args(arguments).envs(environment.iter().copied()).stdout(Stdio::null()).stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// Ask the admin listener, waiting for it to be there.
pub fn ask(port: u16, request: &str) -> String {
    let mut stream = reach(port);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends these very bytes and reads whatever comes until the close.
pub fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = reach(port);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    answer
}

/// A connection, once somebody listens: a process's listeners do not open all at once.
fn reach(port: u16) -> TcpStream {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) if Instant::now() > end => panic!("nothing listens on {port}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

impl Running {
    /// Ends it and says what it logged.
    pub fn log(mut self) -> String {
        // Access lines are written in batches, some milliseconds after the fact.
        std::thread::sleep(Duration::from_millis(300));
        self.0.kill().unwrap();
        let mut log = Vec::new();
        self.0.stderr.take().unwrap().read_to_end(&mut log).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    }
}
