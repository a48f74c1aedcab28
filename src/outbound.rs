//! Requests of the process's own: to a proxy's report, a Prometheus, a collector of spans, a host under probe. What
//! a person typed becomes a URL here, and what TLS says becomes a sentence. What clients ask goes through Pingora.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http::{HeaderValue, Uri};
use rustls::{AlertDescription, CertificateError};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::protocol::a2a::percent_decode;

/// Asks with this much patience for each whole answer; a status is no error. A redirect is an answer like any other:
/// what is sent may be a credential, and is for nobody but whom was named.
#[must_use]
pub fn agent(patience: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("a2a-errata/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    config.into()
}

/// A URL as a person types it. The user in it is no part of what is shown, logged or joined with a path.
#[derive(Clone)]
pub struct Typed {
    /// With its scheme, without a user; a slash at the end stays.
    pub url: String,
    pub uri: Uri,
    /// `Authorization`, as curl makes it of `https://user:password@host`.
    pub basic: Option<HeaderValue>,
}

impl Typed {
    /// Reads an http or https URL; without a scheme it is http.
    ///
    /// # Errors
    /// In one line, what is wrong with it, and nothing of a user in it.
    pub fn read(text: &str) -> Result<Self, String> {
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let (url, user) = without_user(&whole);
        let shown = shown(text);
        let uri: Uri = url.parse().map_err(|_| format!("{shown:?} is no URL"))?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), authority) else {
            return Err(format!("{shown:?} is no http or https URL"));
        };
        // The parser takes any digits for a port, and what asks falls back to the scheme's then.
        let behind = authority.as_str().rsplit(']').next().unwrap_or_default();
        if let Some((_, port)) = behind.rsplit_once(':')
            && authority.port_u16().is_none_or(|port| port == 0)
        {
            // Without digits it may be half a password.
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = if digits { format!("{port} is no port") } else { "the port is none".to_owned() };
            return Err(format!("{shown:?} is no URL: {port}; ports are 1 to 65535"));
        }
        let basic = user.map(|user| {
            let decoded = percent_decode(user);
            let pair = if decoded.contains(':') { decoded } else { format!("{decoded}:") };
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).map_err(|_| "no header");
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            value
        });
        let basic = basic.transpose().map_err(|_| format!("the user in {shown:?} is none"))?;
        Ok(Self { url, uri, basic })
    }

    /// The same for all that lead to one place: without the scheme's own port, in lower case where that does not
    /// matter.
    #[must_use]
    pub fn place(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let host = self.uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = self.uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        format!("{scheme}://{host}:{port}{}", self.uri.path().trim_end_matches('/'))
    }
}

/// The URL, and what stands before an `@` in its authority.
fn without_user(url: &str) -> (String, Option<&str>) {
    let none = || (url.to_owned(), None);
    let Some((scheme, rest)) = url.split_once("://") else { return none() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((authority, below)) = rest.split_at_checked(end) else { return none() };
    let Some((user, host)) = authority.rsplit_once('@') else { return none() };
    (format!("{scheme}://{host}{below}"), Some(user))
}

/// A URL as it may be shown, even if it is none: what could be a user and a password is left out, and so is what
/// stands in its query, which may be a key. It is cut where nobody would read on.
#[must_use]
pub fn shown(url: &str) -> String {
    const MOST: usize = 200;
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    // Past a query an `@` may be anything, and before it a typing error may have moved the authority's end.
    let plain = rest.split(['?', '#']).next().unwrap_or_default();
    let place = plain.rsplit_once('@').map_or(plain, |(_, place)| place);
    let mut shown = if url.contains("://") { format!("{scheme}://{place}") } else { place.to_owned() };
    if let Some((end, _)) = shown.char_indices().nth(MOST) {
        shown.truncate(end);
        shown.push('…');
    } else if let Some(mark) = rest.chars().nth(plain.chars().count()) {
        // That there is more tells two URLs apart.
        shown.extend([mark, '…']);
    }
    shown
}

/// What would help where a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Trusting another authority.
    Authority,
    /// Not looking at the certificate.
    Blindness,
    /// Nothing on this side.
    None,
}

