//! Promises of `tane run --net user`: programs reach what was let, and nothing else.

use crate::common::dns::resolver;
use crate::common::run::{add_dynamic, image, root, says};
use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tane_test_support::eventually;
use tane_test_support::http::Server;

/// The host's loopback interface, as programs see it.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Where nobody should be waited for longer.
const LONG: Duration = Duration::from_secs(300);

fn run(s: &Scratch, root: &str, options: &[&str], words: &[&str]) -> Command {
    let mut command = s.tane();
    command.args(["run", "--root", root, "--net", "user"]);
    command.args(options).arg("--").args(words);
    command
}

fn port(server: &Server) -> u16 {
    let address: SocketAddr = server.address().parse().expect("an address");
    address.port()
}

fn wget(port: u16) -> String {
    format!("busybox wget -q -O - http://{HOST}:{port}/ 2>&1")
}

#[test]
fn a_server_of_the_host_is_reached_if_it_is_allowed_and_errors_are_those_of_the_host() {
    let Some(s) = image() else { return };
    let server = Server::of(b"good evening\n".to_vec());
    let port = port(&server);
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = closed.local_addr().expect("bound").port();
    drop(closed);
    let script = format!("{}; {}", wget(port), wget(nobody));
    let words = ["sh", "-c", &script];
    let cannot = |why: &str| format!("wget: can't connect to remote host ({HOST}): {why}\n");
    let refused = cannot("Connection refused");
    let out = format!("good evening\n{refused}");
    let mut command = run(&s, "disk.img", &["--allow", "host"], &words);
    says(&mut command, 1, &out, "");
    // Another port than the one that is open is closed, whoever listens.
    let only = format!("host:{port}");
    let unreachable = cannot("No route to host");
    let out = format!("good evening\n{unreachable}");
    let mut command = run(&s, "disk.img", &["--allow", &only], &words);
    says(&mut command, 1, &out, "");
    let out = format!("{unreachable}{unreachable}");
    for options in [&[][..], &["--allow", "host", "--deny", "host"]] {
        says(&mut run(&s, "disk.img", options, &words), 1, &out, "");
    }
    // As itself the host is not there at all, nor are metadata services.
    let script =
        format!("busybox nc 127.0.0.1 {port} </dev/null; busybox nc 169.254.169.254 80 </dev/null");
    let err = "nc: can't connect to remote host (127.0.0.1): Connection refused\n\
               nc: can't connect to remote host (169.254.169.254): No route to host\n";
    let mut command = run(&s, "disk.img", &["--allow", "host"], &["sh", "-c", &script]);
    says(&mut command, 1, "", err);
}

#[test]
fn without_a_jail_the_network_is_the_same() {
    let Some(s) = image() else { return };
    let server = Server::of(b"good evening\n".to_vec());
    let script = wget(port(&server));
    let options = ["--no-jail", "--allow", "host"];
    let mut command = run(&s, "disk.img", &options, &["sh", "-c", &script]);
    says(&mut command, 0, "good evening\n", "");
    let cannot = format!("wget: can't connect to remote host ({HOST}): No route to host\n");
    let mut command = run(&s, "disk.img", &["--no-jail"], &["sh", "-c", &script]);
    says(&mut command, 1, &cannot, "");
}

#[test]
fn bytes_and_their_end_go_both_ways() {
    let Some(s) = image() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("bytes, and their end");
        stream.write_all(&all).expect("somebody reads");
        all
    });
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    s.write("sent", &data);
    let script = format!("busybox nc {HOST} {port}");
    let mut command = run(&s, "disk.img", &["--allow", "host"], &["sh", "-c", &script]);
    command.stdin(std::fs::File::open(s.join("sent")).expect("just made"));
    let done = command.output().expect("tane");
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {err}", done.status);
    assert!(
        server.join().expect("a server") == data,
        "bytes have changed"
    );
    assert!(
        done.stdout == data,
        "bytes have changed: {}",
        done.stdout.len()
    );
}

#[test]
fn datagrams_reach_a_server_of_the_host_and_come_back() {
    let Some(s) = image() else { return };
    const THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 55);
    let dns = resolver(&[("good.example", THERE)]);
    let server = format!("{HOST}:{}", dns.port());
    let words = ["busybox", "nslookup", "good.example", &server];
    let asks = |options: &[&str]| {
        let done = run(&s, "disk.img", options, &words).output().expect("tane");
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        (done.status.code(), out.contains("Address: 192.0.2.55"), out)
    };
    let (code, found, out) = asks(&["--allow", "host"]);
    assert!(code == Some(0) && found, "{code:?}\n{out}");
    let (code, found, out) = asks(&[]);
    assert!(code == Some(1) && !found, "{code:?}\n{out}");
}

