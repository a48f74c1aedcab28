//! What operators see: metrics, logs, the admin pages. Counts and names, never a value from the wire
//! (D-4).

mod access;
mod admin;
pub mod certificates;
mod few;
pub mod groups;
mod handshakes;
mod lane;
mod limits;
pub mod log;
mod metrics;
mod page;
mod readiness;
pub mod reloads;
pub mod removal;
pub mod report;
mod rule_text;
mod shards;
#[cfg(feature = "otlp")]
pub mod spans;
mod trend;

pub use admin::{Admin, Reload, Shown};
pub use few::Few;
pub use groups::{Addresses, Groups};
pub use handshakes::HandshakeFailure;
pub use lane::{Finished, InFlight, Lane, UpstreamFailure, unix_now};
pub use limits::{Limit, Limits};
pub use metrics::Metrics;
pub use readiness::Readiness;
pub use rule_text::says_by_id as rule_says;
pub use trend::Minute;
