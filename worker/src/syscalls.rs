//! System calls of the kernel in a worker, for copies and trees: what their arguments point to
//! crosses with them. Which they are stands in one table; no other call crosses.

use crate::area::BULK;
use crate::call::Wants;
use crate::failure::{Failure, Result};
use crate::operations::special;
use crate::remote::Mount;
use crate::wire::{Reader, Writer};
use std::ffi::CStr;
use tane_linux::Linux;

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Itself.
    Number,
    /// NULL: with another pointer the call does not cross.
    Null,
    /// A string, with its NUL.
    Text,
    /// Bytes that the kernel reads; the next argument is how many.
    In,
    /// Bytes that the kernel writes; the next argument is how many there may be, and the
    /// call's result how many there are.
    Out,
    /// A structure that the kernel reads, of so many bytes; NULL stays.
    Given(usize),
    /// A structure that the kernel writes.
    Filled(usize),
    /// A structure that it reads and writes.
    Both(usize),
}

use Kind::*;

const TIMES: usize = size_of::<[libc::timespec; 2]>();
const STAT: usize = size_of::<libc::stat>();
const STATX: usize = size_of::<libc::statx>();
const STATFS: usize = size_of::<libc::statfs>();
/// openat2's structure.
const HOW: usize = 24;

// linux/fs.h, linux/fiemap.h: requests and the sizes of what they are about.
const FIEMAP: u64 = 0xc020_660b;
const FIEMAP_HEAD: usize = 32;
const FIEMAP_COUNT: usize = 24;
const FIEMAP_EXTENT: usize = 56;
const FICLONE: u64 = 0x4004_9409;
const REQUESTS: [(u64, Kind); 6] = [
    (0x8008_6601, Both(8)),  // FS_IOC_GETFLAGS
    (0x4008_6602, Both(8)),  // FS_IOC_SETFLAGS
    (0x801c_581f, Both(28)), // FS_IOC_FSGETXATTR
    (0x401c_5820, Both(28)), // FS_IOC_FSSETXATTR
    (0xc018_9436, Both(56)), // FIDEDUPERANGE, of one file
    (FICLONE, Number),
];

/// The arguments of a call; none: it does not cross.
fn kinds(nr: i64) -> Option<&'static [Kind]> {
    Some(match nr {
        libc::SYS_openat => &[Number, Text, Number, Number],
        libc::SYS_openat2 => &[Number, Text, Given(HOW), Number],
        libc::SYS_close | libc::SYS_umask | libc::SYS_syncfs => &[Number],
        libc::SYS_fsync | libc::SYS_fdatasync => &[Number],
        libc::SYS_fcntl | libc::SYS_lseek | libc::SYS_fchown => &[Number, Number, Number],
        libc::SYS_ftruncate | libc::SYS_fchmod => &[Number, Number],
        libc::SYS_fallocate | libc::SYS_fadvise64 => &[Number, Number, Number, Number],
        libc::SYS_read => &[Number, Out, Number],
        libc::SYS_getdents64 => &[Number, Out, Number],
        libc::SYS_pread64 => &[Number, Out, Number, Number],
        libc::SYS_write => &[Number, In, Number],
        libc::SYS_pwrite64 => &[Number, In, Number, Number],
        libc::SYS_copy_file_range => &[Number, Null, Number, Null, Number, Number],
        libc::SYS_fstat => &[Number, Filled(STAT)],
        libc::SYS_newfstatat => &[Number, Text, Filled(STAT), Number],
        libc::SYS_statx => &[Number, Text, Number, Number, Filled(STATX)],
        libc::SYS_fstatfs => &[Number, Filled(STATFS)],
        libc::SYS_readlinkat => &[Number, Text, Out, Number],
        libc::SYS_mkdirat | libc::SYS_fchmodat | libc::SYS_unlinkat => &[Number, Text, Number],
        libc::SYS_mknodat | libc::SYS_fchmodat2 => &[Number, Text, Number, Number],
        libc::SYS_symlinkat => &[Text, Number, Text],
        libc::SYS_linkat | libc::SYS_renameat2 => &[Number, Text, Number, Text, Number],
        libc::SYS_fchownat => &[Number, Text, Number, Number, Number],
        libc::SYS_utimensat => &[Number, Text, Given(TIMES), Number],
        libc::SYS_fgetxattr => &[Number, Text, Out, Number],
        libc::SYS_lgetxattr | libc::SYS_getxattr => &[Text, Text, Out, Number],
        libc::SYS_flistxattr => &[Number, Out, Number],
        libc::SYS_llistxattr | libc::SYS_listxattr => &[Text, Out, Number],
        libc::SYS_fsetxattr => &[Number, Text, In, Number, Number],
        libc::SYS_lsetxattr | libc::SYS_setxattr => &[Text, Text, In, Number, Number],
        libc::SYS_fremovexattr => &[Number, Text],
        libc::SYS_lremovexattr | libc::SYS_removexattr => &[Text, Text],
        libc::SYS_ioctl => &[Number, Number, Number],
        _ => return None,
    })
}

