//! The admin listener's pages (U-3): `/` (status), `/report`, `/config`, `/metrics`, `/livez`, `/readyz`, and the
//! two that change something, `/log-level` and `/-/reload`. What is shown are names and numbers, nothing from the
//! wire (D-4).

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::l4::socket::SocketAddr;

use super::readiness::Lack;
use super::removal::{CLEAN_DAYS, MOST_DAYS};
use super::{Metrics, Readiness, log, page, report};

/// The Prometheus text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JSON: &str = "application/json";

/// Nothing but the page's own style sheet is loaded, no script runs, and nobody frames it.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Bytes of a body that are read: a level is a word.
const BODY_MAX: usize = 64;

/// The page that reads the configuration again.
const RELOAD: &str = "/-/reload";

const PAGES: &str = "/ /report /config /metrics /livez /readyz /readyz/HOST /log-level /-/reload\n";

/// The effective configuration as it is shown, secrets masked. Whoever changes the configuration sets it.
#[derive(Debug, Default)]
pub struct Shown(ArcSwap<String>);

impl Shown {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(ArcSwap::from_pointee(text))
    }

    pub fn set(&self, text: String) {
        self.0.store(Arc::new(text));
    }
}

/// Reads the configuration again: what changed, or everything that is wrong with it. It may read files.
pub type Reload = Arc<dyn Fn() -> Result<String, Vec<String>> + Send + Sync>;

/// Serves the pages.
pub struct Admin {
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    configuration: Arc<Shown>,
    reload: Option<Reload>,
}

/// A page before it has headers.
struct Page {
    status: StatusCode,
    kind: &'static str,
    body: String,
}

impl Page {
    fn ok(kind: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, kind, body }
    }

    fn says(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, kind: PLAIN, body: text.into() + "\n" }
    }
}

