//! Expressions: each leaves its value in rax. rcx, rdx and r11 are used on the way.

use super::build::{element, field, wide};
use super::emit::{Emitter, Result, RAX};
use super::place::{calls, Place};
use super::tree::*;
use super::types::{Name, Ty};
use super::whole::Made;
use super::Mistake;
use crate::asm::Arg;
use tane_checked::Type;

const RCX: u8 = 1;
const RDX: u8 = 2;

/// What an operator is if both sides are at hand, and whether it can overflow.
pub(super) fn operation(op: Op) -> Option<(&'static str, bool)> {
    match op {
        Op::Add => Some(("add", true)),
        Op::Subtract => Some(("sub", true)),
        Op::Multiply => Some(("imul", true)),
        Op::BitOr => Some(("or", false)),
        Op::BitXor => Some(("xor", false)),
        Op::BitAnd => Some(("and", false)),
        _ => None,
    }
}

/// The conditional jump, and the one of the opposite.
fn condition(op: Op) -> (&'static str, &'static str, &'static str) {
    match op {
        Op::Unequal => ("jne", "je", "setne"),
        Op::Less => ("jl", "jge", "setl"),
        Op::AtMost => ("jle", "jg", "setle"),
        Op::More => ("jg", "jle", "setg"),
        Op::AtLeast => ("jge", "jl", "setge"),
        _ => ("je", "jne", "sete"),
    }
}

