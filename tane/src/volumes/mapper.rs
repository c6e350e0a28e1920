//! Device mapper: devices made of parts of others. The structures are those of
//! linux/dm-ioctl.h.

use crate::error::Errno;
use crate::kernel::Kernel;
use crate::sys::{Fd, SysResult};
use std::path::{Path, PathBuf};

const CREATE: u64 = 0xc138_fd03;
const REMOVE: u64 = 0xc138_fd04;
/// Resumes, without the flag of that name.
const SUSPEND: u64 = 0xc138_fd06;
const LOAD: u64 = 0xc138_fd09;

const HEAD: usize = 312;
const READ_ONLY: u32 = 1;

/// A part of a device, counted in sectors of 512 bytes.
pub(super) struct Target {
    pub start: u64,
    pub len: u64,
    pub kind: &'static str,
    pub parameters: String,
}

pub(super) struct Mapper {
    kernel: Kernel,
    control: Fd,
}

impl Mapper {
    pub fn new(kernel: &Kernel) -> SysResult<Self> {
        let control = kernel.open_device(Path::new("/dev/mapper/control"), libc::O_RDWR)?;
        Ok(Self {
            kernel: kernel.clone(),
            control,
        })
    }

    /// Make a device; its node. The caller removes it by the name.
    pub fn create(&self, name: &str, targets: &[Target], read_only: bool) -> SysResult<PathBuf> {
        let made = self.call(CREATE, name, &[], 0)?;
        let device = made.get(40..48).and_then(|b| b.try_into().ok());
        let device = u64::from_ne_bytes(device.unwrap_or_default());
        let minor = (device & 0xff) | (device >> 12 & !0xff);
        let flags = if read_only { READ_ONLY } else { 0 };
        let filled = self
            .call(LOAD, name, targets, flags)
            .and_then(|_| self.call(SUSPEND, name, &[], 0));
        match filled {
            Ok(_) => Ok(PathBuf::from(format!("/dev/dm-{minor}"))),
            Err(errno) => {
                let _ = self.remove(name);
                Err(errno)
            }
        }
    }

    pub fn remove(&self, name: &str) -> SysResult<()> {
        self.call(REMOVE, name, &[], 0).map(drop)
    }

    fn call(&self, request: u64, name: &str, targets: &[Target], flags: u32) -> SysResult<Vec<u8>> {
        let room: usize = targets.iter().map(|t| t.parameters.len() + 56).sum();
        let mut bytes = vec![0u8; HEAD + room.max(16 << 10)];
        let len = u32::try_from(bytes.len()).map_err(|_| Errno(libc::E2BIG))?;
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &4u32.to_ne_bytes()); // version 4.0.0
        put(12, &len.to_ne_bytes());
        put(16, &(HEAD as u32).to_ne_bytes());
        put(20, &(targets.len() as u32).to_ne_bytes());
        put(28, &flags.to_ne_bytes());
        put(48, &name.as_bytes()[..name.len().min(127)]);
        let mut place = HEAD;
        for target in targets {
            let next = (40 + target.parameters.len() + 1).next_multiple_of(8);
            put(place, &target.start.to_ne_bytes());
            put(place + 8, &target.len.to_ne_bytes());
            put(place + 20, &(next as u32).to_ne_bytes());
            put(place + 24, target.kind.as_bytes());
            put(place + 40, target.parameters.as_bytes());
            place += next;
        }
        let done = self.kernel.ioctl(&self.control, request, &mut bytes);
        // Keys are among the parameters.
        bytes[HEAD..].fill(0);
        done.map(|_| bytes)
    }
}
