//! Hosts that are spoken to over TLS (U-3) and fail: in the handshake, by their certificate, and below an answer.

use std::sync::Arc;
use std::time::Duration;

use a2a_errata::proxy::UpstreamTls;
use rustls::{ServerConfig, ServerConnection};

use crate::support::{ScriptedHost, Visit};
use crate::tls::{Authority, EXPIRED, NOT_YET};
use crate::{
    Asked, Becomes, CHUNKED, Script, begun_error, begun_success, chaotic, chunk, cross, half, silence,
};

/// What it shows of itself.
#[derive(Clone, Copy)]
pub enum Shows {
    Good,
    /// A certificate for somebody else.
    OtherName,
    /// One of somebody who is not trusted.
    Stranger,
    Expired,
    NotYet,
    /// None: this in place of a handshake.
    Instead(fn(&mut Visit, Arc<ServerConfig>)),
}

/// What it shows, what it does once it is believed, and what becomes of it: unary and streamed.
pub type TlsFault = (&'static str, Shows, Script, Becomes, Becomes);

const NAME: &str = "agents.internal";
const REFUSED: Becomes = Becomes::Own(502);
const TOO_LATE: Becomes = Becomes::Own(504);

/// The host's share of a handshake.
fn flight(visit: &mut Visit, config: Arc<ServerConfig>) -> Vec<u8> {
    let mut tls = ServerConnection::new(config).unwrap();
    let mut flight = Vec::new();
    while !tls.wants_write() {
        let hello = visit.connection.some();
        tls.read_tls(&mut hello.as_slice()).unwrap();
        tls.process_new_packets().unwrap();
    }
    while tls.wants_write() {
        tls.write_tls(&mut flight).unwrap();
    }
    flight
}

fn success(visit: &mut Visit, asked: Asked) {
    visit.send(format!("{}{}0\r\n\r\n", asked.good_head(CHUNKED), chunk(&asked.good())));
}

/// An answer that ends with its connection: only TLS tells whether it is whole.
fn error_to_the_close(visit: &mut Visit, asked: Asked) {
    visit.send(format!("{}{}{}", asked.bad_head(""), asked.before(), asked.bad()));
}

fn success_to_the_close(visit: &mut Visit, asked: Asked) {
    visit.send(format!("{}{}", asked.good_head(""), asked.good()));
}

/// A record that says it is the application's and is nobody's.
fn garbage(visit: &mut Visit) {
    // What is read together with it is lost.
    std::thread::sleep(Duration::from_millis(300));
    visit.connection.send_raw([&[23, 3, 3, 0, 64][..], &[0xac; 64]].concat());
    silence();
}

#[rustfmt::skip]
pub static FAULTS: &[TlsFault] = &[
    // The other rows would fail for this reason if they could not tell a good host.
    ("is right", Shows::Good, success, Becomes::Success, Becomes::Success),
    ("shows another's certificate", Shows::OtherName, success, REFUSED, REFUSED),
    ("shows a certificate of a stranger", Shows::Stranger, success, REFUSED, REFUSED),
    ("shows a certificate that has expired", Shows::Expired, success, REFUSED, REFUSED),
    ("shows a certificate that is not valid yet", Shows::NotYet, success, REFUSED, REFUSED),
    ("refuses the handshake", Shows::Instead(|visit, _| {
        visit.connection.some();
        visit.connection.send_raw([21, 3, 3, 0, 2, 2, 40]);
    }), success, REFUSED, REFUSED),
    ("closes in place of a handshake", Shows::Instead(|visit, _| _ = visit.connection.some()), success, REFUSED, REFUSED),
    // What it does not read of the client's first word makes a reset of the close.
    ("resets in place of a handshake", Shows::Instead(|_, _| std::thread::sleep(Duration::from_millis(50))), success, REFUSED, REFUSED),
    ("closes inside the handshake", Shows::Instead(|visit, config| {
        let flight = flight(visit, config);
        visit.connection.send_raw(&flight[..flight.len() / 2]);
    }), success, REFUSED, REFUSED),
    ("breaks its part of the handshake", Shows::Instead(|visit, config| {
        let mut flight = flight(visit, config);
        let middle = flight.len() / 2;
        flight[middle..].iter_mut().for_each(|byte| *byte = !*byte);
        visit.connection.send_raw(flight);
        silence();
    }), success, REFUSED, REFUSED),
    ("answers the handshake with garbage", Shows::Instead(|visit, _| {
        visit.connection.some();
        visit.connection.send_raw([0xac; 500]);
        silence();
    }), success, REFUSED, REFUSED),
    ("answers the handshake in the clear", Shows::Instead(|visit, _| {
        visit.connection.some();
        visit.connection.send_raw("HTTP/1.1 400 acme\r\n\r\n");
        silence();
    }), success, REFUSED, REFUSED),
    ("says nothing to the handshake", Shows::Instead(|_, _| silence()), success, TOO_LATE, TOO_LATE),
    ("stalls inside the handshake", Shows::Instead(|visit, config| {
        let flight = flight(visit, config);
        visit.connection.send_raw(&flight[..flight.len() / 2]);
        silence();
    }), success, TOO_LATE, TOO_LATE),

    // A connection that is closed without TLS's own end may have been cut by anybody.
    ("closes without an answer or an end of TLS", Shows::Good, |_, _| {}, REFUSED, REFUSED),
    ("closes inside an error, without an end of TLS", Shows::Good, |visit, asked| _ = visit.send(begun_error(asked)),
        REFUSED, Becomes::Abort),
    ("closes inside a success, without an end of TLS", Shows::Good, |visit, asked| _ = visit.send(begun_success(asked)),
        Becomes::Abort, Becomes::Abort),
    ("closes inside its head, without an end of TLS", Shows::Good, |visit, asked| _ = visit.send(half(&asked.bad_head(CHUNKED))),
        REFUSED, REFUSED),
    ("closes behind an error that only the end of TLS would end", Shows::Good, error_to_the_close, Becomes::Fault, Becomes::Abort),
    ("closes behind a success that only the end of TLS would end", Shows::Good, success_to_the_close, Becomes::Abort, Becomes::Abort),
    ("ends TLS behind an error that this ends", Shows::Good, |visit, asked| {
        error_to_the_close(visit, asked);
        visit.connection.end_tls();
    }, Becomes::Fault, Becomes::FaultInside),
    ("ends TLS behind a success that this ends", Shows::Good, |visit, asked| {
        success_to_the_close(visit, asked);
        visit.connection.end_tls();
    }, Becomes::Success, Becomes::Success),
    ("ends TLS without an answer", Shows::Good, |visit, _| visit.connection.end_tls(), REFUSED, REFUSED),
    ("ends TLS inside an error", Shows::Good, |visit, asked| {
        visit.send(begun_error(asked));
        visit.connection.end_tls();
    }, REFUSED, Becomes::Abort),
    ("ends TLS inside a success", Shows::Good, |visit, asked| {
        visit.send(begun_success(asked));
        visit.connection.end_tls();
    }, Becomes::Abort, Becomes::Abort),
    ("sends garbage in place of an answer", Shows::Good, |visit, _| garbage(visit), REFUSED, REFUSED),
    ("sends garbage inside an error", Shows::Good, |visit, asked| {
        visit.send(begun_error(asked));
        garbage(visit);
    }, REFUSED, Becomes::Abort),
    ("sends garbage inside a success", Shows::Good, |visit, asked| {
        visit.send(begun_success(asked));
        garbage(visit);
    }, Becomes::Abort, Becomes::Abort),
];

/// What hosts can show, and who is trusted.
pub struct Certificates {
    trusted: Vec<u8>,
    good: Arc<ServerConfig>,
    other_name: Arc<ServerConfig>,
    stranger: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
    not_yet: Arc<ServerConfig>,
}

impl Certificates {
    pub fn new() -> Self {
        let authority = Authority::new();
        Self {
            trusted: authority.certificate.der().to_vec(),
            good: authority.sign(&[NAME]).host(),
            other_name: authority.sign(&["other.internal"]).host(),
            stranger: Authority::new().sign(&[NAME]).host(),
            expired: authority.sign_for(&[NAME], EXPIRED).host(),
            not_yet: authority.sign_for(&[NAME], NOT_YET).host(),
        }
    }
}

pub fn try_out((name, shows, script, unary, streamed): &TlsFault, certificates: &Certificates) {
    let (shows, script) = (*shows, *script);
    let config = match shows {
        Shows::Good | Shows::Instead(_) => &certificates.good,
        Shows::OtherName => &certificates.other_name,
        Shows::Stranger => &certificates.stranger,
        Shows::Expired => &certificates.expired,
        Shows::NotYet => &certificates.not_yet,
    };
    let config = config.clone();
    let host = ScriptedHost::start(move |visit| {
        if let Shows::Instead(instead) = shows {
            return instead(visit, config.clone());
        }
        if visit.connection.shake(config.clone()) {
            let Some(request) = visit.request() else { return };
            script(visit, Asked::of(&request));
        }
    });
    let tls =
        UpstreamTls { sni: NAME.into(), verify: true, ca: vec![certificates.trusted.clone()], client: None };
    let proxy = chaotic(|settings| settings.hosts[0].upstreams[0].tls = Some(tls.clone()), &host);
    cross(&format!("{name}, over TLS"), 0, &proxy, *unary, *streamed);
    let was_believed = !host.requests().is_empty();
    assert_eq!(was_believed, matches!(shows, Shows::Good), "who is told what clients ask for: {name}");
}
