#![no_main]

use a2a_errata::fuzzing::mutate::{self, Body};
use a2a_errata::fuzzing::sse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sse::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::case(Body::Stream, data, size, max_size, seed)
});
