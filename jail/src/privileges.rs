//! What root could do beside the system calls: capabilities, which go but for those that
//! the jail's files need. Whoever is not root has none to lose.

use crate::Jail;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

// linux/capability.h
const CHOWN: u32 = 0;
const DAC_OVERRIDE: u32 = 1;
const DAC_READ_SEARCH: u32 = 2;
const FOWNER: u32 = 3;
const FSETID: u32 = 4;
const SETPCAP: u32 = 8;
const LINUX_IMMUTABLE: u32 = 9;
const SYS_ADMIN: u32 = 21;
const MKNOD: u32 = 27;
const SETFCAP: u32 = 31;
const VERSION: u32 = 0x2008_0522;

// linux/securebits.h: root has no rights by being root, and none of this can be undone.
const NO_ROOT: libc::c_ulong = 0b11;
const NO_AMBIENT: libc::c_ulong = 0b11 << 6;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn set_of(capabilities: &[u32]) -> u64 {
    capabilities.iter().fold(0, |set, c| set | 1 << c)
}

/// What this jail needs of what root has.
fn needed(jail: &Jail) -> u64 {
    let mut kept = 0;
    if jail.exec {
        // Programs come from directories of root's; the files are perhaps somebody's.
        let files = jail.read.iter().chain(&jail.write);
        if files.into_iter().any(|path| is_others(path)) {
            kept |= set_of(&[DAC_OVERRIDE]);
        }
        if jail.attributes {
            // What it reads is a tree of many owners; no program has a call more by these.
            kept |= set_of(&[DAC_READ_SEARCH, SYS_ADMIN]);
        }
        return kept;
    }
    if jail.opens() {
        kept |= set_of(&[DAC_READ_SEARCH]);
    }
    if jail.writes() {
        kept |= set_of(&[DAC_OVERRIDE]);
    }
    if jail.attributes || jail.metadata {
        // For attributes in trusted.*, and to read others' files without a trace
        // (O_NOATIME); every other use of both is a call that the filter has not.
        kept |= set_of(&[SYS_ADMIN, FOWNER]);
    }
    if jail.metadata {
        kept |= set_of(&[CHOWN, FSETID, SETFCAP, LINUX_IMMUTABLE]);
    }
    if jail.devices {
        kept |= set_of(&[MKNOD]);
    }
    kept
}

/// Whether it is a file of somebody else, or beneath a directory of his.
fn is_others(path: &Path) -> bool {
    // SAFETY: cannot fail.
    let me = unsafe { libc::geteuid() };
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut all = path.ancestors().filter_map(|path| path.metadata().ok());
    all.any(|found| found.uid() != me && found.uid() != 0)
}

fn get() -> io::Result<[Half; 2]> {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut halves = [Half::default(); 2];
    // SAFETY: structures of ours, of the size that the version says.
    match unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) } {
        0 => Ok(halves),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set(halves: &[Half; 2]) -> io::Result<()> {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    // SAFETY: structures of ours, which are read.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn control(what: i32, argument: libc::c_ulong, second: libc::c_ulong) -> bool {
    // SAFETY: numbers only.
    unsafe { libc::prctl(what, argument, second, 0, 0) == 0 }
}

/// This thread, and what it starts, keeps these at most. The next program has them too
/// if they are `handed` on.
fn keep(kept: u64, handed: bool) -> io::Result<()> {
    let old = get()?;
    let all = u64::from(old[0].permitted) | u64::from(old[1].permitted) << 32;
    if all == 0 {
        return Ok(());
    }
    let kept = kept & all;
    let halves = |inheritable: u64| {
        [0, 32].map(|shift| Half {
            effective: (kept >> shift) as u32,
            permitted: (kept >> shift) as u32,
            inheritable: (inheritable >> shift) as u32,
        })
    };
    if all & set_of(&[SETPCAP]) != 0 {
        for capability in (0..64).filter(|c| kept >> c & 1 == 0) {
            let dropped = control(libc::PR_CAPBSET_DROP, capability, 0);
            // Past the last one that the host knows there is none.
            if !dropped && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
                break;
            }
        }
        control(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong,
            0,
        );
        if handed {
            let both = kept | set_of(&[SETPCAP]);
            let mut first = halves(kept);
            for (half, shift) in first.iter_mut().zip([0, 32]) {
                half.permitted = (both >> shift) as u32;
                half.effective = half.permitted;
            }
            set(&first)?;
            for capability in (0..64).filter(|c| kept >> c & 1 == 1) {
                let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
                control(libc::PR_CAP_AMBIENT, raise, capability);
            }
        }
        control(libc::PR_SET_SECUREBITS, NO_ROOT | NO_AMBIENT, 0);
    }
    set(&halves(if handed { kept } else { 0 }))
}

/// For a thread that touches nothing of the host's.
pub fn none() {
    let _ = keep(0, false);
}

/// What the jail does not need is gone, and other processes of the same user can neither
/// look into this one nor have it dumped: RLIMIT_CORE holds for files and pipes, not for
/// sockets that take dumps (Linux 6.16).
pub fn restrict(jail: &Jail) -> io::Result<()> {
    control(libc::PR_SET_DUMPABLE, 0, 0);
    keep(needed(jail), jail.exec)
}
