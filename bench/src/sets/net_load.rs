//! What goes over a network: who serves, who asks, and how long it takes.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use tane::net::{TcpListener, TcpStream, UdpSocket};
use tane::Kernel;

/// Bytes to and fro.
const SMALL: usize = 64;
/// How long one figure is measured.
const TIME: Duration = Duration::from_millis(100);
/// Nobody waits longer for anybody.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// To and fro, one thread at both ends.
    Alone,
    /// To and fro, a thread at each end.
    RoundTrip,
    /// One way, in messages of so many bytes.
    Stream(usize),
    /// The same by UDP; what arrives counts.
    Datagram(usize),
    /// One way by so many connections, a message of each in turn.
    Many(usize),
}

/// Of a message of [`Load::Many`].
const MESSAGE: usize = 64 << 10;

impl Load {
    pub fn of(name: &str) -> Result<Load, String> {
        Ok(match name.rsplit_once('-').unwrap_or_default() {
            ("net-loopback", _) | ("net-pair", "rr") => Load::Alone,
            (_, "rr") => Load::RoundTrip,
            ("net-tap-udp", "64") => Load::Datagram(64),
            ("net-tap-udp", "1k") => Load::Datagram(1 << 10),
            ("net-tap-udp", "8k") => Load::Datagram(8 << 10),
            // The most that one has.
            ("net-tap-udp", "64k") => Load::Datagram(65_507),
            ("net-tap", "many") => Load::Many(500),
            (_, "64") => Load::Stream(64),
            (_, "4k") => Load::Stream(4 << 10),
            (_, "64k") => Load::Stream(64 << 10),
            _ => return Err(format!("no load is called {name}")),
        })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A thread that serves, and what it has got.
pub struct Server {
    pub address: SocketAddr,
    bytes: Arc<AtomicU64>,
}

impl Server {
    /// Serve at an address of a kernel's, in a thread that does `prepare` first. It ends
    /// when its client does.
    pub fn start(
        kernel: Kernel,
        ip: [u8; 4],
        load: Load,
        prepare: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (say, address) = mpsc::channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let got = bytes.clone();
        std::thread::spawn(move || {
            let prepared = prepare().and_then(|()| Socket::bind(&kernel, ip, load));
            match prepared {
                Ok((socket, address)) => {
                    say.send(Ok(address)).ok();
                    // An error is the client's too.
                    socket.serve(load, &got).ok();
                }
                Err(error) => {
                    say.send(Err(error)).ok();
                }
            }
        });
        let address = address.recv_timeout(PATIENCE).map_err(text)??;
        Ok(Self { address, bytes })
    }
}

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Socket {
    fn bind(kernel: &Kernel, ip: [u8; 4], load: Load) -> Result<(Self, SocketAddr), String> {
        if let Load::Datagram(_) = load {
            let socket = UdpSocket::bind(kernel, (ip, 0)).map_err(text)?;
            let address = socket.local_addr().map_err(text)?;
            return Ok((Self::Udp(socket), address));
        }
        let listener = TcpListener::bind(kernel, (ip, 0)).map_err(text)?;
        let address = listener.local_addr().map_err(text)?;
        Ok((Self::Tcp(listener), address))
    }

    fn serve(&self, load: Load, got: &AtomicU64) -> std::io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        let listener = match self {
            Self::Tcp(listener) => listener,
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                loop {
                    let n = socket.recv(&mut buffer)?;
                    got.fetch_add(n as u64, Ordering::Relaxed);
                }
            }
        };
        if let Load::Many(count) = load {
            let streams: Result<Vec<_>, _> = (0..count).map(|_| listener.accept()).collect();
            let mut streams = streams?;
            let message = &mut buffer[..MESSAGE];
            loop {
                // In the order in which they are written.
                for (stream, _) in &mut streams {
                    stream.read_exact(message)?;
                    got.fetch_add(MESSAGE as u64, Ordering::Relaxed);
                }
            }
        }
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        loop {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            got.fetch_add(n as u64, Ordering::Relaxed);
            if load == Load::RoundTrip {
                stream.write_all(&buffer[..n])?;
            }
        }
    }
}

