//! What a file of programs has.

use super::data::Kind;
use crate::error::{Error, Result};
use aya_obj::generated::bpf_insn;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};
use std::collections::HashSet;
use std::ffi::CString;
use std::fmt;

/// A file, in the order of the names in it.
pub(super) struct Object {
    file: String,
    pub license: CString,
    pub programs: Vec<Part>,
    pub maps: Vec<Map>,
    raw: aya_obj::Object,
}

/// One program.
pub(super) struct Part {
    pub name: String,
    pub target: Target,
    pub instructions: Vec<bpf_insn>,
}

/// Where a program belongs.
pub(super) enum Target {
    Function {
        function: String,
        /// In bytes.
        offset: u64,
        returns: bool,
    },
    Tracepoint {
        group: String,
        name: String,
    },
    RawTracepoint(String),
}

/// A map, or the variables of a section, which are one.
pub(super) struct Map {
    pub name: String,
    pub kind: Kind,
    pub number: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
    /// Of variables: what they are at first.
    pub content: Vec<u8>,
    /// Of variables: name, offset and size.
    pub variables: Vec<(String, usize, usize)>,
}

impl Object {
    pub fn read(file: &str, bytes: &[u8]) -> Result<Object> {
        let refused = |why: String| Error::Refused {
            what: file.to_owned(),
            why,
        };
        let elf = object::File::parse(bytes).map_err(|e| refused(format!("no object: {e}")))?;
        if elf.architecture() != object::Architecture::Bpf {
            let why = "an object for another machine: clang -target bpf makes those for BPF";
            return Err(refused(why.into()));
        }
        within_sections(&elf).map_err(refused)?;
        without_floods(&elf).map_err(refused)?;
        if asks_for_types(&elf) {
            let why = "it asks for the kernel's types (BTF), which no image has: let it read \
                       a tracepoint's fields, or a function's arguments, or give offsets";
            return Err(refused(why.into()));
        }
        let raw = without_panic(|| aya_obj::Object::parse(&without_lines(&elf, bytes)));
        let raw = raw.map_err(refused)?.map_err(|e| refused(causes(&e)))?;
        let mut maps = Vec::new();
        for (name, map) in &raw.maps {
            maps.push(Map::new(&elf, name, map).map_err(refused)?);
        }
        maps.sort_by(|a, b| a.name.cmp(&b.name));
        let mut programs = Vec::new();
        for (name, program) in &raw.programs {
            let index = object::SectionIndex(program.section_index);
            let section = elf.section_by_index(index);
            let section = section.and_then(|section| section.name().map(str::to_owned));
            let section = section.map_err(|e| refused(e.to_string()))?;
            let target = Target::of_section(&section)
                .map_err(|why| refused(format!("program {name}: {why}")))?;
            programs.push(Part {
                name: name.clone(),
                target,
                instructions: Vec::new(),
            });
        }
        if programs.is_empty() {
            return Err(refused("it has no program".into()));
        }
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Object {
            file: file.to_owned(),
            license: raw.license.clone(),
            programs,
            maps,
            raw,
        })
    }

    /// The maps have these numbers: instructions that name them are complete.
    pub fn link(&mut self, numbers: &[i32]) -> Result<()> {
        let file = self.file.clone();
        let refused = |why: String| Error::Refused {
            what: file.clone(),
            why,
        };
        let text: HashSet<usize> = self.raw.functions.keys().map(|key| key.0).collect();
        let raw = self.raw.maps.clone();
        let maps = self.maps.iter().zip(numbers);
        let maps = maps.filter_map(|(map, number)| {
            let (name, raw) = raw.get_key_value(&map.name)?;
            Some((name.as_str(), *number, raw))
        });
        let done = without_panic(|| {
            self.raw.relocate_maps(maps, &text)?;
            self.raw.relocate_calls(&text)
        });
        done.map_err(refused)?
            .map_err(|error| refused(causes(&error)))?;
        for part in &mut self.programs {
            let key = self.raw.programs.get(&part.name);
            let linked = key.and_then(|program| self.raw.functions.get(&program.function_key()));
            part.instructions = linked.map_or_else(Vec::new, |f| f.instructions.clone());
        }
        Ok(())
    }
}

