//! Functions to typed assembly. What is written is not good code, but it is
//! plain, and small functions that call nothing run in registers.

use super::finish::finish;
use super::place::{block_calls, Place, Places};
use super::tree::*;
use super::types::{Known, Name, Ty};
use super::whole::{Made, Whole};
use super::{Mistake, Options};
use crate::asm;
use crate::asm::{Arg, Func, Item, Mem, Target};
use std::collections::{HashMap, HashSet};
use tane_checked::{Routine, Type, ARGUMENTS};

pub(super) type Result<T> = std::result::Result<T, Mistake>;

/// Words that one function can take.
const MOST_WORDS: usize = 256;
/// Checks of one function that have a place of their own to fail at.
const MOST_TRAPS: usize = 900;

pub(super) const RAX: u8 = 0;
pub(super) const RSP: u8 = 4;

/// Makes typed assembly.
pub fn emit(
    program: &Program,
    known: &Known,
    source: &str,
    options: Options,
) -> Result<asm::Program> {
    let mut it = Whole::new(program, known, source, options.heap)?;
    let mut next = 0;
    while let Some(made) = it.order.get(next).cloned() {
        let emitter = Emitter::new(&mut it);
        let function = match made {
            Made::Function(i) => emitter.function(i)?,
            Made::Lambda(id, lambda) => emitter.nameless(id, &lambda)?,
            Made::Wrapper(i) => emitter.wrapper(i),
        };
        it.made.functions.push(function);
        next += 1;
    }
    let order = &it.order;
    let place = |slot: &Made| order.iter().position(|made| made == slot);
    it.made.slots = it.slots.iter().filter_map(place).collect();
    Ok(it.made)
}

/// A function that is being made.
pub(super) struct Emitter<'w, 'a> {
    pub whole: &'w mut Whole<'a>,
    items: Vec<Item>,
    labels: usize,
    /// Jumps to a label so far.
    jumps: HashMap<usize, usize>,
    /// No way leads to what comes next.
    pub dead: bool,
    pub places: Places,
    pub variables: HashMap<usize, Place>,
    /// Those of which the checker knows no more than their types.
    pub(super) declared: HashSet<usize>,
    /// What is held now, for those who come from elsewhere.
    pub live: Vec<(Place, Type)>,
    traps: Vec<(usize, u32)>,
    line: u32,
    has_lines: bool,
    /// Where continue and break lead to.
    pub(super) loops: Vec<(usize, usize)>,
}

pub(super) fn word(i: usize) -> Arg {
    Arg::Mem(Mem {
        size: 8,
        base: Some(RSP),
        index: None,
        disp: 8 * i as i32,
    })
}

impl Place {
    pub fn arg(self) -> Arg {
        match self {
            Place::Reg(register) => Arg::Reg(register, 8),
            Place::Word(i) => word(i),
        }
    }
}

impl<'w, 'a> Emitter<'w, 'a> {
    fn new(whole: &'w mut Whole<'a>) -> Self {
        Emitter {
            whole,
            items: Vec::new(),
            labels: 0,
            jumps: HashMap::new(),
            dead: false,
            places: Places::default(),
            variables: HashMap::new(),
            declared: HashSet::new(),
            live: Vec::new(),
            traps: Vec::new(),
            line: 0,
            has_lines: false,
            loops: Vec::new(),
        }
    }

    pub fn push(&mut self, item: Item) {
        if !self.dead {
            self.items.push(item);
        }
    }

    pub fn ins(&mut self, name: &'static str, args: &[Arg]) {
        self.push(Item::Ins(name, args.to_vec()));
    }

    pub fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    pub fn jump(&mut self, name: &'static str, label: usize) {
        if self.dead {
            return;
        }
        *self.jumps.entry(label).or_insert(0) += 1;
        self.push(Item::Jump(name, label));
        self.dead = name == "jmp";
    }

    /// A label that one jump alone leads to: what that knows is known there.
    pub fn lone(&mut self, label: usize) {
        if self.dead && !self.jumps.contains_key(&label) {
            return;
        }
        self.dead = false;
        self.push(Item::Label(label));
    }

