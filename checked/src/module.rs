//! The container, `.tmod`: little-endian numbers, no gaps, nothing behind the end.
//!
//! ```text
//! 0   "TMOD"           magic
//! 4   version          1; 2 with types
//! 8   code             bytes
//! 12  table            entries, of 4 bytes: where in the code, or IMPORT | which import,
//!                      or EMPTY
//! 16  read-only data   bytes
//! 20  data             bytes
//! 24  zeroes           bytes behind the data
//! 28  imports          entries of 2 bytes: length of the name
//! 32  exports          entries of 8 bytes: length of the name, where in the code
//! 36  heights          entries of 8 bytes: where in the code, pushes
//! 40  names            bytes: those of the imports, then those of the exports, in UTF-8
//! 44  types            bytes, in version 2 (types/section.rs describes them)
//! ..  the parts, in this order
//! ```

use crate::layout::Layout;
use crate::rule::{Refusal, Rule};

/// In an entry of the table: the rest is the number of an import.
pub const IMPORT: u32 = 1 << 31;

/// An entry of the table that stands for nothing: calling it is a fault.
pub const EMPTY: u32 = u32::MAX;

const HEADER: usize = 44;
pub(crate) const VERSION: u32 = 1;
pub(crate) const TYPED: u32 = 2;

/// A function that the module offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export<'a> {
    pub name: &'a str,
    /// Where in the code.
    pub at: u32,
}

/// The parts of a module. Nothing of it is checked but the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    pub code: &'a [u8],
    /// Where in the code, or `IMPORT` and the number of an import.
    pub table: Vec<u32>,
    pub read_only: &'a [u8],
    pub data: &'a [u8],
    /// Bytes of zeroes behind the data.
    pub zeroes: u32,
    pub imports: Vec<&'a str>,
    pub exports: Vec<Export<'a>>,
    /// Where in the code, and how many 8 bytes this function has pushed there.
    pub heights: Vec<(u32, u32)>,
    /// What a typed module declares, undecoded. It has no heights beside it.
    pub types: Option<&'a [u8]>,
    pub layout: Layout,
}

fn refuse<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(Rule::Container, None, what))
}

struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, count: u32, each: usize, what: &str) -> Result<&'a [u8], Refusal> {
        let bytes = (count as usize).checked_mul(each);
        let Some((part, rest)) = bytes.and_then(|bytes| self.0.split_at_checked(bytes)) else {
            return refuse(format!("the file ends within its {what}"));
        };
        self.0 = rest;
        Ok(part)
    }

    fn name(&mut self, bytes: u32) -> Result<&'a str, Refusal> {
        match std::str::from_utf8(self.take(bytes, 1, "names")?) {
            Ok(name) if !name.is_empty() && !name.contains('\0') => Ok(name),
            _ => refuse("a name is empty or no text"),
        }
    }
}

fn u32s(part: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (words, _) = part.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

fn pairs(part: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let (pairs, _) = part.as_chunks::<8>();
    let half = |pair: &[u8; 8], at: usize| u32s(&pair[at..]).next().unwrap_or_default();
    pairs.iter().map(move |pair| (half(pair, 0), half(pair, 4)))
}

impl<'a> Module<'a> {
    /// R1: reads the container.
    pub fn parse(file: &'a [u8]) -> Result<Module<'a>, Refusal> {
        if !file.starts_with(b"TMOD") {
            return refuse("this is no module: it does not begin with TMOD");
        }
        let mut parts = Parts(file);
        let header: Vec<u32> = u32s(parts.take(1, HEADER, "header")?).collect();
        let &[_, version, code, table, read_only, data, zeroes, imports, exports, heights, names] =
            header.as_slice()
        else {
            return refuse("the file ends within its header");
        };
        let types = match version {
            VERSION => None,
            TYPED => u32s(parts.take(1, 4, "header")?).next(),
            _ => {
                let what = format!("version {version} of the format, where {VERSION} is known");
                return refuse(what);
            }
        };
        let written = u64::from(data) + u64::from(zeroes);
        let layout = Layout::new(code.into(), table.into(), read_only.into(), written);
        let Some(layout) = layout else {
            return refuse("more than 2 GiB of code and data");
        };
        let code = parts.take(code, 1, "code")?;
        let table = u32s(parts.take(table, 4, "table")?).collect();
        let read_only = parts.take(read_only, 1, "read-only data")?;
        let data = parts.take(data, 1, "data")?;
        let (lengths, _) = parts.take(imports, 2, "imports")?.as_chunks::<2>();
        let entries = pairs(parts.take(exports, 8, "exports")?);
        let heights = pairs(parts.take(heights, 8, "heights")?).collect();
        let mut text = Parts(parts.take(names, 1, "names")?);
        let types = types
            .map(|bytes| parts.take(bytes, 1, "types"))
            .transpose()?;
        let lengths = lengths.iter().map(|length| u16::from_le_bytes(*length));
        let imports = lengths
            .map(|length| text.name(length.into()))
            .collect::<Result<_, _>>()?;
        let export = |(length, at)| text.name(length).map(|name| Export { name, at });
        let exports = entries.map(export).collect::<Result<_, _>>()?;
        if !text.0.is_empty() || !parts.0.is_empty() {
            return refuse("there is more in the file than its header says");
        }
        let module = Module {
            code,
            table,
            read_only,
            data,
            zeroes,
            imports,
            exports,
            heights,
            types,
            layout,
        };
        module.refers_to_what_there_is()?;
        Ok(module)
    }

    /// R1: what names a place in the code or an import names one that there is, once.
    fn refers_to_what_there_is(&self) -> Result<(), Refusal> {
        let is_code = |at: u32| (at as usize) < self.code.len();
        let is_known = |entry: u32| match entry & IMPORT {
            0 => is_code(entry),
            _ => entry == EMPTY || ((entry & !IMPORT) as usize) < self.imports.len(),
        };
        if let Some(entry) = self.table.iter().find(|entry| !is_known(**entry)) {
            return refuse(format!(
                "the table names {entry:#x}, which is no code and no import"
            ));
        }
        let mut names: Vec<&str> = self.exports.iter().map(|export| export.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("{} is exported twice", twice[0]));
        }
        if let Some(export) = self.exports.iter().find(|export| !is_code(export.at)) {
            return refuse(format!("{} is outside of the code", export.name));
        }
        if self.types.is_some() && !self.heights.is_empty() {
            return refuse("heights beside types, which say them already");
        }
        let in_order = self.heights.windows(2).all(|pair| pair[0].0 < pair[1].0);
        match in_order && self.heights.last().is_none_or(|(at, _)| is_code(*at)) {
            true => Ok(()),
            false => refuse("heights are out of order or outside of the code"),
        }
    }
}
