//! What a jail must leave open so that an image can be opened in it.

use crate::address::is_remote;
use std::fs::File;
use std::path::{Path, PathBuf};
use tane_images::{detect, redo_path, Access, Format, Raw};
use tane_jail::Jail;

/// How an image is about to be opened, as far as it says which files that takes.
#[derive(Clone, Debug, Default)]
pub struct ImageFiles {
    /// It is written itself, rather than an overlay.
    pub write: bool,
    /// See [`DiskOptions::format`](crate::DiskOptions::format).
    pub format: Option<Format>,
    /// See [`DiskOptions::overlay`](crate::DiskOptions::overlay).
    pub overlay: Option<PathBuf>,
    /// See [`DiskOptions::trust`](crate::DiskOptions::trust).
    pub trust: Vec<PathBuf>,
}

impl ImageFiles {
    /// Let a jail open the image at `path`, with all files that it may consist of:
    /// as its format is told by its first bytes, a raw disk is one file, and what
    /// can name others has its directory and the trusted places.
    ///
    /// What does not exist is left out: opening it says so.
    pub fn allow(&self, jail: &mut Jail, path: &Path) {
        self.allow_overlay(jail);
        if is_remote(path) {
            // It may be a stream.
            return allow_unpacking(jail);
        }
        let Ok(real) = path.canonicalize() else {
            return;
        };
        let allow = |jail: &mut Jail, path: &Path| match self.write && self.overlay.is_none() {
            true => drop(jail.write(path)),
            false => drop(jail.read(path)),
        };
        allow(jail, &real);
        self.allow_redo(jail, &real);
        let format = self.format.unwrap_or_else(|| sniff(&real));
        if format.is_stream() {
            allow_unpacking(jail);
        }
        if format.is_stream() || matches!(format, Format::Qcow2 | Format::Vmdk) {
            // Beside the image, and beside a symlink to it.
            let here = directory_of(path.parent().unwrap_or(Path::new("")));
            for dir in real.parent().into_iter().chain([here.as_path()]) {
                allow(jail, dir);
            }
            for path in self.trust.iter().filter(|p| p.exists()) {
                allow(jail, path);
            }
        }
    }

    /// Let a jail see, or finish, a change of the file that was interrupted.
    fn allow_redo(&self, jail: &mut Jail, file: &Path) {
        if let Some(redo) = redo_path(file).filter(|redo| redo.exists()) {
            match self.write {
                true => jail.write(redo),
                false => jail.read(redo),
            };
        }
    }

    /// Let a jail open the overlay, or make it.
    pub fn allow_overlay(&self, jail: &mut Jail) {
        match &self.overlay {
            Some(file) if file.exists() => {
                jail.write(file);
                self.allow_redo(jail, file);
            }
            Some(file) if self.write => drop(jail.create_beneath(directory_of(file))),
            _ => {}
        }
    }
}

/// Let a jail make the temporary file that a compressed stream is unpacked into.
pub fn allow_unpacking(jail: &mut Jail) {
    let place = std::env::var_os("TMPDIR").unwrap_or("/var/tmp".into());
    if Path::new(&place).is_dir() {
        jail.create_beneath(place);
    }
}

/// What the host's resolver and its certificates are read from, as far as it is there:
/// for a jail that reads images on servers.
pub fn network_files() -> impl Iterator<Item = PathBuf> {
    let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter();
    let own = certificates.filter_map(std::env::var_os).map(PathBuf::from);
    let all = NETWORK.iter().map(PathBuf::from).chain(own);
    all.filter(|path| path.exists())
}

const NETWORK: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];

fn sniff(image: &Path) -> Format {
    let access = Access {
        write: false,
        direct: false,
    };
    let raw = File::open(image).and_then(|file| Raw::from_file(file, access));
    raw.and_then(|raw| detect(&raw)).unwrap_or(Format::Raw)
}

/// A directory itself; of anything else, the directory that it is or would be in,
/// symlinks followed.
pub fn directory_of(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        if path.is_dir() {
            return path;
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        match path.read_link() {
            Ok(target) => path = parent.join(target),
            Err(_) => return parent,
        }
    }
    path
}