impl Admin {
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, readiness: Arc<Readiness>, configuration: Arc<Shown>) -> Self {
        Self { metrics, readiness, configuration, reload: None }
    }

    /// With `/-/reload`.
    #[must_use]
    pub fn with_reload(self, reload: Reload) -> Self {
        Self { reload: Some(reload), ..self }
    }

    /// Reads the configuration again, on behalf of somebody at this machine.
    async fn reload(&self, headers: &HeaderMap, from_here: bool) -> Page {
        if !from_here || !is_meant_for_here(headers) {
            return Page::says(StatusCode::FORBIDDEN, "the configuration is reloaded from this machine only");
        }
        let Some(reload) = self.reload.clone() else {
            return Page::says(StatusCode::SERVICE_UNAVAILABLE, "this process does not reload");
        };
        match tokio::task::spawn_blocking(move || reload()).await {
            Ok(Ok(changes)) => Page::says(StatusCode::OK, format!("reloaded; {changes}")),
            Ok(Err(problems)) => {
                let says = format!(
                    "not reloaded, the configuration before stays in effect:\n{}",
                    problems.join("\n")
                );
                Page::says(StatusCode::UNPROCESSABLE_ENTITY, says)
            }
            Err(_) => Page::says(StatusCode::INTERNAL_SERVER_ERROR, "reloading failed; the log says where"),
        }
    }

    /// The answer to a request that changes nothing.
    fn page(&self, method: &Method, path: &str, query: &str) -> Response<Vec<u8>> {
        let reads = method == Method::GET || method == Method::HEAD;
        let page = match self.find(path, query) {
            Some(_) if !reads => {
                Page::says(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD (and PUT, POST on /log-level)")
            }
            Some(page) => page,
            None if path == RELOAD => Page::says(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
            None => Page { status: StatusCode::NOT_FOUND, kind: PLAIN, body: PAGES.to_owned() },
        };
        let mut response = respond(method, page);
        if path == RELOAD {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    fn find(&self, path: &str, query: &str) -> Option<Page> {
        Some(match path {
            "/" => match clean_days(query) {
                Ok(clean_days) => {
                    let report = report::make(&self.metrics, &self.readiness, clean_days);
                    let refresh = parameter(query, "refresh") == Some("1");
                    Page::ok(HTML, page::render(&report, page::Options { clean_days, refresh }))
                }
                Err(says) => Page::says(StatusCode::BAD_REQUEST, says),
            },
            "/style.css" => Page::ok(CSS, page::STYLE.to_owned()),
            "/report" => match clean_days(query) {
                Ok(clean_days) => {
                    let report = report::make(&self.metrics, &self.readiness, clean_days);
                    // Names and numbers: nothing that could not be written.
                    Page::ok(JSON, serde_json::to_string_pretty(&report).unwrap_or_default() + "\n")
                }
                Err(says) => Page::says(StatusCode::BAD_REQUEST, says),
            },
            "/config" => Page::ok(PLAIN, String::clone(&self.configuration.0.load())),
            "/metrics" => {
                for (host, ready) in self.readiness.hosts() {
                    self.metrics.host_ready(&host, ready);
                }
                Page::ok(EXPOSITION, self.metrics.render())
            }
            "/livez" => Page::says(StatusCode::OK, "ok"),
            "/readyz" => self.ready(query),
            "/log-level" => Page::says(StatusCode::OK, log::level().as_str()),
            _ => {
                let wanted = path.strip_prefix("/readyz/")?;
                let (_, lack) = self.readiness.lacks().into_iter().find(|(name, _)| name == wanted)?;
                let lack =
                    lack.map(Lack::as_str).or((!self.readiness.is_listening()).then_some(NOT_LISTENING));
                match lack {
                    None => Page::says(StatusCode::OK, "ok"),
                    Some(lack) => Page::says(StatusCode::SERVICE_UNAVAILABLE, format!("not ready, {lack}")),
                }
            }
        })
    }

    /// Ready is who accepts connections, knows every host's interfaces (I-1), and can reach each.
    fn ready(&self, query: &str) -> Page {
        let hosts = self.readiness.lacks();
        let listens = self.readiness.is_listening();
        let is_ready = listens && hosts.iter().all(|(_, lack)| lack.is_none());
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        if parameter(query, "verbose").is_some() {
            let line = |(name, lack): (String, Option<Lack>)| match lack {
                None => format!("{name}: ready\n"),
                Some(lack) => format!("{name}: not ready, {}\n", lack.as_str()),
            };
            let first = if listens { String::new() } else { format!("{NOT_LISTENING}\n") };
            return Page {
                status,
                kind: PLAIN,
                body: first + &hosts.into_iter().map(line).collect::<String>(),
            };
        }
        if is_ready {
            return Page::says(status, "ok");
        }
        let mut all = if listens { Vec::new() } else { vec![NOT_LISTENING.to_owned()] };
        for lack in [Lack::Interfaces, Lack::Address] {
            let these = hosts.iter().filter(|(_, one)| *one == Some(lack));
            let these: Vec<_> = these.map(|(name, _)| name.as_str()).collect();
            if !these.is_empty() {
                all.push(format!("{}: {}", lack.as_str(), these.join(", ")));
            }
        }
        Page::says(status, format!("not ready, {}", all.join("; ")))
    }
}

const NOT_LISTENING: &str = "listen.address accepts no connections yet";

/// Changes how much is logged, on behalf of somebody at this machine.
fn change_level(headers: &HeaderMap, from_here: bool, body: &[u8]) -> Page {
    if !from_here || !is_meant_for_here(headers) {
        return Page::says(StatusCode::FORBIDDEN, "the log level is changed from this machine only");
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    match text.parse() {
        Ok(level) if log::set_level(level) => Page::says(StatusCode::OK, level.as_str()),
        Ok(_) => Page::says(StatusCode::SERVICE_UNAVAILABLE, "nothing is logged by this process"),
        Err(says) => Page::says(StatusCode::BAD_REQUEST, format!("the body {says}")),
    }
}

/// Neither a web page elsewhere, nor one whose name was made to lead here, may change anything: browsers
/// say where a page is from, and which name they used.
fn is_meant_for_here(headers: &HeaderMap) -> bool {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let local = named.is_some_and(|host| {
        let with_port =
            if host.ends_with(']') || !host.contains(':') { format!("{host}:0") } else { host.into() };
        crate::config::is_loopback(&with_port)
    });
    local && !headers.contains_key(header::ORIGIN) && !headers.contains_key("sec-fetch-site")
}

/// The value of a query parameter; empty if it has none.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(n, _)| *n == name)
        .map(|(_, v)| v)
}

fn clean_days(query: &str) -> Result<u32, String> {
    let Some(text) = parameter(query, "days") else { return Ok(CLEAN_DAYS) };
    let days = text.parse().ok().filter(|days| *days <= MOST_DAYS);
    days.ok_or_else(|| format!("days must be a whole number from 0 to {MOST_DAYS}"))
}

fn respond(method: &Method, page: Page) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.kind));
    headers.insert(header::CONTENT_LENGTH, page.body.len().into());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    if page.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    if method != Method::HEAD {
        *response.body_mut() = page.body.into_bytes();
    }
    response
}

