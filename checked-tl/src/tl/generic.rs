//! What is generic: each of its instances, with types in the place of its parameters, is a record,
//! a variant or a function like any other to all who come after the check.

use super::check::{wrong, Checker, Result};
use super::copy::copy;
use super::tree::*;
use super::types::Ty;
use super::Mistake;
use std::collections::{HashMap, VecDeque};

/// Instances of a program: classes, and so types, have numbers of 16 bits.
const MOST_INSTANCES: usize = 2000;
/// Names and brackets in the types of one. What makes itself of ever larger types ends here.
const MOST_PARTS: usize = 60;
/// Numbers of copied functions, and fields: what a small program can become.
const MOST_COPIED: usize = 1 << 20;
/// Bytes of a type as it is told.
const MOST_TOLD: usize = 40;
/// Places that are told of who needs an instance, and of who needs that.
const MOST_NEEDED: usize = 4;

/// Something generic, by its number among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Generic {
    Record(usize),
    Variant(usize),
    Function(usize),
}

/// What the name of a type or of a case stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Plain(Ty),
    Generic(Generic),
}

/// What the name of a function stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    Plain(usize),
    Generic(usize),
}

/// Parameters, and the types that they are.
pub(super) type Bound<'a> = Vec<(&'a str, Ty)>;

/// What is left to do for an instance.
struct Work {
    generic: Generic,
    types: Vec<Ty>,
    number: usize,
    needed: Vec<Needed>,
}

/// An instance, and where it was needed first.
#[derive(Clone)]
struct Needed {
    generic: Generic,
    types: Vec<Ty>,
    at: usize,
}

#[derive(Default)]
pub(super) struct Instances {
    numbers: HashMap<(Generic, Vec<Ty>), usize>,
    /// Names and brackets, of types that are instances.
    parts: HashMap<Ty, usize>,
    /// What types that are instances were made of.
    pub made_of: HashMap<Ty, (Generic, Vec<Ty>)>,
    shapes: Vec<Work>,
    bodies: VecDeque<Work>,
    /// Copies of functions, as they are numbered.
    pub functions: Vec<Function>,
    /// What needs the instance that is being checked.
    needed: Vec<Needed>,
    /// Numbers that functions have here, and fields of types.
    copied: usize,
}

/// What of a program is generic; and it without that.
pub(super) fn apart(mut program: Program) -> (Program, Program) {
    let mut generic = Program::default();
    let records = std::mem::take(&mut program.records);
    let is_generic = |it: &Record| !it.generic.is_empty();
    (generic.records, program.records) = records.into_iter().partition(is_generic);
    let variants = std::mem::take(&mut program.variants);
    let is_generic = |it: &Variant| !it.generic.is_empty();
    (generic.variants, program.variants) = variants.into_iter().partition(is_generic);
    let functions = std::mem::take(&mut program.functions);
    let is_generic = |it: &Function| !it.generic.is_empty();
    (generic.functions, program.functions) = functions.into_iter().partition(is_generic);
    (program, generic)
}

impl<'a> Checker<'a> {
    /// The name and the parameters.
    pub fn head(&self, generic: Generic) -> (&'a str, &'a [Parameter]) {
        match generic {
            Generic::Record(i) => {
                let it = &self.generic.records[i];
                (&it.name, &it.generic)
            }
            Generic::Variant(i) => {
                let it = &self.generic.variants[i];
                (&it.name, &it.generic)
            }
            Generic::Function(i) => {
                let it = &self.generic.functions[i];
                (&it.name, &it.generic)
            }
        }
    }

