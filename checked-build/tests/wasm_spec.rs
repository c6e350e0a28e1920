//! WebAssembly's own test scripts, of another project's sources (`scripts/foreign-images`):
//! modules that are refused, what functions return, and how they trap.

mod common;

use common::can_run;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane_checked_build::{build, Error, Options};
use tane_checked_run::{Import, Instance, Trap};
use tane_test_support::Scratch;
use wast::core::{NanPattern, WastArgCore, WastRetCore};
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::{
    QuoteWat, QuoteWatTest, Wast, WastArg, WastDirective, WastExecute, WastInvoke, WastRet,
};

const HEAP: u64 = 64 << 20;

/// Those about WebAssembly 1.0 and what `tane build` has beyond it. Not here is what is
/// about text alone, several modules that share something, and later features.
const SCRIPTS: &[&str] = &[
    "address",
    "align",
    "binary",
    "binary-leb128",
    "block",
    "br",
    "br_if",
    "br_table",
    "break-drop",
    "call",
    "call_indirect",
    "const",
    "conversions",
    "custom",
    "data",
    "elem",
    "endianness",
    "f32",
    "f32_bitwise",
    "f32_cmp",
    "f64",
    "f64_bitwise",
    "f64_cmp",
    "fac",
    "float_exprs",
    "float_literals",
    "float_memory",
    "float_misc",
    "forward",
    "func",
    "func_ptrs",
    "globals",
    "i32",
    "i64",
    "if",
    "int_exprs",
    "int_literals",
    "labels",
    "left-to-right",
    "load",
    "local_get",
    "local_set",
    "local_tee",
    "loop",
    "memory",
    "memory_grow",
    "memory_redundancy",
    "memory_size",
    "memory_trap",
    "names",
    "nop",
    "return",
    "select",
    "skip-stack-guard-page",
    "stack",
    "start",
    "store",
    "switch",
    "traps",
    "type",
    "unreachable",
    "unwind",
];

/// What functions of the module `spectest` may be imported.
const SPECTEST: [&str; 7] = [
    "spectest.print",
    "spectest.print_i32",
    "spectest.print_i64",
    "spectest.print_f32",
    "spectest.print_f64",
    "spectest.print_i32_f32",
    "spectest.print_f64_f64",
];

