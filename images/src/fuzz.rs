//! For the fuzz targets: a container of any bytes, opened, read and written.

use crate::{buffer, buffer_mut, Backend, Format, ImageOptions, Ram};
use std::sync::Arc;

/// The first byte chooses the format, its highest bit whether it is written too, and
/// the rest is the file. Errors are expected; panics, hangs and memory without bounds
/// are not.
pub fn fuzz_container(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let formats = [
        Format::Qcow2,
        Format::Vmdk,
        Format::Vhd,
        Format::Vhdx,
        Format::Xz,
        Format::Zstd,
        Format::Gzip,
        Format::Vdi,
        Format::Qcow,
        Format::Qed,
        Format::Dmg,
        Format::Ewf,
        Format::AndroidSparse,
    ];
    let format = formats[usize::from(*choice & 0x7f) % formats.len()];
    let write = *choice >= 128;
    let Ok(file) = Ram::new(bytes.len() as u64) else {
        return;
    };
    if file.write(&[buffer(bytes)], 0).is_err() {
        return;
    }
    let mut options = ImageOptions::new();
    options.write(write).format(format).secret("a passphrase");
    let Ok(disk) = options.open_backend(Arc::new(file)) else {
        return;
    };
    let size = disk.size();
    let mut sector = [0; 4096];
    for at in [0, size / 3 / 512 * 512, size.saturating_sub(4096)] {
        let n = size.saturating_sub(at).min(4096) as usize;
        let _ = disk.read(&[buffer_mut(&mut sector[..n])], at);
        let _ = disk.try_read(&[buffer_mut(&mut sector[..n])], at);
        if write {
            let _ = disk.write(&[buffer(&sector[..n])], at);
        }
    }
    let _ = disk.flush();
}
