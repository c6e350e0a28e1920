//! The rules, by the numbers that docs/checked.md explains them under.

use std::fmt;

/// What a module has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The container is whole, and says everything once.
    Container = 1,
    /// Every instruction is of a listed form, in its canonical encoding.
    Form,
    /// Memory is reached by `%gs:` with a 32-bit address, or beside the code itself.
    Guarded,
    /// What is beside the code is the module's own data.
    OwnData,
    /// No operand and no address names rsp.
    StackPointer,
    /// The height of the return stack is the same on every way to an instruction.
    Height,
    /// Nothing is popped that this function did not push.
    Pop,
    /// A return, and a jump through the table, finds the return address on top.
    Return,
    /// Jumps and calls end at the start of an instruction.
    Target,
    /// Indirect calls go through the table, with a masked index or a constant slot.
    Indirect,
    /// No way leads over the end of the code.
    End,
}

impl Rule {
    pub const ALL: [Rule; 11] = [
        Rule::Container,
        Rule::Form,
        Rule::Guarded,
        Rule::OwnData,
        Rule::StackPointer,
        Rule::Height,
        Rule::Pop,
        Rule::Return,
        Rule::Target,
        Rule::Indirect,
        Rule::End,
    ];

    /// From 1.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// What whoever generates the code can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Rule::Container => "make the file anew; it is cut off, changed, or of another version",
            Rule::Form => "use a form from the tables, as GNU as encodes it",
            Rule::Guarded => "write the operand as %gs:disp(%e…,%e…,scale)",
            Rule::OwnData => "name data of the module, from its read-only data to its bss",
            Rule::StackPointer => {
                "keep data on a stack in the window; rsp is for push, pop, call and ret alone"
            }
            Rule::Height => {
                "push as much on one way as on the other, or declare the height of what only \
                 later code jumps to"
            }
            Rule::Pop => "push first, in the same function",
            Rule::Return => "pop all that the function pushed",
            Rule::Target => "jump to the start of an instruction of the module",
            Rule::Indirect => {
                "write and $mask,%r11d with a mask below the table's size, and right behind it \
                 call *%gs:table(,%r11d,8), or call *%gs: with a slot's address"
            }
            Rule::End => "end the code with ret, jmp or ud2",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R{}", self.number())
    }
}

/// The first rule that a module breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub rule: Rule,
    /// Where in the code; none if it is about the container.
    pub at: Option<u32>,
    pub what: String,
}

impl Refusal {
    pub(crate) fn container(what: impl Into<String>) -> Refusal {
        Refusal {
            rule: Rule::Container,
            at: None,
            what: what.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at code+{at:#x}: {}", self.rule, self.what),
            None => write!(f, "{}: {}", self.rule, self.what),
        }
    }
}

impl std::error::Error for Refusal {}
