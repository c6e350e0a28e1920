//! The sound images that damage starts from: their tools and settings.

use super::hfsplus;
use tane::MountOptions;
use tane_hostile::checksums::{self, Fixup};

/// How an image comes to be.
pub enum Make {
    /// By the host's mkfs (package, command line without the image), then filled by
    /// our kernel. `{uuid}` stands for [`UUID`].
    Mkfs(&'static str, &'static str),
    /// As before, by the tests' own mkfs: no package of Debian's has one.
    Ours(fn(mib: u64) -> Vec<u8>),
    /// By the host's tool (package, command line) from a directory; `{image}` and
    /// `{dir}` stand for the two.
    Tree(&'static str, &'static str),
}

pub struct Kind {
    /// For who reads of it.
    pub name: &'static str,
    pub fstype: &'static str,
    pub mib: u64,
    pub make: Make,
    pub options: &'static str,
    pub fixup: Option<Fixup>,
}

impl Kind {
    const fn new(name: &'static str, fstype: &'static str, mib: u64, make: Make) -> Kind {
        Kind {
            name,
            fstype,
            mib,
            make,
            options: "",
            fixup: None,
        }
    }

    const fn options(mut self, options: &'static str) -> Kind {
        self.options = options;
        self
    }

    const fn fixup(mut self, fixup: Fixup) -> Kind {
        self.fixup = Some(fixup);
        self
    }

    pub fn mount_options(&self) -> MountOptions {
        let mut options = MountOptions::new();
        options.fstype(self.fstype).options(self.options);
        options
    }

    pub fn writable(&self) -> bool {
        !matches!(self.make, Make::Tree(..))
    }
}

use Make::{Mkfs, Ours, Tree};

/// Not to panic on errors, which a superblock may ask for.
const GO_ON: &str = "errors=continue";
pub const UUID: &str = "6d616e61-6b69-4d61-8e61-776869746900";

const EXT: &str = "e2fsprogs";

pub static EXT2: [Kind; 1] = [Kind::new(
    "ext2, 1 KiB blocks",
    "ext2",
    8,
    Mkfs(EXT, "mkfs.ext2 -q -F -b 1024 -U {uuid} -E hash_seed={uuid}"),
)
.options(GO_ON)];

pub static EXT3: [Kind; 1] = [Kind::new(
    "ext3, 1 KiB blocks",
    "ext3",
    8,
    Mkfs(
        EXT,
        "mkfs.ext3 -q -F -b 1024 -J size=1 -U {uuid} -E hash_seed={uuid}",
    ),
)
.options(GO_ON)];

/// Without checksums damage gets deeper into the kernel.
pub static EXT4: [Kind; 2] = [
    Kind::new(
        "ext4 with inline data",
        "ext4",
        16,
        Mkfs(EXT, "mkfs.ext4 -q -F -b 4096 -J size=4 -O ^metadata_csum,inline_data -U {uuid} -E hash_seed={uuid}"),
    )
    .options(GO_ON),
    Kind::new(
        "ext4 with checksums",
        "ext4",
        16,
        Mkfs(EXT, "mkfs.ext4 -q -F -b 1024 -J size=1 -U {uuid} -E hash_seed={uuid}"),
    )
    .options(GO_ON),
];

pub static XFS: [Kind; 2] = [
    Kind::new(
        "xfs v5",
        "xfs",
        320,
        Mkfs("xfsprogs", "mkfs.xfs -q -f -m uuid={uuid}"),
    )
    .fixup(checksums::xfs),
    Kind::new(
        "xfs v4",
        "xfs",
        320,
        Mkfs("xfsprogs", "mkfs.xfs -q -f -m crc=0,uuid={uuid}"),
    ),
];

pub static BTRFS: [Kind; 3] = [
    Kind::new(
        "btrfs",
        "btrfs",
        128,
        Mkfs("btrfs-progs", "mkfs.btrfs -q -f -U {uuid}"),
    )
    .fixup(checksums::btrfs),
    Kind::new(
        "btrfs, metadata once",
        "btrfs",
        128,
        Mkfs("btrfs-progs", "mkfs.btrfs -q -f -m single -U {uuid}"),
    )
    .options("compress-force=zstd")
    .fixup(checksums::btrfs),
    Kind::new(
        "btrfs, data and metadata mixed",
        "btrfs",
        32,
        Mkfs("btrfs-progs", "mkfs.btrfs -q -f -M -U {uuid}"),
    )
    .fixup(checksums::btrfs),
];

pub static F2FS: [Kind; 2] = [
    Kind::new(
        "f2fs",
        "f2fs",
        64,
        Mkfs("f2fs-tools", "mkfs.f2fs -q -f -r -U {uuid}"),
    )
    .fixup(checksums::f2fs),
    Kind::new(
        "f2fs with more features",
        "f2fs",
        64,
        Mkfs("f2fs-tools", "mkfs.f2fs -q -f -r -U {uuid} -O extra_attr,flexible_inline_xattr,inode_crtime,compression"),
    )
    .fixup(checksums::f2fs),
];

pub static VFAT: [Kind; 3] = [
    Kind::new(
        "FAT12",
        "vfat",
        2,
        Mkfs("dosfstools", "mkfs.vfat -F 12 -i 6d616e61"),
    ),
    Kind::new(
        "FAT16",
        "vfat",
        16,
        Mkfs("dosfstools", "mkfs.vfat -F 16 -i 6d616e61"),
    ),
    Kind::new(
        "FAT32",
        "vfat",
        40,
        Mkfs("dosfstools", "mkfs.vfat -F 32 -s 1 -i 6d616e61"),
    ),
];

