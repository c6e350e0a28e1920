//! A program that takes itself for another user: a user namespace with one user
//! and one group, whom files that it makes for itself seem to belong to.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets it run as this user and group in its own eyes, and with no other rights
/// than ours. Spawning it fails where the host allows no user namespaces.
pub fn run_as(command: &mut Command, uid: u32, gid: u32) {
    // SAFETY: cannot fail.
    let (our_uid, our_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let files = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{uid} {our_uid} 1")),
        (c"/proc/self/gid_map", format!("{gid} {our_gid} 1")),
    ];
    let files = files.map(|(path, text)| (path, CString::new(text).unwrap_or_default()));
    let enter = move || {
        // SAFETY: no memory involved.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) } as isize)?;
        for (path, text) in &files {
            let len = text.count_bytes();
            // SAFETY: reads strings that are ours.
            unsafe {
                let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                check(fd as isize)?;
                check(libc::write(fd, text.as_ptr().cast(), len))?;
                libc::close(fd);
            }
        }
        Ok(())
    };
    // SAFETY: system calls alone, on what was made before.
    unsafe { command.pre_exec(enter) };
}

fn check(result: isize) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
