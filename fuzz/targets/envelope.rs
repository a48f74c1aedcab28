#![no_main]

use a2a_errata::fuzzing::envelope;

libfuzzer_sys::fuzz_target!(|data: &[u8]| envelope::check(data));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    envelope::mutate(data, size, max_size, seed)
});
