//! What a program declares: types, and what functions take and give.

use super::check::{wrong, Checker, Result, BUILT, MOST_OF_VALUES, MOST_PARAMETERS};
use super::generic::{Callee, Generic, Of};
use super::names::Value;
use super::tree::*;
use super::types::{Shape, Ty};
use tane_checked::imported;

const MOST_FIELDS: usize = 200;

/// A type that every program has.
fn own(name: &str) -> Option<Ty> {
    Some(match name {
        "int" => Ty::Int,
        "bool" => Ty::Bool,
        "text" => Ty::Text,
        "bytes" => Ty::Bytes,
        "file" => Ty::File,
        _ => return None,
    })
}

impl<'a> Checker<'a> {
    pub fn declare(&mut self) -> Result<()> {
        let (program, generic) = (self.program, self.generic);
        for record in &program.records {
            let number = self.known.add_record(&record.name);
            let of = Of::Plain(Ty::Record(number));
            self.name_type(record.at, &record.name, record.public, of)?;
        }
        for (i, record) in generic.records.iter().enumerate() {
            let of = Of::Generic(Generic::Record(i));
            self.name_type(record.at, &record.name, record.public, of)?;
        }
        for variant in &program.variants {
            let number = self.known.add_variant(&variant.name);
            self.name_variant(variant, &Of::Plain(Ty::Variant(number)))?;
        }
        for (i, variant) in generic.variants.iter().enumerate() {
            self.name_variant(variant, &Of::Generic(Generic::Variant(i)))?;
        }
        self.declare_generic()?;
        for (i, record) in program.records.iter().enumerate() {
            self.known.records[i] = self.shape(record, &[])?;
        }
        for (i, variant) in program.variants.iter().enumerate() {
            let cases = variant.cases.iter().map(|case| self.shape(case, &[]));
            self.known.variants[i].1 = cases.collect::<Result<Vec<Shape>>>()?;
        }
        for (i, function) in program.functions.iter().enumerate() {
            self.name_function(function, Callee::Plain(i))?;
            let (parameters, result) = self.signature(function, &[])?;
            let numbers = parameters.iter().all(|ty| *ty == Ty::Int);
            if function.export && !(numbers && matches!(result, Ty::Nothing | Ty::Int)) {
                let what = "what is exported takes and gives int: who calls it has no other types";
                return wrong(function.at, what);
            }
            self.known.functions.push((parameters, result));
        }
        self.settle()
    }

    /// Whether it is one that every program has, or the file itself.
    pub fn is_type(&self, at: usize, name: &str) -> bool {
        own(name).is_some() || self.names.own(at, name).is_some()
    }

    fn name_type(&mut self, at: usize, name: &str, public: bool, of: Of) -> Result<()> {
        match own(name).is_none() && self.names.add(at, name, public, of) {
            true => Ok(()),
            false => wrong(at, format!("there is a type {name} already")),
        }
    }

    fn name_variant(&mut self, variant: &Variant, of: &Of) -> Result<()> {
        let public = variant.public;
        self.name_type(variant.at, &variant.name, public, of.clone())?;
        if variant.cases.is_empty() {
            return wrong(variant.at, format!("{} has no case", variant.name));
        }
        for (i, case) in variant.cases.iter().enumerate() {
            let it = Value::Case(of.clone(), i);
            if !self.values.add(case.at, &case.name, public, it) {
                return wrong(case.at, format!("there is a case {} already", case.name));
            }
        }
        Ok(())
    }

    pub fn name_function(&mut self, function: &Function, callee: Callee) -> Result<()> {
        let name = &function.name;
        let taken = BUILT.iter().any(|built| built.to_string() == *name);
        let taken = taken || imported(name).is_some();
        let it = Value::Function(callee);
        if taken || !self.values.add(function.at, name, function.public, it) {
            return wrong(function.at, format!("there is a function {name} already"));
        }
        let all = &function.parameters;
        if all.len() > MOST_PARAMETERS {
            let what = format!("a function has at most {MOST_PARAMETERS} parameters");
            return wrong(function.at, what);
        }
        for (i, parameter) in all.iter().enumerate() {
            let name = &parameter.name;
            if all[..i].iter().any(|other| other.name == *name) {
                let what = format!("there is a parameter {name} already");
                return wrong(parameter.at, what);
            }
        }
        Ok(())
    }

