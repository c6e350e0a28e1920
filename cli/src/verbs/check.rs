//! tane check: whether a module of machine code keeps the rules of docs/checked.md.

use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::names;
use crate::output::Output;
use crate::session::Global;
use serde_json::json;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane_checked::{check_with, Module, Refusal, Step, Why};

/// More than a module's parts can be, and less than would hurt.
const MOST: u64 = 1 << 31;

/// Prove that a module of machine code reaches only its own memory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane check tool.tmod             silent if it keeps every rule
  tane check --explain tool.tmod   each instruction, and why it is allowed
  tane check --disassemble tool.tmod     of a typed module, assembly that build takes again

Nothing is run. Exit codes: 0, it keeps every rule; 1, it breaks one, which is told with
the place in the code and what to do; 3, it cannot be read.")]
pub struct Args {
    /// The module
    #[arg(value_name = "FILE.tmod")]
    pub file: OsString,
    /// Print every instruction, what its function has pushed before it (in words of 8
    /// bytes), why it is allowed, and of typed modules what registers and words of the stack
    /// hold, up to the first that is not
    #[arg(long)]
    pub explain: bool,
    /// Print a typed module as typed assembly, once it was accepted
    #[arg(long, conflicts_with = "explain")]
    pub disassemble: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let path = Path::new(&args.file);
    let file = read(path).map_err(|error| Failure::of_host(path, &error))?;
    if file.len() as u64 > MOST {
        let text = format!("{}: more than 2 GiB, and no module", path.display());
        return Err(Failure::new(NO_IMAGE, text).about(args.file.as_bytes()));
    }
    let mut out = Output::new();
    let verdict = verdict(&file, args.explain, global, &mut out);
    out.flush()?;
    let name = names::plain(args.file.as_bytes());
    match verdict? {
        Err(refusal) => {
            let failure = Failure::new(SOME_FAILED, format!("{name}: {refusal}"));
            let failure = failure.about(args.file.as_bytes());
            Err(failure.remedy(refusal.rule.remedy()))
        }
        Ok(()) if args.disassemble => disassemble(&file, &args),
        Ok(()) => Ok(0),
    }
}

fn disassemble(file: &[u8], args: &Args) -> Result<u8> {
    let name = names::plain(args.file.as_bytes());
    let module = Module::parse(file)
        .ok()
        .filter(|module| module.types.is_some());
    let text = module.and_then(|module| tane_checked_tl::asm::print(&module).ok());
    let Some(text) = text else {
        let failure = Failure::new(SOME_FAILED, format!("{name}: it declares no types"));
        return Err(failure.remedy("--explain prints the instructions of every module"));
    };
    let mut out = Output::new();
    for line in text.lines() {
        out.line(line)?;
    }
    out.flush()?;
    Ok(0)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = Vec::new();
    std::fs::File::open(path)?
        .take(MOST + 1)
        .read_to_end(&mut file)?;
    Ok(file)
}

/// Checks, and prints what was asked for.
fn verdict(
    file: &[u8],
    explain: bool,
    global: &Global,
    out: &mut Output,
) -> Result<std::result::Result<(), Refusal>> {
    let module = match Module::parse(file) {
        Ok(module) => module,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut printed = Ok(());
    let mut count = 0_u64;
    let checked = check_with(&module, |step| {
        count += 1;
        if explain && printed.is_ok() {
            printed = print(&module, step, global, out);
        }
    });
    printed?;
    if checked.is_ok() && global.json && !explain {
        let exports: Vec<_> = module.exports.iter().map(|export| export.name).collect();
        out.json(&json!({
            "code": module.code.len(),
            "instructions": count,
            "memory": module.layout.end,
            "imports": module.imports,
            "exports": exports,
        }))?;
    }
    Ok(checked)
}

fn print(module: &Module, step: &Step<'_>, global: &Global, out: &mut Output) -> Result<()> {
    let at = step.at as usize;
    let bytes = &module.code[at..at + step.instruction.length];
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.join(" ");
    let name = step.instruction.name;
    let (rules, why) = why(step.why);
    let types = step.types.map(ToString::to_string);
    if global.json {
        return out.json(&json!({
            "at": at,
            "pushed": step.height,
            "bytes": hex,
            "name": name,
            "rules": rules,
            "why": why,
            "types": types,
        }));
    }
    if let Some(export) = module.exports.iter().find(|export| export.at == step.at) {
        out.line(&format!("{}:", names::shown(export.name.as_bytes())))?;
    }
    let types = types.map_or(String::new(), |types| format!("  [{types}]"));
    out.line(&format!(
        "{at:8x} {:3}  {hex:33}  {name:12} {rules}: {why}{types}",
        step.height
    ))
}

/// The rules that it was checked by, beside R5, which all are, and what they found.
fn why(why: Why) -> (&'static str, String) {
    match why {
        Why::Registers => ("R2", "a listed form, without memory".into()),
        Why::Window => ("R3", "memory of the window".into()),
        Why::OwnData(at) => ("R4", format!("its own data at window+{at:#x}")),
        Why::Stack => ("R7", "the stack by one word, within this function".into()),
        Why::Word(above) => (
            "T11",
            format!("a word of this function's, {above} above rsp"),
        ),
        Why::Target(at) => ("R9", format!("to code+{at:#x}, with as much pushed")),
        Why::MaskedIndex => ("R10", "through the table, by a masked index".into()),
        Why::Slot(slot) => ("R10", format!("through slot {slot} of the table")),
        Why::Return => ("R8", "nothing of this function's is left pushed".into()),
        Why::Trap => ("R2", "a trap, which ends the module".into()),
    }
}
