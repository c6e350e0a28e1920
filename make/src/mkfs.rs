//! Making file systems, by each one's own mkfs.

use crate::error::{Error, Result};
use crate::means::{run, Means};
use crate::tool::Tool;
use std::ffi::OsString;
use std::path::Path;

/// What a new file system is to be.
#[derive(Default)]
pub struct Wish<'a> {
    /// Its name.
    pub label: Option<&'a str>,
    /// As UUIDs are written.
    pub uuid: Option<&'a str>,
    /// The same input gives the same bytes: the time that it is, and whatever
    /// else would come from chance comes from this.
    pub fixed: Option<Fixed>,
    /// Bytes of a sector of what it will be on, if that is not 512: nothing of it may be
    /// smaller.
    pub sector: Option<u32>,
    /// What else mkfs is told.
    pub extra: &'a [OsString],
}

/// What a file system has from us that it would have from chance.
pub struct Fixed {
    /// Seconds since 1970.
    pub time: u64,
    /// For ext4's directory hashes: as a UUID.
    pub hash_seed: String,
    /// Files, directories and all.
    pub inodes: u64,
    /// Bytes of the file system.
    pub size: u64,
    /// Bytes of a sector.
    pub sector: u32,
}

/// The kinds that can be made.
pub const KINDS: [&str; 13] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs", "jfs", "nilfs2",
    "udf", "minix",
];

/// What ext4 has on Debian 12, whatever mke2fs.conf(5) says on this machine.
const EXT4: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,\
64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
const EXT3: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,\
sparse_super,large_file";
const EXT2: &str = "none,ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file";

/// The program that makes this kind.
pub fn tool(kind: &str) -> Result<Tool> {
    let (program, package) = match kind {
        "ext2" | "ext3" | "ext4" => ("mke2fs", "e2fsprogs"),
        "xfs" => ("mkfs.xfs", "xfsprogs"),
        "btrfs" => ("mkfs.btrfs", "btrfs-progs"),
        "f2fs" => ("mkfs.f2fs", "f2fs-tools"),
        "vfat" => ("mkfs.vfat", "dosfstools"),
        "exfat" => ("mkfs.exfat", "exfatprogs"),
        // As mkfs is called, and as Linux calls what it mounts.
        "ntfs" | "ntfs3" => ("mkntfs", "ntfs-3g"),
        "jfs" => ("jfs_mkfs", "jfsutils"),
        "nilfs2" => ("mkfs.nilfs2", "nilfs-tools"),
        "udf" => ("mkudffs", "udftools"),
        "minix" => ("mkfs.minix", "util-linux"),
        other => {
            return Err(Error::Usage(format!(
                "{other} cannot be made: choose one of {}",
                KINDS.join(", ")
            )))
        }
    };
    Ok(Tool { program, package })
}

const MKSWAP: Tool = Tool {
    program: "mkswap",
    package: "util-linux",
};

/// The file becomes swap space, for pages of 4 KiB.
pub fn swap(means: &dyn Means, file: &Path, label: Option<&str>, uuid: &str) -> Result<()> {
    let mut command = means.command(MKSWAP)?;
    command.args(["--pagesize", "4096", "--uuid", uuid]);
    if let Some(label) = label {
        command.args(["--label", label]);
    }
    run(means, MKSWAP, command.arg(file)).map(drop)
}

