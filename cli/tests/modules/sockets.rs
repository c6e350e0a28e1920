//! Promises of modules that have sockets: a small server, and what they are not given.

use crate::common::*;
use crate::libc::musl;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver};
use tane_test_support::PATIENCE;

/// A module that is somebody's server. It ends with this, however the test does: nobody waits for
/// what it has open.
struct Server {
    child: Child,
    /// Of standard error, until that is closed.
    lines: Receiver<String>,
}

impl Server {
    fn start(tane: &mut Command) -> Server {
        let mut child = tane.stderr(Stdio::piped()).spawn().expect("tane");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = errors.lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        Server { child, lines }
    }

    fn port(&self) -> u16 {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line");
        port(&line).unwrap_or_else(|| panic!("{line}"))
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        tane_test_support::eventually("the server ends", || {
            status = self.child.try_wait().expect("its state");
            status.is_some()
        });
        let more = || self.lines.recv_timeout(PATIENCE).ok();
        let rest: Vec<String> = std::iter::from_fn(more).collect();
        (status.expect("it has ended"), rest.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Of `[...] leads to port 80 inside`.
fn port(line: &str) -> Option<u16> {
    let (before, _) = line.split_once(" leads to port ")?;
    before.rsplit(':').next()?.trim().parse().ok()
}

/// None: nobody took the connection, as before the module listens.
fn answered(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let waits = [TcpStream::set_read_timeout, TcpStream::set_write_timeout];
    for set in waits {
        set(&stream, Some(PATIENCE)).expect("a timeout");
    }
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

fn asked(port: u16, request: &str) -> String {
    let mut answer = None;
    tane_test_support::eventually("the server answers", || {
        answer = answered(port, request);
        answer.is_some()
    });
    answer.expect("it has answered")
}

#[test]
fn a_server_in_a_module_gives_the_files_of_its_root_to_the_host() {
    let Some(musl) = musl() else {
        return;
    };
    let s = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../checked-build/examples/http.c");
    let mut build = s.tane();
    build.args(["build", "-o", "http.tmod", "--libc"]).arg(musl);
    succeed(build.arg(&source));
    std::fs::create_dir(s.join("tree")).expect("a directory");
    let page = "a page\n".repeat(20_000);
    s.write("tree/index.html", page.as_bytes());
    s.write("secret", b"not of the root");

    let mut tane = s.tane();
    tane.args([
        "run-module",
        "--root",
        "tree",
        "--net",
        "user",
        "-p",
        "0:80",
        "--",
    ]);
    let server = Server::start(tane.args(["http.tmod", "80", "5"]));
    let port = server.port();

    let given = asked(port, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, content) = given.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(content == page, "{} bytes", content.len());
    for path in ["/../secret", "/x/../../secret", "/secret"] {
        let answer = asked(port, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    let answer = asked(port, "PUT /x HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    let (ended, rest) = server.end();
    assert!(ended.success(), "{rest}");
}

/// What each of these is answered, by a kernel of its own.
const ASKS: &str = "\
#include <tane/module.h>
static long asks(long what, void *scratch)
{
	long fd = socket(2, 1, 0);
	switch (what) {
	case 0: return socket(1, 1, 0);
	case 1: return socket(16, 3, 0);
	case 2: return socket(17, 3, 0);
	case 3: return socket(2, 3, 1);
	case 4: return setsockopt(fd, 1, 26, scratch, 16);
	case 5: return setsockopt(fd, 1, 60, scratch, 4);
	case 6: return getsockopt(fd, 6, 35, scratch, scratch);
	case 7: return setsockopt(fd, 1, 2, (void *)0x10, 4);
	case 8: return connect(fd, (void *)0x10, 16);
	case 9:
		/* Nobody has come, and who that is need not be said. */
		fd = socket(2, 1 | 2048, 0);
		return bind(fd, scratch, 16) || listen(fd, 1) ? 0 : accept4(fd, 0, 0, 0);
	case 10: return fd < 3;
	}
	return 0;
}
static char scratch[64];
int main(int argc, char **argv)
{
	char line[32];
	for (long what = 0; what < 11; what++) {
		long said = -asks(what, scratch), at = sizeof(line);
		line[--at] = '\\n';
		do line[--at] = '0' + said % 10; while (said /= 10);
		tane_output(1, line + at, sizeof(line) - at);
	}
	return 0;
}
";

#[test]
fn a_module_has_sockets_of_ip_alone_and_changes_no_more_than_numbers_of_them() {
    if !has_kernel() || tane_checked_run::lacks().is_some() {
        return;
    }
    let s = Scratch::new();
    s.write("asks.c", ASKS.as_bytes());
    succeed(s.tane().args(["build", "asks.c"]));
    let refused = s
        .tane()
        .args(["run-module", "--", "asks.tmod"])
        .output()
        .expect("tane");
    assert_eq!(refused.status.code(), Some(126));
    assert!(
        text(&refused.stderr).contains("--net user"),
        "{}",
        text(&refused.stderr)
    );
    let mut tane = s.tane();
    tane.args(["run-module", "--allow", "sockets", "--", "asks.tmod"]);
    let said = text(&succeed(&mut tane).stdout);
    let [family, protocol, option] = [libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ENOPROTOOPT];
    let [fault, again] = [libc::EFAULT, libc::EAGAIN];
    let expected = [
        family, family, family, protocol, option, option, option, fault, fault, again, 0,
    ];
    let expected: String = expected.iter().map(|errno| format!("{errno}\n")).collect();
    assert_eq!(said, expected);
}

/// Says the number of the first line that is not as it should be, or nothing.
const TALKS: &str = "\
#include <asm/poll.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <tane/module.h>
#define MUST(what) if (!(what)) return __LINE__
static int udp(void)
{
	struct sockaddr_in at = { .sin_family = 2 }, by;
	unsigned int bytes = sizeof(at), n = sizeof(by);
	long fd = socket(2, 2, 0);
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	char text[4];

	at.sin_addr.s_addr = __builtin_bswap32(0x7f000001);
	MUST(fd > 2 && !bind(fd, &at, bytes) && !getsockname(fd, &at, &bytes) && at.sin_port);
	MUST(poll(&wanted, 1, 0) == 0);
	MUST(sendto(fd, \"one\", 3, 0, &at, bytes) == 3);
	MUST(poll(&wanted, 1, 10000) == 1 && wanted.revents == POLLIN);
	MUST(recvfrom(fd, text, 4, 0, &by, &n) == 3 && text[2] == 'e');
	MUST(n == sizeof(by) && by.sin_port == at.sin_port);
	MUST(!connect(fd, &at, bytes) && write(fd, \"two\", 3) == 3);
	MUST(read(fd, text, 4) == 3 && text[0] == 't');
	return close(fd) ? __LINE__ : 0;
}
static int tcp6(void)
{
	struct sockaddr_in6 at = { .sin6_family = 10 }, by;
	unsigned int bytes = sizeof(at), n = sizeof(by);
	long listener = socket(10, 1, 0), fd = socket(10, 1, 0), other;
	char text[4];

	at.sin6_addr.s6_addr[15] = 1;
	MUST(!bind(listener, &at, bytes) && !listen(listener, 1));
	MUST(!getsockname(listener, &at, &bytes) && !connect(fd, &at, bytes));
	MUST((other = accept4(listener, &by, &n, 0)) > 2 && n == sizeof(by));
	MUST(by.sin6_addr.s6_addr[15] == 1);
	MUST(!getpeername(fd, &by, &n) && by.sin6_port == at.sin6_port);
	/* Read and write, O_NONBLOCK and EAGAIN; O_ASYNC is not taken. */
	MUST(fcntl(fd, 3, 0) == 2 && !fcntl(fd, 4, 2 | 2048 | 8192) && fcntl(fd, 3, 0) == (2 | 2048));
	MUST(fcntl(fd, 1030, 0) == -22);
	MUST(read(fd, text, 4) == -11 && !fcntl(fd, 4, 2));
	MUST(write(other, \"six\", 3) == 3 && read(fd, text, 4) == 3 && text[2] == 'x');
	MUST(!shutdown(other, 1) && read(fd, text, 4) == 0);
	return 0;
}
int main(int argc, char **argv)
{
	int line = udp();
	return line ? line : tcp6();
}
";

/// Waits for a connection that nobody makes.
const WAITS: &str = "\
#include <tane/module.h>
int main(int argc, char **argv)
{
	static char any[16] = { 2 };
	long fd = socket(2, 1, 0);
	return bind(fd, any, 16) || listen(fd, 1) ? 1 : accept4(fd, 0, 0, 0) < 0 ? 2 : 3;
}
";

/// Connects to a port of the host, as the gateway has it.
const REACHES: &str = "\
#include <linux/in.h>
#include <tane/module.h>
int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = 2 };
	unsigned int port = 0;

	for (const char *digit = argv[1]; *digit; digit++)
		port = port * 10 + *digit - '0';
	at.sin_addr.s_addr = __builtin_bswap32(0x0a000202);
	at.sin_port = __builtin_bswap16(port);
	return connect(socket(2, 1, 0), &at, sizeof(at)) ? 1 : 0;
}
";

/// Of a module of this source with these options: its exit code, and what it said.
fn ended(s: &Scratch, source: &str, options: &[&str], words: &[&str]) -> (Option<i32>, String) {
    s.write("of.c", source.as_bytes());
    succeed(s.tane().args(["build", "of.c"]));
    let mut tane = s.tane();
    tane.arg("run-module").args(options).args(["--", "of.tmod"]);
    let done = tane.args(words).output().expect("tane");
    (done.status.code(), text(&done.stderr))
}

fn can_run() -> bool {
    has_kernel() && tane_checked_run::lacks().is_none()
}

#[test]
fn a_module_talks_by_udp_and_by_tcp_of_ip_version_6_and_waits_by_poll() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    let (code, said) = ended(&s, TALKS, &["--allow", "sockets"], &[]);
    assert_eq!(code, Some(0), "line of TALKS, or {said}");
}

#[test]
fn the_end_of_its_time_ends_what_waits_for_a_connection() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    let options = ["--allow", "sockets", "--time", "1s"];
    let (code, said) = ended(&s, WAITS, &options, &[]);
    assert_eq!(code, Some(124), "{said}");
}

#[test]
fn a_module_reaches_of_the_host_what_to_names_and_an_error_calls_it_that() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener
        .local_addr()
        .expect("its address")
        .port()
        .to_string();
    let (code, said) = ended(&s, REACHES, &["--net", "user"], &[&port]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = ended(&s, REACHES, &["--net", "user", "--to", "host"], &[&port]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ended(&s, REACHES, &["--to", "host"], &[&port]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--to is about a network"), "{said}");
}

#[test]
fn who_gets_no_sockets_is_told_what_gives_them() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    for (options, code, remedy) in [
        (&[][..], 126, "which it has with --net user"),
        (&["--allow", "none"], 126, "--net user and --allow "),
        (
            &["--net", "user", "--allow", "socket"],
            126,
            "--allow connect lets it",
        ),
        (
            &["--net", "user", "--allow", "none"],
            2,
            "--allow sockets adds",
        ),
        (
            &["--net", "user", "--allow", "bind"],
            2,
            "--allow sockets adds",
        ),
    ] {
        let (ended, said) = ended(&s, REACHES, options, &["1"]);
        assert_eq!(ended, Some(code), "{options:?}: {said}");
        assert!(said.contains(remedy), "{options:?}: {said}");
    }
}

/// With a C library, on descriptors of all kinds: says the number of the first line that is not as
/// it should be, or nothing.
const KINDS: &str = "\
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#define MUST(what) if (!(what)) return __LINE__
int main(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), flags;
	struct pollfd all[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = 1, .events = POLLOUT },
		{ .fd = -1, .events = POLLIN },
		{ .fd = 0, .events = POLLOUT },
	};
	struct stat is;
	char byte;

	MUST(!fstat(fd, &is) && S_ISSOCK(is.st_mode));
	MUST(fstat(77, &is) < 0 && errno == EBADF);
	MUST(lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE);
	flags = fcntl(fd, F_GETFL);
	MUST((flags & O_ACCMODE) == O_RDWR && !(flags & O_NONBLOCK));
	MUST(!fcntl(fd, F_SETFL, flags | O_NONBLOCK) && fcntl(fd, F_GETFL) & O_NONBLOCK);
	MUST(recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN);
	MUST(poll(all, 4, 60000) == 1 && !all[0].revents && all[1].revents == POLLOUT);
	MUST(all[1].fd == 1 && all[2].fd == -1 && all[3].fd == 0 && !all[3].revents);
	all[1] = all[0];
	MUST(poll(all, 4, 1) == 0);
	return 0;
}
";

#[test]
fn with_a_c_library_a_socket_is_told_from_files_and_may_not_wait() {
    let Some(musl) = musl() else {
        return;
    };
    let s = Scratch::new();
    s.write("kinds.c", KINDS.as_bytes());
    let mut build = s.tane();
    build.args(["build", "kinds.c", "--libc"]).arg(musl);
    succeed(&mut build);
    let mut tane = s.tane();
    tane.args(["run-module", "--allow", "sockets", "--", "kinds.tmod"]);
    let done = tane.output().expect("tane");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}