pub static EXFAT: [Kind; 1] =
    [Kind::new("exfat", "exfat", 16, Mkfs("exfatprogs", "mkfs.exfat")).fixup(checksums::exfat)];

pub static NTFS3: [Kind; 2] = [
    Kind::new("ntfs", "ntfs3", 16, Mkfs("ntfs-3g", "mkntfs -F -Q -q")),
    Kind::new(
        "ntfs, 512 byte clusters, compressed",
        "ntfs3",
        16,
        Mkfs("ntfs-3g", "mkntfs -F -Q -q -C -c 512"),
    ),
];

pub static HFSPLUS: [Kind; 1] = [Kind::new("HFS+", "hfsplus", 8, Ours(hfsplus::make))];

pub static JFS: [Kind; 1] =
    [Kind::new("jfs", "jfs", 16, Mkfs("jfsutils", "mkfs.jfs -q")).options(GO_ON)];

pub static NILFS2: [Kind; 1] = [Kind::new(
    "nilfs2",
    "nilfs2",
    32,
    Mkfs("nilfs-tools", "mkfs.nilfs2 -q -f -B 64"),
)
.options(GO_ON)
.fixup(checksums::nilfs2)];

pub static UDF: [Kind; 2] = [
    Kind::new(
        "udf",
        "udf",
        8,
        Mkfs("udftools", "mkudffs --media-type=hd --blocksize=512 --uuid=6d616e616b696d61"),
    )
    .fixup(checksums::udf512),
    Kind::new(
        "udf 1.02, long allocation descriptors",
        "udf",
        8,
        Mkfs("udftools", "mkudffs --media-type=hd --blocksize=2048 --udfrev=1.02 --ad=long --uuid=6d616e616b696d61"),
    )
    .fixup(checksums::udf2048),
];

const UTIL: &str = "util-linux";

pub static MINIX: [Kind; 3] = [
    Kind::new("minix v1", "minix", 4, Mkfs(UTIL, "mkfs.minix -1")),
    Kind::new("minix v2", "minix", 4, Mkfs(UTIL, "mkfs.minix -2")),
    Kind::new("minix v3", "minix", 4, Mkfs(UTIL, "mkfs.minix -3")),
];

pub static REISERFS: [Kind; 1] = [Kind::new(
    "reiserfs",
    "reiserfs",
    40,
    Mkfs("reiserfsprogs", "mkreiserfs -q -f -f -u {uuid}"),
)];

pub static OCFS2: [Kind; 1] = [Kind::new(
    "ocfs2 for one machine",
    "ocfs2",
    136,
    Mkfs(
        "ocfs2-tools",
        "mkfs.ocfs2 -q -M local -N 1 --fs-features=sparse,unwritten,xattr -U {uuid}",
    ),
)];

/// Both dialects that a makefs makes; Linux finds neither by itself.
pub static UFS: [Kind; 2] = [
    Kind::new(
        "ufs 1 of the BSDs",
        "ufs",
        0,
        Tree("makefs", "makefs -t ffs -o version=1 {image} {dir}"),
    )
    .options("ufstype=44bsd"),
    Kind::new(
        "ufs 2",
        "ufs",
        0,
        Tree("makefs", "makefs -t ffs -o version=2 {image} {dir}"),
    )
    .options("ufstype=ufs2"),
];

/// Metadata as it is, so that damage gets behind the decompressor; and compressed.
pub static SQUASHFS: [Kind; 3] = [
    Kind::new(
        "squashfs, metadata not compressed",
        "squashfs",
        0,
        Tree(
            "squashfs-tools",
            "mksquashfs {dir} {image} -noappend -quiet -no-progress -noI -noId -noD -noF -noX",
        ),
    ),
    Kind::new(
        "squashfs, zstd",
        "squashfs",
        0,
        Tree(
            "squashfs-tools",
            "mksquashfs {dir} {image} -noappend -quiet -no-progress -comp zstd",
        ),
    ),
    Kind::new(
        "squashfs, xz",
        "squashfs",
        0,
        Tree(
            "squashfs-tools",
            "mksquashfs {dir} {image} -noappend -quiet -no-progress -comp xz",
        ),
    ),
];

pub static EROFS: [Kind; 2] = [
    Kind::new(
        "erofs",
        "erofs",
        0,
        Tree("erofs-utils", "mkfs.erofs -U {uuid} {image} {dir}"),
    )
    .fixup(checksums::erofs),
    Kind::new(
        "erofs, lz4",
        "erofs",
        0,
        Tree(
            "erofs-utils",
            "mkfs.erofs -zlz4hc -C16384 -Efragments,dedupe -U {uuid} {image} {dir}",
        ),
    )
    .fixup(checksums::erofs),
];

pub static ISO9660: [Kind; 3] = [
    Kind::new(
        "Rock Ridge",
        "iso9660",
        0,
        Tree("genisoimage", "genisoimage -quiet -R -D -o {image} {dir}"),
    ),
    Kind::new(
        "Joliet",
        "iso9660",
        0,
        Tree("genisoimage", "genisoimage -quiet -J -D -o {image} {dir}"),
    ),
    Kind::new(
        "zisofs",
        "iso9660",
        0,
        Tree(
            "xorriso",
            "xorriso -outdev {image} -zisofs default -map {dir} / -set_filter_r --zisofs / --",
        ),
    ),
];

pub static CRAMFS: [Kind; 1] = [Kind::new(
    "cramfs",
    "cramfs",
    0,
    Tree(UTIL, "mkfs.cramfs {dir} {image}"),
)];

pub static ROMFS: [Kind; 1] = [Kind::new(
    "romfs",
    "romfs",
    0,
    Tree("genromfs", "genromfs -d {dir} -f {image}"),
)];
