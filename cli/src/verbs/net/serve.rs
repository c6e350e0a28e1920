//! tane net serve: files of a directory, by HTTP/1.1 (RFC 9112), to read.

use super::pages::{decoded, kind_of, list};
use super::{Networked, Wire};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::names::plain;
use crate::output::Output;
use crate::session::Global;
use crate::tell;
use serde_json::json;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tane::net::{Forward, TcpListener, TcpStream};
use tane::Kernel;

/// How long a client may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it takes until an interrupt is noticed.
const TURN: Duration = Duration::from_millis(200);
/// Clients at a time; others wait for their turn.
const MOST: usize = 128;
const LONGEST: u64 = 16 << 10;

/// Serve the files of a directory by HTTP
#[derive(clap::Args)]
#[command(after_help = "\
For reading: GET and HEAD, a file index.html or a list for a directory. Nothing outside of DIR
is served, wherever a link leads; hidden files are, if they are asked for. With --net user it
is at http://127.0.0.1:PORT/, or where --publish says; on a wire at the --address.
Ctrl-C ends it.

Example:
  tane net serve site --publish 0.0.0.0:8080:8000")]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The port inside
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// End after so many requests
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    #[command(flatten)]
    wire: Wire,
}

pub fn run(mut args: Args, global: &Global) -> Result<u8> {
    let root = args.directory.canonicalize();
    let root = root.map_err(|e| Failure::of_host(&args.directory, &e))?;
    if !root.is_dir() {
        let text = format!("{}: is no directory", args.directory.display());
        return Err(Failure::usage(text));
    }
    if args.wire.net == crate::args::Net::User && args.wire.options.publish.is_empty() {
        let listen = SocketAddr::from(([127, 0, 0, 1], args.port));
        let to = args.port;
        args.wire.options.publish.push(Forward { listen, to });
    }
    // What was captured is to be written to the end.
    interrupt::be_orderly();
    let networked = Networked::start(&args.wire, Some(&root), global)?;
    if !global.quiet {
        tell_where(&args);
    }
    let done = serve(networked.kernel(), root, &args, global);
    networked.end(done)
}

fn tell_where(args: &Args) {
    let dir = plain(args.directory.as_os_str().as_bytes());
    let forwards = args.wire.options.publish.iter();
    // Those that the host chooses have been told.
    for at in forwards.map(|f| f.listen).filter(|at| at.port() != 0) {
        tell::note(&format!("{dir} is served at http://{at}/"));
    }
    for address in &args.wire.options.address {
        let at = SocketAddr::new(address.0, args.port);
        tell::note(&format!("{dir} is served at http://{at}/"));
    }
}

struct Server {
    root: PathBuf,
    is_json: bool,
    is_quiet: bool,
    /// How many are served.
    active: Mutex<usize>,
    fewer: Condvar,
}

fn serve(kernel: &Kernel, root: PathBuf, args: &Args, global: &Global) -> Result<u8> {
    let fail = |e: io::Error| Failure::image(format!("port {}: {e}", args.port));
    // Of IPv6 and, unless the kernel was told otherwise, of IPv4.
    let listener = TcpListener::bind(kernel, ([0u16; 8], args.port)).map_err(fail)?;
    let socket: &tane::net::Socket = listener.as_ref();
    socket
        .set_timeout(libc::SO_RCVTIMEO, Some(TURN))
        .map_err(fail)?;
    let server = Arc::new(Server {
        root,
        is_json: global.json,
        is_quiet: global.quiet,
        active: Mutex::new(0),
        fewer: Condvar::new(),
    });
    let mut left = args.requests;
    while left != Some(0) {
        interrupt::check()?;
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => continue,
            Err(error) => return Err(fail(error)),
        };
        left = left.map(|left| left - 1);
        server.begin(stream, from).map_err(fail)?;
    }
    server.wait_until(0);
    Ok(0)
}

