//! What is known and not read: it is named for what it is, and never taken for the
//! bytes of a disk.

/// What starts with these bytes at this place, and what makes a disk of it.
struct Foreign {
    at: usize,
    mark: &'static [u8],
    what: &'static str,
    remedy: &'static str,
}

const fn at(at: usize, mark: &'static [u8], what: &'static str, remedy: &'static str) -> Foreign {
    Foreign {
        at,
        mark,
        what,
        remedy,
    }
}

const QEMU: &str = "convert it with qemu-img convert";
const HDIUTIL: &str = "convert it on a Mac (hdiutil convert)";
const UNPACK: &str = "unpack it first";
const EWF: &str = "write it as E01 with the program that made it";
const FILES: &str = "it holds files and no disk: unpack it first";

const KNOWN: &[Foreign] = &[
    at(0, b"COWD", "a VMFS sparse extent", QEMU),
    at(
        0,
        b"\xbe\xba\xfe\xca\0\0\0\0",
        "a seSparse extent of VMware",
        QEMU,
    ),
    at(0, b"WithoutFreeSpace", "a disk of Parallels", QEMU),
    at(0, b"WithouFreSpacExt", "a disk of Parallels", QEMU),
    at(0, b"Bochs Virtual HD Image", "a disk of Bochs", QEMU),
    at(0, b"#!/bin/sh\n#V2.0 Format\n", "a cloop image", QEMU),
    at(0, b"encrcdsa", "an encrypted disk image of Apple", HDIUTIL),
    at(0, b"sprs", "a sparse disk image of Apple", HDIUTIL),
    at(0, b"shdw", "a sparse disk image of Apple (ASIF)", HDIUTIL),
    at(0, b"LVF\x09\x0d\x0a\xff\0", "logical evidence (L01)", FILES),
    at(0, b"EVF2\x0d\x0a\x81\0", "evidence of EnCase 7 (Ex01)", EWF),
    at(0, b"LEF2\x0d\x0a\x81\0", "logical evidence (Lx01)", FILES),
    at(
        0,
        b"AFF10\x0d\x0a\0",
        "an AFF",
        "convert it with affconvert",
    ),
    at(0, b"MSWIM\0\0\0", "a WIM", FILES),
    at(
        0,
        b"partclone-image",
        "an image of partclone",
        "restore it into a file (partclone.restore)",
    ),
    at(
        0,
        b"VMA\0\0\0\0\x01",
        "a backup of Proxmox (VMA)",
        "unpack it first (vma extract)",
    ),
    at(
        0,
        b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0",
        "a CD in sectors of 2352 bytes",
        "make an ISO of it (bchunk)",
    ),
    at(0, b"PK\x03\x04", "a zip archive", UNPACK),
    at(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    at(0, b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    at(0, b"\x04\x22\x4d\x18", "compressed by lz4", UNPACK),
    at(0, b"LZIP\x01", "compressed by lzip", UNPACK),
    at(
        0,
        b"\x89LZO\0\x0d\x0a\x1a\x0a",
        "compressed by lzop",
        UNPACK,
    ),
    at(
        257,
        b"ustar",
        "a tar archive",
        "unpack it first (an OVA is one too)",
    ),
    at(0, b"070701", "a cpio archive", UNPACK),
];

/// What a file with these first and last bytes is, and what to do with it.
pub(crate) fn name(head: &[u8], tail: &[u8]) -> Option<String> {
    let is_it = |f: &&Foreign| head.get(f.at..).is_some_and(|b| b.starts_with(f.mark));
    let (what, remedy) = match KNOWN.iter().find(is_it) {
        Some(found) => (found.what, found.remedy),
        // Its header is a trailer.
        None if tail.ends_with(b"cdsaencr") => ("an encrypted disk image of Apple", HDIUTIL),
        None => return None,
    };
    Some(format!("is {what}, which cannot be read; {remedy}"))
}