impl Emitter<'_, '_> {
    /// What needs no instruction of its own: a small number, or a variable.
    pub fn simple(&mut self, e: &Expr) -> Option<Arg> {
        match &e.kind {
            ExprKind::Int(value) => i32::try_from(*value).ok().map(|v| Arg::Imm(v.into())),
            ExprKind::Bool(value) => Some(Arg::Imm((*value).into())),
            ExprKind::Name(_) => match self.named(e)? {
                Name::Variable(id) => self.variables.get(&id).map(|place| place.arg()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The register of a variable that is in one.
    pub fn register(&mut self, e: &Expr) -> Option<u8> {
        match self.simple(e) {
            Some(Arg::Reg(register, _)) => Some(register),
            _ => None,
        }
    }

    pub fn load(&mut self, to: u8, from: Arg) {
        match from {
            Arg::Imm(0) => self.ins("xor", &[Arg::Reg(to, 4), Arg::Reg(to, 4)]),
            // Of 4 bytes where the number has no sign.
            Arg::Imm(value) if u32::try_from(value).is_ok() => {
                self.ins("mov", &[Arg::Reg(to, 4), from]);
            }
            Arg::Text(_) | Arg::Slot(_) => self.ins("mov", &[Arg::Reg(to, 4), from]),
            Arg::Reg(register, _) if register == to => {}
            _ => self.ins("mov", &[wide(to), from]),
        }
    }

    /// Puts rax away until later; into a word, if something is called before.
    pub fn keep(&mut self, e: &Expr, outlives: bool) -> Place {
        let ty = self.whole.known.ty(e.id);
        let ty = self.whole.ty(&ty);
        let place = self.places.take(outlives, None);
        self.ins("mov", &[place.arg(), wide(RAX)]);
        self.live.push((place, ty));
        place
    }

    /// What was put away last is not needed any more.
    pub fn done(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((place, _)) = self.live.pop() {
                self.places.free(place);
            }
        }
    }

    pub fn calls(&self, e: &Expr) -> bool {
        calls(self.whole.known, e)
    }

    /// The value of an expression, in rax.
    pub fn value(&mut self, e: &Expr) -> Result<()> {
        if let Some(simple) = self.simple(e) {
            self.load(RAX, simple);
            return Ok(());
        }
        match &e.kind {
            ExprKind::Int(value) => self.ins("mov", &[wide(RAX), Arg::Imm(*value)]),
            ExprKind::Bool(_) => {}
            ExprKind::Text(text) => {
                let text = self.whole.text(text);
                self.load(RAX, text);
            }
            ExprKind::Name(_) => match self.named(e) {
                Some(Name::Function(function)) => {
                    let class = self.whole.closure(&self.whole.known.ty(e.id));
                    let slot = self.whole.slot(Made::Wrapper(function));
                    self.closure(class, slot, None);
                }
                Some(Name::Case(variant, case)) => {
                    let class = self.whole.case(variant, case);
                    self.record(class, &[])?;
                }
                _ => return Err(Mistake::new(e.at, "a name of nothing")),
            },
            ExprKind::Call(_, arguments) => self.call(e, arguments)?,
            ExprKind::Lambda(lambda) => self.lambda(e, lambda)?,
            ExprKind::Make(_, fields) => {
                let Ty::Record(record) = self.whole.known.ty(e.id) else {
                    return Err(Mistake::new(e.at, "no record"));
                };
                let ty = self.whole.ty(&Ty::Record(record));
                let Type::Object(class, _) = ty else {
                    return Err(Mistake::new(e.at, "no class"));
                };
                let shape = &self.whole.known.records[record];
                let place = |name: &str| shape.fields.iter().position(|(field, _)| field == name);
                let all = fields
                    .iter()
                    .map(|(_, name, e)| (place(name).unwrap_or(0), e));
                let all: Vec<(usize, &Expr)> = all.collect();
                self.record(class, &all)?;
            }
            ExprKind::List(all) => self.list(e, all)?,
            ExprKind::Fill(one, count) => self.fill(e, one, count)?,
            ExprKind::Field(of, name) => {
                let Ty::Record(record) = self.whole.known.ty(of.id) else {
                    return Err(Mistake::new(e.at, "no record"));
                };
                let fields = &self.whole.known.records[record].fields;
                let i = fields.iter().position(|(field, _)| field == name);
                let base = self.base(of)?;
                self.load(RAX, field(base, i.unwrap_or(0)));
            }
            ExprKind::Index(of, index) => {
                let size = self.size(of);
                let (base, index) = self.located(of, index)?;
                self.within(base, index);
                match size {
                    1 => {
                        let args = [Arg::Reg(RAX, 4), element(base, index, 1)];
                        self.ins("movzx", &args);
                    }
                    _ => self.ins("mov", &[wide(RAX), element(base, index, 8)]),
                }
            }
            ExprKind::Negate(of) => {
                self.value(of)?;
                self.ins("neg", &[wide(RAX)]);
                self.fails("jo");
            }
            ExprKind::Not(of) => {
                self.value(of)?;
                match self.whole.known.ty(of.id) {
                    Ty::Bool => self.ins("xor", &[wide(RAX), Arg::Imm(1)]),
                    _ => self.ins("not", &[wide(RAX)]),
                }
            }
            ExprKind::Binary(op, left, right) => self.binary(e, *op, left, right)?,
        }
        Ok(())
    }

    pub fn fails(&mut self, jump: &'static str) {
        let trap = self.trap();
        self.jump(jump, trap);
    }

    /// The register that holds an object: rax, or the variable's.
    pub fn base(&mut self, e: &Expr) -> Result<u8> {
        match self.register(e) {
            Some(register) => Ok(register),
            None => self.value(e).map(|()| RAX),
        }
    }

    /// Bytes of an element.
    pub fn size(&self, of: &Expr) -> u8 {
        match self.whole.known.ty(of.id) {
            Ty::Text | Ty::Bytes => 1,
            _ => 8,
        }
    }

    /// The registers of an array and of an index.
    pub fn located(&mut self, of: &Expr, index: &Expr) -> Result<(u8, u8)> {
        if let Some(simple) = self.simple(index) {
            let base = self.base(of)?;
            if let Arg::Reg(register, _) = simple {
                return Ok((base, register));
            }
            self.load(RCX, simple);
            return Ok((base, RCX));
        }
        if let Some(simple) = self.simple(of) {
            self.value(index)?;
            if let Arg::Reg(register, _) = simple {
                return Ok((register, RAX));
            }
            self.load(RDX, simple);
            return Ok((RDX, RAX));
        }
        self.value(of)?;
        let kept = self.keep(of, self.calls(index));
        self.value(index)?;
        self.load(RDX, kept.arg());
        self.done(1);
        Ok((RDX, RAX))
    }

    pub fn within(&mut self, base: u8, index: u8) {
        self.ins("cmp", &[wide(index), field(base, 0)]);
        self.fails("jae");
    }

    /// Both sides of an operator: the left one in rax, or its variable's register if it is only
    /// read, and the right one at hand.
    fn sides(&mut self, left: &Expr, right: &Expr, only_read: bool) -> Result<(u8, Arg)> {
        if let Some(simple) = self.simple(right) {
            if let (Some(register), true) = (self.register(left), only_read) {
                return Ok((register, simple));
            }
            self.value(left)?;
            return Ok((RAX, simple));
        }
        if let Some(simple) = self.simple(left) {
            self.value(right)?;
            self.load(RCX, wide(RAX));
            self.load(RAX, simple);
            return Ok((RAX, wide(RCX)));
        }
        self.value(left)?;
        let kept = self.keep(left, self.calls(right));
        self.value(right)?;
        self.load(RCX, wide(RAX));
        self.load(RAX, kept.arg());
        self.done(1);
        Ok((RAX, wide(RCX)))
    }

    fn binary(&mut self, e: &Expr, op: Op, left: &Expr, right: &Expr) -> Result<()> {
        if op.compares() {
            let (a, b) = self.sides(left, right, true)?;
            self.ins("cmp", &[wide(a), b]);
            // What is moved leaves the flags as they are.
            self.ins("mov", &[Arg::Reg(RAX, 4), Arg::Imm(0)]);
            self.ins(condition(op).2, &[Arg::Reg(RAX, 1)]);
            return Ok(());
        }
        if let Some((name, overflows)) = operation(op) {
            let (a, b) = match (self.simple(left), self.simple(right)) {
                // Either side can come first.
                (Some(simple), None) if name != "sub" => {
                    self.value(right)?;
                    (RAX, simple)
                }
                _ => self.sides(left, right, false)?,
            };
            match (name, b) {
                ("imul", Arg::Imm(_)) => self.ins(name, &[wide(a), wide(a), b]),
                _ => self.ins(name, &[wide(a), b]),
            }
            if overflows {
                self.fails("jo");
            }
            return Ok(());
        }
        match op {
            Op::Divide | Op::Remainder => {
                let (_, b) = self.sides(left, right, false)?;
                self.load(RCX, b);
                self.ins("cdq", &[wide(RAX)]);
                self.ins("idiv", &[wide(RCX)]);
                if op == Op::Remainder {
                    self.load(RAX, wide(RDX));
                }
            }
            Op::Left | Op::Right => {
                let name = if op == Op::Left { "shl" } else { "sar" };
                let (_, b) = self.sides(left, right, false)?;
                if let Arg::Imm(n @ 0..=63) = b {
                    self.ins(name, &[wide(RAX), Arg::Imm(n)]);
                    return Ok(());
                }
                self.load(RCX, b);
                self.ins("cmp", &[wide(RCX), Arg::Imm(63)]);
                self.fails("ja");
                self.ins(name, &[wide(RAX), Arg::Reg(RCX, 1)]);
            }
            _ => {
                let (no, end) = (self.label(), self.label());
                self.condition(e, no, false)?;
                self.load(RAX, Arg::Imm(1));
                self.jump("jmp", end);
                self.join(no, &[], false);
                self.load(RAX, Arg::Imm(0));
                self.join(end, &[(RAX, Type::Int)], false);
            }
        }
        Ok(())
    }

    /// Jumps if the value is this one.
    pub fn condition(&mut self, e: &Expr, to: usize, when: bool) -> Result<()> {
        match &e.kind {
            ExprKind::Bool(value) => {
                if *value == when {
                    self.jump("jmp", to);
                }
            }
            ExprKind::Not(of) => return self.condition(of, to, !when),
            ExprKind::Binary(op @ (Op::And | Op::Or), left, right) => {
                // Whether the left side alone can decide it so.
                let decides = (*op == Op::Or) == when;
                if decides {
                    self.condition(left, to, when)?;
                    return self.condition(right, to, when);
                }
                let skip = self.label();
                self.condition(left, skip, !when)?;
                self.condition(right, to, when)?;
                self.join(skip, &[], false);
            }
            ExprKind::Binary(op, left, right) if op.compares() => {
                let (a, b) = self.sides(left, right, true)?;
                self.ins("cmp", &[wide(a), b]);
                let (is, is_not, _) = condition(*op);
                self.jump(if when { is } else { is_not }, to);
            }
            _ => {
                let register = self.base(e)?;
                self.ins("test", &[wide(register), wide(register)]);
                self.jump(if when { "jne" } else { "je" }, to);
            }
        }
        Ok(())
    }
}
