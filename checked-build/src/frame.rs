//! A function's frame, on two stacks: what GCC does to rsp and rbp, done to r15.

use crate::rewrite::Rewriter;
use crate::Error;

/// Where GCC is in a function, by what it has pushed and reserved so far.
#[derive(Clone, Default)]
pub struct Frame {
    pub pushed: Vec<String>,
    /// Bytes below what was pushed; with alloca unknown, and then at least these.
    pub locals: i64,
    /// r15 was moved as GCC believes that rsp was.
    pub moved: bool,
    /// rbp is the frame's; the number of registers pushed when it became that.
    pub pointer: bool,
}

impl Frame {
    /// From rsp, as GCC has it, to where the caller's arguments begin.
    pub fn above(&self) -> i64 {
        8 + 8 * self.pushed.len() as i64
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
        self.before.get_or_insert_with(|| self.frame.clone());
    }

    pub fn push(&mut self, what: &str) -> Result<(), Error> {
        if self.frame.moved || !(what.starts_with('%') || what.starts_with('$')) {
            return self.error("locals aligned to more than 16 bytes are not supported");
        }
        self.emit(format!("pushq {what}"));
        self.frame.pushed.push(what.into());
        Ok(())
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
        }
        let above = self.frame.above();
        let was = self.frame.moved;
        self.frame.locals += bytes;
        self.frame.moved = self.frame.locals > 0 || (was && self.frame.pointer);
        let by = match (was, self.frame.moved) {
            (false, true) => -(bytes + above),
            (true, false) => -bytes + above,
            _ => -bytes,
        };
        self.emit(format!("leaq {by}(%r15), %r15"));
        Ok(())
    }

    pub fn take_stack_pointer(&mut self, to: &str) -> Result<(), Error> {
        if !to.starts_with('%') {
            return self.error("the stack pointer is stored in memory");
        }
        if to == "%rbp" && self.frame.pushed.last().is_some_and(|reg| reg == "%rbp") {
            self.frame.pointer = self.frame.pushed.len() == 1 && !self.frame.moved;
        }
        let shift = self.frame.shift();
        self.emit(format!("leaq {shift}(%r15), {to}"));
        Ok(())
    }

    /// `leaq -24(%rbp), %rsp`: all that is in the window goes; pops follow.
    pub fn restore_by_pointer(&mut self, from: &str) -> Result<(), Error> {
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
        self.emit("leaq 16(%rbp), %r15");
        (self.frame.moved, self.frame.locals) = (false, 0);
        Ok(())
    }

    pub fn leave(&mut self) -> Result<(), Error> {
        if !self.frame.pointer {
            return self.error("leave without a frame pointer");
        }
        self.undoes();
        self.emit("leaq 16(%rbp), %r15");
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
        self.frame.pointer && offset.is_some_and(|offset| (-saved..0).contains(&offset))
    }

    pub fn kept_until_leave(&mut self, to: &str) -> Result<(), Error> {
        match self.frame.pushed.iter().any(|register| register == to) {
            true => Ok(()),
            false => self.error("a pushed register is read"),
        }
    }
}
