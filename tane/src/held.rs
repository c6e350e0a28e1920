//! What a file of the host holds, for whoever is about to replace it.

use crate::probe::{recognise, HEAD};
use crate::volumes::marks_at_end;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use tane_images::{decompressed, detect, Access, Format, Raw};

/// "qcow2", "ext4", "crypto_LUKS", "a partition table", "ext4 in gzip": what this file
/// holds if it is a disk image; None if nothing says so. The file is read at its ends,
/// and only if it is an ordinary one.
pub fn held_by(file: &File) -> Option<String> {
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let size = metadata.len();
    let raw = Raw::from_file(file.try_clone().ok()?, Access::default()).ok()?;
    let format = match detect(&raw) {
        Ok(format) => format,
        // One that is known, and cannot be read.
        Err(e) if e.kind() == io::ErrorKind::Unsupported => return Some("a disk image".into()),
        Err(_) => return None,
    };
    if format.is_stream() {
        let head = unpacked(file).ok()?;
        return Some(format!("{} in {format}", in_head(&head, u64::MAX)?));
    }
    if format != Format::Raw {
        return Some(format.name().into());
    }
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len.min(size.saturating_sub(at) as usize)];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    for (at, mark, what) in marks_at_end(size) {
        if read(at, mark.len()).is_some_and(|found| found == mark) {
            return Some(what.into());
        }
    }
    in_head(&read(0, HEAD)?, size)
}

/// The first bytes of what a compressed file holds.
fn unpacked(file: &File) -> io::Result<Vec<u8>> {
    struct At<'f>(&'f File, u64);
    impl Read for At<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.0.read_at(to, self.1)?;
            self.1 += n as u64;
            Ok(n)
        }
    }
    let mut head = Vec::new();
    let stream = decompressed(BufReader::new(At(file, 0)))?;
    // What is damaged behind these bytes is no matter.
    let read = stream.take(HEAD as u64).read_to_end(&mut head);
    match head.is_empty() {
        true => read.map(|_| head),
        false => Ok(head),
    }
}

fn in_head(head: &[u8], size: u64) -> Option<String> {
    let found = recognise(head, &|_, _| None);
    let is_ext = |fstype: &str| fstype.starts_with("ext") || fstype == "jbd";
    match found.filter(|found| !is_ext(&found.fstype) || is_likely_ext(head)) {
        Some(found) => Some(found.fstype),
        None if is_table(head, size) => Some("a partition table".into()),
        None => None,
    }
}

/// Two bytes are its mark, which many a file has by chance: its block size and revision
/// are small numbers too.
fn is_likely_ext(head: &[u8]) -> bool {
    let small =
        |at: usize, most: u8| matches!(head.get(at..at + 4), Some([n, 0, 0, 0]) if *n <= most);
    small(0x418, 6) && small(0x44c, 1)
}

/// Whether they are those of a disk that is divided: GPT, MBR, or one of the tables of
/// Mac, Sun and BSD.
fn is_table(head: &[u8], size: u64) -> bool {
    let has = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let gpt = [512, 1024, 2048, 4096]
        .iter()
        .any(|at| has(*at, b"EFI PART"));
    let mac = has(0, b"ER") && [512, 1024, 2048].iter().any(|at| has(*at, b"PM"));
    let sum = |first: &[u8]| first.chunks_exact(2).fold([0; 2], xor) == [0; 2];
    let sun = has(508, b"\xda\xbe") && head.get(..512).is_some_and(sum);
    let bsd = has(512, b"\x57\x45\x56\x82") && has(644, b"\x57\x45\x56\x82");
    // Programs that are started like a boot sector, Linux for one, have its mark.
    let mbr = has(510, b"\x55\xaa") && !has(514, b"HdrS") && is_divided(&head[446..510], size);
    gpt || mac || sun || bsd || mbr
}

fn xor(sum: [u8; 2], pair: &[u8]) -> [u8; 2] {
    [sum[0] ^ pair[0], sum[1] ^ pair[1]]
}

/// The four entries of an MBR: all as they may be, and one that is used.
fn is_divided(entries: &[u8], size: u64) -> bool {
    let number = |entry: &[u8], at: usize| {
        let bytes = [entry[at], entry[at + 1], entry[at + 2], entry[at + 3]];
        u64::from(u32::from_le_bytes(bytes))
    };
    let is_used = |entry: &[u8]| entry[4] != 0 && number(entry, 12) != 0;
    let is_sane = |entry: &[u8]| {
        let start = number(entry, 8) * 512;
        entry[0] & 0x7f == 0 && (!is_used(entry) || start != 0 && start < size)
    };
    let mut all = entries.chunks_exact(16);
    all.clone().all(is_sane) && all.any(is_used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(bytes: &[u8]) -> Option<String> {
        use std::io::Write;
        let dir = std::env::temp_dir();
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = File::options();
        let options = options.read(true).write(true).custom_flags(libc::O_TMPFILE);
        let mut file = options.open(dir).expect("a file");
        file.write_all(bytes).expect("writes");
        held_by(&file)
    }

    fn mbr(entry: [u8; 16]) -> Vec<u8> {
        let mut disk = vec![0; 4096];
        disk[446..462].copy_from_slice(&entry);
        disk[510..512].copy_from_slice(b"\x55\xaa");
        disk
    }

    #[test]
    fn files_of_other_kinds_hold_nothing() {
        assert_eq!(holds(b""), None);
        assert_eq!(holds(b"root:x:0:\n"), None);
        assert_eq!(holds(&[0xff; 70_000]), None);
        assert_eq!(holds(&[0; 70_000]), None);
        // The mark of Sun's table, and not all of one.
        let mut cut = [0; 511];
        cut[508..510].copy_from_slice(b"\xda\xbe");
        assert_eq!(holds(&cut), None);
        // The mark of an ext4 alone.
        let mut chance = vec![0xab; 4096];
        chance[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(holds(&chance), None);
    }

    #[test]
    fn a_table_is_told_from_a_boot_sector_and_from_a_kernel() {
        let linux = [0, 0, 0, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0];
        assert_eq!(holds(&mbr(linux)).as_deref(), Some("a partition table"));
        let mut kernel = mbr(linux);
        kernel[514..518].copy_from_slice(b"HdrS");
        assert_eq!(holds(&kernel), None);
        assert_eq!(holds(&mbr([0; 16])), None);
        assert_eq!(holds(&mbr([0x11; 16])), None);
        let mut gpt = vec![0; 4096];
        gpt[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(holds(&gpt).as_deref(), Some("a partition table"));
    }

    #[test]
    fn files_that_end_anywhere_are_no_crash() {
        let mut disk = mbr([0x80, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        disk[..2].copy_from_slice(b"ER");
        for len in 0..600 {
            holds(&disk[..len]);
        }
    }
}
