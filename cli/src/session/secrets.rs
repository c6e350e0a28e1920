//! Passphrases and keys of encrypted volumes: from files, or asked for.

use crate::args::Global;
use crate::failure::{Failure, Result};
use std::io::{BufRead, IsTerminal, Read, Write};
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
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    eprint!("Passphrase for {what}: ");
    let _ = std::io::stderr().flush();
    let mut line = Vec::new();
    let read = without_echo(|| std::io::stdin().lock().read_until(b'\n', &mut line));
    eprintln!();
    read.ok()?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    (!line.is_empty()).then_some(line)
}

fn without_echo<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the structure is the host's to fill, and is given back as it was.
    unsafe {
        let mut before: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) != 0 {
            return work();
        }
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &raw const silent);
        let done = work();
        libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &raw const before);
        done
    }
}
