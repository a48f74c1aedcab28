//! The built-in legacy host: a small HTTP/1.1 server that answers as A2A hosts in the field do when
//! something goes wrong.
//!
//! [`catalogue`] is the list of what it can say, as data; [`Scenario`] is one entry; [`LegacyHost`]
//! says it, byte for byte, wrong lengths and cut-off bodies included.

mod catalogue;
mod host;
mod scenario;

pub use catalogue::{TASK, catalogue};
pub use host::LegacyHost;
pub use scenario::{
    Answer, Call, Encoding, Ending, Expect, Framing, Group, INTERFACE, REFERENCE, REST_INTERFACE, Scenario,
};