/// Of all calls but ioctl, whose last argument depends on the others. `count`: of a
/// fiemap's extents.
fn kind_of_ioctl(request: u64, count: impl FnOnce() -> u32) -> Option<Kind> {
    if request & 0xffff_ffff == FIEMAP {
        let extents = (count() as usize).min(1024);
        return Some(Both(FIEMAP_HEAD + extents * FIEMAP_EXTENT));
    }
    let known = REQUESTS.iter().find(|(known, _)| *known == request);
    known.map(|(_, kind)| *kind)
}

/// Longest piece of data that one message has; read(2) and write(2) may do less than
/// they were asked for.
const MOST: u64 = BULK as u64;
/// One call, with a pointer for each argument that is one.
struct Plan {
    kinds: [Kind; 6],
    args: [u64; 6],
}

impl Plan {
    /// # Safety
    /// The arguments are what the call expects.
    unsafe fn of(nr: i64, mut args: [u64; 6]) -> Option<Plan> {
        let mut kinds = [Number; 6];
        let known = self::kinds(nr)?;
        kinds[..known.len()].copy_from_slice(known);
        if nr == libc::SYS_ioctl {
            // SAFETY: a struct fiemap's head has its count there.
            let count = || unsafe { *((args[2] as *const u8).add(FIEMAP_COUNT).cast::<u32>()) };
            kinds[2] = kind_of_ioctl(args[1], count)?;
        }
        for at in 0..5 {
            if matches!(kinds[at], In | Out) {
                args[at + 1] = args[at + 1].min(MOST);
            }
            if matches!(kinds[at], Given(_) | Text | Null) && args[at] == 0 {
                kinds[at] = Number;
            }
            if kinds[at] == Null {
                return None;
            }
        }
        Some(Plan { kinds, args })
    }
}

/// Whether what answers the call is a descriptor.
fn makes_descriptor(nr: i64, args: &[u64; 6]) -> bool {
    const DUPLICATES: [i32; 2] = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];
    match nr {
        libc::SYS_openat | libc::SYS_openat2 => true,
        libc::SYS_fcntl => DUPLICATES.contains(&(args[1] as i32)),
        _ => false,
    }
}

/// The most that the call can have done, where its result says how much that is of what it
/// was given: whoever goes on behind it takes so many bytes away.
fn most_done(nr: i64, kinds: &[Kind; 6], args: &[u64; 6]) -> Option<u64> {
    if nr == libc::SYS_copy_file_range {
        return Some(args[4]);
    }
    let given = kinds.iter().position(|kind| *kind == In)?;
    Some(args[given + 1])
}

/// Whether this argument has a length in it that the next call may go by: no answer changes
/// that, or a worker would say how much memory of this process it is sent and fills.
fn lies_in(nr: i64, args: &[u64; 6], at: usize) -> bool {
    nr == libc::SYS_ioctl && at == 2 && args[1] & 0xffff_ffff == FIEMAP
}

