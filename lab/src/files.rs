//! The kernel's own interface: files of tracefs (Documentation/trace/ftrace.rst).

use crate::error::{Error, Result};
use crate::Lab;
use std::io::{self, Write};
use tane::OpenOptions;

impl Lab {
    /// Names of an image's files in it may be no text.
    pub(crate) fn get(&self, file: &str) -> Result<String> {
        let bytes = self.mount.read(file)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// In place of what is there.
    pub(crate) fn set(&self, file: &str, text: &str) -> Result<()> {
        self.put(OpenOptions::new().write(true).truncate(true), file, text)
    }

    /// Beside what is there: these files take commands, and opening one to replace
    /// its content takes back all commands before.
    pub(crate) fn add(&self, file: &str, text: &str) -> Result<()> {
        self.put(OpenOptions::new().append(true), file, text)
    }

    /// By write(2): some of these files have no position.
    fn put(&self, options: &OpenOptions, file: &str, text: &str) -> Result<()> {
        let mut opened = options.open(&self.mount, file)?;
        opened.write_all(text.as_bytes()).map_err(Error::File)
    }

    /// The same; what the kernel says of it if it refuses.
    pub(crate) fn command(&self, file: &str, text: &str) -> Result<()> {
        self.set("error_log", "")?;
        self.add(file, text).map_err(|error| {
            let log = self.get("error_log").unwrap_or_default();
            let said = log.lines().find_map(|line| line.split_once(" error: "));
            Error::Refused {
                what: text.trim_end().to_owned(),
                why: said.map_or_else(|| error.to_string(), |(_, why)| why.to_owned()),
            }
        })
    }

    /// All that a file has to say now: more may come later.
    pub(crate) fn drain(&self, file: &str, piece: usize) -> Result<Vec<Vec<u8>>> {
        use std::io::Read;
        const NONBLOCK: i32 = 0o4000;
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(NONBLOCK);
        let mut opened = options.open(&self.mount, file)?;
        let mut pieces = Vec::new();
        loop {
            let mut bytes = vec![0; piece];
            match opened.read(&mut bytes) {
                Ok(0) => return Ok(pieces),
                Ok(len) => {
                    bytes.truncate(len);
                    pieces.push(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(pieces),
                Err(error) => return Err(Error::File(error)),
            }
        }
    }
}
