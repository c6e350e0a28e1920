//! Names: queries go to the host's resolvers, and what they answer may be reached.

use super::dns;
use super::host;
use super::message::LONGEST_NAME_MESSAGE;
use super::policy::Policy;
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// As long a resolver may take before the next one is asked: resolv.conf(5) has five
/// seconds, which are the whole patience of who asks.
const PATIENCE: Duration = Duration::from_millis(2_000);
const ROUNDS: usize = 2;
const PORT: u16 = 53;
/// As resolv.conf(5) has it.
const MOST: usize = 3;

/// Whom the host asks.
pub fn of_host() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let found = named_in(&text);
    match found.is_empty() {
        // resolv.conf(5): without one it is this machine.
        true => vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)],
        false => found,
    }
}

fn named_in(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().map(str::split_ascii_whitespace);
    let servers = words.filter_map(|mut words| {
        (words.next() == Some("nameserver"))
            .then(|| words.next())
            .flatten()
    });
    servers.filter_map(server).take(MOST).collect()
}

fn server(text: &str) -> Option<SocketAddr> {
    let Some((address, zone)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, PORT));
    };
    let index = zone.parse().ok().or_else(|| {
        let zone = CString::new(zone).ok()?;
        // SAFETY: reads a string.
        Some(unsafe { libc::if_nametoindex(zone.as_ptr()) })
    })?;
    Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, index).into())
}

/// What the resolvers, or the policy, answer to a query; `None`: it is none. Waits.
pub fn answer(
    query: &[u8],
    long: bool,
    resolvers: &[SocketAddr],
    policy: &Policy,
) -> Option<Vec<u8>> {
    let question = dns::question(query)?;
    if !policy.permits_name(&question.name) {
        return Some(dns::refusal(query, &question, dns::REFUSED));
    }
    for _ in 0..ROUNDS {
        for resolver in resolvers {
            let answer = match long {
                true => by_stream(query, *resolver),
                false => by_datagram(query, *resolver),
            };
            let Ok(answer) = answer else {
                continue;
            };
            policy.learn(&question.name, &dns::addresses(&answer));
            return Some(answer);
        }
    }
    Some(dns::refusal(query, &question, dns::FAILED))
}

fn by_datagram(query: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let socket = host::udp(resolver)?;
    let mut answer = vec![0; LONGEST_NAME_MESSAGE];
    // SAFETY: reads these bytes.
    let sent = unsafe { libc::write(socket.as_raw_fd(), query.as_ptr().cast(), query.len()) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        let mut polled = [host::polled(socket.as_raw_fd(), libc::POLLIN)];
        if rest.is_zero() || host::poll(&mut polled, rest.as_millis() as i32 + 1)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let fd = socket.as_raw_fd();
        // SAFETY: writes into these bytes.
        let n = unsafe { libc::read(fd, answer.as_mut_ptr().cast(), answer.len()) };
        match n {
            0.. if dns::answers(&answer[..n as usize], query) => {
                answer.truncate(n as usize);
                return Ok(answer);
            }
            // Somebody else's guess.
            0.. => {}
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => {}
                error => return Err(error),
            },
        }
    }
}

fn by_stream(query: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&resolver, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&length, query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    match dns::answers(&answer, query) {
        true => Ok(answer),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_as_resolv_conf_has_them() {
        let text = "# nameserver 1.1.1.1\nsearch a\nnameserver 192.0.2.1 # one\n\
                    nameserver\t2001:db8::1\nnameserver fe80::1%7\nnameserver 192.0.2.9\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53"];
        let expected: Vec<SocketAddr> = expected.map(|text| text.parse().unwrap()).into();
        assert_eq!(named_in(text), expected);
    }
}
