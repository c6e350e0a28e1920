//! One pass over code from front to back: where instructions begin, and where branches
//! lead.
//!
//! Data between functions can put the pass out of step with the real instructions. It
//! falls into step again within a few instructions, and at the latest where a function
//! is known to begin. So what a pass says is strong evidence and no proof; who asks for
//! certainty takes patterns besides that data does not have by chance.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// What a pass found. Places are offsets into the code.
#[derive(Debug)]
pub struct Sweep {
    /// A bit for each byte: an instruction begins there.
    starts: Vec<u64>,
    /// Where branches, calls, addresses in code and functions lead; sorted.
    targets: Vec<u32>,
}

impl Sweep {
    /// Reads `code`, which is linked to `address`; `functions` are sorted addresses.
    /// Code is at most 1 GiB long.
    pub fn new(code: &[u8], address: u64, functions: &[u64]) -> Sweep {
        let inside = |target: u64| {
            let at = target.wrapping_sub(address);
            (at < code.len() as u64).then_some(at as u32)
        };
        let functions: Vec<u32> = functions.iter().filter_map(|at| inside(*at)).collect();
        let mut starts = vec![0u64; code.len().div_ceil(64)];
        let mut targets = functions.clone();
        let mut next = functions.iter().copied().peekable();
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut it = Instruction::default();
        while decoder.can_decode() {
            let at = decoder.position();
            decoder.decode_out(&mut it);
            let mut end = decoder.position();
            if it.is_invalid() {
                end = at + 1;
            } else {
                starts[at / 64] |= 1 << (at % 64);
                targets.extend(target(&it).and_then(inside));
            }
            // No instruction reaches into the next function.
            while next.peek().is_some_and(|start| *start as usize <= at) {
                next.next();
            }
            if let Some(start) = next.peek().map(|start| *start as usize) {
                end = end.min(start);
            }
            if end != decoder.position() {
                decoder.set_ip(address.wrapping_add(end as u64));
                if decoder.set_position(end).is_err() {
                    break;
                }
            }
        }
        targets.sort_unstable();
        targets.dedup();
        Sweep { starts, targets }
    }

    /// Whether an instruction begins at this offset.
    pub fn begins(&self, at: usize) -> bool {
        let bits = self.starts.get(at / 64);
        bits.is_some_and(|bits| bits >> (at % 64) & 1 != 0)
    }

    /// Whether anything known leads to one of the offsets from `first` to before `end`.
    pub fn leads_into(&self, first: usize, end: usize) -> bool {
        let at = self.targets.partition_point(|t| (*t as usize) < first);
        self.targets.get(at).is_some_and(|t| (*t as usize) < end)
    }
}

/// Where a branch leads; or an address in code that is taken, for a jump may follow.
fn target(it: &Instruction) -> Option<u64> {
    match it.flow_control() {
        FlowControl::ConditionalBranch
        | FlowControl::UnconditionalBranch
        | FlowControl::Call
        | FlowControl::XbeginXabortXend
            if it.op0_kind() == OpKind::NearBranch64 =>
        {
            Some(it.near_branch64())
        }
        FlowControl::Next if it.is_ip_rel_memory_operand() => Some(it.ip_rel_memory_address()),
        _ => None,
    }
}
