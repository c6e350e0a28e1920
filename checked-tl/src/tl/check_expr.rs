//! Types of expressions.

use super::check::{wrong, Checker, Result, BUILT, MOST_OF_VALUES, MOST_PARAMETERS};
use super::declare::not_generic;
use super::generic::Callee;
use super::names::Value;
use super::tree::*;
use super::types::{Built, Closed, Name, Ty};
use tane_checked::{imported, Kind, Type};

impl Checker<'_> {
    /// Checks an expression that has to be of a type.
    pub fn is(&mut self, value: &Expr, wanted: &Ty) -> Result<Ty> {
        let found = self.expr(value, Some(wanted))?;
        match found == *wanted {
            true => Ok(found),
            false => {
                let (wanted, found) = (self.known.show(wanted), self.known.show(&found));
                wrong(value.at, format!("this is {found}, and {wanted} is needed"))
            }
        }
    }

    /// The type of an expression; what is wanted helps where it does not say it itself.
    pub fn expr(&mut self, value: &Expr, wanted: Option<&Ty>) -> Result<Ty> {
        let ty = self.found(value, wanted)?;
        self.known.types.insert(value.id, ty.clone());
        Ok(ty)
    }

    fn found(&mut self, value: &Expr, wanted: Option<&Ty>) -> Result<Ty> {
        Ok(match &value.kind {
            ExprKind::Int(_) => Ty::Int,
            ExprKind::Bool(_) => Ty::Bool,
            ExprKind::Text(_) => Ty::Text,
            ExprKind::Name(named) => return self.name(value, named, wanted),
            ExprKind::Call(named, arguments) => {
                return self.call(value, named, arguments, wanted);
            }
            ExprKind::Make(named, fields) => return self.make(value, named, fields, wanted),
            ExprKind::List(all) => {
                let mut element = match wanted {
                    Some(Ty::Array(element)) => Some((**element).clone()),
                    _ => None,
                };
                // The first one that says it itself says it for all.
                let told = all.iter().filter(|_| element.is_none());
                let told = told
                    .filter(|one| !self.is_open(one))
                    .map(|one| one.id)
                    .next();
                let (first, rest): (Vec<_>, Vec<_>) =
                    all.iter().partition(|one| Some(one.id) == told);
                for one in first.into_iter().chain(rest) {
                    match &element {
                        Some(ty) => self.is(one, &ty.clone())?,
                        None => element.insert(self.expr(one, None)?).clone(),
                    };
                }
                match element {
                    Some(Ty::Nothing) => return wrong(value.at, "elements that are nothing"),
                    Some(element) => Ty::Array(Box::new(element)),
                    None => return wrong(value.at, "an array of what? let NAME: [TYPE] = []"),
                }
            }
            ExprKind::Fill(one, count) => {
                self.is(count, &Ty::Int)?;
                let element = match wanted {
                    Some(Ty::Array(element)) => self.is(one, element)?,
                    _ => self.expr(one, None)?,
                };
                if element == Ty::Nothing {
                    return wrong(one.at, "elements that are nothing");
                }
                Ty::Array(Box::new(element))
            }
            ExprKind::Field(of, name) => {
                let ty = self.expr(of, None)?;
                let Ty::Record(record) = ty else {
                    let what = format!("{} has no fields", self.known.show(&ty));
                    return wrong(value.at, what);
                };
                let fields = &self.known.records[record].fields;
                match fields.iter().find(|(field, _)| field == name) {
                    Some((_, ty)) => ty.clone(),
                    None => {
                        let what = format!("{} has no field {name}", self.known.show(&ty));
                        return wrong(value.at, what);
                    }
                }
            }
            ExprKind::Index(of, index) => {
                let ty = self.expr(of, None)?;
                self.is(index, &Ty::Int)?;
                match ty {
                    Ty::Array(element) => *element,
                    Ty::Text | Ty::Bytes => Ty::Int,
                    _ => {
                        let what = format!("{} has no elements", self.known.show(&ty));
                        return wrong(value.at, what);
                    }
                }
            }
            ExprKind::Negate(of) => self.is(of, &Ty::Int)?,
            ExprKind::Not(of) => {
                let ty = self.expr(of, None)?;
                if !matches!(ty, Ty::Bool | Ty::Int) {
                    return wrong(of.at, "! is for bool, and for the bits of an int");
                }
                ty
            }
            ExprKind::Lambda(lambda) => return self.lambda(value, lambda),
            ExprKind::Binary(op, left, right) => return self.binary(*op, left, right),
        })
    }

    fn binary(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Ty> {
        match op {
            Op::And | Op::Or => {
                self.is(left, &Ty::Bool)?;
                self.is(right, &Ty::Bool)
            }
            Op::Equal | Op::Unequal => {
                let ty = self.expr(left, None)?;
                if !matches!(ty, Ty::Int | Ty::Bool) {
                    let what =
                        format!("{} is not compared: int and bool are", self.known.show(&ty));
                    return wrong(left.at, what);
                }
                self.is(right, &ty)?;
                Ok(Ty::Bool)
            }
            _ => {
                self.is(left, &Ty::Int)?;
                self.is(right, &Ty::Int)?;
                Ok(if op.compares() { Ty::Bool } else { Ty::Int })
            }
        }
    }

    fn name(&mut self, value: &Expr, named: &Named, wanted: Option<&Ty>) -> Result<Ty> {
        let name = &named.name;
        let (found, ty) = if let Some(id) = self.variable(value.at, name)? {
            not_generic(value.at, name, &named.types)?;
            (Name::Variable(id), self.known.ty(id))
        } else if let Some(Value::Case(of, case)) = self.values.get(value.at, name).cloned() {
            if !self.case_fields(&of, case).is_empty() {
                return wrong(value.at, format!("{name} has fields: {name}(...)"));
            }
            let ty = self.case(value, (named, &of), &[], wanted)?;
            (Name::Case(self.known.variant(&ty), case), ty)
        } else if let Some(Value::Function(callee)) = self.values.get(value.at, name).cloned() {
            let function = match callee {
                Callee::Plain(i) => {
                    self.not_exported(value.at, named, i)?;
                    i
                }
                Callee::Generic(i) => self.infer_value((value.at, named), i, wanted)?,
            };
            let (arguments, result) = self.known.functions[function].clone();
            if arguments.len() >= MOST_PARAMETERS {
                return wrong(value.at, MOST_OF_VALUES);
            }
            let ty = Ty::Function(arguments, Box::new(result));
            (Name::Function(function), ty)
        } else {
            let hidden = self.values.hidden(name);
            return wrong(value.at, format!("there is no {name} here{hidden}"));
        };
        self.known.names.insert(value.id, found);
        Ok(ty)
    }

    fn not_exported(&self, at: usize, named: &Named, function: usize) -> Result<()> {
        let name = &named.name;
        not_generic(at, name, &named.types)?;
        match self.program.functions[function].export {
            true => wrong(at, format!("{name} is exported: only the host calls it")),
            false => Ok(()),
        }
    }

    /// A variable; functions without names that it is outside of take it in.
    fn variable(&mut self, at: usize, name: &str) -> Result<Option<usize>> {
        let found = self
            .scopes
            .iter()
            .rposition(|variable| variable.name == name);
        let Some(i) = found else {
            return Ok(None);
        };
        let (id, changes) = (self.scopes[i].id, self.scopes[i].changes);
        for (outside, used) in &mut self.around {
            if i < *outside && changes {
                let what = format!("{name} changes, and this function may run later: use a let");
                return wrong(at, what);
            }
            if i < *outside && !used.contains(&id) {
                used.push(id);
            }
        }
        Ok(Some(id))
    }

    fn lambda(&mut self, value: &Expr, lambda: &Lambda) -> Result<Ty> {
        if lambda.parameters.len() >= MOST_PARAMETERS {
            return wrong(value.at, MOST_OF_VALUES);
        }
        let types = lambda.parameters.iter().map(|p| self.ty(&p.ty));
        let types = types.collect::<Result<Vec<Ty>>>()?;
        let result = match &lambda.result {
            Some(ty) => self.ty(ty)?,
            None => Ty::Nothing,
        };
        let outer = std::mem::replace(&mut self.result, result.clone());
        let loops = std::mem::take(&mut self.loops);
        let outside = self.scopes.len();
        self.around.push((outside, Vec::new()));
        for (parameter, ty) in lambda.parameters.iter().zip(&types) {
            self.bind(parameter.id, &parameter.name, ty.clone(), false);
        }
        let ends = self.block(&lambda.body)?;
        self.scopes.truncate(outside);
        let captures = self.around.pop().map_or(Vec::new(), |(_, used)| used);
        (self.result, self.loops) = (outer, loops);
        if !ends && result != Ty::Nothing {
            return wrong(lambda.end, "this can come here without a return");
        }
        let ty = Ty::Function(types, Box::new(result));
        self.known.closed.push(Closed {
            id: value.id,
            ty: ty.clone(),
            captures,
        });
        Ok(ty)
    }

    fn call(
        &mut self,
        value: &Expr,
        named: &Named,
        arguments: &[Expr],
        wanted: Option<&Ty>,
    ) -> Result<Ty> {
        let name = &named.name;
        if let Some(built) = BUILT.iter().find(|built| built.to_string() == *name) {
            not_generic(value.at, name, &named.types)?;
            self.known.names.insert(value.id, Name::Built(*built));
            return self.built(value.at, *built, arguments);
        }
        let (found, result) = if let Some(id) = self.variable(value.at, name)? {
            not_generic(value.at, name, &named.types)?;
            let Ty::Function(takes, result) = self.known.ty(id) else {
                return wrong(value.at, format!("{name} is no function"));
            };
            self.give(value.at, name, arguments, &takes)?;
            (Name::Variable(id), *result)
        } else if let Some(Value::Case(of, case)) = self.values.get(value.at, name).cloned() {
            let fields = self.case_fields(&of, case);
            self.count(value.at, name, arguments, fields.len())?;
            let types = fields.iter().map(|field| &field.ty);
            let pairs: Vec<(&Written, &Expr)> = types.zip(arguments).collect();
            let ty = self.case(value, (named, &of), &pairs, wanted)?;
            (Name::Case(self.known.variant(&ty), case), ty)
        } else if let Some(Value::Function(callee)) = self.values.get(value.at, name).cloned() {
            let function = match callee {
                Callee::Plain(i) => {
                    self.not_exported(value.at, named, i)?;
                    let (takes, _) = self.known.functions[i].clone();
                    self.give(value.at, name, arguments, &takes)?;
                    i
                }
                Callee::Generic(i) => {
                    let takes = self.generic.functions[i].parameters.len();
                    self.count(value.at, name, arguments, takes)?;
                    self.infer_call((value.at, named), i, arguments, wanted)?
                }
            };
            let (_, result) = self.known.functions[function].clone();
            (Name::Function(function), result)
        } else if imported(name).is_some() {
            not_generic(value.at, name, &named.types)?;
            return self.import(value, name, arguments);
        } else {
            let hidden = self.values.hidden(name);
            return wrong(value.at, format!("there is no function {name}{hidden}"));
        };
        self.known.names.insert(value.id, found);
        Ok(result)
    }

    /// Arguments for what takes these.
    fn give(&mut self, at: usize, name: &str, arguments: &[Expr], takes: &[Ty]) -> Result<()> {
        self.count(at, name, arguments, takes.len())?;
        for (argument, ty) in arguments.iter().zip(takes) {
            self.is(argument, ty)?;
        }
        Ok(())
    }

    fn count(&self, at: usize, name: &str, arguments: &[Expr], wanted: usize) -> Result<()> {
        match arguments.len() == wanted {
            true => Ok(()),
            false => wrong(
                at,
                format!("{name} takes {wanted}, and {} are here", arguments.len()),
            ),
        }
    }

    fn built(&mut self, at: usize, built: Built, arguments: &[Expr]) -> Result<Ty> {
        self.count(at, &built.to_string(), arguments, 1)?;
        let argument = &arguments[0];
        Ok(match built {
            Built::Bytes => {
                self.is(argument, &Ty::Int)?;
                Ty::Bytes
            }
            Built::Number => {
                self.is(argument, &Ty::File)?;
                Ty::Int
            }
            Built::Len | Built::Print => {
                let ty = self.expr(argument, None)?;
                let fits = match ty {
                    Ty::Text | Ty::Bytes => true,
                    Ty::Array(_) => built == Built::Len,
                    _ => false,
                };
                if !fits {
                    let what = format!("{built} is not for {}", self.known.show(&ty));
                    return wrong(argument.at, what);
                }
                if built == Built::Len {
                    Ty::Int
                } else {
                    Ty::Nothing
                }
            }
        })
    }

    /// A call of what is imported: a range of bytes is three arguments.
    fn import(&mut self, value: &Expr, name: &str, arguments: &[Expr]) -> Result<Ty> {
        let Some(signature) = imported(name) else {
            return wrong(value.at, format!("there is no function {name}"));
        };
        self.known
            .names
            .insert(value.id, Name::Import(name.to_owned()));
        self.count(value.at, name, arguments, signature.arguments().len())?;
        let mut rest = arguments.iter();
        for kind in signature.kinds {
            let wanted: &[Ty] = match kind {
                Kind::Root => &[],
                Kind::Int => &[Ty::Int],
                Kind::Descriptor => &[Ty::File],
                Kind::Buffer => &[Ty::Bytes, Ty::Int, Ty::Int],
                Kind::Bytes | Kind::Path => {
                    if let Some(first) = rest.next() {
                        let ty = self.expr(first, None)?;
                        if !matches!(ty, Ty::Text | Ty::Bytes) {
                            return wrong(first.at, "a text or bytes are needed");
                        }
                    }
                    &[Ty::Int, Ty::Int]
                }
            };
            for wanted in wanted {
                if let Some(argument) = rest.next() {
                    self.is(argument, wanted)?;
                }
            }
        }
        Ok(match signature.result {
            Type::Descriptor => Ty::File,
            Type::Object(..) => Ty::Text,
            _ => Ty::Int,
        })
    }
}
