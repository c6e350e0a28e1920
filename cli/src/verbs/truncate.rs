//! tane truncate: sets the length of files.

use crate::args::parse_size;
use crate::failure::Result;
use crate::interrupt;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use std::ffi::OsString;
use tane_linux::{allow_holes, Errno, Kind, Root};

/// Set the length of files in an image, creating what is missing
#[derive(clap::Args)]
#[command(after_help = "\
What is cut off is gone; what is added is a hole, which reads as zeroes. Symlinks are
followed within the image.

Examples:
  tane truncate -s 0 disk.img:/var/log/syslog
  tane truncate -s 10G disk.img:/var/lib/vm.raw       a hole, no room taken
  tane truncate -s +1M disk.img:/data                 1 MiB longer
  tane truncate -s '<64K' disk.img:/a disk.img:/b     no longer than 64 KiB
  tane truncate -s %4K disk.img:/data                 up to a multiple of 4 KiB")]
pub struct Args {
    /// The length in bytes (K, M, G, T work); in front of it + adds, - takes away,
    /// < is at most, > at least, / rounds down to a multiple, % rounds up
    #[arg(short, long, value_name = "[+-<>/%]SIZE", allow_hyphen_values = true)]
    #[arg(value_parser = length)]
    pub size: Length,
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// Create nothing
    #[arg(short = 'c', long)]
    pub no_create: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Exactly(u64),
    More(u64),
    Less(u64),
    AtMost(u64),
    AtLeast(u64),
    RoundedDown(u64),
    RoundedUp(u64),
}

fn length(text: &str) -> std::result::Result<Length, String> {
    let rest = text.get(1..).unwrap_or_default();
    if !rest.is_empty()
        && !rest.starts_with(|c: char| c.is_ascii_digit() || "kKmMgGtTbB".contains(c))
    {
        return Err("not a size: write a number and K, M, G or T".into());
    }
    let made = match text.as_bytes().first() {
        Some(b'+') => Length::More(parse_size(rest)?),
        Some(b'-') => Length::Less(parse_size(rest)?),
        Some(b'<') => Length::AtMost(parse_size(rest)?),
        Some(b'>') => Length::AtLeast(parse_size(rest)?),
        Some(b'/') => Length::RoundedDown(parse_size(rest)?),
        Some(b'%') => Length::RoundedUp(parse_size(rest)?),
        _ => Length::Exactly(parse_size(text)?),
    };
    match made {
        Length::RoundedDown(0) | Length::RoundedUp(0) => Err("cannot round to 0".into()),
        made => Ok(made),
    }
}

impl Length {
    /// None: no file is that long.
    fn of(self, now: u64) -> Option<u64> {
        match self {
            Length::Exactly(size) => Some(size),
            Length::More(size) => now.checked_add(size),
            Length::Less(size) => Some(now.saturating_sub(size)),
            Length::AtMost(size) => Some(now.min(size)),
            Length::AtLeast(size) => Some(now.max(size)),
            Length::RoundedDown(size) => Some(now - now % size),
            Length::RoundedUp(size) => now.checked_next_multiple_of(size),
        }
    }
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    for_each_image(&args.paths, Access::Write, global, |root, items| {
        root.sys().umask(0o022);
        let mut all_well = true;
        for item in items {
            interrupt::check()?;
            all_well &= match truncate(root, item.path(), &args) {
                Err(Errno(libc::ENOENT)) if args.no_create => true,
                Err(e) => item.complain(e),
                Ok(()) => true,
            };
        }
        Ok(all_well)
    })
}

fn truncate(root: &Root, path: &[u8], args: &Args) -> std::result::Result<(), Errno> {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK;
    let fd = match root.open(path, flags) {
        Err(Errno(libc::ENOENT)) if !args.no_create => {
            let (dir, name) = root.parent(path)?;
            let flags = flags | libc::O_CREAT | libc::O_NOFOLLOW;
            root.sys().openat(&dir, &name, flags, 0o666)?
        }
        // Without a reader, a fifo says this.
        Err(Errno(libc::ENXIO)) => return Err(Errno(libc::EINVAL)),
        other => other?,
    };
    let stat = root.sys().fstat(&fd)?;
    if stat.kind() != Kind::File {
        return Err(Errno(libc::EINVAL));
    }
    if stat.size == 0 {
        // Where it cannot, it is filled.
        let _ = allow_holes(&fd);
    }
    let size = args
        .size
        .of(stat.size)
        .filter(|&s| i64::try_from(s).is_ok());
    root.sys().ftruncate(&fd, size.ok_or(Errno(libc::EFBIG))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_truncate() {
        let of = |text: &str, now| length(text).expect(text).of(now);
        assert_eq!(of("10", 5), Some(10));
        assert_eq!(of("+10", 5), Some(15));
        assert_eq!(of("-10", 5), Some(0));
        assert_eq!(of("<10", 5), Some(5));
        assert_eq!(of("<10", 15), Some(10));
        assert_eq!(of(">10", 5), Some(10));
        assert_eq!(of("/4", 7), Some(4));
        assert_eq!(of("%4", 5), Some(8));
        assert_eq!(of("%1K", 1), Some(1024));
        assert_eq!(of("+1", u64::MAX), None);
        for bad in ["", "+", "%0", "/0", "x", "++1"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }
}
