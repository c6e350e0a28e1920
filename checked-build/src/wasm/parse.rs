//! A file of WebAssembly, validated, and what of it is needed to write C.

use super::types::{Signature, Type};
use crate::Error;
use std::collections::BTreeMap;
use wasmparser::{
    ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, FunctionBody, Operator, Parser,
    Payload, TypeRef, Validator, WasmFeatures,
};

/// What is translated: WebAssembly 1.0, and what compilers have used since.
const FEATURES: WasmFeatures = WasmFeatures::WASM1
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::BULK_MEMORY)
    // The number of a table in as many bytes as linkers leave room for.
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::MULTI_VALUE);

/// An expression that is a constant: its value's bits, or the global whose value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    Word(u64),
    Global(u32),
}

pub struct Global {
    pub kind: Type,
    pub begins: Constant,
}

pub struct Data<'a> {
    /// Where it is put at first; none if the code does that.
    pub at: Option<Constant>,
    pub bytes: &'a [u8],
}

#[derive(Default)]
pub struct Parsed<'a> {
    pub types: Vec<Signature>,
    /// Module and name of functions that are imported, which come first.
    pub imports: Vec<(&'a str, &'a str)>,
    /// By function, which type.
    pub functions: Vec<u32>,
    /// Entries of its table, and what they are at first.
    pub table: u32,
    pub elements: Vec<(Constant, Vec<u32>)>,
    /// Pages of its memory, and the most.
    pub memory: Option<(u32, u32)>,
    pub globals: Vec<Global>,
    /// By name.
    pub exports: BTreeMap<&'a str, u32>,
    pub start: Option<u32>,
    pub data: Vec<Data<'a>>,
    pub bodies: Vec<FunctionBody<'a>>,
}

impl From<wasmparser::BinaryReaderError> for Error {
    fn from(error: wasmparser::BinaryReaderError) -> Error {
        Error::new(format!(
            "at byte {:#x}: {}",
            error.offset(),
            error.message()
        ))
    }
}

impl Parsed<'_> {
    /// Of this function.
    pub fn function(&self, number: usize) -> &Signature {
        &self.types[self.functions[number] as usize]
    }

    /// Signatures that are the same have the same number, from 1.
    pub fn number_of_type(&self, signature: &Signature) -> usize {
        let found = self.types.iter().position(|one| one == signature);
        found.map_or(0, |at| at + 1)
    }
}

pub fn parse(file: &[u8]) -> Result<Parsed<'_>, Error> {
    Validator::new_with_features(FEATURES).validate_all(file)?;
    let mut it = Parsed::default();
    for payload in Parser::new(0).parse_all(file) {
        it.section(payload?)?;
    }
    Ok(it)
}

fn unsupported<T>(what: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::new(format!("{what} is not supported")))
}

impl<'a> Parsed<'a> {
    fn section(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(types) => {
                for one in types.into_iter_err_on_gc_types() {
                    self.types.push(Signature::of(&one?)?);
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    let TypeRef::Func(kind) = import.ty else {
                        let (module, name) = (import.module, import.name);
                        let what = "an import that is no function";
                        return unsupported(format!("{module}.{name}: {what}"));
                    };
                    self.imports.push((import.module, import.name));
                    self.functions.push(kind);
                }
            }
            Payload::FunctionSection(functions) => {
                for kind in functions {
                    self.functions.push(kind?);
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    let entries = table?.ty.initial;
                    let most = u32::try_from(entries).ok().filter(|n| *n <= 1 << 24);
                    self.table = match most {
                        Some(entries) => entries,
                        None => return unsupported(format!("a table of {entries} entries")),
                    };
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    let memory = memory?;
                    let pages = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                    let most = memory.maximum.map_or(1 << 16, pages);
                    self.memory = Some((pages(memory.initial), most));
                }
            }
            Payload::GlobalSection(globals) => {
                for global in globals {
                    let global = global?;
                    self.globals.push(Global {
                        kind: Type::of(global.ty.content_type)?,
                        begins: constant(&global.init_expr)?,
                    });
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.exports.insert(export.name, export.index);
                    }
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(elements) => {
                for element in elements {
                    let element = element?;
                    let ElementKind::Active { offset_expr, .. } = element.kind else {
                        // Nobody can use them, without the operators for it.
                        continue;
                    };
                    let ElementItems::Functions(functions) = element.items else {
                        return unsupported("a table that is made of expressions");
                    };
                    let functions = functions.into_iter().collect::<Result<_, _>>()?;
                    self.elements.push((constant(&offset_expr)?, functions));
                }
            }
            Payload::DataSection(all) => {
                for data in all {
                    let data = data?;
                    let at = match data.kind {
                        DataKind::Passive => None,
                        DataKind::Active { offset_expr, .. } => Some(constant(&offset_expr)?),
                    };
                    self.data.push(Data {
                        at,
                        bytes: data.data,
                    });
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            _ => {}
        }
        Ok(())
    }
}

fn constant(expression: &ConstExpr<'_>) -> Result<Constant, Error> {
    // Validated: one value, and the end.
    Ok(match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Constant::Word(u64::from(value as u32)),
        Operator::I64Const { value } => Constant::Word(value as u64),
        Operator::F32Const { value } => Constant::Word(value.bits().into()),
        Operator::F64Const { value } => Constant::Word(value.bits()),
        Operator::GlobalGet { global_index } => Constant::Global(global_index),
        _ => return unsupported("a constant of another kind"),
    })
}
