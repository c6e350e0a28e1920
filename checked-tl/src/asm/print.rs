//! A typed module as text that [`super::parse()`] reads: the same module comes of it.

use super::link::jump;
use super::{encode, Arg, Mem, BYTE, HALF, WIDE};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tane_checked::{
    decode, imported, runtime, Class, Flow, Instruction, Memory, Module, Operand, Refusal, Routine,
    Section, Type, IMPORT,
};

/// What stands in the text for a routine.
pub fn routine_name(routine: Routine, imports: &[&str]) -> String {
    match routine {
        Routine::Reset => ".reset".into(),
        Routine::New => ".new".into(),
        Routine::NewWords => ".words".into(),
        Routine::NewBytes => ".bytes".into(),
        Routine::Import(i) => format!(".{}", imports.get(i).copied().unwrap_or("?")),
    }
}

/// The text of an operand.
pub fn arg(arg: Arg) -> String {
    match arg {
        Arg::Reg(number, bytes) => register(number, bytes).into(),
        Arg::Imm(value) => value.to_string(),
        Arg::Text(text) => format!("text{text}"),
        Arg::Slot(slot) => format!("slot{slot}"),
        Arg::Mem(mem) => {
            let size = match mem.size {
                1 => "byte ",
                2 => "word ",
                4 => "dword ",
                8 => "qword ",
                _ => "",
            };
            let mut parts = Vec::new();
            parts.extend(mem.base.map(|base| WIDE[usize::from(base)].to_owned()));
            let index = mem.index;
            parts.extend(index.map(|(i, scale)| format!("{}*{scale}", WIDE[usize::from(i)])));
            if mem.disp != 0 || parts.is_empty() {
                parts.push(mem.disp.to_string());
            }
            format!("{size}[{}]", parts.join("+").replace("+-", "-"))
        }
    }
}

fn register(number: u8, bytes: u8) -> &'static str {
    let names = match bytes {
        1 => &BYTE,
        4 => &HALF,
        _ => &WIDE,
    };
    names[usize::from(number)]
}

fn args(it: &Instruction) -> Option<Vec<Arg>> {
    let each = it.operands.iter().flatten().map(|operand| match *operand {
        Operand::General(number, bytes @ (1 | 4 | 8)) => Some(Arg::Reg(number, bytes)),
        Operand::Immediate => Some(Arg::Imm(it.immediate)),
        Operand::Memory => match it.memory? {
            (Memory::Stack(disp), size) => Some(Arg::Mem(Mem {
                size,
                base: Some(4),
                index: None,
                disp,
            })),
            (
                Memory::Window {
                    base,
                    index,
                    displacement,
                },
                size,
            ) => Some(Arg::Mem(Mem {
                size,
                base,
                index,
                disp: displacement,
            })),
            (Memory::Relative(_), _) => None,
        },
        _ => None,
    });
    each.collect()
}

/// Types in brackets: those of registers, and of words from rsp on.
fn known(registers: &[Type; 16], words: &[Type]) -> String {
    let mut all = Vec::new();
    for (name, ty) in WIDE.iter().zip(registers) {
        if *ty != Type::Unknown {
            all.push(format!("{name} {ty}"));
        }
    }
    for (above, ty) in words.iter().rev().enumerate() {
        if *ty != Type::Unknown {
            all.push(format!("rsp+{} {ty}", above * 8));
        }
    }
    format!("{} [{}]", words.len(), all.join(", "))
}

fn list(types: &[Type]) -> String {
    let all: Vec<String> = types.iter().map(ToString::to_string).collect();
    all.join(", ")
}

struct Printer<'a> {
    module: &'a Module<'a>,
    section: Section,
    routines: BTreeMap<u32, String>,
    names: BTreeMap<u32, String>,
    labels: BTreeSet<u32>,
    texts: BTreeMap<u32, usize>,
}

/// The text of a module that the checker accepts. What the module's maker has left behind
/// its texts, as which line is where, is not in it.
pub fn print(module: &Module<'_>) -> Result<String, Refusal> {
    let section = Section::parse(module, module.types.unwrap_or_default())?;
    let signatures: Vec<_> = module.imports.iter().filter_map(|n| imported(n)).collect();
    let runtime = runtime(&module.layout, module.zeroes, &signatures);
    let routines = runtime.routines.iter();
    let routines = routines.map(|(at, it)| (*at, routine_name(*it, &module.imports)));
    let mut names = BTreeMap::new();
    for (i, function) in section.functions.iter().enumerate() {
        let export = module
            .exports
            .iter()
            .find(|export| export.at == function.at);
        let name = export.map_or(format!("f{i}"), |export| export.name.to_owned());
        names.insert(function.at, name);
    }
    let texts = section.texts.iter().enumerate();
    let mut it = Printer {
        module,
        routines: routines.collect(),
        names,
        labels: section.joins.iter().map(|join| join.at).collect(),
        texts: texts
            .map(|(i, at)| (module.layout.read_only + at, i))
            .collect(),
        section,
    };
    let start = runtime.code.len();
    it.find_labels(start);
    let mut to = it.head();
    it.code(start, &mut to);
    Ok(to)
}