/// What a file has of lines and types of the kernel.
const EXTENDED: &str = ".BTF.ext";

/// Whether instructions are to be changed to what the kernel's own types are (CO-RE): the
/// length of such relocations is in the section's header (Linux, Documentation/bpf/btf.rst).
fn asks_for_types(elf: &object::File) -> bool {
    const HEADER_LENGTH: usize = 4;
    const LENGTH: usize = 28;
    let section = elf.section_by_name(EXTENDED);
    let bytes = section
        .and_then(|section| section.data().ok())
        .unwrap_or(&[]);
    let number = |at: usize| {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    number(HEADER_LENGTH).is_some_and(|len| len as usize >= LENGTH + 4)
        && number(LENGTH).is_some_and(|len| len > 0)
}

/// The same file with another name for that section, of which nothing is used.
fn without_lines(elf: &object::File, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // Where clang has the names of sections.
    for table in [".strtab", ".shstrtab"] {
        let range = elf.section_by_name(table).and_then(|it| it.file_range());
        let range = range.map_or(0..0, |(at, len)| {
            at as usize..(at.saturating_add(len)) as usize
        });
        let names = bytes.get_mut(range).unwrap_or(&mut []);
        let name = EXTENDED.as_bytes();
        if let Some(at) = names.windows(name.len()).position(|part| part == name) {
            names[at + name.len() - 1] = b'-';
        }
    }
    bytes
}

/// The reader of objects panics at some that are damaged.
fn without_panic<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    done.map_err(|_| "the file is damaged".into())
}

/// The reader of objects believes what symbols say of themselves.
fn within_sections(elf: &object::File) -> std::result::Result<(), String> {
    for symbol in elf.symbols().filter(|symbol| symbol.size() > 0) {
        let Some(index) = symbol.section_index() else {
            continue;
        };
        let section = elf.section_by_index(index).map_err(|e| e.to_string())?;
        let (start, end) = (section.address(), section.address() + section.size());
        let last = symbol.address().checked_add(symbol.size());
        if symbol.address() < start || last.is_none_or(|last| last > end) {
            let name = symbol.name().unwrap_or("without a name");
            return Err(format!("no object: symbol {name} is not in its section"));
        }
    }
    Ok(())
}

/// As many bytes of variables as a file may have that it does not contain.
const MOST_ZEROS: u64 = 16 << 20;

/// The reader of objects makes room for variables that are zero at first, as many as the file
/// says that there are; where there is no room for them, that ends the process.
fn without_floods(elf: &object::File) -> std::result::Result<(), String> {
    let large = |section: &object::Section| {
        section.kind() == SectionKind::UninitializedData && section.size() > MOST_ZEROS
    };
    let Some(section) = elf.sections().find(large) else {
        return Ok(());
    };
    let (name, size) = (section.name().unwrap_or("without a name"), section.size());
    Err(format!(
        "section {name} has {size} bytes of variables, and there may be {MOST_ZEROS}: a map \
         has room for more"
    ))
}

/// An error with what it came from.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        next = cause.source();
    }
    text
}

impl Map {
    fn new(elf: &object::File, name: &str, map: &aya_obj::Map) -> std::result::Result<Map, String> {
        let index = object::SectionIndex(map.section_index());
        let section = elf.section_by_index(index).map_err(|e| e.to_string())?;
        let is_data = map.symbol_index().is_none();
        let kind = match is_data {
            true if name.starts_with(".rodata") => Kind::Constants,
            true => Kind::Variables,
            false => Kind::of_number(map.map_type()).map_err(|why| format!("map {name}: {why}"))?,
        };
        let of_section = |symbol: &object::Symbol| {
            symbol.section_index() == Some(index) && symbol.kind() == object::SymbolKind::Data
        };
        let mut variables = Vec::new();
        if kind == Kind::Variables {
            for symbol in elf.symbols().filter(of_section) {
                let name = symbol.name().map_err(|e| e.to_string())?;
                let offset = symbol.address() - section.address();
                variables.push((name.to_owned(), offset as usize, symbol.size() as usize));
            }
            variables.sort();
        }
        let content = match section.kind() {
            SectionKind::UninitializedData => Vec::new(),
            _ if is_data => map.data().to_vec(),
            _ => Vec::new(),
        };
        Ok(Map {
            name: name.to_owned(),
            kind,
            number: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            max_entries: map.max_entries(),
            flags: map.map_flags(),
            content,
            variables,
        })
    }
}

