//! Which container an image is, by its content.

use crate::backend::Backend;
use crate::buffers::buffer_mut;
use crate::format::Format;
use crate::{android, dmg, ewf, foreign, vdi, vhd};
use std::io;

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
