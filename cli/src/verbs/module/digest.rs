//! That a module's file is what was built. Linux looks at a file's tables; that a byte of
//! the code has changed would be found by running it.
//!
//! A line behind the file's last byte, which Linux's loader does not look at, has the
//! SHA-256 of what is before it.

use crate::failure::{Failure, Result};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;

const MARK: &str = "\n~tane module sha256 ";
/// Of the digest and the line's end.
const DIGITS: usize = 64;

/// Give a file its line, unless it has it.
pub fn add(file: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Failure::of_host(file, &e);
    let bytes = std::fs::read(file).map_err(failed)?;
    if split(&bytes).is_some_and(|(module, digits)| digits == of(module).as_bytes()) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().append(true).open(file);
    let line = format!("{MARK}{}\n", of(&bytes));
    opened
        .map_err(failed)?
        .write_all(line.as_bytes())
        .map_err(failed)
}

/// Whether the file is as it was built, or has no such line: Kbuild alone made it.
pub fn is_whole(bytes: &[u8]) -> bool {
    split(bytes).is_none_or(|(module, digits)| digits == of(module).as_bytes())
}

fn of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is before the line, and its digits.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.len().checked_sub(MARK.len() + DIGITS + 1)?;
    let (module, line) = bytes.split_at(at);
    let digits = line.strip_prefix(MARK.as_bytes())?.strip_suffix(b"\n")?;
    Some((module, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_noticed_and_a_file_without_the_line_is_as_it_is() {
        let name = format!("tane-digest-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, b"\x7fELF of some module").unwrap();
        assert!(is_whole(&std::fs::read(&file).unwrap()));
        add(&file).unwrap();
        let good = std::fs::read(&file).unwrap();
        add(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), good, "one line");
        std::fs::remove_file(&file).unwrap();
        assert!(is_whole(&good));
        let module = good.len() - MARK.len() - DIGITS - 1;
        for at in 0..module {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            assert!(!is_whole(&damaged), "{at}");
        }
    }
}
