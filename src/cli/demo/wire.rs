//! A small HTTP/1.1 client that reports what was on the wire: cut-off bodies, wrong lengths, silence.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::demo::Scenario;

/// How long one exchange may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of one answer.
const ANSWER_BYTES: usize = 32 << 20;

/// An answer, its transfer coding undone and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// In the order of the wire, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body ended where its framing said.
    pub complete: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A scenario's request to this address; `None` when the connection ended without a byte.
///
/// # Errors
/// When the connection fails, takes too long, or what comes is not HTTP/1.1.
pub async fn ask(address: SocketAddr, scenario: &Scenario) -> io::Result<Option<Reply>> {
    let call = &scenario.call;
    let mut head = format!("{} {} HTTP/1.1\r\nhost: {address}\r\n", call.method, call.target(scenario.name));
    // Writing to a string does not fail.
    for (name, value) in &call.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if call.method == "POST" {
        let _ = write!(head, "content-length: {}\r\n", call.body.len());
    }
    exchange(address, &head, &call.body).await
}

/// A plain GET.
///
/// # Errors
/// As for [`ask`].
pub async fn get(address: SocketAddr, path: &str) -> io::Result<Option<Reply>> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n"), b"").await
}

/// `head` without its last, empty line.
async fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> io::Result<Option<Reply>> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = [head.as_bytes(), b"accept: */*\r\nuser-agent: a2a-errata-demo\r\n\r\n", body].concat();
        stream.write_all(&request).await?;
        read_reply(&mut stream).await
    };
    timeout(PATIENCE, talk).await?
}

async fn read_reply(stream: &mut TcpStream) -> io::Result<Option<Reply>> {
    let mut bytes = Bytes { stream, held: Vec::new() };
    let Some(head) = bytes.until(b"\r\n\r\n").await? else {
        return if bytes.held.is_empty() { Ok(None) } else { Err(bad("the head is cut off")) };
    };
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad("no status line"))?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut reply = Reply { status, headers, body: Vec::new(), complete: true };
    if reply.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        reply.complete = bytes.chunks(&mut reply.body).await?;
    } else if let Some(length) = reply.header("content-length").and_then(|length| length.parse().ok()) {
        reply.complete = bytes.exactly(length, &mut reply.body).await?;
    } else if status != 204 && status != 304 {
        while bytes.more().await? {}
        reply.body = bytes.held;
    }
    Ok(Some(reply))
}

/// The connection and what was read of it too early.
struct Bytes<'a> {
    stream: &'a mut TcpStream,
    held: Vec<u8>,
}

impl Bytes<'_> {
    /// Whether anything came. A reset is an end like any other here.
    async fn more(&mut self) -> io::Result<bool> {
        if self.held.len() > ANSWER_BYTES {
            return Err(bad("the answer is too large"));
        }
        match self.stream.read_buf(&mut self.held).await {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Everything before this mark, the mark taken away; `None` when it never comes.
    async fn until(&mut self, mark: &[u8]) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.held, mark) {
                let rest = self.held.split_off(at + mark.len());
                let mut found = std::mem::replace(&mut self.held, rest);
                found.truncate(at);
                return Ok(Some(found));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Whether all of them came.
    async fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<bool> {
        while self.held.len() < length {
            if !self.more().await? {
                body.append(&mut self.held);
                return Ok(false);
            }
        }
        let rest = self.held.split_off(length);
        body.append(&mut self.held);
        self.held = rest;
        Ok(true)
    }

    /// Whether the last chunk came.
    async fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let Some(line) = self.until(b"\r\n").await? else { return Ok(false) };
            let line = String::from_utf8_lossy(&line).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk without a size"))?;
            if size == 0 {
                // Trailers, up to an empty line.
                while self.until(b"\r\n").await?.is_some_and(|line| !line.is_empty()) {}
                return Ok(true);
            }
            if !self.exactly(size, body).await? || self.until(b"\r\n").await?.is_none() {
                return Ok(false);
            }
        }
    }
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{LegacyHost, catalogue};

    /// Every answer of the catalogue, read back from a socket: what cannot be complete is not.
    #[tokio::test]
    async fn the_host_says_what_the_catalogue_says() {
        let host = LegacyHost::start().await.unwrap();
        for scenario in catalogue() {
            let reply = ask(host.address(), &scenario).await.unwrap();
            match scenario.name {
                "no-answer" => assert_eq!(reply, None),
                name => {
                    let reply = reply.unwrap();
                    assert_eq!(reply.status, scenario.answer.status, "{name}");
                    let cut = matches!(
                        name,
                        "foreign-cut-off" | "died-inside-error" | "died-inside-chunk" | "stream-died"
                    );
                    assert_eq!(reply.complete, !cut, "{name}");
                }
            }
        }
    }
}
