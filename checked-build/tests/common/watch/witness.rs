//! Holds what an instruction does against what the checker has said of it: where it begins
//! and ends, how high the return stack is there, and which memory it accesses, if any.

use super::emulator::{ABOVE, GIB4, OUTSIDE, WINDOW};
use tane_checked::{check_with, Layout, Module, Refusal, Step, Why};

/// What the checker has said of an instruction.
#[derive(Clone, Copy)]
pub struct Claim {
    length: u32,
    height: u64,
    pub why: Why,
    /// Bytes of memory.
    bytes: u64,
    pub divides: bool,
}

impl Claim {
    fn new(step: &Step<'_>) -> Claim {
        let it = step.instruction;
        // Of these the emulator reads 16 bytes where a processor reads 8.
        let reads_more = matches!(it.name, "cvtdq2pd" | "cvtps2pd");
        Claim {
            length: it.length as u32,
            height: step.height.into(),
            why: step.why,
            bytes: match it.memory {
                Some(_) if reads_more => 16,
                memory => memory.map_or(0, |(_, bytes)| bytes.into()),
            },
            divides: it.name.ends_with("div"),
        }
    }
}

/// A call that has not returned: where on the stack the address is that it returns to.
struct Frame {
    at: u64,
    to: u64,
}

/// The instruction that runs.
struct Current {
    end: u64,
    rsp: u64,
    claim: Option<Claim>,
    /// What it has written to the return stack.
    pushed: Option<u64>,
    returns: bool,
}

/// What is known of a run.
pub struct Witness {
    layout: Layout,
    claims: Vec<Option<Claim>>,
    frames: Vec<Frame>,
    current: Option<Current>,
}

impl Witness {
    pub fn new(module: &Module<'_>) -> Witness {
        Witness {
            layout: module.layout,
            claims: vec![None; module.code.len()],
            frames: Vec::new(),
            current: None,
        }
    }

    /// Takes what the checker says of a module.
    pub fn believe(&mut self, module: &Module<'_>) -> Result<(), Refusal> {
        let claims = &mut self.claims;
        claims.fill(None);
        check_with(module, |step| {
            claims[step.at as usize] = Some(Claim::new(step));
        })
    }

    /// What was said of the instruction at an address.
    pub fn claim(&self, at: u64) -> Option<Claim> {
        let at = at.wrapping_sub(WINDOW + u64::from(self.layout.code)) as usize;
        self.claims.get(at).copied().flatten()
    }

    /// A function is called that returns to the outside: the address is there on the stack.
    pub fn begins(&mut self, rsp: u64) {
        self.current = None;
        self.frames = vec![Frame {
            at: rsp,
            to: OUTSIDE,
        }];
    }

    /// Whether the module was left as it was entered.
    pub fn ends(&mut self, rsp: u64, at: u64) -> Result<(), String> {
        let last = self.frames.last().map(|frame| frame.at + 8);
        let back = self.left();
        match back == Some(at) && self.frames.is_empty() && last == Some(rsp) {
            true => Ok(()),
            false => Err("it returned from within a call".into()),
        }
    }

    /// What the last instruction did to the stack of returns; where it goes on, if it
    /// returned.
    fn left(&mut self) -> Option<u64> {
        let last = self.current.take()?;
        if last.pushed == Some(last.end) {
            self.frames.push(Frame {
                at: last.rsp - 8,
                to: last.end,
            });
        }
        match last.returns {
            true => self.frames.pop().map(|frame| frame.to),
            false => None,
        }
    }

    /// The next instruction, of so many bytes; none where the emulator knows no such.
    pub fn arrives(&mut self, at: u64, length: Option<u32>, rsp: u64) -> Result<(), String> {
        if self.left().is_some_and(|back| back != at) {
            return Err("a return to where no call was".into());
        }
        let Some(frame) = self.frames.last() else {
            return Err("it went on behind its return".into());
        };
        let pushed = frame.at.wrapping_sub(rsp);
        let claim = self.claim(at);
        match claim {
            None if !(OUTSIDE..OUTSIDE + GIB4).contains(&at) => {
                return Err(format!("an instruction at {at:#x} that nobody spoke of"));
            }
            None if pushed != 0 => return Err("an import is reached with words pushed".into()),
            Some(claim) if length.is_some_and(|length| length != claim.length) => {
                return Err(format!(
                    "{length:?} bytes, where {} were said",
                    claim.length
                ));
            }
            Some(claim) if claim.height * 8 != pushed => {
                let said = claim.height;
                return Err(format!(
                    "{pushed} bytes pushed where {said} words were said"
                ));
            }
            _ => {}
        }
        self.current = Some(Current {
            end: at + u64::from(length.unwrap_or(0)),
            rsp,
            claim,
            pushed: None,
            returns: false,
        });
        Ok(())
    }

    /// An access of the instruction that runs; `value` is what it writes.
    pub fn accesses(&mut self, at: u64, bytes: u64, value: Option<u64>) -> Result<(), String> {
        let layout = self.layout;
        let (Some(current), Some(frame)) = (&mut self.current, self.frames.last()) else {
            return Err("an access of no instruction".into());
        };
        let (offset, rsp) = (at.wrapping_sub(WINDOW), current.rsp);
        let within = |from: u64, most: u64| offset >= from && offset + bytes <= from + most;
        let in_table = within(layout.table.into(), u64::from(layout.slots) * 8);
        let reads_top = value.is_none() && (at, bytes) == (rsp, 8);
        let why = current.claim.map(|claim| (claim.why, claim.bytes));
        let right = match why {
            // Of an import, nothing but its return.
            None | Some((Why::Return, _)) => {
                current.returns = true;
                reads_top && at == frame.at
            }
            Some((Why::Window, _)) => offset < GIB4 && offset + bytes <= GIB4 + ABOVE,
            Some((Why::OwnData(from), most)) => within(from.into(), most),
            Some((Why::Word(above), _)) => at == rsp + 8 * u64::from(above) && at < frame.at,
            Some((Why::Stack, _)) if value.is_none() => reads_top && at < frame.at,
            Some((Why::MaskedIndex | Why::Slot(_), _)) if value.is_none() => in_table,
            Some((Why::Stack | Why::Target(_) | Why::MaskedIndex | Why::Slot(_), _)) => {
                current.pushed = value;
                value.is_some() && (at, bytes) == (rsp - 8, 8)
            }
            Some((Why::Registers | Why::Trap, _)) => false,
        };
        let verb = if value.is_some() { "written" } else { "read" };
        match right {
            true => Ok(()),
            false => Err(format!("{bytes} bytes {verb} at {at:#x}, of {why:?}")),
        }
    }
}
