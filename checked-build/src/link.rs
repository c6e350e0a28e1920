//! Objects to a module.
//!
//! Functions that data or instructions name as values get a slot of the table each, and
//! the value is the slot's number: 0 is nobody's. Imports get slots too, and a jump
//! through theirs for those who call them.

use crate::lines::Lines;
use crate::Error;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};
use object::{SectionIndex, SectionKind, SymbolKind, SymbolSection};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tane_checked::{Export, Layout, Module, EMPTY, IMPORT};

const R_64: u32 = object::elf::R_X86_64_64;
const R_PC32: u32 = object::elf::R_X86_64_PC32;
const R_PLT32: u32 = object::elf::R_X86_64_PLT32;
const R_32: u32 = object::elf::R_X86_64_32;
const R_32S: u32 = object::elf::R_X86_64_32S;

const NOP: u8 = 0x90;

/// The parts of a module that sections go into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Code,
    ReadOnly,
    Data,
    Zeroes,
    Heights,
    /// Where lines begin, and the names of files; no part of a module as they are.
    Lines,
    Files,
}

impl Part {
    /// It names places in the code, and no functions.
    fn is_about_code(self) -> bool {
        matches!(self, Part::Heights | Part::Lines)
    }
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    In(Part, u64),
    Import(usize),
    /// The table, and what masks its index.
    Table,
    Mask,
}

struct Linker<'a> {
    objects: Vec<object::File<'a>>,
    code: Vec<u8>,
    read_only: Vec<u8>,
    data: Vec<u8>,
    zeroes: u64,
    heights: Vec<u8>,
    lines: Vec<u8>,
    files: Vec<u8>,
    /// By object and section.
    sections: HashMap<(usize, SectionIndex), (Part, u64)>,
    global: HashMap<String, Place>,
    imports: Vec<String>,
    /// Starts of functions.
    functions: BTreeSet<u64>,
    exports: BTreeMap<String, u64>,
    with_lines: bool,
}

/// A relocation, its symbol found.
struct Fix {
    part: Part,
    at: u64,
    kind: u32,
    place: Place,
    addend: i64,
}

fn read(bytes: &[u8]) -> Result<object::File<'_>, Error> {
    object::File::parse(bytes).map_err(|e| Error::new(format!("an object of GNU as: {e}")))
}

/// Names that the objects need and do not have.
pub fn undefined(objects: &[Vec<u8>]) -> Result<BTreeSet<String>, Error> {
    let (mut needed, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for bytes in objects {
        let file = read(bytes)?;
        for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
            let name = symbol.name().unwrap_or_default().to_owned();
            match symbol.is_undefined() {
                true => needed.insert(name),
                false => defined.insert(name),
            };
        }
    }
    Ok(needed.difference(&defined).cloned().collect())
}

/// Links, without checking.
pub fn link(objects: &[Vec<u8>], imports: &[String], with_lines: bool) -> Result<Vec<u8>, Error> {
    let files = objects
        .iter()
        .map(|bytes| read(bytes))
        .collect::<Result<_, _>>()?;
    let mut it = Linker {
        objects: files,
        code: Vec::new(),
        read_only: Vec::new(),
        data: Vec::new(),
        zeroes: 0,
        heights: Vec::new(),
        lines: Vec::new(),
        files: Vec::new(),
        sections: HashMap::new(),
        global: HashMap::new(),
        imports: imports.to_vec(),
        functions: BTreeSet::new(),
        exports: BTreeMap::new(),
        with_lines,
    };
    it.place_sections()?;
    it.define_symbols()?;
    let fixes = it.fixes()?;
    it.write(&fixes)
}

fn part_of(name: &str, kind: SectionKind) -> Option<Part> {
    match kind {
        _ if name == ".tmod.heights" => Some(Part::Heights),
        _ if name == ".tmod.lines" => Some(Part::Lines),
        _ if name == ".tmod.files" => Some(Part::Files),
        SectionKind::Text => Some(Part::Code),
        SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => Some(Part::ReadOnly),
        SectionKind::Data => Some(Part::Data),
        SectionKind::UninitializedData => Some(Part::Zeroes),
        _ => None,
    }
}

