//! Calls, what is made anew, and what is stored.

use super::emit::{Emitter, Result, RAX};
use super::expr::operation;
use super::tree::{Expr, ExprKind, Lambda};
use super::types::{Built, Name, Ty};
use super::whole::Made;
use super::Mistake;
use crate::asm::{Arg, Item, Mem, Target};
use std::rc::Rc;
use tane_checked::{Routine, Type, ARGUMENTS, BYTES};

const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const R11: u8 = 11;

pub(super) fn wide(register: u8) -> Arg {
    Arg::Reg(register, 8)
}

pub(super) fn field(base: u8, i: usize) -> Arg {
    Arg::Mem(Mem {
        size: 8,
        base: Some(base),
        index: None,
        disp: 8 + 8 * i as i32,
    })
}

pub(super) fn head(base: u8) -> Arg {
    Arg::Mem(Mem {
        size: 8,
        base: Some(base),
        index: None,
        disp: 0,
    })
}

pub(super) fn element(base: u8, index: u8, size: u8) -> Arg {
    Arg::Mem(Mem {
        size,
        base: Some(base),
        index: Some((index, size)),
        disp: 16,
    })
}

impl Emitter<'_, '_> {
    /// Values that a call comes behind: at hand, and how many were put away for that.
    fn ready(&mut self, all: &[&Expr]) -> Result<(Vec<Arg>, usize)> {
        let (mut ready, mut kept) = (Vec::new(), 0);
        for e in all {
            let text = match &e.kind {
                ExprKind::Text(text) => Some(self.whole.text(text)),
                _ => None,
            };
            ready.push(match text.or_else(|| self.simple(e)) {
                Some(simple) => simple,
                None => {
                    self.value(e)?;
                    kept += 1;
                    self.keep(e, true).arg()
                }
            });
        }
        Ok((ready, kept))
    }

    /// A record or a case, of fields by their numbers.
    pub fn record(&mut self, class: u16, fields: &[(usize, &Expr)]) -> Result<()> {
        let values: Vec<&Expr> = fields.iter().map(|(_, e)| *e).collect();
        let (ready, kept) = self.ready(&values)?;
        self.load(RAX, Arg::Imm(8 + 8 * fields.len() as i64));
        self.push(Item::Call(Target::Routine(Routine::New)));
        self.ins("mov", &[head(RAX), Arg::Imm(class.into())]);
        for ((i, _), value) in fields.iter().zip(ready) {
            self.store(field(RAX, *i), value);
        }
        self.done(kept);
        Ok(())
    }

    /// A function as a value: its slot, and what it has taken in.
    pub fn closure(&mut self, class: u16, slot: Arg, env: Option<Arg>) {
        self.load(RAX, Arg::Imm(24));
        self.push(Item::Call(Target::Routine(Routine::New)));
        self.ins("mov", &[head(RAX), Arg::Imm(class.into())]);
        self.store(field(RAX, 0), slot);
        if let Some(env) = env {
            self.store(field(RAX, 1), env);
        }
    }

    /// A function without a name, and what it takes in.
    pub fn lambda(&mut self, e: &Expr, lambda: &Rc<Lambda>) -> Result<()> {
        let class = self.whole.closure(&self.whole.known.ty(e.id));
        let (captures, env, _) = self.whole.closed(e.id);
        let slot = self.whole.slot(Made::Lambda(e.id, Rc::clone(lambda)));
        if captures.is_empty() {
            self.closure(class, slot, None);
            return Ok(());
        }
        self.load(RAX, Arg::Imm(8 + 8 * captures.len() as i64));
        self.push(Item::Call(Target::Routine(Routine::New)));
        self.ins("mov", &[head(RAX), Arg::Imm(env.into())]);
        for (i, id) in captures.iter().enumerate() {
            let place = self.variables.get(id).copied();
            let place = place.ok_or_else(|| Mistake::new(e.at, "a variable of nowhere"))?;
            self.store(field(RAX, i), place.arg());
        }
        let kept = self.places.take(true, None);
        self.ins("mov", &[kept.arg(), wide(RAX)]);
        self.live.push((kept, Type::Object(env, env)));
        self.closure(class, slot, Some(kept.arg()));
        self.done(1);
        Ok(())
    }

    /// By rcx, if it has to be.
    fn store(&mut self, to: Arg, value: Arg) {
        match value {
            Arg::Imm(_) | Arg::Reg(..) => self.ins("mov", &[to, value]),
            _ => {
                self.load(RCX, value);
                self.ins("mov", &[to, wide(RCX)]);
            }
        }
    }

