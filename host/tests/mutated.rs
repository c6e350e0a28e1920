//! The loader survives any file: the real image with bytes changed where it is
//! looked at, and plain noise. Opened only; code that was changed is still code.

mod common;

use proptest::prelude::*;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use tane_host::Image;

fn in_memory(bytes: &[u8]) -> File {
    // SAFETY: a fresh descriptor is ours alone.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"image".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0);
        File::from_raw_fd(fd)
    };
    file.write_all(bytes).unwrap();
    file
}

fn open(file: &File) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match Image::open(path.as_ref()) {
        Ok(_) => true,
        Err(error) => {
            // Every refusal says which file.
            assert!(error.to_string().contains(&path), "{error}");
            false
        }
    }
}

/// One copy of the image for all cases, and how long it is.
fn image() -> &'static (File, u64) {
    static IMAGE: OnceLock<(File, u64)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let bytes = std::fs::read(common::image_path()).unwrap();
        assert!(open(&in_memory(&bytes)), "the image itself");
        (in_memory(&bytes), bytes.len() as u64)
    })
}

/// Where the loader looks: the ELF header, program headers, the image header.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..64, 64u64..64 + 56 * 8, 4096u64..4096 + 256]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(1 << 63),
        Just(4095),
        0u64..1 << 32,
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_changed_image_is_opened_or_refused(
        changes in proptest::collection::vec((place(), value(), 1usize..=8), 1..5),
    ) {
        let (file, _) = image();
        let mut before = [0; 8192];
        file.read_exact_at(&mut before, 0).unwrap();
        for (at, value, len) in changes {
            file.write_all_at(&value.to_le_bytes()[..len], at).unwrap();
        }
        open(file);
        file.write_all_at(&before, 0).unwrap();
    }

    #[test]
    fn noise_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..4096), elf in any::<bool>()) {
        let mut bytes = noise;
        if elf && bytes.len() > 64 {
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes[18..20].copy_from_slice(&[62, 0]);
        }
        prop_assert!(!open(&in_memory(&bytes)));
    }
}
