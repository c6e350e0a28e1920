//! What a new image or archive is in: what its name's ending or an option says is made,
//! or refused.

use super::file::{next_data, Unfinished};
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tane::images::{buffer, create, Format};

/// A cluster of a qcow2, in bytes.
const GRAIN: u64 = 64 << 10;

/// Endings of what nobody here makes.
const OTHERS: &[&str] = &[
    "qcow",
    "qed",
    "vmdk",
    "vhd",
    "vpc",
    "vhdx",
    "vdi",
    "dmg",
    "e01",
    "ova",
    "ovf",
    "simg",
    "wim",
    "parallels",
    "hdd",
];
const PACKED: &[(&str, Format)] = &[
    ("gz", Format::Gzip),
    ("tgz", Format::Gzip),
    ("xz", Format::Xz),
    ("txz", Format::Xz),
    ("zst", Format::Zstd),
    ("tzst", Format::Zstd),
    ("bz2", Format::Bzip2),
    ("tbz2", Format::Bzip2),
    ("tbz", Format::Bzip2),
];
/// Endings of other archives and ways to compress.
const OTHER_ARCHIVES: &[&str] = &[
    "lz", "lz4", "lzma", "tlz", "lzo", "z", "taz", "br", "sz", "zip", "7z", "rar", "cpio", "ar",
    "deb", "rpm", "jar", "cab", "iso",
];

fn ending(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    ending.to_string_lossy().to_ascii_lowercase()
}

fn packed(ending: &str) -> Option<Format> {
    let found = PACKED.iter().find(|(known, _)| *known == ending);
    found.map(|(_, format)| *format)
}

/// What a new image of that name is to be: raw or qcow2.
pub fn of_image(path: &Path, format: Option<Format>) -> Result<Format> {
    let refuse = |what: &str| {
        Err(Error::Usage(format!(
            "{}: {what} cannot be made; raw and qcow2 can: --format says which, whatever the name",
            path.display()
        )))
    };
    let ending = ending(path);
    match format {
        Some(format @ (Format::Raw | Format::Qcow2)) => Ok(format),
        Some(other) => refuse(other.name()),
        None if ending == "qcow2" => Ok(Format::Qcow2),
        None if OTHERS.contains(&&*ending) => refuse(&ending),
        None if packed(&ending).is_some() => refuse("a compressed image"),
        None if OTHER_ARCHIVES.contains(&&*ending) && ending != "iso" => refuse(&ending),
        None => Ok(Format::Raw),
    }
}

/// How an archive of that name is compressed.
pub fn of_archive(path: &Path) -> Result<Option<Format>> {
    let ending = ending(path);
    if OTHERS.contains(&&*ending) || OTHER_ARCHIVES.contains(&&*ending) || ending == "qcow2" {
        return Err(Error::Usage(format!(
            "{}: {ending} cannot be made: .tar, .tar.gz, .tar.xz, .tar.zst and .tar.bz2 can, and \
             --compression says which, whatever the name",
            path.display()
        )));
    }
    Ok(packed(&ending))
}

/// A container that is empty yet, and the file that it is in.
pub struct Container {
    unfinished: Unfinished,
    file: File,
}

impl Container {
    /// For an image of that name; None: it is raw. Before a jail is entered.
    pub fn of(image: &Path, format: Option<Format>) -> Result<Option<Container>> {
        if of_image(image, format)? == Format::Raw {
            return Ok(None);
        }
        let unfinished = Unfinished::create(image, "qcow2")?;
        let file = unfinished.open()?;
        Ok(Some(Container { unfinished, file }))
    }

    /// Where it is meanwhile.
    pub fn path(&self) -> &Path {
        &self.unfinished.path
    }

    /// All that a raw image has, durable.
    pub fn fill(self, raw: &Unfinished) -> Result<Unfinished> {
        let filled = raw.open().and_then(|from| {
            let size = raw.size()?;
            let done = pack(&from, size, &self.file);
            done.map_err(|e| self.unfinished.fail(&e))
        });
        filled.map(|()| self.unfinished)
    }
}

fn pack(from: &File, size: u64, to: &File) -> io::Result<()> {
    let disk = create(to.try_clone()?, Format::Qcow2, size.next_multiple_of(512))?;
    let mut bytes = vec![0; GRAIN as usize];
    let mut at = 0;
    while let Some(data) = next_data(from, at)?.filter(|data| *data < size) {
        at = data / GRAIN * GRAIN;
        let grain = &mut bytes[..(size - at).min(GRAIN) as usize];
        from.read_exact_at(grain, at)?;
        if grain.iter().any(|b| *b != 0) {
            disk.write(&[buffer(grain)], at)?;
        }
        at += GRAIN;
    }
    disk.flush()?;
    drop(disk);
    to.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_made_and_options_say_otherwise() {
        let image = |name: &str, format| of_image(Path::new(name), format).ok();
        assert_eq!(image("a.img", None), Some(Format::Raw));
        assert_eq!(image("a", None), Some(Format::Raw));
        assert_eq!(image("a.QCOW2", None), Some(Format::Qcow2));
        assert_eq!(image("a.qcow2", Some(Format::Raw)), Some(Format::Raw));
        assert_eq!(image("a.img", Some(Format::Qcow2)), Some(Format::Qcow2));
        for name in ["a.vmdk", "a.vdi", "a.vhdx", "a.img.gz", "a.zip"] {
            assert_eq!(image(name, None), None, "{name}");
        }
        assert_eq!(image("a.img", Some(Format::Vmdk)), None);
        let archive = |name: &str| of_archive(Path::new(name)).ok();
        assert_eq!(archive("a.tar"), Some(None));
        assert_eq!(archive("a.tgz"), Some(Some(Format::Gzip)));
        assert_eq!(archive("a.tar.zst"), Some(Some(Format::Zstd)));
        for name in ["a.tar.lz4", "a.zip", "a.tar.Z"] {
            assert_eq!(archive(name), None, "{name}");
        }
    }
}
