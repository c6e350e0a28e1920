//! Which types what is generic is used with: those that are written, or else what is wanted and
//! what the arguments are say it.

use super::check::{wrong, Checker, Result};
use super::generic::{Bound, Callee, Generic, Of};
use super::names::Value;
use super::tree::*;
use super::types::Ty;

/// What is known of the parameters of what is generic.
type Found = Vec<Option<Ty>>;

/// Types as they are declared, and what is given for each.
type Pairs<'p> = [(&'p Written, &'p Expr)];

impl<'a> Checker<'a> {
    /// The types of a record or a variant, given values for some of its fields.
    pub fn infer_type(
        &mut self,
        (at, named): (usize, &Named),
        generic: Generic,
        pairs: &Pairs,
        wanted: Option<&Ty>,
    ) -> Result<Ty> {
        let mut found = self.begin(at, named, generic)?;
        if named.types.is_empty() {
            if let Some((made_of, types)) = wanted.and_then(|ty| self.instances.made_of.get(ty)) {
                if *made_of == generic {
                    found = types.iter().cloned().map(Some).collect();
                }
            }
        }
        self.by_arguments(generic, pairs, &mut found)?;
        let types = self.all_found(at, named, generic, found)?;
        let ty = self.type_of(at, generic, types)?;
        self.settle()?;
        Ok(ty)
    }

    /// The number of the instance of a function that is called.
    pub fn infer_call(
        &mut self,
        (at, named): (usize, &Named),
        function: usize,
        arguments: &[Expr],
        wanted: Option<&Ty>,
    ) -> Result<usize> {
        let generic = Generic::Function(function);
        let mut found = self.begin(at, named, generic)?;
        let it = &self.generic.functions[function];
        if let (true, Some(result), Some(wanted)) = (named.types.is_empty(), &it.result, wanted) {
            // Where it fits in parts only, arguments are what to tell of.
            let mut by_result = found.clone();
            if self.unify(result, wanted, &it.generic, &mut by_result) {
                found = by_result;
            }
        }
        let types = it.parameters.iter().map(|it| &it.ty);
        let pairs: Vec<(&Written, &Expr)> = types.zip(arguments).collect();
        self.by_arguments(generic, &pairs, &mut found)?;
        let types = self.all_found(at, named, generic, found)?;
        let number = self.instance(at, generic, types)?;
        self.settle()?;
        Ok(number)
    }

    /// The number of the instance of a function that is a value.
    pub fn infer_value(
        &mut self,
        (at, named): (usize, &Named),
        function: usize,
        wanted: Option<&Ty>,
    ) -> Result<usize> {
        let generic = Generic::Function(function);
        let mut found = self.begin(at, named, generic)?;
        let it = &self.generic.functions[function];
        if let (true, Some(Ty::Function(arguments, result))) = (named.types.is_empty(), wanted) {
            for (parameter, ty) in it.parameters.iter().zip(arguments) {
                self.unify(&parameter.ty, ty, &it.generic, &mut found);
            }
            if let Some(written) = &it.result {
                self.unify(written, result, &it.generic, &mut found);
            }
        }
        let types = self.all_found(at, named, generic, found)?;
        let number = self.instance(at, generic, types)?;
        self.settle()?;
        Ok(number)
    }

    /// What is written behind `::`.
    fn begin(&mut self, at: usize, named: &Named, generic: Generic) -> Result<Found> {
        let (_, parameters) = self.head(generic);
        if named.types.is_empty() {
            return Ok(vec![None; parameters.len()]);
        }
        self.count_types(at, generic, named.types.len())?;
        named.types.iter().map(|ty| self.ty(ty).map(Some)).collect()
    }

    /// Checks arguments, the ones first that say what they are.
    fn by_arguments(&mut self, generic: Generic, pairs: &Pairs, found: &mut Found) -> Result<()> {
        let (_, parameters) = self.head(generic);
        let (later, first): (Vec<_>, Vec<_>) = pairs.iter().partition(|(_, e)| self.is_open(e));
        for (written, e) in first.into_iter().chain(later) {
            if let Some(ty) = self.with_found(written, parameters, found)? {
                self.is(e, &ty)?;
                continue;
            }
            let ty = self.expr(e, None)?;
            if !self.unify(written, &ty, parameters, found) {
                let (found, wanted) = (self.known.show(&ty), written.to_string());
                let what = format!("this is {found}, and {wanted} is needed");
                return wrong(e.at, what);
            }
        }
        Ok(())
    }

