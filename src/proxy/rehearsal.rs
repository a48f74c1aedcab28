//! A saved answer through the machine that the proxy feeds, without a socket: what the client would get.
//!
//! Routing, rules and the hop-by-hop headers are the proxy's own code. What is left out is the
//! connection's: `Date`, `Connection`, how a body is framed, and the time that O-4 waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use pingora_http::{RequestHeader, ResponseHeader};

use super::routes::{Hosts, Routed};
use super::service::strip_hop_by_hop;
use super::settings::{self, Limits, Settings, Timeouts};
use crate::normalize::{Failure, Interface, Machine, Mode, Outcome, Output, OwnAnswer};
use crate::observe::Metrics;
use crate::outbound::shown;

/// How much of a body the machine gets at once; as Pingora reads it.
const PIECE: usize = 64 << 10;

/// What the client asked.
#[derive(Debug, Clone)]
pub struct Question {
    pub method: Method,
    /// Path and query as they were sent.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What the host told, transfer coding undone, and how it ended.
#[derive(Debug, Clone)]
pub struct Told {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Where its framing said.
    Whole,
    /// Before that.
    CutOff(Failure),
    /// Without a single byte.
    Silence(OwnAnswer),
}

/// What the client gets.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    pub host: String,
    pub mode: Mode,
    /// Whether any rule binds the request; if none does, the answer is the host's own.
    pub bound: bool,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the client sees a clean end (C-5).
    pub complete: bool,
    pub outcome: Outcome,
}

/// One host with these interfaces, everything else as it is by default.
#[must_use]
pub fn default_host(interfaces: Vec<Arc<Interface>>) -> settings::Host {
    let silence = Duration::from_mins(1);
    settings::Host {
        name: "host".to_owned(),
        upstreams: Vec::new(),
        group: settings::Group::default(),
        authorities: Vec::new(),
        policy: Arc::default(),
        interfaces,
        modes: Vec::new(),
        limits: Limits::default(),
        timeouts: Timeouts { connect: silence, read: silence, write: silence, idle: silence },
        card: settings::Card::default(),
        public_url: String::new(),
    }
}

/// Where requests go among these hosts. Nothing listens, and nothing is counted anywhere.
#[must_use]
pub fn hosts_of(hosts: Vec<settings::Host>) -> Hosts {
    let settings = Settings {
        listen: String::new(),
        tls: None,
        services: 1,
        grace: Duration::ZERO,
        handover: false,
        bounds: settings::Bounds::default(),
        hosts,
    };
    Hosts::new(&settings, &Metrics::new())
}

/// What the client would get.
///
/// # Errors
/// When the request cannot be one, or selects no host.
pub fn rehearse(hosts: &Hosts, question: &Question, told: &Told) -> Result<Rehearsed, String> {
    let mut request = RequestHeader::build(question.method.clone(), question.target.as_bytes(), None)
        .map_err(|_| format!("{:?} is no request target", shown(&question.target)))?;
    for (name, value) in &question.headers {
        request.append_header(name.clone(), value.clone()).map_err(|why| why.to_string())?;
    }
    let Routed { host, machine, .. } =
        hosts.route(&request).ok_or("no host of the configuration answers to the request's Host")?;
    let mut host_head = ResponseHeader::build(told.status, None).map_err(|why| why.to_string())?;
    for (name, value) in &told.headers {
        host_head.append_header(name.clone(), value.clone()).map_err(|why| why.to_string())?;
    }
    strip_hop_by_hop(&mut host_head);
    let mut client = Client {
        host: Some((told.status, host_head.headers.clone())),
        head: None,
        body: Vec::new(),
        end: None,
    };
    let Some(mut machine) = machine else {
        let (status, headers) = (told.status, host_head.headers.clone());
        return Ok(Rehearsed {
            host: host.name.clone(),
            mode: host.policy.mode,
            bound: false,
            status,
            headers,
            body: told.body.clone(),
            // What a HEAD's length tells is not there (C-4).
            complete: told.ending == Ending::Whole || question.method == Method::HEAD,
            outcome: Outcome::default(),
        });
    };
    let over = question.body.len() as u64 > host.limits.request_bytes;
    if !over {
        machine.request_piece(&question.body);
    }
    machine.request_end();
    match told.ending {
        _ if over => machine.answer(OwnAnswer::RequestTooLarge),
        Ending::Silence(own) => machine.answer(own),
        Ending::Whole | Ending::CutOff(_) => {
            machine.head(told.status, &host_head.headers);
            client.take(&mut machine);
            let is_head = question.method == Method::HEAD;
            for piece in told.body.chunks(PIECE).filter(|_| !is_head) {
                match client.end {
                    None => {
                        machine.piece(told.body.slice_ref(piece));
                        client.take(&mut machine);
                    }
                    Some(End::Passes) => client.body.extend_from_slice(piece),
                    Some(End::Clean | End::Broken) => break,
                }
            }
            match (client.end, told.ending) {
                (None, Ending::CutOff(failure)) if !is_head => machine.fail(failure),
                (None, _) => machine.end(),
                (Some(End::Passes), Ending::CutOff(_)) if !is_head => client.end = Some(End::Broken),
                (Some(_), _) => {}
            }
        }
    }
    client.take(&mut machine);
    let (status, headers) = client.head.ok_or("the rules gave no answer")?;
    Ok(Rehearsed {
        host: host.name.clone(),
        mode: if machine.is_observing() { Mode::Observe } else { Mode::Enforce },
        bound: true,
        status,
        headers,
        body: client.body.into(),
        complete: client.end.is_some_and(|end| end != End::Broken),
        outcome: machine.outcome().clone(),
    })
}

/// How the message to the client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    /// With the host's own bytes, whatever they are.
    Passes,
    Broken,
}

/// The client's side: what was written to it.
struct Client {
    /// The host's head, until it or another one is written.
    host: Option<(StatusCode, HeaderMap)>,
    head: Option<(StatusCode, HeaderMap)>,
    body: Vec<u8>,
    end: Option<End>,
}

impl Client {
    /// Takes all that the machine has to say.
    fn take(&mut self, machine: &mut Machine) {
        while self.end.is_none()
            && let Some(output) = machine.poll(self.host.as_ref().map(|(_, headers)| headers))
        {
            match output {
                Output::HostHead => self.head = self.host.take(),
                Output::Head(head) => {
                    self.host = None;
                    self.head = Some((head.status, head.headers));
                }
                Output::Body(bytes) => self.body.extend_from_slice(&bytes),
                Output::End => self.end = Some(End::Clean),
                Output::PassRest => self.end = Some(End::Passes),
                Output::Abort => self.end = Some(End::Broken),
                Output::CloseUpstream => {}
            }
        }
    }
}
