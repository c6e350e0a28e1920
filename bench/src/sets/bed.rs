//! Where the same calls meet two kernels: a file at the same path, behind the
//! same number of mounts, on the same kind of file system.

use crate::kernel::{c_path, check, Kernel, Ours};
use crate::mount::Mounted;
use crate::paths::Paths;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq)]
pub enum Fs {
    Ramfs,
    Tmpfs,
}

impl Fs {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ramfs => "ramfs",
            Self::Tmpfs => "tmpfs",
        }
    }
}

/// The host's side of a place: its own mount of that kind if that can be had,
/// else a directory on the scratch file system.
pub struct HostSide {
    pub point: PathBuf,
    /// What the host's file system is, if it is not the promised one.
    pub note: String,
    /// Holds the mount; none is needed for a directory.
    _mounted: Option<Mounted>,
}

impl HostSide {
    pub fn new(paths: &Paths, fs: Fs) -> Result<Self, String> {
        let point = paths.scratch.join(fs.name());
        std::fs::create_dir_all(&point).map_err(|e| format!("{}: {e}", point.display()))?;
        let (mounted, note) = match (Mounted::new(fs.name(), &point), fs) {
            (Ok(mounted), Fs::Ramfs) => (Some(mounted), "its ramfs".into()),
            (Ok(mounted), Fs::Tmpfs) => (Some(mounted), String::new()),
            (Err(_), Fs::Tmpfs) => (None, String::new()),
            (Err(why), Fs::Ramfs) => (None, format!("its tmpfs: {why}")),
        };
        Ok(Self {
            point,
            note,
            _mounted: mounted,
        })
    }

    /// The same path inside: a mount wherever the host's path crosses one.
    pub fn mirror(&self, ours: &Ours, fs: Fs) -> Result<(), String> {
        let device = |path: &Path| std::fs::metadata(path).map(|m| m.dev()).ok();
        let mut at = PathBuf::from("/");
        let mut before = device(&at);
        for part in self.point.iter().skip(1) {
            at.push(part);
            match ours.on_path(libc::SYS_mkdir, &at, 0o755, 0) {
                error if error == -i64::from(libc::EEXIST) => {}
                result => drop(check("mkdir inside", result)?),
            }
            let now = device(&at);
            if at == self.point {
                mount(ours, fs.name(), &at)?;
            } else if now != before {
                mount(ours, "tmpfs", &at)?;
            }
            before = now;
        }
        Ok(())
    }
}

fn mount(ours: &Ours, kind: &str, at: &Path) -> Result<(), String> {
    let name = CString::new(kind).unwrap_or_default();
    let (kind_at, at) = (name.as_ptr() as u64, c_path(at));
    let args = [kind_at, at.as_ptr() as u64, kind_at, 0, 0, 0];
    // SAFETY: C strings.
    let result = unsafe { ours.call(libc::SYS_mount, args) };
    check(&format!("mounting a {kind} inside"), result).map(drop)
}

/// A kernel and an open file of some size, with a buffer for all of it.
pub struct Bed<'a, K: Kernel> {
    pub kernel: &'a K,
    pub path: CString,
    pub fd: u64,
    pub buffer: Buffer,
}

impl<'a, K: Kernel> Bed<'a, K> {
    pub fn new(kernel: &'a K, dir: &Path, name: &str, size: usize) -> Result<Self, String> {
        let path = c_path(&dir.join(name));
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) as u64;
        let open = [path.as_ptr() as u64, flags, 0o600, 0, 0, 0];
        // SAFETY: a C string.
        let fd = unsafe { kernel.call(libc::SYS_open, open) };
        let bed = Self {
            kernel,
            fd: check(&format!("{path:?}"), fd)? as u64,
            path,
            buffer: Buffer::new(size.max(1))?,
        };
        check("filling the file", bed.write(size))?;
        Ok(bed)
    }

    #[inline]
    pub fn read(&self, len: usize) -> i64 {
        self.transfer(libc::SYS_pread64, len)
    }

    #[inline]
    pub fn write(&self, len: usize) -> i64 {
        self.transfer(libc::SYS_pwrite64, len)
    }

    #[inline]
    fn transfer(&self, nr: i64, len: usize) -> i64 {
        let buffer = self.buffer.address();
        // SAFETY: at most the buffer, which nothing else looks at.
        let done = unsafe { self.kernel.call(nr, [self.fd, buffer, len as u64, 0, 0, 0]) };
        match done {
            done if done == len as i64 || done < 0 => done,
            _ => -i64::from(libc::EIO),
        }
    }

    #[inline]
    pub fn open_close(&self) -> i64 {
        let path = self.path.as_ptr() as u64;
        // SAFETY: a C string; the descriptor is the one just opened.
        unsafe {
            let fd = self.kernel.call(libc::SYS_open, [path, 0, 0, 0, 0, 0]);
            if fd < 0 {
                return fd;
            }
            self.kernel
                .call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])
        }
    }

    #[inline]
    pub fn fstat(&self) -> i64 {
        let buffer = self.buffer.address();
        // SAFETY: the buffer is larger than struct stat where this is used.
        unsafe {
            self.kernel
                .call(libc::SYS_fstat, [self.fd, buffer, 0, 0, 0, 0])
        }
    }

    #[inline]
    pub fn stat(&self) -> i64 {
        let (path, buffer) = (self.path.as_ptr() as u64, self.buffer.address());
        // SAFETY: a C string; as for fstat.
        unsafe { self.kernel.call(libc::SYS_stat, [path, buffer, 0, 0, 0, 0]) }
    }
}

impl<K: Kernel> Drop for Bed<'_, K> {
    fn drop(&mut self) {
        let path = self.path.as_ptr() as u64;
        // SAFETY: a C string, and our own descriptor.
        unsafe {
            self.kernel.call(libc::SYS_close, [self.fd, 0, 0, 0, 0, 0]);
            self.kernel.call(libc::SYS_unlink, [path, 0, 0, 0, 0, 0]);
        }
    }
}

/// Whole pages of memory, already touched: the same for every contestant.
pub struct Buffer {
    address: *mut u8,
    len: usize,
}

impl Buffer {
    pub fn new(len: usize) -> Result<Self, String> {
        let len = len.next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(format!("a buffer of {len} bytes: {error}"));
        }
        let address: *mut u8 = at.cast();
        // SAFETY: just mapped.
        unsafe { address.write_bytes(1, len) };
        Ok(Self { address, len })
    }

    pub fn address(&self) -> u64 {
        self.address as u64
    }

    pub fn pointer(&self) -> *mut u8 {
        self.address
    }

    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.address.cast(), self.len) };
    }
}

// SAFETY: plain memory; who uses it from several threads says how.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}
