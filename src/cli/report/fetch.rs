//! Asking a proxy or a Prometheus over HTTP, with an error in one line for whatever goes wrong.

use std::time::Duration;

use http::header::{AUTHORIZATION, LOCATION};
use http::{HeaderName, HeaderValue};
use ureq::Agent;

use crate::observe::report::{FORMAT, Report};
use crate::outbound::{self, Typed};
use crate::probe::Secrets;

/// The largest answer that is read.
const BODY_MAX: u64 = 64 << 20;

/// Asks, with the same headers and patience every time.
pub struct Client {
    agent: Agent,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Client {
    /// # Errors
    /// A header that is none.
    pub fn new(headers: &[String], patience: Duration) -> Result<Self, String> {
        let headers = headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        Ok(Self { agent: outbound::agent(patience), headers })
    }

    /// What was typed for it and is not to be shown, whoever says it back.
    pub fn secrets(&self) -> Secrets {
        Secrets::of_headers(self.headers.iter().map(|(name, value)| (name, value)), None)
    }

    /// The body of a 200.
    ///
    /// # Errors
    /// Anything else, in one line that begins with the URL.
    pub fn get(&self, base: &Typed, below: &str) -> Result<String, String> {
        let url = format!("{}{below}", base.url);
        let fail = |says: String| format!("{}: {says}", without_query(&url));
        let mut request = self.agent.get(&url);
        // A header that was given says more than a user in the URL.
        let given = self.headers.iter().any(|(name, _)| *name == AUTHORIZATION);
        if let Some(basic) = base.basic.as_ref().filter(|_| !given) {
            request = request.header(AUTHORIZATION, basic);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut answer = request.call().map_err(|error| {
            // One that speaks no TLS may wait for the rest of what it takes for a request.
            let waits = matches!(error, ureq::Error::Timeout(_)) && base.uri.scheme_str() == Some("https");
            fail(cause(&error) + if waits { "; is it http://?" } else { "" })
        })?;
        let status = answer.status().as_u16();
        if let (300..=399, Some(to)) = (status, answer.headers().get(LOCATION)) {
            let to = outbound::shown(&String::from_utf8_lossy(to.as_bytes()));
            return Err(fail(format!(
                "answers with HTTP status {status} and sends on to {to}, which is not followed"
            )));
        }
        let body = answer.body_mut().with_config().limit(BODY_MAX).read_to_string();
        if status != 200 {
            return Err(fail(format!("answers with HTTP status {status}")));
        }
        body.map_err(|error| fail(cause_within(&error)))
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parts = text.split_once(':').map(|(name, value)| (name.trim().parse(), value.trim().parse()));
    match parts {
        Some((Ok(name), Ok(value))) => Ok((name, value)),
        // The value may be a credential: it is not repeated.
        _ => Err("--header: not a header; write for example \"Authorization: Bearer …\"".to_owned()),
    }
}

/// What went wrong once the answer had begun.
fn cause_within(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            "the answer cannot be read as text".to_owned()
        }
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => "the answer breaks off before its end".to_owned(),
        error => cause(error),
    }
}

/// What went wrong, without the library's words where there are better ones.
fn cause(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "took too long to answer".to_owned(),
        ureq::Error::HostNotFound => "the name has no address".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => "the answer is too large".to_owned(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "nothing listens there".to_owned()
        }
        // The resolver's own words differ from system to system.
        ureq::Error::Io(error) if error.to_string().contains("lookup") => {
            "the name has no address".to_owned()
        }
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "hangs up instead of answering".to_owned()
        }
        error => {
            // The library hides what its errors were made of.
            let tls = match error {
                ureq::Error::Io(error) => outbound::tls_error_in(error),
                ureq::Error::Rustls(error) => Some(error),
                error => outbound::tls_error_in(error),
            };
            match tls {
                Some(error) => format!("TLS: {}", outbound::tls_trouble(error).0),
                None => format!("could not be asked: {}", error.to_string().replace('\n', " ")),
            }
        }
    }
}

fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// The URL of a report, from what a person wrote: `HOST:PORT`, a base URL, or the whole.
///
/// # Errors
/// It is no URL.
pub fn admin_url(text: &str) -> Result<Typed, String> {
    let mut url = base_url(text)?;
    if !url.url.ends_with("/report") {
        url.url.push_str("/report");
        url.uri = url.url.parse().map_err(|_| no_address(text, ""))?;
    }
    Ok(url)
}

/// A URL without a slash at the end.
///
/// # Errors
/// It is no URL.
pub fn base_url(text: &str) -> Result<Typed, String> {
    let mut url = Typed::read(text).map_err(|why| no_address(text, &why))?;
    // Neither a key nor a fragment has a place in front of the path.
    if url.uri.query().is_some() || text.contains('#') {
        return Err(no_address(text, ""));
    }
    url.url.truncate(url.url.trim_end_matches('/').len());
    Ok(url)
}

fn no_address(text: &str, why: &str) -> String {
    let shown = outbound::shown(text);
    // Which port there is none is worth telling.
    let why = why.split_once(" is no URL: ").map_or(String::new(), |(_, why)| format!(" ({why})"));
    format!("{shown:?} is no address{why}; write HOST:PORT, or http://HOST:PORT")
}

/// One proxy's report.
///
/// # Errors
/// It cannot be read, or is none.
pub fn report(client: &Client, url: &Typed) -> Result<Report, String> {
    let text = client.get(url, "")?;
    let none = |says: &str| format!("{}: {says}", url.url);
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|_| none("the answer is no a2a-errata report"))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => {
            return Err(none(&format!(
                "the report is of format {format}, and this build reads {FORMAT} only"
            )));
        }
        None => return Err(none("the answer is no a2a-errata report")),
    }
    serde_json::from_value(value).map_err(|error| none(&format!("the report cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_urls() {
        for (text, url) in [
            ("127.0.0.1:9464", "http://127.0.0.1:9464/report"),
            ("http://h:1/", "http://h:1/report"),
            ("https://h/proxy", "https://h/proxy/report"),
            ("http://h:1/report", "http://h:1/report"),
            ("[::1]:9464", "http://[::1]:9464/report"),
        ] {
            assert_eq!(admin_url(text).map(|read| read.url).as_deref(), Ok(url));
        }
        for text in
            ["", "ftp://h", "http://", "h h", "http://h/?a=b", "http://h/#a", "h:1#a", "/report", "h:70000"]
        {
            assert!(admin_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bad_header_is_refused_without_repeating_it() {
        for bad in ["planted", "pla nted: x", "x: planted\nplanted"] {
            let error = header(bad).map(|_| ()).unwrap_err();
            assert!(!error.contains("planted"), "{error}");
        }
        assert!(header("Authorization: Bearer x").is_ok());
    }
}