/// Who asks: a figure is the time of one message, in ns.
pub enum Client {
    Alone(TcpStream, TcpStream),
    Tcp(TcpStream, Server, Load),
    Udp(UdpSocket, Server, usize),
    Many(Vec<TcpStream>, Server),
}

impl Client {
    /// A client at both ends.
    pub fn alone(from: &Kernel, to: &Kernel, ip: [u8; 4]) -> Result<Self, String> {
        let listener = TcpListener::bind(to, (ip, 0)).map_err(text)?;
        Self::alone_with(from, &listener)
    }

    pub fn alone_with(from: &Kernel, listener: &TcpListener) -> Result<Self, String> {
        let address = listener.local_addr().map_err(text)?;
        let here = connect(from, address)?;
        let (there, _) = listener.accept().map_err(text)?;
        there.set_nodelay(true).map_err(text)?;
        Ok(Self::Alone(here, there))
    }

    pub fn of(kernel: &Kernel, ip: [u8; 4], server: Server, load: Load) -> Result<Self, String> {
        if let Load::Datagram(bytes) = load {
            let socket = UdpSocket::bind(kernel, (ip, 0)).map_err(text)?;
            socket.connect(server.address).map_err(text)?;
            return Ok(Self::Udp(socket, server, bytes));
        }
        if let Load::Many(count) = load {
            let streams = (0..count).map(|_| connect(kernel, server.address));
            return Ok(Self::Many(streams.collect::<Result<_, _>>()?, server));
        }
        let stream = connect(kernel, server.address)?;
        Ok(Self::Tcp(stream, server, load))
    }

    pub fn figure(&mut self) -> Result<f64, String> {
        match self {
            Self::Alone(here, there) => timed(|| {
                let mut bytes = [0; SMALL];
                here.write_all(&bytes)?;
                there.read_exact(&mut bytes)?;
                there.write_all(&bytes)?;
                here.read_exact(&mut bytes)
            }),
            Self::Tcp(stream, _, Load::RoundTrip) => timed(|| {
                let mut bytes = [0; SMALL];
                stream.write_all(&bytes)?;
                stream.read_exact(&mut bytes)
            }),
            Self::Tcp(stream, server, Load::Stream(bytes)) => {
                let message = vec![1; *bytes];
                flow(server, *bytes, true, || stream.write_all(&message))
            }
            Self::Tcp(..) => Err("no such load".into()),
            Self::Many(streams, server) => {
                let (message, mut next) = (vec![1; MESSAGE], (0..streams.len()).cycle());
                flow(server, MESSAGE, true, || {
                    let at = next.next().unwrap_or_default();
                    streams[at].write_all(&message)
                })
            }
            Self::Udp(socket, server, bytes) => {
                let message = vec![1; *bytes];
                // Nobody is there yet, or no room: lost, as what is not received.
                flow(server, *bytes, false, || {
                    socket.send(&message).map(drop).or(Ok(()))
                })
            }
        }
    }
}

fn connect(kernel: &Kernel, address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(kernel, address).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
    Ok(stream)
}

fn timed(mut once: impl FnMut() -> std::io::Result<()>) -> Result<f64, String> {
    for _ in 0..100 {
        once().map_err(text)?;
    }
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..20 {
            once().map_err(text)?;
        }
        count += 20;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Send for some time; what has arrived counts, all of it if none may be lost.
fn flow(
    server: &Server,
    bytes: usize,
    all: bool,
    mut once: impl FnMut() -> std::io::Result<()>,
) -> Result<f64, String> {
    let got = || server.bytes.load(Ordering::Relaxed);
    let mut sent = 0;
    let before = got();
    let start = Instant::now();
    while start.elapsed() < TIME {
        for _ in 0..20 {
            once().map_err(text)?;
        }
        sent += 20 * bytes as u64;
    }
    while all && got() - before < sent {
        if start.elapsed() > PATIENCE {
            return Err("what was sent does not arrive".into());
        }
        std::hint::spin_loop();
    }
    let time = start.elapsed().as_nanos() as f64;
    let messages = (got() - before) / bytes as u64;
    match messages {
        0 => Err("nothing arrived".into()),
        n => Ok(time / n as f64),
    }
}
