//! The kernel's own tests, KUnit's, which run while it boots.

use super::files::options;
use super::ktap::{Done, End, Line, Reader};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::output::Output;
use crate::session::traced::prefer_lab;
use crate::session::{is_host_kernel, Global, Machine};
use serde_json::json;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use tane_lab::message;

#[derive(clap::Args)]
pub struct Args {
    /// Only the suites that match, or with a dot, SUITE.TEST, only these tests of theirs;
    /// with asterisks (default: all that the image has)
    #[arg(value_name = "GLOB", value_parser = glob)]
    glob: Option<String>,
    /// Name the tests and run none
    #[arg(long)]
    list: bool,
}

/// It becomes a word of the kernel's command line.
fn glob(text: &str) -> std::result::Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '"';
    match text.is_empty() || text.contains(odd) {
        true => Err("a pattern is not empty, and has no spaces and no quotes".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        let text = "kernel test: the kernel is one of this process, not of --kernel host";
        return Err(Failure::usage(text));
    }
    let mut global = global.clone();
    prefer_lab(&mut global)?;
    let image = Machine::image(&global)?;
    has_tests(&image)?;
    let (lines, heard) = channel();
    let words = words(args);
    let own = global.clone();
    let booting = std::thread::spawn(move || boot(&words, lines, &own));
    let told = match args.list {
        true => names(&heard, &global),
        false => results(&heard, &global),
    };
    // Nobody hears the rest of it.
    drop(heard);
    let (told, booted) = match told {
        Ok(told) => (told, booting.join()),
        Err(failure) => return Err(failure),
    };
    let booted = booted.unwrap_or_else(|_| Err(Failure::image("the kernel did not boot")));
    ended(told, booted, args, &image)
}

fn words(args: &Args) -> String {
    let mut words = "kunit.enable=1 loglevel=7".to_owned();
    if let Some(glob) = &args.glob {
        words += &format!(" kunit.filter_glob={glob}");
    }
    if args.list {
        words += " kunit.action=list";
    }
    words
}

/// One that says it has none is not booted for them.
fn has_tests(image: &Path) -> Result<()> {
    let lacks = options(image).is_ok_and(|of| of.get("KUNIT").is_none_or(|value| value != "y"));
    match lacks {
        true => Err(without_tests(image)),
        false => Ok(()),
    }
}

fn without_tests(image: &Path) -> Failure {
    let text = format!(
        "{}: this kernel image has none of Linux's own tests (CONFIG_KUNIT)",
        image.display()
    );
    let remedy = "the image lab has some, and debug most: --kernel lab; or tane kernel build \
                  makes one with those that a fragment asks for";
    Failure::image(text).remedy(remedy)
}

/// Says line by line what the kernel does, up to its end.
fn boot(words: &str, lines: Sender<String>, global: &Global) -> Result<()> {
    let rest = Mutex::new(String::new());
    let said = move |text: &str| {
        let mut rest = rest.lock().unwrap_or_else(|e| e.into_inner());
        rest.push_str(text);
        while let Some(end) = rest.find('\n') {
            let line: String = rest.drain(..=end).collect();
            // Nobody may want to hear it any more.
            let _ = lines.send(line.trim_end().to_owned());
        }
    };
    Machine::that_tells(words, said, global).map(drop)
}

/// What was found out of the report.
struct Told {
    reader: Reader,
    /// With `--list`.
    names: u64,
}

fn results(heard: &Receiver<String>, global: &Global) -> Result<Told> {
    let mut out = Output::new();
    let mut reader = Reader::default();
    for line in heard {
        let Line::Report(line, done) = reader.read(&line) else {
            continue;
        };
        match (global.json, done) {
            (true, Some(done)) => out.json(&done.json())?,
            (true, None) => {}
            (false, done) => {
                tell_why(done.as_ref(), &mut out)?;
                out.line(&line)?;
            }
        }
        out.flush()?;
    }
    Ok(Told { reader, names: 0 })
}

/// The kernel's other words during a test that failed; what begins with # was told.
fn tell_why(done: Option<&Done>, out: &mut Output) -> Result<()> {
    let failed = done.filter(|done| done.end == End::Failed);
    let said = failed.map_or(&[][..], |done| &done.said);
    said.iter()
        .filter(|line| !line.trim_start().starts_with('#'))
        .try_for_each(|line| out.line(line))
}

/// SUITE.TEST, a line each, between the report's beginning and other words.
fn names(heard: &Receiver<String>, global: &Global) -> Result<Told> {
    let mut out = Output::new();
    let mut suite: Option<String> = None;
    let mut names = 0;
    let mut begun = false;
    let mut ended = false;
    for line in heard {
        let line = message(&line);
        if !begun {
            begun = line.starts_with("KTAP version ");
            continue;
        }
        let own = |suite: &String| line.strip_prefix(suite.as_str())?.strip_prefix('.');
        match suite.as_ref().and_then(own) {
            _ if ended => {}
            Some(test) => {
                names += 1;
                match global.json {
                    true => out.json(&json!({ "suite": suite, "test": test }))?,
                    false => out.line(line)?,
                }
            }
            None if line.contains(' ') => ended = true,
            None => suite = Some(line.to_owned()),
        }
    }
    out.flush()?;
    let mut reader = Reader::default();
    if begun {
        // As a report without results has it.
        reader.read("1..0");
    }
    Ok(Told { reader, names })
}

fn ended(told: Told, booted: Result<()>, args: &Args, image: &Path) -> Result<u8> {
    let Told { reader, names } = told;
    if reader.is_unfinished() {
        let during = reader.suite().unwrap_or("the next suite");
        let why = booted.err().map_or(String::new(), |e| format!(": {e}"));
        let text = format!("the tests broke off in {during}{why}");
        return Err(Failure::new(SOME_FAILED, text));
    }
    booted?;
    if !reader.has_begun() {
        return Err(without_tests(image));
    }
    if reader.suites() == 0 && names == 0 {
        let glob = args.glob.as_deref().unwrap_or("*");
        let text = format!("{}: no test is called {glob}", image.display());
        return Err(Failure::usage(text).remedy("tane kernel test --list names all of them"));
    }
    let counts = &reader.counts;
    if !args.list {
        crate::tell::note(&format!(
            "{} passed, {} failed, {} skipped",
            counts.passed, counts.failed, counts.skipped
        ));
    }
    Ok(if counts.failed > 0 { SOME_FAILED } else { 0 })
}
