//! What is looked at and changed in a request's head: `Via` and its loops, and on interfaces what
//! encodings the host may use. Everything else is the client's, byte for byte (Q-1, Q-4).

use http::{HeaderMap, HeaderValue, Uri, Version, header};
use pingora_error::Result;
use pingora_http::RequestHeader;

/// What the client addressed: `:authority`, an absolute request target, else `Host`.
pub fn authority(request: &RequestHeader) -> &str {
    match request.uri.authority() {
        Some(authority) => authority.as_str(),
        None => request.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    }
}

/// The path and the query, as they were sent.
pub fn target(uri: &Uri) -> (&str, Option<&str>) {
    (uri.path(), uri.query())
}

/// Whether everybody who reads this head sees the same request in it: where it goes to, and where it ends (P-1;
/// RFC 9112, sections 3.2 and 6.1). Pingora has refused what contradicts itself; here goes what only some would read
/// in another way: a transfer coding that it would take away without decoding it, and a `Host` that is no name.
pub fn is_plain(request: &RequestHeader) -> bool {
    let mut codings = request.headers.get_all(header::TRANSFER_ENCODING).iter();
    let coded = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(only), None) => !only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    };
    let named = match request.headers.get(header::HOST) {
        Some(host) => host.as_bytes().iter().all(|byte| is_of_a_name(*byte)),
        // HTTP/2 has `:authority`, HTTP/1.0 knows neither.
        None => request.version != Version::HTTP_11,
    };
    !coded && named
}

/// RFC 3986, section 3.2, without the `@` of credentials, which have no place here.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

/// Leaves one `Content-Length` where a list of equal ones came, as must be before it goes on (RFC 9112, section 6.3).
///
/// # Errors
/// None that can happen: digits are a valid header value.
pub fn say_the_length_once(request: &mut RequestHeader) -> Result<()> {
    let mut lines = request.headers.get_all(header::CONTENT_LENGTH).iter();
    let is_list = lines.next().is_some_and(|line| line.as_bytes().contains(&b',')) || lines.next().is_some();
    match announced(&request.headers).filter(|_| is_list) {
        Some(length) => request.insert_header(header::CONTENT_LENGTH, length.to_string()),
        None => Ok(()),
    }
}

/// What `Content-Length` announces; a list of equal values is one (the framing is checked already).
pub fn announced(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    value.split(',').next()?.trim().parse().ok()
}

/// Whether `Via` says that this very process has seen the request before (P-1).
pub fn has_been_here(headers: &HeaderMap, pseudonym: &str) -> bool {
    let seen = headers.get_all(header::VIA).iter().filter_map(|via| via.to_str().ok());
    seen.flat_map(|via| via.split(',')).any(|hop| hop.split_ascii_whitespace().nth(1) == Some(pseudonym))
}

/// Leaves this process's name in the request. On a line of its own, so that what the client sent
/// stays as it was; the answer gets no `Via`, it is the host's.
///
/// # Errors
/// None that can happen: the name is a valid header value.
pub fn leave_trace(request: &mut RequestHeader, via: HeaderValue) -> Result<()> {
    request.append_header(header::VIA, via)?;
    Ok(())
}

/// Lets the host answer in no encoding but the plain one (Q-4): what is held must be read.
///
/// # Errors
/// None that can happen: the value is a valid header value.
pub fn ask_for_plain_bytes(request: &mut RequestHeader) -> Result<()> {
    request.insert_header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
}

/// Lets the host send all of its card in plain bytes (P-3): what the client has of it is known by
/// other tags and other places.
///
/// # Errors
/// None that can happen: the value is a valid header value.
pub fn ask_for_the_whole_card(request: &mut RequestHeader) -> Result<()> {
    for name in [
        header::IF_NONE_MATCH,
        header::IF_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
        header::IF_RANGE,
        header::RANGE,
    ] {
        request.remove_header(&name);
    }
    ask_for_plain_bytes(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("POST", b"/a?b", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    #[test]
    fn a_loop_is_known_by_this_process_only() {
        let mut request = request(&[("via", "1.1 other, HTTP/1.1 a2a-errata-1 (x)")]);
        assert!(has_been_here(&request.headers, "a2a-errata-1"));
        assert!(!has_been_here(&request.headers, "a2a-errata-2"));
        leave_trace(&mut request, HeaderValue::from_static("1.1 a2a-errata-2")).unwrap();
        assert!(has_been_here(&request.headers, "a2a-errata-2"));
        let lines: Vec<_> = request.headers.get_all("via").iter().collect();
        assert_eq!(lines, ["1.1 other, HTTP/1.1 a2a-errata-1 (x)", "1.1 a2a-errata-2"]);
    }

    #[test]
    fn lengths_are_read_as_pingora_reads_them() {
        assert_eq!(announced(&request(&[("content-length", "7, 7")]).headers), Some(7));
        assert_eq!(announced(&request(&[]).headers), None);
    }

    #[test]
    fn a_list_of_equal_lengths_becomes_one() {
        for lines in [&[("content-length", "7, 7")][..], &[("content-length", "7"), ("content-length", "7")]]
        {
            let mut request = request(lines);
            say_the_length_once(&mut request).unwrap();
            assert_eq!(request.headers.get_all("content-length").iter().collect::<Vec<_>>(), ["7"]);
        }
    }

    #[test]
    fn p1_a_head_that_readers_disagree_about_is_not_plain() {
        let with = |name, value| request(&[("host", "h.example:80"), (name, value)]);
        for (name, value, plain) in [
            ("x", "y", true),
            ("transfer-encoding", "chunked", true),
            ("transfer-encoding", " Chunked\t", true),
            ("transfer-encoding", "gzip, chunked", false),
            ("transfer-encoding", "chunked, chunked", false),
            ("transfer-encoding", "identity", false),
        ] {
            assert_eq!(is_plain(&with(name, value)), plain, "{name}: {value}");
        }
        for (host, plain) in
            [("", true), ("[::1]:8080", true), ("a b", false), ("a/b", false), ("a\"", false)]
        {
            assert_eq!(is_plain(&request(&[("host", host)])), plain, "{host}");
        }
        let mut request = request(&[]);
        assert!(!is_plain(&request));
        request.set_version(Version::HTTP_10);
        assert!(is_plain(&request));
    }

    #[test]
    fn p3_a_card_is_asked_for_as_a_whole() {
        let conditions =
            [("if-none-match", "x"), ("range", "bytes=0-"), ("accept-encoding", "br"), ("x", "y")];
        let mut request = request(&conditions);
        ask_for_the_whole_card(&mut request).unwrap();
        let left: Vec<_> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert!(left.contains(&("accept-encoding", "identity")) && left.contains(&("x", "y")), "{left:?}");
        assert_eq!(left.len(), 2);
    }

    #[test]
    fn every_accept_encoding_becomes_one_identity() {
        let mut request = request(&[("accept-encoding", "br"), ("accept-encoding", "gzip")]);
        ask_for_plain_bytes(&mut request).unwrap();
        let lines: Vec<_> = request.headers.get_all("accept-encoding").iter().collect();
        assert_eq!(lines, ["identity"]);
    }
}
