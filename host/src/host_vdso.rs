//! The host's own vDSO: code in this process that tells the time, which programs of this
//! kernel call too (`kernel/arch/tane/vdso`). Where the host's clock takes a system call,
//! that code makes one, and the handler of programs' calls makes it for it.

use std::ops::Range;
use std::sync::OnceLock;

/// ELF structures of which fields are read, by their offsets (elf.h).
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_COUNT: usize = 56;
const PROGRAM_HEADER_SIZE: usize = 56;
const SYMBOL_SIZE: usize = 24;
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;

struct HostVdso {
    code: Range<u64>,
    clock_gettime: u64,
}

static FOUND: OnceLock<Option<HostVdso>> = OnceLock::new();

/// Its clock_gettime(2), or 0.
pub fn clock_gettime() -> u64 {
    // SAFETY: it only tells; what it names is mapped as long as the process lives.
    let find = || unsafe { find(libc::getauxval(libc::AT_SYSINFO_EHDR) as usize) };
    let found = FOUND.get_or_init(find).as_ref();
    found.map_or(0, |vdso| vdso.clock_gettime)
}

/// Whether this is in there, once somebody has been given its clock. Handlers of signals ask.
pub fn has(address: u64) -> bool {
    let found = FOUND.get().and_then(Option::as_ref);
    found.is_some_and(|vdso| vdso.code.contains(&address))
}

/// # Safety
/// A shared library is mapped there as a whole, or this is 0.
unsafe fn find(at: usize) -> Option<HostVdso> {
    // SAFETY: within the library, as the caller promises.
    unsafe {
        if at == 0 {
            return None;
        }
        let word = |from: usize| (from as *const u64).read_unaligned();
        let half = |from: usize| (from as *const u32).read_unaligned();
        let headers = at + word(at + PROGRAM_HEADERS) as usize;
        let count = half(at + PROGRAM_HEADER_COUNT) as u16;
        let mut code = None;
        let mut dynamic = None;
        for i in 0..usize::from(count) {
            let header = headers + i * PROGRAM_HEADER_SIZE;
            let (offset, address, size) = (word(header + 8), word(header + 16), word(header + 40));
            match half(header) {
                LOAD => code = Some((at as u64 + offset - address, size)),
                DYNAMIC => dynamic = Some(at + offset as usize),
                _ => {}
            }
        }
        let (bias, size) = code?;
        let mut entry = dynamic?;
        let (mut strings, mut symbols) = (0, 0);
        while word(entry) != 0 {
            match word(entry) {
                STRINGS => strings = (bias + word(entry + 8)) as usize,
                SYMBOLS => symbols = (bias + word(entry + 8)) as usize,
                _ => {}
            }
            entry += 16;
        }
        // The names come right behind the symbols, of which nothing else says how many.
        if symbols == 0 || strings <= symbols {
            return None;
        }
        for symbol in (symbols..strings).step_by(SYMBOL_SIZE) {
            let name = (strings + half(symbol) as usize) as *const libc::c_char;
            if std::ffi::CStr::from_ptr(name) == c"__vdso_clock_gettime" {
                return Some(HostVdso {
                    code: at as u64..at as u64 + size,
                    clock_gettime: bias + word(symbol + 8),
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_clock_is_the_one_of_the_library() {
        let found = clock_gettime();
        assert!(found != 0 && has(found) && !has(0));
        // SAFETY: clock_gettime(2)'s type.
        let ask: extern "C" fn(i32, *mut libc::timespec) -> i32 =
            unsafe { std::mem::transmute(found as usize) };
        let nanoseconds = |time: libc::timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
        let mut times = [libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }; 3];
        // SAFETY: writes a structure of ours.
        let library = |time| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) };
        for (i, time) in times.iter_mut().enumerate() {
            let answer = match i {
                1 => ask(libc::CLOCK_MONOTONIC, time),
                _ => library(time),
            };
            assert_eq!(answer, 0);
        }
        let [before, now, after] = times.map(nanoseconds);
        assert!(before <= now && now <= after && before > 0);
    }
}
