//! A web server of a test's own, which does what the test says and nothing else:
//! for what a well-behaved one never does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A request as it came.
#[derive(Debug)]
pub struct Request {
    /// GET, or another.
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    /// How many came before it, on all connections.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// First and last byte that it asks for.
    pub fn range(&self) -> Option<(usize, usize)> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// What is answered.
#[derive(Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// After so many bytes of the body the connection ends.
    pub cut: Option<usize>,
    /// No `Content-Length`; the end of the connection is that of the body.
    pub unmeasured: bool,
    /// Nothing is answered; the connection stays.
    pub silent: bool,
    /// Hand what follows on to this address: CONNECT.
    pub tunnel: Option<String>,
}

impl Reply {
    pub fn status(status: u16) -> Reply {
        Reply {
            status,
            ..Reply::default()
        }
    }

    pub fn header(mut self, line: impl Into<String>) -> Reply {
        self.headers.push(line.into());
        self
    }

    /// The part of `file` that was asked for; all of it if none was.
    pub fn part(file: &[u8], request: &Request) -> Reply {
        let Some((first, last)) = request.range() else {
            return Reply {
                body: file.to_vec(),
                ..Reply::status(200)
            };
        };
        if first >= file.len() {
            return Reply::status(416).header(format!("Content-Range: bytes */{}", file.len()));
        }
        let last = last.min(file.len() - 1);
        Reply {
            body: file[first..=last].to_vec(),
            ..Reply::status(206)
        }
        .header(format!(
            "Content-Range: bytes {first}-{last}/{}",
            file.len()
        ))
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// It serves until it is dropped.
pub struct Server {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// On a port of its own, for this machine only.
    pub fn new(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let ending = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(AtomicUsize::new(0));
        let handler: Arc<Handler> = Arc::new(handler);
        let (end, count) = (ending.clone(), requests.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), handler) = (stream, handler.clone()) else {
                    continue;
                };
                let (end, count) = (end.clone(), count.clone());
                std::thread::spawn(move || serve(&stream, &*handler, &end, &count));
            }
        });
        Server {
            address,
            ending,
            requests,
            thread: Some(thread),
        }
    }

    /// One that always does the right thing with this file.
    pub fn of(file: Vec<u8>) -> Server {
        Server::new(move |request| Reply::part(&file, request).header("ETag: \"1\""))
    }

    /// `http://127.0.0.1:PORT/name`
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// How many came so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
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

/// Answer what comes on a connection; None at its end.
fn serve(
    stream: &TcpStream,
    handler: &Handler,
    ending: &AtomicBool,
    count: &AtomicUsize,
) -> Option<()> {
    let mut input = BufReader::new(stream);
    let mut output = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut words = lines.first()?.split(' ');
        let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
        let request = Request {
            method: words.next()?.to_owned(),
            target: words.next()?.to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            number: count.fetch_add(1, Ordering::SeqCst),
        };
        let reply = handler(&request);
        while reply.silent && !ending.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(to) = &reply.tunnel {
            output.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
            return tunnel(stream, input, to);
        }
        let mut head = format!("HTTP/1.1 {} Test\r\n", reply.status);
        for line in &reply.headers {
            head += &format!("{line}\r\n");
        }
        if !reply.unmeasured {
            head += &format!("Content-Length: {}\r\n", reply.body.len());
        }
        output.write_all((head + "\r\n").as_bytes()).ok()?;
        let end = reply.cut.unwrap_or(reply.body.len());
        output
            .write_all(&reply.body[..end.min(reply.body.len())])
            .ok()?;
        if reply.cut.is_some() || reply.unmeasured {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return None;
        }
    }
}

fn tunnel(near: &TcpStream, mut input: BufReader<&TcpStream>, to: &str) -> Option<()> {
    let far = TcpStream::connect(to).ok()?;
    let (mut back, mut answers) = (near.try_clone().ok()?, far.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    loop {
        match input.read(&mut bytes).ok()? {
            0 => {
                let _ = far.shutdown(std::net::Shutdown::Both);
                return None;
            }
            n => (&far).write_all(&bytes[..n]).ok()?,
        }
    }
}