/// A short body, or nothing if it is longer.
async fn short_body(session: &mut ServerSession) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = session.read_request_body().await {
        if body.len() + piece.len() > BODY_MAX {
            return Vec::new();
        }
        body.extend_from_slice(&piece);
    }
    body
}

/// How long a body is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let head = session.req_header();
        let (method, path) = (head.method.clone(), head.uri.path().to_owned());
        let headers = head.headers.clone();
        let peer = session.client_addr().and_then(SocketAddr::as_inet).map(std::net::SocketAddr::ip);
        let from_here = peer.is_some_and(|ip| ip.to_canonical().is_loopback());
        let response = if path == RELOAD && method == Method::POST {
            respond(&method, self.reload(&headers, from_here).await)
        } else if path == "/log-level" && matches!(method, Method::PUT | Method::POST) {
            let body = tokio::time::timeout(PATIENCE, short_body(session)).await.unwrap_or_default();
            respond(&method, change_level(&headers, from_here, &body))
        } else {
            let query = session.req_header().uri.query().unwrap_or_default().to_owned();
            self.page(&method, &path, &query)
        };
        // A body that was not read must not be taken for the next request.
        if !session.is_body_empty() {
            session.set_keepalive(None);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(ready: bool) -> Admin {
        let readiness = Arc::new(Readiness::new([("legacy".to_owned(), ready)]));
        Admin::new(Metrics::new(), readiness, Arc::new(Shown::new("# shown\n".to_owned())))
    }

    fn text(response: &Response<Vec<u8>>) -> String {
        String::from_utf8(response.body().clone()).unwrap()
    }

    #[test]
    fn readiness_names_the_hosts_that_wait() {
        let response = admin(false).page(&Method::GET, "/readyz", "");
        assert_eq!(response.status(), 503);
        assert_eq!(text(&response), "not ready, no interfaces known: legacy\n");
        let response = admin(true).page(&Method::GET, "/readyz", "");
        assert_eq!((response.status().as_u16(), text(&response)), (200, "ok\n".to_owned()));
        assert_eq!(admin(false).page(&Method::GET, "/livez", "").status(), 200);
    }

    #[test]
    fn nobody_is_ready_before_it_listens() {
        let readiness = Arc::new(Readiness::new([("legacy".to_owned(), true)]).before_listening());
        let admin = Admin::new(Metrics::new(), readiness.clone(), Arc::new(Shown::new(String::new())));
        for (path, query) in [("/readyz", ""), ("/readyz", "verbose"), ("/readyz/legacy", "")] {
            let response = admin.page(&Method::GET, path, query);
            assert_eq!(response.status(), 503, "{path}");
            assert!(text(&response).contains(NOT_LISTENING), "{}", text(&response));
            assert_eq!(admin.page(&Method::GET, "/livez", "").status(), 200);
        }
        readiness.listens();
        assert_eq!(admin.page(&Method::GET, "/readyz", "").status(), 200);
    }

    #[test]
    fn metrics_are_in_the_exposition_format() {
        let response = admin(true).page(&Method::GET, "/metrics", "");
        assert_eq!(response.headers()["content-type"], EXPOSITION);
        assert!(text(&response).contains("a2a_errata_build_info{"), "{}", text(&response));
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let response = admin(true).page(&Method::HEAD, "/livez", "");
        assert_eq!(response.headers()["content-length"], "3");
        assert!(response.body().is_empty());
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        let response = admin(true).page(&Method::POST, "/metrics", "");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &"GET, HEAD".parse().unwrap())
        );
        assert_eq!(admin(true).page(&Method::GET, "/secret", "").status(), 404);
    }

    /// Every page, with the headers that keep a browser from doing more than showing it.
    #[test]
    fn every_page_is_there_and_forbids_everything_else() {
        for (path, kind) in [
            ("/", HTML),
            ("/style.css", CSS),
            ("/report", JSON),
            ("/config", PLAIN),
            ("/metrics", EXPOSITION),
            ("/livez", PLAIN),
            ("/readyz", PLAIN),
            ("/readyz/legacy", PLAIN),
            ("/log-level", PLAIN),
        ] {
            let response = admin(true).page(&Method::GET, path, "");
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(response.headers()["content-type"], kind, "{path}");
            let policy = response.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("script"), "{policy}");
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        }
        assert_eq!(text(&admin(true).page(&Method::GET, "/config", "")), "# shown\n");
    }

    #[test]
    fn each_host_has_its_own_readiness() {
        let response = admin(false).page(&Method::GET, "/readyz/legacy", "");
        assert_eq!(
            (response.status().as_u16(), text(&response)),
            (503, "not ready, no interfaces known\n".into())
        );
        assert_eq!(admin(false).page(&Method::GET, "/readyz/nobody", "").status(), 404);
        let response = admin(false).page(&Method::GET, "/readyz", "verbose");
        assert_eq!(text(&response), "legacy: not ready, no interfaces known\n");
        assert_eq!(response.status(), 503);
    }

    #[test]
    fn readiness_is_a_metric_too() {
        let shown = text(&admin(false).page(&Method::GET, "/metrics", ""));
        assert!(shown.contains(r#"a2a_errata_host_ready{host="legacy"} 0"#), "{shown}");
    }

    #[test]
    fn days_are_read_and_slips_refused() {
        let report = |query| admin(true).page(&Method::GET, "/report", query);
        for (query, days) in [("", CLEAN_DAYS), ("days=30", 30), ("x=1&days=0", 0)] {
            let read: report::Report = serde_json::from_str(&text(&report(query))).unwrap();
            assert_eq!(read.hosts[0].interfaces.len(), 0);
            assert_eq!(clean_days(query), Ok(days));
        }
        for query in ["days=", "days=-1", "days=1.5", "days=99999"] {
            assert_eq!(report(query).status(), 400, "{query}");
            assert_eq!(admin(true).page(&Method::GET, "/", query).status(), 400, "{query}");
        }
    }

    #[tokio::test]
    async fn only_this_machine_reloads_and_gets_the_reasons() {
        let here: HeaderMap =
            [("host".parse().unwrap(), "localhost:1".parse().unwrap())].into_iter().collect();
        let elsewhere: HeaderMap =
            [("host".parse().unwrap(), "x.example".parse().unwrap())].into_iter().collect();
        let good = admin(true).with_reload(Arc::new(|| Ok("changed: a".to_owned())));
        assert_eq!(good.reload(&here, false).await.status, 403);
        assert_eq!(good.reload(&elsewhere, true).await.status, 403);
        let page = good.reload(&here, true).await;
        assert_eq!((page.status.as_u16(), page.body.as_str()), (200, "reloaded; changed: a\n"));
        let bad =
            admin(true).with_reload(Arc::new(|| Err(vec!["f:1:1: x".to_owned(), "f:2:1: y".to_owned()])));
        let page = bad.reload(&here, true).await;
        assert_eq!(page.status, 422);
        assert!(page.body.ends_with(":\nf:1:1: x\nf:2:1: y\n"), "{}", page.body);
        assert_eq!(admin(true).reload(&here, true).await.status, 503);
        let response = admin(true).page(&Method::GET, RELOAD, "");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &"POST".parse().unwrap())
        );
    }

    #[test]
    fn only_this_machine_changes_the_log_level() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        for host in ["127.0.0.1:9464", "localhost:9464", "[::1]:9464", "localhost", "[::1]"] {
            assert!(is_meant_for_here(&headers(&[("host", host)])), "{host}");
        }
        for bad in [
            &[("host", "attacker.example:9464")][..],
            &[("host", "127.0.0.1:9464"), ("origin", "http://127.0.0.1:9464")],
            &[("host", "127.0.0.1:9464"), ("sec-fetch-site", "cross-site")],
            &[],
        ] {
            assert!(!is_meant_for_here(&headers(bad)), "{bad:?}");
        }
        let here = headers(&[("host", "localhost:1")]);
        assert_eq!(change_level(&here, false, b"debug").status, 403);
        assert_eq!(change_level(&here, true, b"loud").status, 400);
        assert_eq!(change_level(&here, true, b"\xff").status, 400);
    }
}
