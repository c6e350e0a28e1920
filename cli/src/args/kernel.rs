//! `--kernel`: a file, or the name of an image that is installed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file that is meant. What has a slash is one; what has none is an installed image, if
/// one is called so, whatever the current directory has. What is neither stays as it is, for
/// whoever opens it to say so.
pub fn named_kernel(given: OsString) -> PathBuf {
    meant(PathBuf::from(given), installed_kernels)
}

fn meant(given: PathBuf, images: impl FnOnce() -> Vec<(String, PathBuf)>) -> PathBuf {
    let name = given.as_os_str();
    if name == "host" || name.as_bytes().contains(&b'/') {
        return given;
    }
    let mut named = images()
        .into_iter()
        .filter(|(known, _)| name == known.as_str());
    named.next().map_or(given, |(_, image)| image)
}

/// The images beside the one that is booted if none is named, and their names.
pub fn installed_kernels() -> Vec<(String, PathBuf)> {
    let default = tane::default_image().ok();
    let directory = default.as_deref().and_then(Path::parent);
    let images = directory.map(kernels_in).transpose();
    images.ok().flatten().unwrap_or_default()
}

/// `tane-NAME.elf` in a directory, sorted.
pub fn kernels_in(directory: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if let Some(name) = name_of(&path) {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let name = name.strip_prefix("tane-")?.strip_suffix(".elf")?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_name_between_tane_and_elf() {
        assert_eq!(name_of(Path::new("/x/tane-lab.elf")), Some("lab".into()));
        assert_eq!(name_of(Path::new("tane-lab.debug")), None);
        assert_eq!(name_of(Path::new("lab.elf")), None);
    }

    #[test]
    fn a_name_is_an_installed_image_and_what_has_a_slash_a_file() {
        let images = || vec![("lab".to_owned(), PathBuf::from("/x/tane-lab.elf"))];
        let meant = |given: &str| meant(PathBuf::from(given), images);
        assert_eq!(meant("lab"), Path::new("/x/tane-lab.elf"));
        for given in [
            "host",
            "./lab",
            "lab/",
            "/x/tane-lab.elf",
            "lab.elf",
            "nobody",
        ] {
            assert_eq!(meant(given), Path::new(given));
        }
    }
}
