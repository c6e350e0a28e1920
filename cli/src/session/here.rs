//! Where in which image a session is.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tane::{ImagePath, Selector};

/// Where a session is.
#[derive(Clone)]
pub struct Here {
    pub image: PathBuf,
    pub selector: Option<Selector>,
    /// Absolute, without "." and "..".
    pub dir: Vec<u8>,
    /// The file of another image that the image is.
    pub within: Option<Box<ImagePath>>,
}

impl Here {
    /// As an address.
    pub fn shown(&self) -> Vec<u8> {
        let image = self.image.as_os_str().as_bytes();
        [image, &self.selector_text(), b":", &self.dir].concat()
    }

    /// `@SELECTOR`, or nothing.
    pub fn selector_text(&self) -> Vec<u8> {
        let selector = self.selector.as_ref();
        selector.map_or(Vec::new(), |s| format!("@{s}").into_bytes())
    }

    /// What a path means here.
    pub fn path(&self, path: &[u8]) -> ImagePath {
        let path = match path {
            [b'/', ..] => path.to_vec(),
            b"" | b"." => self.dir.clone(),
            _ => [&self.dir[..], b"/", path].concat(),
        };
        // "//x" would be the same, but is shown.
        let path = match path.strip_prefix(b"//") {
            Some(rest) => [b"/", rest].concat(),
            None => path,
        };
        ImagePath {
            image: self.image.clone(),
            selector: self.selector.clone(),
            path,
            within: self.within.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_where_the_session_is() {
        let at = |dir: &str, path: &str| {
            let here = Here {
                image: "d.img".into(),
                selector: None,
                dir: dir.into(),
                within: None,
            };
            String::from_utf8(here.path(path.as_bytes()).path).expect("UTF-8")
        };
        assert_eq!(at("/", "a"), "/a");
        assert_eq!(at("/", "."), "/");
        assert_eq!(at("/d", "a/b"), "/d/a/b");
        assert_eq!(at("/d", "../a"), "/d/../a");
        assert_eq!(at("/d", "/a"), "/a");
        assert_eq!(at("/d", ""), "/d");
    }
}
