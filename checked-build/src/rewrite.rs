//! GCC's assembly, made into guarded code, line by line.
//!
//! Two stacks instead of one. The processor's own has return addresses and pushed
//! registers; what a function keeps in memory is on a stack in the window, whose end r15
//! holds. A function that has locals moves r15 by as much as GCC believes to have moved
//! rsp since its caller's call, so that every offset stays the one that GCC wrote. One
//! that only pushes leaves r15 alone, and its arguments lie nearer by what it pushed.
//!
//! GCC was told to leave r11 and r15 alone, to write arguments by mov, and to use neither
//! a red zone nor jump tables. Heights at labels that only later jumps lead to go into
//! the section `.tmod.heights`, where lines begin into `.tmod.lines`.

use crate::frame::Frame;
use crate::operand::{self, Operand};
use crate::Error;
use std::fmt::Write;

/// What only a source's own assembly has, and no table of the checker's. The checker would
/// refuse it too, without its line.
const SYSTEM: [&str; 10] = [
    "syscall", "sysenter", "int", "int3", "cpuid", "rdtsc", "rdtscp", "rdrand", "hlt", "xgetbv",
];

/// More than a source includes.
const MOST_FILES: usize = 1 << 16;

pub struct Rewriter {
    out: String,
    pub frame: Frame,
    /// The frame before an epilogue began, until GCC says so.
    pub before: Option<Frame>,
    remembered: Vec<Frame>,
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
}