/// A command whose one port of the host's leads inside: where.
fn published(mut command: Command) -> (Running, SocketAddr) {
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tane");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("text");
    let running = Running(child);
    // What programs say, to the end.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::stderr()));
    let at = line
        .strip_prefix("tane: ")
        .and_then(|rest| rest.split(' ').next());
    let at = at.and_then(|at| at.parse().ok());
    (running, at.unwrap_or_else(|| panic!("no port: {line}")))
}

/// Killed at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What this server answers, once it is there: until then its port is reset.
fn get(at: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    eventually("the server answers", || {
        answer.clear();
        let Ok(mut stream) = TcpStream::connect(at) else {
            return false;
        };
        stream.set_read_timeout(Some(LONG)).expect("a time");
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        let sent = stream.write_all(request.as_bytes());
        sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && !answer.is_empty()
    });
    answer
}

#[test]
fn a_port_of_the_host_leads_to_a_server_inside_and_is_closed_with_the_command() {
    let Some(s) = image() else { return };
    let words = ["busybox", "httpd", "-f", "-p", "80", "-h", "/etc"];
    let (running, at) = published(run(&s, "disk.img", &["-p", "0:80"], &words));
    assert!(at.ip().is_loopback());
    for _ in 0..2 {
        let answer = get(at, "/motd");
        assert!(answer.starts_with("HTTP/1.") && answer.ends_with("\r\n\r\ngood morning\n"));
    }
    // However it ends.
    drop(running);
    eventually("nobody listens", || TcpStream::connect(at).is_err());
}

