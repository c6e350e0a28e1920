//! Where commands come from.

use super::editor::Editor;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Seek};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Longest script that is read ahead, in bytes.
const LONGEST: u64 = 64 << 20;
/// Longest of standard input, of which some may be no commands, in bytes.
const LONGEST_STANDARD: u64 = 64 << 10;

pub enum Input {
    /// Somebody types.
    Terminal(Box<Editor>),
    /// Byte by byte: what follows a command may be its own input.
    Standard,
    /// `-c` or a script, what is left of it.
    Text(io::Cursor<Vec<u8>>),
}

impl Input {
    /// Whether somebody types on standard input.
    pub fn is_typed() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// A script, to its end; of `-` standard input's.
    pub fn file(path: &Path) -> Result<Input> {
        let text = match path.as_os_str() == "-" {
            true => whole(io::stdin().lock()),
            false => File::open(path).and_then(whole),
        };
        text.map(Input::text).map_err(|e| {
            let text = format!("{}: {e}", path.display());
            Failure::new(SOME_FAILED, text)
        })
    }

    pub fn text(text: Vec<u8>) -> Input {
        Input::Text(io::Cursor::new(text))
    }

    /// All commands, if they are known before the first is run.
    pub fn script(&self) -> Option<&[u8]> {
        match self {
            Input::Text(text) => Some(text.get_ref()),
            _ => None,
        }
    }

    /// What will come of standard input, commands and what they take of it, if that is a plain
    /// file, and not too long to look at. It stays where it is.
    pub fn ahead(&self) -> Option<Vec<u8>> {
        match self {
            Input::Standard => rest_of_standard().ok().flatten(),
            _ => None,
        }
    }

    pub fn is_interactive(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// The next line with its newline; empty at the end. None: somebody does not
    /// want to finish what he typed.
    pub fn line(&mut self, prompt: &str) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = match self {
            Input::Terminal(editor) => return editor.line(prompt),
            Input::Standard => standard(&mut line),
            Input::Text(text) => text.read_until(b'\n', &mut line).map(drop),
        };
        read.map_err(|e| Failure::new(SOME_FAILED, format!("commands: {e}")))?;
        Ok(Some(line))
    }
}

fn whole(file: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match file.take(LONGEST + 1).read_to_end(&mut text)? as u64 > LONGEST {
        true => Err(io::Error::other(format!(
            "is no script: it is longer than {} MiB",
            LONGEST >> 20
        ))),
        false => Ok(text),
    }
}

fn rest_of_standard() -> io::Result<Option<Vec<u8>>> {
    // SAFETY: it stays open, as nobody drops this.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDIN_FILENO) });
    let found = file.metadata()?;
    let at = match found.is_file() {
        true => (&*file).stream_position()?,
        false => return Ok(None),
    };
    let rest = found.len().saturating_sub(at);
    if rest > LONGEST_STANDARD {
        return Ok(None);
    }
    let mut text = vec![0; rest as usize];
    file.read_exact_at(&mut text, at)?;
    Ok(Some(text))
}

fn standard(line: &mut Vec<u8>) -> io::Result<()> {
    while line.last() != Some(&b'\n') {
        if !wait(libc::STDIN_FILENO)? {
            line.clear();
            return Ok(());
        }
        let mut byte = 0u8;
        // SAFETY: one byte, which is ours.
        match unsafe { libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1) } {
            0 => return Ok(()),
            1 => line.push(byte),
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
    Ok(())
}

/// Until there is something to read; false: the session is over.
fn wait(fd: RawFd) -> io::Result<bool> {
    let of = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut both = [of(fd), of(interrupt::wake_descriptor())];
    loop {
        // SAFETY: two live structures; negative descriptors are left out.
        let n = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        if interrupt::session_is_over() {
            return Ok(false);
        }
        if n >= 0 {
            return Ok(true);
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
