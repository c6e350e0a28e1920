//! Which container an image is, by its content.

use crate::backend::Backend;
use crate::buffers::buffer_mut;
use crate::{android, dmg, ewf, foreign, vdi, vhd};
use std::fmt;
use std::io;
use std::str::FromStr;

/// How an image's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The disk's bytes, one after the other.
    Raw,
    /// QEMU, versions 2 and 3.
    Qcow2,
    /// VMware and OVA: sparse, stream-optimised, flat, in one file or several.
    Vmdk,
    /// Virtual PC, Azure: fixed and dynamic.
    Vhd,
    /// Hyper-V, WSL.
    Vhdx,
    /// VirtualBox.
    Vdi,
    /// QEMU, version 1.
    Qcow,
    /// QEMU, once.
    Qed,
    /// Apple: UDIF.
    Dmg,
    /// EnCase, FTK Imager: E01 and S01, in one segment or several.
    Ewf,
    /// Android: for fastboot.
    AndroidSparse,
    /// Pieces that are files, by their names.
    Split,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
}

const NAMES: &[(Format, &str)] = &[
    (Format::Raw, "raw"),
    (Format::Qcow2, "qcow2"),
    (Format::Vmdk, "vmdk"),
    (Format::Vhd, "vhd"),
    (Format::Vhdx, "vhdx"),
    (Format::Vdi, "vdi"),
    (Format::Qcow, "qcow"),
    (Format::Qed, "qed"),
    (Format::Dmg, "dmg"),
    (Format::Ewf, "ewf"),
    (Format::AndroidSparse, "android-sparse"),
    (Format::Split, "split"),
    (Format::Gzip, "gzip"),
    (Format::Xz, "xz"),
    (Format::Zstd, "zstd"),
    (Format::Bzip2, "bzip2"),
];

impl Format {
    /// All of them, by name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }

    /// The name that [`FromStr`] takes.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(format, _)| *format == self)
            .map_or("raw", |(_, name)| name)
    }

    /// Whether it is a compressed stream, which can only be read.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Gzip | Self::Xz | Self::Zstd | Self::Bzip2)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Also takes the names qcow2 and VMDK headers use: "file", "vpc".
    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(_, name)| *name == text);
        match (known, text) {
            (Some((format, _)), _) => Ok(*format),
            (None, "file" | "host_device") => Ok(Self::Raw),
            (None, "vpc") => Ok(Self::Vhd),
            _ => Err(format!(
                "{text}: no such image format; known are {}",
                Self::names().collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Look at the marks at both ends. What has none is raw. Errors: those of
/// reading, and `Unsupported` for what we know and cannot read.
pub fn detect(image: &dyn Backend) -> io::Result<Format> {
    let size = image.size();
    let read = |at: u64| -> io::Result<[u8; 512]> {
        let mut bytes = [0; 512];
        let len = size.saturating_sub(at).min(512) as usize;
        image.read(&[buffer_mut(&mut bytes[..len])], at)?;
        Ok(bytes)
    };
    let head = read(0)?;
    let tail = read(size.saturating_sub(512))?;
    let starts = |mark: &[u8]| head.starts_with(mark);
    Ok(match () {
        () if starts(b"QFI\xfb\0\0\0\x01") => Format::Qcow,
        () if starts(b"QFI\xfb") => Format::Qcow2,
        () if starts(b"KDMV") || starts(b"# Disk DescriptorFile") => Format::Vmdk,
        () if starts(b"vhdxfile") => Format::Vhdx,
        () if starts(b"conectix") => Format::Vhd,
        () if head[vdi::MARK.0..].starts_with(vdi::MARK.1) => Format::Vdi,
        () if starts(b"QED\0") => Format::Qed,
        () if starts(ewf::MARK) => Format::Ewf,
        () if starts(android::MARK) => Format::AndroidSparse,
        // Its first chunk may look like a stream.
        () if size > 512 && dmg::is_trailer(&tail) => Format::Dmg,
        () if starts(b"\x1f\x8b\x08") && head[3] < 0x20 => Format::Gzip,
        () if starts(b"\xfd7zXZ\0") => Format::Xz,
        () if starts(ZSTD) => Format::Zstd,
        // pzstd writes a frame to skip before each of its own.
        () if head[0] & 0xf0 == 0x50 && head[1..4] == *b"\x2a\x4d\x18" => {
            let next = 8 + u64::from(crate::pages::le32(&head, 4));
            match next < size && read(next)?.starts_with(ZSTD) {
                true => Format::Zstd,
                false => Format::Raw,
            }
        }
        () if starts(b"BZh") && head[4..10] == *b"1AY&SY" => Format::Bzip2,
        // A fixed VHD is a raw image with a footer behind it. A volume that was cut out
        // of its end has that too, and is less than the footer tells.
        () if size > 512 && vhd::is_footer_of(&tail, size - 512) => Format::Vhd,
        () => match foreign::name(&head, &tail) {
            Some(text) => return Err(io::Error::new(io::ErrorKind::Unsupported, text)),
            None => Format::Raw,
        },
    })
}
