//! Which of the files that an image names are its own, to be written with it. Others in
//! its directory may be anybody's: what an image says must not choose what is changed.

use crate::split::pieces_behind;
use std::ffi::OsStr;
use std::path::Path;

/// Whether a file has the name of a part of the image that has this name:
/// `disk-flat.vmdk`, `disk-s001.vmdk`, `disk-000001-delta.vmdk` of `disk.vmdk`, `disk.raw`,
/// `disk-data.raw` and `disk.data` of `disk.qcow2`, and
/// `disk.002` of `disk.001`.
pub(crate) fn is_part(image: &Path, file: &Path) -> bool {
    let (Some(stem), Some(name)) = (text(image.file_stem()), text(file.file_name())) else {
        return false;
    };
    let Some(rest) = name.strip_prefix(stem) else {
        return false;
    };
    if text(image.file_name()).is_some_and(|image| pieces_behind(image).any(|piece| piece == name))
    {
        return true;
    }
    let kind = text(file.extension()).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "vmdk" => rest.starts_with('-'),
        "raw" | "data" => rest.starts_with(['-', '.']),
        _ => image.extension() == file.extension() && is_numbered(rest),
    }
}

/// As qemu-img calls them, whatever the image is called: `-flat`, `-s001`, `-f001`.
fn is_numbered(rest: &str) -> bool {
    let end = rest.split('.').next().unwrap_or_default();
    let number = end.strip_prefix("-s").or_else(|| end.strip_prefix("-f"));
    let is_number = |text: &str| text.len() > 2 && text.bytes().all(|b| b.is_ascii_digit());
    end == "-flat" || number.is_some_and(is_number)
}

/// A name that listings leave out: settings and keys of people and programs.
pub(crate) fn is_hidden(file: &Path) -> bool {
    text(file.file_name()).is_none_or(|name| name.starts_with('.'))
}

fn text(name: Option<&OsStr>) -> Option<&str> {
    name.and_then(OsStr::to_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_image_have_its_name() {
        let is = |image: &str, file: &str| is_part(Path::new(image), Path::new(file));
        for part in ["disk-flat.vmdk", "disk-s001.vmdk", "disk-000001-delta.VMDK"] {
            assert!(is("d/disk.vmdk", part), "{part}");
        }
        for part in ["disk.raw", "disk-data.raw", "disk.qcow2.data"] {
            assert!(is("disk.qcow2", part), "{part}");
        }
        for part in ["image-flat", "image-s001", "image-f012"] {
            assert!(is("image", part), "{part}");
        }
        assert!(is("d/disk.001", "disk.013") && is("disk.aa", "disk.ab"));
        assert!(!is("disk.001", "disk.key") && !is("disk.002", "disk.003"));
        assert!(!is("image", "image-key") && !is("image", "image-flat.sh"));
        let others = [
            ".bashrc",
            "disk",
            "disk.img",
            "disk.vmdk",
            "disk.old.vmdk",
            "disks-flat.vmdk",
            "other.raw",
            "disk-key",
            "disk-1.vmdk.sh",
        ];
        for other in others {
            assert!(!is("disk.vmdk", other), "{other}");
        }
        assert!(is_hidden(Path::new("a/.bashrc")) && !is_hidden(Path::new("a.b")));
    }
}
