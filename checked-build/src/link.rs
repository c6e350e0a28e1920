//! Objects to a module.
//!
//! Functions that data or instructions name as values get a slot of the table each, and
//! the value is the slot's number: 0 is nobody's. Imports get slots too, and a jump
//! through theirs for those who call them.

mod arrays;
mod relocate;

use crate::lines::Lines;
use crate::rewrite::{is_of, FINI, INIT};
use crate::{Error, Linked};
use object::{Object, ObjectSection, ObjectSymbol};
use object::{SectionIndex, SectionKind, SymbolKind, SymbolSection};
use relocate::Fix;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tane_checked::{Export, Layout, Module, EMPTY, IMPORT};

const NOP: u8 = 0x90;
const UD2: [u8; 2] = [0x0f, 0x0b];

/// Before the name of an import, where a library has a function of that name.
pub const IMPORT_PREFIX: &str = "tmod.import.";
/// Of a library: what the module exports as main.
pub const MAIN: &str = "__tmod_main";

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
    /// Where the heap begins, behind all of the module's own.
    Heap,
    /// A weak symbol's that nobody defines: null, and a fault for those who call it.
    Nowhere,
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
    /// Names that no object defines.
    missing: BTreeSet<String>,
    /// Starts of functions, and where tables of jumps lead, which begins at height 0 as well.
    functions: BTreeSet<u64>,
    exports: BTreeMap<String, u64>,
    /// Of `global`, those that another definition replaces.
    weak: HashSet<String>,
    with_lines: bool,
}

fn read(bytes: &[u8]) -> Result<object::File<'_>, Error> {
    object::File::parse(bytes).map_err(|e| Error::new(format!("an object of GNU as: {e}")))
}

/// Names that objects need, but for those that they only use if they are there, and that
/// they have.
#[derive(Default)]
pub struct Names {
    pub needed: BTreeSet<String>,
    pub defined: BTreeSet<String>,
}

impl Names {
    pub fn add(&mut self, object: &[u8]) -> Result<(), Error> {
        let file = read(object)?;
        for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
            let name = symbol.name().unwrap_or_default().to_owned();
            match (symbol.is_undefined(), symbol.is_weak()) {
                (true, true) => false,
                (true, false) => self.needed.insert(name),
                (false, _) => self.defined.insert(name),
            };
        }
        Ok(())
    }

    pub fn missing(&self) -> BTreeSet<String> {
        self.needed.difference(&self.defined).cloned().collect()
    }
}

/// Names that the objects need and do not have.
pub fn undefined(objects: &[Vec<u8>]) -> Result<BTreeSet<String>, Error> {
    let mut names = Names::default();
    for bytes in objects {
        names.add(bytes)?;
    }
    Ok(names.missing())
}

/// Links, without checking.
pub fn link(objects: &[Vec<u8>], how: &Linked) -> Result<Vec<u8>, Error> {
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
        imports: how.imports.clone(),
        missing: undefined(objects)?,
        functions: BTreeSet::new(),
        exports: BTreeMap::new(),
        weak: HashSet::new(),
        with_lines: how.with_lines,
    };
    it.place_sections()?;
    let arrays = it.place_arrays()?;
    // What begins behind the data is as aligned as any section is.
    it.data.resize(it.data.len().next_multiple_of(64), 0);
    it.define_symbols(arrays)?;
    if let Some(names) = &how.exports {
        it.rename_exports(names);
    }
    let fixes = it.fixes()?;
    it.take_ways(&fixes);
    it.write(&fixes)
}

fn part_of(name: &str, kind: SectionKind) -> Option<Part> {
    match kind {
        // Behind all other data.
        _ if is_of(name, INIT) || is_of(name, FINI) => None,
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
        Ok(())
    }

    fn define_symbols(&mut self, arrays: Vec<(String, u64)>) -> Result<(), Error> {
        let mut global = HashMap::from([
            ("__tmod_table".to_owned(), Place::Table),
            ("__tmod_mask".to_owned(), Place::Mask),
            (crate::rewrite::HEAP.to_owned(), Place::Heap),
        ]);
        let arrays = arrays.into_iter();
        global.extend(arrays.map(|(name, at)| (name, Place::In(Part::Data, at))));
        for (i, name) in self.imports.iter().enumerate() {
            // A library has functions of the same names.
            if self.missing.contains(name) {
                global.insert(name.clone(), Place::Import(i));
            }
            global.insert(format!("{IMPORT_PREFIX}{name}"), Place::Import(i));
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
                if !symbol.is_global() {
                    continue;
                }
                match (global.contains_key(&name), symbol.is_weak()) {
                    (true, true) => continue,
                    (true, false) if !self.weak.remove(&name) => {
                        return Err(Error::new(format!("{name} is defined twice")));
                    }
                    (false, true) => {
                        self.weak.insert(name.clone());
                    }
                    _ => {}
                }
                global.insert(name.clone(), Place::In(*part, at));
                if symbol.kind() == SymbolKind::Text {
                    self.exports.insert(name, at);
                }
            }
        }
        // A library's, which calls the program's.
        if let Some(at) = self.exports.remove(MAIN) {
            self.exports.insert("main".into(), at);
        }
        self.global = global;
        Ok(())
    }

    fn rename_exports(&mut self, names: &[(String, String)]) {
        let of = |(symbol, name): &(String, String)| {
            let at = self.exports.get(symbol)?;
            Some((name.clone(), *at))
        };
        self.exports = names.iter().filter_map(of).collect();
    }

    /// What is declared at height 0 is where a table of jumps leads.
    fn take_ways(&mut self, fixes: &[Fix]) {
        for fix in fixes.iter().filter(|fix| fix.part == Part::Heights) {
            let pushes = &self.heights[fix.at as usize + 8..][..4];
            if let (Place::In(Part::Code, at), [0, 0, 0, 0]) = (fix.place, pushes) {
                self.functions.insert(at.wrapping_add_signed(fix.addend));
            }
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
        if fixes.iter().any(|fix| fix.place == Place::Nowhere) {
            self.code.extend(UD2);
        }
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
            types: None,
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
}

/// `.quad` where in the code, `.long` pushes; the module has them in order, once. Height 0 goes
/// without saying.
fn heights(section: &[u8]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let entries = section
        .chunks_exact(12)
        .map(|entry| (number(entry), number(&entry[8..])))
        .filter(|(_, pushes)| *pushes > 0);
    entries.collect::<BTreeMap<_, _>>().into_iter().collect()
}
