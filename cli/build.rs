//! How the command is linked.

/// The addresses that the loader is to change, as a table of bits: 20 KB instead of 0.6 MB,
/// all of which would be read before main(). glibc knows such tables from 2.36 on, and
/// whether that is what runs here says the one that this is built with.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if is_gnu && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this program's own, if it has it.
#[cfg(target_env = "gnu")]
fn glibc() -> Option<(u32, u32)> {
    use std::ffi::{c_char, CStr};
    extern "C" {
        fn gnu_get_libc_version() -> *const c_char;
    }
    // SAFETY: it returns a string that stays.
    let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) };
    let (major, minor) = version.to_str().ok()?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(not(target_env = "gnu"))]
fn glibc() -> Option<(u32, u32)> {
    None
}
