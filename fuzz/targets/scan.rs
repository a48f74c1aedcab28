#![no_main]

use a2a_errata::fuzzing::{mutate, scan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| scan::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::document(data, size, max_size, seed)
});
