//! Standard output: buffered, binary safe, quiet when its reader leaves.

use crate::failure::Result;
use serde_json::Value;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

pub struct Output {
    to: BufWriter<StdoutLock<'static>>,
    pub is_terminal: bool,
}

impl Output {
    pub fn new() -> Output {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        Output {
            to: BufWriter::with_capacity(1 << 16, stdout.lock()),
            is_terminal,
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.to.write_all(bytes)?)
    }

    pub fn text(&mut self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())
    }

    pub fn line(&mut self, text: &str) -> Result<()> {
        self.text(text)?;
        self.bytes(b"\n")
    }

    pub fn json(&mut self, value: &Value) -> Result<()> {
        self.line(&value.to_string())
    }

    /// A name: escaped on a terminal, raw elsewhere.
    pub fn name(&mut self, name: &[u8]) -> Result<()> {
        if self.is_terminal {
            self.text(&crate::names::shown(name))
        } else {
            self.bytes(name)
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        Ok(self.to.flush()?)
    }
}
