//! Any file as a kernel image: opened, never run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

fuzz_target!(|data: &[u8]| {
    // SAFETY: a fresh descriptor is ours alone.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"image".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0);
        File::from_raw_fd(fd)
    };
    file.write_all(data).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let _ = tane_host::Image::open(path.as_ref());
});
