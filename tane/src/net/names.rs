//! Names, by the resolvers that the kernel's /etc/resolv.conf names; and what stands for
//! addresses.

use super::tcp::TcpStream;
use super::udp::UdpSocket;
use crate::error::Error;
use crate::kernel::Kernel;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::{Duration, Instant};
use tane_net::user::dns::{self, Kind};

const ACTION: &str = "look up";
const RESOLVERS: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// How long a resolver may take before the next one is asked, and how often all are.
const PATIENCE: Duration = Duration::from_secs(3);
const ROUNDS: usize = 2;
/// As resolv.conf(5) has it.
const MOST: usize = 3;
const PORT: u16 = 53;
/// Of a message by UDP without extensions there are 512 bytes; no resolver sends more than
/// fits here.
const ROOM: usize = 4 << 10;

impl Kernel {
    /// The addresses of a name, as this kernel's own network has them: by /etc/hosts, and by
    /// the resolvers of /etc/resolv.conf, both files in the kernel's root directory; in user
    /// mode ([`Kernel::user_network`]) that is the host's. Those of IPv4 come first. An
    /// address stands for itself, `localhost` for the loopback interface. There are no search
    /// domains.
    ///
    /// Errors: ENOENT there is no such name, or it has no address; EACCES the resolvers refuse
    /// to tell, as those of user mode do of what may not be reached; EAGAIN they cannot tell
    /// now; ETIMEDOUT none answers; ENONET none is named, and /etc/resolv.conf is to be written.
    pub fn lookup(&self, name: &str) -> crate::Result<Vec<IpAddr>> {
        let fail = |errno, text: &str| {
            let error = Error::plain(errno, ACTION, text);
            Err(error.with_path(std::path::Path::new(name)))
        };
        if let Some(found) = known(name) {
            return Ok(found);
        }
        let root = self.tree("/")?;
        let read = |file| root.read_to_string(file).unwrap_or_default();
        let found = in_hosts(&read(HOSTS), name);
        if !found.is_empty() {
            return Ok(found);
        }
        let resolvers = named_in(&read(RESOLVERS));
        if resolvers.is_empty() {
            let text = "no resolver: the kernel's /etc/resolv.conf names none (user mode writes \
                        one), so write it, or use an address";
            return fail(libc::ENONET, text);
        }
        let kinds = [Kind::A, Kind::Aaaa];
        let queries = kinds.map(|kind| dns::query(name, kind, number(self)));
        let [Some(a), Some(aaaa)] = queries else {
            return fail(libc::ENOENT, "no name is written so");
        };
        let mut last = NoAnswer::Silence;
        for resolver in resolvers.iter().cycle().take(ROUNDS * resolvers.len()) {
            let answers = match ask(self, *resolver, [&a, &aaaa]) {
                Ok(answers) => answers,
                // Another one may know more.
                Err(why) => {
                    last = why.max(last);
                    continue;
                }
            };
            let found: Vec<_> = answers.iter().flat_map(|a| dns::addresses(a)).collect();
            return match found.is_empty() {
                true => fail(libc::ENOENT, "there is no such name, or it has no address"),
                false => Ok(found),
            };
        }
        match last {
            NoAnswer::Silence => fail(libc::ETIMEDOUT, "no resolver answers"),
            NoAnswer::Failure => fail(libc::EAGAIN, "the resolver cannot tell now"),
            NoAnswer::Refusal => fail(libc::EACCES, "the resolver refuses to tell"),
        }
    }
}

/// Why a resolver has not told. What says more is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NoAnswer {
    Silence,
    Refusal,
    Failure,
}

impl From<io::Error> for NoAnswer {
    fn from(_: io::Error) -> Self {
        Self::Silence
    }
}

/// What no resolver is asked for.
fn known(name: &str) -> Option<Vec<IpAddr>> {
    if let Ok(address) = name.parse() {
        return Some(vec![address]);
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // RFC 6761
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_local.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

/// hosts(5)
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let found = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    });
    found.collect()
}

/// resolv.conf(5)
fn named_in(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver"))
            .then(|| words.next())
            .flatten()
    });
    let servers = servers.filter_map(|text| text.parse::<IpAddr>().ok());
    servers
        .map(|ip| SocketAddr::new(ip, PORT))
        .take(MOST)
        .collect()
}

/// Numbers of queries are not to be guessed, by whoever would answer first.
fn number(kernel: &Kernel) -> u16 {
    let mut bytes = [0u8; 2];
    let args = [bytes.as_mut_ptr() as u64, 2, 0, 0, 0, 0];
    // SAFETY: writes two bytes.
    unsafe { kernel.syscall(libc::SYS_getrandom, args) };
    u16::from_ne_bytes(bytes)
}