fn u32_at(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

impl Mount {
    /// # Safety
    /// As [`Linux::call`].
    unsafe fn cross(&self, nr: i64, args: [u64; 6], wants: Wants) -> Result<i64> {
        let unknown = || Failure::of_errno(libc::ENOSYS, "call");
        // SAFETY: the caller's word.
        let Plan { kinds, args } = unsafe { Plan::of(nr, args) }.ok_or_else(unknown)?;
        let call = self.call_of(special::SYSCALL, wants);
        let mut call = call.inspect_err(|failure| {
            // It was not even sent, and whoever closes does so once.
            if nr == libc::SYS_close && failure.errno == libc::EINTR {
                self.end_descriptor(args[0] as u32);
            }
        })?;
        let makes_descriptor = makes_descriptor(nr, &args);
        call.make_descriptor(makes_descriptor);
        let mut to = call.arguments();
        to.int(nr as u64)?;
        for (at, kind) in kinds.into_iter().enumerate() {
            let pointer = args[at] as *const u8;
            match kind {
                Number => to.int(args[at])?,
                // SAFETY: a C string, or so many bytes.
                Text => to.bytes(unsafe { CStr::from_ptr(pointer.cast()) }.to_bytes_with_nul())?,
                In if args[at + 1] == 0 => to.bytes(&[])?,
                // SAFETY: the same.
                In => {
                    to.bytes(unsafe { std::slice::from_raw_parts(pointer, args[at + 1] as usize) })?
                }
                Out | Filled(_) | Null => {}
                // SAFETY: the same.
                Given(size) | Both(size) => {
                    to.bytes(unsafe { std::slice::from_raw_parts(pointer, size) })?
                }
            }
        }
        drop(to);
        let answer = call.wait()?;
        let result = answer.result();
        if makes_descriptor && result > i64::from(i32::MAX) {
            // Cut to 32 bits it would be another one, or none, as AT_FDCWD.
            return Err(Failure::malformed());
        }
        if most_done(nr, &kinds, &args)
            .is_some_and(|most| result > most.min(i64::MAX as u64) as i64)
        {
            return Err(Failure::malformed());
        }
        let mut from = 0;
        for (at, kind) in kinds.into_iter().enumerate() {
            let size = match kind {
                Out => args[at + 1] as usize,
                Filled(size) | Both(size) => size,
                _ => continue,
            };
            // No more than there is room for, whatever the worker says.
            let used = match kind {
                Out if size == 0 => 0,
                Out => match usize::try_from(result) {
                    Ok(n) if n > size => return Err(Failure::malformed()),
                    Ok(n) => n,
                    Err(_) => 0,
                },
                _ => size,
            };
            if result >= 0 && used > 0 {
                // SAFETY: the kernel may write so many bytes there.
                let room = unsafe { std::slice::from_raw_parts_mut(args[at] as *mut u8, used) };
                let count = lies_in(nr, &args, at).then(|| u32_at(room, FIEMAP_COUNT));
                answer.data(from, room)?;
                if let Some(count) = count {
                    room[FIEMAP_COUNT..][..4].copy_from_slice(&count);
                }
            }
            from += size;
        }
        Ok(result)
    }
}

/// What Linux in a worker does not say: nobody interrupts it there, and callers try again
/// for as long; and only who waits gives a call up, which ends whole copies.
pub(crate) const NEVER: [i32; 2] = [libc::EINTR, libc::ECANCELED];

impl Mount {
    /// As [`Linux::call`], and never given up, whatever
    /// [`Options::interrupted`](crate::Options::interrupted) would say, which is not asked:
    /// for threads that answer others. Closing takes no message of its own, and no answer.
    ///
    /// # Safety
    /// As [`Linux::call`].
    pub unsafe fn call_for_others(&self, nr: i64, args: [u64; 6]) -> i64 {
        if nr == libc::SYS_close {
            self.close_for_others(args[0] as u32);
            return 0;
        }
        // SAFETY: the caller's word.
        told(unsafe { self.cross(nr, args, Wants::Always) })
    }
}

impl Linux for Mount {
    /// ENOSYS for calls that do not cross.
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: the caller's word.
        told(unsafe { self.cross(nr, args, Wants::Until) })
    }

    fn is_ours(&self) -> bool {
        true
    }
}

