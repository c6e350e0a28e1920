//! A server of NBD of a test's own, which does what the test says and nothing else: for
//! what a well-behaved one never does. Those are run by [`serve`].

use crate::server::{listens, Process};
use crate::{eventually, tool, PATIENCE};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A client, as the server has it. Its methods do what the protocol says; None: the
/// connection has ended.
pub struct Client<'a> {
    pub stream: TcpStream,
    ending: &'a AtomicBool,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub len: u32,
    /// What is to be written.
    pub data: Vec<u8>,
}

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

/// Flags of an export that has all that there is.
pub const ALL: u16 = 0b110_1101;

impl Client<'_> {
    pub fn get<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    pub fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    /// Fixed newstyle, without zeroes.
    pub fn greet(&mut self) -> Option<()> {
        self.send(b"NBDMAGICIHAVEOPT\0\x03")?;
        self.get::<4>().map(drop)
    }

    /// The next option, and what it says.
    pub fn option(&mut self) -> Option<(u32, Vec<u8>)> {
        assert_eq!(&self.get::<8>()?, b"IHAVEOPT");
        let option = u32::from_be_bytes(self.get()?);
        let mut data = vec![0; u32::from_be_bytes(self.get()?) as usize];
        self.stream.read_exact(&mut data).ok()?;
        Some((option, data))
    }

    pub fn answer(&mut self, option: u32, kind: u32, data: &[u8]) -> Option<()> {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.send(&bytes)
    }

    /// All that comes before requests, for an export of this size and these flags.
    pub fn agree(&mut self, size: u64, flags: u16) -> Option<()> {
        self.greet()?;
        let (option, _) = self.option()?;
        let told = [&[0, 0], &size.to_be_bytes()[..], &flags.to_be_bytes()].concat();
        self.answer(option, 3, &told)?;
        self.answer(option, 1, &[])
    }

    pub fn request(&mut self) -> Option<Request> {
        assert_eq!(u32::from_be_bytes(self.get()?), 0x2560_9513);
        let flags = u16::from_be_bytes(self.get()?);
        let command = u16::from_be_bytes(self.get()?);
        let cookie = u64::from_be_bytes(self.get()?);
        let offset = u64::from_be_bytes(self.get()?);
        let len = u32::from_be_bytes(self.get()?);
        let mut data = vec![0; if command == WRITE { len as usize } else { 0 }];
        self.stream.read_exact(&mut data).ok()?;
        Some(Request {
            flags,
            command,
            cookie,
            offset,
            len,
            data,
        })
    }

    /// Serve these bytes, for reading, and keep what was asked for in the log.
    pub fn serve(&mut self, bytes: &[u8], log: &Mutex<Vec<u16>>) -> Option<()> {
        self.agree(bytes.len() as u64, ALL)?;
        loop {
            let request = self.request()?;
            log.lock().expect("the log").push(request.command);
            let at = request.offset as usize;
            match request.command {
                READ => self.reply(request.cookie, 0, &bytes[at..at + request.len as usize])?,
                DISCONNECT => return None,
                FLUSH => self.reply(request.cookie, 0, &[])?,
                // EPERM.
                _ => self.reply(request.cookie, 1, &[])?,
            }
        }
    }

    pub fn reply(&mut self, cookie: u64, error: u32, data: &[u8]) -> Option<()> {
        let mut bytes = 0x6744_6698_u32.to_be_bytes().to_vec();
        bytes.extend(error.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(data);
        self.send(&bytes)
    }

    /// Say nothing until the test ends.
    pub fn be_silent(&mut self) -> Option<()> {
        while !self.ending.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

/// It serves until it is dropped.
pub struct Server {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// On a port of its own, for this machine only. `script` is run for each client, and
    /// the connection ends with it.
    pub fn new(script: impl Fn(&mut Client) -> Option<()> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let ending = Arc::new(AtomicBool::new(false));
        let (end, script) = (ending.clone(), Arc::new(script));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), end, script) = (stream, end.clone(), script.clone()) else {
                    continue;
                };
                std::thread::spawn(move || {
                    let ending = &*end;
                    let mut client = Client { stream, ending };
                    let _ = script(&mut client);
                    // With what is unread it would be broken off, and what was said lost.
                    let _ = client.stream.shutdown(Shutdown::Write);
                    let _ = client.stream.set_read_timeout(Some(PATIENCE));
                    let _ = std::io::copy(&mut client.stream, &mut std::io::sink());
                });
            }
        });
        Server {
            address,
            ending,
            thread: Some(thread),
        }
    }

    /// `nbd://127.0.0.1:PORT/name`
    pub fn url(&self, name: &str) -> String {
        format!("nbd://{}/{name}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // It waits for somebody.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server that others have written. It ends when this is dropped, and with the thread that
/// started it.
pub struct Served {
    process: Process,
    place: Place,
}

enum Place {
    Socket(PathBuf),
    Port(u16),
}

impl Served {
    fn spawn(server: Command, place: Place) -> Served {
        let process = Process::spawn(server);
        Served { process, place }
    }

    /// Its address, of this export.
    pub fn url(&self, export: &str) -> String {
        match &self.place {
            Place::Socket(socket) => format!("nbd+unix:///{export}?socket={}", socket.display()),
            Place::Port(port) => format!("nbd://127.0.0.1:{port}/{export}"),
        }
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Have nbdkit serve with these words, or qemu-nbd if they begin with that. None, and the
/// test is skipped, where it is missing.
#[track_caller]
pub fn serve(dir: &Path, words: &[&str]) -> Option<Served> {
    let (is_qemu, words) = match words.split_first() {
        Some((&"qemu-nbd", rest)) => (true, rest),
        _ => (false, words),
    };
    let mut numbers = 0..;
    let socket = numbers.find_map(|n: u32| {
        let path = dir.join(format!("nbd-{n}"));
        (!path.exists()).then_some(path)
    });
    let socket = socket.expect("a name");
    let mut server = match is_qemu {
        true => tool("qemu-utils", "qemu-nbd")?,
        false => tool("nbdkit", "nbdkit")?,
    };
    match is_qemu {
        true => server.arg("-t").arg("-k").arg(&socket),
        // A user's own plugins and settings are not asked for.
        false => server.args(["-f", "-U"]).arg(&socket),
    };
    server.args(words).stdin(Stdio::null());
    let served = Served::spawn(server, Place::Socket(socket.clone()));
    eventually("the server listens", || listens(&socket));
    Some(served)
}

/// Have nbdkit serve at a port of this machine that no other program has had meanwhile: it
/// gets the socket, as systemd gives it.
#[track_caller]
pub fn serve_at_port(words: &[&str]) -> Option<Served> {
    let nbdkit = tool("nbdkit", "nbdkit")?;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let mut shell = Command::new("/bin/sh");
    // The number of a process that is not there yet.
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\" 3<&0 </dev/null";
    shell.args(["-c", script, "sh"]).arg(nbdkit.get_program());
    shell.arg("-f").args(words);
    shell.stdin(OwnedFd::from(listener));
    Some(Served::spawn(shell, Place::Port(port)))
}

/// An address at which nobody listens, as long as the socket is there: it has the port.
pub fn refused() -> (TcpStream, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let stream = TcpStream::connect(address).expect("a connection");
    let own = stream.local_addr().expect("its address");
    (stream, format!("nbd://{own}/x"))
}
