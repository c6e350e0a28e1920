//! An input as a file: a few lines of text, and beside it the image.
//!
//! ```text
//! tane fuzz 1
//! type ext4
//! options errors=continue
//! image kernel-bug-at-fs.img
//! call walk
//! ```
//!
//! Or, of what a hunt keeps, how the image differs from the one that it began with.

use crate::bench::How;
use crate::calls::Call;
use crate::hunt::Input;
use crate::sparse::{Sparse, BLOCK};
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const FIRST: &str = "tane fuzz 1";

/// What such a file says.
#[derive(Debug, Default)]
pub struct Reproducer {
    /// The type of the file system.
    pub fstype: String,
    /// Mount options.
    pub options: String,
    /// Not to be written.
    pub read_only: bool,
    /// What is wrong, if something is.
    pub fault: Option<String>,
    /// What is done.
    pub calls: Vec<Call>,
    image: Option<PathBuf>,
    base: Option<u32>,
    changes: Vec<(u64, Vec<u8>)>,
}

/// What a sound image is known by.
fn sum(base: &Sparse) -> u32 {
    base.used().fold(base.len() as u32, |sum, number| {
        let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
        crc32c::crc32c_append(sum, &base.vec(number * BLOCK, BLOCK))
    })
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

impl Reproducer {
    /// Of what is met like this.
    pub fn of(how: &How) -> Reproducer {
        Reproducer {
            fstype: how.fstype.clone(),
            options: how.options.clone(),
            read_only: how.read_only,
            ..Reproducer::default()
        }
    }

    fn head(&self) -> String {
        let mut text = format!("{FIRST}\ntype {}\n", self.fstype);
        if !self.options.is_empty() {
            let _ = writeln!(text, "options {}", self.options);
        }
        if self.read_only {
            text.push_str("read-only\n");
        }
        if let Some(fault) = &self.fault {
            let _ = writeln!(text, "fault {}", fault.replace('\n', " "));
        }
        text
    }

    /// Writes `NAME.calls` and `NAME.img` into this directory, with `words` for who reads
    /// them; where the first is.
    pub fn save(&self, dir: &Path, name: &str, image: &Sparse, words: &str) -> io::Result<PathBuf> {
        let mut text = self.head();
        let _ = writeln!(text, "image {name}.img");
        for call in &self.calls {
            let _ = writeln!(text, "call {call}");
        }
        for line in words.lines() {
            let _ = writeln!(text, "# {line}");
        }
        image.store(&File::create(dir.join(format!("{name}.img")))?)?;
        let path = dir.join(format!("{name}.calls"));
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Writes what is kept of an image that is like this one.
    pub fn keep(&self, path: &Path, input: &Input, base: &Sparse) -> io::Result<()> {
        let mut text = self.head();
        let _ = writeln!(text, "base {:08x}", sum(base));
        for (number, block) in input.image.differing(base) {
            let _ = write!(text, "block {number} ");
            block.iter().for_each(|byte| {
                let _ = write!(text, "{byte:02x}");
            });
            text.push('\n');
        }
        for call in &input.calls {
            let _ = writeln!(text, "call {call}");
        }
        fs::write(path, text)
    }

    /// What such a file says.
    pub fn load(path: &Path) -> io::Result<Reproducer> {
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines();
        if lines.next() != Some(FIRST) {
            return Err(wrong(format!("does not begin with {FIRST:?}")));
        }
        let mut read = Reproducer::default();
        for (n, line) in lines.enumerate() {
            let bad = || wrong(format!("line {} makes no sense: {line}", n + 2));
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "" | "#" => {}
                "type" => read.fstype = rest.into(),
                "options" => read.options = rest.into(),
                "read-only" => read.read_only = true,
                "fault" => read.fault = Some(rest.into()),
                // Beside it, wherever that is by now.
                "image" => {
                    let name = Path::new(rest).file_name().ok_or_else(bad)?;
                    read.image = Some(path.with_file_name(name));
                }
                "base" => read.base = Some(u32::from_str_radix(rest, 16).map_err(|_| bad())?),
                "block" => read.changes.push(block(rest).ok_or_else(bad)?),
                "call" => read.calls.push(Call::parse(rest).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        match read.fstype.is_empty() {
            true => Err(wrong("names no type")),
            false => Ok(read),
        }
    }

    /// The image, if it is a file.
    pub fn image(&self) -> Option<&Path> {
        self.image.as_deref()
    }

    /// The input, if it is kept of this image; None: of another.
    pub fn like(&self, base: &Sparse) -> Option<Input> {
        if self.base? != sum(base) {
            return None;
        }
        let mut image = base.clone();
        for (at, bytes) in &self.changes {
            image.write(*at, bytes);
        }
        Some(Input {
            image,
            calls: self.calls.clone(),
        })
    }
}

/// "NUMBER HEX", a whole block.
fn block(text: &str) -> Option<(u64, Vec<u8>)> {
    let (number, hex) = text.split_once(' ')?;
    let at = number.parse::<u64>().ok()?.checked_mul(BLOCK)?;
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    (bytes.len() == BLOCK as usize).then_some((at, bytes))
}