/// As a system call has it.
fn told(outcome: Result<i64>) -> i64 {
    match outcome {
        Ok(result) if NEVER.map(|errno| -i64::from(errno)).contains(&result) => {
            -i64::from(libc::EIO)
        }
        Ok(result @ -4095..) => result,
        Ok(_) => -i64::from(libc::EIO),
        // Who gave it up does not want it again.
        Err(failure) if failure.errno == libc::EINTR => -i64::from(libc::ECANCELED),
        Err(failure) => -i64::from(failure.errno),
    }
}

/// Do one here.
pub(crate) fn perform(kernel: &tane::Kernel, from: &mut Reader, to: &mut Writer) -> Result<i64> {
    let unknown = || Failure::of_errno(libc::ENOSYS, "call");
    let nr = from.int()? as i64;
    let known = kinds(nr).ok_or_else(unknown)?;
    let mut args = [0u64; 6];
    // Structures are whole words here, and outlive the call.
    let mut structures: [Vec<u64>; 6] = Default::default();
    let mut rooms = [(0, 0); 6];
    let mut late = [false; 6];
    for at in 0..6 {
        let mut kind = known.get(at).copied().unwrap_or(Number);
        if nr == libc::SYS_ioctl && at == 2 {
            // How long it is was seen by who sent it.
            kind = match args[1] & 0xffff_ffff == FIEMAP {
                true => Both(0),
                false => kind_of_ioctl(args[1], || 0).ok_or_else(unknown)?,
            };
        }
        // Instead of a length: NULL.
        if matches!(kind, Given(_) | Text | Null) && from.is_zero_here() {
            kind = Number;
        }
        match kind {
            Number => args[at] = from.int()?,
            Null => return Err(unknown()),
            Text | In => args[at] = from.bytes()?.as_ptr() as u64,
            Given(_) | Both(_) => {
                let bytes = from.bytes()?;
                let mut words = vec![0u64; bytes.len().div_ceil(8)];
                for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
                    let mut whole = [0; 8];
                    whole[..part.len()].copy_from_slice(part);
                    *word = u64::from_ne_bytes(whole);
                }
                args[at] = words.as_mut_ptr() as u64;
                structures[at] = words;
                if matches!(kind, Both(_)) {
                    rooms[at] = (to.len(), bytes.len());
                    to.take(bytes.len())?;
                    late[at] = true;
                }
            }
            Filled(size) => {
                structures[at] = vec![0; size.div_ceil(8)];
                args[at] = structures[at].as_mut_ptr() as u64;
                rooms[at] = (to.len(), size);
                to.take(size)?;
                late[at] = true;
            }
            // Its length comes next.
            Out => rooms[at] = (to.len(), usize::MAX),
        }
        if at > 0 && rooms[at - 1].1 == usize::MAX {
            let place = to.take(args[at] as usize)?;
            args[at - 1] = place.as_mut_ptr() as u64;
            rooms[at - 1].1 = args[at] as usize;
        }
    }
    // SAFETY: pointers to strings and bytes of the request, to structures as long as the
    // table says, and to room of the answer, all of which stay.
    let result = unsafe { kernel.syscall(nr, args) };
    for at in 0..6 {
        if late[at] {
            let (place, size) = rooms[at];
            // SAFETY: words are bytes, and there are as many.
            let bytes =
                unsafe { std::slice::from_raw_parts(structures[at].as_ptr().cast::<u8>(), size) };
            to.put_at(place, bytes);
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_has_a_length_that_is_missing() {
        for nr in 0..500 {
            let Some(kinds) = kinds(nr) else { continue };
            for (at, kind) in kinds.iter().enumerate() {
                if matches!(kind, In | Out) {
                    assert!(kinds.get(at + 1) == Some(&Number), "{nr}");
                }
            }
        }
        assert!(kinds(libc::SYS_execve).is_none());
    }
}
