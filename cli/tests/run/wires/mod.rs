//! Promises of `tane net`: what it sends and serves goes by the network that was named, and
//! by no other.

mod fetch;
mod ping;
mod serve;

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tane_test_support::eventually;
use tane_test_support::http::Server;

const LONG: Duration = Duration::from_secs(300);
/// The host's loopback interface, as it is seen from inside.
const HOST: &str = "10.0.2.2";

fn scratch() -> Option<Scratch> {
    tane_test_support::image("default").map(|_| Scratch::new())
}

fn net(s: &Scratch, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.arg("net").args(words);
    command
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn said(mut command: Command) -> Said {
    let output = command.output().expect("tane");
    Said {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

#[track_caller]
fn says(command: Command, code: i32, out: &str, err: &str) {
    let said = said(command);
    assert!(
        said.code == Some(code) && said.out == out && said.err.contains(err),
        "{:?}\n{}\n{}",
        said.code,
        said.out,
        said.err
    );
}

fn port(server: &Server) -> u16 {
    let address: SocketAddr = server.address().parse().expect("an address");
    address.port()
}

/// A server, which has said where it is, and its client.
struct Serving {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(mut command: Command) -> (Self, String) {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("tane");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut serving = Self { child, errors };
        let mut line = String::new();
        serving.errors.read_line(&mut line).expect("where it is");
        (serving, line)
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().expect("piped");
        stdout.read_to_string(&mut out).expect("what it served");
        (self.child.wait().expect("its end").code(), out)
    }
}

fn request(at: SocketAddr, request: &str) -> String {
    let mut answer = String::new();
    // It listens a moment after it has said so.
    eventually("it answers", || {
        answer.clear();
        let Ok(mut stream) = TcpStream::connect(at) else {
            return false;
        };
        stream.set_read_timeout(Some(LONG)).expect("a time");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream.read_to_string(&mut answer).is_ok() && !answer.is_empty()
    });
    answer
}

#[test]
fn what_makes_no_sense_is_said_with_its_remedy() {
    let Some(s) = scratch() else { return };
    let wrong = |words: &[&str], part: &str| says(net(&s, words), 2, "", part);
    wrong(&["http", "https://a/"], "http alone");
    wrong(&["http", "a"], "write http://");
    wrong(
        &["ping", "::1", "--net", "bridge"],
        "write none, user, tap=NAME or switch=PATH",
    );
    wrong(
        &["ping", "::1", "--address", "10.0.0.1/24"],
        "--address is about a wire",
    );
    wrong(
        &["ping", "::1", "--net", "none", "--dns", "1.1.1.1"],
        "--dns is about a network",
    );
    wrong(
        &["ping", "::1", "--net", "tap=t", "--allow", "host"],
        "--allow is about the host's",
    );
    wrong(
        &["ping", "::1", "--net", "tap=t", "--address", "1.2.3.4"],
        "write ADDRESS/BITS",
    );
    wrong(
        &["ping", "::1", "--net", "none", "--impair", "loss=1%"],
        "--impair is about a network",
    );
    wrong(&["ping", "::1", "-c", "0"], "");
    let nobody = net(&s, &["ping", "::1", "--net", "switch=nobody"]);
    says(nobody, 3, "", "is to be started first");
    let long = net(&s, &["ping", "::1", "--net", "tap=a-name-that-is-too-long"]);
    says(long, 3, "", "at most 15 bytes");
}
