#![no_main]

use a2a_errata::fuzzing::exchange;
use a2a_errata::fuzzing::mutate::{self, Body};

libfuzzer_sys::fuzz_target!(|data: &[u8]| exchange::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::case(Body::Json, data, size, max_size, seed)
});
