//! Blocks of a function and the ways between them, as labels and jumps of C.

use super::bounded;
use super::function::{name, Function};
use super::types::{Signature, Type};
use crate::Error;
use std::collections::BTreeSet;
use std::fmt::Write;
use wasmparser::{BlockType, BrTable};

/// What a frame is of.
#[derive(PartialEq, Eq)]
pub enum Kind {
    Block,
    Loop,
    If,
}

/// A block that the code is in.
pub struct Frame {
    pub kind: Kind,
    pub label: usize,
    /// Below what it takes.
    pub height: usize,
    pub signature: Signature,
    /// Its second half has begun, or there will be none.
    pub is_else: bool,
}

impl Function<'_> {
    pub fn enter(&mut self, kind: Kind, signature: Signature) {
        self.labels += 1;
        self.frames.push(Frame {
            is_else: kind != Kind::If,
            kind,
            label: self.labels,
            height: self.stack.len().saturating_sub(signature.takes.len()),
            signature,
        });
    }

    pub fn block(&self, kind: BlockType) -> Result<Signature, Error> {
        Ok(match kind {
            BlockType::Empty => Signature {
                takes: [].into(),
                gives: [].into(),
            },
            BlockType::Type(one) => Signature {
                takes: [].into(),
                gives: [Type::of(one)?].into(),
            },
            BlockType::FuncType(number) => self.parsed.types[number as usize].clone(),
        })
    }

    /// What a branch to that frame does: values to where that has them, and the jump.
    pub fn branch(&self, depth: u32) -> String {
        let frame = &self.frames[self.frames.len() - 1 - depth as usize];
        let values = match frame.kind {
            Kind::Loop => &frame.signature.takes,
            _ => &frame.signature.gives,
        };
        let from = self.stack.len().saturating_sub(values.len());
        let mut text = String::new();
        if from != frame.height {
            for (n, kind) in values.iter().enumerate() {
                let (to, from) = (name(*kind, frame.height + n), name(*kind, from + n));
                let _ = write!(text, "{to} = {from}; ");
            }
        }
        let _ = write!(text, "goto L{};", frame.label);
        text
    }

    /// What branches have put there is known to be needed.
    pub fn reserve(&mut self, depth: u32) {
        let frame = &self.frames[self.frames.len() - 1 - depth as usize];
        let values = match frame.kind {
            Kind::Loop => &frame.signature.takes,
            _ => &frame.signature.gives,
        };
        for (n, kind) in values.iter().enumerate() {
            self.used.insert((frame.height + n, kind.letter()));
        }
    }

    pub fn branch_table(&mut self, targets: &BrTable<'_>) -> Result<(), Error> {
        let index = self.pop();
        self.line(format!("switch ({index}) {{"));
        let mut reserved = BTreeSet::new();
        for (n, target) in targets.targets().enumerate() {
            let target = target?;
            if reserved.insert(target) {
                self.reserve(target);
            }
            let text = self.branch(target);
            self.line(format!("case {n}: {text}"));
            bounded(&self.out)?;
        }
        self.reserve(targets.default());
        let text = self.branch(targets.default());
        self.line(format!("default: {text}"));
        self.line("}");
        self.stop();
        Ok(())
    }

    pub fn otherwise(&mut self) {
        let is_dead = self.dead.take().is_some();
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        frame.is_else = true;
        let (label, height) = (frame.label, frame.height);
        let takes = frame.signature.takes.clone();
        if !is_dead {
            self.line(format!("goto L{label};"));
        }
        self.line(format!("E{label}:;"));
        self.stack.truncate(height);
        self.stack.extend_from_slice(&takes);
    }

    pub fn end(&mut self) {
        self.dead = None;
        let Some(frame) = self.frames.pop() else {
            return;
        };
        if !frame.is_else {
            self.line(format!("E{}:;", frame.label));
        }
        if frame.kind != Kind::Loop {
            self.line(format!("L{}:;", frame.label));
        }
        self.stack.truncate(frame.height);
        for kind in frame.signature.gives.iter() {
            self.push(*kind);
        }
    }
}
