//! A seccomp filter: what becomes of each system call, as a BPF program.
//!
//! Loading a filter takes time by its length, since the host runs it once for each
//! number to learn which calls always pass; those then cost nothing. So numbers
//! are found by bisection, and neighbours that fare alike share a branch.

use libc::{sock_filter, sock_fprog};
use std::collections::BTreeMap;
use std::io;

/// What becomes of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// It fails with this errno.
    Refuse(i32),
    /// An attack: the process ends at once, by SIGSYS.
    Kill,
    /// Allowed if all tests of any of these lists hold; else this errno, or death.
    If(Vec<Vec<Test>>, Option<i32>),
    /// Allowed if an argument is one of these; else this errno.
    OneOf(u32, Vec<u32>, i32),
}

/// `argument & mask == value`; with `not`, the contrary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub argument: u32,
    pub mask: u32,
    pub value: u32,
    pub not: bool,
}

/// Of the lower half, which is all that the host looks at of int arguments.
pub const fn is(argument: u32, mask: u32, value: u32) -> Test {
    Test {
        argument,
        mask,
        value,
        not: false,
    }
}

pub const fn equals(argument: u32, value: u32) -> Test {
    is(argument, u32::MAX, value)
}

// linux/bpf_common.h, linux/seccomp.h, linux/audit.h
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
const X86_64: u32 = 0xc000_003e;
/// Numbers from here on are of the x32 interface.
const X32: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

fn code(code: u16, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The program; `others`: what becomes of calls that are not in the table.
pub fn assemble(table: &BTreeMap<u32, Verdict>, others: &Verdict) -> Vec<sock_filter> {
    let mut ranges: Vec<(u32, &Verdict)> = vec![(0, others)];
    let mut put = |from: u32, verdict| {
        if ranges.last().is_some_and(|(at, _)| *at == from) {
            ranges.pop();
        }
        if ranges.last().is_none_or(|(_, last)| *last != verdict) {
            ranges.push((from, verdict));
        }
    };
    for (number, verdict) in table {
        put(*number, verdict);
        if !table.contains_key(&(number + 1)) {
            put(number + 1, others);
        }
    }
    put(X32, &Verdict::Kill);
    let mut program = vec![
        code(LOAD, ARCHITECTURE),
        branch(IF_EQUAL, X86_64, 1, 0),
        code(RETURN, KILL),
        code(LOAD, NUMBER),
    ];
    bisect(&mut program, &ranges);
    program
}

fn bisect(program: &mut Vec<sock_filter>, ranges: &[(u32, &Verdict)]) {
    if let [(_, verdict)] = ranges {
        return judge(program, verdict);
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let mut below = Vec::new();
    bisect(&mut below, low);
    match u8::try_from(below.len()) {
        Ok(len) => program.push(branch(IF_AT_LEAST, high[0].0, len, 0)),
        Err(_) => {
            program.push(branch(IF_AT_LEAST, high[0].0, 0, 1));
            program.push(code(JUMP, below.len() as u32));
        }
    }
    program.append(&mut below);
    bisect(program, high);
}

fn judge(program: &mut Vec<sock_filter>, verdict: &Verdict) {
    let refusal = |errno: i32| ERRNO | (errno as u32 & 0xffff);
    match verdict {
        Verdict::Allow => program.push(code(RETURN, ALLOW)),
        Verdict::Refuse(errno) => program.push(code(RETURN, refusal(*errno))),
        Verdict::Kill => program.push(code(RETURN, KILL)),
        Verdict::If(lists, errno) => {
            for tests in lists {
                // Backwards, since each must know how far it is to the next list.
                let mut list = vec![code(RETURN, ALLOW)];
                for test in tests.iter().rev() {
                    let out = list.len() as u8;
                    let (jt, jf) = if test.not { (out, 0) } else { (0, out) };
                    list.insert(0, branch(IF_EQUAL, test.value, jt, jf));
                    if test.mask != u32::MAX {
                        list.insert(0, code(AND, test.mask));
                    }
                    list.insert(0, code(LOAD, ARGUMENTS + 8 * test.argument));
                }
                program.append(&mut list);
            }
            program.push(code(RETURN, errno.map_or(KILL, refusal)));
        }
        Verdict::OneOf(argument, values, errno) => {
            program.push(code(LOAD, ARGUMENTS + 8 * argument));
            for (i, value) in values.iter().enumerate() {
                // Past the others and the refusal.
                let out = (values.len() - i) as u8;
                program.push(branch(IF_EQUAL, *value, out, 0));
            }
            program.push(code(RETURN, refusal(*errno)));
            program.push(code(RETURN, ALLOW));
        }
    }
}

/// Put all threads of the process under the program.
pub fn install(program: &mut [sock_filter]) -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_ulong = 1;
    const ALL_THREADS: libc::c_ulong = 1;
    // Without it older hosts switch off store bypassing for the whole thread, at a
    // price: whoever runs here reads this process's memory anyway.
    const SPECULATION_ALLOWED: libc::c_ulong = 4;
    let list = sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program is read during the call only.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = ALL_THREADS | SPECULATION_ALLOWED;
        match libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const list) {
            0 => Ok(()),
            n if n > 0 => Err(io::Error::other(format!("thread {n} has another filter"))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
