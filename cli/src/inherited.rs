//! What the caller had open and in its environment, and this command does not need: in a
//! jail it would be within reach of whatever takes the command over.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What the command, its libraries and the programs that it runs look at.
const KEPT: [&str; 16] = [
    "COLUMNS",
    "HOME",
    "INPUTRC",
    "LANG",
    "LD_LIBRARY_PATH",
    "LINES",
    "LLVM_PROFILE_FILE",
    "NO_COLOR",
    "PATH",
    "RUST_BACKTRACE",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
];
/// And all that begin so.
const KINDS: [&str; 9] = [
    "ASAN_",
    "BLKID_",
    "E2FS",
    "LC_",
    "LIBBLKID_",
    "MKE2FS_",
    "TANE_",
    "TSAN_",
    "XDG_",
];
/// Of those who talk to servers; they may have passwords in them.
const PROXIES: [&str; 8] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Descriptors that are meant for the command are named by an argument.
const NAMES: [&[u8]; 3] = [b"/fd/", b"--ready=", b"--serve="];

/// Closes descriptors beside the standard ones that no argument names. First thing in the
/// process.
pub fn close_others(args: &[OsString]) {
    let mut named: Vec<u32> = args.iter().flat_map(|arg| numbers(arg)).collect();
    named.sort_unstable();
    let mut from = 3;
    for fd in named.into_iter().filter(|fd| *fd > 2) {
        close(from, fd.saturating_sub(1));
        from = from.max(fd.saturating_add(1));
    }
    close(from, u32::MAX);
}

fn close(from: u32, to: u32) {
    if from <= to {
        // SAFETY: nothing in this process uses them yet.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// Those behind each such name in it.
fn numbers(arg: &OsStr) -> Vec<u32> {
    let bytes = arg.as_bytes();
    let behind = |at: usize| {
        let name = NAMES.iter().find(|name| bytes[at..].starts_with(name))?;
        let digits = bytes[at + name.len()..].iter();
        let digits: Vec<u8> = digits.copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    (0..bytes.len()).filter_map(behind).collect()
}

/// Clears the environment of what nobody here looks at, and the memory that it was in.
/// While there is one thread.
pub fn forget_the_rest() {
    let is_kept = |name: &OsStr| {
        let bytes = name.as_bytes();
        let known = KEPT.iter().chain(&PROXIES).any(|kept| name == *kept);
        known || KINDS.iter().any(|kind| bytes.starts_with(kind.as_bytes()))
    };
    let all = std::env::vars_os().map(|(name, _)| name);
    all.filter(|name| !is_kept(name))
        .for_each(|name| forget(&name));
}

/// Nobody here talks to servers any more.
pub fn forget_proxies() {
    for name in PROXIES {
        forget(OsStr::new(name));
    }
}

fn forget(name: &OsStr) {
    let Ok(name) = CString::new(name.as_bytes()) else {
        return;
    };
    // SAFETY: the value is the process's own memory, which nobody else looks at: what other
    // threads there are wait for signals.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return;
        }
        for i in 0..libc::strlen(value) {
            value.add(i).write_volatile(0);
        }
        libc::unsetenv(name.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_named_by_arguments() {
        let found = |arg: &str| numbers(OsStr::new(arg));
        assert_eq!(found("--passphrase-file=/dev/fd/63"), [63]);
        assert_eq!(found("cp /dev/fd/5 /proc/self/fd/12:/x"), [5, 12]);
        assert_eq!(found("--ready=7"), [7]);
        assert_eq!(found("/fd/x --serve= disk.img"), [0; 0]);
    }
}
