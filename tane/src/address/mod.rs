//! `IMAGE:/path`, `IMAGE@SELECTOR:/path` or a path on the host.
//!
//! An argument means an image if it contains `:/` and the text before it names
//! an existing file that is not a directory, with or without `@SELECTOR`. What
//! exists under its full name is always that file, so `a:b`, `./a:b` and even
//! `dir:/file` below a directory called `dir:` are what they look like.
//!
//! `https://HOST/IMAGE:/path` and `nbd://HOST/EXPORT:/path` are in images on servers, and
//! `9p://HOST/TREE:/path` are files of one; see `url.rs`.

use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

mod url;

use tane_images::scheme;
pub use tane_images::{is_netfs, is_remote};

/// What to mount of an image that holds several file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// None: the only one there is.
    pub volume: Option<Which>,
    /// A directory or subvolume to take for the root: btrfs's `subvol=`.
    pub subvol: Option<String>,
}

/// One volume of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The partition's number, from 1.
    Partition(u32),
    /// By the label of its file system.
    Label(String),
    /// By the UUID of its file system.
    Uuid(String),
    /// A logical volume: its group and its name.
    Logical(String, String),
}

/// A file in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePath {
    /// The image, on the host.
    pub image: PathBuf,
    /// None: what there is to choose by itself.
    pub selector: Option<Selector>,
    /// Absolute, within the image.
    pub path: Vec<u8>,
    /// The file of another image that the image is; None: it is one of the host.
    /// [`Address`] does not look into images, and leaves it out.
    pub within: Option<Box<ImagePath>>,
}

/// What an argument means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A path of the host's.
    Host(PathBuf),
    /// A path in an image.
    Image(ImagePath),
}

impl ImagePath {
    /// The same file system of the same image, by whatever name.
    pub fn same_image(&self, other: &ImagePath) -> bool {
        self.same_file(other) && self.selector == other.selector
    }

    /// The same image, by whatever name.
    pub fn same_file(&self, other: &ImagePath) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
        let is_real = self.within.is_none() && other.within.is_none();
        self.within == other.within
            && (self.image == other.image || is_real && real(&self.image) == real(&other.image))
    }

    /// This image, the one that it lies in, and so on.
    pub fn layers(&self) -> impl Iterator<Item = &ImagePath> {
        std::iter::successors(Some(self), |at| at.within.as_deref())
    }

    /// The image in which all others of these lie: what the host has.
    pub fn outermost(&self) -> &ImagePath {
        self.layers().last().unwrap_or(self)
    }

    /// Whether the image is on a server, and no file of the host.
    pub fn is_remote(&self) -> bool {
        is_remote(&self.image)
    }

    /// Whether it is no image at all: the files are a server's.
    pub fn is_netfs(&self) -> bool {
        is_netfs(&self.image)
    }

    /// `disk.img:`, to print before paths inside.
    pub fn prefix(&self) -> Vec<u8> {
        [self.image.as_os_str().as_bytes(), b":"].concat()
    }
}