    /// What a function takes and gives.
    pub fn signature(
        &mut self,
        function: &Function,
        bound: &[(&str, Ty)],
    ) -> Result<(Vec<Ty>, Ty)> {
        let types = function.parameters.iter();
        let types = types.map(|it| self.resolve(&it.ty, bound));
        let types = types.collect::<Result<Vec<Ty>>>()?;
        let result = match &function.result {
            Some(ty) => self.resolve(ty, bound)?,
            None => Ty::Nothing,
        };
        Ok((types, result))
    }

    /// That its fields have names of their own, and are not too many.
    pub fn fields(&self, record: &Record) -> Result<()> {
        for (i, field) in record.fields.iter().enumerate() {
            if record.fields[..i].iter().any(|it| it.name == field.name) {
                return wrong(field.at, format!("there is a field {} already", field.name));
            }
        }
        match record.fields.len() {
            0..=MOST_FIELDS => Ok(()),
            _ => wrong(record.at, format!("more than {MOST_FIELDS} fields")),
        }
    }

    pub fn shape(&mut self, record: &Record, bound: &[(&str, Ty)]) -> Result<Shape> {
        self.fields(record)?;
        let mut fields = Vec::new();
        for field in &record.fields {
            fields.push((field.name.clone(), self.resolve(&field.ty, bound)?));
        }
        Ok(Shape {
            name: record.name.clone(),
            fields,
        })
    }

    /// The type that is written here.
    pub fn ty(&mut self, written: &Written) -> Result<Ty> {
        let bound = std::mem::take(&mut self.bound);
        let ty = self.resolve(written, &bound)?;
        self.bound = bound;
        self.settle()?;
        Ok(ty)
    }

    /// A type, where parameters are these. Instances in it have no fields before
    /// [`Checker::settle`].
    pub fn resolve(&mut self, written: &Written, bound: &[(&str, Ty)]) -> Result<Ty> {
        Ok(match &written.kind {
            WrittenKind::Array(element) => Ty::Array(Box::new(self.resolve(element, bound)?)),
            WrittenKind::Function(arguments, result) => {
                if arguments.len() >= MOST_PARAMETERS {
                    return wrong(written.at, MOST_OF_VALUES);
                }
                let arguments = arguments.iter().map(|ty| self.resolve(ty, bound));
                let arguments = arguments.collect::<Result<Vec<Ty>>>()?;
                let result = match result {
                    Some(ty) => self.resolve(ty, bound)?,
                    None => Ty::Nothing,
                };
                Ty::Function(arguments, Box::new(result))
            }
            WrittenKind::Name(name, types) => {
                if let Some((_, ty)) = bound.iter().find(|(known, _)| known == name) {
                    not_generic(written.at, name, types)?;
                    return Ok(ty.clone());
                }
                match self.type_named(written.at, name, types)? {
                    Of::Plain(ty) => ty,
                    Of::Generic(generic) => {
                        let types = types.iter().map(|ty| self.resolve(ty, bound));
                        let types = types.collect::<Result<Vec<Ty>>>()?;
                        self.type_of(written.at, generic, types)?
                    }
                }
            }
        })
    }

    /// What a type's name stands for, if it is made of as many types as it takes.
    pub fn type_named(&self, at: usize, name: &str, types: &[Written]) -> Result<Of> {
        let found = match own(name) {
            Some(ty) => Of::Plain(ty),
            None => match self.names.get(at, name) {
                Some(found) => found.clone(),
                None => {
                    let hidden = self.names.hidden(name);
                    return wrong(at, format!("there is no type {name}{hidden}"));
                }
            },
        };
        match &found {
            Of::Plain(_) => not_generic(at, name, types)?,
            Of::Generic(generic) => self.count_types(at, *generic, types.len())?,
        }
        Ok(found)
    }
}

/// That nothing is written between < and > behind it.
pub(super) fn not_generic(at: usize, name: &str, types: &[Written]) -> Result<()> {
    match types {
        [] => Ok(()),
        _ => wrong(at, format!("{name} is not generic")),
    }
}
