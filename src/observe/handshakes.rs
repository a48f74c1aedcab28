//! How TLS handshakes with clients end, and why some fail. Words of ours only: nothing of a certificate, a name or an
//! address.

use prometheus::IntCounterVec;
use prometheus::core::Collector;

use super::metrics::counters;

/// How a TLS handshake with a client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handshake {
    Done,
    /// Nothing in common, a certificate that was missing or not believed, a client that went away.
    Failed,
    /// What came was something else, such as plain HTTP.
    NotTls,
    Timeout,
}

impl Handshake {
    const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::NotTls, Self::Timeout];

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NotTls => "not_tls",
            Self::Timeout => "timeout",
        }
    }
}

/// Why one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The client showed no certificate where one is required.
    NoClientCertificate,
    /// The client's certificate is from nobody of `client_ca`, whatever its issuer calls itself.
    UnknownIssuer,
    /// The client's certificate is outside its time.
    Expired,
    /// The client's certificate cannot be used for another reason.
    ClientCertificate,
    /// The client said no: mostly to the certificate that it was shown.
    RefusedByClient,
    /// No version, cipher or protocol in common.
    NothingInCommon,
    /// It began as TLS and went on as something else.
    Protocol,
    /// The client went away.
    Closed,
    /// What came was something else from the beginning.
    NotTls,
    Timeout,
    Other,
}

impl HandshakeFailure {
    pub const ALL: [Self; 11] = [
        Self::NoClientCertificate,
        Self::UnknownIssuer,
        Self::Expired,
        Self::ClientCertificate,
        Self::RefusedByClient,
        Self::NothingInCommon,
        Self::Protocol,
        Self::Closed,
        Self::NotTls,
        Self::Timeout,
        Self::Other,
    ];

    /// As metrics and logs say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoClientCertificate => "no_client_certificate",
            Self::UnknownIssuer => "unknown_issuer",
            Self::Expired => "expired",
            Self::ClientCertificate => "client_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::NothingInCommon => "nothing_in_common",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::NotTls => "not_tls",
            Self::Timeout => "timeout",
            Self::Other => "other",
        }
    }
}

/// Both, with their metrics.
#[derive(Debug)]
pub struct Handshakes {
    ended: IntCounterVec,
    failures: IntCounterVec,
}

impl Handshakes {
    pub(super) fn new() -> prometheus::Result<Self> {
        let new = Self {
            ended: counters(
                "tls_handshakes_total",
                "TLS handshakes with clients, by how they ended.",
                &["result"],
            )?,
            failures: counters(
                "tls_handshake_failures_total",
                "TLS handshakes with clients that did not come about, by why.",
                &["cause"],
            )?,
        };
        // A first step is to be seen as one.
        for result in Handshake::ALL {
            new.ended.with_label_values(&[result.as_str()]).reset();
        }
        for cause in HandshakeFailure::ALL {
            new.failures.with_label_values(&[cause.as_str()]).reset();
        }
        Ok(new)
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 2] {
        [Box::new(self.ended.clone()), Box::new(self.failures.clone())]
    }

    /// One came about.
    pub fn done(&self) {
        self.ended.with_label_values(&[Handshake::Done.as_str()]).inc();
    }

    /// One did not.
    pub fn failed(&self, cause: HandshakeFailure) {
        let result = match cause {
            HandshakeFailure::NotTls => Handshake::NotTls,
            HandshakeFailure::Timeout => Handshake::Timeout,
            _ => Handshake::Failed,
        };
        self.ended.with_label_values(&[result.as_str()]).inc();
        self.failures.with_label_values(&[cause.as_str()]).inc();
    }
}
