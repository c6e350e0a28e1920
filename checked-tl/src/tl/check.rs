//! Whether a program keeps its types, and what its names stand for.

use super::tree::*;
use super::types::{Built, Known, Name, Shape, Ty};
use super::Mistake;
use std::collections::HashMap;
use tane_checked::imported;

pub(super) type Result<T> = std::result::Result<T, Mistake>;

pub(super) const BUILT: [Built; 4] = [Built::Len, Built::Bytes, Built::Print, Built::Number];
const TYPES: [&str; 5] = ["int", "bool", "text", "bytes", "file"];
/// Registers that arguments are in.
pub(super) const MOST_PARAMETERS: usize = 6;
const MOST_FIELDS: usize = 200;
pub(super) const MOST_OF_VALUES: &str = "a function that is a value has at most 5 parameters";

/// Checks a program.
pub fn check(program: &Program) -> Result<Known> {
    let mut it = Checker {
        program,
        known: Known::default(),
        names: HashMap::new(),
        cases: HashMap::new(),
        functions: HashMap::new(),
        scopes: Vec::new(),
        result: Ty::Nothing,
        loops: 0,
        around: Vec::new(),
    };
    it.declare()?;
    for (i, function) in program.functions.iter().enumerate() {
        it.function(i, function)?;
    }
    Ok(it.known)
}

pub(super) struct Variable {
    pub name: String,
    pub id: usize,
    pub changes: bool,
}

pub(super) struct Checker<'a> {
    pub program: &'a Program,
    pub known: Known,
    /// Types by their names.
    pub names: HashMap<String, Ty>,
    pub cases: HashMap<String, (usize, usize)>,
    pub functions: HashMap<String, usize>,
    pub scopes: Vec<Variable>,
    pub result: Ty,
    pub loops: usize,
    /// Of functions without names around this: how many variables are outside, and those of
    /// them that are used.
    pub around: Vec<(usize, Vec<usize>)>,
}

pub(super) fn wrong<T>(at: usize, what: impl Into<String>) -> Result<T> {
    Err(Mistake::new(at, what))
}

impl<'a> Checker<'a> {
    fn declare(&mut self) -> Result<()> {
        let program = self.program;
        for (i, record) in program.records.iter().enumerate() {
            self.name_type(record.at, &record.name, Ty::Record(i))?;
        }
        for (i, variant) in program.variants.iter().enumerate() {
            self.name_type(variant.at, &variant.name, Ty::Variant(i))?;
            if variant.cases.is_empty() {
                return wrong(variant.at, format!("{} has no case", variant.name));
            }
            for (j, case) in variant.cases.iter().enumerate() {
                if self.cases.insert(case.name.clone(), (i, j)).is_some() {
                    return wrong(case.at, format!("there is a case {} already", case.name));
                }
            }
        }
        for record in &program.records {
            let shape = self.shape(record)?;
            self.known.records.push(shape);
        }
        for variant in &program.variants {
            let cases = variant.cases.iter().map(|case| self.shape(case));
            let cases = cases.collect::<Result<Vec<Shape>>>()?;
            self.known.variants.push((variant.name.clone(), cases));
        }
        for (i, function) in program.functions.iter().enumerate() {
            let name = &function.name;
            let taken = BUILT.iter().any(|built| built.to_string() == *name);
            let taken = taken || imported(name).is_some() || self.cases.contains_key(name);
            if taken || self.functions.insert(name.clone(), i).is_some() {
                return wrong(function.at, format!("there is a function {name} already"));
            }
            if function.parameters.len() > MOST_PARAMETERS {
                let what = format!("a function has at most {MOST_PARAMETERS} parameters");
                return wrong(function.at, what);
            }
            let parameters = function.parameters.iter().map(|p| self.ty(&p.ty));
            let parameters = parameters.collect::<Result<Vec<Ty>>>()?;
            let result = match &function.result {
                Some(ty) => self.ty(ty)?,
                None => Ty::Nothing,
            };
            let numbers = parameters.iter().all(|ty| *ty == Ty::Int);
            if function.export && !(numbers && matches!(result, Ty::Nothing | Ty::Int)) {
                let what = "what is exported takes and gives int: who calls it has no other types";
                return wrong(function.at, what);
            }
            self.known.functions.push((parameters, result));
        }
        Ok(())
    }

    fn name_type(&mut self, at: usize, name: &str, ty: Ty) -> Result<()> {
        let taken = TYPES.contains(&name);
        match taken || self.names.insert(name.to_owned(), ty).is_some() {
            true => wrong(at, format!("there is a type {name} already")),
            false => Ok(()),
        }
    }

