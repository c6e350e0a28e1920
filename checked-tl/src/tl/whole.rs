//! What the functions of a module share: classes, signatures, texts, imports, slots.

use super::tree::{Lambda, Program};
use super::types::{Closed, Known, Ty};
use super::Mistake;
use crate::asm;
use crate::asm::{Arg, Target};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tane_checked::{Class, Routine, Type, BYTES, TEXT};

/// The first class that a program has.
const FIRST: u16 = 3;

/// Classes of a program: those of the language and its own have numbers of 16 bits.
const MOST_CLASSES: usize = 60_000;

/// What functions share.
pub(super) struct Whole<'a> {
    pub program: &'a Program,
    pub known: &'a Known,
    pub made: asm::Program,
    /// Where the newlines of the source are.
    pub lines: Vec<usize>,
    /// Functions that are needed: numbers in the program, in the order they are made in.
    pub order: Vec<Made>,
    pub slots: Vec<Made>,
    /// The class of functions of a type that are values; those of what they take in follow.
    closures: HashMap<Ty, u16>,
}

/// A function of the module.
#[derive(Clone, Debug)]
pub(super) enum Made {
    /// By its number in the program.
    Function(usize),
    /// The same, for those who call values: what is taken in comes first, and it is left out.
    Wrapper(usize),
    /// One without a name, and the number of its expression.
    Lambda(usize, Rc<Lambda>),
}

impl PartialEq for Made {
    fn eq(&self, other: &Made) -> bool {
        match (self, other) {
            (Made::Function(a), Made::Function(b))
            | (Made::Wrapper(a), Made::Wrapper(b))
            | (Made::Lambda(a, _), Made::Lambda(b, _)) => a == b,
            _ => false,
        }
    }
}

/// As many classes as a program can have, or a few more.
fn classes(known: &Known) -> usize {
    let mut made: HashSet<&Ty> = HashSet::new();
    let mut left: Vec<&Ty> = known.types.values().collect();
    let shapes = known.variants.iter().flat_map(|(_, cases)| cases);
    for shape in known.records.iter().chain(shapes) {
        left.extend(shape.fields.iter().map(|(_, ty)| ty));
    }
    for (arguments, result) in &known.functions {
        left.extend(arguments.iter().chain([result]));
    }
    while let Some(ty) = left.pop() {
        match ty {
            Ty::Array(element) if made.insert(ty) => left.push(element),
            Ty::Function(arguments, result) if made.insert(ty) => {
                left.extend(arguments.iter().chain([&**result]));
            }
            _ => {}
        }
    }
    let cases = known.variants.iter().map(|(_, cases)| cases.len());
    // A function's has one behind it for each that takes something in, or one.
    known.records.len() + cases.sum::<usize>() + 2 * made.len() + known.closed.len()
}

