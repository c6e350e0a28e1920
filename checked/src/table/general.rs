//! Forms of general registers, of control and of the return stack.
//!
//! What is left out on purpose: everything that enters or asks the system (syscall,
//! int, rdtsc, rdpmc, cpuid, xgetbv), sets what outlives an instruction in more than
//! registers (segments, MXCSR, the direction and alignment flags, x87 and MMX), has
//! memory that no operand names (string instructions, xlat, enter, leave, pop into
//! memory, maskmovdqu), a bit offset that reaches beyond its operand (bt with memory and
//! a register), or locks the bus (lock, xchg with memory): all other CPUs wait for that.

use crate::form::Flow::{Branch, Call, CallTable, Jump, JumpTable, Pop, Push, Return, Trap};
use crate::form::Map::{self, Byte, M0F, M0F38, M0F3A};
use crate::form::Op::*;
use crate::form::{byte, form, group, two, Encoding, Form, Prefix};

const fn vex(
    map: Map,
    prefix: Prefix,
    opcode: u8,
    name: &'static str,
    operands: &'static [crate::form::Op],
) -> Form {
    form(Encoding::Vex, map, prefix, opcode, name, operands)
}

const fn lowest(extension: u8, name: &'static str) -> Form {
    let mut it = vex(M0F38, Prefix::None, 0xf3, name, &[By, Ey]);
    it.extension = Some(extension);
    it
}

