//! Statements to typed assembly.

use super::emit::{Emitter, Result, RAX};
use super::place::{block_calls, calls, Place};
use super::tree::*;
use super::types::Ty;
use super::Mistake;
use crate::asm::{Arg, Mem};
use tane_checked::Type;

impl Emitter<'_, '_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt, rest: &[Stmt]) -> Result<()> {
        self.at(stmt.at);
        match &stmt.kind {
            StmtKind::Let {
                id, value, changes, ..
            } => {
                if !changes && self.is_declared(value) {
                    self.declared.insert(*id);
                }
                self.value(value)?;
                let outlives = block_calls(self.whole.known, rest);
                let place = self.declare(*id, outlives);
                self.ins("mov", &[place.arg(), Arg::Reg(RAX, 8)]);
            }
            StmtKind::Assign(place, value) => self.assign(place, value)?,
            StmtKind::While(condition, body) => {
                let (head, end) = (self.label(), self.label());
                self.join(head, &[], true);
                self.condition(condition, end, false)?;
                self.looped(body, head, end)?;
                self.jump("jmp", head);
                self.join(end, &[], false);
            }
            StmtKind::For {
                id, from, to, body, ..
            } => self.counted(*id, from, to, body)?,
            StmtKind::If(condition, then, or) => {
                let (other, end) = (self.label(), self.label());
                self.condition(condition, other, false)?;
                self.block(then)?;
                if !or.is_empty() {
                    self.jump("jmp", end);
                }
                self.join(other, &[], false);
                if !or.is_empty() {
                    self.block(or)?;
                    self.join(end, &[], false);
                }
            }
            StmtKind::Match(value, arms) => self.matched(value, arms)?,
            StmtKind::Return(value) => {
                match value {
                    Some(value) => self.value(value)?,
                    None => self.ins("xor", &[Arg::Reg(RAX, 4), Arg::Reg(RAX, 4)]),
                }
                self.leave();
            }
            StmtKind::Break => {
                let end = self.loops.last().map_or(0, |(_, end)| *end);
                self.jump("jmp", end);
            }
            StmtKind::Continue => {
                let next = self.loops.last().map_or(0, |(next, _)| *next);
                self.jump("jmp", next);
            }
            StmtKind::Expr(value) => self.value(value)?,
        }
        Ok(())
    }

    fn looped(&mut self, body: &[Stmt], next: usize, end: usize) -> Result<()> {
        self.loops.push((next, end));
        self.block(body)?;
        self.loops.pop();
        Ok(())
    }

    fn counted(&mut self, id: usize, from: &Expr, to: &Expr, body: &[Stmt]) -> Result<()> {
        let outer = self.live.len();
        let known = self.whole.known;
        self.value(from)?;
        let outlives = block_calls(known, body);
        let i = self.declare(id, outlives || calls(known, to));
        self.ins("mov", &[i.arg(), Arg::Reg(RAX, 8)]);
        let end_is = match to.kind {
            ExprKind::Int(_) => self.simple(to),
            _ => None,
        };
        let end_is = match end_is {
            Some(end) => end,
            None => {
                self.value(to)?;
                let place = self.places.take(outlives, None);
                self.live.push((place, Type::Int));
                self.ins("mov", &[place.arg(), Arg::Reg(RAX, 8)]);
                place.arg()
            }
        };
        let (head, next, end) = (self.label(), self.label(), self.label());
        self.join(head, &[], true);
        match i {
            Place::Reg(_) => self.ins("cmp", &[i.arg(), end_is]),
            Place::Word(_) => {
                self.load(RAX, i.arg());
                self.ins("cmp", &[Arg::Reg(RAX, 8), end_is]);
            }
        }
        self.jump("jge", end);
        self.looped(body, next, end)?;
        self.join(next, &[], false);
        self.ins("add", &[i.arg(), Arg::Imm(1)]);
        self.jump("jmp", head);
        self.end_scope(outer);
        self.join(end, &[], false);
        Ok(())
    }

    /// Cases from the first on, so that what is left is known at the last.
    fn matched(&mut self, value: &Expr, arms: &[Arm]) -> Result<()> {
        let known = self.whole.known;
        let Ty::Variant(variant) = known.ty(value.id) else {
            return Err(Mistake::new(value.at, "no variant"));
        };
        self.value(value)?;
        if !self.is_declared(value) {
            // The checker may know the case already, and would find others impossible.
            let label = self.label();
            let ty = self.whole.ty(&Ty::Variant(variant));
            self.join(label, &[(RAX, ty)], true);
        }
        let case = |arm: &Arm| known.arms.get(&arm.id).copied().flatten();
        let mut sorted: Vec<&Arm> = arms.iter().collect();
        sorted.sort_by_key(|arm| case(arm).map_or(usize::MAX, |(_, case)| case));
        let end = self.label();
        for (i, arm) in sorted.iter().enumerate() {
            let next = self.label();
            let outer = self.live.len();
            if let Some((_, number)) = case(arm) {
                let class = self.whole.case(variant, number);
                let head = Arg::Mem(Mem {
                    size: 8,
                    base: Some(RAX),
                    index: None,
                    disp: 0,
                });
                if i + 1 < sorted.len() {
                    self.ins("cmp", &[head, Arg::Imm(class.into())]);
                    self.jump("jne", next);
                }
                let outlives = block_calls(known, &arm.body);
                for (field, (id, name)) in arm.names.iter().enumerate() {
                    if name == "_" {
                        continue;
                    }
                    let place = self.declare(*id, outlives);
                    self.declared.insert(*id);
                    let from = Arg::Mem(Mem {
                        size: 8,
                        base: Some(RAX),
                        index: None,
                        disp: 8 + 8 * field as i32,
                    });
                    match place {
                        Place::Reg(register) => self.load(register, from),
                        Place::Word(_) => {
                            self.load(1, from);
                            self.ins("mov", &[place.arg(), Arg::Reg(1, 8)]);
                        }
                    }
                }
            }
            self.block(&arm.body)?;
            self.end_scope(outer);
            self.jump("jmp", end);
            self.lone(next);
        }
        self.join(end, &[], false);
        Ok(())
    }
}
