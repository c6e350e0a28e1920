//! The pass over the code: each instruction once, in order, with a height of the return
//! stack for every instruction's start.
//!
//! A height is what a function has pushed, in words of 8 bytes. It comes to an
//! instruction from the one before it, from jumps before it, from the container's list,
//! or is 0 where nothing says so; every way to the instruction then has to agree, those
//! of later jumps too. That is all there is to join points.

use crate::decode::{decode, Bad, Instruction, Memory};
use crate::form::Flow;
use crate::module::{Module, IMPORT};
use crate::rule::{Refusal, Rule};

const RSP: u8 = 4;
const UNKNOWN: u16 = u16::MAX;
const MOST_PUSHES: u16 = 4096;

/// Why an instruction was accepted, beside its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has only registers and immediates.
    Registers,
    /// Memory of the window.
    Window,
    /// Data of the module, at this offset in the window.
    OwnData(u32),
    /// It pushes or pops.
    Stack,
    /// A start of an instruction, here in the code.
    Target(u32),
    /// The index was masked by the instruction before.
    MaskedIndex,
    /// This slot of the table.
    Slot(u32),
    /// The height is 0.
    Return,
    /// It ends the module.
    Trap,
}

/// An accepted instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Where in the code.
    pub at: u32,
    /// Words pushed before it.
    pub height: u16,
    pub instruction: Instruction,
    pub why: Why,
}

/// Checks a file; what it has, if it breaks no rule.
pub fn check(file: &[u8]) -> Result<Module<'_>, Refusal> {
    let module = Module::parse(file)?;
    check_with(&module, |_| {})?;
    Ok(module)
}

/// Checks the code of a module and tells of every instruction that is accepted.
///
/// A later jump can still be refused for ending at an instruction told of before.
pub fn check_with(module: &Module<'_>, tell: impl FnMut(&Step)) -> Result<(), Refusal> {
    let mut pass = Pass {
        module,
        heights: vec![UNKNOWN; module.code.len()],
        starts: vec![0; module.code.len().div_ceil(64)],
        at: 0,
    };
    pass.annotations()?;
    pass.run(tell)
}

struct Pass<'a> {
    module: &'a Module<'a>,
    /// By byte of the code: the height that an instruction starting there has.
    heights: Vec<u16>,
    /// By byte of the code, a bit: an instruction starts there that may be jumped to.
    starts: Vec<u64>,
    at: usize,
}

