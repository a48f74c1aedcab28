//! The Pingora shell: it moves bytes and asks [`crate::normalize::Exchange`] what they become.
//!
//! `server` assembles the process, `routes` knows which host and interface a request is for,
//! `service` implements Pingora's hooks, `hold` keeps an answer back until the exchange has its
//! verdict, `request` and `upstream` prepare what the host sees, `group` chooses among a host's addresses and
//! `health` asks whether they can be used, `own_answers` writes what the proxy
//! says itself, `handover` gives listening sockets to the next process, `front` catches requests that Pingora refuses before the first hook, `tls` makes handshakes before it, `cards` learns the
//! interfaces of a host from its agent card, `joined` sends a request's head and body in one, `idle`
//! keeps upstream connections, `gather` sends the pieces of an answer in one (`layer` is what the two
//! share), `public` knows the URL that clients know a host by, and `rehearsal` does with a saved
//! answer, without a socket, what `hold` does with one that comes.

mod admission;
mod cards;
mod front;
mod gather;
mod group;
mod handover;
mod health;
mod hold;
mod idle;
mod joined;
mod layer;
mod own_answers;
mod patience;
mod public;
mod rehearsal;
mod request;
mod routes;
mod server;
mod service;
mod settings;
mod tls;
mod upstream;

pub use admission::Admission;
pub use cards::CardReader;
pub use handover::{Before, Kept, Promise, Sockets, Waiting};
pub use rehearsal::{Ending, Question, Rehearsed, Told, default_host, hosts_of, rehearse};
pub use routes::Hosts;
pub use server::{Assembly, run};
pub use settings::{
    Balance, Bounds, Card, ClientCertificates, Ejection, Group, Health, Host, Http2, InterfaceMode, Limits,
    ListenTls, Settings, Timeouts, Upstream, UpstreamTls,
};
pub use tls::Terminator;
