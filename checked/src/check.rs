//! The pass over the code: each instruction once, in order, with a height of the return
//! stack for every instruction's start.
//!
//! A height is what a function has pushed, in words of 8 bytes. It comes to an
//! instruction from the one before it, from jumps before it, from the container's list,
//! or is 0 where nothing says so; every way to the instruction then has to agree, those
//! of later jumps too. That is all there is to join points, but for typed modules: those
//! keep these rules and, beside them, what types/ follows.

use crate::decode::{decode, Bad};
use crate::form::Flow;
use crate::instruction::{Instruction, Memory, Operand};
use crate::module::{Module, IMPORT};
use crate::rule::{Refusal, Rule};
use crate::types::{State, Typing, MOST_WORDS};

const RSP: u8 = 4;
const UNKNOWN: u16 = u16::MAX;
const MOST_PUSHES: u16 = 4096;
/// What one function takes at once: less than the guard page has, so that what it calls
/// meets that.
const MOST_TAKEN: u16 = 256;

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
    /// A word that this function has pushed or taken: how many are above it.
    Word(u16),
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
pub struct Step<'a> {
    /// Where in the code.
    pub at: u32,
    /// Words pushed before it.
    pub height: u16,
    pub instruction: &'a Instruction,
    pub why: Why,
    /// Of a typed module: what registers and words hold before it, where that is followed.
    pub types: Option<&'a State>,
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
pub fn check_with(module: &Module<'_>, tell: impl FnMut(&Step<'_>)) -> Result<(), Refusal> {
    let typing = match module.types {
        Some(section) => Some(Typing::new(module, section)?),
        None => None,
    };
    let mut pass = Pass {
        module,
        heights: vec![UNKNOWN; module.code.len()],
        starts: vec![0; module.code.len().div_ceil(64)],
        at: 0,
        typing,
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
    typing: Option<Typing<'a>>,
}

impl Pass<'_> {
    fn refuse(&self, rule: Rule, what: impl Into<String>) -> Refusal {
        Refusal::new(rule, Some(self.at as u32), what)
    }

    /// R6: what the container says of heights: 0 where functions begin.
    fn annotations(&mut self) -> Result<(), Refusal> {
        let module = self.module;
        let typed = self.typing.as_ref().map(Typing::heights);
        let functions = module.table.iter().filter(|entry| *entry & IMPORT == 0);
        let exports = module.exports.iter().map(|export| export.at);
        let functions = functions.copied().chain(exports).map(|at| (at, 0));
        let heights = module.heights.iter().copied();
        for (at, height) in heights.chain(typed.into_iter().flatten()).chain(functions) {
            self.at = at as usize;
            match u16::try_from(height) {
                Ok(height) if height <= MOST_PUSHES => self.expect(at.into(), height)?,
                _ => return Err(self.refuse(Rule::Height, "a declared height is too large")),
            }
        }
        Ok(())
    }

    fn run(&mut self, mut tell: impl FnMut(&Step<'_>)) -> Result<(), Refusal> {
        let code = self.module.code;
        self.at = 0;
        let (mut flowing, mut masked) = (None, None);
        while self.at < code.len() {
            let height = self.arrive(flowing)?;
            let decoded = decode(&code[self.at..]);
            let it = match &decoded {
                Ok(it) => it,
                Err(bad) => return Err(self.no_form(*bad)),
            };
            self.names_no_stack_pointer(it)?;
            let (why, after) = self.effect(it, height, masked)?;
            // Now that it is known where this one leads.
            self.nothing_starts_within(it)?;
            let at = self.at as u32;
            if let Some(typing) = &mut self.typing {
                typing.arrive(at, height)?;
            }
            let types = self.typing.as_ref().and_then(Typing::state);
            tell(&Step {
                at,
                height,
                instruction: it,
                why,
                types,
            });
            if let Some(typing) = &mut self.typing {
                typing.step(at, it)?;
            }
            (flowing, masked) = (after, it.masks.map(|index| (index, it.immediate)));
            self.at += it.length;
        }
        // R11.
        match flowing {
            None => Ok(()),
            Some(_) => Err(self.refuse(Rule::End, "control runs over the end of the code")),
        }
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

    /// R2 and R3: why what is here is no instruction of a listed form.
    fn no_form(&self, bad: Bad) -> Refusal {
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
        let bytes = self.module.code[self.at..].iter().take(15);
        let bytes: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
        self.refuse(rule, format!("{what}: {}", bytes.join(" ")))
    }

    /// R5.
    fn names_no_stack_pointer(&self, it: &Instruction) -> Result<(), Refusal> {
        match it.general & 1 << RSP {
            0 => Ok(()),
            _ if self.typing.is_some() && words(it).is_some() => Ok(()),
            _ => Err(self.refuse(Rule::StackPointer, format!("{} names rsp", it.name))),
        }
    }

    /// R9: nothing so far jumps into this instruction, nor does itself; later jumps look at
    /// `starts`.
    fn nothing_starts_within(&self, it: &Instruction) -> Result<(), Refusal> {
        let within = &self.heights[self.at + 1..self.at + it.length];
        match within.iter().position(|height| *height != UNKNOWN) {
            None => Ok(()),
            Some(behind) => {
                let at = self.at + 1 + behind;
                let what = "is jumped to, declared or exported, and is within this";
                Err(self.refuse(Rule::Target, format!("code+{at:#x} {what}")))
            }
        }
    }

    /// What an instruction leads to: why it may, and the height behind it, if it goes on.
    fn effect(
        &mut self,
        it: &Instruction,
        height: u16,
        masked: Option<(u8, i64)>,
    ) -> Result<(Why, Option<u16>), Refusal> {
        let why = match it.flow {
            Flow::CallTable | Flow::JumpTable => Some(self.indirect(it, masked)?),
            _ => None,
        };
        // What relies on the instruction before is no place to jump to.
        if why != Some(Why::MaskedIndex) {
            self.heights[self.at] = height;
            self.starts[self.at / 64] |= 1 << (self.at % 64);
        }
        Ok(match (it.flow, why) {
            (Flow::JumpTable, Some(why)) => (why, self.returns(height)?),
            (_, Some(why)) => (why, Some(height)),
            (Flow::Push, _) => (Why::Stack, Some(self.push(height)?)),
            (Flow::Pop, _) => (Why::Stack, Some(self.pop(height)?)),
            (Flow::Call, _) => (self.direct(it, 0)?, Some(height)),
            (Flow::Branch, _) => (self.direct(it, height)?, Some(height)),
            (Flow::Jump, _) => (self.direct(it, height)?, None),
            (Flow::Return, _) => (Why::Return, self.returns(height)?),
            (Flow::Trap, _) => (Why::Trap, None),
            _ if words(it).is_some() => (Why::Stack, Some(self.take(it, height)?)),
            _ => (self.memory(it, height)?, Some(height)),
        })
    }

    /// R6: a function pushes a bounded number of words.
    fn push(&self, height: u16) -> Result<u16, Refusal> {
        let most = self.typing.as_ref().map_or(MOST_PUSHES, |_| MOST_WORDS);
        match height < most {
            true => Ok(height + 1),
            false => Err(self.refuse(Rule::Height, format!("more than {most} pushed"))),
        }
    }

    /// R7.
    fn pop(&self, height: u16) -> Result<u16, Refusal> {
        height
            .checked_sub(1)
            .ok_or_else(|| self.refuse(Rule::Pop, "pop of what is not this function's"))
    }

    /// T11: words are taken where a return address was just written, and given back.
    fn take(&self, it: &Instruction, height: u16) -> Result<u16, Refusal> {
        let words = words(it).and_then(|words| u16::try_from(words).ok());
        let words = words.filter(|words| (1..=MOST_TAKEN).contains(words));
        let after = match (words, it.name) {
            (Some(words), "sub") if height == 0 => Some(words),
            (Some(words), "add") => height.checked_sub(words),
            _ => None,
        };
        let what = "words taken elsewhere, or more than are given";
        after.ok_or_else(|| self.refuse(Rule::Word, what))
    }

    /// R8. Nothing goes on behind it.
    fn returns(&self, height: u16) -> Result<Option<u16>, Refusal> {
        match height {
            0 => Ok(None),
            _ => Err(self.refuse(Rule::Return, format!("{height} pushed and not popped"))),
        }
    }

    /// R9: a direct target is, or will be, the start of an instruction with this height.
    fn direct(&mut self, it: &Instruction, height: u16) -> Result<Why, Refusal> {
        let target = it.target(self.at);
        self.expect(target, height)?;
        Ok(Why::Target(target as u32))
    }

    /// R9 and R6, of a place in the code.
    fn expect(&mut self, target: i64, height: u16) -> Result<(), Refusal> {
        let place = usize::try_from(target).unwrap_or(usize::MAX);
        let Some(known) = self.heights.get(place).copied() else {
            return Err(self.refuse(Rule::Target, "a target outside of the code"));
        };
        if place < self.at && !self.is_start(place) {
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
    fn memory(&self, it: &Instruction, height: u16) -> Result<Why, Refusal> {
        match it.memory {
            None => Ok(Why::Registers),
            Some((Memory::Stack(_), _)) if self.typing.is_none() => {
                Err(self.refuse(Rule::Guarded, "memory by rsp, without %gs:"))
            }
            // T11.
            Some((Memory::Stack(distance), bytes)) => match u16::try_from(distance) {
                Ok(at) if at % 8 == 0 && bytes == 8 && at / 8 < height => Ok(Why::Word(at / 8)),
                _ => Err(self.refuse(Rule::Word, "this is no whole word of this function's")),
            },
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
    fn indirect(&self, it: &Instruction, masked: Option<(u8, i64)>) -> Result<Why, Refusal> {
        let layout = &self.module.layout;
        let refuse = |what: &str| Err(self.refuse(Rule::Indirect, what));
        let Some((None, index, displacement, _)) = it.window() else {
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
        let below =
            |(register, mask)| register == index && (0..i64::from(layout.slots)).contains(&mask);
        if !masked.is_some_and(below) {
            return refuse("the index is not masked by the instruction right before");
        }
        // Whoever came here by a jump would not have masked it.
        if self.heights[self.at] != UNKNOWN {
            return refuse("it can be jumped to past its mask");
        }
        Ok(Why::MaskedIndex)
    }
}

/// `sub $n,%rsp` or `add $n,%rsp`: how many words that is, if it is whole words.
fn words(it: &Instruction) -> Option<i64> {
    let by_immediate = [Some(Operand::General(RSP, 8)), Some(Operand::Immediate)];
    let is_it = matches!(it.name, "sub" | "add") && it.operands[..2] == by_immediate;
    (is_it && it.immediate % 8 == 0).then_some(it.immediate / 8)
}