fn imports() -> Vec<(&'static str, Import)> {
    let nothing = |name| -> (&'static str, Import) { (name, Box::new(|_, _| 0)) };
    SPECTEST.map(nothing).into()
}

#[derive(Default)]
struct Counts {
    passed: usize,
    refused: usize,
    /// Modules that are not supported, by why.
    left_out: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

struct Script<'s> {
    file: &'s str,
    text: &'s str,
    scratch: &'s Path,
    counts: Counts,
    instances: HashMap<String, Instance>,
    /// The last one's name; none if it was left out.
    last: Option<String>,
    modules: usize,
}

fn make(bytes: &[u8], path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::write(path, bytes).expect("a file");
    let options = Options {
        imports: SPECTEST.map(str::to_owned).into(),
        ..Options::default()
    };
    build(&[path], &options)
}

fn word(argument: &WastArg<'_>) -> u64 {
    match argument {
        WastArg::Core(WastArgCore::I32(value)) => u64::from(*value as u32),
        WastArg::Core(WastArgCore::I64(value)) => *value as u64,
        WastArg::Core(WastArgCore::F32(value)) => value.bits.into(),
        WastArg::Core(WastArgCore::F64(value)) => value.bits,
        other => panic!("an argument: {other:?}"),
    }
}

/// Whether a word is what was to be returned; of a smaller type only its bits count.
fn is_as_expected(got: u64, expected: &WastRetCore<'_>) -> bool {
    let (canonical32, canonical64) = (0x7fc0_0000, 0x7ff8_0000_0000_0000);
    match expected {
        WastRetCore::I32(value) => got as u32 == *value as u32,
        WastRetCore::I64(value) => got == *value as u64,
        WastRetCore::F32(pattern) => match pattern {
            NanPattern::CanonicalNan => got as u32 & 0x7fff_ffff == canonical32,
            NanPattern::ArithmeticNan => got as u32 & canonical32 == canonical32,
            NanPattern::Value(value) => got as u32 == value.bits,
        },
        WastRetCore::F64(pattern) => match pattern {
            NanPattern::CanonicalNan => got & (u64::MAX >> 1) == canonical64,
            NanPattern::ArithmeticNan => got & canonical64 == canonical64,
            NanPattern::Value(value) => got == value.bits,
        },
        WastRetCore::Either(several) => several.iter().any(|one| is_as_expected(got, one)),
        other => panic!("a result: {other:?}"),
    }
}

/// Without directives that there were once.
fn modern(text: &str) -> String {
    let mut new = text.to_owned();
    for kind in ["canonical", "arithmetic"] {
        let old = format!("(assert_return_{kind}_nan ");
        let lines = new.lines().map(|line| match line.strip_prefix(&old) {
            Some(rest) => {
                let (invoke, _) = rest.rsplit_once(')').expect("one line");
                let nan = format!("(f32.const nan:{kind}) (f64.const nan:{kind})");
                format!("(assert_return {invoke} (either {nan}))\n")
            }
            None => format!("{line}\n"),
        });
        new = lines.collect();
    }
    new
}

/// How what the scripts call so ends here.
fn trap(message: &str) -> Trap {
    match message {
        "integer divide by zero" | "integer overflow" => Trap::Divide,
        text if text.starts_with("invalid conversion") => Trap::Divide,
        text if text.starts_with("out of bounds memory") => Trap::Memory,
        "out of bounds table access" | "data segment does not fit" => Trap::Memory,
        "unreachable" | "unreachable executed" => Trap::Unreachable,
        text if text.starts_with("undefined") || text.starts_with("uninitialized") => Trap::Call,
        "indirect call type mismatch" | "indirect call" => Trap::Call,
        "call stack exhausted" => Trap::Stack,
        other => panic!("a trap: {other}"),
    }
}

impl Script<'_> {
    fn wrong(&mut self, span: wast::token::Span, what: String) {
        let (line, _) = span.linecol_in(self.text);
        self.counts
            .wrong
            .push(format!("{}:{}: {what}", self.file, line + 1));
    }

    fn module(&mut self, mut module: QuoteWat<'_>) {
        let span = module.span();
        let name = module.name().map(|id| id.name().to_owned());
        let bytes = match module.encode() {
            Ok(bytes) => bytes,
            // Written as it was before the text format was settled.
            Err(error) => return self.left_out(&format!("text: {}", error.message())),
        };
        self.modules += 1;
        let path = self.scratch.join(format!("{}.wasm", self.modules));
        let made = make(&bytes, &path).map_err(|error| error.to_string());
        let file = match made {
            Ok(file) => file,
            Err(text) => match text.contains("not supported") || text.contains("it imports") {
                true => return self.left_out(text.rsplit(": ").next().unwrap_or_default()),
                false => return self.wrong(span, text),
            },
        };
        match Instance::new(&file, HEAP, imports()) {
            Ok(instance) => {
                let name = name.unwrap_or_default();
                self.instances.insert(name.clone(), instance);
                self.last = Some(name);
            }
            Err(error) => self.wrong(span, format!("{error:?}")),
        }
    }

    fn left_out(&mut self, why: &str) {
        *self.counts.left_out.entry(why.to_owned()).or_default() += 1;
        self.last = None;
    }

    /// What the call gave; none if its module was left out.
    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Option<Result<u64, Trap>> {
        let name = match invoke.module {
            Some(id) => id.name().to_owned(),
            None => self.last.clone()?,
        };
        let words: Vec<u64> = invoke.args.iter().map(word).collect();
        let instance = self.instances.get_mut(&name)?;
        match instance.call(invoke.name, &words) {
            Ok(result) => Some(result),
            // More results or parameters than a call from outside has.
            Err(_) => {
                *self.counts.left_out.entry("no export".into()).or_default() += 1;
                None
            }
        }
    }

    fn directive(&mut self, directive: WastDirective<'_>) {
        let span = directive.span();
        match directive {
            WastDirective::Module(module) => self.module(module),
            WastDirective::Invoke(invoke) => {
                if let Some(Err(trap)) = self.invoke(&invoke) {
                    self.wrong(span, format!("{}: {trap:?}", invoke.name));
                }
            }
            WastDirective::AssertReturn {
                exec: WastExecute::Invoke(invoke),
                results,
                ..
            } => match (self.invoke(&invoke), results.as_slice()) {
                (None, _) => {}
                (Some(Ok(_)), []) => self.counts.passed += 1,
                (Some(Ok(got)), [WastRet::Core(expected)]) if is_as_expected(got, expected) => {
                    self.counts.passed += 1;
                }
                (Some(got), _) => {
                    let name = invoke.name;
                    self.wrong(span, format!("{name}: {got:x?} and not {results:x?}"));
                }
            },
            WastDirective::AssertTrap {
                exec: WastExecute::Invoke(invoke),
                message,
                ..
            }
            | WastDirective::AssertExhaustion {
                call: invoke,
                message,
                ..
            } => match self.invoke(&invoke) {
                None => {}
                Some(Err(got)) if got == trap(message) => self.counts.passed += 1,
                Some(got) => {
                    let name = invoke.name;
                    self.wrong(span, format!("{name}: {got:?} and not {message}"));
                }
            },
            WastDirective::AssertInvalid {
                module, message, ..
            }
            | WastDirective::AssertMalformed {
                module, message, ..
            } => {
                self.refused(span, module, message);
            }
            // Others change what is in it then.
            WastDirective::Register { module, .. } => {
                let name = module.map(|id| id.name().to_owned());
                if let Some(name) = name.or_else(|| self.last.clone()) {
                    self.instances.remove(&name);
                }
            }
            // Values of globals, and threads.
            _ => {}
        }
    }

    fn refused(&mut self, span: wast::token::Span, mut module: QuoteWat<'_>, message: &str) {
        // What is wrong with text is its parser's to see.
        let Ok(QuoteWatTest::Binary(bytes)) = module.to_test() else {
            return;
        };
        let path = self.scratch.join("refused.wasm");
        match make(&bytes, &path) {
            Err(_) => self.counts.refused += 1,
            // What was wrong once, and is not any more.
            Ok(_) if message.contains("multiple") || message == "invalid result arity" => {}
            Ok(_) => self.wrong(span, format!("was taken, in spite of: {message}")),
        }
    }
}