/// Rewrites what `gcc -S -g1` wrote.
pub fn rewrite(assembly: &str) -> Result<String, Error> {
    let mut it = Rewriter {
        out: String::with_capacity(assembly.len() * 2),
        frame: Frame::default(),
        before: None,
        remembered: Vec::new(),
        files: Vec::new(),
        place: (String::new(), 0),
        file: 0,
        begins_line: false,
        lines: 0,
        kept: true,
        stopped: false,
        gaps: 0,
        waiting: Vec::new(),
    };
    for line in assembly.lines() {
        it.line(line.trim())?;
    }
    it.name_files();
    Ok(it.out)
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
            if self.stopped && is_target {
                self.waiting.push(label.into());
            }
            return Ok(());
        }
        self.declare_heights();
        self.declare_line();
        self.instruction(word, rest.trim())?;
        if self.stopped {
            self.gaps += 1;
            self.emit(format!(".Lgap{}:", self.gaps));
        }
        Ok(())
    }

    /// Of labels that only later jumps lead to. GCC tells of the frame behind them.
    fn declare_heights(&mut self) {
        let pushes = self.frame.pushed.len();
        // What the assembler fills the gap before them with leads there, too.
        let gap = format!(".Lgap{}", self.gaps);
        let labels = std::mem::take(&mut self.waiting);
        let gap = labels.first().map(|_| gap);
        for label in labels.iter().chain(&gap).filter(|_| pushes > 0) {
            self.emit(".pushsection .tmod.heights,\"\",@progbits");
            self.emit(format!(".quad {label}\n.long {pushes}\n.popsection"));
        }
    }

    /// Where in the code a line of the source begins, for those who ask at a trap.
    fn declare_line(&mut self) {
        if !std::mem::take(&mut self.begins_line) {
            return;
        }
        self.lines += 1;
        let (label, file, line) = (format!(".Ltmodline{}", self.lines), self.file, self.place.1);
        self.emit(format!("{label}:\n.pushsection .tmod.lines,\"\",@progbits"));
        self.emit(format!(".quad {label}\n.long {file}, {line}\n.popsection"));
    }

    /// By their numbers, each with a zero behind it.
    fn name_files(&mut self) {
        let number = |(number, _): &(String, String)| number.parse::<usize>().ok();
        let most = self.files.iter().filter_map(number).max().unwrap_or(0);
        self.emit(".section .tmod.files,\"\",@progbits");
        for wanted in 0..=most.min(MOST_FILES) {
            let found = self.files.iter().find(|file| number(file) == Some(wanted));
            let name = found.map_or(String::new(), |(_, name)| name.clone());
            self.emit(format!(".asciz \"{name}\""));
        }
    }

    fn directive(&mut self, line: &str, word: &str, rest: &str) -> Result<(), Error> {
        match word {
            ".file" => self.file(rest),
            ".loc" => {
                let mut numbers = rest.split_ascii_whitespace().filter_map(|n| n.parse().ok());
                let (file, line) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                let name = self
                    .files
                    .iter()
                    .find(|(number, _)| *number == file.to_string());
                let name = name.map_or(String::new(), |(_, name)| name.clone());
                self.place = (name, line);
                self.file = file as usize;
                self.begins_line = true;
            }
            ".cfi_startproc" | ".cfi_endproc" => {
                (self.frame, self.before) = (Frame::default(), None);
                self.stopped = false;
            }
            // It stands between an instruction and what that does to the frame.
            ".cfi_remember_state" => {
                let frame = self.before.as_ref().unwrap_or(&self.frame);
                self.remembered.push(frame.clone());
            }
            ".cfi_def_cfa_offset" | ".cfi_def_cfa" => self.before = None,
            ".cfi_restore_state" => self.frame = self.remembered.pop().unwrap_or_default(),
            _ if word.starts_with(".cfi_") || word == ".ident" => {}
            ".section" | ".text" | ".data" | ".bss" => {
                let name = if word == ".section" { rest } else { word };
                let parts = [".text", ".data", ".bss", ".rodata"];
                if name.starts_with(".tdata") || name.starts_with(".tbss") {
                    return self.error("thread-local variables are not supported");
                }
                if name.starts_with(".init_array") || name.starts_with(".ctors") {
                    return self.error("constructors are not supported: call them");
                }
                self.kept = parts.iter().any(|part| name.starts_with(part));
                if self.kept {
                    self.emit(line);
                }
            }
            _ if self.kept => self.emit(line),
            _ => {}
        }
        Ok(())
    }

    /// `.file 1 "dir" "name"` or `.file 1 "name"`
    fn file(&mut self, rest: &str) {
        let Some((number, names)) = rest.split_once(' ') else {
            return;
        };
        if let Some(name) = names.split('"').rfind(|part| !part.trim().is_empty()) {
            self.files.push((number.into(), name.into()));
        }
    }

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
            ("popq", [one]) => {
                self.undoes();
                self.emit(format!("popq {one}"));
                match self.frame.pushed.pop() {
                    Some(_) => Ok(()),
                    None => self.error("popq without a pushq"),
                }
            }
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
            ("leaq" | "movq", [from, "%rsp"]) => self.restore_by_pointer(from),
            ("movq", [from, to]) if self.is_saved_register(from) => {
                // leave pops it.
                self.kept_until_leave(to)
            }
            ("xchgb" | "xchgw" | "xchgl" | "xchgq", [a, b]) => self.exchange(&word, a, b),
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
    fn memory(&self, text: &str) -> Result<String, Error> {
        let Operand::Memory {
            displacement,
            base,
            index,
        } = operand::parse(text)
        else {
            return self.error(format!("{text}: not an operand in memory"));
        };
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

    fn ordinary(&mut self, word: &str, operands: &[&str]) -> Result<(), Error> {
        let mut done = Vec::new();
        for text in operands {
            done.push(match operand::parse(text) {
                Operand::Register("%rsp" | "%esp" | "%sp" | "%spl") => {
                    return self.error("locals aligned to more than 16 bytes are not supported");
                }
                Operand::Memory { .. } if word.starts_with("lea") => {
                    let Operand::Memory {
                        displacement,
                        base,
                        index,
                    } = operand::parse(text)
                    else {
                        continue;
                    };
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
                Operand::Memory { .. } => self.memory(text)?,
                _ => (*text).to_owned(),
            });
        }
        self.emit(format!("{word} {}", done.join(", ")));
        Ok(())
    }
}