    fn array_class(&mut self, e: &Expr) -> Result<u16> {
        match self.whole.known.ty(e.id) {
            Ty::Array(element) => Ok(self.whole.array(&element)),
            _ => Err(Mistake::new(e.at, "no array")),
        }
    }

    pub fn list(&mut self, e: &Expr, all: &[Expr]) -> Result<()> {
        let class = self.array_class(e)?;
        let values: Vec<&Expr> = all.iter().collect();
        let (ready, kept) = self.ready(&values)?;
        self.load(RAX, Arg::Imm(all.len() as i64));
        self.push(Item::Call(Target::Routine(Routine::NewWords)));
        self.ins("mov", &[head(RAX), Arg::Imm(class.into())]);
        for (i, value) in ready.into_iter().enumerate() {
            self.load(RDX, Arg::Imm(i as i64));
            self.within(RAX, RDX);
            self.store(element(RAX, RDX, 8), value);
        }
        self.done(kept);
        Ok(())
    }

    pub fn fill(&mut self, e: &Expr, one: &Expr, count: &Expr) -> Result<()> {
        let class = self.array_class(e)?;
        let (ready, kept) = self.ready(&[one])?;
        self.value(count)?;
        self.push(Item::Call(Target::Routine(Routine::NewWords)));
        self.ins("mov", &[head(RAX), Arg::Imm(class.into())]);
        if ready[0] != Arg::Imm(0) {
            let ty = self.whole.known.ty(one.id);
            let ty = self.whole.ty(&ty);
            self.load(RDX, ready[0]);
            self.load(RCX, Arg::Imm(0));
            let (next, end) = (self.label(), self.label());
            let known = [
                (RAX, Type::Object(class, class)),
                (RCX, Type::Int),
                (RDX, ty),
            ];
            self.join(next, &known, true);
            self.ins("cmp", &[wide(RCX), field(RAX, 0)]);
            self.jump("jae", end);
            self.ins("mov", &[element(RAX, RCX, 8), wide(RDX)]);
            self.ins("add", &[wide(RCX), Arg::Imm(1)]);
            self.jump("jmp", next);
            self.join(end, &known[..1], false);
        }
        self.done(kept);
        Ok(())
    }

    pub fn call(&mut self, e: &Expr, arguments: &[Expr]) -> Result<()> {
        let all: Vec<&Expr> = arguments.iter().collect();
        match self.named(e) {
            Some(Name::Built(built)) => self.built(built, &arguments[0]),
            Some(Name::Case(variant, case)) => {
                let class = self.whole.case(variant, case);
                let fields: Vec<(usize, &Expr)> = arguments.iter().enumerate().collect();
                self.record(class, &fields)
            }
            Some(Name::Function(function)) => {
                let target = self.whole.needs(Made::Function(function));
                self.give(&all)?;
                self.push(Item::Call(target));
                Ok(())
            }
            Some(Name::Import(name)) => {
                let target = self.whole.import(&name);
                self.give(&all)?;
                self.push(Item::Call(target));
                Ok(())
            }
            Some(Name::Variable(id)) => {
                let (ready, kept) = self.ready(&all)?;
                let [first, rest @ ..] = ARGUMENTS;
                for (register, value) in rest.into_iter().zip(ready) {
                    self.load(register, value);
                }
                if let Some(place) = self.variables.get(&id).copied() {
                    self.load(RAX, place.arg());
                }
                self.load(RBX, field(RAX, 0));
                self.load(first, field(RAX, 1));
                self.push(Item::CallSlot(RBX));
                self.done(kept);
                Ok(())
            }
            None => Err(Mistake::new(e.at, "a call of nothing")),
        }
    }

    /// Arguments into their registers.
    fn give(&mut self, all: &[&Expr]) -> Result<()> {
        let (ready, kept) = self.ready(all)?;
        for (register, value) in ARGUMENTS.into_iter().zip(ready) {
            self.load(register, value);
        }
        self.done(kept);
        Ok(())
    }

