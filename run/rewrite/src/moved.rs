//! Instructions around a `syscall` that a jump takes the place of.

use crate::site::{JUMP, SYSCALL};
use crate::sweep::Sweep;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// Why a site cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyNot {
    /// Something known leads between the `syscall` and the end of what would be moved.
    Target,
    /// An instruction that means something else at another place.
    Instruction,
    /// A second instruction would begin within the jump, where no trap can be put.
    Boundary,
    /// Code or function end too soon.
    End,
    /// The next site begins there.
    Neighbour,
}

/// One moved instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How far behind the `syscall`'s first byte it was.
    pub from: u8,
    /// Bytes of it there.
    pub length: u8,
    /// What becomes of it.
    pub step: Step,
}

/// What a moved instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the same anywhere.
    Same,
    /// A jump to this offset in the segment (which may be outside), under this condition
    /// (the low four bits of its opcode); always without.
    Jump(Option<u8>, i64),
    /// It returns, so nothing follows.
    Return,
}

impl Step {
    /// Whether what is behind it is not reached through it.
    pub fn ends(self) -> bool {
        matches!(self, Self::Return | Self::Jump(None, _))
    }
}

/// The instructions behind a `syscall` that move; together with it they have room for a
/// jump, unless the last of them ends and filling follows.
pub type Moved = Vec<Piece>;

/// Which instructions behind the `syscall` at `at` would be moved.
pub fn follow(code: &[u8], at: usize, sweep: &Sweep) -> Result<Moved, WhyNot> {
    let mut moved = Moved::new();
    let mut end = at + SYSCALL.len();
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    decoder.set_position(end).map_err(|_| WhyNot::End)?;
    decoder.set_ip(end as u64);
    while end < at + JUMP {
        let it = decoder.decode();
        if it.is_invalid() {
            return Err(WhyNot::End);
        }
        let piece = Piece {
            from: (end - at) as u8,
            length: it.len() as u8,
            step: step(&it).ok_or(WhyNot::Instruction)?,
        };
        end += it.len();
        moved.push(piece);
        if piece.step.ends() {
            end = filling(code, end, at + JUMP).ok_or(WhyNot::End)?;
        }
    }
    let within =
        |piece: &Piece| usize::from(piece.from) > SYSCALL.len() && usize::from(piece.from) < JUMP;
    if sweep.leads_into(at + 1, end.max(at + JUMP)) {
        return Err(WhyNot::Target);
    }
    if moved.iter().any(within) {
        return Err(WhyNot::Boundary);
    }
    Ok(moved)
}

/// Bytes of the instruction before the `syscall` at `at`, if it has room for a jump, is
/// the same anywhere, and nothing leads into it. The `syscall` itself stays.
pub fn before(code: &[u8], at: usize, sweep: &Sweep) -> Option<u8> {
    const LONGEST: usize = 15;
    let start =
        (at.saturating_sub(LONGEST)..=at.checked_sub(JUMP)?).rfind(|at| sweep.begins(*at))?;
    let mut decoder = Decoder::new(64, &code[start..at], DecoderOptions::NONE);
    let it = decoder.decode();
    let whole = !it.is_invalid() && start + it.len() == at;
    let moves = step(&it) == Some(Step::Same) && !sweep.leads_into(start + 1, at);
    (whole && moves && in_step(code, start)).then_some(it.len() as u8)
}

/// Whether it does not matter where before `at` one begins to read: a trap proves that the
/// `syscall` is code, and no more than this that an instruction begins before it.
fn in_step(code: &[u8], at: usize) -> bool {
    let starts = at.saturating_sub(64)..at.saturating_sub(32);
    let enough = starts.len() * 3 / 4;
    let arrives = |start: &usize| {
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        let mut here = *start;
        while here < at && decoder.set_position(here).is_ok() {
            let it = decoder.decode();
            here += if it.is_invalid() { 1 } else { it.len() };
        }
        here == at
    };
    starts.filter(arrives).count() >= enough
}

fn step(it: &Instruction) -> Option<Step> {
    match it.flow_control() {
        FlowControl::Next if it.is_ip_rel_memory_operand() => None,
        // A trap of these has to show its own place.
        FlowControl::Next if it.is_privileged() => None,
        FlowControl::Next => Some(Step::Same),
        FlowControl::Return if matches!(it.code(), Code::Retnq | Code::Retnq_imm16) => {
            Some(Step::Return)
        }
        FlowControl::UnconditionalBranch if it.op0_kind() == OpKind::NearBranch64 => {
            Some(Step::Jump(None, it.near_branch64() as i64))
        }
        FlowControl::ConditionalBranch if it.is_jcc_short_or_near() => {
            let condition = it.condition_code() as u8 - 1;
            Some(Step::Jump(Some(condition), it.near_branch64() as i64))
        }
        _ => None,
    }
}

/// The end of what fills the gap behind a function, if it reaches `enough`.
fn filling(code: &[u8], mut at: usize, enough: usize) -> Option<usize> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while at < enough {
        decoder.set_position(at).ok()?;
        let it = decoder.decode();
        let fills = matches!(
            it.code(),
            Code::Nop_rm16 | Code::Nop_rm32 | Code::Nopd | Code::Nopw | Code::Int3
        );
        if !fills {
            return None;
        }
        at += it.len();
    }
    Some(at)
}
