//! Which names of images are addresses on servers: the only list of them, for all that looks
//! at such names.

use crate::http;
use crate::nbd;
use crate::netfs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an address on a server begins with, `http://`, `https://`, `nbd://`, `nbd+unix://`, or
/// what NBD has beside those, which whoever opens it says is not supported, `9p://`,
/// `9p+unix://`, `nfs://`; None: it is none.
pub fn scheme(text: &[u8]) -> Option<&'static str> {
    schemes().find(|scheme| text.starts_with(scheme.as_bytes()))
}

fn schemes() -> impl Iterator<Item = &'static str> {
    let images = http::SCHEMES.into_iter().chain(nbd::schemes());
    images.chain(netfs::schemes())
}

/// Whether this is no file of the host, but an image on a server, or files of one.
pub fn is_remote(image: &Path) -> bool {
    scheme(image.as_os_str().as_bytes()).is_some()
}

/// Whether a name is the address of an export of an NBD server, be it right or wrong.
pub fn is_nbd(image: &Path) -> bool {
    let found = scheme(image.as_os_str().as_bytes());
    found.is_some_and(|found| nbd::schemes().any(|of_nbd| of_nbd == found))
}

/// Whether a name is the address of files that a server has, and of no image.
pub fn is_netfs(image: &Path) -> bool {
    let found = scheme(image.as_os_str().as_bytes());
    found.is_some_and(|found| netfs::schemes().any(|of_netfs| of_netfs == found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_server_are_no_image() {
        let opened = crate::ImageOptions::new().open("9p://127.0.0.1:1/tree");
        let error = opened.err().expect("no image");
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("no image"), "{error}");
    }

    #[test]
    fn python_which_cannot_ask_knows_the_same() {
        let python = include_str!("../../python/tane/_address.py");
        let quoted = python.split('"').filter(|text| text.ends_with("://"));
        assert_eq!(quoted.collect::<Vec<_>>(), schemes().collect::<Vec<_>>());
    }
}
