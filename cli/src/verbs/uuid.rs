//! tane uuid: the UUID of a file system.

use super::label::{kind_of, tell};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::session::Global;
use crate::session::{declare, image_path, write_back_as_a_whole, Access, Needs, Target};
use crate::tools::identity;
use std::ffi::OsString;
use uuid::Uuid;

/// Show or change the UUID of a file system
#[derive(clap::Args)]
#[command(after_help = "\
The programs of ext2, ext3, ext4 (tune2fs, after e2fsck), xfs (xfs_db), btrfs (btrfstune),
vfat (fatlabel) and exfat (tune.exfat) change it. Of vfat and exfat it is a serial number
like 1234-ABCD.

Examples:
  tane uuid disk.img
  tane uuid copy.img random
  tane uuid disk.img@1 1234-ABCD")]
pub struct Args {
    /// The image; with @SELECTOR one of several file systems in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// The new one, or random; without, it is shown
    #[arg(value_name = "UUID")]
    pub uuid: Option<String>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let at = image_path(&args.image, global)?;
    let Some(wanted) = &args.uuid else {
        declare(Needs::images([(&at, Access::Read)]));
        let target = Target::open(&at, Access::Read, false, global)?;
        tell(&args.image, &target, target.uuid.as_deref(), global)?;
        return Ok(0);
    };
    let chance = chance()?;
    declare(Needs::images([(&at, Access::Write)]).programs());
    write_back_as_a_whole(&at, global);
    let target = Target::open(&at, Access::Write, false, global)?;
    let kind = kind_of(&target, &at)?;
    let uuid = match wanted.as_str() {
        "random" => new(&kind, chance),
        given => parsed(&kind, given)?,
    };
    target.work(&kind, Access::Write, false, |path| {
        identity::set_uuid(&kind, path, &uuid)
    })?;
    Ok(0)
}

/// Before a jail is entered.
fn chance() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: writes so many bytes of ours.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match got {
        16 => Ok(bytes),
        _ => Err(Failure::image("the host has no random numbers")),
    }
}

fn new(kind: &str, chance: [u8; 16]) -> String {
    match identity::is_short(kind) {
        true => {
            let [a, b, c, d, ..] = chance;
            format!("{a:02X}{b:02X}-{c:02X}{d:02X}")
        }
        false => uuid::Builder::from_random_bytes(chance)
            .into_uuid()
            .to_string(),
    }
}

fn parsed(kind: &str, text: &str) -> Result<String> {
    let bad = |like: &str| Failure::usage(format!("uuid: {text}: is not like {like}, nor random"));
    if identity::is_short(kind) {
        let is_hex = |half: &str| half.len() == 4 && half.bytes().all(|b| b.is_ascii_hexdigit());
        let halves = text.split_once('-');
        return match halves.is_some_and(|(a, b)| is_hex(a) && is_hex(b)) {
            true => Ok(text.to_ascii_uppercase()),
            false => Err(bad("1234-ABCD")),
        };
    }
    match Uuid::try_parse(text) {
        Ok(uuid) if !uuid.is_nil() => Ok(uuid.to_string()),
        _ => Err(bad("01234567-89ab-4cde-8f01-23456789abcd")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_such_as_their_file_system_has() {
        assert_eq!(parsed("vfat", "12ab-34cd").unwrap(), "12AB-34CD");
        assert_eq!(new("exfat", [0xab; 16]), "ABAB-ABAB");
        let full = "01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(parsed("ext4", full).unwrap(), full);
        for (kind, text) in [("vfat", full), ("vfat", "12ab34cd"), ("xfs", "1234-ABCD")] {
            assert!(parsed(kind, text).is_err(), "{kind} {text}");
        }
        assert!(parsed("btrfs", &new("btrfs", [7; 16])).is_ok());
    }
}
