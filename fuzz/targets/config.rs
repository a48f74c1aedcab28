#![no_main]

use a2a_errata::fuzzing::config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| config::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    config::mutate(data, size, max_size, seed)
});