    fn shape(&self, record: &Record) -> Result<Shape> {
        let mut fields: Vec<(String, Ty)> = Vec::new();
        for field in &record.fields {
            if fields.iter().any(|(name, _)| *name == field.name) {
                return wrong(field.at, format!("there is a field {} already", field.name));
            }
            fields.push((field.name.clone(), self.ty(&field.ty)?));
        }
        if fields.len() > MOST_FIELDS {
            return wrong(record.at, format!("more than {MOST_FIELDS} fields"));
        }
        Ok(Shape {
            name: record.name.clone(),
            fields,
        })
    }

    pub fn ty(&self, written: &Written) -> Result<Ty> {
        Ok(match &written.kind {
            WrittenKind::Array(element) => Ty::Array(Box::new(self.ty(element)?)),
            WrittenKind::Function(arguments, result) => {
                if arguments.len() >= MOST_PARAMETERS {
                    return wrong(written.at, MOST_OF_VALUES);
                }
                let arguments = arguments.iter().map(|ty| self.ty(ty));
                let arguments = arguments.collect::<Result<Vec<Ty>>>()?;
                let result = match result {
                    Some(ty) => self.ty(ty)?,
                    None => Ty::Nothing,
                };
                Ty::Function(arguments, Box::new(result))
            }
            WrittenKind::Name(name) => match name.as_str() {
                "int" => Ty::Int,
                "bool" => Ty::Bool,
                "text" => Ty::Text,
                "bytes" => Ty::Bytes,
                "file" => Ty::File,
                name => match self.names.get(name) {
                    Some(ty) => ty.clone(),
                    None => return wrong(written.at, format!("there is no type {name}")),
                },
            },
        })
    }

    fn function(&mut self, i: usize, function: &'a Function) -> Result<()> {
        let (parameters, result) = self.known.functions[i].clone();
        self.scopes.clear();
        self.result = result;
        for (parameter, ty) in function.parameters.iter().zip(parameters) {
            if self.find(&parameter.name).is_some() {
                let what = format!("there is a parameter {} already", parameter.name);
                return wrong(parameter.at, what);
            }
            self.bind(parameter.id, &parameter.name, ty, false);
        }
        let ends = self.block(&function.body)?;
        match ends || self.result == Ty::Nothing {
            true => Ok(()),
            false => wrong(
                function.end,
                format!("{} can come here without a return", function.name),
            ),
        }
    }

    pub fn bind(&mut self, id: usize, name: &str, ty: Ty, changes: bool) {
        self.known.types.insert(id, ty);
        self.scopes.push(Variable {
            name: name.to_owned(),
            id,
            changes,
        });
    }

    pub fn find(&self, name: &str) -> Option<&Variable> {
        self.scopes
            .iter()
            .rev()
            .find(|variable| variable.name == name)
    }

