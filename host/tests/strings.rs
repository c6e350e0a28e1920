//! Strings of a program's that lie where its memory ends.

mod common;

use common::{boot, syscall};
use tane_host::{Kernel, Program, Virtual, BELOW};

const PAGE: usize = 4096;
const WINDOW: usize = 4 << 30;

/// A window, of which the last page and the one behind it are there.
struct Window {
    program: Option<Program>,
    base: *mut u8,
}

impl Window {
    /// `None`: this host has no programs.
    fn new(k: &Kernel) -> Option<Self> {
        let map = |at, len, prot, flags| {
            let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, or in one of ours.
            let at = unsafe { libc::mmap(at, len, prot, flags, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        let all = BELOW + WINDOW + PAGE;
        let start = map(std::ptr::null_mut(), all, libc::PROT_NONE, 0);
        let base = start.cast::<u8>().wrapping_add(BELOW);
        let end = base.wrapping_add(WINDOW - PAGE).cast();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        map(end, 2 * PAGE, prot, libc::MAP_FIXED);
        let at = Virtual(base as u64);
        // SAFETY: what lies below is for it.
        let program = match unsafe { k.program(at, Some(at)) } {
            Ok(program) => Some(program),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                tane_test_support::skip("no FSGSBASE on this host");
                None
            }
            Err(error) => panic!("{error}"),
        };
        let window = Self { program, base };
        window.program.is_some().then_some(window)
    }

    /// The answer to chdir(2) with these bytes at an offset from the window's end.
    fn chdir(&mut self, bytes: &[u8], before_end: usize) -> i64 {
        let at = self.base.wrapping_add(WINDOW - before_end);
        let program = self.program.as_mut().expect("it is there until the end");
        // SAFETY: in the two pages that are there; on the program's thread.
        unsafe {
            at.copy_from(bytes.as_ptr(), bytes.len());
            program.syscall(libc::SYS_chdir, [at as u64, 0, 0, 0, 0, 0])
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.program = None;
        let start = self.base.wrapping_sub(BELOW).cast();
        // SAFETY: mapped by new(), and the program is gone.
        unsafe { libc::munmap(start, BELOW + WINDOW + PAGE) };
    }
}

#[test]
fn a_string_may_end_with_the_window_and_not_behind_it() {
    let k = boot();
    let Some(mut window) = Window::new(&k) else {
        return;
    };
    let (fault, missing) = (-i64::from(libc::EFAULT), -i64::from(libc::ENOENT));
    assert_eq!(window.chdir(b"/\0", 2), 0);
    assert_eq!(window.chdir(b"/./././.\0", 9), 0);
    assert_eq!(window.chdir(b"\0", 1), missing);
    for len in 2..40 {
        let mut name = vec![b'x'; len];
        name[len - 1] = 0;
        assert_eq!(window.chdir(&name, len), missing, "{len} bytes");
        // Its end is behind the window's, where memory is that is not the program's.
        for behind in 1..len.min(9) {
            assert_eq!(window.chdir(&name, len - behind), fault, "{len}, {behind}");
        }
    }
    assert_eq!(window.chdir(b"/\0", 0), fault);
    // Nor is the memory of others, before the window.
    let path = c"/".as_ptr() as u64;
    let program = window.program.as_mut().expect("it is there");
    // SAFETY: a string; on the program's thread.
    let answer = unsafe { program.syscall(libc::SYS_chdir, [path, 0, 0, 0, 0, 0]) };
    assert_eq!(answer, fault);
    assert_eq!(syscall(&k, libc::SYS_chdir, &[path]), 0);
}
