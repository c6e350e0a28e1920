//! Container formats of any content, opened, read and written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tane_images::fuzz_container(data));
