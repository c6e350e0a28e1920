//! Frames and headers of somebody who lies.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tane_net::fuzz_packet(data));
