//! What operators see: metrics, logs, the admin pages. Counts and names, never a value from the wire
//! (D-4).

mod access;
mod admin;
pub mod log;
mod metrics;
mod readiness;

pub use admin::{Admin, is_loopback};
pub use metrics::{Finished, InFlight, Lane, Metrics};
pub use readiness::Readiness;