    /// Its parameters, as these types.
    pub fn bound_of(&self, generic: Generic, types: &[Ty]) -> Bound<'a> {
        let (_, parameters) = self.head(generic);
        let names = parameters.iter().map(|it| it.name.as_str());
        names.zip(types.iter().cloned()).collect()
    }

    /// What is generic is in order, whoever uses it.
    pub fn declare_generic(&mut self) -> Result<()> {
        let all = self.generic;
        for record in &all.records {
            self.declare_parameters(&record.generic)?;
            self.declare_fields(record, &record.generic)?;
        }
        for variant in &all.variants {
            self.declare_parameters(&variant.generic)?;
            for case in &variant.cases {
                self.declare_fields(case, &variant.generic)?;
            }
        }
        for (i, function) in all.functions.iter().enumerate() {
            if function.export {
                let what = "what is exported is not generic: who calls it has no types";
                return wrong(function.at, what);
            }
            self.name_function(function, Callee::Generic(i))?;
            self.declare_parameters(&function.generic)?;
            let types = function.parameters.iter().map(|it| &it.ty);
            for ty in types.chain(&function.result) {
                self.declared(ty, &function.generic)?;
            }
        }
        Ok(())
    }

    fn declare_parameters(&self, all: &[Parameter]) -> Result<()> {
        for (i, parameter) in all.iter().enumerate() {
            let name = &parameter.name;
            let twice = all[..i].iter().any(|other| other.name == *name);
            if twice || self.is_type(parameter.at, name) {
                return wrong(parameter.at, format!("there is a type {name} already"));
            }
        }
        Ok(())
    }

    fn declare_fields(&self, record: &Record, generic: &[Parameter]) -> Result<()> {
        self.fields(record)?;
        let mut types = record.fields.iter().map(|field| &field.ty);
        types.try_for_each(|ty| self.declared(ty, generic))
    }

    /// Whether the names in a type are there, and made of as many types as they take.
    fn declared(&self, written: &Written, parameters: &[Parameter]) -> Result<()> {
        match &written.kind {
            WrittenKind::Array(element) => self.declared(element, parameters),
            WrittenKind::Function(arguments, result) => {
                let mut all = arguments.iter().chain(result.as_deref());
                all.try_for_each(|ty| self.declared(ty, parameters))
            }
            WrittenKind::Name(name, types) => {
                let is_parameter = parameters.iter().any(|it| it.name == *name);
                if !is_parameter {
                    self.type_named(written.at, name, types)?;
                } else if !types.is_empty() {
                    return wrong(written.at, format!("{name} is not generic"));
                }
                types
                    .iter()
                    .try_for_each(|ty| self.declared(ty, parameters))
            }
        }
    }

    /// That so many types are written for it.
    pub fn count_types(&self, at: usize, generic: Generic, count: usize) -> Result<()> {
        let (name, parameters) = self.head(generic);
        let all: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
        match count == all.len() {
            true => Ok(()),
            false => wrong(
                at,
                format!(
                    "{name}<{}> takes {}, and {count} are here",
                    all.join(", "),
                    all.len()
                ),
            ),
        }
    }

    /// A type that is an instance.
    pub fn type_of(&mut self, at: usize, generic: Generic, types: Vec<Ty>) -> Result<Ty> {
        let number = self.instance(at, generic, types)?;
        Ok(match generic {
            Generic::Record(_) => Ty::Record(number),
            _ => Ty::Variant(number),
        })
    }

    /// The number of an instance, which is made if it is the first.
    pub fn instance(&mut self, at: usize, generic: Generic, types: Vec<Ty>) -> Result<usize> {
        let key = (generic, types);
        if let Some(number) = self.instances.numbers.get(&key) {
            return Ok(*number);
        }
        let (generic, types) = key;
        let (name, parameters) = self.head(generic);
        if let Some(i) = types.iter().position(|ty| *ty == Ty::Nothing) {
            let what = format!("{} of {name} would be nothing", parameters[i].name);
            return wrong(at, what);
        }
        let parts = types.iter().map(|ty| self.parts(ty)).sum::<usize>() + 1;
        if parts > MOST_PARTS {
            let what = format!("more than {MOST_PARTS} parts in types of {name}: does it make itself, of ever larger ones?");
            return wrong(at, what);
        }
        if self.instances.numbers.len() >= MOST_INSTANCES {
            let what = format!("what is generic is here with more than {MOST_INSTANCES} types");
            return wrong(at, what);
        }
        self.copied(at, self.fields_of(generic))?;
        let mut needed = vec![Needed {
            generic,
            types: types.clone(),
            at,
        }];
        needed.extend(self.instances.needed.iter().cloned());
        needed.truncate(MOST_NEEDED);
        let work = |number| Work {
            generic,
            types: types.clone(),
            number,
            needed,
        };
        let number = match generic {
            Generic::Record(_) => {
                let number = self.known.add_record(name);
                self.instances.shapes.push(work(number));
                self.is_made_of(Ty::Record(number), generic, &types, parts);
                number
            }
            Generic::Variant(_) => {
                let number = self.known.add_variant(name);
                self.instances.shapes.push(work(number));
                self.is_made_of(Ty::Variant(number), generic, &types, parts);
                number
            }
            Generic::Function(i) => {
                let number = self.known.functions.len();
                self.instances.bodies.push_back(work(number));
                let bound = self.bound_of(generic, &types);
                let function = &self.generic.functions[i];
                let signature = self.signature(function, &bound)?;
                self.known.functions.push(signature);
                number
            }
        };
        self.instances.numbers.insert((generic, types), number);
        Ok(number)
    }

    fn fields_of(&self, generic: Generic) -> usize {
        match generic {
            Generic::Record(i) => self.generic.records[i].fields.len(),
            Generic::Variant(i) => {
                let cases = self.generic.variants[i].cases.iter();
                cases.map(|case| case.fields.len() + 1).sum()
            }
            Generic::Function(_) => 0,
        }
    }

    fn copied(&mut self, at: usize, more: usize) -> Result<()> {
        self.instances.copied += more;
        match self.instances.copied <= MOST_COPIED {
            true => Ok(()),
            false => wrong(
                at,
                "what is generic is here with too many types: it is too much",
            ),
        }
    }

    fn is_made_of(&mut self, ty: Ty, generic: Generic, types: &[Ty], parts: usize) {
        self.instances.parts.insert(ty.clone(), parts);
        let made_of = (generic, types.to_vec());
        self.instances.made_of.insert(ty.clone(), made_of);
        self.known.made_of.insert(ty, types.to_vec());
    }

    /// Names and brackets of a type.
    pub fn parts(&self, ty: &Ty) -> usize {
        match ty {
            Ty::Array(element) => 1 + self.parts(element),
            Ty::Function(arguments, result) => {
                let arguments = arguments.iter().map(|ty| self.parts(ty));
                1 + arguments.sum::<usize>() + self.parts(result)
            }
            _ => self.instances.parts.get(ty).copied().unwrap_or(1),
        }
    }

    /// An instance as it is told.
    fn shown(&self, generic: Generic, types: &[Ty]) -> String {
        let (name, _) = self.head(generic);
        let all: Vec<String> = types.iter().map(|ty| self.known.show(ty)).collect();
        let all = all.join(", ");
        match all.char_indices().nth(MOST_TOLD) {
            Some((end, _)) => format!("{name}<{}...>", &all[..end]),
            None => format!("{name}<{all}>"),
        }
    }

    /// Gives types that are instances their fields, which can be of others.
    pub fn settle(&mut self) -> Result<()> {
        while let Some(work) = self.instances.shapes.pop() {
            let bound = self.bound_of(work.generic, &work.types);
            match work.generic {
                Generic::Record(i) => {
                    let record = &self.generic.records[i];
                    let shape = self.shape(record, &bound);
                    self.known.records[work.number] = self.told_of(&work, shape)?;
                }
                Generic::Variant(i) => {
                    let cases = self.generic.variants[i].cases.iter();
                    let cases = cases.map(|case| self.shape(case, &bound)).collect();
                    self.known.variants[work.number].1 = self.told_of(&work, cases)?;
                }
                Generic::Function(_) => {}
            }
        }
        Ok(())
    }

    /// Checks the functions that were needed, and those that these need.
    pub fn bodies(&mut self) -> Result<()> {
        let mut ids = self.program.ids;
        while let Some(work) = self.instances.bodies.pop_front() {
            let Generic::Function(i) = work.generic else {
                continue;
            };
            let (function, end) = copy(&self.generic.functions[i], ids);
            self.copied(work.needed[0].at, end - ids)?;
            ids = end;
            self.instances.needed = work.needed.clone();
            self.bound = self.bound_of(work.generic, &work.types);
            let checked = self.function(work.number, &function);
            self.told_of(&work, checked)?;
            self.instances.functions.push(function);
        }
        Ok(())
    }

    /// A mistake in an instance, with its types and with who needs it.
    fn told_of<T>(&self, work: &Work, result: Result<T>) -> Result<T> {
        result.map_err(|mistake| {
            let shown = self.shown(work.generic, &work.types);
            let needed = work.needed.iter().map(|it| {
                let shown = self.shown(it.generic, &it.types);
                (it.at, format!("{shown} is needed here"))
            });
            Mistake {
                at: mistake.at,
                what: format!("{} (in {shown})", mistake.what),
                needed: needed.collect(),
            }
        })
    }
}
