//! A function's frame, on two stacks: what GCC does to rsp and rbp, done to r15.

use crate::rewrite::Rewriter;
use crate::Error;

/// Where GCC is in a function, by what it has pushed and reserved so far.
#[derive(Clone, Default)]
pub struct Frame {
    pub pushed: Vec<String>,
    /// Bytes below what was pushed; with alloca unknown, and then at least these.
    pub locals: i64,
    alloca: bool,
    /// Constants among them, on their way into a register.
    constants: u32,
    /// r15 was moved as GCC believes that rsp was.
    pub moved: bool,
    /// rbp is the frame's; the number of registers pushed when it became that.
    pub pointer: bool,
    /// The function jumps by a table, which finds nothing pushed: what GCC pushes is in the
    /// window, too, and r15 what GCC believes of rsp from the first of it on.
    pub flat: bool,
}

/// By the numbers that the ABI gives them.
const DWARF: [&str; 16] = [
    "%rax", "%rdx", "%rcx", "%rbx", "%rsi", "%rdi", "%rbp", "%rsp", "%r8", "%r9", "%r10", "%r11",
    "%r12", "%r13", "%r14", "%r15",
];

/// Registers that a function finds and leaves as they were.
const KEPT: [&str; 6] = ["%rbx", "%rbp", "%r12", "%r13", "%r14", "%r15"];

impl Frame {
    /// Of a function that begins.
    pub fn begin(flat: bool) -> Frame {
        Frame {
            flat,
            ..Frame::default()
        }
    }

    /// From rsp, as GCC has it, to where the caller's arguments begin.
    pub fn above(&self) -> i64 {
        8 + 8 * self.pushed.len() as i64
    }

    /// Words on the stack of returns.
    pub fn height(&self) -> usize {
        match self.flat {
            true => 0,
            false => self.pushed.len(),
        }
    }

    /// Whether a push keeps a register for the caller. Others are locals: eight bytes more,
    /// which -Os makes by pushing any register, or a constant, which -Oz pops at once.
    fn keeps(&self, what: &str) -> bool {
        KEPT.contains(&what) && !self.pushed.iter().any(|register| register == what)
    }

    /// How far r15 was moved, in a flat function.
    fn depth(&self) -> i64 {
        match self.locals + 8 * self.pushed.len() as i64 {
            0 => 0,
            // Where GCC has the return address.
            bytes => bytes + 8,
        }
    }

    /// What to add to an offset from rsp for one from r15.
    pub fn shift(&self) -> i64 {
        if self.moved {
            0
        } else {
            -self.above()
        }
    }
}

impl Rewriter {
    /// What follows takes a part of the frame away.
    pub fn undoes(&mut self) {
        if self.frame.pointer && self.before.is_none() {
            self.by_pointer = self.frame.clone();
        }
        self.before.get_or_insert_with(|| self.frame.clone());
    }

    pub fn push(&mut self, what: &str) -> Result<(), Error> {
        if !(what.starts_with('%') || what.starts_with('$')) {
            return self.error("locals aligned to more than 16 bytes are not supported");
        }
        if !self.frame.keeps(what) {
            self.frame.constants += u32::from(what.starts_with('$'));
            self.lower(8);
            return self.ordinary("movq", &[what, "(%r15)"]);
        }
        if self.frame.flat {
            let before = self.frame.depth();
            self.frame.pushed.push(what.into());
            self.move_flat(before);
            self.emit(format!("movq {what}, %gs:(%r15d)"));
            return Ok(());
        }
        if self.frame.moved {
            return self.error("locals aligned to more than 16 bytes are not supported");
        }
        self.emit(format!("pushq {what}"));
        self.frame.pushed.push(what.into());
        Ok(())
    }

    pub fn pop(&mut self, to: &str) -> Result<(), Error> {
        // Behind what was pushed there are locals, and the last of them may be wanted.
        if self.frame.locals >= 8 {
            self.emit(format!("movq %gs:(%r15d), {to}"));
            match self.frame.constants {
                0 => self.undoes(),
                _ => self.frame.constants -= 1,
            }
            self.lower(-8);
            return Ok(());
        }
        self.undoes();
        let before = self.frame.depth();
        if self.frame.pushed.pop().is_none() {
            return self.error("popq without a pushq");
        }
        if self.frame.flat {
            self.emit(format!("movq %gs:(%r15d), {to}"));
            self.move_flat(before);
        } else {
            self.emit(format!("popq {to}"));
        }
        Ok(())
    }

    fn move_flat(&mut self, before: i64) {
        let depth = self.frame.depth();
        self.frame.moved = depth > 0;
        self.emit(format!("leaq {}(%r15), %r15", before - depth));
    }

    /// sub or add of rsp.
    pub fn reserve(&mut self, amount: &str, down: bool) -> Result<(), Error> {
        let Some(number) = amount.strip_prefix('$') else {
            // alloca
            if !self.frame.moved {
                let above = self.frame.above();
                self.emit(format!("leaq -{above}(%r15), %r15"));
                self.frame.moved = true;
            }
            self.frame.alloca = true;
            self.emit(format!(
                "{} {amount}, %r15",
                if down { "subq" } else { "addq" }
            ));
            return Ok(());
        };
        let Ok(number) = number.parse::<i64>() else {
            return self.error(format!("rsp moved by {number}"));
        };
        let bytes = if down { number } else { -number };
        if bytes < 0 {
            self.undoes();
            self.frame.constants = 0;
        }
        self.lower(bytes);
        Ok(())
    }

