//! The admin listener's pages (U-3): `/metrics`, `/livez`, `/readyz`. GET and HEAD only, no body is read,
//! and nothing that is shown comes from the wire (D-4).

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, Response, StatusCode, header};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;

use super::{Metrics, Readiness};

/// The Prometheus text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves the pages.
#[derive(Debug)]
pub struct Admin {
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
}

impl Admin {
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, readiness: Arc<Readiness>) -> Self {
        Self { metrics, readiness }
    }

    /// The answer to one request.
    fn page(&self, method: &Method, path: &str) -> Response<Vec<u8>> {
        let read = method == Method::GET || method == Method::HEAD;
        let (status, kind, body) = match path {
            "/metrics" | "/livez" | "/readyz" if !read => {
                (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned())
            }
            "/metrics" => (StatusCode::OK, EXPOSITION, self.metrics.render()),
            "/livez" => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
            "/readyz" => match self.readiness.waiting() {
                waiting if waiting.is_empty() => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
                waiting => {
                    let body = format!("not ready, no interfaces known: {}\n", waiting.join(", "));
                    (StatusCode::SERVICE_UNAVAILABLE, PLAIN, body)
                }
            },
            _ => (StatusCode::NOT_FOUND, PLAIN, "/metrics /livez /readyz\n".to_owned()),
        };
        let mut response = Response::new(Vec::new());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
        }
        if method != Method::HEAD {
            *response.body_mut() = body.into_bytes();
        }
        response
    }
}

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let head = session.req_header();
        let response = self.page(&head.method, head.uri.path());
        // A body, which nobody reads here, must not be taken for the next request.
        if !session.is_body_empty() {
            session.set_keepalive(None);
        }
        response
    }
}

/// Whether only this machine can reach the address.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(ready: bool) -> Admin {
        Admin::new(Metrics::new(), Arc::new(Readiness::new([("legacy".to_owned(), ready)])))
    }

    fn text(response: &Response<Vec<u8>>) -> String {
        String::from_utf8(response.body().clone()).unwrap()
    }

    #[test]
    fn readiness_names_the_hosts_that_wait() {
        let response = admin(false).page(&Method::GET, "/readyz");
        assert_eq!(response.status(), 503);
        assert_eq!(text(&response), "not ready, no interfaces known: legacy\n");
        let response = admin(true).page(&Method::GET, "/readyz");
        assert_eq!((response.status().as_u16(), text(&response)), (200, "ok\n".to_owned()));
        assert_eq!(admin(false).page(&Method::GET, "/livez").status(), 200);
    }

    #[test]
    fn metrics_are_in_the_exposition_format() {
        let response = admin(true).page(&Method::GET, "/metrics");
        assert_eq!(response.headers()["content-type"], EXPOSITION);
        assert!(text(&response).contains("a2a_errata_build_info{"), "{}", text(&response));
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let response = admin(true).page(&Method::HEAD, "/livez");
        assert_eq!(response.headers()["content-length"], "3");
        assert!(response.body().is_empty());
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        let response = admin(true).page(&Method::POST, "/metrics");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &"GET, HEAD".parse().unwrap())
        );
        assert_eq!(admin(true).page(&Method::GET, "/secret").status(), 404);
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        for address in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "localhost:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "admin.example:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