impl Pass<'_> {
    fn refuse(&self, rule: Rule, what: impl Into<String>) -> Refusal {
        Refusal {
            rule,
            at: Some(self.at as u32),
            what: what.into(),
        }
    }

    /// R6: what the container says of heights: 0 where functions begin.
    fn annotations(&mut self) -> Result<(), Refusal> {
        let module = self.module;
        for &(at, height) in &module.heights {
            self.at = at as usize;
            let height = u16::try_from(height)
                .ok()
                .filter(|height| *height <= MOST_PUSHES);
            let height = height
                .ok_or_else(|| self.refuse(Rule::Height, "a declared height is too large"))?;
            self.expect(at.into(), height)?;
        }
        let functions = module.table.iter().filter(|entry| *entry & IMPORT == 0);
        let exports = module.exports.iter().map(|export| export.at);
        for at in functions.copied().chain(exports) {
            self.at = at as usize;
            self.expect(at.into(), 0)?;
        }
        Ok(())
    }

    fn run(&mut self, mut tell: impl FnMut(&Step)) -> Result<(), Refusal> {
        let code = self.module.code;
        self.at = 0;
        let mut flowing = None;
        let mut before: Option<Instruction> = None;
        while self.at < code.len() {
            let height = self.arrive(flowing)?;
            let instruction = self.form(&code[self.at..])?;
            self.names_no_stack_pointer(&instruction)?;
            self.nothing_starts_within(&instruction)?;
            let (why, after) = self.effect(&instruction, height, before.as_ref())?;
            tell(&Step {
                at: self.at as u32,
                height,
                instruction,
                why,
            });
            (flowing, before) = (after, Some(instruction));
            self.at += instruction.length;
        }
        self.ends(flowing)
    }

    /// R6: the height here, on which all ways so far agree.
    fn arrive(&mut self, flowing: Option<u16>) -> Result<u16, Refusal> {
        let known = self.heights[self.at];
        let height = match flowing {
            Some(height) if known != UNKNOWN && known != height => {
                let what = format!("{height} pushed on the way here, and {known} on another");
                return Err(self.refuse(Rule::Height, what));
            }
            Some(height) => height,
            None if known == UNKNOWN => 0,
            None => known,
        };
        Ok(height)
    }

    /// R2 and R3: an instruction of a listed form.
    fn form(&self, code: &[u8]) -> Result<Instruction, Refusal> {
        decode(code).map_err(|bad| {
            let bytes = &code[..code.len().min(15)];
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let (rule, what) = match bad {
                Bad::CutOff => (Rule::Form, "the code ends within this instruction"),
                Bad::Prefix => (Rule::Form, "a prefix that is not allowed, or not here"),
                Bad::Opcode => (Rule::Form, "no form in the tables begins so"),
                Bad::NotCanonical => (Rule::Form, "this is not the canonical encoding"),
                Bad::Unguarded => (
                    Rule::Guarded,
                    "memory without %gs: and a 32-bit address, or these without memory",
                ),
            };
            self.refuse(rule, format!("{what}: {}", bytes.join(" ")))
        })
    }

    /// R5.
    fn names_no_stack_pointer(&self, it: &Instruction) -> Result<(), Refusal> {
        match it.general & 1 << RSP {
            0 => Ok(()),
            _ => Err(self.refuse(Rule::StackPointer, format!("{} names rsp", it.name))),
        }
    }

    /// R9: nothing before jumps into this instruction; later jumps look at `starts`.
    fn nothing_starts_within(&self, it: &Instruction) -> Result<(), Refusal> {
        let within = &self.heights[self.at + 1..self.at + it.length];
        match within.iter().position(|height| *height != UNKNOWN) {
            None => Ok(()),
            Some(i) => {
                let at = self.at + 1 + i;
                Err(self.refuse(
                    Rule::Target,
                    format!("code+{at:#x} is jumped to, declared or exported, and is within this"),
                ))
            }
        }
    }

    /// What an instruction leads to: why it may, and the height behind it, if it goes on.
    fn effect(
        &mut self,
        it: &Instruction,
        height: u16,
        before: Option<&Instruction>,
    ) -> Result<(Why, Option<u16>), Refusal> {
        if matches!(it.flow, Flow::CallTable | Flow::JumpTable) {
            let why = self.indirect(it, before)?;
            // What relies on the instruction before is no place to jump to.
            if why != Why::MaskedIndex {
                self.start(height);
            }
            return match it.flow {
                Flow::CallTable => Ok((why, Some(height))),
                _ => self.returns(height).map(|_| (why, None)),
            };
        }
        self.start(height);
        Ok(match it.flow {
            Flow::Push => (Why::Stack, Some(self.push(height)?)),
            Flow::Pop => (Why::Stack, Some(self.pop(height)?)),
            Flow::Call => (self.direct(it, 0)?, Some(height)),
            Flow::Branch => (self.direct(it, height)?, Some(height)),
            Flow::Jump => (self.direct(it, height)?, None),
            Flow::Return => {
                self.returns(height)?;
                (Why::Return, None)
            }
            Flow::Trap => (Why::Trap, None),
            Flow::Next | Flow::CallTable | Flow::JumpTable => (self.memory(it)?, Some(height)),
        })
    }

    fn start(&mut self, height: u16) {
        self.heights[self.at] = height;
        self.starts[self.at / 64] |= 1 << (self.at % 64);
    }

    /// R6: a function pushes a bounded number of words.
    fn push(&self, height: u16) -> Result<u16, Refusal> {
        match height < MOST_PUSHES {
            true => Ok(height + 1),
            false => Err(self.refuse(Rule::Height, format!("more than {MOST_PUSHES} pushed"))),
        }
    }

    /// R7.
    fn pop(&self, height: u16) -> Result<u16, Refusal> {
        height
            .checked_sub(1)
            .ok_or_else(|| self.refuse(Rule::Pop, "pop of what is not this function's"))
    }

    /// R8.
    fn returns(&self, height: u16) -> Result<(), Refusal> {
        match height {
            0 => Ok(()),
            _ => Err(self.refuse(Rule::Return, format!("{height} pushed and not popped"))),
        }
    }

    /// R9: a direct target is, or will be, the start of an instruction with this height.
    fn direct(&mut self, it: &Instruction, height: u16) -> Result<Why, Refusal> {
        let target = (self.at + it.length) as i64 + it.immediate;
        self.expect(target, height)?;
        Ok(Why::Target(target as u32))
    }

    /// R9 and R6, of a place in the code.
    fn expect(&mut self, target: i64, height: u16) -> Result<(), Refusal> {
        let place = usize::try_from(target)
            .ok()
            .filter(|at| *at < self.heights.len());
        let Some(place) = place else {
            return Err(self.refuse(Rule::Target, "a target outside of the code"));
        };
        let known = self.heights[place];
        let is_past = place < self.at || (place == self.at && self.is_start(place));
        if is_past && !self.is_start(place) {
            let what = format!("code+{place:#x} is within an instruction");
            return Err(self.refuse(Rule::Target, what));
        }
        if known != UNKNOWN && known != height {
            let what = format!("{height} pushed on the way to code+{place:#x}, and {known} there");
            return Err(self.refuse(Rule::Height, what));
        }
        self.heights[place] = height;
        Ok(())
    }

    fn is_start(&self, place: usize) -> bool {
        self.starts[place / 64] & 1 << (place % 64) != 0
    }

    /// R4: what is beside the code is the module's own data, all of it.
    fn memory(&self, it: &Instruction) -> Result<Why, Refusal> {
        match it.memory {
            None => Ok(Why::Registers),
            Some((Memory::Window { .. }, _)) => Ok(Why::Window),
            Some((Memory::Relative(distance), bytes)) => {
                let layout = &self.module.layout;
                let behind = i64::from(layout.code) + (self.at + it.length) as i64;
                let first = behind + i64::from(distance);
                let last = first + i64::from(bytes);
                if first < i64::from(layout.read_only) || last > i64::from(layout.end) {
                    let what = format!("{bytes} bytes at window+{first:#x} are not its data");
                    return Err(self.refuse(Rule::OwnData, what));
                }
                Ok(Why::OwnData(first as u32))
            }
        }
    }

    /// R10: through the table, by a masked index or a slot's own address.
    fn indirect(&self, it: &Instruction, before: Option<&Instruction>) -> Result<Why, Refusal> {
        let layout = &self.module.layout;
        let refuse = |what: &str| Err(self.refuse(Rule::Indirect, what));
        let Some((
            Memory::Window {
                base: None,
                index,
                displacement,
            },
            _,
        )) = it.memory
        else {
            return refuse("an indirect target that is not taken from the table");
        };
        let Some(offset) = (displacement as u32).checked_sub(layout.table) else {
            return refuse("an indirect target from below the table");
        };
        let Some((index, scale)) = index else {
            let slot = offset / 8;
            return match offset % 8 == 0 && slot < layout.slots {
                true => Ok(Why::Slot(slot)),
                false => refuse("an indirect target from no slot of the table"),
            };
        };
        if offset != 0 || scale != 8 {
            return refuse("the table is indexed from its start, by slots of 8 bytes");
        }
        let masked = before.is_some_and(|and| {
            and.masks == Some(index) && (0..i64::from(layout.slots)).contains(&and.immediate)
        });
        if !masked {
            return refuse("the index is not masked by the instruction right before");
        }
        // Whoever came here by a jump would not have masked it.
        if self.heights[self.at] != UNKNOWN {
            return refuse("it can be jumped to past its mask");
        }
        Ok(Why::MaskedIndex)
    }

    /// R11.
    fn ends(&self, flowing: Option<u16>) -> Result<(), Refusal> {
        match flowing {
            None => Ok(()),
            Some(_) => Err(self.refuse(Rule::End, "control runs over the end of the code")),
        }
    }
}
