//! Functions to a module: places, jumps as short as they can be, the section of types.

use super::{encode, Arg, Item, Program, Target, Wrong};
use std::collections::HashMap;
use tane_checked::{
    imported, runtime, Export, Function, Join, Layout, Module, Routine, Runtime, Section, Type,
    EMPTY, IMPORT,
};

/// What an item becomes.
enum Piece {
    Bytes(Vec<u8>),
    /// Its last 4 bytes are a text's address.
    Text(Vec<u8>, usize),
    Jump {
        name: &'static str,
        label: usize,
        long: bool,
    },
    Call(Target),
    /// Through the table: its address follows.
    Slot(Vec<u8>),
    Label(usize),
    Line(u32),
}

impl Piece {
    fn length(&self) -> u32 {
        match self {
            Piece::Bytes(bytes) | Piece::Text(bytes, _) => bytes.len() as u32,
            Piece::Jump { long: false, .. } => 2,
            Piece::Jump { name: "jmp", .. } | Piece::Call(_) => 5,
            Piece::Jump { .. } => 6,
            Piece::Slot(bytes) => bytes.len() as u32 + 4,
            Piece::Label(_) | Piece::Line(_) => 0,
        }
    }
}

fn wrong(what: impl Into<String>) -> Wrong {
    Wrong {
        line: 0,
        what: what.into(),
    }
}

const CONDITIONS: [&str; 16] = [
    "jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge",
    "jle", "jg",
];

/// Whether this is a jump to a label, by the name that it has here.
pub fn jump(name: &str) -> Option<&'static str> {
    match name {
        "jmp" => Some("jmp"),
        _ => CONDITIONS.into_iter().find(|known| *known == name),
    }
}

fn pieces(items: &[Item], mask: u32, slots: usize) -> Result<Vec<Piece>, Wrong> {
    let mut all = Vec::new();
    for item in items {
        all.push(match item {
            Item::Ins(name, args) => {
                let args: Vec<Arg> = args.iter().map(|arg| arg.numbered(slots)).collect();
                let bytes = encode(name, &args)
                    .ok_or_else(|| wrong(format!("{name} with {args:?} is no instruction")))?;
                match args.iter().find_map(|arg| match arg {
                    Arg::Text(text) => Some(*text),
                    _ => None,
                }) {
                    Some(text) => Piece::Text(bytes, text),
                    None => Piece::Bytes(bytes),
                }
            }
            Item::Jump(name, label) => Piece::Jump {
                name,
                label: *label,
                long: false,
            },
            Item::Call(target) => Piece::Call(*target),
            Item::CallSlot(register) => {
                let args = [Arg::Reg(*register, 4), Arg::Imm(mask.into())];
                let and = encode("and", &args).unwrap_or_default();
                let rex = (register >> 3) << 1;
                let mut bytes = [&and[..], &[0x65, 0x67]].concat();
                if rex != 0 {
                    bytes.push(0x40 | rex);
                }
                bytes.extend([0xff, 0x14, 3 << 6 | (register & 7) << 3 | 5]);
                Piece::Slot(bytes)
            }
            Item::Label(label) | Item::Join(label, _) => Piece::Label(*label),
            Item::Bytes(bytes) => Piece::Bytes(bytes.clone()),
            Item::Line(line) => Piece::Line(*line),
        });
    }
    Ok(all)
}

/// Where labels of a function are, from its start, and how long it is.
fn places(pieces: &[Piece]) -> (HashMap<usize, u32>, u32) {
    let (mut labels, mut at) = (HashMap::new(), 0);
    for piece in pieces {
        if let Piece::Label(label) = piece {
            labels.insert(*label, at);
        }
        at += piece.length();
    }
    (labels, at)
}

/// Jumps that are too far for a byte become long, until none is.
fn settle(pieces: &mut [Piece]) -> Result<HashMap<usize, u32>, Wrong> {
    loop {
        let (labels, _) = places(pieces);
        let (mut at, mut changed) = (0_u32, false);
        for piece in pieces.iter_mut() {
            at += piece.length();
            if let Piece::Jump { label, long, .. } = piece {
                let target = labels.get(label);
                let target = target.ok_or_else(|| wrong("a jump to a label that is not there"))?;
                let far = i8::try_from(i64::from(*target) - i64::from(at)).is_err();
                if far && !*long {
                    (*long, changed) = (true, true);
                }
            }
        }
        if !changed {
            return Ok(labels);
        }
    }
}

