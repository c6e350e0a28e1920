//! Where variables are: in registers if nothing is called while they live, since a call
//! leaves nothing there, and in words of the stack else.

use super::tree::*;
use super::types::{Known, Name};

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Reg(u8),
    /// A word, from rsp on.
    Word(usize),
}

/// Registers for variables. rax, rcx, rdx and r11 are for what is being computed.
const POOL: [u8; 11] = [3, 5, 12, 13, 14, 15, 10, 6, 7, 8, 9];

/// What is taken of a function's registers and words.
#[derive(Debug, Default)]
pub struct Places {
    taken: u16,
    words: Vec<bool>,
}

impl Places {
    /// A register, this one if that is free; a word where it has to outlive calls, or there
    /// is no register.
    pub fn take(&mut self, outlives: bool, wanted: Option<u8>) -> Place {
        let is_free = |register: &u8| self.taken & 1 << register == 0;
        let wanted = wanted.filter(|register| POOL.contains(register) && is_free(register));
        let found = wanted.or_else(|| POOL.into_iter().find(is_free));
        if let (Some(register), false) = (found, outlives) {
            self.taken |= 1 << register;
            return Place::Reg(register);
        }
        let free = self.words.iter().position(|taken| !taken);
        let word = free.unwrap_or_else(|| {
            self.words.push(false);
            self.words.len() - 1
        });
        self.words[word] = true;
        Place::Word(word)
    }

    pub fn free(&mut self, place: Place) {
        match place {
            Place::Reg(register) => self.taken &= !(1 << register),
            Place::Word(word) => self.words[word] = false,
        }
    }

    /// The most words that were taken at a time.
    pub fn words(&self) -> usize {
        self.words.len()
    }
}

/// Whether a register loses what it holds while this is computed.
pub fn calls(known: &Known, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Text(_) => false,
        ExprKind::Name(_) => matches!(
            known.names.get(&e.id),
            Some(Name::Case(..) | Name::Function(_))
        ),
        ExprKind::Call(_, arguments) => match known.names.get(&e.id) {
            Some(Name::Built(super::types::Built::Len | super::types::Built::Number)) => {
                arguments.iter().any(|e| calls(known, e))
            }
            _ => true,
        },
        ExprKind::Make(..) | ExprKind::List(_) | ExprKind::Fill(..) | ExprKind::Lambda(_) => true,
        ExprKind::Field(of, _) | ExprKind::Negate(of) | ExprKind::Not(of) => calls(known, of),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => calls(known, a) || calls(known, b),
    }
}

/// The same of statements.
pub fn block_calls(known: &Known, block: &[Stmt]) -> bool {
    block.iter().any(|stmt| match &stmt.kind {
        StmtKind::Let { value, .. } | StmtKind::Expr(value) => calls(known, value),
        StmtKind::Assign(a, b) => calls(known, a) || calls(known, b),
        StmtKind::While(condition, body) => calls(known, condition) || block_calls(known, body),
        StmtKind::For { from, to, body, .. } => {
            calls(known, from) || calls(known, to) || block_calls(known, body)
        }
        StmtKind::If(condition, then, or) => {
            calls(known, condition) || block_calls(known, then) || block_calls(known, or)
        }
        StmtKind::Match(value, arms) => {
            calls(known, value) || arms.iter().any(|arm| block_calls(known, &arm.body))
        }
        StmtKind::Return(value) => value.as_ref().is_some_and(|value| calls(known, value)),
        StmtKind::Break | StmtKind::Continue => false,
    })
}
