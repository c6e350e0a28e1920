//! Modules of TL and of typed assembly.

use super::Args;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::names;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane_checked_tl::{asm, tl};

/// Memory for the objects of one call.
const HEAP: u64 = 16 << 20;
/// Less than a module's data can be.
const MOST_HEAP: u64 = 1 << 30;

/// Whether a source is one of these, by its name.
pub fn is_typed(source: &Path) -> bool {
    let extension = source.extension();
    extension.is_some_and(|e| e == "tl" || e == "tasm")
}

fn read(source: &Path) -> Result<String> {
    let bytes = std::fs::read(source).map_err(|error| Failure::of_host(source, &error))?;
    String::from_utf8(bytes).map_err(|_| {
        let name = names::plain(source.as_os_str().as_bytes());
        Failure::new(SOME_FAILED, format!("{name}: its text is not UTF-8"))
    })
}

fn wrong(text: String) -> Failure {
    Failure::new(SOME_FAILED, text)
}

/// Makes the module.
pub fn build(args: &Args, source: &Path) -> Result<Vec<u8>> {
    let heap = args.heap.unwrap_or(HEAP);
    if heap > MOST_HEAP {
        return Err(Failure::usage("build: --heap: at most 1G"));
    }
    let text = read(source)?;
    let name = names::plain(source.as_os_str().as_bytes());
    if source.extension().is_some_and(|e| e == "tl") {
        let options = tl::Options {
            heap: heap as u32,
            lines: !args.strip,
        };
        return tl::build(&name, &text, options).map_err(|told| wrong(told.to_string()));
    }
    let told = |error: asm::Wrong| match error.line {
        0 => wrong(format!("{name}: {}", error.what)),
        line => wrong(format!("{name}:{line}: {}", error.what)),
    };
    let mut program = asm::parse(&text).map_err(told)?;
    if let (0, None) | (_, Some(_)) = (program.heap, args.heap) {
        program.heap = heap as u32;
    }
    let file = asm::link(&program).map_err(told)?;
    match tane_checked::check(&file) {
        Ok(_) => Ok(file),
        Err(refusal) => {
            let failure = wrong(format!("{name}: the checker refuses it: {refusal}"));
            Err(failure.remedy(refusal.rule.remedy()))
        }
    }
}

/// Lays out programs of TL anew. What is right already is not written.
pub fn format(args: &Args) -> Result<u8> {
    for source in &args.sources {
        let path = Path::new(source);
        let name = names::plain(source.as_bytes());
        if path.extension().is_none_or(|e| e != "tl") {
            return Err(Failure::usage(format!(
                "build: --reformat lays out TL, and {name} is none"
            )));
        }
        let text = read(path)?;
        let laid_out = tl::format(&name, &text).map_err(|told| wrong(told.to_string()))?;
        if laid_out != text {
            replace(path, &laid_out).map_err(|error| {
                let failure = Failure::new(NO_IMAGE, format!("{name}: {error}"));
                failure.about(source.as_bytes())
            })?;
        }
    }
    Ok(0)
}

/// By a new file, so that a program is never half there.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let real = std::fs::canonicalize(path)?;
    let mut name = real.clone().into_os_string();
    name.push(format!(".{}~", std::process::id()));
    std::fs::write(&name, text)?;
    let mode = std::fs::metadata(&real)?.permissions();
    let done = std::fs::set_permissions(&name, mode).and_then(|()| std::fs::rename(&name, &real));
    if done.is_err() {
        let _ = std::fs::remove_file(&name);
    }
    done
}
