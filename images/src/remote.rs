//! Which names of images are addresses on servers: the only list of them, for all that looks
//! at such names.

use crate::http;
use crate::nbd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an address on a server begins with, `http://`, `https://`, `nbd://`, `nbd+unix://`, or
/// what NBD has beside those, which whoever opens it says is not supported; None: it is none.
pub fn scheme(text: &[u8]) -> Option<&'static str> {
    let all = http::SCHEMES.into_iter().chain(nbd::schemes());
    all.into_iter()
        .find(|scheme| text.starts_with(scheme.as_bytes()))
}

/// Whether this is no file of the host, but an image on a server.
pub fn is_remote(image: &Path) -> bool {
    scheme(image.as_os_str().as_bytes()).is_some()
}

/// Whether a name is the address of an export of an NBD server, be it right or wrong.
pub fn is_nbd(image: &Path) -> bool {
    let found = scheme(image.as_os_str().as_bytes());
    found.is_some_and(|found| nbd::schemes().any(|of_nbd| of_nbd == found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_which_cannot_ask_knows_the_same() {
        let python = include_str!("../../python/tane/_address.py");
        let quoted = python.split('"').filter(|text| text.ends_with("://"));
        let ours = http::SCHEMES.into_iter().chain(nbd::schemes());
        assert_eq!(quoted.collect::<Vec<_>>(), ours.collect::<Vec<_>>());
    }
}