/// Both answers of this resolver.
fn ask(
    kernel: &Kernel,
    resolver: SocketAddr,
    queries: [&[u8]; 2],
) -> Result<[Vec<u8>; 2], NoAnswer> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(kernel, (any, 0))?;
    socket.connect(resolver)?;
    for query in queries {
        socket.send(query)?;
    }
    let end = Instant::now() + PATIENCE;
    let mut answers = [None, None];
    let mut room = vec![0; ROOM];
    while answers.iter().any(Option::is_none) {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(NoAnswer::Silence);
        }
        socket.set_read_timeout(Some(rest))?;
        let n = socket.recv(&mut room)?;
        let answer = &room[..n];
        // What answers neither is somebody else's guess.
        let which = queries.iter().position(|query| dns::answers(answer, query));
        if let Some(which) = which {
            let is_cut = dns::is_cut(answer);
            answers[which] = Some(match is_cut {
                true => ask_at_length(kernel, resolver, queries[which])?,
                false => answer.to_vec(),
            });
        }
    }
    let answers = answers.map(Option::unwrap_or_default);
    match answers.iter().map(|answer| dns::code(answer)).max() {
        Some(0 | dns::NO_NAME) => Ok(answers),
        Some(dns::REFUSED) => Err(NoAnswer::Refusal),
        _ => Err(NoAnswer::Failure),
    }
}

fn ask_at_length(kernel: &Kernel, resolver: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(kernel, &resolver, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    match dns::answers(&answer, query) {
        true => Ok(answer),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// What stands for addresses of sockets in a kernel's network, as
/// [`std::net::ToSocketAddrs`] does in the host's: addresses with a port, and names, which
/// the kernel's resolvers are asked for ([`Kernel::lookup`]).
pub trait ToAddresses {
    /// All that it stands for, in the order in which they are tried.
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>>;
}

impl<T: ToAddresses + ?Sized> ToAddresses for &T {
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>> {
        (**self).to_addresses(kernel)
    }
}

macro_rules! addresses {
    ($($kind:ty),*) => {$(
        impl ToAddresses for $kind {
            fn to_addresses(&self, _: &Kernel) -> io::Result<Vec<SocketAddr>> {
                Ok(vec![SocketAddr::from(*self)])
            }
        }
    )*};
}

addresses!(SocketAddr, SocketAddrV4, SocketAddrV6);
addresses!((IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));
addresses!(([u8; 4], u16), ([u8; 16], u16), ([u16; 8], u16));

impl ToAddresses for [SocketAddr] {
    fn to_addresses(&self, _: &Kernel) -> io::Result<Vec<SocketAddr>> {
        Ok(self.to_vec())
    }
}

impl ToAddresses for (&str, u16) {
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>> {
        let found = kernel.lookup(self.0)?;
        Ok(found
            .into_iter()
            .map(|ip| SocketAddr::new(ip, self.1))
            .collect())
    }
}

impl ToAddresses for (String, u16) {
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>> {
        (self.0.as_str(), self.1).to_addresses(kernel)
    }
}

/// `192.0.2.1:80`, `[2001:db8::1]:80`, `example.com:80`
impl ToAddresses for str {
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.parse() {
            return Ok(vec![address]);
        }
        let parts = self.rsplit_once(':');
        let parts = parts.and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let Some((name, port)) = parts else {
            let text = format!("{self:?}: write NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        (name, port).to_addresses(kernel)
    }
}

impl ToAddresses for String {
    fn to_addresses(&self, kernel: &Kernel) -> io::Result<Vec<SocketAddr>> {
        self.as_str().to_addresses(kernel)
    }
}

/// The first of them that does; or the last error.
pub fn first<T>(
    kernel: &Kernel,
    addresses: impl ToAddresses,
    mut with: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_addresses(kernel)? {
        match with(&address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no addresses");
    Err(last.unwrap_or_else(none))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_their_manual_pages_say() {
        let hosts = "127.0.0.1 localhost\n# 1.1.1.1 a\n192.0.2.1\tb.example A # c\n::1 a\n";
        let found: [IpAddr; 2] = [[192, 0, 2, 1].into(), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(in_hosts(hosts, "a."), found);
        assert!(in_hosts(hosts, "c").is_empty());
        let text = "search x\nnameserver 10.0.2.3\n nameserver ::1\nnameserver what\n";
        let servers = ["10.0.2.3:53", "[::1]:53"].map(|text| text.parse().unwrap());
        assert_eq!(named_in(text), servers);
    }

    #[test]
    fn addresses_and_localhost_take_no_resolver() {
        let local: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(known("LocalHost.").unwrap(), local);
        assert_eq!(known("a.localhost").unwrap(), local);
        assert_eq!(known("::1").unwrap(), local[1..]);
        assert_eq!(known("example.com"), None);
    }
}
