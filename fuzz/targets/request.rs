#![no_main]

use a2a_errata::fuzzing::mutate::{self, Body};
use a2a_errata::fuzzing::request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| request::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::case(Body::None, data, size, max_size, seed)
});
