//! What stands where an address is left open.

use super::{Linker, Part, Place};
use crate::Error;
use object::{Object, ObjectSection, ObjectSymbol};
use object::{RelocationFlags, RelocationTarget, SymbolSection};
use std::collections::HashMap;
use tane_checked::Layout;

const R_64: u32 = object::elf::R_X86_64_64;
const R_PC32: u32 = object::elf::R_X86_64_PC32;
const R_PLT32: u32 = object::elf::R_X86_64_PLT32;
const R_32: u32 = object::elf::R_X86_64_32;
const R_32S: u32 = object::elf::R_X86_64_32S;

/// A relocation, its symbol found.
pub(super) struct Fix {
    pub part: Part,
    pub at: u64,
    kind: u32,
    pub place: Place,
    pub addend: i64,
}

impl Linker<'_> {
    pub(super) fn fixes(&self) -> Result<Vec<Fix>, Error> {
        let mut fixes = Vec::new();
        for (i, file) in self.objects.iter().enumerate() {
            for section in file.sections() {
                let Some((part, base)) = self.sections.get(&(i, section.index())) else {
                    continue;
                };
                for (offset, relocation) in section.relocations() {
                    let RelocationFlags::Elf { r_type } = relocation.flags() else {
                        continue;
                    };
                    let RelocationTarget::Symbol(index) = relocation.target() else {
                        return Err(Error::new("a relocation without a symbol"));
                    };
                    let symbol = file.symbol_by_index(index);
                    let symbol = symbol.map_err(|e| Error::new(format!("a relocation: {e}")))?;
                    fixes.push(Fix {
                        part: *part,
                        at: base + offset,
                        kind: r_type,
                        place: self.place(i, &symbol)?,
                        addend: relocation.addend(),
                    });
                }
            }
        }
        Ok(fixes)
    }

    fn place<'f>(&self, i: usize, symbol: &impl ObjectSymbol<'f>) -> Result<Place, Error> {
        let name = symbol.name().unwrap_or_default();
        // Its own, unless it is a weak one that another replaces.
        if let (SymbolSection::Section(section), false) = (symbol.section(), symbol.is_weak()) {
            if let Some((part, base)) = self.sections.get(&(i, section)) {
                return Ok(Place::In(*part, base + symbol.address()));
            }
        }
        match self.global.get(name) {
            Some(place) => Ok(*place),
            None if symbol.is_weak() => Ok(Place::Nowhere),
            None => Err(Error::new(format!(
                "{name} is used and not defined; define it, or import it: --import {name}"
            ))),
        }
    }

    /// The function that a fix takes for a value, if it does.
    pub(super) fn function_value(&self, fix: &Fix) -> Result<Option<u64>, Error> {
        let value = matches!(fix.kind, R_64 | R_32 | R_32S) && !fix.part.is_about_code();
        let Place::In(Part::Code, at) = fix.place else {
            return Ok(None);
        };
        let at = at.wrapping_add_signed(fix.addend);
        match value {
            false => Ok(None),
            true if self.functions.contains(&at) => Ok(Some(at)),
            true => Err(Error::new(format!(
                "code+{at:#x} is used as a value, and no function begins there"
            ))),
        }
    }

    pub(super) fn apply(
        &mut self,
        fix: &Fix,
        layout: &Layout,
        slots: &HashMap<u64, usize>,
        stubs: u64,
    ) -> Result<(), Error> {
        let start = |part: Part| match part {
            Part::Code => u64::from(layout.code),
            Part::ReadOnly => u64::from(layout.read_only),
            Part::Data => u64::from(layout.data),
            Part::Zeroes => u64::from(layout.data) + self.data.len() as u64,
            Part::Heights | Part::Lines | Part::Files => 0,
        };
        let relative = matches!(fix.kind, R_PC32 | R_PLT32);
        let symbol = match (fix.place, self.function_value(fix)?) {
            (_, Some(at)) => (slots[&at] as u64).wrapping_sub(fix.addend as u64),
            // Where in the code, for heights and lines.
            (Place::In(_, at), None) if fix.part.is_about_code() => at,
            (Place::In(part, at), None) => start(part) + at,
            (Place::Import(i), None) if relative => start(Part::Code) + stubs + 9 * i as u64,
            (Place::Import(i), None) => i as u64 + 1,
            (Place::Nowhere, None) if relative => {
                start(Part::Code) + stubs + 9 * self.imports.len() as u64
            }
            (Place::Nowhere, None) => 0,
            (Place::Table, None) => u64::from(layout.table),
            (Place::Mask, None) => u64::from(layout.slots) - 1,
            (Place::Heap, None) => layout.end.into(),
        };
        let mut value = symbol.wrapping_add_signed(fix.addend);
        if relative {
            value = value.wrapping_sub(start(fix.part) + fix.at);
        }
        let bytes = match fix.kind {
            R_64 => 8,
            R_32 | R_32S | R_PC32 | R_PLT32 => 4,
            other => {
                return Err(Error::new(format!(
                    "a relocation of the unknown kind {other}"
                )))
            }
        };
        let fits = match fix.kind {
            R_64 => true,
            R_32 => u32::try_from(value).is_ok(),
            _ => i32::try_from(value as i64).is_ok(),
        };
        if !fits {
            return Err(Error::new(format!("an address does not fit: {value:#x}")));
        }
        let to = match fix.part {
            Part::Code => &mut self.code,
            Part::ReadOnly => &mut self.read_only,
            Part::Data => &mut self.data,
            Part::Heights => &mut self.heights,
            Part::Lines => &mut self.lines,
            Part::Files => &mut self.files,
            Part::Zeroes => return Err(Error::new("an address in zeroes")),
        };
        let at = fix.at as usize;
        to[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }
}
