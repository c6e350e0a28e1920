//! GCC's assembly, made into guarded code, line by line.
//!
//! Two stacks instead of one. The processor's own has return addresses and pushed
//! registers; what a function keeps in memory is on a stack in the window, whose end r15
//! holds. A function that has locals moves r15 by as much as GCC believes to have moved
//! rsp since its caller's call, so that every offset stays the one that GCC wrote. One
//! that only pushes leaves r15 alone, and its arguments lie nearer by what it pushed.
//!
//! A switch's table has numbers of slots, as other pointers to code, and a jump by it leaves
//! nothing pushed: in such a function what GCC pushes is on the window's stack as well.
//!
//! GCC was told to leave r11 and r15 alone, to write arguments by mov, and to use no red zone.
//! Heights at labels that only later jumps lead to go into
//! the section `.tmod.heights`, where lines begin into `.tmod.lines`.

mod directive;

pub use directive::{is_of, FINI, INIT};

use crate::frame::Frame;
use crate::operand::{self, Operand};
use crate::Error;
use std::fmt::Write;

/// What only a source's own assembly has, and no table of the checker's. The checker would
/// refuse it too, without its line.
const SYSTEM: [&str; 10] = [
    "syscall", "sysenter", "int", "int3", "cpuid", "rdtsc", "rdtscp", "rdrand", "hlt", "xgetbv",
];

/// Where the heap begins; the linker knows.
pub const HEAP: &str = "__tmod_heap";

pub struct Rewriter {
    out: String,
    pub frame: Frame,
    /// The frame before an epilogue began, until GCC says so.
    pub before: Option<Frame>,
    /// The last one that rbp led to, before an epilogue.
    pub by_pointer: Frame,
    /// Where it ends, as GCC says behind what does not go on.
    pub told: Option<i64>,
    remembered: Vec<Frame>,
    /// Whether the functions from here on have tables of jumps, the last one first.
    flat: Vec<bool>,
    /// In a function.
    within: bool,
    files: Vec<(String, String)>,
    place: (String, u32),
    /// Its file's number, as the assembly has it.
    file: usize,
    /// The next instruction is the first of its line.
    begins_line: bool,
    /// Lines that began so far.
    lines: u32,
    /// The section is one of a program's own.
    kept: bool,
    /// The instruction before does not go on here.
    stopped: bool,
    /// Places behind such instructions so far.
    gaps: u32,
    /// Labels behind the last of them.
    waiting: Vec<String>,
    /// The instruction before is a call: where it ends in `out`, and the labels since.
    called: Option<(usize, Vec<String>)>,
}

/// Rewrites what `gcc -S -g1` wrote.
pub fn rewrite(assembly: &str) -> Result<String, Error> {
    let mut it = Rewriter {
        out: String::with_capacity(assembly.len() * 2),
        frame: Frame::default(),
        before: None,
        by_pointer: Frame::default(),
        told: None,
        remembered: Vec::new(),
        flat: have_tables(assembly),
        within: false,
        files: Vec::new(),
        place: (String::new(), 0),
        file: 0,
        begins_line: false,
        lines: 0,
        kept: true,
        stopped: false,
        gaps: 0,
        waiting: Vec::new(),
        called: None,
    };
    for line in assembly.lines() {
        it.line(line.trim())?;
    }
    it.name_files();
    Ok(it.out)
}

/// A word of a table of jumps, which stands within its function.
fn way(line: &str) -> Option<&str> {
    let (word, label) = line.split_once([' ', '\t'])?;
    (word == ".quad" && label.starts_with(".L")).then_some(label)
}

/// Of each function, whether it has such tables, the last function first.
fn have_tables(assembly: &str) -> Vec<bool> {
    let (mut functions, mut within) = (Vec::new(), false);
    for line in assembly.lines().map(str::trim) {
        match (line, functions.last_mut()) {
            (".cfi_startproc", _) => functions.push(false),
            (_, Some(last)) if within && way(line).is_some() => *last = true,
            _ => {}
        }
        within = line == ".cfi_startproc" || within && line != ".cfi_endproc";
    }
    functions.reverse();
    functions
}

