//! What Linux does not mount, by name: file systems it has no driver for, parts of
//! volumes. Looked for only where nothing else is. Archives and the like are told by whoever
//! opens an image.

use super::kinds::{kind, Kind, Label, Marks, Uuid};
use crate::label::Read;

/// What nobody mounts, for people. What holds others and is opened here is told by
/// whoever opens it.
static DESCRIPTIONS: &[(&str, &str)] = &[
    ("BitLocker", "a volume encrypted by BitLocker"),
    ("DM_integrity", "a volume of dm-integrity"),
    ("DM_snapshot_cow", "the changes of a device mapper snapshot"),
    ("DM_verity_hash", "hashes of dm-verity"),
    (
        "LVM1_member",
        "a part of an LVM 1 group, which Linux 6 does not know",
    ),
    ("LVM2_member", "a part of an LVM group"),
    ("ReFS", "Microsoft's ReFS, which Linux has no driver for"),
    (
        "UBI",
        "volumes of raw flash (UBI), which needs a flash device",
    ),
    ("VMFS", "VMware's VMFS, which Linux has no driver for"),
    (
        "VMFS_volume_member",
        "a part of VMware's VMFS, which Linux has no driver for",
    ),
    ("apfs", "Apple's APFS, which Linux has no driver for"),
    ("bcache", "a part of a bcache"),
    (
        "bcachefs",
        "a bcachefs, which this kernel image has no driver for",
    ),
    ("ceph_bluestore", "a part of Ceph's storage"),
    ("crypto_LUKS", "a volume encrypted by LUKS"),
    ("ddf_raid_member", "a part of a RAID controller's set (DDF)"),
    ("gfs", "a GFS 1, which Linux has no driver for"),
    ("gfs2", "a GFS2, which this kernel image has no driver for"),
    ("jbd", "the journal of another file system"),
    ("jffs2", "a JFFS2, which needs a flash device"),
    ("linux_raid_member", "a part of a RAID set"),
    ("reiser4", "a Reiser4, which Linux has no driver for"),
    (
        "squashfs3",
        "a squashfs of before version 4, or of the other order of bytes: unsquashfs reads it",
    ),
    ("stratis", "a part of a Stratis pool"),
    ("suspend", "the memory of a machine that sleeps"),
    ("swap", "swap space"),
    ("ubifs", "a UBIFS, which needs a flash device"),
    ("vdo", "a part of a VDO volume"),
    (
        "zfs_member",
        "a part of a ZFS pool, which Linux has no driver for",
    ),
    ("zonefs", "a zonefs, which needs a zoned disk"),
];

/// What something is that cannot be mounted; None: it can.
pub(crate) fn description(fstype: &str) -> Option<&'static str> {
    let found = DESCRIPTIONS.iter().find(|(name, _)| *name == fstype);
    found.map(|(_, text)| *text)
}

const fn other(fstype: &'static str, magic: Marks) -> Kind {
    kind(fstype, magic, Label::None, Uuid::None)
}

/// In order, as the others.
pub(super) static OTHERS: &[Kind] = &[
    kind("apfs", &[(32, b"NXSB")], Label::None, Uuid::Full(72)),
    other("ReFS", &[(3, b"ReFS\0\0\0\0")]),
    kind(
        "bcache",
        &[(
            4120,
            b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        )],
        Label::None,
        Uuid::Full(4136),
    ),
    other("LVM1_member", &[(0, b"HM\x01\0")]),
    other("LVM1_member", &[(0, b"HM\x02\0")]),
    other("DM_integrity", &[(0, b"integrt\0")]),
    other("DM_snapshot_cow", &[(0, b"SnAp\x01\0\0\0")]),
    other("stratis", &[(516, b"!Stra0tis\x86\xff\x02^\x41rh")]),
    other("vdo", &[(0, b"dmvdo001")]),
    other("ceph_bluestore", &[(0, b"bluestore block device")]),
    other("reiser4", &[(0x10000, b"ReIsEr4")]),
    other(
        "gfs",
        &[
            (0x10000, b"\x01\x16\x19\x70\0\0\0\x01"),
            (0x10018, b"\0\0\x05"),
        ],
    ),
    other("swap", &[(4086, b"SWAP-SPACE")]),
    other("swap", &[(8182, b"SWAPSPACE2")]),
    other("swap", &[(16374, b"SWAPSPACE2")]),
    other("swap", &[(65526, b"SWAPSPACE2")]),
    other("suspend", &[(4086, b"S1SUSPEND")]),
    other("suspend", &[(4086, b"S2SUSPEND")]),
    other("suspend", &[(4086, b"ULSUSPEND")]),
    other("suspend", &[(4086, b"LINHIB0001")]),
    other("zonefs", &[(0, b"SFOZ")]),
    other("squashfs3", &[(0, b"hsqs")]),
    other("squashfs3", &[(0, b"sqsh")]),
    other("UBI", &[(0, b"UBI#")]),
    other("ubifs", &[(0, b"\x31\x18\x10\x06")]),
    // Nodes of the three commonest types, in either order of bytes.
    other("jffs2", &[(0, b"\x85\x19\x03\x20")]),
    other("jffs2", &[(0, b"\x85\x19\x01\xe0")]),
    other("jffs2", &[(0, b"\x85\x19\x02\xe0")]),
    other("jffs2", &[(0, b"\x19\x85\x20\x03")]),
    other("jffs2", &[(0, b"\x19\x85\xe0\x01")]),
    other("jffs2", &[(0, b"\x19\x85\xe0\x02")]),
    other("VMFS_volume_member", &[]).check(|_, read| has(read, 1 << 20, b"\x0d\xd0\x01\xc0")),
    other("VMFS", &[]).check(|_, read| has(read, 2 << 20, b"\x5e\xf1\xab\x2f")),
    other("zfs_member", &[]).check(is_zfs),
];

fn has(read: Read, at: u64, mark: &[u8]) -> bool {
    read(at, mark.len()).is_some_and(|bytes| bytes == mark)
}

/// One of its uberblocks, of which there is a ring of 128 KiB behind as much else, in
/// either order of bytes.
fn is_zfs(_: &[u8], read: Read) -> bool {
    const MAGIC: u64 = 0x00ba_b10c;
    const PIECE: usize = 64 << 10;
    let marks = [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()];
    let is_there = |piece: Vec<u8>| {
        let mut blocks = piece.chunks_exact(1024);
        blocks.any(|block| marks.iter().any(|mark| block.starts_with(mark)))
    };
    [128 << 10, 192 << 10]
        .into_iter()
        .filter_map(|at| read(at, PIECE))
        .any(is_there)
}
