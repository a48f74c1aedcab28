//! The built-in legacy host: a small HTTP/1.1 server that answers as A2A hosts in the field do when
//! something goes wrong.
//!
//! [`catalogue`] is the list of what it can say, as data; [`Scenario`] is one entry; [`LegacyHost`]
//! says it, byte for byte, wrong lengths and cut-off bodies included. [`ModelHost`] is its opposite: it does
//! everything right but for the one thing that a [`Sabotage`] breaks.

mod catalogue;
mod host;
mod model;
mod scenario;
mod server;

pub use catalogue::{TASK, catalogue};
pub use host::{FINISHED, FOREIGN, LegacyHost};
pub use model::{CREDENTIAL, ModelHost, OWN_TASK, Sabotage, THEIR_TASK};
pub use scenario::{
    Answer, Call, Encoding, Ending, Expect, Framing, Group, INTERFACE, REFERENCE, REST_INTERFACE, Scenario,
};
