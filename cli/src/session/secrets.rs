//! Passphrases and keys of encrypted volumes: from files, or asked for.

use super::asker;
use crate::args::Global;
use crate::echo;
use crate::failure::{Failure, Result};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::os::fd::RawFd;
use std::path::Path;

/// Longest key, as cryptsetup has it, in bytes.
const LONGEST: u64 = 8 << 20;

/// What the command line names.
pub fn given(global: &Global) -> Result<Vec<Vec<u8>>> {
    let mut secrets = Vec::new();
    let fail = |path: &Path, e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    if let Some(path) = &global.passphrase_file {
        let mut line = Vec::new();
        let read = match path.as_os_str() == "-" {
            true => std::io::stdin().lock().read_until(b'\n', &mut line),
            false => std::fs::File::open(path).and_then(|file| {
                std::io::BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut line)
            }),
        };
        read.map_err(|e| fail(path, e))?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        secrets.push(line);
    }
    if let Some(path) = &global.key_file {
        let mut key = Vec::new();
        let file = std::fs::File::open(path).map_err(|e| fail(path, e))?;
        let read = file.take(LONGEST).read_to_end(&mut key);
        read.map_err(|e| fail(path, e))?;
        secrets.push(key);
    }
    Ok(secrets)
}

/// Ask on the terminal, if there is one; None if not, or nothing was typed.
pub fn ask(what: &str) -> Option<Vec<u8>> {
    if let Some(answer) = asker::ask(what) {
        return answer;
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    typed(what, None)
}

/// A line that is typed; `gone`: a pipe, at whose end nobody waits for it any more.
pub(super) fn typed(what: &str, gone: Option<RawFd>) -> Option<Vec<u8>> {
    eprint!("Passphrase for {what}: ");
    let _ = std::io::stderr().flush();
    let mut line = Vec::new();
    let read = echo::without(|| {
        await_line(gone)?;
        std::io::stdin().lock().read_until(b'\n', &mut line)
    });
    eprintln!();
    read.ok()?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    (!line.is_empty()).then_some(line)
}

/// An error once the other end of that pipe is closed.
fn await_line(gone: Option<RawFd>) -> std::io::Result<()> {
    let Some(pipe) = gone else {
        return Ok(());
    };
    let poll = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut both = [poll(libc::STDIN_FILENO, libc::POLLIN), poll(pipe, 0)];
    // SAFETY: two structures of ours.
    while unsafe { libc::poll(both.as_mut_ptr(), 2, -1) } < 0 {
        let e = std::io::Error::last_os_error();
        if e.kind() != std::io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    match both[1].revents {
        0 => Ok(()),
        _ => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}