    /// A label where ways meet, or the head of a loop; further registers hold these.
    pub fn join(&mut self, label: usize, more: &[(u8, Type)], is_head: bool) {
        if self.dead && (is_head || !self.jumps.contains_key(&label)) {
            return;
        }
        self.dead = false;
        let mut known = asm::Known {
            registers: [Type::Unknown; 16],
            words: Vec::new(),
        };
        let more = more
            .iter()
            .map(|(register, ty)| (Place::Reg(*register), *ty));
        for (place, ty) in self.live.iter().copied().chain(more) {
            match place {
                Place::Reg(register) => known.registers[usize::from(register)] = ty,
                Place::Word(i) => {
                    let length = known.words.len().max(i + 1);
                    known.words.resize(length, Type::Unknown);
                    known.words[i] = ty;
                }
            }
        }
        self.push(Item::Join(label, known));
    }

    /// Where to fail at, in the current line.
    pub fn trap(&mut self) -> usize {
        if self.traps.len() >= MOST_TRAPS {
            return self.traps[self.traps.len() - 1].0;
        }
        let label = self.label();
        self.traps.push((label, self.line));
        label
    }

    pub(super) fn at(&mut self, at: usize) {
        if self.has_lines {
            self.line = self.whole.lines.partition_point(|newline| *newline < at) as u32 + 1;
        }
        self.push(Item::Line(self.line));
    }

    fn function(mut self, number: usize) -> Result<Func> {
        let function = &self.whole.program.functions[number];
        self.has_lines = function.own;
        self.at(function.at);
        if function.export {
            self.push(Item::Call(Target::Routine(Routine::Reset)));
        }
        self.ins("sub", &[Arg::Reg(RSP, 8), Arg::Imm(0)]);
        let outlives = block_calls(self.whole.known, &function.body);
        let arguments = self.parameters(&function.parameters, &ARGUMENTS, outlives);
        let (_, result) = &self.whole.known.functions[number];
        let result = self.whole.ty(result);
        let name = function.name.clone();
        let mut made = self.body(function.at, &function.body, name, arguments, result)?;
        made.export = function.export;
        Ok(made)
    }

    /// Parameters from these registers into their places.
    fn parameters(&mut self, all: &[Field], from: &[u8], outlives: bool) -> Vec<Type> {
        let mut types = Vec::new();
        for (parameter, register) in all.iter().zip(from.iter().copied()) {
            let ty = self.whole.known.ty(parameter.id);
            let ty = self.whole.ty(&ty);
            types.push(ty);
            let place = self.places.take(outlives, Some(register));
            if place != Place::Reg(register) {
                self.ins("mov", &[place.arg(), Arg::Reg(register, 8)]);
            }
            self.variables.insert(parameter.id, place);
            self.declared.insert(parameter.id);
            self.live.push((place, ty));
        }
        types
    }

    /// A function without a name: its first argument is what it has taken in.
    fn nameless(mut self, id: usize, lambda: &Lambda) -> Result<Func> {
        self.has_lines = true;
        self.at(lambda.at);
        self.ins("sub", &[Arg::Reg(RSP, 8), Arg::Imm(0)]);
        let (captures, class, env) = self.whole.closed(id);
        let outlives = block_calls(self.whole.known, &lambda.body);
        let [first, rest @ ..] = ARGUMENTS;
        let here = self.places.take(false, Some(first));
        let mut arguments = self.parameters(&lambda.parameters, &rest, outlives);
        arguments.insert(0, env);
        if !captures.is_empty() {
            let head = Mem {
                size: 8,
                base: Some(first),
                index: None,
                disp: 0,
            };
            self.ins("cmp", &[Arg::Mem(head), Arg::Imm(class.into())]);
            let trap = self.trap();
            self.jump("jne", trap);
            for (i, id) in captures.iter().enumerate() {
                let place = self.declare(*id, outlives);
                let from = Arg::Mem(Mem {
                    disp: 8 + 8 * i as i32,
                    ..head
                });
                match place {
                    Place::Reg(register) => self.load(register, from),
                    Place::Word(_) => {
                        self.load(RAX, from);
                        self.ins("mov", &[place.arg(), Arg::Reg(RAX, 8)]);
                    }
                }
            }
        }
        self.places.free(here);
        let known = self.whole.known;
        let closed = known.closed.iter().find(|closed| closed.id == id);
        let result = match closed.map(|closed| &closed.ty) {
            Some(Ty::Function(_, result)) => self.whole.ty(result),
            _ => Type::Int,
        };
        let name = format!("fn.{id}");
        self.body(lambda.at, &lambda.body, name, arguments, result)
    }

