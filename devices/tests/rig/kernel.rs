//! A real kernel and the system calls that tests of a disk need.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;
use tane_devices::{Attached, Block, BlockOptions};
use tane_host::{Builder, Image, Kernel};
use tane_images::Backend;
use tane_test_support::eventually;

/// `TANE_TEST_IMAGE`, or the tiny image that `make kernel` leaves in build/.
fn image_path() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/images/tane-tiny.elf");
    std::env::var_os("TANE_TEST_IMAGE").map_or_else(|| default.into(), PathBuf::from)
}

/// A kernel with devtmpfs at /dev.
#[derive(Clone)]
pub struct Guest(pub Kernel);

pub fn boot() -> Guest {
    let image = Image::open(&image_path()).unwrap_or_else(|e| panic!("{e}"));
    let mut builder = Builder {
        ram: 64 << 20,
        ..Builder::default()
    };
    if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder.log = Some(Box::new(|text| eprint!("{text}")));
    }
    let guest = Guest(builder.boot(&image).unwrap_or_else(|e| panic!("{e}")));
    let [dev, kind] = [c"/dev", c"devtmpfs"].map(|text| text.as_ptr() as u64);
    // Both may be there already.
    let _ = guest.call(libc::SYS_mkdir, &[dev, 0o755]);
    let _ = guest.call(libc::SYS_mount, &[kind, dev, kind, 0, 0]);
    guest
}

pub fn attach(guest: &Guest, backend: Arc<dyn Backend>, options: BlockOptions) -> Attached<Block> {
    Attached::new(&guest.0, Block::new(backend, options)).unwrap_or_else(|e| panic!("{e}"))
}

impl Guest {
    /// The result, or the errno.
    pub fn call(&self, nr: i64, args: &[u64]) -> Result<u64, i32> {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        // SAFETY: the methods below pass memory of theirs.
        let result = unsafe { self.0.syscall(nr, six) };
        u64::try_from(result).map_err(|_| -result as i32)
    }

    pub fn open(&self, path: &CStr, flags: i32) -> Result<u64, i32> {
        let path = path.as_ptr() as u64;
        self.call(
            libc::SYS_openat,
            &[libc::AT_FDCWD as u64, path, flags as u64, 0],
        )
    }

    /// Open the only disk. Linux lets go of a removed disk's name a moment after
    /// its last user has closed it, so the next one may have another.
    pub fn open_disk(&self, flags: i32) -> u64 {
        let mut found = None;
        eventually("a disk is in /dev", || {
            found = self.look_for_disk(flags);
            found.is_some()
        });
        found.unwrap()
    }

    fn look_for_disk(&self, flags: i32) -> Option<u64> {
        let letters = || (b'a'..=b'z').map(char::from);
        let long = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
        for name in letters().map(String::from).chain(long) {
            let path = CString::new(format!("/dev/vd{name}")).unwrap();
            match self.open(&path, flags) {
                Ok(fd) => return Some(fd),
                Err(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {}
                Err(errno) => panic!("{path:?}: errno {errno}"),
            }
        }
        None
    }

    pub fn close(&self, fd: u64) {
        let _ = self.call(libc::SYS_close, &[fd]);
    }

    pub fn fsync(&self, fd: u64) -> Result<(), i32> {
        self.call(libc::SYS_fsync, &[fd]).map(drop)
    }

    pub fn write_at(&self, fd: u64, data: &[u8], mut at: u64) -> Result<(), i32> {
        let mut rest = data;
        while !rest.is_empty() {
            let args = [fd, rest.as_ptr() as u64, rest.len() as u64, at];
            let n = self.call(libc::SYS_pwrite64, &args)?;
            rest = &rest[n as usize..];
            at += n;
        }
        Ok(())
    }

    /// `len` bytes, or fewer at the end.
    pub fn read_at(&self, fd: u64, len: usize, at: u64) -> Result<Vec<u8>, i32> {
        let mut data = vec![0xee; len];
        let mut done = 0;
        while done < len {
            let to = data[done..].as_mut_ptr() as u64;
            let args = [fd, to, (len - done) as u64, at + done as u64];
            match self.call(libc::SYS_pread64, &args)? {
                0 => break,
                n => done += n as usize,
            }
        }
        data.truncate(done);
        Ok(data)
    }
}
