//! Where files of a server of NFS are: `nfs://[USER@]HOST[:PORT]/EXPORT`.

use super::address::{invalid, Address};
use super::Protocol;
use crate::escapes::decoded;
use crate::server::{host_and_port, Server};
use std::io;

pub(super) const SCHEME: &str = "nfs://";
/// By IANA, and all that NFS of version 4 takes: nobody is asked for another.
const PORT: u16 = 2049;
/// What Linux's client takes, of the host and of the path.
const LONGEST_HOST: usize = 255;
const LONGEST: usize = 1024;

pub(super) fn parse(text: &str) -> io::Result<Address> {
    let invalid = |why: &str| invalid(text, why);
    let rest = text.strip_prefix(SCHEME).unwrap_or(text);
    if let Some((_, query)) = rest.split_once('?') {
        let why = format!("?{query} is not known: NFS has no such word, and --options has its own");
        return Err(invalid(&why));
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (Some(decoded(user)), authority),
        None => (None, authority),
    };
    let user = user.map(String::from_utf8).transpose();
    let user = user.map_err(|_| invalid("the name of its user is no UTF-8"))?;
    if user.as_ref().is_some_and(|user| user.is_empty()) {
        return Err(invalid("the name of its user is empty"));
    }
    let tree = match path {
        "" => b"/".to_vec(),
        path => decoded(path),
    };
    if tree.len() > LONGEST || tree.contains(&0) {
        return Err(invalid("the path of its export is too long, or has a NUL"));
    }
    let found = host_and_port(authority, PORT);
    let found = found.filter(|(host, _)| host.len() <= LONGEST_HOST);
    let (host, port) = found.ok_or_else(|| invalid("write nfs://HOST[:PORT]/EXPORT"))?;
    Ok(Address {
        text: text.to_owned(),
        protocol: Protocol::Nfs,
        server: Server::Tcp(host, port),
        user,
        tree,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_an_export_and_perhaps_a_user() {
        for (text, host, port, user, tree) in [
            ("nfs://h", "h", 2049, None, "/"),
            ("nfs://h/", "h", 2049, None, "/"),
            ("nfs://h:1/srv/a,b", "h", 1, None, "/srv/a,b"),
            ("nfs://me@[::1]:7/a%20b", "::1", 7, Some("me"), "/a b"),
            ("nfs://1000@h/x", "h", 2049, Some("1000"), "/x"),
        ] {
            assert!(crate::is_netfs(text.as_ref()), "{text}");
            let found = Address::parse(text).expect(text);
            assert_eq!(found.protocol, Protocol::Nfs);
            assert_eq!(found.server, Server::Tcp(host.into(), port));
            assert_eq!(found.user.as_deref(), user);
            assert_eq!(found.tree, tree.as_bytes());
        }
    }

    #[test]
    fn what_is_none_says_what_is_wrong() {
        for (text, why) in [
            ("nfs://", "write nfs://"),
            ("nfs:///x", "write nfs://"),
            ("nfs://h:0/x", "write nfs://"),
            ("nfs://h/x?vers=3", "?vers=3"),
            ("nfs://@h/x", "user"),
            ("nfs://h/%00", "NUL"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text}: ")), "{error}");
            assert!(error.contains(why), "{error}");
        }
        assert!(Address::parse(&format!("nfs://h/{}", "x".repeat(1024))).is_err());
        assert!(Address::parse(&format!("nfs://{}/x", "h".repeat(256))).is_err());
    }
}
