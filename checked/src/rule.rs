//! The rules, by the numbers that docs/checked.md explains them under.

use std::fmt;

macro_rules! rules {
    ($($(#[$what:meta])* $rule:ident: $remedy:literal,)*) => {
        /// What a module has to keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $($(#[$what])* $rule,)* }

        impl Rule {
            pub const ALL: &[Rule] = &[$(Rule::$rule),*];

            /// What whoever generates the code can do about it.
            pub fn remedy(self) -> &'static str {
                match self { $(Rule::$rule => $remedy,)* }
            }
        }
    };
}

rules! {
    /// The container is whole, and says everything once.
    Container: "make the file anew; it is cut off, changed, or of another version",
    /// Every instruction is of a listed form, in its canonical encoding.
    Form: "use a form from the tables, as GNU as encodes it",
    /// Memory is reached by `%gs:` with a 32-bit address, or beside the code itself.
    Guarded: "write the operand as %gs:disp(%e…,%e…,scale)",
    /// What is beside the code is the module's own data.
    OwnData: "name data of the module, from its read-only data to its bss",
    /// No operand and no address names rsp.
    StackPointer: "keep data on a stack in the window; rsp is for push, pop, call and ret alone",
    /// The height of the return stack is the same on every way to an instruction.
    Height: "push as much on one way as on the other, or declare the height of what only \
        later code jumps to",
    /// Nothing is popped that this function did not push.
    Pop: "push first, in the same function",
    /// A return, and a jump through the table, finds the return address on top.
    Return: "pop all that the function pushed",
    /// Jumps and calls end at the start of an instruction.
    Target: "jump to the start of an instruction of the module",
    /// Indirect calls go through the table, with a masked index or a constant slot.
    Indirect: "write and $mask,%r11d with a mask below the table's size, and right behind it call \
        *%gs:table(,%r11d,8), or call *%gs: with a slot's address",
    /// No way leads over the end of the code.
    End: "end the code with ret, jmp or ud2",
    /// Typed modules: the section of types is whole, and says everything once.
    Types: "make the section anew, as docs/checked.md describes it",
    /// The code begins with the checker's own routines, byte for byte.
    Runtime: "put tane_checked::runtime() at the start of the code, and imports into the table's \
        slots from 1 on",
    /// Every other instruction has an effect on types.
    Effect: "use an instruction of general registers with 4 or 8 bytes",
    /// What is read holds a value.
    Value: "write it first, on every way here",
    /// A field is one of the class that its object is known to be of.
    Field: "compare the object's first word with a class before its fields",
    /// An element is one below the length that its index was compared with.
    Element: "right before, cmp %gs:8(array),index and jae to where it is no element",
    /// What was allocated becomes an object of a class of its size.
    Make: "right behind the call, movq $class,%gs:(%eax), of that size",
    /// What is known on each way to an instruction is what it is declared to rely on.
    Join: "declare there what all ways have in common",
    /// A call gives what the function's type asks for.
    Call: "put arguments of the function's types into rdi, rsi, rdx, rcx, r8, r9",
    /// A return gives what its function's type promises.
    Result: "put a value of the function's result type into rax",
    /// A word by rsp is one of this function's.
    Word: "take words with sub $n,%rsp at the function's start, n up to 2048",
    /// Exports begin anew, and nobody else calls them.
    Entry: "begin it with a call of the first routine, and call another function",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self as u32).checked_sub(Rule::Types as u32) {
            None => write!(f, "R{}", *self as u32 + 1),
            Some(behind) => write!(f, "T{}", behind + 1),
        }
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
    pub(crate) fn new(rule: Rule, at: Option<u32>, what: impl Into<String>) -> Refusal {
        let what = what.into();
        Refusal { rule, at, what }
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
