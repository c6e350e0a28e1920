//! Forms of general registers, of control and of the return stack.
//!
//! What is left out on purpose: everything that enters or asks the system (syscall,
//! int, rdtsc, rdpmc, cpuid, xgetbv), sets what outlives an instruction in more than
//! registers (segments, MXCSR, the direction and alignment flags, x87 and MMX), has
//! memory that no operand names (string instructions, xlat, enter, leave, pop into
//! memory, maskmovdqu), a bit offset that reaches beyond its operand (bt with memory and
//! a register), or locks the bus (lock, xchg with memory): all other CPUs wait for that.

use crate::form::operands::*;
use crate::form::Encoding::{Legacy, Vex};
use crate::form::Flow::{Branch, Call, CallTable, Jump, JumpTable, Pop, Push, Return, Trap};
use crate::form::Map::{self, Byte, M0F, M0F38, M0F3A};
use crate::form::Prefix::{self, P66, PF2, PF3};
use crate::form::{Form, Op};

type Operands = &'static [Op];

/// A form of one opcode byte.
const fn byte(opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, Byte, opcode, operands)
}

/// One with 0F before it.
const fn two(opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, M0F, opcode, operands)
}

/// With VEX alone.
const fn vex(map: Map, prefix: Prefix, opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, map, opcode, operands).encoded(Vex, prefix)
}

const fn lowest(extension: u8, name: &'static str) -> Form {
    vex(M0F38, Prefix::None, 0xf3, name, &[By, Ey]).extension(extension)
}

const fn f3(opcode: u8, name: &'static str) -> Form {
    two(opcode, name, &[Gy, Ey]).encoded(Legacy, PF3)
}

/// Arithmetic: six opcodes each, and one in the groups 80, 81 and 83.
macro_rules! arithmetic {
    ($($number:literal $name:literal)*) => { &[$(
        byte(8 * $number, $name, &[Eb, Gb]), byte(8 * $number + 1, $name, &[Ev, Gv]),
        byte(8 * $number + 2, $name, &[Gb, Eb]), byte(8 * $number + 3, $name, &[Gv, Ev]),
        byte(8 * $number + 4, $name, &[Ab, Ib]), byte(8 * $number + 5, $name, &[Av, Iz]),
        byte(0x80, $name, &[Eb, Ib]).extension($number),
        byte(0x81, $name, &[Ev, Iz]).extension($number),
        byte(0x83, $name, &[Ev, Ib]).extension($number),
    )*] };
}

pub(super) const ARITHMETIC: &[Form] =
    arithmetic!(0 "add" 1 "or" 2 "adc" 3 "sbb" 4 "and" 5 "sub" 6 "xor" 7 "cmp");

/// Shifts: by an immediate, by 1, by cl.
macro_rules! shifts {
    ($($number:literal $name:literal)*) => { &[$(
        byte(0xc0, $name, &[Eb, Ib]).extension($number),
        byte(0xc1, $name, &[Ev, Ib]).extension($number),
        byte(0xd0, $name, &[Eb, One]).extension($number),
        byte(0xd1, $name, &[Ev, One]).extension($number),
        byte(0xd2, $name, &[Eb, Cl]).extension($number),
        byte(0xd3, $name, &[Ev, Cl]).extension($number),
    )*] };
}

pub(super) const SHIFTS: &[Form] = shifts!(0 "rol" 1 "ror" 4 "shl" 5 "shr" 7 "sar");

/// What is done on a condition.
macro_rules! conditional {
    ($($number:literal $condition:literal)*) => { &[$(
        byte(0x70 + $number, concat!("j", $condition), &[Jb]).flow(Branch),
        two(0x80 + $number, concat!("j", $condition), &[Jz]).flow(Branch),
        two(0x40 + $number, concat!("cmov", $condition), &[Gv, Ev]),
        two(0x90 + $number, concat!("set", $condition), &[Eb]).extension(0),
    )*] };
}