impl Printer<'_> {
    fn instructions(&self, start: usize) -> impl Iterator<Item = (usize, Instruction)> + '_ {
        let mut at = start;
        std::iter::from_fn(move || {
            let it = decode(self.module.code.get(at..)?).ok()?;
            let here = at;
            at += it.length;
            Some((here, it))
        })
    }

    fn find_labels(&mut self, start: usize) {
        let jumps = self
            .instructions(start)
            .filter(|(_, it)| matches!(it.flow, Flow::Branch | Flow::Jump));
        let targets: Vec<u32> = jumps.map(|(at, it)| target(at, &it)).collect();
        self.labels.extend(targets);
    }

    fn head(&self) -> String {
        let mut to = format!("heap {}\n", self.module.zeroes);
        for name in &self.module.imports {
            let _ = writeln!(to, "import {name}");
        }
        for at in &self.section.texts {
            let bytes = self
                .module
                .read_only
                .get(*at as usize + 8..)
                .unwrap_or_default();
            let (length, bytes) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            let bytes = &bytes[..bytes.len().min(u64::from_le_bytes(*length) as usize)];
            let _ = writeln!(to, "text \"{}\"", bytes.escape_ascii());
        }
        for (i, class) in self.section.classes.iter().enumerate() {
            let _ = match class {
                Class::Record(fields) => {
                    writeln!(to, "class record({})  # {}", list(fields), i + 3)
                }
                Class::Array(element) => writeln!(to, "class array({element})  # {}", i + 3),
                Class::Bytes => Ok(()),
            };
        }
        for (arguments, result) in &self.section.signatures {
            let _ = writeln!(to, "signature ({}): {result}", list(arguments));
        }
        for entry in self
            .module
            .table
            .iter()
            .filter(|entry| *entry & IMPORT == 0)
        {
            let name = self.names.get(entry).map_or("?", String::as_str);
            let _ = writeln!(to, "slot {name}");
        }
        to
    }

    fn code(&self, start: usize, to: &mut String) {
        let mut before: Option<Instruction> = None;
        for (at, it) in self.instructions(start) {
            let place = at as u32;
            if let Some(name) = self.names.get(&place) {
                let function = self.section.functions.iter().find(|f| f.at == place);
                let signature = function.map_or(0, |f| usize::from(f.signature));
                let (arguments, result) = &self.section.signatures[signature];
                let export = self.module.exports.iter().any(|export| export.at == place);
                let export = if export { "export " } else { "" };
                let _ = writeln!(to, "\n{export}fn {name}({}): {result}", list(arguments));
            }
            if self.labels.contains(&place) {
                let join = self.section.joins.iter().find(|join| join.at == place);
                let join = join.map_or(String::new(), |join| {
                    format!(" {}", known(&join.registers, &join.words))
                });
                let _ = writeln!(to, "L{place:x}:{join}");
            }
            let text = self.text(at, &it, before.as_ref());
            if !text.is_empty() {
                let _ = writeln!(to, "\t{text}");
            }
            before = Some(it);
        }
    }

    /// Of one instruction; of the mask before a call through the table nothing.
    fn text(&self, at: usize, it: &Instruction, before: Option<&Instruction>) -> String {
        let bytes = &self.module.code[at..at + it.length];
        let raw = || {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {}", hex.join(" "))
        };
        match it.flow {
            Flow::Branch | Flow::Jump if jump(it.name).is_some() => {
                format!("{} L{:x}", it.name, target(at, it))
            }
            Flow::Call => {
                let place = target(at, it);
                let named = self.routines.get(&place).or_else(|| self.names.get(&place));
                named.map_or_else(raw, |name| format!("call {name}"))
            }
            Flow::CallTable => match before.and_then(|and| and.masks) {
                Some(register) => format!("callslot {}", WIDE[usize::from(register)]),
                None => raw(),
            },
            _ if self.is_mask(at, it) => String::new(),
            _ => {
                let Some(mut args) = args(it) else {
                    return raw();
                };
                if let (Some(Arg::Imm(value)), "mov") = (args.get(1).copied(), it.name) {
                    let text = u32::try_from(value).ok().and_then(|at| self.texts.get(&at));
                    if let (Some(text), Arg::Reg(_, 4)) = (text, args[0]) {
                        args[1] = Arg::Text(*text);
                    }
                }
                let is_text = matches!(args.get(1), Some(Arg::Text(_)));
                if !is_text && encode(it.name, &args).as_deref() != Some(bytes) {
                    return raw();
                }
                let args: Vec<String> = args.into_iter().map(arg).collect();
                format!("{} {}", it.name, args.join(", "))
                    .trim_end()
                    .to_owned()
            }
        }
    }

    /// Right before a call through the table.
    fn is_mask(&self, at: usize, it: &Instruction) -> bool {
        let next = self.module.code.get(at + it.length..).unwrap_or_default();
        let called = decode(next).is_ok_and(|next| next.flow == Flow::CallTable);
        it.masks.is_some() && called
    }
}

fn target(at: usize, it: &Instruction) -> u32 {
    (at as i64 + it.length as i64 + it.immediate) as u32
}
