//! A network driver that writes anything into its rings.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tane_devices::fuzz_net(data));