/// Makes one that fills the file.
pub fn make(means: &dyn Means, kind: &str, file: &Path, wish: &Wish) -> Result<()> {
    let tool = tool(kind)?;
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
    match kind {
        "ext2" | "ext3" | "ext4" => {
            add(&["-q", "-F", "-t", kind]);
            if let Some(uuid) = wish.uuid {
                add(&["-U", uuid]);
            }
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
            match &wish.fixed {
                None => add(&["-E", "nodiscard"]),
                Some(fixed) => fixed_ext(kind, fixed, &mut add),
            }
        }
        "xfs" => {
            add(&["-q", "-f", "-K"]);
            if let Some(uuid) = wish.uuid {
                add(&["-m", &format!("uuid={uuid}")]);
            }
            if let Some(fixed) = &wish.fixed {
                // Else it is that of the disk which holds the file.
                add(&["-s", &format!("size={}", fixed.sector)]);
            }
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
        "btrfs" => {
            add(&["-q", "-f", "-K"]);
            if let Some(uuid) = wish.uuid {
                add(&["-U", uuid]);
            }
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
        "f2fs" => {
            add(&["-q", "-f", "-t", "0"]);
            if let Some(uuid) = wish.uuid {
                add(&["-U", uuid]);
            }
            if let Some(label) = wish.label {
                add(&["-l", label]);
            }
            if let Some(fixed) = &wish.fixed {
                add(&["-r", "-T", &fixed.time.to_string()]);
            }
        }
        "vfat" => {
            if let Some(uuid) = wish.uuid {
                add(&["-i", &serial(uuid)?]);
            }
            if let Some(label) = wish.label {
                add(&["-n", label]);
            }
            if wish.fixed.is_some() {
                add(&["--invariant"]);
            }
        }
        "exfat" => {
            no_uuid(kind, wish)?;
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
        "jfs" => {
            add(&["-q"]);
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
        "nilfs2" => {
            no_uuid(kind, wish)?;
            // Blocks are not discarded: what is behind may be a device.
            add(&["-q", "-f", "-K"]);
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
        "udf" => {
            // Else the label is taken for one of the locale, which is C.
            add(&["--utf8", "--media-type=hd"]);
            if let Some(uuid) = wish.uuid {
                add(&[&format!("--uuid={uuid}")]);
            }
            if let Some(label) = wish.label {
                add(&[&format!("--label={label}")]);
            }
        }
        "minix" => {
            no_uuid(kind, wish)?;
            if wish.label.is_some() {
                return Err(Error::Usage("minix: it has no label".into()));
            }
            // The older two end at 64 MiB and at names of 30 bytes.
            if !wish.extra.iter().any(is_version) {
                add(&["-3"]);
            }
        }
        _ => {
            add(&["-F", "-Q", "-q"]);
            no_uuid(kind, wish)?;
            if let Some(label) = wish.label {
                add(&["-L", label]);
            }
        }
    }
    if let Some(sector) = wish.sector.filter(|sector| *sector > 512) {
        add_sector(kind, sector, &mut add)?;
    }
    let mut command = means.command(tool)?;
    if let Some(sector) = wish.sector {
        // mke2fs chooses blocks by it.
        command.env("MKE2FS_DEVICE_SECTSIZE", sector.to_string());
    }
    if let Some(fixed) = &wish.fixed {
        // e2fsprogs before and since 1.47.1; time 0 is none to it.
        command
            .env("E2FSPROGS_FAKE_TIME", fixed.time.max(1).to_string())
            .env("SOURCE_DATE_EPOCH", fixed.time.to_string())
            // xfsprogs since 6.17.
            .env("DETERMINISTIC_SEED", "1")
            .env("MKE2FS_CONFIG", "/dev/null");
    }
    run(means, tool, command.args(args).args(wish.extra).arg(file))?;
    match wish.uuid.filter(|_| kind == "jfs") {
        Some(uuid) => jfs_uuid(means, file, uuid),
        None => Ok(()),
    }
}

/// btrfs, jfs and nilfs2 have blocks of 4096 bytes anyway.
fn add_sector(kind: &str, sector: u32, add: &mut impl FnMut(&[&str])) -> Result<()> {
    let size = sector.to_string();
    match kind {
        "xfs" => add(&["-s", &format!("size={size}")]),
        "vfat" => add(&["-S", &size]),
        "ntfs" | "ntfs3" => add(&["-s", &size]),
        "f2fs" => add(&["-w", &size]),
        "udf" => add(&[&format!("--blocksize={size}")]),
        "minix" | "exfat" => {
            let text = format!("{kind} cannot be made on sectors of {size} bytes");
            return Err(Error::Usage(text));
        }
        _ => {}
    }
    Ok(())
}

/// Its mkfs draws one, and cannot be told.
fn jfs_uuid(means: &dyn Means, file: &Path, uuid: &str) -> Result<()> {
    let tool = Tool {
        program: "jfs_tune",
        package: "jfsutils",
    };
    let mut command = means.command(tool)?;
    run(means, tool, command.args(["-U", uuid]).arg(file)).map(drop)
}

/// Of minix, among what mkfs is told.
fn is_version(word: &OsString) -> bool {
    ["-1", "-2", "-3", "-v"]
        .iter()
        .any(|version| word == version)
}

fn fixed_ext(kind: &str, fixed: &Fixed, add: &mut impl FnMut(&[&str])) {
    let features = match kind {
        "ext2" => EXT2,
        "ext3" => EXT3,
        _ => EXT4,
    };
    add(&["-b", "4096", "-I", "256", "-m", "0", "-O", features]);
    add(&["-N", &fixed.inodes.to_string()]);
    if kind != "ext2" {
        add(&["-J", &format!("size={}", journal(fixed.size) >> 20)]);
    }
    let seed = &fixed.hash_seed;
    // The file is new and all zeroes, and so is a journal that nobody writes.
    add(&[
        "-E",
        &format!(
            "nodiscard,lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,hash_seed={seed}"
        ),
    ]);
}

/// The journal that mke2fs gives a file system of so many bytes.
pub fn journal(size: u64) -> u64 {
    let mib = match size >> 20 {
        0..128 => 4,
        128..1024 => 16,
        1024..2048 => 32,
        2048..4096 => 64,
        4096..16384 => 128,
        _ => 256,
    };
    mib << 20
}

fn no_uuid(kind: &str, wish: &Wish) -> Result<()> {
    match wish.uuid.filter(|_| wish.fixed.is_none()) {
        Some(_) => Err(Error::Usage(format!(
            "{kind}: its mkfs cannot be told a UUID"
        ))),
        None => Ok(()),
    }
}

/// FAT has 32 bits: 1234-ABCD, or the first of a UUID.
fn serial(uuid: &str) -> Result<String> {
    let hex: String = uuid.chars().filter(|c| *c != '-').take(8).collect();
    match hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(hex),
        false => Err(Error::Usage(format!(
            "{uuid} is no serial number: write 1234-ABCD"
        ))),
    }
}