#[test]
fn when_the_process_that_makes_sockets_dies_programs_go_on_without_a_network() {
    let Some(s) = image() else { return };
    let server = Server::of(b"good evening\n".to_vec());
    let get = wget(port(&server));
    let script = format!("echo begun; read line; {get}; echo $?");
    let mut command = run(&s, "disk.img", &["--allow", "host"], &["sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("tane"));
    let mut output = BufReader::new(running.0.stdout.take().expect("a pipe"));
    let mut begun = String::new();
    output.read_line(&mut begun).expect("text");
    let pid = running.0.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(children).expect("it runs");
    let broker: i32 = children.trim().parse().expect("one child");
    // SAFETY: a child of a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(broker, libc::SIGKILL) }, 0);
    drop(running.0.stdin.take());
    let mut said = String::new();
    output.read_to_string(&mut said).expect("text");
    let why = "Network is unreachable";
    assert_eq!(
        said,
        format!("wget: can't connect to remote host ({HOST}): {why}\n1\n")
    );
    assert!(running.0.wait().expect("tane").success());
}

#[test]
fn pythons_web_server_serves_whoever_calls_at_the_hosts_port() {
    const PROGRAM: &str = "/usr/bin/python3.11";
    const LIBRARY: &str = "/usr/lib/python3.11";
    if !crate::common::run::can_run() || !Path::new(LIBRARY).join("http/server.py").exists() {
        return;
    }
    let s = Scratch::new();
    root(&s, "root");
    add_dynamic(&s, "root", PROGRAM);
    std::fs::create_dir_all(s.join("root/usr/lib")).expect("a directory");
    let mut copy = s.tool("cp");
    succeed(copy.args(["-a", LIBRARY, "root/usr/lib/"]));
    let _ = std::fs::remove_dir_all(s.join("root/usr/lib/python3.11/test"));
    s.write("root/srv/greeting", b"good afternoon\n");
    s.ext4("python.img", Some(&s.join("root")), 256);
    let words = [PROGRAM, "-m", "http.server", "-d", "/srv", "8000"];
    let (_running, at) = published(run(&s, "python.img", &["--publish", "0:8000"], &words));
    let answer = get(at, "/greeting");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ngood afternoon\n"), "{answer}");
    assert!(get(at, "/nothing").starts_with("HTTP/1.0 404 "));
}

#[test]
fn names_are_those_of_the_resolver_and_curl_goes_where_they_lead() {
    if !crate::common::run::can_run() || !Path::new("/usr/bin/curl").exists() {
        return;
    }
    let s = Scratch::new();
    root(&s, "root");
    add_dynamic(&s, "root", "/usr/bin/curl");
    // As many have it: a link that leads nowhere.
    std::fs::create_dir_all(s.join("root/etc")).expect("a directory");
    std::os::unix::fs::symlink("/run/nobody/resolv.conf", s.join("root/etc/resolv.conf"))
        .expect("a link");
    s.ext4("curl.img", Some(&s.join("root")), 96);
    let server = Server::of(b"good night\n".to_vec());
    let dns = resolver(&[("good.example", HOST), ("evil.example", HOST)]).to_string();
    let options = ["--allow", "host", "--deny", "evil.example", "--dns", &dns];
    let get = |name: &str| {
        let url = format!("http://{name}:{}/", port(&server));
        run(&s, "curl.img", &options, &["curl", "-sS", &url])
    };
    says(&mut get("good.example"), 0, "good night\n", "");
    for name in ["evil.example", "no.example"] {
        let err = format!("curl: (6) Could not resolve host: {name}\n");
        says(&mut get(name), 6, "", &err);
    }
}

#[test]
fn the_roots_own_resolv_conf_stays_as_it_was() {
    let Some(s) = image() else { return };
    let written = "nameserver 10.0.2.3\nnameserver fd74:616e:6500::3\n";
    let cat = ["cat", "/etc/resolv.conf"];
    // There is none: it is made where nothing is kept, also without any /etc.
    says(&mut run(&s, "disk.img", &[], &cat), 0, written, "");
    let mut command = s.tane();
    command
        .args(["run", "--net", "user", "--", "root/bin/busybox"])
        .args(cat);
    says(&mut command, 0, written, "");
    // There is one, and what is kept is that.
    s.write("root/etc/resolv.conf", b"nameserver 192.0.2.1\n");
    s.ext4("disk.img", Some(&s.join("root")), 32);
    for options in [&[][..], &["--rw"]] {
        says(&mut run(&s, "disk.img", options, &cat), 0, written, "");
        let mut command = s.tane();
        command.args(["cat", "disk.img:/etc/resolv.conf"]);
        says(&mut command, 0, "nameserver 192.0.2.1\n", "");
    }
}

#[test]
fn a_root_that_can_have_no_resolv_conf_is_a_warning() {
    let Some(s) = image() else { return };
    if tane_test_support::tool("squashfs-tools", "mksquashfs").is_none() {
        return;
    }
    succeed(&mut s.command("mksquashfs", "root root.sqfs -quiet -no-progress"));
    let err = "tane: warning: /etc/resolv.conf: Read-only file system (os error 30): the program \
               resolves no names\n";
    says(&mut run(&s, "root.sqfs", &[], &["pwd"]), 0, "/\n", err);
    says(
        &mut run(&s, "root.sqfs", &["--quiet"], &["pwd"]),
        0,
        "/\n",
        "",
    );
}

#[test]
fn options_of_a_network_that_is_not_there_are_refused_and_so_are_ports_in_use() {
    let Some(s) = image() else { return };
    for options in [
        &["-p", "8080:80"][..],
        &["--allow", "host", "--net", "none"],
    ] {
        let mut command = s.tane();
        command.args(["run", "--root", "disk.img"]).args(options);
        let done = command.args(["--", "ls"]).output().expect("tane");
        assert_eq!(done.status.code(), Some(2));
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(err.contains("--net user gives it the host's"), "{err}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("bound");
    let forward = format!("{at}:80");
    let done = run(&s, "disk.img", &["-p", &forward], &["ls"]).output();
    let done = done.expect("tane");
    assert_eq!(done.status.code(), Some(3));
    let err = String::from_utf8_lossy(&done.stderr);
    let said = err.contains(&at.to_string()) && err.contains("in use");
    assert!(said && err.contains("another port"), "{err}");
}

/// Two programs, at the two ends of a wire whose middle is the test's.
#[test]
fn programs_of_two_kernels_talk_by_a_switch() {
    let Some(s) = image() else { return };
    let path = s.join("switch");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        let ends = [(); 2].map(|()| listener.accept().expect("a client").0);
        let handle = |n: usize| ends[n].try_clone().expect("a handle");
        let ways = [(handle(0), handle(1)), (handle(1), handle(0))];
        let threads = ways.map(|(mut from, mut to)| {
            std::thread::spawn(move || std::io::copy(&mut from, &mut to))
        });
        for thread in threads {
            let _ = thread.join().expect("a way");
        }
    });
    let wire = format!("switch={}", path.display());
    let program = |number: u8, script: &str| {
        let address = format!("10.7.0.{number}/24");
        let mut command = s.tane();
        command.args([
            "run",
            "--root",
            "disk.img",
            "--net",
            &wire,
            "--address",
            &address,
        ]);
        command.args(["--", "sh", "-c", script]);
        command
    };
    // The server is there once it answers, and ends when it has been read.
    let mut server = program(2, "echo good evening | busybox nc -l -p 80");
    let server = server.stdout(Stdio::piped()).spawn().expect("tane");
    let client = "until busybox nc 10.7.0.2 80 </dev/null 2>/dev/null; do busybox sleep 0.1; done";
    says(&mut program(1, client), 0, "good evening\n", "");
    let ended = server.wait_with_output().expect("its end");
    assert!(ended.status.success(), "{ended:?}");
    // Nobody made one of this name, and nobody may.
    let mut tap = s.tane();
    tap.args([
        "run",
        "--root",
        "disk.img",
        "--net",
        "tap=a-name-that-is-too-long",
    ]);
    exit(tap.args(["--", "true"]), 3);
}
