//! The layers of a container image: of an OCI image layout, or of what `docker save`
//! writes, in a directory or in an archive. Everything is checked by its digest before
//! it is used.
//!
//! ```text
//! store.rs   the files, wherever they are
//! layout.rs  an OCI image layout ("OCI Image Layout Specification")
//! saved.rs   what `docker save` writes ("Docker Image Specification v1.2")
//! choose.rs  one image among several
//! ```

mod choose;
mod layout;
mod saved;
mod store;

use super::piece::Piece;
use crate::means::Means;
pub use choose::Choice;
pub use saved::is_list;
use sha2::{Digest as _, Sha256};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
pub use store::Store;
use tane::images::{decompressed, most_unpacked};

/// One of those that a layout or an archive holds.
#[derive(Debug)]
struct Image {
    names: Vec<String>,
    /// OS/ARCHITECTURE[/VARIANT], if it says so.
    platform: Option<String>,
    /// What it is known by, whatever it is called.
    digest: String,
    layers: Vec<Layer>,
    /// What is not there of it: a layout may list more than it has.
    lacks: Option<String>,
}

/// A file of the store, and what it is to be.
#[derive(Debug)]
struct Layer {
    name: String,
    check: Check,
}

/// By SHA-256, in hexadecimal digits.
#[derive(Debug)]
enum Check {
    /// Of the file as it is, and its length if that is known.
    Stored(String, Option<u64>),
    /// Of what it is when it is unpacked.
    Unpacked(String),
}

/// What was chosen, and its layers with their names, lowest first.
pub struct Layers {
    pub choice: Choice,
    pub list: Vec<(String, Piece)>,
}

/// Whether the directory could be one of container images, by names alone.
pub fn may_be(dir: &Path) -> bool {
    [layout::MARK, saved::MANIFEST]
        .iter()
        .any(|name| dir.join(name).exists())
}

/// Whether it is an OCI image layout, by names alone.
pub fn is_layout(dir: &Path) -> bool {
    let names = [layout::MARK, layout::INDEX];
    names.iter().all(|name| dir.join(name).is_file())
}

/// The list of images in a directory that could be what `docker save` writes: by its name.
pub fn list_of_saved(dir: &Path) -> PathBuf {
    dir.join(saved::MANIFEST)
}

/// `wanted` chooses among several images.
pub fn layers(store: &Store, wanted: Option<&str>, means: &dyn Means) -> Result<Layers, String> {
    let images = match store {
        _ if store.has(layout::MARK) => layout::images(store, means)?,
        _ => saved::images(store, means)?,
    };
    let (image, choice) = choose::choose(images, wanted)?;
    let mut list = Vec::new();
    for layer in image.layers {
        let piece = layer.check.piece(store, &layer.name, means)?;
        list.push((layer.name, piece));
    }
    Ok(Layers { choice, list })
}

impl Check {
    /// The file of that name, if it is what it is to be.
    fn piece(&self, store: &Store, name: &str, means: &dyn Means) -> Result<Piece, String> {
        let piece = store.piece(name)?;
        let fail = |e: io::Error| format!("{name}: {e}");
        let most = most_unpacked(piece.len);
        let (wanted, found) = match self {
            Check::Stored(_, Some(size)) if *size != piece.len => {
                return Err(format!(
                    "{name}: has {} bytes, and is listed with {size}",
                    piece.len
                ));
            }
            Check::Stored(digest, _) => (
                digest,
                hash(&mut piece.reader(), most, means).map_err(fail)?,
            ),
            Check::Unpacked(digest) => {
                let input = BufReader::with_capacity(1 << 18, piece.reader());
                let mut input = decompressed(input).map_err(fail)?;
                (digest, hash(&mut input, most, means).map_err(fail)?)
            }
        };
        match found.eq_ignore_ascii_case(wanted) {
            true => Ok(piece),
            false => Err(format!("{name}: its content has another digest")),
        }
    }
}

/// An error if there are more than `most` bytes: what unpacks to any length is not waited for.
fn hash(from: &mut dyn Read, most: u64, means: &dyn Means) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut len = 0;
    let mut buffer = vec![0; 1 << 18];
    loop {
        if means.interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = from.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        len += n as u64;
        if len > most {
            let text = format!(
                "cannot be unpacked: it holds more than {most} bytes, too much for its size; \
                 unpack it yourself first if you trust it"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        sum.update(&buffer[..n]);
    }
    Ok(sum.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// The digits of a digest as it is written.
fn hex(digest: &str) -> Option<&str> {
    let is_hex = |hex: &&str| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    digest.strip_prefix("sha256:").filter(is_hex)
}
