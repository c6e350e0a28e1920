//! Addresses of images on servers, and the names and passwords for them.

use crate::escapes::decoded;
use std::fmt;
use std::io;
use std::path::Path;

pub(crate) const SCHEMES: [&str; 2] = ["http://", "https://"];

/// An `http://` or `https://` address, without a name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url(String);

/// The name and password for a server (HTTP basic authentication). They are sent
/// to that server only, and no message shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Scheme, host and port, as the address has them.
    origin: String,
    /// `NAME:PASSWORD`, decoded.
    pub(super) secret: Vec<u8>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.origin)
    }
}

impl Login {
    /// Take the login out of `https://NAME:PASSWORD@HOST/…`: the address without
    /// it, and the login. None: it is no such address, or has none.
    pub fn take(text: &str) -> Option<(String, Login)> {
        let scheme = SCHEMES.iter().find(|scheme| text.starts_with(**scheme))?;
        let rest = &text[scheme.len()..];
        let (authority, _) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (secret, host) = authority.rsplit_once('@')?;
        let login = Login {
            origin: format!("{scheme}{host}"),
            secret: decoded(secret),
        };
        let bare = format!("{scheme}{}", &rest[secret.len() + 1..]);
        Some((bare, login))
    }

    pub(crate) fn is_for(&self, url: &Url) -> bool {
        let rest = url.0.strip_prefix(&self.origin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }
}

impl Url {
    /// None if the name does not start like one.
    pub fn of(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let is_url = SCHEMES.iter().any(|scheme| text.starts_with(scheme));
        is_url.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The server's name, without a port.
    pub fn host(&self) -> &str {
        let rest = &self.0[self.0.find("://").map_or(0, |at| at + 3)..];
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = &rest[..end];
        match authority
            .rfind(':')
            .filter(|at| !authority[*at..].contains(']'))
        {
            Some(port) => &authority[..port],
            None => authority,
        }
    }

    pub fn is_encrypted(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// What a `Location` header of this address means.
    pub fn join(&self, location: &str) -> Option<Self> {
        let start = self.0.find("://")? + 3;
        let rest = &self.0[start..];
        let host = start + rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let text = match location {
            _ if SCHEMES.iter().any(|scheme| location.starts_with(scheme)) => location.to_owned(),
            _ if location.starts_with("//") => format!("{}{location}", &self.0[..start - 2]),
            _ if location.starts_with('/') => format!("{}{location}", &self.0[..host]),
            _ if location.is_empty() || location.split('/').next()?.contains(':') => return None,
            _ => {
                let path = self.0.split(['?', '#']).next()?;
                let end = path.rfind('/').filter(|at| *at >= host);
                format!("{}/{location}", &self.0[..end.unwrap_or(host)])
            }
        };
        // A server does not choose who we are.
        let bare = Login::take(&text).map(|(bare, _)| bare);
        Some(Self(bare.unwrap_or(text)))
    }

    /// That of a file in the same directory of the same server, if `name` is the
    /// plain name of one.
    pub fn beside(&self, name: &str) -> io::Result<Self> {
        let odd = name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']);
        let host = self.0.find("://").map_or(0, |at| at + 3);
        let path = self.0.split(['?', '#']).next().unwrap_or_default();
        let directory = path.rfind('/').filter(|at| *at > host);
        match directory {
            Some(end) if !odd => {
                let mut text = self.0[..=end].to_owned();
                for byte in name.bytes() {
                    match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                        true => text.push(char::from(byte)),
                        false => text.push_str(&format!("%{byte:02X}")),
                    }
                }
                Ok(Self(text))
            }
            _ => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("names the file {name}, which is not beside it on the server"),
            )),
        }
    }
}

/// Whether an image at the address `image` may name the file at the address `other`: it
/// has a plain name, in the same directory of the same server.
pub fn is_beside(image: &str, other: &str) -> bool {
    let Some(name) = other.rsplit('/').next() else {
        return false;
    };
    let url = Url::of(Path::new(image));
    // As it would be written: what has escapes in it is decoded first.
    let name = String::from_utf8(decoded(name)).ok();
    let beside = url.zip(name).and_then(|(url, name)| url.beside(&name).ok());
    beside.is_some_and(|url| url.as_str() == other)
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_taken_out_and_belongs_to_its_server() {
        let (bare, login) = Login::take("https://me:a%40b@host:81/x@y?z=@").expect("a login");
        assert_eq!(bare, "https://host:81/x@y?z=@");
        assert_eq!(login.secret, b"me:a@b");
        assert!(!format!("{login:?}").contains("a@b"));
        let url = |text: &str| Url::of(Path::new(text)).expect("a URL");
        assert!(login.is_for(&url(&bare)));
        assert!(!login.is_for(&url("https://host:811/x")));
        assert!(!login.is_for(&url("http://host:81/x")));
        assert!(Login::take("https://host/x@y").is_none());
        assert!(Login::take("ftp://a:b@host/").is_none());
    }

    #[test]
    fn a_redirect_leads_where_it_says() {
        let url = Url::of(Path::new("https://h:1/a/b?c=/d")).expect("a URL");
        for (location, wanted) in [
            ("http://x/y", "http://x/y"),
            ("https://me:pw@x/y", "https://x/y"),
            ("//x/y", "https://x/y"),
            ("/x", "https://h:1/x"),
            ("x/y?z", "https://h:1/a/x/y?z"),
        ] {
            let to = url.join(location).expect("an address");
            assert_eq!(to.as_str(), wanted);
        }
        assert_eq!(url.join("ftp://x/y"), None);
        assert_eq!(url.join(""), None);
    }

    #[test]
    fn a_host_has_no_port() {
        for (address, host) in [
            ("http://h/x:1", "h"),
            ("http://h:81", "h"),
            ("https://[::1]:81/x", "[::1]"),
            ("https://[::1]?x", "[::1]"),
        ] {
            assert_eq!(Url::of(Path::new(address)).expect("a URL").host(), host);
        }
    }

    #[test]
    fn only_plain_names_are_beside() {
        let url = Url::of(Path::new("http://h/a/disk.vmdk?k=/v")).expect("a URL");
        let beside = url.beside("d #1.img").expect("a name");
        assert_eq!(beside.as_str(), "http://h/a/d%20%231.img");
        for name in ["", "..", "../x", "/x", "http://h/x", "a\\b"] {
            assert!(url.beside(name).is_err(), "{name}");
        }
        assert!(is_beside(url.as_str(), beside.as_str()));
        for other in [
            "http://h/a/",
            "http://h/a/x?y",
            "http://h/a/%2e%2e",
            "http://h/x",
        ] {
            assert!(!is_beside(url.as_str(), other), "{other}");
        }
        let bare = Url::of(Path::new("http://h")).expect("a URL");
        assert!(bare.beside("x").is_err());
    }
}