    /// A declared type, if all that it names is known.
    fn with_found(
        &mut self,
        written: &Written,
        parameters: &'a [Parameter],
        found: &Found,
    ) -> Result<Option<Ty>> {
        let mut bound: Bound = Vec::new();
        for (parameter, ty) in parameters.iter().zip(found) {
            match ty {
                Some(ty) => bound.push((&parameter.name, ty.clone())),
                None if written.names(&parameter.name) => return Ok(None),
                None => {}
            }
        }
        let ty = self.resolve(written, &bound)?;
        self.settle()?;
        Ok(Some(ty))
    }

    fn all_found(
        &self,
        at: usize,
        named: &Named,
        generic: Generic,
        found: Found,
    ) -> Result<Vec<Ty>> {
        let (_, parameters) = self.head(generic);
        if let Some(i) = found.iter().position(Option::is_none) {
            let (name, missing) = (&named.name, &parameters[i].name);
            let all: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
            let all = all.join(", ");
            let what = format!("what is {missing} of {name} here? {name}::<{all}> says it");
            return wrong(at, what);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Finds parameters of a declared type, so that it is this one, if it can be.
    fn unify(
        &self,
        written: &Written,
        ty: &Ty,
        parameters: &[Parameter],
        found: &mut Found,
    ) -> bool {
        match (&written.kind, ty) {
            (WrittenKind::Array(written), Ty::Array(ty)) => {
                self.unify(written, ty, parameters, found)
            }
            (WrittenKind::Function(from, to), Ty::Function(arguments, result)) => {
                let mut pairs = from.iter().zip(arguments);
                from.len() == arguments.len()
                    && pairs.all(|(from, ty)| self.unify(from, ty, parameters, found))
                    && match to {
                        Some(to) => self.unify(to, result, parameters, found),
                        None => **result == Ty::Nothing,
                    }
            }
            (WrittenKind::Name(name, types), _) => {
                if let Some(i) = parameters.iter().position(|it| it.name == *name) {
                    return *found[i].get_or_insert_with(|| ty.clone()) == *ty;
                }
                match self.type_named(written.at, name, types) {
                    Ok(Of::Plain(plain)) => plain == *ty,
                    Ok(Of::Generic(generic)) => {
                        let Some((made_of, all)) = self.instances.made_of.get(ty) else {
                            return false;
                        };
                        let mut pairs = types.iter().zip(all);
                        *made_of == generic
                            && pairs.all(|(written, ty)| self.unify(written, ty, parameters, found))
                    }
                    Err(_) => false,
                }
            }
            _ => false,
        }
    }

    /// Whether it says what it is only where something is wanted of it: `[]`, or a case without
    /// anything of its variant's types in it.
    pub fn is_open(&self, e: &Expr) -> bool {
        let (generic, declared, given): (_, Vec<&Written>, Vec<&Expr>) = match &e.kind {
            ExprKind::List(all) => return all.iter().all(|e| self.is_open(e)),
            ExprKind::Fill(one, _) => return self.is_open(one),
            ExprKind::Name(named) | ExprKind::Call(named, _) => {
                let Some((generic, declared)) = self.callee(e.at, named) else {
                    return false;
                };
                let given = match &e.kind {
                    ExprKind::Call(_, all) => all.iter().collect(),
                    _ => Vec::new(),
                };
                (generic, declared, given)
            }
            ExprKind::Make(named, fields) if named.types.is_empty() => {
                let Some(Of::Generic(generic @ Generic::Record(i))) =
                    self.names.get(e.at, &named.name)
                else {
                    return false;
                };
                let declared = &self.generic.records[*i].fields;
                let pairs = fields.iter().filter_map(|(_, name, e)| {
                    let field = declared.iter().find(|field| field.name == *name)?;
                    Some((&field.ty, e))
                });
                let (declared, given) = pairs.unzip();
                (*generic, declared, given)
            }
            _ => return false,
        };
        let pairs = declared.into_iter().zip(given);
        let told: Vec<&Written> = pairs
            .filter(|(_, e)| !self.is_open(e))
            .map(|(written, _)| written)
            .collect();
        let (_, parameters) = self.head(generic);
        let is_told = |it: &Parameter| told.iter().any(|written| written.names(&it.name));
        !parameters.iter().all(is_told)
    }

    /// What is generic, and what it takes, if a name stands for that and has no types itself.
    fn callee(&self, at: usize, named: &Named) -> Option<(Generic, Vec<&'a Written>)> {
        let name = &named.name;
        if !named.types.is_empty() || self.find(name).is_some() {
            return None;
        }
        let (generic, fields) = match self.values.get(at, name)? {
            Value::Case(Of::Generic(generic @ Generic::Variant(i)), case) => {
                (*generic, &self.generic.variants[*i].cases[*case].fields)
            }
            Value::Function(Callee::Generic(i)) => {
                let function = &self.generic.functions[*i];
                (Generic::Function(*i), &function.parameters)
            }
            _ => return None,
        };
        Some((generic, fields.iter().map(|field| &field.ty).collect()))
    }
}