fn run(file: &str, text: &str, scratch: &Path) -> Counts {
    let mut script = Script {
        file,
        text,
        scratch,
        counts: Counts::default(),
        instances: HashMap::new(),
        last: None,
        modules: 0,
    };
    let mut lexer = Lexer::new(text);
    // Names of exports may be of any text.
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).unwrap_or_else(|e| panic!("{file}: {e}"));
    let parsed = parser::parse::<Wast>(&buffer).unwrap_or_else(|e| panic!("{file}: {e}"));
    for directive in parsed.directives {
        script.directive(directive);
    }
    script.counts
}

fn scripts() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("build/foreign/binaryen/test/spec");
    if path.is_dir() && root.join("build/foreign/binaryen.complete").is_file() {
        return Some(path);
    }
    let missing = "no sources of binaryen: scripts/foreign-images fetches them";
    tane_test_support::skip(missing);
    None
}

#[test]
fn webassemblys_own_scripts_say_what_it_computes_and_how_it_traps() {
    let (true, Some(path)) = (can_run(), scripts()) else {
        return;
    };
    let next = Mutex::new(SCRIPTS.iter());
    let all = Mutex::new(Counts::default());
    let work = || {
        let scratch = Scratch::new("wasm-spec");
        loop {
            let Some(name) = next.lock().expect("a lock").next() else {
                return;
            };
            let file = path.join(format!("{name}.wast"));
            let text = modern(&std::fs::read_to_string(&file).expect("a script"));
            let counts = run(name, &text, &scratch);
            eprintln!(
                "{name}: {} passed, {} refused, left out: {:?}",
                counts.passed, counts.refused, counts.left_out
            );
            let mut all = all.lock().expect("a lock");
            all.passed += counts.passed;
            all.refused += counts.refused;
            all.wrong.extend(counts.wrong);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let all = all.into_inner().expect("a lock");
    assert!(all.wrong.is_empty(), "{}", all.wrong.join("\n"));
    eprintln!("{} passed, {} refused", all.passed, all.refused);
    assert!(
        all.passed > 16_000 && all.refused > 950,
        "{} {}",
        all.passed,
        all.refused
    );
}
