//! The `a2a-errata` binary: everything is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Many short-lived buffers of many sizes: jemalloc keeps what they cost low and returns what they took.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    a2a_errata::cli::main()
}
