//! The command line.

use crate::session::Kept;
use crate::verbs::*;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const LONG_ABOUT: &str = "\
Look into disk images and copy in and out of them.

The file system in the image is read and written by real Linux, loaded into
this process as a library: no root, no mount, no virtual machine.

An address is IMAGE:/path. When an image holds several file systems, a selector
says which one is meant: IMAGE@2:/path (partition number), IMAGE@label=NAME:/path,
IMAGE@uuid=UUID:/path or IMAGE@GROUP/VOLUME:/path (LVM); IMAGE@subvol=PATH:/path, or
,subvol=PATH behind any of them, takes a btrfs subvolume for the root. Reading never changes a byte of the image.";

const AFTER_HELP: &str = "\
Examples:
  tane ls -l disk.img                      the root directory
  tane cp disk.img:/etc/fstab .            one file out
  tane cp disk.img:/. tree                 everything out
  tane cp app disk.img@2:/opt              a directory into partition 2
  tane cat disk.img:/var/log/syslog | less
  tane inspect disk.img                    partitions and file systems

Addresses:
  An argument means an image if it contains \":/\" and the text before it names an
  existing file, with or without @SELECTOR. What exists under its full name is
  always that file; a name with a colon but no \":/\", like a:b, is never an image.

Exit codes:
  0    done
  1    some files failed, or something was left behind under --strict
  2    the command line makes no sense
  3    the image cannot be opened or mounted
  130  interrupted";

#[derive(Parser)]
#[command(
    name = "tane",
    version,
    about = "Look into disk images and copy in and out of them"
)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP, max_term_width = 90)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The Linux image to load (default: the one installed with tane)
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        visible_alias = "image-kernel"
    )]
    #[arg(help_heading = "Kernel and mount")]
    pub kernel: Option<PathBuf>,
    /// Memory for that Linux, for example 256M
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    #[arg(help_heading = "Kernel and mount")]
    pub memory: Option<u64>,
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
    /// vhdx, gzip, xz, zstd or bzip2
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Image")]
    pub format: Option<tane::images::Format>,
    /// Write to FILE, a qcow2 on top of the image, which stays as it is
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub overlay: Option<PathBuf>,
    /// A file or directory that an image may name as its backing file or extent
    /// (those beside the image it always may); can be repeated
    #[arg(long, global = true, value_name = "PATH", help_heading = "Image")]
    pub trust: Vec<PathBuf>,
    /// A further image of the same machine: another disk of its LVM group, RAID set
    /// or btrfs; can be repeated
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image")]
    pub with: Vec<PathBuf>,
    /// A file whose first line opens LUKS volumes; - is standard input
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub passphrase_file: Option<PathBuf>,
    /// A file whose whole content opens LUKS volumes
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub key_file: Option<PathBuf>,
    /// Print JSON: one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// No warnings
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Tell what is being done
    #[arg(short, long, global = true, help_heading = "Output")]
    pub verbose: bool,
    /// What is open already.
    #[arg(skip)]
    pub kept: Kept,
}

#[derive(Subcommand)]
pub enum Verb {
    Inspect(inspect::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Stat(stat::Args),
    Find(find::Args),
    Df(df::Args),
    Du(du::Args),
    Tree(tree::Args),
    Diff(diff::Args),
    Cp(cp::Args),
    Mkdir(mkdir::Args),
    Rm(rm::Args),
    Mv(mv::Args),
    Ln(ln::Args),
    Chmod(chmod::Args),
    Chown(chown::Args),
    Touch(touch::Args),
    Truncate(truncate::Args),
    Xattr(xattr::Args),
    Trim(trim::Args),
    Tar(tar::Args),
    Sh(sh::Args),
    Syscall(syscall::Args),
    Dmesg(dmesg::Args),
    Kaslr(kaslr::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

/// A number of bytes with an optional K, M, G or T (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (digits, shift) = match upper.char_indices().last() {
        Some((i, 'K')) => (&upper[..i], 10),
        Some((i, 'M')) => (&upper[..i], 20),
        Some((i, 'G')) => (&upper[..i], 30),
        Some((i, 'T')) => (&upper[..i], 40),
        _ => (upper, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let size = number.and_then(|n| n.checked_mul(1 << shift));
    size.ok_or_else(|| "not a size: write a number and K, M, G or T".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes() {
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert!(parse_size("much").is_err());
        assert!(parse_size("99999999999T").is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
