//! Where files of a server are: `9p://[USER@]HOST[:PORT]/TREE`, `9p+unix:///TREE?socket=PATH`,
//! and, in nfs.rs, `nfs://[USER@]HOST[:PORT]/EXPORT`.

use super::{nfs, Protocol};
use crate::escapes::decoded;
use crate::server::{host_and_port, Server};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const TCP: &str = "9p://";
const UNIX: &str = "9p+unix://";
/// By IANA.
const PORT: u16 = 564;
/// Bytes of a name, so that it fits into the page of a mount's options with all else.
const LONGEST: usize = 1024;

/// A tree of files, and who serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(super) text: String,
    pub protocol: Protocol,
    pub server: Server,
    /// As whom the server is told one comes, if the address says so.
    pub user: Option<String>,
    /// What the server calls the tree: with 9p aname, empty if it is its only one; with NFS a
    /// path from the root that it shows.
    pub tree: Vec<u8>,
}

/// What addresses start with.
pub(crate) fn schemes() -> impl Iterator<Item = &'static str> {
    [TCP, UNIX, nfs::SCHEME].into_iter()
}

impl Address {
    pub fn parse(text: &str) -> io::Result<Address> {
        let invalid = |why: &str| invalid(text, why);
        if text.starts_with(nfs::SCHEME) {
            return nfs::parse(text);
        }
        let (is_unix, rest) = match (text.strip_prefix(TCP), text.strip_prefix(UNIX)) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(invalid("is no address of 9p")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(decoded(user)), authority),
            None => (None, authority),
        };
        let mut tree = match path {
            "/" => Vec::new(),
            path => decoded(path),
        };
        let mut socket = None;
        for word in query.split('&').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("socket", path)) if is_unix && !path.is_empty() => {
                    socket = Some(PathBuf::from(OsString::from_vec(decoded(path))));
                }
                Some(("aname", name)) if tree.is_empty() => tree = decoded(name),
                _ => {
                    let why = format!(
                        "?{word} is not known: 9p has ?socket=PATH, of 9p+unix, and ?aname=NAME \
                         where the address has no path"
                    );
                    return Err(invalid(&why));
                }
            }
        }
        let user = user.map(String::from_utf8).transpose();
        let user = user.map_err(|_| invalid("the name of its user is no UTF-8"))?;
        // They are words of one list of options.
        let is_word = |bytes: &[u8]| {
            bytes.len() <= LONGEST && !bytes.iter().any(|b| [b',', 0, b'\\'].contains(b))
        };
        if !is_word(&tree)
            || !user
                .iter()
                .all(|user| is_word(user.as_bytes()) && !user.is_empty())
        {
            return Err(invalid(
                "the name of its tree or of its user is too long, or has a comma or a backslash",
            ));
        }
        let server = match (is_unix, socket) {
            (true, Some(path)) if authority.is_empty() => Server::Unix(path),
            (true, _) => return Err(invalid("write 9p+unix:///TREE?socket=PATH")),
            (false, _) => {
                let found = host_and_port(authority, PORT);
                let (host, port) = found.ok_or_else(|| invalid("write 9p://HOST[:PORT]/TREE"))?;
                Server::Tcp(host, port)
            }
        };
        Ok(Address {
            text: text.to_owned(),
            protocol: Protocol::NineP,
            server,
            user,
            tree,
        })
    }
}

/// An address that is none.
pub(super) fn invalid(text: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: {why}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::is_netfs;

    #[test]
    fn an_address_has_a_server_a_tree_and_perhaps_a_user() {
        let tcp = |host: &str, port| Server::Tcp(host.into(), port);
        let unix = |path: &str| Server::Unix(path.into());
        for (text, server, user, tree) in [
            ("9p://h", tcp("h", 564), None, ""),
            ("9p://h/", tcp("h", 564), None, ""),
            ("9p://h:1/srv/a", tcp("h", 1), None, "/srv/a"),
            ("9p://me@[::1]:7/a%20b", tcp("::1", 7), Some("me"), "/a b"),
            ("9p://h?aname=ctl", tcp("h", 564), None, "ctl"),
            ("9p+unix:///?socket=/run/s", unix("/run/s"), None, ""),
            ("9p+unix:///srv?socket=s", unix("s"), None, "/srv"),
            ("9p+unix://me@/srv?socket=s", unix("s"), Some("me"), "/srv"),
        ] {
            assert!(is_netfs(text.as_ref()), "{text}");
            let found = Address::parse(text).expect(text);
            assert_eq!(found.server, server);
            assert_eq!(found.user.as_deref(), user);
            assert_eq!(found.tree, tree.as_bytes());
            assert_eq!(found.text, text);
        }
    }

    #[test]
    fn what_is_none_says_what_is_wrong() {
        for (text, why) in [
            ("9p://", "write 9p://"),
            ("9p:///x", "write 9p://"),
            ("9p://h:0/x", "write 9p://"),
            ("9p://h/x?aname=y", "?aname=y"),
            ("9p://h/x?socket=y", "?socket=y"),
            ("9p://h/x,y", "comma"),
            ("9p://@h/x", "name"),
            ("9p+unix:///x", "write 9p+unix"),
            ("9p+unix://h/x?socket=/s", "write 9p+unix"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text}: ")), "{error}");
            assert!(error.contains(why), "{error}");
        }
        assert!(Address::parse(&format!("9p://h/{}", "x".repeat(1024))).is_err());
    }
}
