//! The rooms under test, and what is held to be true of them.
//!
//! The rules do no I/O, so they are compiled here from the proxy's own sources without the shell around them: an
//! instrumented build takes seconds where Pingora's takes minutes, and coverage counts only what is fuzzed. The
//! crate bears the proxy's name so that the tests' own checks (`tests/rules_support`) can be used as they are.

extern crate self as a2a_errata;

#[allow(unused_imports, reason = "the command line, which is not here, has a use for more of it")]
#[path = "../../src/config/mod.rs"]
pub mod config;
#[allow(unused_imports, reason = "nor is the probe")]
#[path = "../../src/normalize/mod.rs"]
pub mod normalize;
#[path = "../../src/protocol/mod.rs"]
pub mod protocol;
#[path = "../../tests/rules_support/mod.rs"]
pub mod rules_support;

pub mod fuzzing;
