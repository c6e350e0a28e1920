//! `https://HOST/IMAGE@SELECTOR:/path`, `nbd://HOST/EXPORT@SELECTOR:/path`. Nobody can be
//! asked what exists there, so the text decides: the image ends at the first `:/` behind
//! the host, and at the last `@` that a selector follows. `%3A` and `%40` are signs of its
//! own.
//!
//! An export's name may be nothing: `nbd://HOST:/path`, `nbd://HOST/@2:/path`. So may that
//! of a tree of files, which has no selectors: `9p://HOST:/path`.

use super::{path_buf, ImagePath, Selector};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane_images::scheme;

fn is_nbd(text: &[u8]) -> bool {
    tane_images::is_nbd(Path::new(OsStr::from_bytes(text)))
}

fn is_netfs(text: &[u8]) -> bool {
    tane_images::is_netfs(Path::new(OsStr::from_bytes(text)))
}

/// Where the host's name and port end.
fn host_end(text: &[u8]) -> usize {
    let start = scheme(text).map_or(0, str::len);
    let slash = text[start..].iter().position(|b| *b == b'/');
    let end = slash.map_or(text.len(), |at| start + at);
    // No port is missing there: the path begins.
    let may_end = is_nbd(text) || is_netfs(text);
    match end > start && end < text.len() && text[end - 1] == b':' && may_end {
        true => end - 1,
        false => end,
    }
}

/// The image with its selector, and the path if there is one.
pub fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let host = host_end(text);
    let colon = text[host..].windows(2).position(|pair| pair == b":/");
    match colon.map(|at| host + at) {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
        None => (text, None),
    }
}

pub fn image(left: &[u8], path: &[u8]) -> ImagePath {
    let host = host_end(left);
    let marks = (host..left.len()).rev().filter(|i| left[*i] == b'@');
    // "/@scope/image" has none: a name comes before it, but that of an export may be empty.
    let empty = is_nbd(left).then_some(host + 1);
    let marks = marks.filter(|i| *i > host && (left[*i - 1] != b'/' || Some(*i) == empty));
    let selector = |at: usize| {
        let text = std::str::from_utf8(&left[at + 1..]).ok()?;
        Some((at, Selector::parse(text).ok()?))
    };
    // A tree of files has no parts.
    let mut marks = marks.filter(|_| !is_netfs(left));
    let found = marks.find_map(selector);
    let (end, selector) = found.map_or((left.len(), None), |(at, s)| (at, Some(s)));
    ImagePath {
        image: path_buf(&left[..end]),
        selector,
        path: path.to_vec(),
        within: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, HostFiles, Which};
    use std::ffi::OsStr;
    use std::path::Path;

    /// Image, selector and path.
    fn parse(text: &str) -> (String, Option<Which>, String) {
        let files = HostFiles::default();
        let at = Address::parse_image(OsStr::new(text), &files).expect(text);
        assert!(at.is_remote());
        (
            at.image.to_string_lossy().into_owned(),
            at.selector.and_then(|s| s.volume),
            String::from_utf8_lossy(&at.path).into_owned(),
        )
    }

    #[test]
    fn the_path_starts_behind_the_host() {
        for (text, image, path) in [
            ("http://h/d.img:/etc", "http://h/d.img", "/etc"),
            ("https://h:81/a/d.img", "https://h:81/a/d.img", "/"),
            ("http://h/d:/a:/b", "http://h/d", "/a:/b"),
            ("http://h/d?k=v@w:/x", "http://h/d?k=v@w", "/x"),
            ("http://h/@scope/d:/x", "http://h/@scope/d", "/x"),
            ("http://h/d%3A/e:/x", "http://h/d%3A/e", "/x"),
        ] {
            assert_eq!(parse(text), (image.into(), None, path.into()), "{text}");
        }
    }

    #[test]
    fn selectors_as_for_files() {
        let logical = Which::Logical("vg".into(), "root".into());
        for (text, which) in [
            ("http://h/d.img@2:/etc", Which::Partition(2)),
            ("http://h/d.img@vg/root:/etc", logical),
            ("http://h/d.img@label=a@b:/etc", Which::Label("a@b".into())),
        ] {
            let wanted = ("http://h/d.img".into(), Some(which), "/etc".into());
            assert_eq!(parse(text), wanted, "{text}");
        }
        assert_eq!(parse("http://h/d.img@1").1, Some(Which::Partition(1)));
    }

    #[test]
    fn an_export_may_have_no_name() {
        let two = || Some(Which::Partition(2));
        for (text, image, which, path) in [
            ("nbd://h", "nbd://h", None, "/"),
            ("nbd://h:7:/etc", "nbd://h:7", None, "/etc"),
            ("nbd://h:/etc", "nbd://h", None, "/etc"),
            ("nbd://[::1]:7/:/etc", "nbd://[::1]:7/", None, "/etc"),
            ("nbd://h/@2:/etc", "nbd://h/", two(), "/etc"),
            ("nbd://h/@2", "nbd://h/", two(), "/"),
            ("nbd://h/a/b@2:/x", "nbd://h/a/b", two(), "/x"),
            ("nbd://h/a/@2:/x", "nbd://h/a/@2", None, "/x"),
            ("nbds://h/a:/x", "nbds://h/a", None, "/x"),
        ] {
            assert_eq!(parse(text), (image.into(), which, path.into()), "{text}");
        }
        let (socket, at) = (
            "nbd+unix:///x?socket=/run/s",
            "nbd+unix:///x?socket=/run/s@2:/y",
        );
        assert_eq!(parse(at), (socket.into(), two(), "/y".into()));
        let (socket, at) = ("nbd+unix:///?socket=s", "nbd+unix:///?socket=s:/y");
        assert_eq!(parse(at), (socket.into(), None, "/y".into()));
    }

    #[test]
    fn files_of_a_server_have_no_selectors() {
        for (text, tree, path) in [
            ("9p://h", "9p://h", "/"),
            ("9p://h:/etc", "9p://h", "/etc"),
            ("9p://me@h:7/srv/@2:/etc", "9p://me@h:7/srv/@2", "/etc"),
            ("9p://h/a@1", "9p://h/a@1", "/"),
            (
                "9p+unix:///?socket=/run/s:/y",
                "9p+unix:///?socket=/run/s",
                "/y",
            ),
        ] {
            assert_eq!(parse(text), (tree.into(), None, path.into()), "{text}");
        }
    }

    #[test]
    fn a_copy_needs_a_path_in_it() {
        let files = HostFiles::default();
        let parse = |text: &str| Address::parse(OsStr::new(text), &files);
        assert!(parse("http://h/d.img").is_err());
        let Ok(Address::Image(at)) = parse("http://h/d.img:/x") else {
            panic!("not an image");
        };
        assert_eq!(at.image, Path::new("http://h/d.img"));
    }
}
