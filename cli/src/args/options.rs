//! Options of every verb.

use super::kernel::named_kernel;
use super::parse_size;
use super::quantities::{parse_hang, parse_limit, parse_sector_size, parse_time};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Options of every verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// The Linux image to load: the name of one that is installed, for example smp, or a
    /// file, with a slash if its name is one of these (default: the one for the task)
    #[arg(
        long,
        global = true,
        value_name = "FILE|NAME",
        visible_alias = "image-kernel",
        value_parser = OsStringValueParser::new().map(named_kernel)
    )]
    #[arg(help_heading = "Kernel and mount")]
    pub kernel: Option<PathBuf>,
    /// Memory for that Linux (default: 256M; of cat, cp and tar 112M, and 1M for every
    /// 16G of the image, up to that)
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    #[arg(help_heading = "Kernel and mount")]
    pub memory: Option<u64>,
    /// Virtual CPUs of that Linux (default: 1; the tiny image has no more)
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    #[arg(help_heading = "Kernel and mount")]
    pub cpus: Option<u32>,
    /// Words for the command line of that Linux, for example nokaslr
    #[arg(long, global = true, value_name = "WORDS")]
    #[arg(help_heading = "Kernel and mount")]
    pub append: Option<String>,
    /// The file system's type, if it should not be detected
    #[arg(
        long,
        global = true,
        value_name = "TYPE",
        help_heading = "Kernel and mount"
    )]
    pub fs: Option<String>,
    /// Mount options of the file system, separated by commas
    #[arg(
        long,
        global = true,
        value_name = "OPTIONS",
        help_heading = "Kernel and mount"
    )]
    pub options: Option<String>,
    /// What the image is, if its content should not tell: raw, qcow2, vmdk, vhd,
    /// vhdx, vdi, qcow, qed, dmg, ewf, android-sparse, split, gzip, xz, zstd or bzip2
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Image")]
    pub format: Option<tane::images::Format>,
    /// Write to FILE, a qcow2 on top of the image, which stays as it is; ":memory:"
    /// keeps what is written in memory, and forgets it at the end
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub overlay: Option<PathBuf>,
    /// A file or directory that an image may name as its backing file, its extent or the
    /// parent that it is a difference from (those beside the image it always may); can be repeated
    #[arg(long, global = true, value_name = "PATH", help_heading = "Image")]
    pub trust: Vec<PathBuf>,
    /// A further image of the same machine: another disk of its LVM group, RAID set
    /// or btrfs; can be repeated
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image")]
    pub with: Vec<PathBuf>,
    /// A layer below the image, IMAGE or IMAGE@SELECTOR: its files are seen where the
    /// image has none of that name, as overlayfs shows them, for reading. Can be
    /// repeated, each below those before
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image")]
    pub lower: Vec<PathBuf>,
    /// A file whose first line opens LUKS and BitLocker volumes and encrypted images; - is
    /// standard input
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub passphrase_file: Option<PathBuf>,
    /// A file whose whole content opens LUKS volumes and encrypted images; the startup key
    /// (.BEK) of a BitLocker volume
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub key_file: Option<PathBuf>,
    /// Wait for other programs that use an image until they end, or for so long, rather
    /// than fail
    #[arg(long, global = true, value_name = "TIME", help_heading = "Image")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "none")]
    #[arg(value_parser = parse_hang)]
    pub wait: Option<Duration>,
    /// The sectors of the disk that the image is of, if they are not 512 bytes: a
    /// partition table counts in them
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Image")]
    #[arg(value_parser = parse_sector_size)]
    pub sector_size: Option<u32>,
    /// Have dm-verity check what this root hash (hexadecimal) is of; the hashes are on
    /// another volume, or on the same one with ,offset=BYTES
    #[arg(long, global = true, value_name = "HASH", help_heading = "Image")]
    #[arg(value_parser = str::parse::<tane::Verity>)]
    pub verity: Option<tane::Verity>,
    /// Run the image's Linux with all of your rights: for images that you trust, and
    /// to debug
    #[arg(long, global = true, help_heading = "Jail")]
    pub no_jail: bool,
    /// End after this time: seconds, or a number and s, m or h (default: none)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_time)]
    #[arg(help_heading = "Jail")]
    pub time_limit: Option<Duration>,
    /// End when that Linux looks for volumes, mounts or unmounts for this time without
    /// asking a disk for anything; or none (default: 3m)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_hang)]
    #[arg(help_heading = "Jail")]
    pub hang_limit: Option<Duration>,
    /// Memory for everything but that Linux's own (--memory), or none (default: 4G)
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_limit)]
    #[arg(help_heading = "Jail")]
    pub memory_limit: Option<u64>,
    /// Print JSON: one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// No warnings
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Tell what is being done
    #[arg(short, long, global = true, help_heading = "Output")]
    pub verbose: bool,
}

impl Options {
    /// Whether what is written is to be forgotten.
    pub fn forgets(&self) -> bool {
        self.overlay
            .as_deref()
            .is_some_and(|p| p.as_os_str() == ":memory:")
    }
}
