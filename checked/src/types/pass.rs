//! Arriving at instructions, and leaving them by jumps, calls and returns.

use super::runtime::{runtime, Runtime};
use super::section::Section;
use super::{imported, Class, Signature, State, Type, ARGUMENTS, TEXT};
use crate::form::Flow;
use crate::instruction::Instruction;
use crate::module::{Module, EMPTY, IMPORT};
use crate::rule::{Refusal, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Jumps ahead to what is undeclared, at a time: what they know is held in memory.
const MOST_PENDING: usize = 1000;

/// What the instruction right before has compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compared {
    /// An index with the length of an array.
    Index { index: u8, array: u8 },
    /// The first word of an object with a class.
    Class { object: u8, class: u16 },
}

/// The types of a module while its code is read.
pub struct Typing<'a> {
    pub(super) module: &'a Module<'a>,
    pub(super) section: Section,
    pub(super) runtime: Runtime,
    pub(super) imports: Vec<Signature>,
    pub(super) entries: BTreeSet<u32>,
    /// What has to be known where, as declared: by place.
    declared: Vec<(u32, State)>,
    /// How many of these, and of the functions, are before this.
    passed: usize,
    begun: usize,
    /// The same, ahead and undeclared: what is known at the first jump there.
    pending: BTreeMap<u32, State>,
    /// What is known before the instruction at `at`, if a way leads there.
    pub(super) state: State,
    reached: bool,
    pub(super) at: u32,
    /// Which function that is in.
    pub(super) function: usize,
    pub(super) compared: Option<Compared>,
}

/// T2.
fn unlike(at: Option<u32>, what: impl Into<String>) -> Refusal {
    Refusal::new(Rule::Runtime, at, what)
}

