//! Images in memory that the kernel mounts and e2fsprogs judges: no file of the
//! host's disk is involved, so that hundreds of them take seconds.
#![allow(dead_code)] // every test program uses a part of it

pub mod layout;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use tane::images::{Access, Raw};
use tane::{DiskOptions, Kernel, Mount, MountOptions};
#[allow(unused_imports)]
pub use tane_hostile::Random;

/// What a write leaves out if it is zero: a medium is sparse.
const CHUNK: usize = 16 << 10;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// An image, outside any file system.
pub struct Medium(File);

impl Medium {
    pub fn blank(size: u64) -> Medium {
        // SAFETY: a fresh descriptor is ours alone.
        let file = unsafe {
            let fd = libc::memfd_create(c"tane-medium".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            File::from_raw_fd(fd)
        };
        file.set_len(size).expect("a size");
        Medium(file)
    }

    pub fn of(bytes: &[u8]) -> Medium {
        let medium = Self::blank(bytes.len() as u64);
        for (i, chunk) in bytes.chunks(CHUNK).enumerate() {
            if *chunk != ZEROS[..chunk.len()] {
                let written = medium.0.write_all_at(chunk, (i * CHUNK) as u64);
                written.expect("memory");
            }
        }
        medium
    }

    /// A fresh file system by mke2fs.
    pub fn mke2fs(mib: u64, arguments: &str) -> Medium {
        let medium = Self::blank(mib << 20);
        let mut mke2fs = sbin("mke2fs");
        mke2fs.args(["-q", "-F"]).args(arguments.split(' '));
        // The same each time: a seed then names an image.
        let uuid = "6d616e61-6b69-4d61-8e61-776869746900";
        mke2fs.args(["-U", uuid]);
        mke2fs.args(["-E", &format!("hash_seed={uuid}")]);
        mke2fs.env("E2FSPROGS_FAKE_TIME", "1700000000");
        let output = run(mke2fs.arg(medium.path()));
        assert!(output.status.success(), "mke2fs: {}", both(&output));
        medium
    }

    /// Where other programs find it.
    pub fn path(&self) -> PathBuf {
        let fd = self.0.as_raw_fd();
        PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    pub fn disk(&self) -> Arc<Raw> {
        let access = Access {
            write: true,
            direct: false,
        };
        let file = self.0.try_clone().expect("a descriptor");
        Arc::new(Raw::from_file(file, access).expect("a disk"))
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.metadata().expect("a size").len() as usize];
        self.0.read_exact_at(&mut bytes, 0).expect("memory");
        bytes
    }

    pub fn mount(&self, kernel: &Kernel) -> tane::Result<Mount> {
        let disk = kernel.add_disk(self.disk(), &DiskOptions::new())?;
        MountOptions::new().mount(kernel, disk.device())
    }

    /// What e2fsck says that should not be; nothing if it is clean.
    pub fn fault(&self) -> Option<String> {
        let output = run(sbin("e2fsck").arg("-fn").arg(self.path()));
        (output.status.code() != Some(0)).then(|| both(&output))
    }

    /// Whether e2fsck can repair it: "errors corrected" and no more.
    pub fn repair(&self) -> bool {
        let output = run(sbin("e2fsck").arg("-fy").arg(self.path()));
        matches!(output.status.code(), Some(0 | 1))
    }

    /// A file's bytes as debugfs, which shares no code with Linux, sees them.
    pub fn debugfs_cat(&self, path: &str) -> Vec<u8> {
        let request = format!("cat \"{path}\"");
        run(sbin("debugfs").arg("-R").arg(request).arg(self.path())).stdout
    }
}

/// Debian keeps these where an ordinary user's PATH does not look.
pub fn sbin(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

pub fn both(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}