    /// Whether control never comes to its end.
    pub fn block(&mut self, block: &'a [Stmt]) -> Result<bool> {
        let outer = self.scopes.len();
        let mut ended = false;
        for stmt in block {
            if ended {
                return wrong(stmt.at, "nothing leads here");
            }
            ended = self.stmt(stmt)?;
        }
        self.scopes.truncate(outer);
        Ok(ended)
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Result<bool> {
        match &stmt.kind {
            StmtKind::Let {
                id,
                name,
                changes,
                ty,
                value,
            } => {
                let wanted = ty.as_ref().map(|ty| self.ty(ty)).transpose()?;
                let found = match &wanted {
                    Some(ty) => self.is(value, ty)?,
                    None => self.expr(value, None)?,
                };
                if found == Ty::Nothing {
                    return wrong(value.at, "this gives nothing that a variable could hold");
                }
                self.bind(*id, name, wanted.unwrap_or(found), *changes);
            }
            StmtKind::Assign(place, value) => {
                let ty = match &place.kind {
                    ExprKind::Name(name) => match self.find(name) {
                        Some(variable) if !variable.changes => {
                            let what = format!("{name} does not change: declare it with var");
                            return wrong(place.at, what);
                        }
                        _ => self.expr(place, None)?,
                    },
                    ExprKind::Index(array, _) => {
                        let ty = self.expr(place, None)?;
                        if self.known.ty(array.id) == Ty::Text {
                            return wrong(place.at, "a text does not change: use bytes");
                        }
                        ty
                    }
                    ExprKind::Field(..) => self.expr(place, None)?,
                    _ => {
                        let what = "only variables, fields and elements are assigned to";
                        return wrong(place.at, what);
                    }
                };
                if let Some(Name::Variable(_)) | None = self.known.names.get(&place.id) {
                    self.is(value, &ty)?;
                } else {
                    return wrong(place.at, "a function is not assigned to");
                }
            }
            StmtKind::While(condition, body) => {
                self.is(condition, &Ty::Bool)?;
                self.looped(body)?;
                let forever = condition.kind == ExprKind::Bool(true);
                return Ok(forever && !breaks(body));
            }
            StmtKind::For {
                id,
                name,
                from,
                to,
                body,
            } => {
                self.is(from, &Ty::Int)?;
                self.is(to, &Ty::Int)?;
                let outer = self.scopes.len();
                self.bind(*id, name, Ty::Int, false);
                self.looped(body)?;
                self.scopes.truncate(outer);
            }
            StmtKind::If(condition, then, or) => {
                self.is(condition, &Ty::Bool)?;
                let then = self.block(then)?;
                return Ok(self.block(or)? && then);
            }
            StmtKind::Match(value, arms) => return self.matched(stmt.at, value, arms),
            StmtKind::Return(value) => {
                let result = self.result.clone();
                match (value, &result) {
                    (None, Ty::Nothing) => {}
                    (None, _) => {
                        let what = format!("the function gives {}", self.known.show(&result));
                        return wrong(stmt.at, what);
                    }
                    (Some(value), Ty::Nothing) => {
                        return wrong(value.at, "the function gives nothing");
                    }
                    (Some(value), _) => {
                        self.is(value, &result)?;
                    }
                }
                return Ok(true);
            }
            StmtKind::Break | StmtKind::Continue => {
                return match self.loops {
                    0 => wrong(stmt.at, "there is no loop around this"),
                    _ => Ok(true),
                };
            }
            StmtKind::Expr(value) => {
                if !matches!(value.kind, ExprKind::Call(..)) {
                    return wrong(value.at, "this does nothing");
                }
                self.expr(value, None)?;
            }
        }
        Ok(false)
    }

    fn looped(&mut self, body: &'a [Stmt]) -> Result<()> {
        self.loops += 1;
        self.block(body)?;
        self.loops -= 1;
        Ok(())
    }

    fn matched(&mut self, at: usize, value: &'a Expr, arms: &'a [Arm]) -> Result<bool> {
        let ty = self.expr(value, None)?;
        let Ty::Variant(variant) = ty else {
            let what = format!(
                "match is for variants, and this is {}",
                self.known.show(&ty)
            );
            return wrong(value.at, what);
        };
        let cases = self.known.variants[variant].1.clone();
        let mut seen = vec![false; cases.len()];
        let mut all_end = true;
        for arm in arms {
            if seen.iter().all(|seen| *seen) {
                return wrong(arm.at, "all cases are there already");
            }
            let outer = self.scopes.len();
            let found = match &arm.case {
                None => {
                    seen.fill(true);
                    None
                }
                Some(name) => {
                    let case = cases.iter().position(|case| case.name == *name);
                    let Some(case) = case else {
                        let what = format!("{} has no case {name}", self.known.show(&ty));
                        return wrong(arm.at, what);
                    };
                    if std::mem::replace(&mut seen[case], true) {
                        return wrong(arm.at, format!("{name} is there already"));
                    }
                    let fields = &cases[case].fields;
                    if fields.len() != arm.names.len() {
                        let what = format!("{name} has {} fields", fields.len());
                        return wrong(arm.at, what);
                    }
                    for ((id, name), (_, ty)) in arm.names.iter().zip(fields) {
                        self.bind(*id, name, ty.clone(), false);
                    }
                    Some((variant, case))
                }
            };
            self.known.arms.insert(arm.at, found);
            all_end &= self.block(&arm.body)?;
            self.scopes.truncate(outer);
        }
        if let Some(missing) = seen.iter().position(|seen| !seen) {
            let what = format!("{} is missing: add it, or _", cases[missing].name);
            return wrong(at, what);
        }
        Ok(all_end)
    }
}

/// Whether a break in it leaves this loop.
fn breaks(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break => true,
        StmtKind::If(_, then, or) => breaks(then) || breaks(or),
        StmtKind::Match(_, arms) => arms.iter().any(|arm| breaks(&arm.body)),
        _ => false,
    })
}
