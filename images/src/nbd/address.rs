//! Where an export is: `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`.

use crate::escapes::decoded;
use crate::server::{host_and_port, Server};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const TCP: &str = "nbd://";
const UNIX: &str = "nbd+unix://";
/// What the same specification has beside these.
const REFUSED: [(&str, &str); 4] = [
    ("nbds://", ENCRYPTED),
    ("nbds+unix://", ENCRYPTED),
    ("nbd+vsock://", VSOCK),
    ("nbds+vsock://", VSOCK),
];
const ENCRYPTED: &str = "NBD by TLS is not supported: use nbd:// in a network that you trust, \
                         or through a tunnel (ssh -L 10809:localhost:10809 HOST)";
const VSOCK: &str = "NBD by vsock is not supported: use nbd:// or nbd+unix://";
const PORT: u16 = 10809;
/// Bytes of an export's name, by the protocol.
const LONGEST: usize = 4096;

/// An export, and who serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
    pub server: Server,
    /// Empty: the one that the server has if nothing is said.
    pub export: Vec<u8>,
}

/// What addresses start with, those that are refused too.
pub(crate) fn schemes() -> impl Iterator<Item = &'static str> {
    let refused = REFUSED.iter().map(|(scheme, _)| *scheme);
    [TCP, UNIX].into_iter().chain(refused)
}

impl Address {
    pub fn parse(text: &str) -> io::Result<Address> {
        let wrong = |kind, why: &str| io::Error::new(kind, format!("{text}: {why}"));
        let invalid = |why: &str| wrong(io::ErrorKind::InvalidInput, why);
        if let Some((_, why)) = REFUSED.iter().find(|(scheme, _)| text.starts_with(scheme)) {
            return Err(wrong(io::ErrorKind::Unsupported, why));
        }
        let (is_unix, rest) = match (text.strip_prefix(TCP), text.strip_prefix(UNIX)) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(invalid("is no address of NBD")),
        };
        if rest.contains('#') {
            return Err(invalid(
                "has a #, which is written %23 in the name of an export",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export);
        if export.len() > LONGEST {
            return Err(invalid("the name of its export is too long"));
        }
        if authority.contains('@') {
            return Err(invalid(
                "NBD knows users only by TLS, which is not supported",
            ));
        }
        let mut socket = None;
        for word in query.split('&').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("socket", path)) if is_unix && !path.is_empty() => {
                    socket = Some(PathBuf::from(OsString::from_vec(decoded(path))));
                }
                _ => {
                    let why = format!("?{word} is not known: NBD has ?socket=PATH, of nbd+unix");
                    return Err(invalid(&why));
                }
            }
        }
        let server = match (is_unix, socket) {
            (true, Some(path)) if authority.is_empty() => Server::Unix(path),
            (true, _) => return Err(invalid("write nbd+unix:///EXPORT?socket=PATH")),
            (false, _) => {
                let found = host_and_port(authority, PORT);
                let (host, port) =
                    found.ok_or_else(|| invalid("write nbd://HOST[:PORT]/EXPORT"))?;
                Server::Tcp(host, port)
            }
        };
        Ok(Address {
            text: text.to_owned(),
            server,
            export,
        })
    }

    /// The export's name, for messages.
    pub fn export_name(&self) -> String {
        super::readable(&self.export)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::is_nbd;

    #[test]
    fn an_address_has_a_server_and_an_export() {
        let tcp = |host: &str, port| Server::Tcp(host.into(), port);
        let unix = |path: &str| Server::Unix(path.into());
        for (text, server, export) in [
            ("nbd://h", tcp("h", 10809), ""),
            ("nbd://h/", tcp("h", 10809), ""),
            ("nbd://h:1/a", tcp("h", 1), "a"),
            ("nbd://[::1]:7/a/b", tcp("::1", 7), "a/b"),
            ("nbd://[::1]/a%20b%3A", tcp("::1", 10809), "a b:"),
            ("nbd+unix:///?socket=/run/s", unix("/run/s"), ""),
            ("nbd+unix:///x?socket=a%3Fb", unix("a?b"), "x"),
        ] {
            assert!(is_nbd(text.as_ref()), "{text}");
            let found = Address::parse(text).expect(text);
            assert_eq!((found.server, &*found.export), (server, export.as_bytes()));
            assert_eq!(found.text, text);
        }
    }

    #[test]
    fn what_is_none_says_what_is_wrong() {
        for (text, why) in [
            ("nbd://", "write nbd://"),
            ("nbd:///x", "write nbd://"),
            ("nbd://h:0/x", "write nbd://"),
            ("nbd://h:70000/x", "write nbd://"),
            ("nbd://[::1/x", "write nbd://"),
            ("nbd://me@h/x", "users"),
            ("nbd://h/x?socket=y", "?socket=y"),
            ("nbd://h/x?tls-type=none", "?tls-type"),
            ("nbd://h/x#y", "%23"),
            ("nbd+unix:///x", "write nbd+unix"),
            ("nbd+unix://h/x?socket=/s", "write nbd+unix"),
            ("nbds://h/x", "TLS is not supported"),
            ("nbds+unix:///x?socket=/s", "TLS is not supported"),
            ("nbd+vsock://2/x", "vsock"),
        ] {
            assert!(is_nbd(text.as_ref()), "{text}");
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text}: ")), "{error}");
            assert!(error.contains(why), "{error}");
        }
        let long = format!("nbd://h/{}", "x".repeat(4097));
        assert!(Address::parse(&long).is_err());
    }
}
