//! The containers that an image may be, and their names.

use std::fmt;
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
