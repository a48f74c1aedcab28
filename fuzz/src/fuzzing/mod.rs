//! What each target holds to be true (one module a target) and how inputs are read and changed.

pub mod card;
pub mod case;
pub mod config;
pub mod envelope;
pub mod exchange;
pub mod mutate;
pub mod request;
pub mod scan;
pub mod sse;

/// Ends the run with what does not hold: libFuzzer keeps the input.
#[track_caller]
pub fn hold(result: Result<(), String>) {
    if let Err(why) = result {
        panic!("{why}");
    }
}
