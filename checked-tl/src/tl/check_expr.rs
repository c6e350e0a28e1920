//! Types of expressions.

use super::check::{wrong, Checker, Result, BUILT, MOST_OF_VALUES, MOST_PARAMETERS};
use super::tree::*;
use super::types::{Built, Closed, Name, Ty};
use tane_checked::{imported, Kind, Type};

impl<'a> Checker<'a> {
    /// Checks an expression that has to be of a type.
    pub fn is(&mut self, value: &'a Expr, wanted: &Ty) -> Result<Ty> {
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
    pub fn expr(&mut self, value: &'a Expr, wanted: Option<&Ty>) -> Result<Ty> {
        let ty = self.found(value, wanted)?;
        self.known.types.insert(value.id, ty.clone());
        Ok(ty)
    }

    fn found(&mut self, value: &'a Expr, wanted: Option<&Ty>) -> Result<Ty> {
        Ok(match &value.kind {
            ExprKind::Int(_) => Ty::Int,
            ExprKind::Bool(_) => Ty::Bool,
            ExprKind::Text(_) => Ty::Text,
            ExprKind::Name(name) => return self.name(value, name),
            ExprKind::Call(name, arguments) => return self.call(value, name, arguments),
            ExprKind::Make(name, fields) => {
                let Some(Ty::Record(record)) = self.names.get(name).cloned() else {
                    return wrong(value.at, format!("there is no record {name}"));
                };
                let shape = self.known.records[record].clone();
                for (i, (at, field, value)) in fields.iter().enumerate() {
                    let Some((_, ty)) = shape.fields.iter().find(|(name, _)| name == field) else {
                        return wrong(*at, format!("{name} has no field {field}"));
                    };
                    if fields[..i].iter().any(|(_, other, _)| other == field) {
                        return wrong(*at, format!("{field} is there already"));
                    }
                    self.is(value, ty)?;
                }
                let given = |name: &str| fields.iter().any(|(_, field, _)| field == name);
                if let Some((missing, _)) = shape.fields.iter().find(|(name, _)| !given(name)) {
                    return wrong(value.at, format!("{missing} is missing"));
                }
                Ty::Record(record)
            }
            ExprKind::List(all) => {
                let element = match wanted {
                    Some(Ty::Array(element)) => Some((**element).clone()),
                    _ => None,
                };
                let mut element = element;
                for one in all {
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

    fn binary(&mut self, op: Op, left: &'a Expr, right: &'a Expr) -> Result<Ty> {
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

    fn name(&mut self, value: &Expr, name: &str) -> Result<Ty> {
        let (found, ty) = if let Some(id) = self.variable(value.at, name)? {
            (Name::Variable(id), self.known.ty(id))
        } else if let Some((variant, case)) = self.cases.get(name).copied() {
            if !self.known.variants[variant].1[case].fields.is_empty() {
                return wrong(value.at, format!("{name} has fields: {name}(...)"));
            }
            (Name::Case(variant, case), Ty::Variant(variant))
        } else if let Some(function) = self.functions.get(name).copied() {
            if self.program.functions[function].export {
                return wrong(
                    value.at,
                    format!("{name} is exported: only the host calls it"),
                );
            }
            let (arguments, result) = self.known.functions[function].clone();
            if arguments.len() >= MOST_PARAMETERS {
                return wrong(value.at, MOST_OF_VALUES);
            }
            let ty = Ty::Function(arguments, Box::new(result));
            (Name::Function(function), ty)
        } else {
            return wrong(value.at, format!("there is no {name} here"));
        };
        self.known.names.insert(value.id, found);
        Ok(ty)
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

    fn lambda(&mut self, value: &Expr, lambda: &'a Lambda) -> Result<Ty> {
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

    fn call(&mut self, value: &'a Expr, name: &str, arguments: &'a [Expr]) -> Result<Ty> {
        if let Some(built) = BUILT.iter().find(|built| built.to_string() == name) {
            self.known.names.insert(value.id, Name::Built(*built));
            return self.built(value.at, *built, arguments);
        }
        let (found, wanted, result) = if let Some(id) = self.variable(value.at, name)? {
            let ty = self.known.ty(id);
            let Ty::Function(wanted, result) = ty else {
                return wrong(value.at, format!("{name} is no function"));
            };
            (Name::Variable(id), wanted, *result)
        } else if let Some((variant, case)) = self.cases.get(name).copied() {
            let fields = self.known.variants[variant].1[case].fields.iter();
            let wanted = fields.map(|(_, ty)| ty.clone()).collect();
            (Name::Case(variant, case), wanted, Ty::Variant(variant))
        } else if let Some(function) = self.functions.get(name).copied() {
            if self.program.functions[function].export {
                return wrong(
                    value.at,
                    format!("{name} is exported: only the host calls it"),
                );
            }
            let (wanted, result) = self.known.functions[function].clone();
            (Name::Function(function), wanted, result)
        } else if imported(name).is_some() {
            return self.import(value, name, arguments);
        } else {
            return wrong(value.at, format!("there is no function {name}"));
        };
        self.known.names.insert(value.id, found);
        self.count(value.at, name, arguments, wanted.len())?;
        for (argument, wanted) in arguments.iter().zip(&wanted) {
            self.is(argument, wanted)?;
        }
        Ok(result)
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

    fn built(&mut self, at: usize, built: Built, arguments: &'a [Expr]) -> Result<Ty> {
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
    fn import(&mut self, value: &Expr, name: &str, arguments: &'a [Expr]) -> Result<Ty> {
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