    /// A function for those who call values: they give what was taken in first.
    fn wrapper(mut self, number: usize) -> Func {
        let known = self.whole.known;
        let (arguments, result) = known.functions[number].clone();
        let ty = Ty::Function(arguments.clone(), Box::new(result.clone()));
        let class = self.whole.closure(&ty);
        for pair in ARGUMENTS.windows(2).take(arguments.len()) {
            self.ins("mov", &[Arg::Reg(pair[0], 8), Arg::Reg(pair[1], 8)]);
        }
        let target = self.whole.needs(Made::Function(number));
        self.push(Item::Call(target));
        self.ins("ret", &[]);
        let env = self.whole.env(class);
        let arguments = arguments.iter().map(|ty| self.whole.ty(ty));
        let arguments = std::iter::once(env).chain(arguments).collect();
        Func {
            name: format!("value.{}", self.whole.program.functions[number].name),
            export: false,
            arguments,
            result: self.whole.ty(&result),
            items: self.items,
        }
    }

    /// The rest of a function.
    fn body(
        mut self,
        at: usize,
        body: &[Stmt],
        name: String,
        arguments: Vec<Type>,
        result: Type,
    ) -> Result<Func> {
        self.block(body)?;
        self.ins("xor", &[Arg::Reg(RAX, 4), Arg::Reg(RAX, 4)]);
        self.leave();
        for (i, (label, line)) in std::mem::take(&mut self.traps).into_iter().enumerate() {
            self.live.clear();
            match i + 1 < MOST_TRAPS {
                true => self.lone(label),
                false => self.join(label, &[], false),
            }
            self.push(Item::Line(line));
            self.ins("ud2", &[]);
            self.dead = true;
        }
        let words = self.places.words();
        if words > MOST_WORDS {
            let what = "this function has more variables than fit: split it";
            return Err(Mistake::new(at, what));
        }
        Ok(Func {
            name,
            export: false,
            arguments,
            result,
            items: finish(self.items, words),
        })
    }

    pub(super) fn leave(&mut self) {
        self.ins("add", &[Arg::Reg(RSP, 8), Arg::Imm(0)]);
        self.ins("ret", &[]);
        self.dead = true;
    }

    pub(super) fn block(&mut self, block: &[Stmt]) -> Result<()> {
        let outer = self.live.len();
        for (i, stmt) in block.iter().enumerate() {
            self.stmt(stmt, &block[i + 1..])?;
        }
        self.end_scope(outer);
        Ok(())
    }

    pub(super) fn end_scope(&mut self, outer: usize) {
        for (place, _) in self.live.drain(outer..) {
            self.places.free(place);
        }
    }

    /// Gives a variable a place, for as long as the rest lasts.
    pub(super) fn declare(&mut self, id: usize, outlives: bool) -> Place {
        let ty = self.whole.known.ty(id);
        let ty = self.whole.ty(&ty);
        let place = self.places.take(outlives, None);
        self.variables.insert(id, place);
        self.live.push((place, ty));
        place
    }

    /// Whether the checker knows no more of a value than its type.
    pub(super) fn is_declared(&self, e: &Expr) -> bool {
        match (&e.kind, self.named(e)) {
            (ExprKind::Field(..) | ExprKind::Index(..), _) => true,
            (ExprKind::Call(..), Some(Name::Case(..))) => false,
            (ExprKind::Call(..), _) => true,
            (ExprKind::Name(_), Some(Name::Variable(id))) => self.declared.contains(&id),
            _ => false,
        }
    }

    /// What a function value or a variable stands for.
    pub fn named(&self, e: &Expr) -> Option<Name> {
        self.whole.known.names.get(&e.id).cloned()
    }
}