const fn f3(opcode: u8, name: &'static str) -> Form {
    form(Encoding::Legacy, M0F, Prefix::PF3, opcode, name, &[Gy, Ey])
}

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    byte(0x00, "add", &[Eb, Gb]), byte(0x01, "add", &[Ev, Gv]), byte(0x02, "add", &[Gb, Eb]),
    byte(0x03, "add", &[Gv, Ev]), byte(0x04, "add", &[Ab, Ib]), byte(0x05, "add", &[Av, Iz]),
    byte(0x08, "or", &[Eb, Gb]), byte(0x09, "or", &[Ev, Gv]), byte(0x0a, "or", &[Gb, Eb]),
    byte(0x0b, "or", &[Gv, Ev]), byte(0x0c, "or", &[Ab, Ib]), byte(0x0d, "or", &[Av, Iz]),
    byte(0x10, "adc", &[Eb, Gb]), byte(0x11, "adc", &[Ev, Gv]), byte(0x12, "adc", &[Gb, Eb]),
    byte(0x13, "adc", &[Gv, Ev]), byte(0x14, "adc", &[Ab, Ib]), byte(0x15, "adc", &[Av, Iz]),
    byte(0x18, "sbb", &[Eb, Gb]), byte(0x19, "sbb", &[Ev, Gv]), byte(0x1a, "sbb", &[Gb, Eb]),
    byte(0x1b, "sbb", &[Gv, Ev]), byte(0x1c, "sbb", &[Ab, Ib]), byte(0x1d, "sbb", &[Av, Iz]),
    byte(0x20, "and", &[Eb, Gb]), byte(0x21, "and", &[Ev, Gv]), byte(0x22, "and", &[Gb, Eb]),
    byte(0x23, "and", &[Gv, Ev]), byte(0x24, "and", &[Ab, Ib]), byte(0x25, "and", &[Av, Iz]),
    byte(0x28, "sub", &[Eb, Gb]), byte(0x29, "sub", &[Ev, Gv]), byte(0x2a, "sub", &[Gb, Eb]),
    byte(0x2b, "sub", &[Gv, Ev]), byte(0x2c, "sub", &[Ab, Ib]), byte(0x2d, "sub", &[Av, Iz]),
    byte(0x30, "xor", &[Eb, Gb]), byte(0x31, "xor", &[Ev, Gv]), byte(0x32, "xor", &[Gb, Eb]),
    byte(0x33, "xor", &[Gv, Ev]), byte(0x34, "xor", &[Ab, Ib]), byte(0x35, "xor", &[Av, Iz]),
    byte(0x38, "cmp", &[Eb, Gb]), byte(0x39, "cmp", &[Ev, Gv]), byte(0x3a, "cmp", &[Gb, Eb]),
    byte(0x3b, "cmp", &[Gv, Ev]), byte(0x3c, "cmp", &[Ab, Ib]), byte(0x3d, "cmp", &[Av, Iz]),

    byte(0x50, "push", &[Zq]).flow(Push), byte(0x58, "pop", &[Zq]).flow(Pop),
    byte(0x68, "push", &[Iz]).flow(Push), byte(0x6a, "push", &[Ib]).flow(Push),
    byte(0x63, "movsxd", &[Gv, Ed]).wide(),
    byte(0x69, "imul", &[Gv, Ev, Iz]), byte(0x6b, "imul", &[Gv, Ev, Ib]),

    byte(0x70, "jo", &[Jb]).flow(Branch), byte(0x71, "jno", &[Jb]).flow(Branch),
    byte(0x72, "jb", &[Jb]).flow(Branch), byte(0x73, "jae", &[Jb]).flow(Branch),
    byte(0x74, "je", &[Jb]).flow(Branch), byte(0x75, "jne", &[Jb]).flow(Branch),
    byte(0x76, "jbe", &[Jb]).flow(Branch), byte(0x77, "ja", &[Jb]).flow(Branch),
    byte(0x78, "js", &[Jb]).flow(Branch), byte(0x79, "jns", &[Jb]).flow(Branch),
    byte(0x7a, "jp", &[Jb]).flow(Branch), byte(0x7b, "jnp", &[Jb]).flow(Branch),
    byte(0x7c, "jl", &[Jb]).flow(Branch), byte(0x7d, "jge", &[Jb]).flow(Branch),
    byte(0x7e, "jle", &[Jb]).flow(Branch), byte(0x7f, "jg", &[Jb]).flow(Branch),

    group(Byte, 0x80, 0, "add", &[Eb, Ib]), group(Byte, 0x80, 1, "or", &[Eb, Ib]),
    group(Byte, 0x80, 2, "adc", &[Eb, Ib]), group(Byte, 0x80, 3, "sbb", &[Eb, Ib]),
    group(Byte, 0x80, 4, "and", &[Eb, Ib]), group(Byte, 0x80, 5, "sub", &[Eb, Ib]),
    group(Byte, 0x80, 6, "xor", &[Eb, Ib]), group(Byte, 0x80, 7, "cmp", &[Eb, Ib]),
    group(Byte, 0x81, 0, "add", &[Ev, Iz]), group(Byte, 0x81, 1, "or", &[Ev, Iz]),
    group(Byte, 0x81, 2, "adc", &[Ev, Iz]), group(Byte, 0x81, 3, "sbb", &[Ev, Iz]),
    group(Byte, 0x81, 4, "and", &[Ev, Iz]), group(Byte, 0x81, 5, "sub", &[Ev, Iz]),
    group(Byte, 0x81, 6, "xor", &[Ev, Iz]), group(Byte, 0x81, 7, "cmp", &[Ev, Iz]),
    group(Byte, 0x83, 0, "add", &[Ev, Ib]), group(Byte, 0x83, 1, "or", &[Ev, Ib]),
    group(Byte, 0x83, 2, "adc", &[Ev, Ib]), group(Byte, 0x83, 3, "sbb", &[Ev, Ib]),
    group(Byte, 0x83, 4, "and", &[Ev, Ib]), group(Byte, 0x83, 5, "sub", &[Ev, Ib]),
    group(Byte, 0x83, 6, "xor", &[Ev, Ib]), group(Byte, 0x83, 7, "cmp", &[Ev, Ib]),

    byte(0x84, "test", &[Eb, Gb]), byte(0x85, "test", &[Ev, Gv]),
    byte(0x87, "xchg", &[Rv, Gv]),
    byte(0x88, "mov", &[Eb, Gb]), byte(0x89, "mov", &[Ev, Gv]),
    byte(0x8a, "mov", &[Gb, Eb]), byte(0x8b, "mov", &[Gv, Ev]),
    byte(0x8d, "lea", &[Gv, M]),
    byte(0x91, "xchg", &[Av, Zv]),
    byte(0x90, "nop", &[]), form(Encoding::Legacy, Byte, Prefix::PF3, 0x90, "pause", &[]),
    byte(0x98, "cwde", &[Av]), byte(0x99, "cdq", &[Av]),
    byte(0xa8, "test", &[Ab, Ib]), byte(0xa9, "test", &[Av, Iz]),
    byte(0xb0, "mov", &[Zb, Ib]), byte(0xb8, "mov", &[Zv, Iv]),

    group(Byte, 0xc0, 0, "rol", &[Eb, Ib]), group(Byte, 0xc0, 1, "ror", &[Eb, Ib]),
    group(Byte, 0xc0, 4, "shl", &[Eb, Ib]), group(Byte, 0xc0, 5, "shr", &[Eb, Ib]),
    group(Byte, 0xc0, 7, "sar", &[Eb, Ib]),
    group(Byte, 0xc1, 0, "rol", &[Ev, Ib]), group(Byte, 0xc1, 1, "ror", &[Ev, Ib]),
    group(Byte, 0xc1, 4, "shl", &[Ev, Ib]), group(Byte, 0xc1, 5, "shr", &[Ev, Ib]),
    group(Byte, 0xc1, 7, "sar", &[Ev, Ib]),
    group(Byte, 0xd0, 0, "rol", &[Eb, One]), group(Byte, 0xd0, 1, "ror", &[Eb, One]),
    group(Byte, 0xd0, 4, "shl", &[Eb, One]), group(Byte, 0xd0, 5, "shr", &[Eb, One]),
    group(Byte, 0xd0, 7, "sar", &[Eb, One]),
    group(Byte, 0xd1, 0, "rol", &[Ev, One]), group(Byte, 0xd1, 1, "ror", &[Ev, One]),
    group(Byte, 0xd1, 2, "rcl", &[Ev, One]), group(Byte, 0xd1, 3, "rcr", &[Ev, One]),
    group(Byte, 0xd1, 4, "shl", &[Ev, One]), group(Byte, 0xd1, 5, "shr", &[Ev, One]),
    group(Byte, 0xd1, 7, "sar", &[Ev, One]),
    group(Byte, 0xd2, 0, "rol", &[Eb, Cl]), group(Byte, 0xd2, 1, "ror", &[Eb, Cl]),
    group(Byte, 0xd2, 4, "shl", &[Eb, Cl]), group(Byte, 0xd2, 5, "shr", &[Eb, Cl]),
    group(Byte, 0xd2, 7, "sar", &[Eb, Cl]),
    group(Byte, 0xd3, 0, "rol", &[Ev, Cl]), group(Byte, 0xd3, 1, "ror", &[Ev, Cl]),
    group(Byte, 0xd3, 4, "shl", &[Ev, Cl]), group(Byte, 0xd3, 5, "shr", &[Ev, Cl]),
    group(Byte, 0xd3, 7, "sar", &[Ev, Cl]),

    byte(0xc3, "ret", &[]).flow(Return),
    group(Byte, 0xc6, 0, "mov", &[Eb, Ib]), group(Byte, 0xc7, 0, "mov", &[Ev, Iz]),
    byte(0xe8, "call", &[Jz]).flow(Call),
    byte(0xe9, "jmp", &[Jz]).flow(Jump), byte(0xeb, "jmp", &[Jb]).flow(Jump),
    group(Byte, 0xf6, 0, "test", &[Eb, Ib]), group(Byte, 0xf6, 2, "not", &[Eb]),
    group(Byte, 0xf6, 3, "neg", &[Eb]), group(Byte, 0xf6, 4, "mul", &[Eb]),
    group(Byte, 0xf6, 5, "imul", &[Eb]), group(Byte, 0xf6, 6, "div", &[Eb]),
    group(Byte, 0xf6, 7, "idiv", &[Eb]),
    group(Byte, 0xf7, 0, "test", &[Ev, Iz]), group(Byte, 0xf7, 2, "not", &[Ev]),
    group(Byte, 0xf7, 3, "neg", &[Ev]), group(Byte, 0xf7, 4, "mul", &[Ev]),
    group(Byte, 0xf7, 5, "imul", &[Ev]), group(Byte, 0xf7, 6, "div", &[Ev]),
    group(Byte, 0xf7, 7, "idiv", &[Ev]),
    group(Byte, 0xfe, 0, "inc", &[Eb]), group(Byte, 0xfe, 1, "dec", &[Eb]),
    group(Byte, 0xff, 0, "inc", &[Ev]), group(Byte, 0xff, 1, "dec", &[Ev]),
    group(Byte, 0xff, 2, "call", &[Mq]).flow(CallTable),
    group(Byte, 0xff, 4, "jmp", &[Mq]).flow(JumpTable),

    two(0x0b, "ud2", &[]).flow(Trap),
    group(M0F, 0x18, 0, "prefetchnta", &[Mb]), group(M0F, 0x18, 1, "prefetcht0", &[Mb]),
    group(M0F, 0x18, 2, "prefetcht1", &[Mb]), group(M0F, 0x18, 3, "prefetcht2", &[Mb]),
    two(0x40, "cmovo", &[Gv, Ev]), two(0x41, "cmovno", &[Gv, Ev]),
    two(0x42, "cmovb", &[Gv, Ev]), two(0x43, "cmovae", &[Gv, Ev]),
    two(0x44, "cmove", &[Gv, Ev]), two(0x45, "cmovne", &[Gv, Ev]),
    two(0x46, "cmovbe", &[Gv, Ev]), two(0x47, "cmova", &[Gv, Ev]),
    two(0x48, "cmovs", &[Gv, Ev]), two(0x49, "cmovns", &[Gv, Ev]),
    two(0x4a, "cmovp", &[Gv, Ev]), two(0x4b, "cmovnp", &[Gv, Ev]),
    two(0x4c, "cmovl", &[Gv, Ev]), two(0x4d, "cmovge", &[Gv, Ev]),
    two(0x4e, "cmovle", &[Gv, Ev]), two(0x4f, "cmovg", &[Gv, Ev]),
    two(0x80, "jo", &[Jz]).flow(Branch), two(0x81, "jno", &[Jz]).flow(Branch),
    two(0x82, "jb", &[Jz]).flow(Branch), two(0x83, "jae", &[Jz]).flow(Branch),
    two(0x84, "je", &[Jz]).flow(Branch), two(0x85, "jne", &[Jz]).flow(Branch),
    two(0x86, "jbe", &[Jz]).flow(Branch), two(0x87, "ja", &[Jz]).flow(Branch),
    two(0x88, "js", &[Jz]).flow(Branch), two(0x89, "jns", &[Jz]).flow(Branch),
    two(0x8a, "jp", &[Jz]).flow(Branch), two(0x8b, "jnp", &[Jz]).flow(Branch),
    two(0x8c, "jl", &[Jz]).flow(Branch), two(0x8d, "jge", &[Jz]).flow(Branch),
    two(0x8e, "jle", &[Jz]).flow(Branch), two(0x8f, "jg", &[Jz]).flow(Branch),
    group(M0F, 0x90, 0, "seto", &[Eb]), group(M0F, 0x91, 0, "setno", &[Eb]),
    group(M0F, 0x92, 0, "setb", &[Eb]), group(M0F, 0x93, 0, "setae", &[Eb]),
    group(M0F, 0x94, 0, "sete", &[Eb]), group(M0F, 0x95, 0, "setne", &[Eb]),
    group(M0F, 0x96, 0, "setbe", &[Eb]), group(M0F, 0x97, 0, "seta", &[Eb]),
    group(M0F, 0x98, 0, "sets", &[Eb]), group(M0F, 0x99, 0, "setns", &[Eb]),
    group(M0F, 0x9a, 0, "setp", &[Eb]), group(M0F, 0x9b, 0, "setnp", &[Eb]),
    group(M0F, 0x9c, 0, "setl", &[Eb]), group(M0F, 0x9d, 0, "setge", &[Eb]),
    group(M0F, 0x9e, 0, "setle", &[Eb]), group(M0F, 0x9f, 0, "setg", &[Eb]),
    two(0xa3, "bt", &[Rv, Gv]), two(0xab, "bts", &[Rv, Gv]),
    two(0xb3, "btr", &[Rv, Gv]), two(0xbb, "btc", &[Rv, Gv]),
    group(M0F, 0xba, 4, "bt", &[Rv, Ib]), group(M0F, 0xba, 5, "bts", &[Rv, Ib]),
    group(M0F, 0xba, 6, "btr", &[Rv, Ib]), group(M0F, 0xba, 7, "btc", &[Rv, Ib]),
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
    vex(M0F38, Prefix::PF3, 0xf5, "pext", &[Gy, By, Ey]),
    vex(M0F38, Prefix::PF2, 0xf5, "pdep", &[Gy, By, Ey]),
    vex(M0F38, Prefix::PF2, 0xf6, "mulx", &[Gy, By, Ey]),
    vex(M0F38, Prefix::None, 0xf7, "bextr", &[Gy, Ey, By]),
    vex(M0F38, Prefix::P66, 0xf7, "shlx", &[Gy, Ey, By]),
    vex(M0F38, Prefix::PF3, 0xf7, "sarx", &[Gy, Ey, By]),
    vex(M0F38, Prefix::PF2, 0xf7, "shrx", &[Gy, Ey, By]),
    vex(M0F3A, Prefix::PF2, 0xf0, "rorx", &[Gy, Ey, Ib]),
];