impl Selector {
    /// What stands between `@` and `:/` of an address. EINVAL if it is none.
    pub fn parse(text: &str) -> Result<Selector> {
        let wrong = || {
            Error::plain(
                libc::EINVAL,
                "read the selector",
                format!(
                    "{text}: not a selector: use a partition number (from 1), label=NAME, \
                     uuid=UUID or GROUP/VOLUME, and subvol=PATH alone or behind a comma"
                ),
            )
        };
        let (volume, subvol) = match text.strip_prefix("subvol=") {
            Some(subvol) => (None, Some(subvol)),
            None => match text.rsplit_once(",subvol=") {
                Some((volume, subvol)) => (Some(volume), Some(subvol)),
                None => (Some(text), None),
            },
        };
        if subvol.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        let volume = volume
            .map(|v| Which::parse(v).ok_or_else(wrong))
            .transpose()?;
        Ok(Selector {
            volume,
            subvol: subvol.map(str::to_owned),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(volume) = &self.volume {
            write!(f, "{volume}")?;
        }
        match (&self.volume, &self.subvol) {
            (Some(_), Some(subvol)) => write!(f, ",subvol={subvol}"),
            (None, Some(subvol)) => write!(f, "subvol={subvol}"),
            (_, None) => Ok(()),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Partition(n) => write!(f, "{n}"),
            Which::Label(label) => write!(f, "label={label}"),
            Which::Uuid(uuid) => write!(f, "uuid={uuid}"),
            Which::Logical(group, name) => write!(f, "{group}/{name}"),
        }
    }
}

impl Which {
    fn parse(text: &str) -> Option<Which> {
        if let Ok(number) = text.parse::<u32>() {
            return (number > 0).then_some(Which::Partition(number));
        }
        match text.split_once('=') {
            Some(("label", v)) if !v.is_empty() => Some(Which::Label(v.into())),
            Some(("uuid", v)) if !v.is_empty() => Some(Which::Uuid(v.to_ascii_lowercase())),
            Some(_) => None,
            None => match text.split_once('/') {
                Some((group, name)) if !group.is_empty() && !name.is_empty() => {
                    Some(Which::Logical(group.into(), name.into()))
                }
                _ => None,
            },
        }
    }
}

/// What the parser asks about the host's files; a trait for the tests.
pub trait Files {
    /// Something with this name exists (symlinks not followed).
    fn exists(&self, path: &Path) -> bool;
    /// This can be an image.
    fn is_image(&self, path: &Path) -> bool;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFiles {
    /// Directories stand for images too, as they do for `tane --kernel host`.
    pub directories_too: bool,
}

impl Files for HostFiles {
    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn is_image(&self, path: &Path) -> bool {
        path.metadata()
            .is_ok_and(|m| self.directories_too || !m.is_dir())
    }
}

impl Address {
    /// For programs that take both kinds, such as `tane cp`. EINVAL if it names an
    /// image with something behind the `@` that is no selector.
    pub fn parse(argument: &OsStr, files: &dyn Files) -> Result<Address> {
        let text = argument.as_bytes();
        let host = || Ok(Address::Host(PathBuf::from(argument)));
        if files.exists(Path::new(argument)) {
            return host();
        }
        if scheme(text).is_some() {
            return match url::split(text) {
                (_, None) => Err(on_host(Path::new(argument))),
                (left, Some(path)) => Ok(Address::Image(url::image(left, path))),
            };
        }
        let colons = (1..text.len().saturating_sub(1)).filter(|&i| &text[i..i + 2] == b":/");
        for colon in colons.clone() {
            if let Some(found) = image(&text[..colon], &text[colon + 1..], files)? {
                return Ok(Address::Image(found));
            }
        }
        let Some(colon) = colons.clone().next() else {
            return host();
        };
        // No such image. A directory "x:" still makes "x:/new" a host path.
        if files.exists(Path::new(OsStr::from_bytes(&text[..=colon]))) {
            return host();
        }
        Ok(Address::Image(ImagePath {
            image: path_buf(&text[..colon]),
            selector: None,
            path: text[colon + 1..].to_vec(),
            within: None,
        }))
    }

    /// For programs that only know images: `IMAGE` alone means `IMAGE:/`. EINVAL
    /// as for [`Address::parse`], and if it is a path on the host.
    pub fn parse_image(argument: &OsStr, files: &dyn Files) -> Result<ImagePath> {
        if is_remote(Path::new(argument)) && !files.exists(Path::new(argument)) {
            let (left, path) = url::split(argument.as_bytes());
            return Ok(url::image(left, path.unwrap_or(b"/")));
        }
        if !argument.as_bytes().windows(2).any(|w| w == b":/")
            || files.is_image(Path::new(argument))
        {
            let whole = image(argument.as_bytes(), b"/", files)?;
            return Ok(whole.unwrap_or_else(|| ImagePath {
                image: argument.into(),
                selector: None,
                path: b"/".to_vec(),
                within: None,
            }));
        }
        match Address::parse(argument, files)? {
            Address::Image(found) => Ok(found),
            Address::Host(path) => Err(on_host(&path)),
        }
    }
}

fn on_host(path: &Path) -> Error {
    let text = format!("{}: not inside an image: write IMAGE:/path", path.display());
    Error::plain(libc::EINVAL, "read the address", text)
}

/// `left` as an image, with a selector if only that makes a file of it.
fn image(left: &[u8], path: &[u8], files: &dyn Files) -> Result<Option<ImagePath>> {
    let path = path.to_vec();
    if files.is_image(Path::new(OsStr::from_bytes(left))) {
        return Ok(Some(ImagePath {
            image: path_buf(left),
            selector: None,
            path,
            within: None,
        }));
    }
    for at in (1..left.len()).filter(|&i| left[i] == b'@') {
        if files.is_image(Path::new(OsStr::from_bytes(&left[..at]))) {
            let selector = Selector::parse(&String::from_utf8_lossy(&left[at + 1..]))?;
            return Ok(Some(ImagePath {
                image: path_buf(&left[..at]),
                selector: Some(selector),
                path,
                within: None,
            }));
        }
    }
    Ok(None)
}

fn path_buf(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that exist; those ending in "/" are directories.
    struct Fake(&'static [&'static str]);

    impl Files for Fake {
        fn exists(&self, path: &Path) -> bool {
            let path = path.to_str().unwrap_or_default();
            self.0
                .iter()
                .any(|f| f.trim_end_matches('/') == path.trim_end_matches('/'))
        }
        fn is_image(&self, path: &Path) -> bool {
            self.0.contains(&path.to_str().unwrap_or_default())
        }
    }

    fn parse(text: &str, files: &'static [&'static str]) -> Address {
        Address::parse(OsStr::new(text), &Fake(files)).expect(text)
    }

    fn in_image(name: &str, selector: Option<Selector>, path: &str) -> Address {
        Address::Image(ImagePath {
            image: name.into(),
            selector,
            path: path.into(),
            within: None,
        })
    }

    fn on_host(path: &str) -> Address {
        Address::Host(path.into())
    }

    #[test]
    fn an_image_and_a_path() {
        assert_eq!(
            parse("d.img:/etc", &["d.img"]),
            in_image("d.img", None, "/etc")
        );
        assert_eq!(
            parse("./x/d.img:/", &["./x/d.img"]),
            in_image("./x/d.img", None, "/")
        );
        assert_eq!(
            parse("d.img:/a:/b", &["d.img"]),
            in_image("d.img", None, "/a:/b")
        );
    }

    #[test]
    fn selectors() {
        let of = |volume| {
            Some(Selector {
                volume: Some(volume),
                subvol: None,
            })
        };
        let two = of(Which::Partition(2));
        assert_eq!(
            parse("d.img@2:/etc", &["d.img"]),
            in_image("d.img", two, "/etc")
        );
        let lv = of(Which::Logical("vg".into(), "root".into()));
        assert_eq!(
            parse("d.img@vg/root:/etc", &["d.img"]),
            in_image("d.img", lv, "/etc")
        );
        let mut home = of(Which::Partition(3)).unwrap();
        home.subvol = Some("@/home".into());
        assert_eq!(
            parse("d.img@3,subvol=@/home:/x", &["d.img"]),
            in_image("d.img", Some(home.clone()), "/x")
        );
        home.volume = None;
        assert_eq!(
            parse("d.img@subvol=@/home:/x", &["d.img"]),
            in_image("d.img", Some(home), "/x")
        );
        assert!(Selector::parse("2,subvol=").is_err());
        let label = of(Which::Label("a@b:c".into()));
        assert_eq!(
            parse("d.img@label=a@b:c:/x", &["d.img"]),
            in_image("d.img", label, "/x")
        );
        assert!(Address::parse(OsStr::new("d.img@two:/"), &Fake(&["d.img"])).is_err());
        assert!(Selector::parse("0").is_err());
    }

    #[test]
    fn an_at_sign_in_the_image_name() {
        assert_eq!(
            parse("me@home.img:/x", &["me@home.img"]),
            in_image("me@home.img", None, "/x")
        );
    }

    #[test]
    fn a_host_path_with_a_colon_stays_a_host_path() {
        assert_eq!(parse("a:b", &[]), on_host("a:b"));
        assert_eq!(parse("a:b", &["a"]), on_host("a:b"));
        assert_eq!(parse("./a:b", &["./a"]), on_host("./a:b"));
        assert_eq!(parse("dir:/f", &["dir:/"]), on_host("dir:/f"));
        assert_eq!(parse("d:/f", &["d", "d:/f"]), on_host("d:/f"));
    }

    #[test]
    fn a_missing_image_is_still_an_image() {
        assert_eq!(
            parse("none.img:/etc", &[]),
            in_image("none.img", None, "/etc")
        );
    }

    #[test]
    fn an_image_alone_means_its_root() {
        let parse = |text: &str, files| Address::parse_image(OsStr::new(text), &Fake(files));
        let root = |selector| ImagePath {
            image: "d.img".into(),
            selector,
            path: b"/".to_vec(),
            within: None,
        };
        assert_eq!(parse("d.img", &["d.img"]).expect("image"), root(None));
        let of = |volume| {
            Some(Selector {
                volume: Some(volume),
                subvol: None,
            })
        };
        let two = of(Which::Partition(2));
        assert_eq!(parse("d.img@2", &["d.img"]).expect("image"), root(two));
        assert_eq!(parse("d.img", &[]).expect("image"), root(None));
    }
}
