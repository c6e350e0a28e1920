//! tane net ping: echo requests (RFC 792, RFC 4443) by a raw socket of the kernel's.

use super::{addresses, unreached, Networked, Wire};
use crate::args::parse_time;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::output::Output;
use crate::session::Global;
use serde_json::json;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tane::net::Socket;
use tane::Kernel;

/// Bytes behind the header of a request: as ping(8) has it, and what it says.
const DATA: usize = 56;
const HEADER: usize = 8;
const ICMPV6: i32 = 58;

/// Send echo requests to a host, and tell which are answered
#[derive(clap::Args)]
#[command(after_help = "\
Lines are those of ping(8). With --net user it takes a host that lets its users send echo
requests (the sysctl net.ipv4.ping_group_range), and others say that it is forbidden.

Exit codes:
  0    at least one was answered
  1    none was, or the host has no address")]
pub struct Args {
    /// An address, or a name
    pub host: String,
    /// How many requests
    #[arg(short, long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
    /// From one to the next
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub interval: Duration,
    /// How long the last one is waited for
    #[arg(short = 'W', long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    pub timeout: Duration,
    /// Addresses of IPv6 alone
    #[arg(short = '6', long, conflicts_with = "four")]
    pub six: bool,
    /// Addresses of IPv4 alone
    #[arg(short = '4', long)]
    pub four: bool,
    #[command(flatten)]
    wire: Wire,
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    let networked = Networked::start(&args.wire, None, global)?;
    let done = ping(networked.kernel(), args, global);
    networked.end(done)
}

struct Answer {
    sequence: u16,
    bytes: usize,
    /// IPv6 does not say it here.
    ttl: Option<u8>,
    time: Duration,
}

