#![no_main]

use a2a_errata::fuzzing::card;

libfuzzer_sys::fuzz_target!(|data: &[u8]| card::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    card::mutate(data, size, max_size, seed)
});
