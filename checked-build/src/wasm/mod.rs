//! WebAssembly to C, which gcc compiles and the rewriter guards as any other. What it means by
//! its memory, tables and traps is in runtime.h; nothing of it is trusted.
//!
//! ```text
//! parse.rs      a file, validated, and its sections
//! function.rs   code, operator by operator
//!   control.rs    its blocks and branches
//!   operators.rs  what only takes values and gives one
//!   types.rs      types, as C
//! runtime.h     memory, traps, arithmetic
//! wasi.c        WASI preview 1 by Linux's calls
//!   wasi_files.c  what of it is about files by name
//! ```

mod control;
mod function;
mod operators;
mod parse;
mod types;

use crate::Error;
use parse::{parse, Constant, Parsed};
use std::collections::BTreeSet;
use std::fmt::Write;
use types::{Signature, Type};

/// What a file of WebAssembly begins with.
pub const MAGIC: &[u8] = b"\0asm";

const WASI: &str = "wasi_snapshot_preview1";
/// More arguments than a call from outside has registers for.
const MOST_ARGUMENTS: usize = 6;

/// What gcc is told of it: numbers that wrap around, not-a-numbers that are kept as they are,
/// calls that stay calls, and rounding as SSE4.1 has it, which every processor with AVX has. What
/// clang made tables of jumps is faster by comparisons here.
pub const WORDS: [&str; 9] = [
    "-ffreestanding",
    "-w",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-optimize-sibling-calls",
    "-fsignaling-nans",
    "-msse4.1",
    "-fno-delete-null-pointer-checks",
    "-fno-jump-tables",
];

/// Bytes of C. A file of few bytes can mean more than there is memory for.
const MOST: usize = 256 << 20;

fn bounded(c: &str) -> Result<(), Error> {
    match c.len() {
        0..=MOST => Ok(()),
        _ => Err(Error::new("it is too large: more than 256 MiB as C")),
    }
}

/// A file, as C.
pub struct Translated {
    pub c: String,
    /// What the loader has to provide, beside what WASI is made of.
    pub imports: Vec<String>,
    /// The functions that it exports: symbols of the C, and their names.
    pub exports: Vec<(String, String)>,
}

pub fn translate(file: &[u8]) -> Result<Translated, Error> {
    let parsed = parse(file)?;
    let least = parsed.memory.map_or(0, |(pages, _)| u64::from(pages) << 16);
    let runtime = include_str!("runtime.h");
    let mut it = Writer {
        parsed: &parsed,
        c: format!("#define MEMORY_LEAST {least}ul\n{runtime}"),
        imports: Vec::new(),
        exports: Vec::new(),
    };
    it.wasi();
    it.declarations()?;
    it.imports()?;
    it.state();
    for (n, body) in parsed.bodies.iter().enumerate() {
        let number = parsed.imports.len() + n;
        let signature = parsed.function(number);
        let text = function::translate(&parsed, number, signature, body);
        let text = text.map_err(|error| Error::new(format!("function {number}: {error}")))?;
        it.c.push_str(&text);
        bounded(&it.c)?;
    }
    it.begin();
    it.exports();
    bounded(&it.c)?;
    Ok(Translated {
        c: it.c,
        imports: it.imports,
        exports: it.exports,
    })
}