impl<'a> Whole<'a> {
    pub fn new(
        program: &'a Program,
        known: &'a Known,
        source: &str,
        heap: u32,
    ) -> Result<Whole<'a>, Mistake> {
        if classes(known) > MOST_CLASSES {
            let what =
                "more types than a module has: cases and types of arrays and functions count";
            return Err(Mistake::new(0, what));
        }
        let exports = program.functions.iter().enumerate();
        let exports = exports.filter(|(_, function)| function.export);
        let mut it = Whole {
            program,
            known,
            made: asm::Program {
                heap,
                ..asm::Program::default()
            },
            lines: source.match_indices('\n').map(|(at, _)| at).collect(),
            order: exports.map(|(i, _)| Made::Function(i)).collect(),
            slots: Vec::new(),
            closures: HashMap::new(),
        };
        it.classes();
        Ok(it)
    }

    pub fn classes(&mut self) {
        let records = self.known.records.iter();
        let cases = self.known.variants.iter().flat_map(|(_, cases)| cases);
        let shapes: Vec<Vec<Ty>> = records
            .chain(cases)
            .map(|shape| shape.fields.iter().map(|(_, ty)| ty.clone()).collect())
            .collect();
        // Arrays' classes come behind all of these.
        self.made.classes = vec![Class::Record(Vec::new()); shapes.len()];
        for (i, fields) in shapes.iter().enumerate() {
            let fields = fields.iter().map(|ty| self.ty(ty)).collect();
            self.made.classes[i] = Class::Record(fields);
        }
    }

    /// The first class of a variant.
    pub fn case(&self, variant: usize, case: usize) -> u16 {
        let before = self.known.variants[..variant].iter();
        let before: usize = before.map(|(_, cases)| cases.len()).sum();
        FIRST + (self.known.records.len() + before + case) as u16
    }

    /// The type in assembly.
    pub fn ty(&mut self, ty: &Ty) -> Type {
        match ty {
            Ty::Nothing | Ty::Int | Ty::Bool => Type::Int,
            Ty::Text => Type::Object(TEXT, TEXT),
            Ty::Bytes => Type::Object(BYTES, BYTES),
            Ty::File => Type::Descriptor,
            Ty::Record(i) => Type::Object(FIRST + *i as u16, FIRST + *i as u16),
            Ty::Variant(i) => {
                let last = self.known.variants[*i].1.len() - 1;
                Type::Object(self.case(*i, 0), self.case(*i, last))
            }
            Ty::Array(element) => {
                let class = self.array(element);
                Type::Object(class, class)
            }
            Ty::Function(..) => {
                let class = self.closure(ty);
                Type::Object(class, class)
            }
        }
    }

    /// The class of functions of a type that are values: a slot, and an object with what was
    /// taken in, whose classes are those behind it.
    pub fn closure(&mut self, ty: &Ty) -> u16 {
        if let Some(class) = self.closures.get(ty) {
            return *class;
        }
        let Ty::Function(arguments, result) = ty else {
            return 0;
        };
        let known = self.known;
        let all: Vec<&Closed> = known.closed.iter().filter(|it| it.ty == *ty).collect();
        let class = FIRST + self.made.classes.len() as u16;
        let last = class + all.len().max(1) as u16;
        let empty = vec![Class::Record(Vec::new()); usize::from(last - class) + 1];
        self.made.classes.extend(empty);
        self.closures.insert(ty.clone(), class);
        let env = Type::Object(class + 1, last);
        let arguments = arguments.iter().map(|ty| self.ty(ty));
        let arguments = std::iter::once(env).chain(arguments).collect();
        let signature = (arguments, self.ty(result));
        self.made.signatures.push(signature);
        let signature = Type::Function(self.made.signatures.len() as u16 - 1);
        let place = |class: u16| usize::from(class - FIRST);
        self.made.classes[place(class)] = Class::Record(vec![signature, env]);
        for (i, closed) in all.iter().enumerate() {
            let fields = closed.captures.iter().map(|id| self.ty(&known.ty(*id)));
            let fields = Class::Record(fields.collect());
            self.made.classes[place(class) + 1 + i] = fields;
        }
        class
    }

    /// What a function without a name takes in, the class of that, and all such classes.
    pub fn closed(&mut self, id: usize) -> (Vec<usize>, u16, Type) {
        let known = self.known;
        let Some(closed) = known.closed.iter().find(|closed| closed.id == id) else {
            return (Vec::new(), 0, Type::Unknown);
        };
        let class = self.closure(&closed.ty);
        let mut same = known.closed.iter().filter(|it| it.ty == closed.ty);
        let i = same.position(|closed| closed.id == id).unwrap_or(0);
        (
            closed.captures.clone(),
            class + 1 + i as u16,
            self.env(class),
        )
    }

    /// The type of what functions of this class have taken in.
    pub fn env(&self, class: u16) -> Type {
        match &self.made.classes[usize::from(class - FIRST)] {
            Class::Record(fields) => fields.get(1).copied().unwrap_or(Type::Unknown),
            _ => Type::Unknown,
        }
    }

    /// The class of an array.
    pub fn array(&mut self, element: &Ty) -> u16 {
        let class = Class::Array(self.ty(element));
        let all = &mut self.made.classes;
        let found = all.iter().position(|known| *known == class);
        let number = found.unwrap_or_else(|| {
            all.push(class);
            all.len() - 1
        });
        FIRST + number as u16
    }

    pub fn needs(&mut self, made: Made) -> Target {
        let found = self.order.iter().position(|known| *known == made);
        Target::Function(found.unwrap_or_else(|| {
            self.order.push(made);
            self.order.len() - 1
        }))
    }

    /// The number that stands for a function's slot.
    pub fn slot(&mut self, made: Made) -> Arg {
        self.needs(made.clone());
        let found = self.slots.iter().position(|known| *known == made);
        let number = found.unwrap_or_else(|| {
            self.slots.push(made);
            self.slots.len() - 1
        });
        Arg::Slot(number)
    }

    pub fn import(&mut self, name: &str) -> Target {
        let all = &mut self.made.imports;
        let found = all.iter().position(|known| known == name);
        Target::Routine(Routine::Import(found.unwrap_or_else(|| {
            all.push(name.into());
            all.len() - 1
        })))
    }

    pub fn text(&mut self, bytes: &[u8]) -> Arg {
        let all = &mut self.made.texts;
        let found = all.iter().position(|known| known == bytes);
        Arg::Text(found.unwrap_or_else(|| {
            all.push(bytes.to_vec());
            all.len() - 1
        }))
    }
}
