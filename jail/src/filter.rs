//! A seccomp filter: what becomes of each system call, as a BPF program.
//!
//! Loading a filter takes time by its length, since the host runs it once for each
//! number to learn which calls always pass; those then cost nothing. So numbers
//! are found by bisection, and neighbours that fare alike share a branch.

use libc::{sock_filter, sock_fprog};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

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

/// `argument & mask == value`, of one half of it; with `not`, the contrary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub argument: u32,
    pub upper: bool,
    pub mask: u32,
    pub value: u32,
    pub not: bool,
}

/// Of the lower half, which is all that the host looks at of int arguments.
pub const fn is(argument: u32, mask: u32, value: u32) -> Test {
    Test {
        argument,
        upper: false,
        mask,
        value,
        not: false,
    }
}

pub const fn equals(argument: u32, value: u32) -> Test {
    is(argument, u32::MAX, value)
}

/// A pointer that leads nowhere. The host looks at all of it: memory may lie at 4 GiB, whose
/// lower half is zero too.
pub const fn null(argument: u32) -> [Test; 2] {
    let lower = equals(argument, 0);
    let upper = Test {
        upper: true,
        ..lower
    };
    [lower, upper]
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
/// Of the instruction behind the system call, its lower and upper half.
const POINTER: [u32; 2] = [8, 12];
/// Numbers from here on are of the x32 interface.
const X32: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;

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
                    let half = ARGUMENTS + 8 * test.argument + 4 * u32::from(test.upper);
                    list.insert(0, code(LOAD, half));
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

/// SIGSYS for calls by other code than that in `range`, whatever their kind and number;
/// `program` for its own. Both ends of the range have the same upper half.
pub fn within(range: &Range<u64>, mut program: Vec<sock_filter>) -> Vec<sock_filter> {
    let [low, high] = POINTER;
    // The pointer is behind the instruction: from two bytes within to the end.
    let mut all = vec![
        code(LOAD, high),
        branch(IF_EQUAL, (range.end >> 32) as u32, 0, 3),
        code(LOAD, low),
        branch(IF_AT_LEAST, range.start as u32 + 2, 0, 1),
        branch(IF_AT_LEAST, range.end as u32 + 1, 0, 1),
        code(RETURN, TRAP),
    ];
    all.append(&mut program);
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the host's kernel does with a program, for the instructions used here.
    fn run(program: &[sock_filter], number: u32, arguments: [u64; 6]) -> u32 {
        run_at(program, 0, number, arguments)
    }

    fn run_at(program: &[sock_filter], rip: u64, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |at: u32| match at {
            NUMBER => number,
            ARCHITECTURE => X86_64,
            8 => rip as u32,
            12 => (rip >> 32) as u32,
            _ => (arguments[(at - ARGUMENTS) as usize / 8] >> (8 * (at % 8))) as u32,
        };
        let (mut at, mut a) = (0, 0);
        loop {
            let i = &program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { i.jt } else { i.jf });
            match i.code {
                LOAD => a = word(i.k),
                AND => a &= i.k,
                JUMP => at += i.k as usize,
                IF_EQUAL => at += jump(a == i.k),
                IF_AT_LEAST => at += jump(a >= i.k),
                RETURN => return i.k,
                code => panic!("{code:#x}"),
            }
        }
    }

    fn expected(verdict: &Verdict, arguments: [u64; 6]) -> u32 {
        let argument = |n: u32| arguments[n as usize] as u32;
        let refusal = |errno: i32| ERRNO | errno as u32;
        let half = |t: &Test| (arguments[t.argument as usize] >> (32 * u32::from(t.upper))) as u32;
        let holds = |t: &Test| (half(t) & t.mask == t.value) != t.not;
        match verdict {
            Verdict::Allow => ALLOW,
            Verdict::Refuse(errno) => refusal(*errno),
            Verdict::Kill => KILL,
            Verdict::If(lists, _) if lists.iter().any(|l| l.iter().all(holds)) => ALLOW,
            Verdict::If(_, errno) => errno.map_or(KILL, refusal),
            Verdict::OneOf(n, values, _) if values.contains(&argument(*n)) => ALLOW,
            Verdict::OneOf(_, _, errno) => refusal(*errno),
        }
    }

    #[test]
    fn each_call_fares_as_its_table_says() {
        let negated = Test {
            not: true,
            ..equals(0, 7)
        };
        let kinds = [
            Verdict::Allow,
            Verdict::Kill,
            Verdict::Refuse(libc::EPERM),
            Verdict::If(vec![vec![is(2, 4, 0)]], Some(libc::EPERM)),
            Verdict::If(
                vec![vec![equals(0, 1), equals(2, 0)], vec![equals(1, 7)]],
                None,
            ),
            Verdict::If(vec![vec![negated]], Some(libc::EACCES)),
            Verdict::If(vec![null(2).to_vec()], Some(libc::EPERM)),
            Verdict::OneOf(1, (0..40).map(|n| n * 3).collect(), libc::EPERM),
        ];
        // Dense, thin and mixed: short jumps and long ones.
        for step in [1, 2, 7] {
            let numbers = (0..500).step_by(step);
            let kind = |n: u32| kinds[(n as usize / 3) % kinds.len()].clone();
            let table: BTreeMap<_, _> = numbers.map(|n| (n, kind(n))).collect();
            let others = Verdict::Refuse(libc::ENOSYS);
            let program = assemble(&table, &others);
            assert!(program.len() < 4096, "BPF_MAXINSNS");
            for number in (0..600).chain([X32 - 1]) {
                for arguments in [[0; 6], [1, 7, 0, 0, 0, 0], [7, 9, 4, 0, 0, 0], [1 << 32; 6]] {
                    let verdict = table.get(&number).unwrap_or(&others);
                    let got = run(&program, number, arguments);
                    assert_eq!(got, expected(verdict, arguments), "{number} {arguments:?}");
                }
            }
            assert_eq!(run(&program, X32, [0; 6]), KILL);
            assert_eq!(run(&program, X32 + 39, [0; 6]), KILL);
            assert_eq!(run(&program, u32::MAX, [0; 6]), KILL);
        }
    }

    #[test]
    fn only_calls_from_within_the_range_are_judged_by_number() {
        let program = assemble(&BTreeMap::new(), &Verdict::Refuse(libc::EPERM));
        let range = 0x7000_0000_1000..0x7000_0000_3000;
        let program = within(&range, program);
        let refused = ERRNO | libc::EPERM as u32;
        for rip in [0x7000_0000_1002, 0x7000_0000_2000, 0x7000_0000_3000] {
            assert_eq!(run_at(&program, rip, 39, [0; 6]), refused, "{rip:#x}");
            assert_eq!(run_at(&program, rip, X32, [0; 6]), KILL, "{rip:#x}");
        }
        let outside = [
            0,
            0x7000_0000_1000,
            0x7000_0000_1001,
            0x7000_0000_3001,
            0x6fff_0000_2000,
            0x7001_0000_2000,
            0x2000,
            u64::MAX,
        ];
        for rip in outside {
            for number in [0, 39, X32, X32 + 39, u32::MAX] {
                assert_eq!(run_at(&program, rip, number, [0; 6]), TRAP, "{rip:#x}");
            }
        }
    }
}
