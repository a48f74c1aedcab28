//! What host and clients of the measurements have in common: heads of HTTP/1.1 messages, the calls that are
//! sent, and the clock that events are stamped with.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A request that rules bind: a JSON-RPC call of this method at protocol 1.0, its body blank up to `length` bytes.
/// Returned are all of it but the blanks and the end, how many blanks there are, and the end.
pub fn call(
    host: &str,
    path: &str,
    method: &str,
    accept: &str,
    length: usize,
) -> (String, usize, &'static str) {
    let params = if length == 0 && method == "GetTask" {
        r#""id":"task-1","historyLength":3"#
    } else {
        r#""message":{}"#
    };
    let open = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}}}"#);
    let close = "}";
    let blanks = length.saturating_sub(open.len() + close.len());
    let length = open.len() + blanks + close.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         User-Agent: bench\r\nA2A-Version: 1.0\r\nAuthorization: Bearer none\r\nContent-Length: {length}\r\n\r\n{open}"
    );
    (head, blanks, close)
}

/// Reads on until a head is whole; where it ends. `None` when the connection is over.
pub async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The status of an answer's head.
pub fn status(head: &[u8]) -> std::io::Result<u16> {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(broken)
}

/// What a head announces of its body.
pub fn content_length(head: &[u8]) -> Option<usize> {
    let of = |line: &[u8]| {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let value = std::str::from_utf8(&value[1..]).ok()?;
        name.eq_ignore_ascii_case(b"content-length").then(|| value.trim().parse().ok())?
    };
    head.split(|byte| *byte == b'\n').find_map(of)
}

pub fn broken() -> std::io::Error {
    std::io::ErrorKind::InvalidData.into()
}

/// Nanoseconds on a clock that two processes of one machine share.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    u64::try_from(now.as_nanos()).expect("a clock before 2554")
}

/// The value below which this many of a thousand lie, in microseconds; sorts what it is given.
pub fn quantile(nanoseconds: &mut [u64], permille: usize) -> f64 {
    nanoseconds.sort_unstable();
    let at = (nanoseconds.len() * permille / 1000).min(nanoseconds.len().saturating_sub(1));
    nanoseconds.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0)
}
