//! Modules of TL and of typed assembly.

use super::Args;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::names;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
    let name = names::plain(source.as_os_str().as_bytes());
    text_of(source).map_err(|why| match why {
        Unreadable::Host(error) => Failure::of_host(source, &error),
        Unreadable::Odd(what) => wrong(format!("{name}: {what}")),
    })
}

enum Unreadable {
    Host(io::Error),
    Odd(String),
}

/// A source's text. Its name may have come out of another source, so what never ends, or
/// waits for who writes it, is not read.
fn text_of(source: &Path) -> std::result::Result<String, Unreadable> {
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(source)
        .map_err(Unreadable::Host)?;
    if !file.metadata().map_err(Unreadable::Host)?.is_file() {
        return Err(Unreadable::Odd("is no regular file".into()));
    }
    let mut bytes = Vec::new();
    let most = tl::MOST_TEXT as u64;
    let mut some = (&mut file).take(most + 1);
    some.read_to_end(&mut bytes).map_err(Unreadable::Host)?;
    if bytes.len() as u64 > most {
        let text = format!("is longer than the {} MiB of a program", most >> 20);
        return Err(Unreadable::Odd(text));
    }
    let text = String::from_utf8(bytes);
    text.map_err(|_| Unreadable::Odd("its text is not UTF-8".into()))
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
        let mut others = Others(Vec::new());
        let real = std::fs::canonicalize(source).map_err(|e| Failure::of_host(source, &e))?;
        others.add(source.to_owned(), real);
        let mut read = |from: &str, path: &str| others.read(from, path);
        let made = tl::build_with(&name, &text, &mut read, options);
        return made.map_err(|told| wrong(told.to_string()));
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

/// A file of a program: what it is called, where it is, and that without links.
struct Other {
    name: String,
    at: PathBuf,
    real: PathBuf,
}

struct Others(Vec<Other>);

impl Others {
    fn add(&mut self, at: PathBuf, real: PathBuf) -> String {
        let name = names::plain(at.as_os_str().as_bytes()).into_owned();
        let known = name.clone();
        self.0.push(Other { name, at, real });
        known
    }

    /// One that another one names, which says where from there.
    fn read(&mut self, from: &str, path: &str) -> std::result::Result<(String, String), String> {
        let known = self.0.iter().find(|other| other.name == from);
        let folder = known.and_then(|other| other.at.parent());
        let at = folder.unwrap_or(Path::new("")).join(path);
        // It may be known by another name.
        let real = std::fs::canonicalize(&at).map_err(|error| error.to_string())?;
        if let Some(other) = self.0.iter().find(|other| other.real == real) {
            return Ok((other.name.clone(), String::new()));
        }
        let text = text_of(&at).map_err(|why| match why {
            Unreadable::Host(error) => error.to_string(),
            Unreadable::Odd(what) => what,
        })?;
        Ok((self.add(at, real), text))
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
