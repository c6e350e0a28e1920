//! What an image needs, from what is in it: how large it has to be, and who it is.
//! Everything here follows from names, lengths, owners, modes and times alone, which are
//! the same on every machine; how many blocks the host needs for a file is not.

use super::emit::Times;
use super::tree::Tree;
use crate::mkfs::journal;
use sha2::{Digest, Sha256};
use tane_linux::{Kind, Time};

const BLOCK: u64 = 4096;
const INODE: u64 = 256;
/// What Linux has in memory of a file beside its blocks: inode and name.
const IN_MEMORY: u64 = 1300;

/// How much an image is to hold.
pub struct Plan {
    /// Regular files.
    pub files: u64,
    /// Bytes of regular files.
    pub bytes: u64,
    /// Of all files, and some to spare.
    pub inodes: u64,
    /// Bytes that a file system of them should have.
    pub size: u64,
    /// Bytes of memory that Linux takes to write all that, if it has as much.
    pub working_set: u64,
    /// The newest modification.
    pub newest: Time,
}

impl Plan {
    /// Of such a file system.
    pub fn of(tree: &Tree, kind: &str) -> Plan {
        let (mut files, mut bytes, mut inodes, mut blocks) = (0, 0, 0, 0);
        let mut newest = Time::default();
        for (_, id) in tree.walk() {
            let node = tree.node(id);
            inodes += 1;
            newest = newest.max(node.stat.mtime);
            match node.stat.kind() {
                Kind::File => {
                    // A FAT has a copy for each name.
                    let copies = match kind {
                        "vfat" => u64::from(node.links.max(1)),
                        _ => 1,
                    };
                    files += 1;
                    bytes += node.stat.size;
                    blocks += node.stat.size.div_ceil(BLOCK) * copies;
                }
                Kind::Directory => {
                    let names = node.names.keys().map(|name| 12 + name.len() as u64);
                    // Directories with an index are three quarters full.
                    blocks += 1 + (names.sum::<u64>() * 3 / 2) / BLOCK;
                }
                Kind::Symlink if node.target.len() >= 60 => blocks += 1,
                _ => {}
            }
            // What does not fit into the inode.
            blocks += u64::from(node.xattrs.packed.len() > 100);
        }
        let inodes = inodes + inodes / 10 + 64;
        let content = blocks * BLOCK;
        let room = content / 20 + (8 << 20);
        let size = match kind {
            "ext2" | "ext3" | "ext4" => {
                let size = content + room + inodes * INODE;
                size + journal(size)
            }
            // What their mkfs asks for at least, and some more for metadata.
            "xfs" => (content * 5 / 4 + inodes * 512 + (64 << 20)).max(300 << 20),
            "btrfs" => (content * 5 / 4 + inodes * 1024 + (128 << 20)).max(256 << 20),
            "f2fs" => (content * 4 / 3 + inodes * BLOCK + (64 << 20)).max(128 << 20),
            _ => content * 9 / 8 + inodes * 512 + room,
        };
        Plan {
            files,
            bytes,
            inodes,
            size: size.next_multiple_of(1 << 20),
            working_set: content + inodes * IN_MEMORY,
            newest,
        }
    }
}

/// Identities of an image: of what it holds, but for the files' bytes and
/// attributes, which would have to be read twice. Two UUIDs (RFC 9562, version 8) and a seed.
pub struct Identity {
    /// The file system's.
    pub uuid: String,
    /// Of ext4's directory hashes, as a UUID.
    pub hash_seed: String,
    /// Of its kernel's entropy.
    pub seed: u64,
}

impl Identity {
    /// A further UUID, of what is called so.
    pub fn named(&self, name: &str) -> [u8; 16] {
        let sum = Sha256::digest(format!("{} {name}", self.hash_seed));
        uuid_bits(word(&sum, 0)).to_be_bytes()
    }

    /// `more`: whatever else the image is made with.
    pub fn of(tree: &Tree, times: Times, more: &str) -> Identity {
        let mut sum = Sha256::new();
        let mut add = |bytes: &[u8]| {
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        };
        add(more.as_bytes());
        for (path, id) in tree.walk() {
            let node = tree.node(id);
            let mut stat = node.stat;
            times.of(&mut stat);
            let size = match stat.kind() {
                Kind::File => stat.size,
                _ => 0,
            };
            add(&path);
            add(&node.target);
            let (mtime, owner) = (stat.mtime, (stat.uid, stat.gid));
            add(format!("{} {owner:?} {} {size} {mtime:?}", stat.mode, stat.rdev).as_bytes());
        }
        let sum = sum.finalize();
        Identity {
            uuid: uuid(word(&sum, 0)),
            hash_seed: uuid(word(&sum, 16)),
            seed: word(&sum, 8) as u64,
        }
    }
}

fn word(sum: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(sum[at..at + 16].try_into().unwrap_or([0; 16]))
}

fn uuid_bits(bits: u128) -> u128 {
    let bits = bits & !(0xf << 76) | 8 << 76;
    bits & !(3 << 62) | 2 << 62
}

fn uuid(bits: u128) -> String {
    uuid_text(uuid_bits(bits))
}

/// As UUIDs are written.
pub(crate) fn uuid_text(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_its_version_and_variant() {
        assert_eq!(uuid(0), "00000000-0000-8000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}
