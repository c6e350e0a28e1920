//! The block of 512 bytes in front of each entry.

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// What an entry is: POSIX's letters, and GNU's.
pub mod kind {
    /// A regular file.
    pub const FILE: u8 = b'0';
    /// A further name of an earlier entry.
    pub const LINK: u8 = b'1';
    /// A symlink.
    pub const SYMLINK: u8 = b'2';
    /// A character device.
    pub const CHAR: u8 = b'3';
    /// A block device.
    pub const BLOCK: u8 = b'4';
    /// A directory.
    pub const DIRECTORY: u8 = b'5';
    /// A fifo.
    pub const FIFO: u8 = b'6';
    /// A regular file, once in one piece.
    pub const CONTIGUOUS: u8 = b'7';
    /// Records of the next entry.
    pub const RECORDS: u8 = b'x';
    /// Records of all that follow.
    pub const GLOBAL: u8 = b'g';
    /// The next entry's long name.
    pub const GNU_NAME: u8 = b'L';
    /// The long name that the next entry leads to.
    pub const GNU_LINK: u8 = b'K';
    /// A file with holes.
    pub const GNU_SPARSE: u8 = b'S';
}

/// Places of the fields: start and length.
pub mod field {
    /// The path, or its end.
    pub const NAME: (usize, usize) = (0, 100);
    /// Permissions, in octal digits.
    pub const MODE: (usize, usize) = (100, 8);
    /// The user.
    pub const UID: (usize, usize) = (108, 8);
    /// The group.
    pub const GID: (usize, usize) = (116, 8);
    /// Bytes of data.
    pub const SIZE: (usize, usize) = (124, 12);
    /// When it was changed.
    pub const MTIME: (usize, usize) = (136, 12);
    /// The checksum of the block.
    pub const SUM: (usize, usize) = (148, 8);
    /// One of [`kind`](super::kind), a byte.
    pub const KIND: usize = 156;
    /// Where a link leads.
    pub const LINK: (usize, usize) = (157, 100);
    /// By whose rules.
    pub const MAGIC: (usize, usize) = (257, 8);
    /// A device's major number.
    pub const MAJOR: (usize, usize) = (329, 8);
    /// Its minor number.
    pub const MINOR: (usize, usize) = (337, 8);
    /// The path's beginning.
    pub const PREFIX: (usize, usize) = (345, 155);
}

/// A block.
pub type Block = [u8; BLOCK];

/// Put text; false if it does not fit.
pub fn put_text(block: &mut Block, (at, len): (usize, usize), text: &[u8]) -> bool {
    let n = text.len().min(len);
    block[at..at + n].copy_from_slice(&text[..n]);
    n == text.len()
}

/// Put an octal number with a NUL behind it; false, and 0, if it does not fit.
pub fn put_number(block: &mut Block, (at, len): (usize, usize), number: u64) -> bool {
    let text = format!("{number:0width$o}\0", width = len - 1);
    let fits = text.len() == len;
    let text = if fits {
        text
    } else {
        format!("{:0width$o}\0", 0, width = len - 1)
    };
    block[at..at + len].copy_from_slice(text.as_bytes());
    fits
}

/// The sum of all bytes, those of the sum itself counted as blanks.
pub fn sum(block: &Block) -> u64 {
    let (at, len) = field::SUM;
    let all: u64 = block.iter().map(|b| u64::from(*b)).sum();
    let own: u64 = block[at..at + len].iter().map(|b| u64::from(*b)).sum();
    all - own + 32 * len as u64
}

/// Text up to a NUL.
pub fn text(block: &Block, (at, len): (usize, usize)) -> &[u8] {
    let text = &block[at..at + len];
    &text[..text.iter().position(|b| *b == 0).unwrap_or(len)]
}

/// A number: octal, or binary where GNU tar had no room for that. None: neither.
pub fn number(block: &Block, (at, len): (usize, usize)) -> Option<i64> {
    let bytes = &block[at..at + len];
    if bytes[0] & 0x80 != 0 {
        let start = if bytes[0] & 0x40 != 0 { -1 } else { 0 };
        let first = i64::from((bytes[0] as i8) << 1 >> 1);
        let first = if start == 0 { first & 0x3f } else { first };
        return bytes[1..]
            .iter()
            .try_fold(first, |n, b| n.checked_mul(256)?.checked_add(i64::from(*b)));
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.trim_matches(|c| c == ' ' || c == '\0');
    if text.is_empty() {
        return Some(0);
    }
    i64::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_large_ones_do_not_fit() {
        let mut block = [0; BLOCK];
        assert!(put_number(&mut block, field::UID, 0o7777777));
        assert_eq!(number(&block, field::UID), Some(0o7777777));
        assert!(!put_number(&mut block, field::UID, 1 << 21));
        assert_eq!(number(&block, field::UID), Some(0));
    }

    #[test]
    fn binary_numbers_are_read_negative_ones_too() {
        let mut block = [0; BLOCK];
        block[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1]);
        assert_eq!(number(&block, field::SIZE), Some((4 << 32) + 1));
        block[136..148].fill(0xff);
        assert_eq!(number(&block, field::MTIME), Some(-1));
        block[136..148].fill(0xfe);
        block[136] = 0x80;
        assert_eq!(number(&block, field::MTIME), None);
    }
}
