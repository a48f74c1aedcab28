//! What the proxy says when the host said nothing, or must not be asked (P-1): which failure is
//! which answer, and the plain form it has on a URL that is no interface. On an interface the exchange
//! writes it, in the interface's binding.

use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header};
use pingora::protocols::http::ServerSession;
use pingora_error::{Error, ErrorSource, ErrorType, Result};
use pingora_http::ResponseHeader;

use crate::normalize::{Failure, OwnAnswer};
use crate::observe::UpstreamFailure;

/// How long a client that is still sending is listened to after it was refused.
pub const LINGER: Duration = Duration::from_secs(2);
/// How many bytes behind the end of its request are listened to.
const LINGER_BYTES: usize = 64 * 1024;

/// The answer to a failed attempt, or `None` when nobody is there to be answered.
pub fn of(error: &Error) -> Option<OwnAnswer> {
    match error.etype() {
        ErrorType::HTTPStatus(status) => return Some(of_status(*status)),
        ErrorType::ConnectRefused
        | ErrorType::ConnectNoRoute
        | ErrorType::ConnectTimedout
        | ErrorType::TLSHandshakeFailure
        | ErrorType::TLSHandshakeTimedout
        | ErrorType::InvalidCert => return Some(of_upstream(error)),
        _ => {}
    }
    match error.esource() {
        ErrorSource::Upstream => Some(of_upstream(error)),
        ErrorSource::Downstream => match error.etype() {
            ErrorType::ReadTimedout => Some(OwnAnswer::RequestTimeout),
            ErrorType::ReadError
            | ErrorType::WriteError
            | ErrorType::WriteTimedout
            | ErrorType::ConnectionClosed
            | ErrorType::H2Error => None,
            _ => Some(OwnAnswer::BadRequest),
        },
        ErrorSource::Internal | ErrorSource::Unset => Some(OwnAnswer::Internal),
    }
}

/// The answer when the host's side failed: 504 if it took too long, else 502.
pub fn of_upstream(error: &Error) -> OwnAnswer {
    match failure(error) {
        Failure::TimedOut => OwnAnswer::GatewayTimeout,
        Failure::Closed => OwnAnswer::BadGateway,
        Failure::NoRoom => OwnAnswer::Unavailable,
    }
}

/// How the host's side failed, for the metrics.
pub fn upstream_failure(error: &Error) -> UpstreamFailure {
    match error.etype() {
        ErrorType::ConnectRefused
        | ErrorType::ConnectNoRoute
        | ErrorType::ConnectError
        | ErrorType::BindError
        | ErrorType::SocketError
        | ErrorType::TLSHandshakeFailure
        | ErrorType::InvalidCert
        | ErrorType::HTTPStatus(_) => UpstreamFailure::Connect,
        ErrorType::ConnectTimedout
        | ErrorType::TLSHandshakeTimedout
        | ErrorType::ReadTimedout
        | ErrorType::WriteTimedout => UpstreamFailure::Timeout,
        ErrorType::InvalidHTTPHeader | ErrorType::H1Error | ErrorType::H2Error => UpstreamFailure::Protocol,
        _ => UpstreamFailure::Closed,
    }
}

/// How the host's side failed.
pub fn failure(error: &Error) -> Failure {
    match error.etype() {
        ErrorType::ConnectTimedout
        | ErrorType::TLSHandshakeTimedout
        | ErrorType::ReadTimedout
        | ErrorType::WriteTimedout => Failure::TimedOut,
        _ => Failure::Closed,
    }
}

fn of_status(status: u16) -> OwnAnswer {
    match status {
        400 => OwnAnswer::BadRequest,
        408 => OwnAnswer::RequestTimeout,
        413 => OwnAnswer::RequestTooLarge,
        429 => OwnAnswer::TooManyRequests,
        502 => OwnAnswer::BadGateway,
        503 => OwnAnswer::Unavailable,
        504 => OwnAnswer::GatewayTimeout,
        508 => OwnAnswer::Loop,
        _ => OwnAnswer::Internal,
    }
}

/// The status of an answer on a URL that is no interface.
pub fn status(own: OwnAnswer) -> StatusCode {
    match own {
        OwnAnswer::BadGateway => StatusCode::BAD_GATEWAY,
        OwnAnswer::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
        OwnAnswer::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        OwnAnswer::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        OwnAnswer::BadRequest => StatusCode::BAD_REQUEST,
        OwnAnswer::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        OwnAnswer::Loop => StatusCode::LOOP_DETECTED,
        OwnAnswer::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        OwnAnswer::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Writes an answer as a line of text.
///
/// # Errors
/// When the client cannot be written to.
pub async fn plain(client: &mut ServerSession, status: StatusCode) -> Result<()> {
    let text = Bytes::from_static(status.canonical_reason().unwrap_or("Error").as_bytes());
    let mut head = ResponseHeader::build(status, Some(5))?;
    head.insert_header(header::CONTENT_TYPE, "text/plain; charset=utf-8")?;
    head.insert_header(header::CONTENT_LENGTH, text.len())?;
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        head.insert_header(header::RETRY_AFTER, "1")?;
    }
    client.write_response_header(Box::new(head)).await?;
    client.write_response_body(text, true).await
}

/// Makes sure that a refused client gets to read its answer: closing a connection with unread bytes
/// resets it, and a reset takes the answer away from a client that is still sending. So the answer
/// is ended, and what still comes is read for a while.
pub async fn linger(client: &mut ServerSession) {
    if client.is_http2() {
        // A stream that ends early is no connection that ends.
        return;
    }
    client.shutdown().await;
    if !has_head(client) {
        return;
    }
    client.set_pipelining_enabled(false);
    // Whatever goes wrong from here on, the answer is out.
    let _ = tokio::time::timeout(LINGER, async {
        if client.drain_request_body().await.is_ok() {
            // Bytes behind the end of the request come one at a time, each as an error.
            for _ in 0..LINGER_BYTES {
                match client.read_body_or_idle(true).await {
                    Err(error) if *error.etype() == ErrorType::ConnectError => {}
                    _ => break,
                }
            }
        }
    })
    .await;
}

/// Whether the request's head could be read. Pingora panics when it is asked for one that could not, or for
/// the body behind it; its summary has a dash then.
pub fn has_head(client: &ServerSession) -> bool {
    client.as_http1().is_none_or(|http1| !http1.request_summary().starts_with("- "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P-1: which failure is which status.
    #[test]
    fn failures_have_their_status() {
        use ErrorType as T;
        for (error, expected) in [
            (Error::new_up(T::ConnectRefused), Some(502)),
            (Error::new_up(T::ConnectTimedout), Some(504)),
            (Error::new_up(T::ReadTimedout), Some(504)),
            (Error::new_up(T::ConnectionClosed), Some(502)),
            (Error::new_up(T::InvalidHTTPHeader), Some(502)),
            (Error::new(T::HTTPStatus(413)), Some(413)),
            (Error::new(T::HTTPStatus(503)), Some(503)),
            (Error::new_down(T::ReadTimedout), Some(408)),
            (Error::new_down(T::ConnectionClosed), None),
            (Error::new_down(T::InvalidHTTPHeader), Some(400)),
            (Error::new_in(T::InternalError), Some(500)),
        ] {
            assert_eq!(of(&error).map(|own| status(own).as_u16()), expected, "{error}");
        }
    }
}