    fn built(&mut self, built: Built, argument: &Expr) -> Result<()> {
        match built {
            Built::Len => {
                let base = self.base(argument)?;
                self.load(RAX, field(base, 0));
            }
            Built::Number => {
                self.value(argument)?;
                self.ins("sub", &[wide(RAX), Arg::Imm(1)]);
            }
            Built::Bytes => {
                self.value(argument)?;
                self.push(Item::Call(Target::Routine(Routine::NewBytes)));
                self.ins("mov", &[head(RAX), Arg::Imm(BYTES.into())]);
            }
            Built::Print => {
                self.value(argument)?;
                let output = self.whole.import("tane_output");
                self.load(ARGUMENTS[1], wide(RAX));
                self.load(ARGUMENTS[3], field(RAX, 0));
                self.load(ARGUMENTS[2], Arg::Imm(0));
                self.load(ARGUMENTS[0], Arg::Imm(1));
                self.push(Item::Call(output));
            }
        }
        Ok(())
    }

    /// A variable, a field or an element gets a value.
    pub fn assign(&mut self, place: &Expr, value: &Expr) -> Result<()> {
        match &place.kind {
            ExprKind::Index(of, index) => self.assign_element(of, index, value),
            ExprKind::Field(of, name) => {
                let Ty::Record(record) = self.whole.known.ty(of.id) else {
                    return Err(Mistake::new(place.at, "no record"));
                };
                let fields = &self.whole.known.records[record].fields;
                let i = fields
                    .iter()
                    .position(|(field, _)| field == name)
                    .unwrap_or(0);
                if let Some(simple) = self.simple(value) {
                    let base = self.base(of)?;
                    self.store(field(base, i), simple);
                    return Ok(());
                }
                if self.simple(of).is_some() {
                    self.value(value)?;
                    self.load(R11, wide(RAX));
                    let base = self.base(of)?;
                    self.ins("mov", &[field(base, i), wide(R11)]);
                    return Ok(());
                }
                self.value(of)?;
                let kept = self.keep(of, self.calls(value));
                self.value(value)?;
                self.load(RDX, kept.arg());
                self.done(1);
                self.ins("mov", &[field(RDX, i), wide(RAX)]);
                Ok(())
            }
            _ => {
                let to = self.simple(place);
                let to = to.ok_or_else(|| Mistake::new(place.at, "no variable"))?;
                if self.in_place(to, place, value)? {
                    return Ok(());
                }
                self.value(value)?;
                self.ins("mov", &[to, wide(RAX)]);
                Ok(())
            }
        }
    }

    /// `x = x + y`, added to where x is.
    fn in_place(&mut self, to: Arg, place: &Expr, value: &Expr) -> Result<bool> {
        let (ExprKind::Binary(op, left, right), ExprKind::Name(_)) = (&value.kind, &place.kind)
        else {
            return Ok(false);
        };
        let Some((name, overflows)) = operation(*op) else {
            return Ok(false);
        };
        let at_hand = self.simple(right);
        let fits = match (to, at_hand) {
            (Arg::Reg(..), Some(Arg::Imm(_))) | (Arg::Mem(_), _) if name == "imul" => false,
            (Arg::Mem(_), None | Some(Arg::Mem(_))) => false,
            _ => self.simple(left) == Some(to),
        };
        if !fits {
            return Ok(false);
        }
        let right = match at_hand {
            Some(simple) => simple,
            None => {
                self.value(right)?;
                wide(RAX)
            }
        };
        self.ins(name, &[to, right]);
        if overflows {
            self.fails("jo");
        }
        Ok(true)
    }

    fn assign_element(&mut self, of: &Expr, index: &Expr, value: &Expr) -> Result<()> {
        let size = self.size(of);
        let at_hand = self.simple(value);
        let (base, index) = match (at_hand, self.simple(of), self.simple(index)) {
            (Some(simple), ..) => {
                let located = self.located(of, index)?;
                self.load(R11, simple);
                located
            }
            (None, Some(_), Some(_)) => {
                self.value(value)?;
                self.load(R11, wide(RAX));
                self.located(of, index)?
            }
            _ => {
                self.value(of)?;
                let array = self.keep(of, self.calls(index) || self.calls(value));
                self.value(index)?;
                let number = self.keep(index, self.calls(value));
                self.value(value)?;
                self.load(R11, wide(RAX));
                self.load(RDX, array.arg());
                self.load(RAX, number.arg());
                self.done(2);
                (RDX, RAX)
            }
        };
        if size == 1 {
            self.ins("cmp", &[wide(R11), Arg::Imm(255)]);
            self.fails("ja");
        }
        self.within(base, index);
        let from = Arg::Reg(R11, size);
        self.ins("mov", &[element(base, index, size), from]);
        Ok(())
    }
}
