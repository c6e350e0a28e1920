//! The section of types, written. Nothing that is proven relies on it.

use super::{Class, Section, Type};

impl Section {
    /// What the module's file has: what [`Section::parse`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        leb(&mut to, self.classes.len() as u32);
        for class in &self.classes {
            match class {
                Class::Record(fields) => {
                    leb(&mut to, 0);
                    leb(&mut to, fields.len() as u32);
                    fields.iter().for_each(|field| write_type(&mut to, *field));
                }
                Class::Array(element) => {
                    leb(&mut to, 1);
                    write_type(&mut to, *element);
                }
                Class::Bytes => {}
            }
        }
        leb(&mut to, self.signatures.len() as u32);
        for (arguments, result) in &self.signatures {
            leb(&mut to, arguments.len() as u32);
            arguments.iter().for_each(|ty| write_type(&mut to, *ty));
            write_type(&mut to, *result);
        }
        leb(&mut to, self.functions.len() as u32);
        let mut before = 0;
        for function in &self.functions {
            leb(&mut to, function.at.wrapping_sub(before));
            leb(&mut to, function.signature.into());
            before = function.at;
        }
        leb(&mut to, self.texts.len() as u32);
        before = 0;
        for at in &self.texts {
            leb(&mut to, at.wrapping_sub(before));
            before = *at;
        }
        leb(&mut to, self.joins.len() as u32);
        before = 0;
        for join in &self.joins {
            leb(&mut to, join.at.wrapping_sub(before));
            before = join.at;
            write_masked(&mut to, &join.registers);
            leb(&mut to, join.words.len() as u32);
            join.words
                .chunks(32)
                .for_each(|part| write_masked(&mut to, part));
        }
        to
    }
}

fn leb(to: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn write_type(to: &mut Vec<u8>, ty: Type) {
    match ty {
        Type::Int => leb(to, 1),
        Type::Descriptor => leb(to, 2),
        Type::Object(first, last) if first == last => leb(to, 4 + u32::from(first)),
        Type::Object(first, last) => {
            leb(to, 3);
            leb(to, first.into());
            leb(to, last.into());
        }
        Type::Function(signature) => {
            leb(to, 4);
            leb(to, signature.into());
        }
        _ => leb(to, 0),
    }
}

fn write_masked(to: &mut Vec<u8>, types: &[Type]) {
    let mask = |is: fn(Type) -> bool| {
        let all = types.iter().enumerate();
        all.fold(0, |mask, (i, ty)| mask | u32::from(is(*ty)) << i)
    };
    let other = |ty| !matches!(ty, Type::Unknown | Type::Int);
    leb(to, mask(|ty| ty == Type::Int));
    leb(to, mask(other));
    let others = types.iter().filter(|ty| other(**ty));
    others.for_each(|ty| write_type(to, *ty));
}
