//! Headers of LUKS, BitLocker, LVM and DDF and partition tables of any content.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    tane::fuzz_volumes(data);
});
