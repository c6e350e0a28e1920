//! The seccomp filters of a process, as the host has them, worked out for all arguments
//! at once: each way through the programs that ends in "allowed", and what it takes of
//! the arguments. A second reader of what jail/src/filter.rs writes.

use super::Prisoner;
use std::collections::{BTreeMap, BTreeSet};

// linux/bpf_common.h, linux/seccomp.h, linux/audit.h
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
pub const X86_64: u32 = 0xc000_003e;
pub const I386: u32 = 0x4000_0003;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;
const ACTION: u32 = 0xffff_0000;
/// linux/ptrace.h
const GET_FILTER: libc::c_uint = 0x420c;

/// Half an argument, as far as it is known on the way.
#[derive(Clone, Default)]
struct Half {
    known: u32,
    value: u32,
    not: BTreeSet<(u32, u32)>,
}

impl Half {
    /// Whether `half & mask == value` may hold, or not hold; from now on it does.
    fn assume(&mut self, mask: u32, value: u32, holds: bool) -> bool {
        let differs = (self.known & mask) & (self.value ^ value) != 0 || value & !mask != 0;
        match holds {
            true if differs => false,
            true => {
                self.known |= mask;
                self.value |= value;
                !self.not.iter().any(|(mask, value)| self.is(*mask, *value))
            }
            false if differs => true,
            false if self.is(mask, value) => false,
            false if mask.is_power_of_two() => self.assume(mask, value ^ mask, true),
            false => {
                self.not.insert((mask, value));
                true
            }
        }
    }

    fn is(&self, mask: u32, value: u32) -> bool {
        self.known & mask == mask && self.value & mask == value
    }
}

/// Two halves of each argument.
#[derive(Clone, Default)]
struct Way([Half; 12]);

impl Way {
    fn text(&self, pid: u32) -> String {
        let number = |n: u32| match n {
            n if n == pid => "PID".to_owned(),
            0..=9 => n.to_string(),
            n => format!("{n:#x}"),
        };
        let term = |i: usize, mask: u32, sign: &str, value: u32| {
            let half = ["", "high"][i % 2];
            let mask = match mask {
                u32::MAX => String::new(),
                mask => format!("&{}", number(mask)),
            };
            format!("{}{half}{mask}{sign}{}", i / 2, number(value))
        };
        let mut all = Vec::new();
        for (i, half) in self.0.iter().enumerate() {
            if half.known != 0 {
                all.push(term(i, half.known, "=", half.value));
            }
            for (mask, value) in &half.not {
                if (half.known & mask) & (half.value ^ value) == 0 {
                    all.push(term(i, *mask, "≠", *value));
                }
            }
        }
        all.join(" and ")
    }
}

/// What the accumulator is: a number, or half an argument under a mask.
#[derive(Clone, Copy)]
enum Value {
    Known(u32),
    Half(usize, u32),
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Fails(i32),
    Killed,
}

type Program = Vec<libc::sock_filter>;

pub struct Filters(Vec<Program>);

impl Filters {
    /// Of a thread that is stopped; the oldest first.
    pub fn of(thread: &Prisoner) -> Filters {
        let ask = |index: u64, into: u64| {
            let asked = super::trace(GET_FILTER, thread.tid(), index, into);
            usize::try_from(asked).ok()
        };
        let filters = (0..).map_while(|index| {
            let none = libc::sock_filter {
                code: 0,
                jt: 0,
                jf: 0,
                k: 0,
            };
            let mut program = vec![none; ask(index, 0)?];
            assert_eq!(ask(index, program.as_mut_ptr() as u64), Some(program.len()));
            Some(program)
        });
        let filters: Vec<_> = filters.collect();
        assert!(!filters.is_empty(), "no filter");
        Filters(filters)
    }

    /// All numbers at which anything changes, and those before and behind them.
    fn numbers(&self) -> BTreeSet<u32> {
        let all = self.0.iter().flatten();
        let limits = all.filter(|i| i.code == IF_AT_LEAST || i.code == IF_EQUAL);
        let around = limits.flat_map(|i| [i.k.wrapping_sub(1), i.k, i.k.wrapping_add(1)]);
        around.chain(0..1024).chain([u32::MAX]).collect()
    }

    /// What is allowed: of each number, what it takes.
    pub fn allowed(&self, pid: u32) -> BTreeMap<u32, BTreeSet<String>> {
        let mut all = BTreeMap::new();
        for number in self.numbers() {
            let mut ways = vec![Way::default()];
            for program in &self.0 {
                let next = ways.into_iter();
                let next = next.flat_map(|way| walk(program, number, X86_64, way));
                ways = next.filter(|(end, _)| *end == ALLOW).map(|w| w.1).collect();
            }
            // A request of ioctl(2) is no process, though one may have its number.
            let pid = match i64::from(number) {
                libc::SYS_ioctl => u32::MAX,
                _ => pid,
            };
            if !ways.is_empty() {
                all.insert(number, ways.iter().map(|way| way.text(pid)).collect());
            }
        }
        all
    }

    pub fn judge(&self, architecture: u32, number: u32, arguments: &[u64]) -> Verdict {
        let mut way = Way::default();
        for (i, half) in way.0.iter_mut().enumerate() {
            half.known = u32::MAX;
            let argument = arguments.get(i / 2).copied().unwrap_or(0);
            half.value = (argument >> (32 * (i % 2))) as u32;
        }
        let ends = self.0.iter().map(|program| {
            let mut ends = walk(program, number, architecture, way.clone());
            assert_eq!(ends.len(), 1);
            ends.remove(0).0
        });
        // The strictest; of equals that of the newest filter.
        match ends.rev().min_by_key(|end| (end & ACTION) as i32) {
            Some(ALLOW) => Verdict::Allowed,
            Some(KILL) => Verdict::Killed,
            Some(end) if end & ACTION == ERRNO => Verdict::Fails((end & 0xffff) as i32),
            end => panic!("{end:?}"),
        }
    }
}

/// All ends of a program for this number.
fn walk(program: &Program, number: u32, architecture: u32, way: Way) -> Vec<(u32, Way)> {
    let mut ends = Vec::new();
    let mut open = vec![(0, Value::Known(0), way)];
    while let Some((mut at, mut value, mut way)) = open.pop() {
        loop {
            let i = &program[at];
            at += 1;
            match (i.code, value) {
                (LOAD, _) => {
                    value = match i.k {
                        0 => Value::Known(number),
                        4 => Value::Known(architecture),
                        k => Value::Half((k as usize - 16) / 4, u32::MAX),
                    }
                }
                (AND, Value::Known(n)) => value = Value::Known(n & i.k),
                (AND, Value::Half(half, mask)) => value = Value::Half(half, mask & i.k),
                (JUMP, _) => at += i.k as usize,
                (IF_EQUAL, Value::Half(half, mask)) => {
                    let mut other = way.clone();
                    if other.0[half].assume(mask, i.k, false) {
                        open.push((at + usize::from(i.jf), value, other));
                    }
                    if !way.0[half].assume(mask, i.k, true) {
                        break;
                    }
                    at += usize::from(i.jt);
                }
                (IF_EQUAL, Value::Known(n)) => at += usize::from([i.jf, i.jt][(n == i.k) as usize]),
                (IF_AT_LEAST, Value::Known(n)) => {
                    at += usize::from([i.jf, i.jt][(n >= i.k) as usize])
                }
                (RETURN, _) => {
                    ends.push((i.k, way));
                    break;
                }
                (code, _) => panic!("an instruction that jail/src/filter.rs has not: {code:#x}"),
            }
        }
    }
    ends
}