struct Writer<'a> {
    parsed: &'a Parsed<'a>,
    c: String,
    imports: Vec<String>,
    exports: Vec<(String, String)>,
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("l{n}")).collect()
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.c.push_str(text.as_ref());
        self.c.push('\n');
    }

    fn is_command(&self) -> bool {
        self.parsed.exports.contains_key("_start")
    }

    fn wasi(&mut self) {
        let mut of_wasi = self
            .parsed
            .imports
            .iter()
            .filter(|(module, _)| *module == WASI);
        if of_wasi.clone().next().is_none() && !self.is_command() {
            return;
        }
        if of_wasi.any(|(_, name)| *name == "path_open") {
            self.line("#define WASI_FILES 1");
        }
        self.line(include_str!("wasi.c"));
        self.line(include_str!("wasi_files.c"));
    }

    fn declarations(&mut self) -> Result<(), Error> {
        let mut known = BTreeSet::new();
        for signature in &self.parsed.types {
            let structure = signature.structure().filter(|one| !known.contains(one));
            if let Some(one) = structure {
                self.line(&one);
                known.insert(one);
            }
        }
        for number in 0..self.parsed.functions.len() {
            let head = function::head(number, self.parsed.function(number));
            self.line(head + ";");
            bounded(&self.c)?;
        }
        Ok(())
    }

    fn imports(&mut self) -> Result<(), Error> {
        for (number, (module, name)) in self.parsed.imports.iter().enumerate() {
            let signature = self.parsed.function(number);
            let head = function::head(number, signature);
            let body = match *module {
                WASI => of_wasi(name, signature)?,
                _ => self.import(number, &format!("{module}.{name}"), signature)?,
            };
            self.line(format!("{head}\n{{\n\t{body}\n}}"));
        }
        Ok(())
    }

    /// A function of whoever loads the module: words, as all have them there.
    fn import(
        &mut self,
        number: usize,
        name: &str,
        signature: &Signature,
    ) -> Result<String, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if !name.chars().all(is_plain) {
            return Err(Error::new(format!(
                "the import {name}: its name is no symbol"
            )));
        }
        let several = signature.gives.len() > 1 || signature.takes.len() > MOST_ARGUMENTS;
        if several {
            let text = "more than six parameters, or several results, are not supported";
            return Err(Error::new(format!("the import {name}: {text}")));
        }
        let takes = match signature.takes.len() {
            0 => "void".into(),
            n => vec!["u64"; n].join(", "),
        };
        self.line(format!("u64 import{number}({takes}) IMPORT(\"{name}\");"));
        if !self.imports.iter().any(|known| known == name) {
            self.imports.push(name.to_owned());
        }
        let words = names(signature.takes.len());
        let words = words.iter().zip(&*signature.takes);
        let words: Vec<String> = words.map(|(name, kind)| kind.as_word(name)).collect();
        let call = format!("import{number}({})", words.join(", "));
        Ok(match signature.gives.first() {
            None => format!("{call};"),
            Some(kind) => format!("return {};", kind.of_word(&call)),
        })
    }

    /// Globals, the table, and what is copied into memory and table.
    fn state(&mut self) {
        for (n, global) in self.parsed.globals.iter().enumerate() {
            self.line(format!("static {} g{n};", global.kind.c()));
        }
        let entries = self.parsed.table;
        self.line(format!("#define TABLE {entries}u"));
        self.line(format!("static struct entry table[{}];", entries.max(1)));
        for (n, (_, functions)) in self.parsed.elements.iter().enumerate() {
            let mut text = format!("static const struct entry elements{n}[] = {{\n");
            for number in functions {
                let signature = self.parsed.function(*number as usize);
                let kind = self.parsed.number_of_type(signature);
                let _ = writeln!(text, "\t{{ {kind}, fn{number} }},");
            }
            self.line(text + "};");
        }
        for (n, data) in self.parsed.data.iter().enumerate() {
            let mut text = format!("static const u8 data{n}[] =");
            for bytes in data.bytes.chunks(32) {
                text.push_str("\n\t\"");
                for byte in bytes {
                    let _ = write!(text, "\\{byte:03o}");
                }
                text.push('"');
            }
            if data.bytes.is_empty() {
                text.push_str(" \"\"");
            }
            self.line(text + ";");
            let bytes = data.bytes.len();
            self.line(format!("static u32 has{n} UNUSED = {bytes}u;"));
        }
    }

    fn constant(&self, constant: Constant, kind: Type) -> String {
        match (constant, kind) {
            (Constant::Global(n), _) => format!("g{n}"),
            (Constant::Word(word), Type::I32) => format!("{word}u"),
            (Constant::Word(word), Type::I64) => format!("{word}ul"),
            (Constant::Word(word), Type::F32) => format!("f32_of({word}u)"),
            (Constant::Word(word), Type::F64) => format!("f64_of({word}ul)"),
        }
    }

    /// What is done before anything of it is called.
    fn begin(&mut self) {
        let mut text = String::from("static int begun;\n\nCOLD_BEGIN void begin(void)\n{\n");
        if let Some((pages, most)) = self.parsed.memory {
            let _ = writeln!(text, "\tmemory_begin({pages}u, {most}u);");
        }
        for (n, global) in self.parsed.globals.iter().enumerate() {
            let value = self.constant(global.begins, global.kind);
            let _ = writeln!(text, "\tg{n} = {value};");
        }
        for (n, (at, functions)) in self.parsed.elements.iter().enumerate() {
            let (at, count) = (self.constant(*at, Type::I32), functions.len());
            let _ = writeln!(text, "\tif ((u64){at} + {count} > TABLE) trap_memory();");
            for entry in 0..count {
                let _ = writeln!(text, "\ttable[{at} + {entry}u] = elements{n}[{entry}];");
            }
        }
        for (n, data) in self.parsed.data.iter().enumerate() {
            if let Some(at) = data.at {
                let (at, bytes) = (self.constant(at, Type::I32), data.bytes.len());
                let _ = writeln!(text, "\tmemory_init(data{n}, {bytes}u, {at}, 0, {bytes}u);");
                let _ = writeln!(text, "\thas{n} = 0;");
            }
        }
        if let Some(start) = self.parsed.start {
            let _ = writeln!(text, "\tfn{start}();");
        }
        text.push_str("\tbegun = 1;\n}\n");
        let text = text.replace("COLD_BEGIN", "static UNUSED __attribute__((__noinline__))");
        self.line(text);
    }

    /// Functions that take words, and give one.
    fn exports(&mut self) {
        for (name, number) in &self.parsed.exports {
            let signature = self.parsed.function(*number as usize);
            let is_plain = signature.takes.len() <= MOST_ARGUMENTS && signature.gives.len() < 2;
            // A module has no names that are empty or have a zero.
            if !is_plain || name.is_empty() || name.contains('\0') {
                continue;
            }
            let symbol = format!("wasm.export.{}", self.exports.len());
            let words = names(signature.takes.len());
            let declared: Vec<String> = words.iter().map(|word| format!("u64 {word}")).collect();
            let declared = match declared.is_empty() {
                true => "void".to_owned(),
                false => declared.join(", "),
            };
            let values = words.iter().zip(&*signature.takes);
            let values: Vec<String> = values.map(|(word, kind)| kind.of_word(word)).collect();
            let call = format!("fn{number}({})", values.join(", "));
            let body = match signature.gives.first() {
                None => format!("{call};\n\treturn 0;"),
                Some(kind) => format!("return {};", kind.as_word(&call)),
            };
            let n = self.exports.len();
            self.line(format!("u64 export{n}({declared}) __asm__(\"{symbol}\");"));
            self.line(format!(
                "u64 export{n}({declared})\n{{\n\tif (!begun)\n\t\tbegin();\n\t{body}\n}}"
            ));
            self.exports.push((symbol, (*name).to_owned()));
        }
        if let Some(start) = self.parsed.exports.get("_start") {
            self.line(format!(
                "u64 command(u64 count, u64 words) __asm__(\"wasm.main\");\n\
                 u64 command(u64 count, u64 words)\n{{\n\
                 \targument_count = count;\n\targuments = (char **)words;\n\
                 \tif (!begun)\n\t\tbegin();\n\tfn{start}();\n\treturn 0;\n}}"
            ));
            self.exports.push(("wasm.main".into(), "main".into()));
        }
    }
}

/// Functions of preview 1 that there are.
const KNOWN: &str = concat!(include_str!("wasi.c"), include_str!("wasi_files.c"));
/// Those that nobody here can give: sockets, other processes, times of files.
const LACKS: [&str; 8] = [
    "fd_filestat_set_times",
    "fd_renumber",
    "path_filestat_set_times",
    "proc_raise",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
];

fn of_wasi(name: &str, signature: &Signature) -> Result<String, Error> {
    let words = names(signature.takes.len()).join(", ");
    if KNOWN.contains(&format!("WASI wasi_{name}(")) {
        let gives = if signature.gives.is_empty() {
            ""
        } else {
            "return "
        };
        return Ok(format!("{gives}wasi_{name}({words});"));
    }
    match LACKS.contains(&name) && *signature.gives == [Type::I32] {
        true => Ok("return W_NOSYS;".into()),
        false => Err(Error::new(format!("{WASI} has no function {name}"))),
    }
}
