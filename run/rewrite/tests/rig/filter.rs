//! The filter of calls that programs make without a trampoline.

use super::RUNTIME;

/// Calls from within the gate's page: allowed, and told of where they map code of files.
/// The page itself can be mapped from anywhere.
pub(super) fn filter() -> Vec<libc::sock_filter> {
    let code = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const TRACE: u32 = 0x7ff0_0000;
    const TRAP: u32 = 0x0003_0000;
    const NUMBER: u32 = 0;
    const UPPER_POINTER: u32 = 12;
    let argument = |n: u32| 16 + 8 * n;
    let high = (RUNTIME >> 32) as u32;
    vec![
        // An mmap(2) at RUNTIME?
        code(LOAD, 0, 0, NUMBER),
        code(IF_EQUAL, 0, 5, libc::SYS_mmap as u32),
        code(LOAD, 0, 0, argument(0) + 4),
        code(IF_EQUAL, 0, 3, high),
        code(LOAD, 0, 0, argument(0)),
        code(IF_EQUAL, 0, 1, RUNTIME as u32),
        code(RETURN, 0, 0, ALLOW),
        // By other code than the gate's?
        code(LOAD, 0, 0, UPPER_POINTER),
        code(IF_EQUAL, 1, 0, high),
        code(RETURN, 0, 0, TRAP),
        // An mmap(2) of code of a file?
        code(LOAD, 0, 0, NUMBER),
        code(IF_EQUAL, 0, 5, libc::SYS_mmap as u32),
        code(LOAD, 0, 0, argument(2)),
        code(IF_SET, 0, 3, libc::PROT_EXEC as u32),
        code(LOAD, 0, 0, argument(3)),
        code(IF_SET, 1, 0, libc::MAP_ANONYMOUS as u32),
        code(RETURN, 0, 0, TRACE),
        code(RETURN, 0, 0, ALLOW),
    ]
}
