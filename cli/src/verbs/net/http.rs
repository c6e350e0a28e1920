//! tane net http: one document of a web server, by HTTP/1.1 (RFC 9112).

use super::{addresses, unreached, Networked, Wire};
use crate::args::Net;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::output::Output;
use crate::session::Global;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tane::net::TcpStream;
use tane::Kernel;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a header, and of the line before a piece.
const LONGEST: u64 = 64 << 10;

/// Fetch what a URL of http names, and write it to standard output
#[derive(clap::Args)]
#[command(after_help = "\
It is one request, without redirects, cookies or https: enough to see whether and what a server
answers by this network.

Exit codes:
  0    the server has answered with a status below 400
  1    it has answered with another one, or not at all")]
pub struct Args {
    /// http://HOST[:PORT][/PATH]
    pub url: String,
    /// The header as well
    #[arg(short, long)]
    pub include: bool,
    /// The header alone
    #[arg(short = 'I', long)]
    pub head: bool,
    #[command(flatten)]
    wire: Wire,
}

#[derive(Debug, PartialEq, Eq)]
struct Url {
    /// As it is sent.
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Failure::usage(format!("net: {text:?}: {why}"));
        if text.starts_with("https:") {
            return Err(wrong("there is http alone, without the s"));
        }
        let rest = text.strip_prefix("http://");
        let rest = rest.ok_or_else(|| wrong("write http://HOST[:PORT][/PATH]"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = match path.strip_prefix('?') {
            Some(query) => format!("/?{query}"),
            None if path.is_empty() => "/".into(),
            None => path.into(),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(rest) {
            return Err(wrong("what is no letter, digit or sign is written %XX"));
        }
        let bracket = authority.rfind(']').unwrap_or(0);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => {
                let port = authority[bracket + at + 1..].parse();
                let port = port.map_err(|_| wrong("a port is a number"))?;
                (&authority[..bracket + at], port)
            }
            None => (authority, 80),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || authority.contains('@') {
            return Err(wrong("write http://HOST[:PORT][/PATH]"));
        }
        Ok(Self {
            authority: authority.into(),
            host: host.into(),
            port,
            path,
        })
    }
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    let url = Url::parse(&args.url)?;
    let networked = Networked::start(&args.wire, None, global)?;
    let done = fetch(networked.kernel(), &url, args);
    networked.end(done)
}

fn connect(kernel: &Kernel, url: &Url, net: &Net) -> Result<TcpStream> {
    let mut last = None;
    for ip in addresses(kernel, &url.host)? {
        let to = SocketAddr::new(ip, url.port);
        match TcpStream::connect_timeout(kernel, &to, PATIENCE) {
            Ok(stream) => return Ok(stream),
            // The first says more than what was tried instead of it.
            Err(error) => last = last.or(Some(unreached(to, &error, net))),
        }
        interrupt::check()?;
    }
    let none = || Failure::new(SOME_FAILED, format!("{}: has no address", url.host));
    Err(last.unwrap_or_else(none))
}

fn fetch(kernel: &Kernel, url: &Url, args: &Args) -> Result<u8> {
    let fail = |e: io::Error| {
        let text = match e.kind() {
            io::ErrorKind::WouldBlock => "the server is silent".into(),
            _ => e.to_string(),
        };
        Failure::new(SOME_FAILED, format!("{}: {text}", args.url))
    };
    let mut stream = connect(kernel, url, &args.wire.net)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
    let method = if args.head { "HEAD" } else { "GET" };
    let request = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tane\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n",
        url.path, url.authority
    );
    stream.write_all(request.as_bytes()).map_err(fail)?;
    let mut from = BufReader::new(stream);
    let head = Head::read(&mut from).map_err(fail)?;
    let mut out = Output::new();
    if args.include || args.head {
        out.bytes(&head.text)?;
    }
    let has_body = !args.head && !matches!(head.status, 204 | 304);
    if has_body {
        let mut copied = |data: &[u8]| -> Result<()> {
            interrupt::check()?;
            out.bytes(data)
        };
        match head.length {
            Length::Known(length) => {
                let got = pass_on(&mut (&mut from).take(length), &fail, &mut copied)?;
                if got < length {
                    return Err(fail(cut(got, length)));
                }
            }
            Length::Pieces => while pass_piece(&mut from, &fail, &mut copied)? {},
            Length::ToTheEnd => drop(pass_on(&mut from, &fail, &mut copied)?),
        }
    }
    out.flush()?;
    if head.status >= 400 {
        let line = head
            .text
            .split(|byte| *byte == b'\r' || *byte == b'\n')
            .next();
        let line = crate::names::plain(line.unwrap_or_default());
        let text = format!("{}: the server says {line}", args.url);
        return Err(Failure::new(SOME_FAILED, text));
    }
    Ok(0)
}

fn cut(got: u64, of: u64) -> io::Error {
    let text = format!("the connection ended after {got} of {of} bytes");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

fn pass_on(
    from: &mut impl Read,
    fail: &impl Fn(io::Error) -> Failure,
    to: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let (mut buffer, mut all) = (vec![0; 64 << 10], 0);
    loop {
        match from.read(&mut buffer).map_err(fail)? {
            0 => return Ok(all),
            n => {
                to(&buffer[..n])?;
                all += n as u64;
            }
        }
    }
}

/// The next piece of "Transfer-Encoding: chunked"; false: it was the last.
fn pass_piece(
    from: &mut impl BufRead,
    fail: &impl Fn(io::Error) -> Failure,
    to: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<bool> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a piece without a length");
    let line = line(from).map_err(fail)?;
    let digits = line
        .split(|byte| matches!(byte, b';' | b'\r' | b'\n' | b' '))
        .next();
    let digits = std::str::from_utf8(digits.unwrap_or_default()).unwrap_or_default();
    let length = u64::from_str_radix(digits, 16).map_err(|_| fail(wrong()))?;
    let got = pass_on(&mut from.take(length), fail, to)?;
    if got < length {
        return Err(fail(cut(got, length)));
    }
    if length > 0 {
        // The end of the line that it was.
        self::line(from).map_err(fail)?;
    }
    Ok(length > 0)
}

fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line)?;
    match line.ends_with(b"\n") {
        true => Ok(line),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what the server says is no HTTP",
        )),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Known(u64),
    Pieces,
    ToTheEnd,
}