/// Texts as they are in the read-only data, and where each is.
fn texts(program: &Program) -> (Vec<u8>, Vec<u32>) {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for text in &program.texts {
        places.push(bytes.len() as u32);
        bytes.extend(u64::from(tane_checked::TEXT).to_le_bytes());
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    (bytes, places)
}

/// Makes the module. It is not checked.
pub fn link(program: &Program) -> Result<Vec<u8>, Wrong> {
    let imports = program.imports.iter();
    let signatures: Result<Vec<_>, Wrong> = imports
        .map(|name| imported(name).ok_or_else(|| wrong(format!("{name} cannot be imported"))))
        .collect();
    let signatures = signatures?;
    let entries = 1 + program.imports.len() + program.slots.len();
    let mask = entries.next_power_of_two() as u32 - 1;
    let heap = program.heap.next_multiple_of(8).max(16);
    let (mut read_only, text_places) = texts(program);
    let too_large = || wrong("more code and data than a module has room for");
    let layout = |code: u64, read_only: u64| {
        Layout::new(code, entries as u64, read_only, heap.into()).ok_or_else(too_large)
    };
    let first = runtime(&layout(0, 0)?, heap, &signatures).code.len() as u32;
    let mut functions = Vec::new();
    let mut at = first;
    for function in &program.functions {
        let mut all = pieces(&function.items, mask, 1 + program.imports.len())
            .map_err(|e| wrong(format!("{}: {}", function.name, e.what)))?;
        let labels = settle(&mut all)?;
        let length = places(&all).1;
        functions.push((at, all, labels));
        at += length;
    }
    let lines = match program.sources.as_slice() {
        [] => Vec::new(),
        sources => lines(sources, &functions),
    };
    read_only.extend(lines);
    let layout = layout(at.into(), read_only.len() as u64)?;
    let routines = runtime(&layout, heap, &signatures);
    let starts: Vec<u32> = functions.iter().map(|(at, ..)| *at).collect();
    let mut code = routines.code.clone();
    for (start, all, labels) in &functions {
        for piece in all {
            let places = Places {
                start: *start,
                labels,
                starts: &starts,
                texts: &text_places,
            };
            emit(&mut code, piece, &places, &layout, &routines)?;
        }
    }
    let section = section(program, &functions, &text_places);
    let slots = program.slots.iter().map(|slot| starts[*slot]);
    let numbers = (0..program.imports.len() as u32).map(|i| IMPORT | i);
    let exports = program.functions.iter().zip(&starts);
    let exports = exports.filter(|(function, _)| function.export);
    let types = section.to_bytes();
    let module = Module {
        code: &code,
        table: std::iter::once(EMPTY).chain(numbers).chain(slots).collect(),
        read_only: &read_only,
        data: &[],
        zeroes: heap,
        imports: program.imports.iter().map(String::as_str).collect(),
        exports: exports
            .map(|(function, at)| Export {
                name: &function.name,
                at: *at,
            })
            .collect(),
        heights: Vec::new(),
        types: Some(&types),
        layout,
    };
    Ok(module.to_bytes())
}

struct Places<'a> {
    start: u32,
    labels: &'a HashMap<usize, u32>,
    starts: &'a [u32],
    texts: &'a [u32],
}

