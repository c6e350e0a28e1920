//! Where commands come from.

use super::editor::Editor;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::os::fd::RawFd;
use std::path::Path;

pub enum Input {
    /// Somebody types.
    Terminal(Box<Editor>),
    /// Byte by byte: what follows a command may be its own input.
    Standard,
    /// What is no plain file, such as a pipe.
    File(BufReader<std::fs::File>),
    /// `-c` or a script, what is left of it.
    Text(std::io::Cursor<Vec<u8>>),
}

impl Input {
    /// Whether somebody types on standard input.
    pub fn is_typed() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    pub fn file(path: &Path) -> Result<Input> {
        let open = || {
            let mut file = std::fs::File::open(path)?;
            if !file.metadata()?.is_file() {
                return Ok(Input::File(BufReader::new(file)));
            }
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            Ok(Input::text(text))
        };
        open().map_err(|e: std::io::Error| {
            let text = format!("{}: {e}", path.display());
            Failure::new(SOME_FAILED, text)
        })
    }

    pub fn text(text: Vec<u8>) -> Input {
        Input::Text(std::io::Cursor::new(text))
    }

    /// All commands, if they are known before the first is run.
    pub fn script(&self) -> Option<&[u8]> {
        match self {
            Input::Text(text) => Some(text.get_ref()),
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
            Input::File(file) => file.read_until(b'\n', &mut line).map(drop),
            Input::Text(text) => text.read_until(b'\n', &mut line).map(drop),
        };
        read.map_err(|e| Failure::new(SOME_FAILED, format!("commands: {e}")))?;
        Ok(Some(line))
    }
}

fn standard(line: &mut Vec<u8>) -> std::io::Result<()> {
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
                let e = std::io::Error::last_os_error();
                if e.kind() != std::io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
    Ok(())
}

/// Until there is something to read; false: the session is over.
fn wait(fd: RawFd) -> std::io::Result<bool> {
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
        let e = std::io::Error::last_os_error();
        if e.kind() != std::io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
