//! How a process of the host ended, as wait(2) would tell its parent: who watches it is
//! not the parent, and must leave that to it.

use std::os::fd::{AsRawFd, OwnedFd};

/// `struct pidfd_info`, of the size that every host with the call knows.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// `_IOWR(0xff, 11, struct pidfd_info)`
const PIDFD_GET_INFO: u64 = 3 << 30 | (size_of::<Info>() as u64) << 16 | 0xff << 8 | 11;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// The status, 0 if the host does not say. Until the parent has waited /proc has it, then
/// Linux 6.15's pidfd.
pub fn status(host: u32, pidfd: &OwnedFd) -> i32 {
    zombie(host).or_else(|| reaped(pidfd)).unwrap_or(0)
}

fn zombie(host: u32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{host}/stat")).ok()?;
    // The name, in parentheses, may have anything in it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    match *fields.first()? {
        "Z" | "X" => fields.last()?.parse().ok(),
        _ => None,
    }
}

fn reaped(pidfd: &OwnedFd) -> Option<i32> {
    let mut info = Info {
        mask: PIDFD_INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: writes a structure of ours, of the size that the number says.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}