impl Rewriter {
    pub fn emit(&mut self, line: impl AsRef<str>) {
        self.out.push_str(line.as_ref());
        self.out.push('\n');
    }

    pub fn error<T>(&self, text: impl Into<String>) -> Result<T, Error> {
        let (file, line) = &self.place;
        Err(Error::at(file, *line, text.into()))
    }

    fn line(&mut self, line: &str) -> Result<(), Error> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if word.starts_with('.') && !word.ends_with(':') {
            return self.directive(line, word, rest.trim());
        }
        if !self.kept {
            return Ok(());
        }
        if let Some(label) = word.strip_suffix(':') {
            self.emit(line);
            // Others are places for a debugger.
            let is_target = label
                .strip_prefix(".L")
                .is_some_and(|n| n.parse::<u32>().is_ok());
            match &mut self.called {
                _ if !is_target => {}
                Some((_, labels)) => labels.push(label.into()),
                None if self.stopped => self.waiting.push(label.into()),
                None => {}
            }
            return Ok(());
        }
        self.called = None;
        self.settle();
        self.declare_heights();
        self.declare_line();
        self.instruction(word, rest.trim())?;
        if word == "call" {
            self.called = Some((self.out.len(), Vec::new()));
        }
        if self.stopped {
            self.gaps += 1;
            self.emit(format!(".Lgap{}:", self.gaps));
        }
        Ok(())
    }

    /// GCC takes what was called for what does not return: it tells of another frame, and
    /// there was no instruction. It is held to that.
    fn instruction(&mut self, word: &str, rest: &str) -> Result<(), Error> {
        self.stopped = false;
        // One thread is in a window.
        let (word, rest) = match word.trim_end_matches(';') {
            "lock" | "rep" | "notrack" if !rest.is_empty() => {
                let (next, operands) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
                match (word, next) {
                    ("rep", "bsfl" | "bsfq") => (next.replace("bsf", "tzcnt"), operands.trim()),
                    ("rep", "ret") | ("lock" | "lock;" | "notrack", _) => {
                        (next.into(), operands.trim())
                    }
                    _ => return self.error(format!("{word} {rest}: string instructions")),
                }
            }
            // Of rax and an address of 64 bits, which GCC writes for what lies far behind a symbol.
            "movabsb" | "movabsw" | "movabsl" | "movabsq" if !rest.starts_with('$') => {
                (word.replace("movabs", "mov"), rest)
            }
            other => (other.to_owned(), rest),
        };
        let operands = operand::split(rest);
        match (word.as_str(), operands.as_slice()) {
            ("ret" | "ud2", []) => {
                self.emit(&word);
                self.stopped = true;
                Ok(())
            }
            ("pushq", [one]) => self.push(one),
            ("popq", [one]) => self.pop(one),
            ("leave", []) => self.leave(),
            ("call" | "jmp", [target]) => {
                self.stopped = word == "jmp";
                match target.strip_prefix('*') {
                    Some(pointer) => self.indirect(&word, pointer),
                    None => {
                        self.emit(format!("{word} {target}"));
                        Ok(())
                    }
                }
            }
            (_, [amount, "%rsp"]) if matches!(word.as_str(), "subq" | "addq") => {
                let down = word == "subq";
                self.reserve(amount, down)
            }
            ("movq", ["%rsp", to]) => self.take_stack_pointer(to),
            ("leaq" | "movq", [from, "%rsp"]) => self.restore_by_pointer(&word, from),
            (_, ["%rsp", to]) if !to.starts_with("%rsp") => self.use_stack_pointer(&word, to),
            ("movq", [from, to]) if self.is_saved_register(from) => {
                // leave pops it.
                self.kept_until_leave(to)
            }
            ("xchgb" | "xchgw" | "xchgl" | "xchgq", [a, b]) => self.exchange(&word, a, b),
            ("btsl" | "btsq" | "btrl" | "btrq" | "btcl" | "btcq", [bit, to])
                if bit.starts_with('$') && !to.starts_with('%') =>
            {
                self.change_bit(&word, bit, to)
            }
            ("btl" | "btq", [bit, of]) if bit.starts_with('$') && !of.starts_with('%') => {
                let spare = self.load(&word[2..], of)?;
                self.emit(format!("{word} {bit}, {spare}"));
                Ok(())
            }
            ("movsb" | "movsw" | "movsl" | "movsq" | "stosb" | "stosw" | "stosl" | "stosq", []) => {
                self.string(&word);
                Ok(())
            }
            _ if word.starts_with('j') => {
                self.emit(format!("{word} {rest}"));
                Ok(())
            }
            _ if word.starts_with('f') => {
                self.error(format!("{word}: the x87 (long double) is not supported"))
            }
            (word, _) if SYSTEM.contains(&word) => {
                self.error(format!("{word}: asks the system, which no module may"))
            }
            _ => self.ordinary(&word, &operands),
        }
    }

    /// xchg with memory would lock the bus.
    fn exchange(&mut self, word: &str, a: &str, b: &str) -> Result<(), Error> {
        let (memory, register) = match (a.starts_with('%'), b.starts_with('%')) {
            (true, true) => {
                self.emit(format!("{word} {a}, {b}"));
                return Ok(());
            }
            (true, false) => (b, a),
            _ => (a, b),
        };
        let size = &word[4..];
        let spare = match size {
            "b" => "%r11b",
            "w" => "%r11w",
            "l" => "%r11d",
            _ => "%r11",
        };
        let memory = self.memory(memory)?;
        self.emit(format!("mov{size} {memory}, {spare}"));
        self.emit(format!("mov{size} {register}, {memory}"));
        self.emit(format!("mov{size} {spare}, {register}"));
        Ok(())
    }

    /// In memory the processor has a bit changed, and the checker no form for that.
    fn change_bit(&mut self, word: &str, bit: &str, to: &str) -> Result<(), Error> {
        let size = &word[3..];
        let spare = self.load(size, to)?;
        self.emit(format!("{word} {bit}, {spare}"));
        let memory = self.memory(to)?;
        self.emit(format!("mov{size} {spare}, {memory}"));
        Ok(())
    }

    /// One step of what a string instruction does, which GCC writes where code is to be small:
    /// upwards, as the calling convention has the direction, and without a change of flags.
    fn string(&mut self, word: &str) {
        let size = &word[4..];
        let (bytes, spare, value) = match size {
            "b" => (1, "%r11b", "%al"),
            "w" => (2, "%r11w", "%ax"),
            "l" => (4, "%r11d", "%eax"),
            _ => (8, "%r11", "%rax"),
        };
        let moves = word.starts_with("movs");
        if moves {
            self.emit(format!("mov{size} %gs:(%esi), {spare}"));
        }
        let from = if moves { spare } else { value };
        self.emit(format!("mov{size} {from}, %gs:(%edi)"));
        if moves {
            self.emit(format!("leaq {bytes}(%rsi), %rsi"));
        }
        self.emit(format!("leaq {bytes}(%rdi), %rdi"));
    }

    /// Into the register that is to spare, whose name is the result.
    fn load(&mut self, size: &str, from: &str) -> Result<&'static str, Error> {
        let spare = if size == "q" { "%r11" } else { "%r11d" };
        let memory = self.memory(from)?;
        self.emit(format!("mov{size} {memory}, {spare}"));
        Ok(spare)
    }

    /// A function pointer is a number of a slot.
    fn indirect(&mut self, word: &str, pointer: &str) -> Result<(), Error> {
        let from = match operand::parse(pointer) {
            Operand::Register(name) => operand::half(name),
            _ => Some(self.memory(pointer)?),
        };
        let Some(from) = from else {
            return self.error(format!("{word} *{pointer}"));
        };
        self.emit(format!("movl {from}, %r11d"));
        self.emit("andl $__tmod_mask, %r11d");
        self.emit(format!("{word} *%gs:__tmod_table(,%r11d,8)"));
        Ok(())
    }

    /// The operand of an access.
    pub fn memory(&self, text: &str) -> Result<String, Error> {
        let Operand::Memory {
            displacement,
            base,
            index,
        } = operand::parse(text)
        else {
            return self.error(format!("{text}: not an operand in memory"));
        };
        let is_constant = base == Some("%rip") || base.is_none() && index.is_none();
        if is_constant && displacement.starts_with(HEAP) {
            // It is not beside the code.
            return Ok(format!("%gs:{displacement}(,%eiz,1)"));
        }
        if base == Some("%rip") {
            return Ok(text.into());
        }
        if base.is_none() && index.is_none() {
            return Ok(format!("{displacement}(%rip)"));
        }
        let mut it = String::from("%gs:");
        let (displacement, base) = self.off_the_stack(displacement, base)?;
        let half = |name: &str| match operand::half(name) {
            Some(name) => Ok(name),
            None => self.error(format!("{text}: an address of {name}")),
        };
        let base = base.map(half).transpose()?.unwrap_or_default();
        let _ = write!(it, "{displacement}({base}");
        if let Some((index, scale)) = index {
            let _ = write!(it, ",{},{scale}", half(index)?);
        }
        it.push(')');
        Ok(it)
    }

    /// What was from rsp is from r15.
    fn off_the_stack<'a>(
        &self,
        displacement: &str,
        base: Option<&'a str>,
    ) -> Result<(String, Option<&'a str>), Error> {
        if base != Some("%rsp") {
            return Ok((displacement.into(), base));
        }
        let number = if displacement.is_empty() {
            Ok(0)
        } else {
            displacement.parse::<i64>()
        };
        let Ok(number) = number else {
            return self.error(format!("{displacement}(%rsp)"));
        };
        let shifted = number + self.frame.shift();
        if shifted < 0 && !self.frame.moved {
            return self.error(format!(
                "{number}(%rsp) is what was pushed, read or written as memory"
            ));
        }
        Ok((shifted.to_string(), Some("%r15")))
    }

    pub fn ordinary(&mut self, word: &str, operands: &[&str]) -> Result<(), Error> {
        let mut done = Vec::new();
        for text in operands {
            done.push(match operand::parse(text) {
                Operand::Register("%rsp" | "%esp" | "%sp" | "%spl") => {
                    return self.error("locals aligned to more than 16 bytes are not supported");
                }
                Operand::Memory {
                    displacement,
                    base,
                    index,
                } if word.starts_with("lea") => {
                    if base == Some("%rip") {
                        // The window's own addresses, not the processor's.
                        let to = operand::half(operands[1]).unwrap_or_default();
                        self.emit(format!("movl ${displacement}, {to}"));
                        return Ok(());
                    }
                    let (displacement, base) = self.off_the_stack(displacement, base)?;
                    let index = index.map(|(index, scale)| format!(",{index},{scale}"));
                    let base = base.unwrap_or_default();
                    format!("{displacement}({base}{})", index.unwrap_or_default())
                }
                Operand::Memory {
                    displacement,
                    base: None,
                    index: None,
                } if displacement.parse::<i64>().is_ok() => {
                    // A null pointer's, where GCC knows that it is one.
                    self.emit(format!("movl ${displacement}, %r11d"));
                    "%gs:(%r11d)".into()
                }
                Operand::Memory { .. } => self.memory(text)?,
                _ => (*text).to_owned(),
            });
        }
        self.emit(format!("{word} {}", done.join(", ")));
        Ok(())
    }
}
