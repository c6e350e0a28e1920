//! The file systems, and their programs.

use super::workload::Gives;

/// Package, name, words, exit codes that mean success. The image comes last.
#[derive(Clone, Copy)]
pub struct Program(
    pub &'static str,
    pub &'static str,
    pub &'static str,
    pub &'static [i32],
);

pub struct Kind {
    pub name: &'static str,
    pub fstype: &'static str,
    pub mib: u64,
    pub mkfs: Program,
    pub options: &'static str,
    /// Before a mount after a crash, where Linux leaves that to a program.
    pub repair: &'static [Program],
    pub check: &'static [Program],
    /// Where a mount does not help.
    pub force: &'static [Program],
    pub gives: Gives,
    /// It asks disks to flush their caches.
    pub flushes: bool,
    /// What fsync has promised is there after a power cut.
    pub keeps: bool,
    /// What was promised is there too if single writes have failed in between.
    pub notices_errors: bool,
}

pub const XFS: Kind = Kind {
    name: "xfs",
    fstype: "xfs",
    mib: 320, // mkfs makes none below 300
    mkfs: Program("xfsprogs", "mkfs.xfs", "-q -f", &[0]),
    options: "",
    repair: &[],
    check: &[Program("xfsprogs", "xfs_repair", "-n", &[0])],
    force: &[Program("xfsprogs", "xfs_repair", "-L", &[0])],
    gives: Gives::ALL,
    flushes: true,
    keeps: true,
    notices_errors: true,
};

pub const BTRFS: Kind = Kind {
    name: "btrfs",
    fstype: "btrfs",
    mib: 128,
    mkfs: Program("btrfs-progs", "mkfs.btrfs", "-q -f", &[0]),
    options: "",
    repair: &[],
    check: &[Program("btrfs-progs", "btrfs", "check", &[0])],
    force: &[],
    gives: Gives::ALL,
    flushes: true,
    keeps: true,
    notices_errors: true,
};

pub const F2FS: Kind = Kind {
    name: "f2fs",
    fstype: "f2fs",
    mib: 64,
    mkfs: Program("f2fs-tools", "mkfs.f2fs", "-q -f", &[0]),
    options: "",
    repair: &[],
    check: &[Program("f2fs-tools", "fsck.f2fs", "-f --dry-run", &[0])],
    force: &[Program("f2fs-tools", "fsck.f2fs", "-f", &[0])],
    gives: Gives::ALL,
    flushes: true,
    keeps: true,
    notices_errors: true,
};

/// There is no fsck: what mounts is sound.
pub const NILFS2: Kind = Kind {
    name: "nilfs2",
    fstype: "nilfs2",
    mib: 32,
    mkfs: Program("nilfs-tools", "mkfs.nilfs2", "-q -f -B 64", &[0]),
    options: "",
    repair: &[],
    check: &[],
    force: &[],
    gives: Gives {
        xattrs: false,
        ..Gives::ALL
    },
    flushes: true,
    keeps: true,
    notices_errors: true,
};

/// Its fsck replays the journal, and Linux sends no flushes: what comes back is sound, but
/// new files that were synced may be missing. A write of metadata that fails is forgotten.
pub const JFS: Kind = Kind {
    name: "jfs",
    fstype: "jfs",
    mib: 16,
    mkfs: Program("jfsutils", "mkfs.jfs", "-q", &[0]),
    options: "",
    repair: &[Program("jfsutils", "jfs_fsck", "-a", &[0, 1])],
    check: &[Program("jfsutils", "jfs_fsck", "-f -n", &[0])],
    force: &[Program("jfsutils", "jfs_fsck", "-f", &[0, 1])],
    gives: Gives::ALL,
    flushes: false,
    keeps: false,
    notices_errors: false,
};

/// No journal: what was not synced may have to be taken away.
const FAT: Gives = Gives {
    replaces: false,
    links: false,
    xattrs: false,
    names: false,
};

pub const VFAT: Kind = Kind {
    name: "vfat",
    fstype: "vfat",
    mib: 16,
    mkfs: Program("dosfstools", "mkfs.vfat", "-F 16", &[0]),
    options: "",
    repair: &[Program("dosfstools", "fsck.vfat", "-a", &[0, 1])],
    check: &[Program("dosfstools", "fsck.vfat", "-n", &[0])],
    force: &[],
    gives: FAT,
    flushes: true,
    keeps: true,
    notices_errors: true,
};

/// Its fsck calls clean what Linux then finds damaged, if single writes have failed.
pub const EXFAT: Kind = Kind {
    name: "exfat",
    fstype: "exfat",
    mib: 16,
    mkfs: Program("exfatprogs", "mkfs.exfat", "", &[0]),
    options: "",
    repair: &[Program("exfatprogs", "fsck.exfat", "-y", &[0, 1])],
    check: &[Program("exfatprogs", "fsck.exfat", "-n", &[0])],
    force: &[],
    gives: FAT,
    flushes: true,
    keeps: true,
    notices_errors: false,
};