impl<'a> Typing<'a> {
    pub fn new(module: &'a Module<'a>, section: &[u8]) -> Result<Typing<'a>, Refusal> {
        let section = Section::parse(module, section)?;
        let mut imports = Vec::new();
        for name in &module.imports {
            let what = || unlike(None, format!("{name} has no type to be imported by"));
            imports.push(imported(name).ok_or_else(what)?);
        }
        let mut it = Typing {
            runtime: runtime(&module.layout, module.zeroes, &imports),
            module,
            section,
            imports,
            entries: module.exports.iter().map(|export| export.at).collect(),
            declared: Vec::new(),
            passed: 0,
            begun: 0,
            pending: BTreeMap::new(),
            state: State::default(),
            reached: false,
            at: 0,
            function: 0,
            compared: None,
        };
        it.begins_with_the_runtime()?;
        it.entries()?;
        it.declare();
        Ok(it)
    }

    /// T2: the routines, a heap of zeroes alone, and imports where the routines find them.
    fn begins_with_the_runtime(&self) -> Result<(), Refusal> {
        let module = self.module;
        if !module.data.is_empty() || module.zeroes < 16 || !module.zeroes.is_multiple_of(8) {
            let what = "its data is a heap of zeroes, of 16 bytes and more by eights, and no more";
            return Err(unlike(None, what));
        }
        let imports = (0..module.imports.len() as u32).map(|i| IMPORT | i);
        let slots: Vec<u32> = std::iter::once(EMPTY).chain(imports).collect();
        let table = &module.table;
        let only_there = |entries: &[u32]| entries.iter().all(|e| *e == EMPTY || e & IMPORT == 0);
        if !table.starts_with(&slots) || !only_there(&table[slots.len()..]) {
            let what = "the table begins with an empty slot and the imports, each once";
            return Err(unlike(None, what));
        }
        let same = module.code.iter().zip(&self.runtime.code);
        let same = same.take_while(|(a, b)| a == b).count();
        if same < self.runtime.code.len() {
            let what = "this is not the routine that has to be here";
            return Err(unlike(Some(same as u32), what));
        }
        let end = self.runtime.code.len() as u32;
        let functions = &self.section.functions;
        let first = functions.first().map_or(module.code.len() as u32, |f| f.at);
        let joins = self.section.joins.first();
        match first == end && joins.is_none_or(|join| join.at > end) {
            true => Ok(()),
            false => Err(unlike(None, "functions begin right behind the routines")),
        }
    }

    /// T12: exports are functions of numbers, and no pointer leads to one.
    fn entries(&self) -> Result<(), Refusal> {
        for export in &self.module.exports {
            let of_numbers = |f| self.signature(f).0.iter().all(|ty| *ty == Type::Int);
            let what = match self.starts(export.at).map(of_numbers) {
                Some(true) => continue,
                Some(false) => "who calls exports gives numbers",
                None => "an export that is no declared function",
            };
            let what = format!("{}: {what}", export.name);
            return Err(Refusal::new(Rule::Entry, Some(export.at), what));
        }
        let functions = self.module.table.iter().filter(|e| *e & IMPORT == 0);
        for at in functions {
            if self.starts(*at).is_none() || self.is_entry(*at) {
                let what = "the table names what is an export, or no declared function";
                return Err(Refusal::new(Rule::Entry, Some(*at), what));
            }
        }
        Ok(())
    }

    fn declare(&mut self) {
        for function in &self.section.functions {
            let mut registers = [Type::Unknown; 16];
            let (arguments, _) = &self.section.signatures[usize::from(function.signature)];
            for (to, ty) in ARGUMENTS.iter().zip(arguments) {
                registers[usize::from(*to)] = *ty;
            }
            let state = State::new(registers, Vec::new());
            self.declared.push((function.at, state));
        }
        for join in &self.section.joins {
            let state = State::new(join.registers, join.words.clone());
            self.declared.push((join.at, state));
        }
        self.declared.sort_by_key(|(at, _)| *at);
    }

    /// Words that are pushed where that is declared.
    pub fn heights(&self) -> Vec<(u32, u32)> {
        let height = |(at, state): &(u32, State)| (*at, state.words.len() as u32);
        self.declared.iter().map(height).collect()
    }

    pub fn state(&self) -> Option<&State> {
        self.reached.then_some(&self.state)
    }

    pub(super) fn refuse<T>(&self, rule: Rule, what: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::new(rule, Some(self.at), what))
    }

    /// The function that begins there.
    pub(super) fn starts(&self, at: u32) -> Option<usize> {
        let found = self.section.functions.binary_search_by_key(&at, |f| f.at);
        found.ok()
    }

    pub(super) fn is_entry(&self, at: u32) -> bool {
        self.entries.contains(&at)
    }

    pub(super) fn signature(&self, function: usize) -> &(Vec<Type>, Type) {
        let signature = self.section.functions[function].signature;
        &self.section.signatures[usize::from(signature)]
    }

    /// Where the current function ends.
    fn end(&self) -> u32 {
        let next = self.section.functions.get(self.function + 1);
        next.map_or(self.module.code.len() as u32, |next| next.at)
    }

    /// The classes that an object is of, if it is one.
    pub(super) fn classes(&self, ty: Type) -> Option<(u16, u16)> {
        match ty {
            Type::Object(first, last) => Some((first, last)),
            Type::Constant(at) => {
                let at = at.checked_sub(self.module.layout.read_only)?;
                let found = self.section.texts.binary_search(&at);
                found.ok().map(|_| (TEXT, TEXT))
            }
            _ => None,
        }
    }

    /// Whether what is of a type is of the other one, too.
    pub(super) fn is(&self, ty: Type, other: Type) -> bool {
        match other {
            _ if ty == other => true,
            Type::Unknown => true,
            Type::Int => ty.is_value(),
            Type::Object(first, last) => self
                .classes(ty)
                .is_some_and(|(from, to)| first <= from && to <= last),
            Type::Function(signature) => {
                let Type::Constant(slot) = ty else {
                    return false;
                };
                let at = self.module.table.get(slot as usize);
                let function = at.and_then(|at| self.starts(*at));
                function.is_some_and(|f| self.section.functions[f].signature == signature)
            }
            _ => false,
        }
    }

    /// Whether all that a place relies on is known; what is not, if not.
    pub(super) fn covers(&self, known: &State, needed: &State) -> Result<(), String> {
        if known.words.len() != needed.words.len() {
            return Err("another number of words".into());
        }
        let all = known.registers.iter().chain(&known.words);
        let mut pairs = all.zip(needed.registers.iter().chain(&needed.words));
        match pairs.find(|(known, needed)| !self.is(**known, **needed)) {
            None => Ok(()),
            Some((known, needed)) => Err(format!("{known} where {needed} is needed")),
        }
    }

    /// T8: what is known here: what was declared, if all ways so far have it.
    pub fn arrive(&mut self, at: u32, height: u16) -> Result<(), Refusal> {
        self.at = at;
        while matches!(self.declared.get(self.passed), Some((place, _)) if *place < at) {
            self.passed += 1;
        }
        let functions = &self.section.functions;
        let begins = functions.get(self.begun).is_some_and(|f| f.at == at);
        let declared = self.declared.get(self.passed);
        let declared = declared.filter(|(place, _)| *place == at);
        let pending = match self.pending.first_entry() {
            Some(first) if *first.key() == at => Some(first.remove()),
            _ => None,
        };
        if let Some(needed) = declared.map(|(_, state)| state).or(pending.as_ref()) {
            if self.reached && begins {
                return self.refuse(Rule::Join, "control runs into another function");
            }
            if self.reached {
                let covers = self.covers(&self.state, needed);
                covers.or_else(|what| self.refuse(Rule::Join, what))?;
            }
            self.state.clone_from(needed);
            (self.reached, self.compared) = (true, None);
        }
        if begins {
            self.function = self.begun;
            self.begun += 1;
        }
        match self.reached && self.state.words.len() != usize::from(height) {
            true => self.refuse(Rule::Join, "words and pushes differ"),
            false => Ok(()),
        }
    }

    /// T8: a jump to a place in this function, with what that relies on.
    fn jump(&mut self, it: &Instruction) -> Result<(), Refusal> {
        let target = it.target(self.at as usize) as u32;
        let start = self.section.functions[self.function].at;
        if target < start || target >= self.end() {
            return self.refuse(Rule::Join, "a jump out of its function");
        }
        let declared = self.declared.binary_search_by_key(&target, |(at, _)| *at);
        let declared = declared.ok().map(|i| &self.declared[i].1);
        if let Some(needed) = declared.or_else(|| self.pending.get(&target)) {
            let to = |what| self.refuse(Rule::Join, format!("to code+{target:#x}: {what}"));
            return self.covers(&self.state, needed).or_else(to);
        }
        if target <= self.at || self.pending.len() >= MOST_PENDING {
            let what = format!("to code+{target:#x}, which declares nothing");
            return self.refuse(Rule::Join, what);
        }
        let mut state = self.state.clone();
        state.forget_bounds();
        self.pending.insert(target, state);
        Ok(())
    }

    /// Follows an instruction: what is known behind it.
    pub fn step(&mut self, at: u32, it: &Instruction) -> Result<(), Refusal> {
        if (at as usize) < self.runtime.code.len() {
            return Ok(());
        }
        let compared = self.compared.take();
        match it.flow {
            _ if !self.reached && it.name == "nop" => Ok(()),
            _ if !self.reached => {
                self.refuse(Rule::Join, "no way leads here, and nothing is declared")
            }
            _ if self.section.functions[self.function].at == at && self.is_entry(at) => {
                self.begin(it)
            }
            Flow::Next => self.effect(it),
            Flow::Push => self.push(it),
            Flow::Pop => self.pop(it),
            Flow::Call => self.call(it.target(at as usize) as u32),
            Flow::CallTable => self.call_by_slot(it),
            Flow::JumpTable => self.refuse(Rule::Effect, "a jump through the table"),
            Flow::Branch => self.branch(it, compared),
            Flow::Jump => self.jump(it),
            Flow::Return => self.returns(),
            Flow::Trap => Ok(()),
        }?;
        self.reached &= !matches!(it.flow, Flow::Jump | Flow::Return | Flow::Trap);
        Ok(())
    }

    /// What a comparison has shown, where a jump is taken and where it is not.
    fn branch(&mut self, it: &Instruction, compared: Option<Compared>) -> Result<(), Refusal> {
        match (compared, it.name) {
            (Some(Compared::Class { object, class }), "je" | "jne") => {
                let before = self.state.clone();
                self.narrow(object, class, it.name == "je");
                self.jump(it)?;
                self.state = before;
                self.narrow(object, class, it.name == "jne");
            }
            (Some(Compared::Index { index, array }), "jae") => {
                self.jump(it)?;
                self.state.bound(index, array);
            }
            _ => self.jump(it)?,
        }
        Ok(())
    }

    /// The object is of this class, or is not.
    fn narrow(&mut self, object: u8, class: u16, is: bool) {
        let Some((first, last)) = self.classes(self.state.get(object)) else {
            return;
        };
        let (first, last) = match is {
            // Whatever was known, its first word says it.
            true if self.class(class).is_some() => (class, class),
            false if first == class && first < last => (first + 1, last),
            false if last == class && first < last => (first, last - 1),
            _ => (first, last),
        };
        self.state.set(object, Type::Object(first, last));
    }

    pub(super) fn class(&self, number: u16) -> Option<&Class> {
        self.section.class(number)
    }
}