impl Part {
    /// Whether it has the function fail whose beginning it is at.
    pub fn overrides(&self) -> bool {
        const CALL: u8 = 0x85;
        const OVERRIDE_RETURN: i32 = 58;
        let calls = |insn: &bpf_insn| insn.code == CALL && insn.src_reg() == 0;
        let mut called = self.instructions.iter().filter(|insn| calls(insn));
        called.any(|insn| insn.imm == OVERRIDE_RETURN)
    }
}

impl Target {
    fn of_section(section: &str) -> std::result::Result<Target, String> {
        let (kind, rest) = section.split_once('/').unwrap_or((section, ""));
        let without = || format!("section {section} does not say of what: write {kind}/NAME");
        match kind {
            "kprobe" | "kretprobe" if rest.is_empty() => Err(without()),
            "kprobe" => {
                let (function, offset) = rest.split_once('+').unwrap_or((rest, "0"));
                let offset = offset.parse();
                let wrong = |_| format!("section {section}: no offset in bytes");
                Ok(Target::Function {
                    function: function.into(),
                    offset: offset.map_err(wrong)?,
                    returns: false,
                })
            }
            "kretprobe" => Ok(Target::Function {
                function: rest.into(),
                offset: 0,
                returns: true,
            }),
            "tracepoint" | "tp" => match rest.split_once('/') {
                Some((group, name)) => Ok(Target::Tracepoint {
                    group: group.into(),
                    name: name.into(),
                }),
                None => Err(format!(
                    "section {section} does not say of what: write {kind}/GROUP/NAME"
                )),
            },
            "raw_tracepoint" | "raw_tp" if rest.is_empty() => Err(without()),
            "raw_tracepoint" | "raw_tp" => Ok(Target::RawTracepoint(rest.into())),
            _ => Err(format!(
                "no program of section {section} runs here: kprobe, kretprobe, tracepoint and \
                 raw_tracepoint do"
            )),
        }
    }
}

/// As its section has it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Function {
                function,
                offset,
                returns,
            } => {
                let kind = if *returns { "kretprobe" } else { "kprobe" };
                write!(f, "{kind}/{function}")?;
                match offset {
                    0 => Ok(()),
                    _ => write!(f, "+{offset}"),
                }
            }
            Target::Tracepoint { group, name } => write!(f, "tracepoint/{group}/{name}"),
            Target::RawTracepoint(name) => write!(f, "raw_tracepoint/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tane_test_support::{compile_bpf, Scratch};

    #[test]
    fn a_file_that_says_that_it_has_more_variables_than_there_is_room_for_is_refused() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/counts.bpf.c");
        let scratch = Scratch::new("object");
        let to = scratch.join("counts.o");
        compile_bpf(&from, &to);
        let mut bytes = std::fs::read(&to).expect("an object");
        assert!(Object::read("counts.o", &bytes).is_ok());
        let elf = object::File::parse(&bytes[..]).expect("an object");
        let zeros = elf.section_by_name(".bss").expect("variables");
        // Section headers and their field sh_size: elf(5).
        let (table, header, size) = (0x28, 64, 32);
        let table = u64::from_le_bytes(bytes[table..table + 8].try_into().expect("8 bytes"));
        let at = table as usize + zeros.index().0 * header + size;
        for (says, good) in [
            (MOST_ZEROS, true),
            (MOST_ZEROS + 1, false),
            (1 << 60, false),
        ] {
            bytes[at..at + 8].copy_from_slice(&says.to_le_bytes());
            match Object::read("counts.o", &bytes) {
                Ok(_) => assert!(good, "{says}"),
                Err(e) => assert!(!good && e.to_string().contains(".bss has"), "{says}: {e}"),
            }
        }
    }
}
