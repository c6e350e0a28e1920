//! Whether a program keeps its types, and what its names stand for.

use super::files::Files;
use super::generic::{apart, Bound, Instances, Of};
use super::names::{Names, Value};
use super::tree::*;
use super::types::{Built, Known, Name, Ty};
use super::Mistake;

pub(super) type Result<T> = std::result::Result<T, Mistake>;

pub(super) const BUILT: [Built; 4] = [Built::Len, Built::Bytes, Built::Print, Built::Number];
/// Names and brackets in a variable's type: what is within each other has to be walked through.
const MOST_PARTS: usize = 1000;
/// Registers that arguments are in.
pub(super) const MOST_PARAMETERS: usize = 6;
pub(super) const MOST_OF_VALUES: &str = "a function that is a value has at most 5 parameters";

/// Checks a program: what is generic in it is there for each of its instances behind this.
pub fn check(program: Program, files: &Files) -> Result<(Program, Known)> {
    let (mut program, generic) = apart(program);
    let mut it = Checker {
        program: &program,
        generic: &generic,
        known: Known::default(),
        names: Names::new(files),
        values: Names::new(files),
        instances: Instances::default(),
        bound: Bound::new(),
        scopes: Vec::new(),
        result: Ty::Nothing,
        loops: 0,
        around: Vec::new(),
    };
    it.declare()?;
    for (i, function) in program.functions.iter().enumerate() {
        it.function(i, function)?;
    }
    it.bodies()?;
    let (known, instances) = (it.known, it.instances.functions);
    program.functions.extend(instances);
    Ok((program, known))
}

pub(super) struct Variable {
    pub name: String,
    pub id: usize,
    pub changes: bool,
}

pub(super) struct Checker<'a> {
    pub program: &'a Program,
    /// What is generic.
    pub generic: &'a Program,
    pub known: Known,
    /// Types by their names.
    pub names: Names<'a, Of>,
    /// Cases and functions.
    pub values: Names<'a, Value>,
    pub instances: Instances,
    /// Parameters of the function, if it is an instance.
    pub bound: Bound<'a>,
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

impl Checker<'_> {
    pub fn function(&mut self, i: usize, function: &Function) -> Result<()> {
        let (parameters, result) = self.known.functions[i].clone();
        self.scopes.clear();
        self.result = result;
        for (parameter, ty) in function.parameters.iter().zip(parameters) {
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
    pub fn block(&mut self, block: &[Stmt]) -> Result<bool> {
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

    fn stmt(&mut self, stmt: &Stmt) -> Result<bool> {
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
                if self.parts(&found) > MOST_PARTS {
                    return wrong(value.at, "an array of too many arrays within each other");
                }
                self.bind(*id, name, wanted.unwrap_or(found), *changes);
            }
            StmtKind::Assign(place, value) => {
                let ty = match &place.kind {
                    ExprKind::Name(named) => match self.find(&named.name) {
                        Some(variable) if !variable.changes => {
                            let what =
                                format!("{} does not change: declare it with var", named.name);
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

    fn looped(&mut self, body: &[Stmt]) -> Result<()> {
        self.loops += 1;
        self.block(body)?;
        self.loops -= 1;
        Ok(())
    }

    fn matched(&mut self, at: usize, value: &Expr, arms: &[Arm]) -> Result<bool> {
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
            self.known.arms.insert(arm.id, found);
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
