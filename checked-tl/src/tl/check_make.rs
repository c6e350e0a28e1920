//! Records and cases that are made, of types that are generic or not.

use super::check::{wrong, Checker, Result};
use super::declare::not_generic;
use super::generic::{Generic, Of};
use super::tree::*;
use super::types::Ty;

impl<'a> Checker<'a> {
    /// Fields of a case, as they are declared.
    pub fn case_fields(&self, of: &Of, case: usize) -> &'a [Field] {
        let variant = match of {
            Of::Plain(Ty::Variant(i)) => self.program.variants.get(*i),
            Of::Generic(Generic::Variant(i)) => self.generic.variants.get(*i),
            _ => None,
        };
        variant.map_or(&[], |variant| &variant.cases[case].fields)
    }

    /// The type of a case that is made of these fields.
    pub fn case(
        &mut self,
        value: &Expr,
        (named, of): (&Named, &Of),
        pairs: &[(&Written, &Expr)],
        wanted: Option<&Ty>,
    ) -> Result<Ty> {
        match of {
            Of::Generic(generic) => self.infer_type((value.at, named), *generic, pairs, wanted),
            Of::Plain(ty) => {
                not_generic(value.at, &named.name, &named.types)?;
                self.plain(pairs)?;
                Ok(ty.clone())
            }
        }
    }

    /// Values of types that name no parameters.
    fn plain(&mut self, pairs: &[(&Written, &Expr)]) -> Result<()> {
        for (written, e) in pairs {
            let ty = self.resolve(written, &[])?;
            self.is(e, &ty)?;
        }
        Ok(())
    }

    /// A record, with the place and name of each field.
    pub fn make(
        &mut self,
        value: &Expr,
        named: &Named,
        fields: &[(usize, String, Expr)],
        wanted: Option<&Ty>,
    ) -> Result<Ty> {
        let name = &named.name;
        let of = self.names.get(value.at, name).cloned();
        let declared: &'a [Field] = match &of {
            Some(Of::Plain(Ty::Record(i))) => &self.program.records[*i].fields,
            Some(Of::Generic(Generic::Record(i))) => &self.generic.records[*i].fields,
            _ => {
                let hidden = self.names.hidden(name);
                return wrong(value.at, format!("there is no record {name}{hidden}"));
            }
        };
        let mut pairs: Vec<(&Written, &Expr)> = Vec::new();
        for (i, (at, field, value)) in fields.iter().enumerate() {
            let Some(found) = declared.iter().find(|it| it.name == *field) else {
                return wrong(*at, format!("{name} has no field {field}"));
            };
            if fields[..i].iter().any(|(_, other, _)| other == field) {
                return wrong(*at, format!("{field} is there already"));
            }
            pairs.push((&found.ty, value));
        }
        let given = |name: &str| fields.iter().any(|(_, field, _)| field == name);
        if let Some(missing) = declared.iter().find(|it| !given(&it.name)) {
            return wrong(value.at, format!("{} is missing", missing.name));
        }
        match of {
            Some(Of::Plain(ty)) => {
                not_generic(value.at, name, &named.types)?;
                self.plain(&pairs)?;
                Ok(ty)
            }
            Some(Of::Generic(generic)) => {
                self.infer_type((value.at, named), generic, &pairs, wanted)
            }
            None => wrong(value.at, format!("there is no record {name}")),
        }
    }
}