impl Linker<'_> {
    fn place_sections(&mut self) -> Result<(), Error> {
        for (i, file) in self.objects.iter().enumerate() {
            for section in file.sections() {
                let name = section.name().unwrap_or_default();
                let Some(part) = part_of(name, section.kind()) else {
                    continue;
                };
                let align = section.align().max(1);
                let bytes = section.uncompressed_data();
                let bytes = bytes.map_err(|e| Error::new(format!("{name}: {e}")))?;
                let at = if part == Part::Zeroes {
                    let at = self.zeroes.next_multiple_of(align);
                    self.zeroes = at + section.size();
                    at
                } else {
                    let (to, fill) = match part {
                        Part::Code => (&mut self.code, NOP),
                        Part::ReadOnly => (&mut self.read_only, 0),
                        Part::Data => (&mut self.data, 0),
                        Part::Lines => (&mut self.lines, 0),
                        Part::Files => (&mut self.files, 0),
                        _ => (&mut self.heights, 0),
                    };
                    let at = to.len().next_multiple_of(align as usize);
                    to.resize(at, fill);
                    to.extend_from_slice(&bytes);
                    at as u64
                };
                self.sections.insert((i, section.index()), (part, at));
            }
        }
        // What begins behind the data is as aligned as any section is.
        self.data.resize(self.data.len().next_multiple_of(64), 0);
        Ok(())
    }

    fn define_symbols(&mut self) -> Result<(), Error> {
        let mut global = HashMap::from([
            ("__tmod_table".to_owned(), Place::Table),
            ("__tmod_mask".to_owned(), Place::Mask),
        ]);
        for (i, name) in self.imports.iter().enumerate() {
            global.insert(name.clone(), Place::Import(i));
        }
        for (i, file) in self.objects.iter().enumerate() {
            for symbol in file.symbols() {
                let SymbolSection::Section(section) = symbol.section() else {
                    continue;
                };
                let Some((part, base)) = self.sections.get(&(i, section)) else {
                    continue;
                };
                let at = base + symbol.address();
                let name = symbol.name().unwrap_or_default().to_owned();
                if symbol.kind() == SymbolKind::Text {
                    self.functions.insert(at);
                }
                if symbol.is_global() {
                    if global.insert(name.clone(), Place::In(*part, at)).is_some() {
                        return Err(Error::new(format!("{name} is defined twice")));
                    }
                    if symbol.kind() == SymbolKind::Text {
                        self.exports.insert(name, at);
                    }
                }
            }
        }
        self.global = global;
        Ok(())
    }

    fn fixes(&self) -> Result<Vec<Fix>, Error> {
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
        if let SymbolSection::Section(section) = symbol.section() {
            if let Some((part, base)) = self.sections.get(&(i, section)) {
                return Ok(Place::In(*part, base + symbol.address()));
            }
        }
        self.global.get(name).copied().ok_or_else(|| {
            Error::new(format!(
                "{name} is used and not defined; define it, or import it: --import {name}"
            ))
        })
    }

    /// The function that a fix takes for a value, if it does.
    fn function_value(&self, fix: &Fix) -> Result<Option<u64>, Error> {
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

    fn write(mut self, fixes: &[Fix]) -> Result<Vec<u8>, Error> {
        let mut table = vec![EMPTY];
        table.extend((0..self.imports.len()).map(|i| IMPORT | i as u32));
        let mut slots = HashMap::new();
        for fix in fixes {
            if let Some(at) = self.function_value(fix)? {
                slots.entry(at).or_insert_with(|| {
                    table.push(at as u32);
                    table.len() - 1
                });
            }
        }
        if self.with_lines {
            let lines = self.source_lines(fixes);
            self.read_only.extend(lines);
        }
        // A jump through each import's slot; its address comes with the layout.
        let stubs = self.code.len();
        self.code.resize(stubs + 9 * self.imports.len(), NOP);
        let layout = Layout::new(
            self.code.len() as u64,
            table.len() as u64,
            self.read_only.len() as u64,
            self.data.len() as u64 + self.zeroes,
        );
        let layout = layout.ok_or_else(|| Error::new("more than 2 GiB of code and data"))?;
        for i in 0..self.imports.len() {
            let stub = &mut self.code[stubs + 9 * i..][..9];
            stub[..5].copy_from_slice(&[0x65, 0x67, 0xff, 0x24, 0x25]);
            stub[5..].copy_from_slice(&(layout.table + 8 * (i as u32 + 1)).to_le_bytes());
        }
        for fix in fixes {
            self.apply(fix, &layout, &slots, stubs as u64)?;
        }
        let module = Module {
            code: &self.code,
            table,
            read_only: &self.read_only,
            data: &self.data,
            zeroes: u32::try_from(self.zeroes).map_err(|_| Error::new("too many zeroes"))?,
            imports: self.imports.iter().map(String::as_str).collect(),
            exports: self
                .exports
                .iter()
                .map(|(name, at)| Export {
                    name,
                    at: *at as u32,
                })
                .collect(),
            heights: heights(&self.heights),
            layout,
        };
        Ok(module.to_bytes())
    }

    /// The list of where lines begin.
    fn source_lines(&self, fixes: &[Fix]) -> Vec<u8> {
        let mut lines = Lines::default();
        // In the order of the objects, as the sections are.
        let all: Vec<&Fix> = fixes.iter().filter(|fix| fix.part == Part::Lines).collect();
        for (i, file) in self.objects.iter().enumerate() {
            let part = |name| {
                let section = file.section_by_name(name)?;
                let (_, at) = self.sections.get(&(i, section.index()))?;
                Some((*at, *at + section.size()))
            };
            let (Some(own), Some(names)) = (part(".tmod.lines"), part(".tmod.files")) else {
                continue;
            };
            let [first, last] = [own.0, own.1].map(|at| all.partition_point(|fix| fix.at < at));
            let entries = all[first..last].iter().filter_map(|fix| {
                let Place::In(Part::Code, at) = fix.place else {
                    return None;
                };
                let said = &self.lines[fix.at as usize + 8..][..8];
                let number = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                let at = at.wrapping_add_signed(fix.addend);
                Some((at, [number(said), number(&said[4..])]))
            });
            lines.add(entries, &self.files[names.0 as usize..names.1 as usize]);
        }
        lines.to_bytes()
    }

    fn apply(
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
            (Place::Table, None) => u64::from(layout.table),
            (Place::Mask, None) => u64::from(layout.slots) - 1,
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

/// `.quad` where in the code, `.long` pushes; the module has them in order, once.
fn heights(section: &[u8]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let entries = section
        .chunks_exact(12)
        .map(|entry| (number(entry), number(&entry[8..])));
    entries.collect::<BTreeMap<_, _>>().into_iter().collect()
}
