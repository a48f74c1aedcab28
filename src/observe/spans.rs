//! One span per request, exported by OTLP, if a collector is configured (`traces.otlp_url`).
//!
//! The trace context of a request passes untouched to the host: the span is a sibling of the host's, below the
//! client's. Of the request's context the trace's id, its parent's id and the sampling flag are used, and
//! `tracestate` is not; the rest of a span is what the access log has (D-4).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, TraceState, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use super::{Finished, Lane, Metrics};
use crate::normalize::{Rule, Verdict};
use crate::outbound;

/// Patience with a collector, for one batch.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for the last batch.
const LAST: Duration = Duration::from_secs(1);

/// Where spans go, once they go anywhere.
static TRACES: OnceLock<Traces> = OnceLock::new();

struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// What the configuration says of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the collector, with the path.
    pub url: String,
    /// Of requests whose trace is not decided on by their client.
    pub sample_percent: u8,
    /// Sent with every batch.
    pub headers: Vec<(String, String)>,
}

/// Exports spans from here on. A second call changes nothing.
///
/// # Errors
/// The exporter cannot be made.
pub fn init(settings: &Settings, metrics: &Arc<Metrics>) -> Result<(), String> {
    let client = Client { agent: outbound::agent(PATIENCE), metrics: metrics.clone() };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&settings.url)
        .with_timeout(PATIENCE)
        .with_headers(settings.headers.iter().cloned().collect::<HashMap<_, _>>())
        .build()
        .map_err(|error| error.to_string())?;
    let ratio = f64::from(settings.sample_percent) / 100.0;
    let resource = Resource::builder_empty()
        .with_service_name("a2a-errata")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    let tracer = provider.tracer("a2a-errata");
    _ = TRACES.set(Traces { provider, tracer });
    Ok(())
}

/// Sends what is pending, not for long: for the end of the process.
pub fn flush() {
    if let Some(traces) = TRACES.get() {
        _ = traces.provider.shutdown_with_timeout(LAST);
    }
}

/// A request that is under way.
pub struct Begun {
    parent: Context,
    at: SystemTime,
}

/// `None` when there is no collector.
#[must_use]
pub fn begin(headers: &HeaderMap) -> Option<Box<Begun>> {
    TRACES.get().map(|_| Box::new(Begun { parent: parent(headers), at: SystemTime::now() }))
}

/// The client's context, without what it may say in words.
fn parent(headers: &HeaderMap) -> Context {
    let context =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers));
    let span = context.span().span_context().clone();
    if !span.is_valid() {
        // An invalid parent would count as one that was not sampled.
        return Context::new();
    }
    let bare =
        SpanContext::new(span.trace_id(), span.span_id(), span.trace_flags(), true, TraceState::default());
    Context::new().with_remote_span_context(bare)
}

impl Begun {
    /// The request is over.
    pub fn end(&self, lane: &Lane, finished: &Finished<'_>) {
        let Some(traces) = TRACES.get() else { return };
        let builder = traces
            .tracer
            .span_builder(lane.interface().to_owned())
            .with_kind(SpanKind::Server)
            .with_start_time(self.at);
        let mut span = traces.tracer.build_with_context(builder, &self.parent);
        if span.is_recording() {
            describe(&mut span, lane, finished);
        }
        span.end();
    }
}

fn describe(span: &mut impl opentelemetry::trace::Span, lane: &Lane, finished: &Finished<'_>) {
    let mut set =
        |name: &'static str, value: opentelemetry::Value| span.set_attribute(KeyValue::new(name, value));
    set("a2a_errata.host", lane.host().to_owned().into());
    set("a2a_errata.interface", lane.interface().to_owned().into());
    set("a2a_errata.binding", lane.binding().into());
    set("a2a_errata.mode", lane.mode().as_str().into());
    set("http.response.status_code", i64::from(finished.status).into());
    set("a2a_errata.stream", finished.stream.into());
    let outcome = finished.outcome;
    let verdict = outcome.map_or(Verdict::Passed, |outcome| outcome.verdict);
    set("a2a_errata.outcome", verdict.as_str().into());
    if let Some(reason) = outcome.and_then(|outcome| outcome.reason) {
        set("a2a_errata.reason", reason.into());
    }
    if let Some(cause) = outcome.and_then(|outcome| outcome.collapsed) {
        set("a2a_errata.collapsed", cause.into());
    }
    let rules: Vec<&str> = outcome.iter().flat_map(|outcome| outcome.rules.iter()).map(Rule::id).collect();
    if !rules.is_empty() {
        set("a2a_errata.rules", rules.join(" ").into());
    }
    set("a2a_errata.upstream_seconds", finished.upstream.as_secs_f64().into());
    set("a2a_errata.added_seconds", finished.added.as_secs_f64().into());
    if verdict == Verdict::Synthesized {
        span.set_status(Status::error("the host failed"));
    }
}

/// Sends batches, from the batch processor's own thread, which may block.
struct Client {
    agent: ureq::Agent,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.agent.run(request.map(|body| body.to_vec()));
        let delivered = sent.as_ref().is_ok_and(|answer| answer.status().is_success());
        self.metrics.spans_sent(delivered);
        let answer = sent?;
        // What a collector says beyond its status changes nothing.
        Ok(answer.map(|_| Bytes::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_clients_context_only_ids_and_the_flag_are_used() {
        let mut headers = HeaderMap::new();
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert("traceparent", traceparent.parse().unwrap());
        headers.insert("tracestate", "planted=secret".parse().unwrap());
        let context = parent(&headers);
        let span = context.span().span_context().clone();
        assert_eq!(format!("{:032x}", span.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(span.is_sampled() && span.is_remote());
        assert_eq!(span.trace_state().header(), "");
        headers.insert("traceparent", "00-planted-planted-01".parse().unwrap());
        assert!(!parent(&headers).has_active_span());
    }
}