pub(super) const CONDITIONAL: &[Form] = conditional! {
    0 "o" 1 "no" 2 "b" 3 "ae" 4 "e" 5 "ne" 6 "be" 7 "a" 8 "s" 9 "ns" 10 "p" 11 "np" 12 "l"
    13 "ge" 14 "le" 15 "g"
};

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    byte(0x50, "push", &[Zq]).flow(Push), byte(0x58, "pop", &[Zq]).flow(Pop),
    byte(0x68, "push", &[Iz]).flow(Push), byte(0x6a, "push", &[Ib]).flow(Push),
    byte(0x63, "movsxd", &[Gv, Ed]).wide(),
    byte(0x69, "imul", &[Gv, Ev, Iz]), byte(0x6b, "imul", &[Gv, Ev, Ib]),

    byte(0x84, "test", &[Eb, Gb]), byte(0x85, "test", &[Ev, Gv]),
    byte(0x87, "xchg", &[Rv, Gv]),
    byte(0x88, "mov", &[Eb, Gb]), byte(0x89, "mov", &[Ev, Gv]),
    byte(0x8a, "mov", &[Gb, Eb]), byte(0x8b, "mov", &[Gv, Ev]),
    byte(0x8d, "lea", &[Gv, M]),
    byte(0x91, "xchg", &[Av, Zv]),
    byte(0x90, "nop", &[]), byte(0x90, "pause", &[]).encoded(Legacy, PF3),
    byte(0x98, "cwde", &[Av]), byte(0x99, "cdq", &[Av]),
    byte(0xa8, "test", &[Ab, Ib]), byte(0xa9, "test", &[Av, Iz]),
    byte(0xb0, "mov", &[Zb, Ib]), byte(0xb8, "mov", &[Zv, Iv]),

    byte(0xd1, "rcl", &[Ev, One]).extension(2), byte(0xd1, "rcr", &[Ev, One]).extension(3),

    byte(0xc3, "ret", &[]).flow(Return),
    byte(0xc6, "mov", &[Eb, Ib]).extension(0), byte(0xc7, "mov", &[Ev, Iz]).extension(0),
    byte(0xe8, "call", &[Jz]).flow(Call),
    byte(0xe9, "jmp", &[Jz]).flow(Jump), byte(0xeb, "jmp", &[Jb]).flow(Jump),
    byte(0xf6, "test", &[Eb, Ib]).extension(0), byte(0xf6, "not", &[Eb]).extension(2),
    byte(0xf6, "neg", &[Eb]).extension(3), byte(0xf6, "mul", &[Eb]).extension(4),
    byte(0xf6, "imul", &[Eb]).extension(5), byte(0xf6, "div", &[Eb]).extension(6),
    byte(0xf6, "idiv", &[Eb]).extension(7),
    byte(0xf7, "test", &[Ev, Iz]).extension(0), byte(0xf7, "not", &[Ev]).extension(2),
    byte(0xf7, "neg", &[Ev]).extension(3), byte(0xf7, "mul", &[Ev]).extension(4),
    byte(0xf7, "imul", &[Ev]).extension(5), byte(0xf7, "div", &[Ev]).extension(6),
    byte(0xf7, "idiv", &[Ev]).extension(7),
    byte(0xfe, "inc", &[Eb]).extension(0), byte(0xfe, "dec", &[Eb]).extension(1),
    byte(0xff, "inc", &[Ev]).extension(0), byte(0xff, "dec", &[Ev]).extension(1),
    byte(0xff, "call", &[Mq]).extension(2).flow(CallTable),
    byte(0xff, "jmp", &[Mq]).extension(4).flow(JumpTable),

    two(0x0b, "ud2", &[]).flow(Trap),
    two(0x18, "prefetchnta", &[Mb]).extension(0), two(0x18, "prefetcht0", &[Mb]).extension(1),
    two(0x18, "prefetcht1", &[Mb]).extension(2), two(0x18, "prefetcht2", &[Mb]).extension(3),
    two(0xa3, "bt", &[Rv, Gv]), two(0xab, "bts", &[Rv, Gv]),
    two(0xb3, "btr", &[Rv, Gv]), two(0xbb, "btc", &[Rv, Gv]),
    two(0xba, "bt", &[Rv, Ib]).extension(4), two(0xba, "bts", &[Rv, Ib]).extension(5),
    two(0xba, "btr", &[Rv, Ib]).extension(6), two(0xba, "btc", &[Rv, Ib]).extension(7),
    two(0xa4, "shld", &[Ev, Gv, Ib]), two(0xa5, "shld", &[Ev, Gv, Cl]),
    two(0xac, "shrd", &[Ev, Gv, Ib]), two(0xad, "shrd", &[Ev, Gv, Cl]),
    two(0xaf, "imul", &[Gv, Ev]),
    two(0xb0, "cmpxchg", &[Eb, Gb]), two(0xb1, "cmpxchg", &[Ev, Gv]),
    two(0xc0, "xadd", &[Eb, Gb]), two(0xc1, "xadd", &[Ev, Gv]),
    two(0xb6, "movzx", &[Gv, Eb]), two(0xb7, "movzx", &[Gy, Ew]),
    two(0xbe, "movsx", &[Gv, Eb]), two(0xbf, "movsx", &[Gy, Ew]),
    f3(0xb8, "popcnt"), f3(0xbc, "tzcnt"), f3(0xbd, "lzcnt"),
    two(0xbc, "bsf", &[Gv, Ev]), two(0xbd, "bsr", &[Gv, Ev]),
    two(0xc8, "bswap", &[Zy]),

    vex(M0F38, Prefix::None, 0xf2, "andn", &[Gy, By, Ey]),
    lowest(1, "blsr"), lowest(2, "blsmsk"), lowest(3, "blsi"),
    vex(M0F38, Prefix::None, 0xf5, "bzhi", &[Gy, Ey, By]),
    vex(M0F38, PF3, 0xf5, "pext", &[Gy, By, Ey]),
    vex(M0F38, PF2, 0xf5, "pdep", &[Gy, By, Ey]),
    vex(M0F38, PF2, 0xf6, "mulx", &[Gy, By, Ey]),
    vex(M0F38, Prefix::None, 0xf7, "bextr", &[Gy, Ey, By]),
    vex(M0F38, P66, 0xf7, "shlx", &[Gy, Ey, By]),
    vex(M0F38, PF3, 0xf7, "sarx", &[Gy, Ey, By]),
    vex(M0F38, PF2, 0xf7, "shrx", &[Gy, Ey, By]),
    vex(M0F3A, PF2, 0xf0, "rorx", &[Gy, Ey, Ib]),
];