    /// The end of the locals, by so many bytes.
    fn lower(&mut self, bytes: i64) {
        if self.frame.flat {
            let before = self.frame.depth();
            self.frame.locals += bytes;
            self.move_flat(before);
            return;
        }
        let above = self.frame.above();
        let was = self.frame.moved;
        self.frame.locals += bytes;
        self.frame.moved = self.frame.locals > 0 || self.frame.alloca;
        let by = match (was, self.frame.moved) {
            (false, true) => -(bytes + above),
            (true, false) => -bytes + above,
            _ => -bytes,
        };
        self.emit(format!("leaq {by}(%r15), %r15"));
    }

    /// Behind what does not go on, GCC says what the frame is where it changes: where it ends,
    /// and which registers are kept in it.
    pub fn told_anew(&mut self, word: &str, rest: &str) -> Result<bool, Error> {
        let mut numbers = rest.split(',').map(|n| n.trim().parse::<i64>());
        let mut next = || numbers.next().and_then(Result::ok);
        match word {
            ".cfi_def_cfa_offset" => self.told = next(),
            ".cfi_def_cfa" if rest.starts_with("6,") => {
                // The rest of it is not said, and is as it was.
                self.frame = self.by_pointer.clone();
                self.told = None;
            }
            ".cfi_offset" | ".cfi_restore" => {
                let number = next().unwrap_or(-1);
                let name = usize::try_from(number).ok().and_then(|n| DWARF.get(n));
                let Some(name) = name else {
                    return self.error(format!("a register that is not known: {rest}"));
                };
                let pushed = &mut self.frame.pushed;
                if word == ".cfi_restore" {
                    pushed.retain(|register| register != name);
                } else {
                    let place = (-next().unwrap_or(0) / 8 - 2).clamp(0, 8) as usize;
                    pushed.resize(pushed.len().max(place + 1), String::new());
                    pushed[place] = (*name).into();
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What GCC told is what the frame is.
    pub fn settle(&mut self) {
        if let Some(offset) = self.told.take() {
            self.frame.locals = offset - self.frame.above();
            self.frame.moved = match self.frame.flat {
                true => self.frame.depth() > 0,
                false => self.frame.locals > 0,
            };
        }
    }

    /// An instruction that reads rsp.
    pub fn use_stack_pointer(&mut self, word: &str, to: &str) -> Result<(), Error> {
        let shift = self.frame.shift();
        self.emit(format!("leaq {shift}(%r15), %r11"));
        self.ordinary(word, &["%r11", to])
    }

    pub fn take_stack_pointer(&mut self, to: &str) -> Result<(), Error> {
        if !to.starts_with('%') {
            return self.use_stack_pointer("movq", to);
        }
        if to == "%rbp" && self.frame.pushed.last().is_some_and(|reg| reg == "%rbp") {
            self.frame.pointer = self.frame.pushed.len() == 1 && self.frame.locals == 0;
        }
        let shift = self.frame.shift();
        self.emit(format!("leaq {shift}(%r15), {to}"));
        Ok(())
    }

    /// `leaq -24(%rbp), %rsp`: all that is in the window goes; pops follow.
    pub fn restore_by_pointer(&mut self, word: &str, from: &str) -> Result<(), Error> {
        if !self.frame.pointer {
            return match from.starts_with('%') && self.frame.moved {
                // What __builtin_stack_save kept.
                true => {
                    self.emit(format!("movq {from}, %r15"));
                    Ok(())
                }
                false => self.error("the stack pointer is set in a way that is not known"),
            };
        }
        if word == "movq" && !from.starts_with('%') {
            let from = self.memory(from)?;
            self.emit(format!("movq {from}, %r15"));
            return Ok(());
        }
        let saved = 8 * (self.frame.pushed.len() as i64 - 1);
        let expected = [format!("-{saved}(%rbp)"), "%rbp".to_owned()];
        if !expected[usize::from(saved == 0)..]
            .iter()
            .any(|e| e == from)
        {
            if from.starts_with('%') {
                self.emit(format!("movq {from}, %r15"));
                return Ok(());
            }
            return self.error(format!("the stack pointer is set to {from}"));
        }
        self.undoes();
        (self.frame.locals, self.frame.alloca) = (0, false);
        if self.frame.flat {
            self.emit(format!("leaq -{saved}(%rbp), %r15"));
            return Ok(());
        }
        self.emit("leaq 16(%rbp), %r15");
        self.frame.moved = false;
        Ok(())
    }

    pub fn leave(&mut self) -> Result<(), Error> {
        if !self.frame.pointer {
            return self.error("leave without a frame pointer");
        }
        self.undoes();
        self.emit("leaq 16(%rbp), %r15");
        if self.frame.flat {
            self.emit("movq %gs:(%ebp), %rbp");
            self.frame = Frame::begin(true);
            return Ok(());
        }
        while let Some(register) = self.frame.pushed.pop() {
            self.emit(format!("popq {register}"));
        }
        self.frame = Frame::default();
        Ok(())
    }

    /// Whether this is where GCC believes that a register was pushed.
    pub fn is_saved_register(&self, from: &str) -> bool {
        let saved = 8 * (self.frame.pushed.len() as i64 - 1);
        let offset = from
            .strip_suffix("(%rbp)")
            .and_then(|n| n.parse::<i64>().ok());
        self.frame.pointer
            && !self.frame.flat
            && offset.is_some_and(|offset| (-saved..0).contains(&offset))
    }

    pub fn kept_until_leave(&mut self, to: &str) -> Result<(), Error> {
        match self.frame.pushed.iter().any(|register| register == to) {
            true => Ok(()),
            false => self.error("a pushed register is read"),
        }
    }
}
