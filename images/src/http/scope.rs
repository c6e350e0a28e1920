//! Where a server may send its clients: the name that the user gave decides. A server on
//! the Internet does not choose what is asked of this machine or of the network that it
//! is in.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::Error;

/// How near an address is: its scope, as in RFC 4007.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Internet,
    /// The network that this machine is in, or a part of it.
    Private,
    /// The link to the next machine, and clouds' services for this one.
    Link,
    Here,
}

fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            match () {
                () if v4.is_loopback() || a == 0 => Scope::Here,
                () if v4.is_link_local() || v4.is_broadcast() => Scope::Link,
                // Shared by providers, for tests, and what is reserved.
                () if v4.is_private() || a == 100 && b & 0xc0 == 64 => Scope::Private,
                () if a == 198 && b & 0xfe == 18 || a >= 224 => Scope::Private,
                () => Scope::Internet,
            }
        }
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return scope(v4.into());
            }
            let segments = v6.segments();
            // NAT64 and 6to4 have an address of IPv4 in them.
            let inside = |at: usize| {
                let [a, b] = [segments[at], segments[at + 1]].map(u16::to_be_bytes);
                scope(IpAddr::from([a[0], a[1], b[0], b[1]]))
            };
            match segments {
                _ if v6.is_loopback() || v6.is_unspecified() => Scope::Here,
                [0x64, 0xff9b, ..] => inside(6),
                [0x2002, ..] => inside(1),
                [first, ..] if first & 0xffc0 == 0xfe80 => Scope::Link,
                [first, ..] if first & 0xe000 != 0x2000 => Scope::Private,
                _ => Scope::Internet,
            }
        }
    }
}

/// Names are looked up as ever; what a redirect, or a name that means something else by
/// now, leads to has to be on the Internet, or where the user's own name led.
#[derive(Debug)]
pub(super) struct ScopedResolver {
    resolver: DefaultResolver,
    /// The host that the user named.
    host: String,
    /// Where that was.
    origin: Mutex<Option<Scope>>,
}

impl ScopedResolver {
    pub fn of(host: &str) -> ScopedResolver {
        ScopedResolver {
            resolver: DefaultResolver::default(),
            host: host.to_owned(),
            origin: Mutex::default(),
        }
    }

    /// Whether this address of a host may be connected to.
    fn allows(&self, address: IpAddr, is_named: bool) -> bool {
        let mut origin = self.origin.lock().unwrap_or_else(|e| e.into_inner());
        let near = scope(address);
        if is_named && origin.is_none() {
            *origin = Some(near);
        }
        near == Scope::Internet || *origin == Some(near)
    }

    fn sift(&self, found: &[SocketAddr], is_named: bool) -> Vec<SocketAddr> {
        let allowed = found.iter().copied();
        allowed
            .filter(|address| self.allows(address.ip(), is_named))
            .collect()
    }
}

impl Resolver for ScopedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default();
        let proxy = config.proxy().and_then(|proxy| proxy.uri().host());
        if proxy.is_some_and(|proxy| proxy.eq_ignore_ascii_case(host)) {
            return Ok(found);
        }
        let allowed = self.sift(&found, host.eq_ignore_ascii_case(&self.host));
        if allowed.is_empty() {
            let text = format!(
                "the server leads to {host}, which is this machine or in its network: give \
                 that address itself if it is meant"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text).into());
        }
        let mut kept = self.empty();
        allowed.into_iter().for_each(|address| kept.push(address));
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_are_known_by_how_near_they_are() {
        let near = [
            (
                "127.0.0.1 127.8.9.1 0.0.0.0 ::1 :: ::ffff:127.0.0.1 64:ff9b::7f00:1",
                Scope::Here,
            ),
            ("169.254.169.254 fe80::1 2002:a9fe:a9fe::", Scope::Link),
            (
                "10.0.0.1 172.16.3.4 192.168.1.1 100.64.0.1 fd00::1 fec0::1 224.0.0.1",
                Scope::Private,
            ),
            (
                "1.1.1.1 172.32.0.1 100.128.0.1 2001:4860::1 2002:101:101::",
                Scope::Internet,
            ),
        ];
        for (addresses, wanted) in near {
            for text in addresses.split(' ') {
                assert_eq!(scope(parsed(text)), wanted, "{text}");
            }
        }
    }

    #[test]
    fn a_redirect_leads_to_the_internet_or_where_the_named_server_is() {
        let all = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "1.1.1.1"];
        for (named, allowed) in [
            ("8.8.8.8", [false, false, false, true]),
            ("10.9.9.9", [false, true, false, true]),
            ("127.0.0.2", [true, false, false, true]),
        ] {
            let resolver = ScopedResolver::of("host");
            assert!(resolver.allows(parsed(named), true));
            let found = all.map(|address| resolver.allows(parsed(address), false));
            assert_eq!(found, allowed, "{named}");
            // Nor does the name itself lead elsewhere later.
            assert_eq!(
                all.map(|address| resolver.allows(parsed(address), true)),
                allowed
            );
        }
    }
}