fn ping(kernel: &Kernel, args: &Args, global: &Global) -> Result<u8> {
    let is_wanted = |ip: &IpAddr| !(args.six && ip.is_ipv4() || args.four && ip.is_ipv6());
    let found = addresses(kernel, &args.host)?.into_iter().find(is_wanted);
    let Some(to) = found else {
        let text = format!("{}: has no address of that kind", args.host);
        return Err(Failure::new(SOME_FAILED, text));
    };
    let fail = |e: io::Error| Failure::new(SOME_FAILED, format!("ping {to}: {e}"));
    let echo = Echo::new(kernel, to).map_err(fail)?;
    let mut out = Output::new();
    if !global.json && !global.quiet {
        out.line(&format!("PING {} ({to}) {DATA} bytes of data.", args.host))?;
        out.flush()?;
    }
    let (mut times, mut last) = (Vec::new(), None);
    let mut sent = 0;
    for sequence in 1..=args.count {
        let begun = Instant::now();
        let is_last = sequence == args.count;
        let until = begun + if is_last { args.timeout } else { args.interval };
        match echo.send(sequence) {
            Ok(()) => sent += 1,
            Err(error) => last = Some(error),
        }
        loop {
            match echo.receive(until) {
                Ok(Some(answer)) => {
                    times.push(answer.time.as_secs_f64() * 1e3);
                    tell(&mut out, to, &answer, global)?;
                    if is_last && answer.sequence == sequence {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => last = Some(error),
            }
            interrupt::check()?;
        }
    }
    if let (true, Some(error)) = (times.is_empty(), &last) {
        // As ping(8) says it of each.
        crate::tell::failure(&unreached(SocketAddr::new(to, 0), error, &args.wire.net));
    }
    summary(&mut out, args, to, sent, &times, global)?;
    Ok(if times.is_empty() { SOME_FAILED } else { 0 })
}

fn tell(out: &mut Output, to: IpAddr, answer: &Answer, global: &Global) -> Result<()> {
    let (sequence, ms) = (answer.sequence, answer.time.as_secs_f64() * 1e3);
    if global.json {
        out.json(&json!({
            "from": to.to_string(), "seq": sequence, "bytes": answer.bytes,
            "ttl": answer.ttl, "ms": ms,
        }))?;
    } else if !global.quiet {
        let ttl = answer
            .ttl
            .map_or(String::new(), |ttl| format!(" ttl={ttl}"));
        out.line(&format!(
            "{} bytes from {to}: icmp_seq={sequence}{ttl} time={ms:.3} ms",
            answer.bytes
        ))?;
    }
    out.flush()
}

fn summary(
    out: &mut Output,
    args: &Args,
    to: IpAddr,
    sent: u32,
    times: &[f64],
    global: &Global,
) -> Result<()> {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    if global.json {
        let known = |ms: f64| (!times.is_empty()).then_some(ms);
        out.json(&json!({
            "host": args.host, "address": to.to_string(), "sent": sent,
            "received": times.len(), "min_ms": known(least), "avg_ms": known(mean),
            "max_ms": known(most),
        }))?;
    } else if !global.quiet {
        let lost = sent.saturating_sub(times.len() as u32);
        let percent = 100 * lost / sent.max(1);
        out.line(&format!("\n--- {} ping statistics ---", args.host))?;
        out.line(&format!(
            "{sent} packets transmitted, {} received, {percent}% packet loss",
            times.len()
        ))?;
        if !times.is_empty() {
            out.line(&format!(
                "rtt min/avg/max = {least:.3}/{mean:.3}/{most:.3} ms"
            ))?;
        }
    }
    out.flush()
}

/// A socket for requests to one address and their answers.
struct Echo {
    socket: Socket,
    is_6: bool,
    number: u16,
    begun: Instant,
}

impl Echo {
    fn new(kernel: &Kernel, to: IpAddr) -> io::Result<Self> {
        let is_6 = to.is_ipv6();
        let (family, protocol) = match is_6 {
            true => (libc::AF_INET6, ICMPV6),
            false => (libc::AF_INET, libc::IPPROTO_ICMP),
        };
        let socket = Socket::new(kernel, family, libc::SOCK_RAW, protocol)?;
        socket.connect(&SocketAddr::new(to, 0))?;
        Ok(Self {
            socket,
            is_6,
            number: std::process::id() as u16,
            begun: Instant::now(),
        })
    }

    /// When it was sent stands in it.
    fn send(&self, sequence: u16) -> io::Result<()> {
        let mut message = vec![0; HEADER + DATA];
        message[0] = if self.is_6 { 128 } else { 8 };
        message[4..6].copy_from_slice(&self.number.to_be_bytes());
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        let now = self.begun.elapsed().as_nanos() as u64;
        message[8..16].copy_from_slice(&now.to_be_bytes());
        if !self.is_6 {
            // Linux computes that of ICMPv6.
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send(&message, None, 0).map(drop)
    }

    /// The next answer until then.
    fn receive(&self, until: Instant) -> io::Result<Option<Answer>> {
        let mut room = [0; 2048];
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(None);
            }
            self.socket.set_timeout(libc::SO_RCVTIMEO, Some(rest))?;
            let n = match self.socket.receive(&mut room, 0, false) {
                Ok((n, _)) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some(answer) = self.answer(&room[..n]) {
                return Ok(Some(answer));
            }
        }
    }

    /// Others' answers come here, too, and requests to oneself.
    fn answer(&self, packet: &[u8]) -> Option<Answer> {
        let (message, ttl) = match self.is_6 {
            true => (packet, None),
            false => {
                let length = usize::from(packet.first()? & 15) * 4;
                (packet.get(length..)?, Some(*packet.get(8)?))
            }
        };
        let word = |at: usize| {
            Some(u16::from_be_bytes([
                *message.get(at)?,
                *message.get(at + 1)?,
            ]))
        };
        let kind = if self.is_6 { 129 } else { 0 };
        if *message.first()? != kind || word(4)? != self.number {
            return None;
        }
        let sent = u64::from_be_bytes(message.get(8..16)?.try_into().ok()?);
        Some(Answer {
            sequence: word(6)?,
            bytes: message.len(),
            ttl,
            time: self
                .begun
                .elapsed()
                .saturating_sub(Duration::from_nanos(sent)),
        })
    }
}

/// RFC 1071
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn checksums_are_those_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&[0xff]), !0xff00);
    }
}
