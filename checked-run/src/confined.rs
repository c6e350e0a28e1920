//! The task that an instance calls a kernel as: one with memory of the window only, and of
//! the kernel's files those below one directory.

use crate::Linux;
use std::io;
use tane_host::{Kernel, Program, Virtual};

/// Capabilities that stay: to use files whoever owns them. Not those for device memory, mounts, other
/// tasks or a way out of the root directory.
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_FOWNER: u32 = 3;
const CAPABILITIES: u32 = 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH | 1 << CAP_FOWNER;
/// And with sockets any port.
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Memory of the window that nobody uses yet, at its end.
pub struct Scratch {
    pub at: u64,
    pub bytes: usize,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A confined task of this kernel for code whose window, and GS base, is here. Its only
/// open file is, if a directory is given, that: descriptor 0, and the root. `has_sockets`: it
/// may make some.
///
/// # Safety
/// As for [`Kernel::program`]; the scratch memory is writable, and the caller's.
pub unsafe fn confined(
    linux: Linux<'_>,
    has_sockets: bool,
    window: usize,
    scratch: &Scratch,
) -> io::Result<Program> {
    let window = Virtual(window as u64);
    // SAFETY: as the caller promises.
    let mut program = unsafe { linux.kernel.program(window, Some(window))? };
    let mut call = |what: &str, nr: i64, args: &[u64], bytes: &[u8]| {
        if bytes.len() > scratch.bytes {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        // SAFETY: the scratch memory has room, and every pointer is into it.
        let ret = unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), scratch.at as *mut u8, bytes.len());
            let ret = program.syscall(nr, six);
            std::ptr::write_bytes(scratch.at as *mut u8, 0, bytes.len());
            ret
        };
        match ret {
            0.. => Ok(()),
            error => {
                let error = io::Error::from_raw_os_error(-error as i32);
                Err(io::Error::new(error.kind(), format!("{what}: {error}")))
            }
        }
    };
    let at = scratch.at;
    call(
        "close_range",
        libc::SYS_close_range,
        &[0, u32::MAX.into(), 0],
        &[],
    )?;
    if let Some(directory) = linux.directory {
        let path = directory.to_bytes_with_nul();
        let name = directory.to_string_lossy();
        call(&name, libc::SYS_chdir, &[at], path)?;
        call(&name, libc::SYS_chroot, &[at], b".\0")?;
        let flags = (libc::O_RDONLY | libc::O_DIRECTORY) as u64;
        let here = libc::AT_FDCWD as u64;
        for _ in 0..linux.descriptors.max(1) {
            call(&name, libc::SYS_openat, &[here, at, flags], b".\0")?;
        }
    } else if has_sockets {
        // Numbers that no socket gets; nothing can be done with these.
        let flags = (libc::O_PATH | libc::O_DIRECTORY) as u64;
        let here = libc::AT_FDCWD as u64;
        for _ in 0..linux.descriptors {
            call("/", libc::SYS_openat, &[here, at, flags], b"/\0")?;
        }
    }
    let no = libc::PR_SET_NO_NEW_PRIVS as u64;
    call("no_new_privs", libc::SYS_prctl, &[no, 1, 0, 0, 0], &[])?;
    let header = words(&[CAPABILITY_VERSION_3, 0]);
    let capabilities = CAPABILITIES | u32::from(has_sockets) << CAP_NET_BIND_SERVICE;
    let sets = words(&[capabilities, capabilities, 0, 0, 0, 0]);
    let all = [header, sets].concat();
    call("capset", libc::SYS_capset, &[at, at + 8], &all)?;
    Ok(program)
}

/// Of the kernel's signals the one that ends what an instance sleeps in: nothing of Linux's
/// sends it, several pending are one, and nobody runs its handler.
const CANCEL: u64 = libc::SIGSTKFLT as u64;

/// What ends the call that this task sleeps in, from another thread.
pub fn cancel(program: &mut Program, kernel: &Kernel) -> io::Result<impl Fn() + Send> {
    // Somewhere that is not to be ignored.
    let action = [1_u64 << 12, 0, 0, 0];
    let args = [CANCEL, action.as_ptr() as u64, 0, 8, 0, 0];
    // SAFETY: the structure is what the call reads; the other has no pointers.
    let (done, tid) = unsafe {
        (
            kernel.syscall(libc::SYS_rt_sigaction, args),
            program.syscall(libc::SYS_gettid, [0; 6]),
        )
    };
    if done < 0 || tid < 0 {
        return Err(io::Error::from_raw_os_error(-done.min(tid) as i32));
    }
    let kernel = kernel.clone();
    Ok(move || {
        // SAFETY: no pointers.
        unsafe { kernel.syscall(libc::SYS_tgkill, [1, tid as u64, CANCEL, 0, 0, 0]) };
    })
}