struct Head {
    text: Vec<u8>,
    status: u16,
    length: Length,
}

impl Head {
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        loop {
            let head = Self::read_one(from)?;
            // "100 Continue" and its like come before the answer.
            if head.status >= 200 {
                return Ok(head);
            }
        }
    }

    fn read_one(from: &mut impl BufRead) -> io::Result<Self> {
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        let first = line(from)?;
        let status = std::str::from_utf8(&first).ok();
        let status = status.filter(|line| line.starts_with("HTTP/1."));
        let status = status.and_then(|line| line.split(' ').nth(1)?.trim().parse().ok());
        let status = status.ok_or_else(|| wrong("what the server says is no HTTP"))?;
        let (mut text, mut length) = (first, Length::ToTheEnd);
        loop {
            let line = line(from)?;
            text.extend_from_slice(&line);
            if text.len() as u64 > LONGEST {
                return Err(wrong("the header is too long"));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("transfer-encoding")
                && value.to_ascii_lowercase().ends_with("chunked")
            {
                length = Length::Pieces;
            }
            if name.eq_ignore_ascii_case("content-length") && length != Length::Pieces {
                let known = value
                    .parse()
                    .map_err(|_| wrong("a length that is no number"))?;
                length = Length::Known(known);
            }
        }
        Ok(Self {
            text,
            status,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parse = |text: &str| Url::parse(text).ok().map(|u| (u.host, u.port, u.path));
        let url = |host: &str, port, path: &str| Some((host.into(), port, path.into()));
        assert_eq!(parse("http://a"), url("a", 80, "/"));
        assert_eq!(parse("http://a:8080/b?c#d"), url("a", 8080, "/b?c"));
        assert_eq!(parse("http://[::1]:81?q"), url("::1", 81, "/?q"));
        assert_eq!(parse("http://[::1]"), url("::1", 80, "/"));
        for wrong in [
            "a",
            "https://a",
            "http://",
            "http://a:b",
            "http://u@a",
            "http://a/b c",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pieces_are_put_together_and_a_cut_is_none() {
        let put = |text: &str| {
            let (mut from, mut all) = (text.as_bytes(), Vec::new());
            let fail = |e: io::Error| Failure::new(SOME_FAILED, e.to_string());
            let mut to = |data: &[u8]| -> Result<()> {
                all.extend_from_slice(data);
                Ok(())
            };
            while pass_piece(&mut from, &fail, &mut to).ok()? {}
            String::from_utf8(all).ok()
        };
        assert_eq!(
            put("4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n").as_deref(),
            Some("Wikipedia")
        );
        for wrong in ["4\r\nWik", "x\r\n", "", "4\r\nWiki"] {
            assert_eq!(put(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn heads_say_how_long_the_body_is() {
        let head = |text: &str| {
            Head::read(&mut text.as_bytes())
                .ok()
                .map(|h| (h.status, h.length))
        };
        let ok = "HTTP/1.1 200 OK\r\n";
        assert_eq!(head(&format!("{ok}\r\n")), Some((200, Length::ToTheEnd)));
        let both = format!("{ok}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n");
        assert_eq!(head(&both), Some((200, Length::Pieces)));
        let before = format!("HTTP/1.1 100 Continue\r\n\r\n{ok}content-length: 7\r\n\r\n");
        assert_eq!(head(&before), Some((200, Length::Known(7))));
        for wrong in [
            "",
            "hello\r\n\r\n",
            ok,
            &format!("{ok}Content-Length: x\r\n\r\n"),
        ] {
            assert_eq!(head(wrong), None, "{wrong}");
        }
    }
}
