//! A program that reads from its standard input what is made meanwhile, and may end before
//! it has read all.

use crate::error::{Error, Result};
use crate::namespace::run_as;
use crate::sigpipe;
use crate::tool::Tool;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes all that it reads to this, and leaves it at the end.
pub type Feed<'f> = dyn FnMut(File) + 'f;

/// Runs it to its end, as `owner` in its own eyes. What it prints, nobody takes.
pub(crate) fn ask(
    tool: Tool,
    command: &mut Command,
    owner: Option<(u32, u32)>,
    feed: &mut Feed<'_>,
) -> Result<Output> {
    if let Some((uid, gid)) = owner {
        run_as(command, uid, gid);
    }
    let fail = |e: io::Error| Error::of(Path::new(tool.program), &e);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(fail)?;
    let (input, errors) = (child.stdin.take(), child.stderr.take());
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = errors.map(|mut errors| errors.read_to_end(&mut said));
        said
    });
    if let Some(input) = input.map(OwnedFd::from) {
        sigpipe::without(|| feed(input.into()));
    }
    Ok(Output {
        status: child.wait().map_err(fail)?,
        stdout: Vec::new(),
        stderr: said.join().unwrap_or_default(),
    })
}
