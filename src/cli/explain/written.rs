//! Files as tools write them: in another encoding, with a byte order mark, among curl's notes (`-v`).

use std::borrow::Cow;

use super::{har, saved};
use crate::protocol::charset::Charset;

/// A file's text.
pub struct Written<'a> {
    pub bytes: Cow<'a, [u8]>,
    /// Not byte for byte what was received.
    pub is_converted: bool,
}

const RIGHT: &str = "save it with curl -si -o FILE";

/// What the file says, without what was only added in writing it. A body alone stays as it is: it may have been the
/// host that wrote it so.
///
/// # Errors
/// When it is something else, or `is_wire` and the wire's bytes are not there.
pub fn read<'a>(bytes: &'a [u8], is_wire: bool, notes: &mut Vec<String>) -> Result<Written<'a>, String> {
    let mut written = Written { bytes: Cow::Borrowed(bytes), is_converted: false };
    if let Some(text) = decoded(bytes) {
        let start = text.trim_ascii_start();
        if start.starts_with(b"HTTP/") || har::begins_like(&text) || is_verbose(start) {
            if is_wire {
                return Err(format!(
                    "it is in another encoding than the wire's; {RIGHT}, not with a shell's >"
                ));
            }
            notes.push("the file has a byte order mark or is in UTF-16: read as text".to_owned());
            written = Written { bytes: Cow::Owned(text), is_converted: true };
        } else {
            notes.push(
                "the body has a byte order mark or is in UTF-16, and is taken as the host's own; if saving made it \
                 so, save it with curl -o FILE"
                    .to_owned(),
            );
            return Ok(written);
        }
    }
    let start = written.bytes.trim_ascii_start();
    if saved::begins_with_status_line(start) && start.len() < written.bytes.len() {
        written.bytes = Cow::Owned(start.to_vec());
        return Ok(written);
    }
    if start.starts_with(b"== Info:") || start.starts_with(b"=> Send header") {
        return Err(format!("it is what curl --trace writes; {RIGHT}"));
    }
    if written.bytes.starts_with(b"  % Total") {
        return Err(format!("it has curl's progress meter in it; {RIGHT}"));
    }
    if is_verbose(start) {
        if is_wire {
            return Err("it is what curl -v writes; save it with curl --raw -si -o FILE".to_owned());
        }
        notes.push("curl's notes (-v) are left out".to_owned());
        written.bytes = Cow::Owned(without_notes(start)?);
    }
    Ok(written)
}

/// As UTF-8, if it is anything else or begins with a byte order mark.
pub fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut charset = Charset::default();
    let mut text = Vec::new();
    let mut sink = |piece: &[u8]| text.extend_from_slice(piece);
    charset.feed(bytes, &mut sink);
    charset.finish(&mut sink);
    charset.is_odd().then_some(text)
}

/// Lines as curl begins its notes.
fn is_verbose(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_note = [&b"*   Trying "[..], b"* Trying ", b"* Host ", b"* Connected to ", b"* Uses proxy "];
    let is_request = line.starts_with(b"> ") && memchr::memmem::find(line, b" HTTP/").is_some();
    is_request || line.starts_with(b"< HTTP/") || is_note.iter().any(|note| line.starts_with(note))
}

/// The answer among curl's notes: `< ` begins the lines of its head, and what has no mark is its body.
fn without_notes(text: &[u8]) -> Result<Vec<u8>, String> {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if let Some(said) =
            line.strip_prefix(b"<").filter(|said| said.starts_with(b" ") || said.trim_ascii().is_empty())
        {
            let said = said.strip_prefix(b" ").unwrap_or(said);
            if said.starts_with(b"HTTP/") && !head.is_empty() {
                // Of those before, the head is enough to see past them.
                body.clear();
            }
            head.extend_from_slice(said);
        } else if ![&b"* "[..], b"> ", b">\r", b">\n", b"{ [", b"} ["]
            .iter()
            .any(|mark| line.starts_with(mark))
        {
            body.extend_from_slice(line);
        }
    }
    // A body without a line end has a note on its last line.
    for note in [&b"* Connection #"[..], b"* Closing connection"] {
        if let Some(at) = memchr::memmem::rfind(&body, note)
            && memchr::memchr(b'\n', body.get(at..).unwrap_or_default().trim_ascii_end()).is_none()
        {
            body.truncate(at);
        }
    }
    if saved::begins_with_status_line(&body) {
        // With -i as well.
        return Ok(body);
    }
    if head.is_empty() {
        return Err(format!("curl's notes (-v) have no answer in them; {RIGHT}"));
    }
    head.extend_from_slice(&body);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Result<String, String> {
        read(bytes, false, &mut Vec::new())
            .map(|written| String::from_utf8(written.bytes.into_owned()).unwrap())
    }

    fn utf_16(text: &str, big: bool) -> Vec<u8> {
        let mark = std::iter::once(0xfeff);
        let units = mark.chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[test]
    fn other_encodings_are_read() {
        let saved = "HTTP/1.1 404 é\r\n\r\nno";
        let marked = format!("\u{feff}{saved}");
        for bytes in
            [utf_16(saved, true), utf_16(saved, false), marked.into_bytes(), format!("\r\n{saved}").into()]
        {
            assert_eq!(text(&bytes).unwrap(), saved);
        }
        assert!(read(&utf_16(saved, false), true, &mut Vec::new()).is_err());
        // A body alone may be the host's own.
        let body = utf_16("{}", false);
        assert_eq!(&*read(&body, false, &mut Vec::new()).unwrap().bytes, &*body);
    }

    #[test]
    fn curls_notes_are_left_out() {
        let request = "*   Trying 127.0.0.1:80...\n* Connected to a (127.0.0.1) port 80\n> GET / HTTP/1.1\r\n> Host: a\r\n>\r\n";
        let head = "< HTTP/1.1 100 Continue\r\n<\r\n* Note\n< HTTP/1.1 404 Not Found\r\n< a: b\r\n< \r\n{ [2 bytes data]\n";
        let plain = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\na: b\r\n\r\n";
        for (body, rest) in [
            ("no\n", ""),
            ("<html>\n<b>\n", ""),
            ("no", "* Connection #0 to host a left intact\n"),
            ("", "* Closing connection\n"),
        ] {
            let all = format!("{request}{head}{body}{rest}");
            assert_eq!(text(all.as_bytes()).unwrap(), format!("{plain}{body}"), "{all}");
            let crlf_lost = all.replace("\r\n", "\n");
            assert_eq!(text(crlf_lost.as_bytes()).unwrap(), format!("{plain}{body}").replace("\r\n", "\n"));
        }
        let with_i = format!("{request}< HTTP/1.1 404 x\r\nHTTP/1.1 404 x\r\n< a: b\r\na: b\r\n<\r\n\r\nno");
        assert_eq!(text(with_i.as_bytes()).unwrap(), "HTTP/1.1 404 x\r\na: b\r\n\r\nno");
        for bad in [request, "== Info: Trying", "  % Total    % Received\n"] {
            assert!(text(bad.as_bytes()).unwrap_err().contains("curl -si"), "{bad}");
        }
        // Text that only begins like a note.
        assert_eq!(text(b"* a list\n* of text").unwrap(), "* a list\n* of text");
    }
}
