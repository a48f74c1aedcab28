//! What operators see: metrics, logs, the admin pages. Counts and names, never a value from the wire
//! (D-4).

mod metrics;

pub use metrics::{Finished, InFlight, Lane, Metrics};
