//! What a jail must leave open so that an image can be opened in it.

use crate::address::is_remote;
use std::path::{Path, PathBuf};
use tane_images::{look_who_has, redo_path, set_temporary_files_aside, Format, ImageOptions};
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
    /// those that it names are looked up, and read unless they hold a part of it that is
    /// to be written. Of the others in its directory none is let in.
    ///
    /// What does not exist is left out: opening it says so.
    pub fn allow(&self, jail: &mut Jail, path: &Path) {
        self.allow_overlay(jail, path);
        if is_remote(path) {
            // It may be a stream.
            return set_temporary_files_aside();
        }
        let Ok(real) = path.canonicalize() else {
            return;
        };
        let write = self.write && self.overlay.is_none();
        let mut options = ImageOptions::new();
        options.write(write);
        if let Some(format) = self.format {
            options.format(format);
        }
        for place in &self.trust {
            options.trust(place);
        }
        self.allow_redo(jail, &real);
        let found = options.files(path);
        if found.iter().any(|layer| layer.format.is_stream()) {
            set_temporary_files_aside();
            // What it holds may name these, and is known too late.
            for path in self.trust.iter().filter(|path| path.exists()) {
                jail.read(path);
            }
        }
        let real_of = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let named = found.into_iter();
        let named = named.map(|layer| (real_of(layer.path), layer.write));
        // The image itself also if nobody can make anything of it, and each once: a file with
        // a container in it is there for each.
        let mut all: Vec<(PathBuf, bool)> = vec![(real, write)];
        for (path, write) in named {
            match all.iter_mut().find(|(known, _)| *known == path) {
                Some((_, known)) => *known |= write,
                None => all.push((path, write)),
            }
        }
        for (path, write) in all {
            match write {
                true => jail.write(&path),
                false => jail.read(&path),
            };
            look_who_has(&path, write);
        }
    }

    /// Let a jail see, or finish, a change of the file that was interrupted.
    fn allow_redo(&self, jail: &mut Jail, file: &Path) {
        let is_filled = |redo: &PathBuf| redo.metadata().is_ok_and(|found| found.len() > 0);
        if let Some(redo) = redo_path(file).filter(is_filled) {
            match self.write {
                true => jail.write(redo),
                false => jail.read(redo),
            };
        }
    }

    /// Let a jail open the overlay of an image. It is made here if it is new, so that
    /// nobody need be let into its directory; empty, it is filled by whoever opens it next,
    /// should that fail now.
    fn allow_overlay(&self, jail: &mut Jail, image: &Path) {
        let has_image = is_remote(image) || image.exists();
        let new = self.overlay.as_ref().filter(|file| !file.exists());
        if let Some(file) = new.filter(|_| self.write && has_image) {
            // An error is that of whoever opens it.
            let _ = std::fs::File::create_new(file);
        }
        match &self.overlay {
            Some(file) if file.exists() => {
                jail.write(file);
                look_who_has(file, self.write);
                self.allow_redo(jail, file);
            }
            _ => {}
        }
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
