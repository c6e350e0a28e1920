//! The symbols of an ELF file.

use std::io;
use std::path::Path;

/// Of sections with symbols, and the sizes of what is read here.
const SHT_SYMTAB: u32 = 2;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// The value of the first symbol of that name; None if there is none, or if the file
/// has no symbols.
pub fn symbol(path: &Path, name: &str) -> io::Result<Option<u64>> {
    let file = std::fs::read(path)?;
    find(&file, name).ok_or_else(|| {
        let why = "not a whole ELF file of 64 bits";
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// None: the file is damaged.
fn find(file: &[u8], name: &str) -> Option<Option<u64>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = number(file, 40, 8)? as usize;
    let count = number(file, 60, 2)? as usize;
    let section = |at: usize| {
        let end = (at + 1).checked_mul(SECTION)?.checked_add(table)?;
        file.get(end - SECTION..end)
    };
    for at in 0..count {
        let header = section(at)?;
        if number(header, 4, 4)? as u32 != SHT_SYMTAB {
            continue;
        }
        let names = contents(file, section(number(header, 40, 4)? as usize)?)?;
        for symbol in contents(file, header)?.chunks_exact(SYMBOL) {
            let rest = names.get(number(symbol, 0, 4)? as usize..)?;
            if rest
                .strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&0))
            {
                return Some(number(symbol, 8, 8));
            }
        }
    }
    Some(None)
}

fn contents<'a>(file: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let start = number(header, 24, 8)? as usize;
    file.get(start..start.checked_add(number(header, 32, 8)? as usize)?)
}

/// Little-endian, of up to eight bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_found_out() {
        assert_eq!(
            find(b"no ELF file at all, but long enough to look like one", "x"),
            None
        );
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(find(&file, "x"), Some(None));
        // A table of sections that goes on behind the end.
        (file[40], file[58], file[60]) = (1, 64, 1);
        assert_eq!(find(&file, "x"), None);
    }

    #[test]
    fn a_function_of_this_program_is_found() {
        let own = std::env::current_exe().expect("this program");
        assert!(symbol(&own, "main")
            .expect("reads")
            .is_some_and(|at| at != 0));
        assert_eq!(symbol(&own, "no such name").expect("reads"), None);
    }
}