fn emit(
    code: &mut Vec<u8>,
    piece: &Piece,
    places: &Places<'_>,
    layout: &Layout,
    routines: &Runtime,
) -> Result<(), Wrong> {
    match piece {
        Piece::Bytes(bytes) => code.extend(bytes),
        Piece::Text(bytes, text) => {
            let at = places
                .texts
                .get(*text)
                .ok_or_else(|| wrong("a text that is not there"))?;
            code.extend(&bytes[..bytes.len() - 4]);
            code.extend((layout.read_only + at).to_le_bytes());
        }
        Piece::Jump { name, label, long } => {
            let target = places.start + places.labels.get(label).copied().unwrap_or(0);
            let behind = code.len() as u32 + piece.length();
            let distance = target.wrapping_sub(behind);
            let condition = CONDITIONS.iter().position(|known| known == name);
            match (condition, long) {
                (None, false) => code.extend([0xeb, distance as u8]),
                (None, true) => code.push(0xe9),
                (Some(n), false) => code.extend([0x70 | n as u8, distance as u8]),
                (Some(n), true) => code.extend([0x0f, 0x80 | n as u8]),
            }
            if *long {
                code.extend(distance.to_le_bytes());
            }
        }
        Piece::Call(target) => {
            let at = match target {
                Target::Function(function) => places.starts.get(*function).copied(),
                Target::Routine(routine) => routine_at(routines, *routine),
            };
            let at = at.ok_or_else(|| wrong("a call of what is not there"))?;
            let distance = at.wrapping_sub(code.len() as u32 + 5);
            code.push(0xe8);
            code.extend(distance.to_le_bytes());
        }
        Piece::Slot(bytes) => {
            code.extend(bytes);
            code.extend(layout.table.to_le_bytes());
        }
        Piece::Label(_) | Piece::Line(_) => {}
    }
    Ok(())
}

fn routine_at(routines: &Runtime, wanted: Routine) -> Option<u32> {
    let mut all = routines.routines.iter();
    all.find(|(_, routine)| *routine == wanted)
        .map(|(at, _)| *at)
}

type Placed = (u32, Vec<Piece>, HashMap<usize, u32>);

fn section(program: &Program, functions: &[Placed], texts: &[u32]) -> Section {
    let mut it = Section {
        classes: program.classes.clone(),
        signatures: program.signatures.clone(),
        texts: texts.to_vec(),
        ..Section::default()
    };
    for (function, (start, _, labels)) in program.functions.iter().zip(functions) {
        let signature = (function.arguments.clone(), function.result);
        let known = it.signatures.iter().position(|other| *other == signature);
        let number = known.unwrap_or_else(|| {
            it.signatures.push(signature);
            it.signatures.len() - 1
        });
        it.functions.push(Function {
            at: *start,
            signature: number as u16,
        });
        for item in &function.items {
            let Item::Join(label, known) = item else {
                continue;
            };
            let at = start + labels.get(label).copied().unwrap_or(0);
            // Of two joins at one place counts what both know.
            match it.joins.last_mut().filter(|join| join.at == at) {
                Some(join) => {
                    let words = join.words.iter_mut().zip(&known.words);
                    let all = join.registers.iter_mut().zip(&known.registers).chain(words);
                    for (to, _) in all.filter(|(to, other)| to != other) {
                        *to = Type::Unknown;
                    }
                }
                None => it.joins.push(Join {
                    at,
                    registers: known.registers,
                    words: known.words.clone(),
                }),
            }
        }
    }
    debug_assert!(!it
        .joins
        .iter()
        .any(|join| join.registers[4] != Type::Unknown));
    it
}

/// Which line of the source is where, as `checked-run/src/lines.rs` describes it.
fn lines(sources: &[(String, u32)], functions: &[Placed]) -> Vec<u8> {
    let mut entries = Vec::new();
    let (mut before, mut said) = (0, 0);
    for (start, pieces, _) in functions {
        let mut at = *start;
        for piece in pieces {
            if let Piece::Line(line) = piece {
                if *line != said {
                    let file = sources.partition_point(|(_, lines)| lines < line);
                    let file = file.saturating_sub(1);
                    for number in [at - before, file as u32, line - sources[file].1] {
                        leb(&mut entries, number);
                    }
                    (before, said) = (at, *line);
                }
            }
            at += piece.length();
        }
    }
    let names = sources.iter().map(|(name, _)| format!("{name}\0"));
    let names: String = names.collect();
    let sizes = [entries.len() as u32, names.len() as u32].map(u32::to_le_bytes);
    [&entries, names.as_bytes(), b"TANELINE", &sizes.concat()].concat()
}

fn leb(to: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
