//! Types, and what names stand for.

use std::collections::HashMap;
use std::fmt;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// What a function gives that gives nothing.
    Nothing,
    Int,
    Bool,
    Text,
    Bytes,
    File,
    Array(Box<Ty>),
    Record(usize),
    Variant(usize),
    Function(Vec<Ty>, Box<Ty>),
}

/// What a name or a call stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A variable, by the number of what declares it.
    Variable(usize),
    Function(usize),
    /// A case of a variant, which has no fields or is called.
    Case(usize, usize),
    Built(Built),
    /// What is imported.
    Import(String),
}

/// Functions of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    Len,
    Bytes,
    Print,
    /// What a descriptor is, or the error that it is instead.
    Number,
}

/// A function without a name.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The number of its expression.
    pub id: usize,
    pub ty: Ty,
    /// Variables of around it, by the numbers of what declares them.
    pub captures: Vec<usize>,
}

/// Fields of a record or a case.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub name: String,
    pub fields: Vec<(String, Ty)>,
}

/// What was found out of a program.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub records: Vec<Shape>,
    /// The name, and the cases.
    pub variants: Vec<(String, Vec<Shape>)>,
    /// Of functions: parameters, and the result.
    pub functions: Vec<(Vec<Ty>, Ty)>,
    pub closed: Vec<Closed>,
    /// By the number of an expression, or of what declares a variable.
    pub types: HashMap<usize, Ty>,
    /// By the number of an expression that is a name or a call.
    pub names: HashMap<usize, Name>,
    /// By the number of an arm: the variant and the case; none for `_`.
    pub arms: HashMap<usize, Option<(usize, usize)>>,
    /// What instances of generic types are made of.
    pub made_of: HashMap<Ty, Vec<Ty>>,
}

impl Known {
    /// The type as it is written.
    pub fn show(&self, ty: &Ty) -> String {
        match ty {
            Ty::Nothing => "nothing".into(),
            Ty::Int => "int".into(),
            Ty::Bool => "bool".into(),
            Ty::Text => "text".into(),
            Ty::Bytes => "bytes".into(),
            Ty::File => "file".into(),
            Ty::Array(element) => format!("[{}]", self.show(element)),
            Ty::Record(i) => self.instance(ty, &self.records[*i].name),
            Ty::Variant(i) => self.instance(ty, &self.variants[*i].0),
            Ty::Function(arguments, result) => {
                let all: Vec<String> = arguments.iter().map(|ty| self.show(ty)).collect();
                match **result {
                    Ty::Nothing => format!("fn({})", all.join(", ")),
                    _ => format!("fn({}): {}", all.join(", "), self.show(result)),
                }
            }
        }
    }

    fn instance(&self, ty: &Ty, name: &str) -> String {
        let Some(types) = self.made_of.get(ty) else {
            return name.to_owned();
        };
        let all: Vec<String> = types.iter().map(|ty| self.show(ty)).collect();
        format!("{name}<{}>", all.join(", "))
    }

    /// The number of a variant.
    pub fn variant(&self, ty: &Ty) -> usize {
        match ty {
            Ty::Variant(i) => *i,
            _ => 0,
        }
    }

    /// The number of a record whose fields come later.
    pub fn add_record(&mut self, name: &str) -> usize {
        self.records.push(Shape {
            name: name.to_owned(),
            fields: Vec::new(),
        });
        self.records.len() - 1
    }

    /// The number of a variant whose cases come later.
    pub fn add_variant(&mut self, name: &str) -> usize {
        self.variants.push((name.to_owned(), Vec::new()));
        self.variants.len() - 1
    }

    /// The type of an expression or a variable.
    pub fn ty(&self, id: usize) -> Ty {
        self.types.get(&id).cloned().unwrap_or(Ty::Nothing)
    }
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Built::Len => "len",
            Built::Bytes => "bytes",
            Built::Print => "print",
            Built::Number => "number",
        })
    }
}
