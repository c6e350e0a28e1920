//! Who opens images for a session, asked by this test: with the session's own end of the
//! line, as one would do that an image has taken over.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub struct Line(File);

impl Line {
    /// That of this process, of which no thread asks anything at this moment.
    pub fn of(pid: u32) -> Line {
        let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/unix")).expect("sockets");
        // `… RefCount Protocol Flags Type St Inode`; a type of 5 is SOCK_SEQPACKET.
        let inodes = sockets.lines().filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            (fields.get(4) == Some(&"0005")).then(|| format!("socket:[{}]", fields[6]))
        });
        let inodes: Vec<_> = inodes.collect();
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
        let mut lines = fds.flatten().filter(|fd| {
            let name = std::fs::read_link(fd.path()).unwrap_or_default();
            inodes
                .iter()
                .any(|inode| name.as_os_str() == inode.as_str())
        });
        let (Some(line), None) = (lines.next(), lines.next()) else {
            panic!("one line to who opens images");
        };
        let number: i32 = line
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .expect("a number");
        // SAFETY: the descriptors are new, and this test's own.
        let file = unsafe {
            let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            assert!(process >= 0, "{}", std::io::Error::last_os_error());
            let process = OwnedFd::from_raw_fd(process as i32);
            let line = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
            assert!(line >= 0, "{}", std::io::Error::last_os_error());
            File::from_raw_fd(line as i32)
        };
        Line(file)
    }

    /// The flags of what it hands over, or its errno.
    pub fn open(&self, path: &Path, flags: i32) -> Result<i32, i32> {
        let path = path.as_os_str().as_bytes();
        let request = [&flags.to_le_bytes()[..], path].concat();
        (&self.0).write_all(&request).expect("it listens");
        let mut errno = [0u8; 4];
        let mut part = libc::iovec {
            iov_base: errno.as_mut_ptr().cast(),
            iov_len: errno.len(),
        };
        let mut control = [0u64; 8];
        // SAFETY: a header of zeroes, then of what lives until the end; the host fills it,
        // and a descriptor in it is this test's own.
        unsafe {
            let mut head: libc::msghdr = std::mem::zeroed();
            head.msg_iov = &raw mut part;
            head.msg_iovlen = 1;
            head.msg_control = control.as_mut_ptr().cast();
            head.msg_controllen = size_of_val(&control);
            let got = libc::recvmsg(self.0.as_raw_fd(), &raw mut head, 0);
            assert_eq!(got, 4, "{}", std::io::Error::last_os_error());
            let one = libc::CMSG_FIRSTHDR(&raw const head);
            if one.is_null() {
                return Err(i32::from_le_bytes(errno));
            }
            let fd = libc::CMSG_DATA(one).cast::<i32>().read_unaligned();
            let file = File::from_raw_fd(fd);
            Ok(libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & libc::O_ACCMODE)
        }
    }
}
