//! The Pingora shell: it moves bytes and asks [`crate::normalize::Exchange`] what they become.

mod settings;

pub use settings::{Host, Limits, Settings, Timeouts, Upstream};
