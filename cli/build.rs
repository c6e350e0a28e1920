//! How the command is linked.

use std::ffi::{c_char, CStr};

extern "C" {
    fn gnu_get_libc_version() -> *const c_char;
}

/// The addresses that the loader is to change, as a table of bits: 20 KB instead of 0.6 MB,
/// all of which would be read before main(). The C library knows such tables from 2.36 on.
fn main() {
    // SAFETY: it returns a string that stays.
    let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) };
    let version = version.to_string_lossy();
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    let version: (u32, u32) = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    if version >= (2, 36) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
