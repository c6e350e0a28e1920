//! A decoded instruction.

use crate::form::Flow;

/// A register and what it is multiplied by.
type Index = Option<(u8, u8)>;

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `%gs:` with an address of 32 bits: in the window, whatever the registers hold.
    Window {
        base: Option<u8>,
        index: Index,
        displacement: i32,
    },
    /// At this distance behind the instruction's end.
    Relative(i32),
    /// At this distance from rsp: for typed modules.
    Stack(i32),
}

/// An operand, in the order of the manual: what is written comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A general register's lowest bytes, and how many.
    General(u8, u8),
    /// The second byte of this register: ah, ch, dh or bh.
    High(u8),
    Vector(u8),
    Memory,
    /// An address that is computed and not used.
    Address,
    Immediate,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Bytes of it.
    pub length: usize,
    pub name: &'static str,
    pub flow: Flow,
    /// The operand that is accessed, and how many bytes of it.
    pub memory: Option<(Memory, u8)>,
    /// General registers that operands and addresses name, bit 0 for rax.
    pub general: u16,
    /// Those of them that are in an address.
    pub address: u16,
    /// Vector registers that operands name, bit 0 for xmm0.
    pub vector: u16,
    /// The immediate or relative target, with its sign; else 0.
    pub immediate: i64,
    /// For `and r32, imm`: the register.
    pub masks: Option<u8>,
    pub operands: [Option<Operand>; 4],
}

impl Instruction {
    pub(crate) fn new(name: &'static str, flow: Flow, length: usize) -> Instruction {
        Instruction {
            length,
            name,
            flow,
            memory: None,
            general: 0,
            address: 0,
            vector: 0,
            immediate: 0,
            masks: None,
            operands: [None; 4],
        }
    }

    /// The base, index and displacement of memory in the window, and its bytes.
    pub(crate) fn window(&self) -> Option<(Option<u8>, Index, i32, u8)> {
        let (
            Memory::Window {
                base,
                index,
                displacement,
            },
            bytes,
        ) = self.memory?
        else {
            return None;
        };
        Some((base, index, displacement, bytes))
    }

    /// Where in the code a jump or call of this instruction, which is at `at`, leads.
    pub(crate) fn target(&self, at: usize) -> i64 {
        (at + self.length) as i64 + self.immediate
    }
}