impl Server {
    fn wait_until(&self, few: usize) {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let many = |active: &mut usize| *active > few && !interrupt::requested();
        // It looks for an interrupt now and then.
        let mut active = active;
        while many(&mut active) {
            let waited = self.fewer.wait_timeout(active, TURN);
            active = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn begin(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        self.wait_until(MOST - 1);
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let server = self.clone();
        let thread = std::thread::Builder::new().name("tane-client".into());
        let spawned = thread.stack_size(256 << 10).spawn(move || {
            let done = server.answer(&stream);
            drop(stream);
            if let Ok(Some((request, status, bytes))) = done {
                server.log(from, &request, status, bytes);
            }
            *server.active.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            server.fewer.notify_all();
        });
        spawned.map(drop)
    }

    fn log(&self, from: SocketAddr, request: &str, status: u16, bytes: u64) {
        if self.is_quiet {
            return;
        }
        // Standard output is one thread's at a time; who reads it may have left.
        let mut out = Output::new();
        let from = from.ip().to_canonical();
        let _ = match self.is_json {
            true => out.json(&json!({
                "from": from.to_string(), "request": request, "status": status,
                "bytes": bytes,
            })),
            false => out.line(&format!("{from} \"{request}\" {status} {bytes}")),
        };
        let _ = out.flush();
    }

    /// Answer one request: what it was, the status, and bytes of the body.
    fn answer(&self, stream: &TcpStream) -> io::Result<Option<(String, u16, u64)>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut from = BufReader::new(stream).take(LONGEST);
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let request = plain(line.trim_ascii_end()).into_owned();
        let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
        let (method, target) = (words.next(), words.next());
        let is_http = words
            .next()
            .is_some_and(|word| word.starts_with(b"HTTP/1."));
        // The rest of the header, to the empty line.
        loop {
            let mut line = Vec::new();
            from.read_until(b'\n', &mut line)?;
            if line.trim_ascii_end().is_empty() {
                break;
            }
        }
        let (head, target) = match (method, target) {
            (Some(b"GET"), Some(target)) if is_http => (false, target),
            (Some(b"HEAD"), Some(target)) if is_http => (true, target),
            (Some(_), Some(_)) if is_http => {
                let n = send(
                    stream,
                    501,
                    "text/plain",
                    &[],
                    b"GET and HEAD alone\n",
                    false,
                )?;
                finish(stream)?;
                return Ok(Some((request, 501, n)));
            }
            _ => {
                let n = send(stream, 400, "text/plain", &[], b"no HTTP/1.1\n", false)?;
                finish(stream)?;
                return Ok(Some((request, 400, n)));
            }
        };
        let (status, bytes) = self.give(stream, target, head)?;
        finish(stream)?;
        Ok(Some((request, status, bytes)))
    }

    /// What the target names: the status, and bytes of the body.
    fn give(&self, stream: &TcpStream, target: &[u8], head: bool) -> io::Result<(u16, u64)> {
        let refuse = |status, why: &str| {
            let why = format!("{why}\n");
            let n = send(stream, status, "text/plain", &[], why.as_bytes(), head)?;
            Ok((status, n))
        };
        let Some(path) = self.path_of(target) else {
            return refuse(400, "no path is written so");
        };
        // A link that leads out of the directory leads nowhere.
        let path = match path.canonicalize() {
            Ok(path) if path.starts_with(&self.root) => path,
            Ok(_) => return refuse(404, "not found"),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return refuse(403, "forbidden")
            }
            Err(_) => return refuse(404, "not found"),
        };
        let mut file = path.clone();
        if path.is_dir() {
            let bare = target
                .split(|byte| *byte == b'?')
                .next()
                .unwrap_or_default();
            if !bare.ends_with(b"/") {
                let to = format!("Location: {}/\r\n", plain(bare));
                send(stream, 301, "text/plain", to.as_bytes(), b"", head)?;
                return Ok((301, 0));
            }
            file = path.join("index.html");
            if !file.is_file() {
                let list = list(&path)?;
                let kind = "text/html; charset=utf-8";
                let n = send(stream, 200, kind, &[], list.as_bytes(), head)?;
                return Ok((200, n));
            }
        }
        // A pipe or a device would never end, or never begin.
        let opened = match file.is_file() {
            true => File::open(&file),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        let mut data = match opened {
            Ok(data) => data,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return refuse(403, "forbidden")
            }
            Err(_) => return refuse(404, "not found"),
        };
        let length = data.metadata()?.len();
        header(stream, 200, kind_of(&file), length, &[])?;
        let mut sent = 0;
        let mut buffer = vec![0; 64 << 10];
        // It may grow or shrink meanwhile: no more than was said, and less is an end.
        while !head && sent < length {
            let most = buffer.len().min((length - sent) as usize);
            let n = data.read(&mut buffer[..most])?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut to = stream;
            to.write_all(&buffer[..n])?;
            sent += n as u64;
        }
        Ok((200, sent))
    }

    /// `None`: it would lead out, or is no path.
    fn path_of(&self, target: &[u8]) -> Option<PathBuf> {
        let path = target.split(|byte| matches!(byte, b'?' | b'#')).next()?;
        let path = decoded(path.strip_prefix(b"/")?)?;
        let mut all = self.root.clone();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return None,
                _ if part.contains(&0) => return None,
                _ => all.push(OsStr::from_bytes(part)),
            }
        }
        Some(all)
    }
}

/// What was sent has arrived when the client ends its side, too; before, this process may be
/// gone with all that the kernel had yet to send.
fn finish(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut rest = [0; 4096];
    while stream.read(&mut rest)? > 0 {}
    Ok(())
}

fn header(mut to: &TcpStream, status: u16, kind: &str, length: u64, more: &[u8]) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        301 => "Moved Permanently",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        _ => "Not Implemented",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nServer: tane\r\nConnection: close\r\n\
         Content-Type: {kind}\r\nContent-Length: {length}\r\n"
    );
    to.write_all(&[head.as_bytes(), more, b"\r\n"].concat())
}

/// An answer in one piece; bytes of the body that were sent.
fn send(
    mut to: &TcpStream,
    status: u16,
    kind: &str,
    more: &[u8],
    body: &[u8],
    head: bool,
) -> io::Result<u64> {
    header(to, status, kind, body.len() as u64, more)?;
    if head {
        return Ok(0);
    }
    to.write_all(body)?;
    Ok(body.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_directory() {
        let server = Server {
            root: "/srv".into(),
            is_json: false,
            is_quiet: true,
            active: Mutex::new(0),
            fewer: Condvar::new(),
        };
        let path = |target: &str| server.path_of(target.as_bytes());
        assert_eq!(path("/"), Some("/srv".into()));
        assert_eq!(path("//a/./b%20c?d#e"), Some("/srv/a/b c".into()));
        for wrong in [
            "",
            "a",
            "/..",
            "/a/../b",
            "/%2e%2e/b",
            "/a%00",
            "/%",
            "/%+1",
            "/%2",
        ] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }
}
