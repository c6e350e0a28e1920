//! Passphrases and keys of encrypted volumes: from files, or asked for.

use super::asker;
use crate::echo;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::session::Global;
use std::io::{BufRead, IsTerminal, Read, Write};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// Longest key, as cryptsetup has it, in bytes.
const LONGEST: u64 = 8 << 20;

/// What opens the images of this command, if that is known already.
static KNOWN: Mutex<Option<Vec<Vec<u8>>>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Vec<Vec<u8>>>> {
    KNOWN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Reads what the command line names: nobody reads it again, in this process or in one that it
/// starts.
pub fn read_once(global: &Global) -> Result<()> {
    let secrets = given(global)?;
    *known() = Some(secrets);
    Ok(())
}

/// From now on these count as named there, too: nobody asks for them again.
pub fn know(more: Vec<Vec<u8>>) {
    known().get_or_insert_default().extend(more);
}

/// What the command line names.
pub fn given(global: &Global) -> Result<Vec<Vec<u8>>> {
    if let Some(known) = &*known() {
        return Ok(known.clone());
    }
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

/// Ask on the terminal, if there is one; None if not, or nothing was typed, or somebody
/// asked to stop instead.
pub fn ask(what: &str) -> Option<Vec<u8>> {
    interrupt::while_asking(|| ask_now(what)).filter(|_| !interrupt::requested())
}

fn ask_now(what: &str) -> Option<Vec<u8>> {
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

/// An error once the other end of that pipe is closed, or somebody asks to stop.
fn await_line(gone: Option<RawFd>) -> std::io::Result<()> {
    loop {
        let mut both = [(libc::STDIN_FILENO, libc::POLLIN), (gone.unwrap_or(-1), 0)];
        if asker::is_readable(&mut both)? {
            return match both[1].1 {
                0 => Ok(()),
                _ => Err(std::io::ErrorKind::BrokenPipe.into()),
            };
        }
        if interrupt::requested() {
            return Err(std::io::Error::from_raw_os_error(libc::ECANCELED));
        }
    }
}