/// What went wrong in a handshake, in a sentence, and what would help.
#[must_use]
pub fn tls_trouble(error: &rustls::Error) -> (&'static str, Remedy) {
    let says = match error {
        rustls::Error::InvalidCertificate(
            why @ (CertificateError::UnknownIssuer | CertificateError::BadSignature),
        ) => return (certificate_trouble(why), Remedy::Authority),
        rustls::Error::InvalidCertificate(why) => {
            return (certificate_trouble(why), Remedy::Blindness);
        }
        rustls::Error::InvalidMessage(_) => "what answers there speaks no TLS; is it http://?",
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the host speaks no version of HTTP that was offered"
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate,
        ) => "the host asks for a client's certificate, and none is sent",
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the host has no certificate for this name"
        }
        rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity,
        ) => "no version or cipher in common; the host must offer TLS 1.2 or 1.3",
        rustls::Error::AlertReceived(_) => "the host refuses the handshake",
        _ => "the handshake failed",
    };
    (says, Remedy::None)
}

fn certificate_trouble(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer => {
            "no authority that is trusted here has signed the host's certificate"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the host's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the host's certificate is not valid yet; is the clock right?"
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the host's certificate is for no name at all"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the host's certificate is for another name"
        }
        CertificateError::BadSignature => {
            "the host's certificate is not signed by the authority that it names"
        }
        CertificateError::Revoked => "the host's certificate is revoked",
        // What webpki alone knows: an authority's own certificate in a host's place, above all.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the host shows an authority's own certificate instead of one of its own"
        }
        _ => "the host's certificate is not in order",
    }
}

/// The handshake's error, wherever in the chain of causes it is.
#[must_use]
pub fn tls_error_in<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An I/O error hides what it was made of from `source`.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| tls_error_in(inner)) {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_in_a_url_becomes_basic_and_is_never_shown() {
        let basic = |text: &str| {
            let typed = Typed::read(text).unwrap();
            assert!(!typed.url.contains("secret"), "{}", typed.url);
            assert!(!typed.uri.authority().unwrap().as_str().contains('@'));
            typed.basic.map(|value| value.to_str().unwrap().to_owned())
        };
        // `printf 'a:secret' | base64`, and so on.
        assert_eq!(basic("https://a:secret@h.example/x?y=@").as_deref(), Some("Basic YTpzZWNyZXQ="));
        assert_eq!(basic("a:secret@h.example:80").as_deref(), Some("Basic YTpzZWNyZXQ="));
        assert_eq!(basic("http://a%40b:secret%3A@h").as_deref(), Some("Basic YUBiOnNlY3JldDo="));
        assert_eq!(basic("http://secret@h").as_deref(), Some("Basic c2VjcmV0Og=="));
        assert_eq!(basic("http://h/a@b"), None);
    }

    #[test]
    fn what_is_no_url_is_told_without_its_user() {
        for (text, says) in [
            ("https:/a:secret@h", "is no"),
            ("http://a:secret@h h", "is no URL"),
            ("http://a:secret@h:70000", "70000 is no port; ports are 1 to 65535"),
            ("http://h:0/", "0 is no port"),
            ("http://h:/", "the port is none"),
            ("http://[::1]:abc", "is no"),
            ("ftp://a:secret@h", "is no http or https URL"),
            ("http://a:secret@", "is no"),
            ("http://a:sec/ret@h", "is no"),
            ("", "is no"),
        ] {
            let why = Typed::read(text).map(|typed| typed.url).unwrap_err();
            assert!(why.contains(says) && !why.contains("sec"), "{text}: {why}");
        }
        assert!(Typed::read("[::1]:9464").is_ok());
    }

    #[test]
    fn of_a_query_only_that_there_is_one_is_shown() {
        for (url, says) in [
            ("https://h.example/a?key=secret", "https://h.example/a?…"),
            ("https://h.example/a#token=secret", "https://h.example/a#…"),
            ("h.example?secret@x", "h.example?…"),
            ("https://u:secret@h.example/a?b=secret@c", "https://h.example/a?…"),
            ("/steal?key=secret", "/steal?…"),
            ("https://h.example/a@b", "https://b"),
            ("https://h.example/é", "https://h.example/é"),
        ] {
            assert_eq!(shown(url), says);
        }
        let why = Typed::read("ftp://h?key=secret").map(|typed| typed.url).unwrap_err();
        assert_eq!(why, "\"ftp://h?…\" is no http or https URL");
        assert_eq!(shown(&format!("data:{}", "x".repeat(70_000))).chars().count(), 201);
    }

    #[test]
    fn one_place_has_one_name() {
        let place = |text: &str| Typed::read(text).unwrap().place();
        for same in ["http://H.example:80/", "h.example", "HTTP://h.example//", "http://u@h.example"] {
            assert_eq!(place(same), "http://h.example:80", "{same}");
        }
        assert_ne!(place("https://h.example"), place("http://h.example"));
        assert_ne!(place("h.example/a"), place("h.example/A"));
    }
}
