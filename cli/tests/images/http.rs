//! Images on web servers, through the command: nginx serves them.

use crate::common::*;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tane_test_support::http::{Reply, Server};
use tane_test_support::{eventually, tool};

/// An nginx that serves the scratch directory: at `/`, at `/closed/` for
/// `me:secret` only, at `/moved/` by way of a redirect; by TLS on another port.
struct Nginx {
    child: Child,
    plain: u16,
    tls: u16,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Nginx {
    #[track_caller]
    fn new(s: &Scratch) -> Option<Nginx> {
        let mut nginx = tool("nginx-light", "nginx")?;
        s.write("ssl.conf", b"[req]\ndistinguished_name = d\n[d]\n");
        let key = "req -x509 -config ssl.conf -newkey rsa:2048 -nodes -days 2";
        for (name, more) in [
            (
                "ca",
                "-subj /CN=test -addext basicConstraints=critical,CA:TRUE",
            ),
            (
                "cert",
                "-subj /CN=localhost -CA ca.pem -CAkey ca.key \
                 -addext basicConstraints=critical,CA:FALSE \
                 -addext subjectAltName=DNS:localhost",
            ),
        ] {
            let mut openssl = tool("openssl", "openssl")?;
            openssl.args(key.split(' ')).args(more.split_whitespace());
            openssl.args([
                "-keyout",
                &format!("{name}.key"),
                "-out",
                &format!("{name}.pem"),
            ]);
            succeed(openssl.current_dir(s.path()));
        }
        let mut hash = tool("openssl", "openssl")?;
        let hash = text(&succeed(hash.args(["passwd", "-apr1", "secret"])).stdout);
        s.write("users", format!("me:{hash}").as_bytes());
        let (plain, tls) = (free_port(), free_port());
        let dir = s.path().display();
        let config = format!(
            "daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/errors;
            events {{}}
            http {{
                access_log {dir}/accesses; client_body_temp_path {dir}/t1;
                proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
                uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
                server {{
                    listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl;
                    ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/cert.key;
                    root {dir};
                    location /closed/ {{
                        alias {dir}/; auth_basic x; auth_basic_user_file {dir}/users;
                    }}
                    location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
                    location /down/ {{ rewrite ^/down/(.*)$ http://localhost:{plain}/$1 redirect; }}
                    location /whole/ {{ alias {dir}/; max_ranges 0; }}
                }}
            }}"
        );
        let config = s.write("nginx.conf", config.as_bytes());
        nginx.arg("-c").arg(config).arg("-p").arg(s.path());
        // It complains about its usual log before it reads where ours is.
        nginx.stderr(Stdio::null());
        let child = nginx.spawn().expect("nginx");
        let nginx = Nginx { child, plain, tls };
        eventually("nginx answers", || {
            std::net::TcpStream::connect(("127.0.0.1", plain)).is_ok()
        });
        Some(nginx)
    }

    fn url(&self, name: &str) -> String {
        format!("http://localhost:{}/{name}", self.plain)
    }

    fn https(&self, name: &str) -> String {
        format!("https://localhost:{}/{name}", self.tls)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An ext4 with the file f.
fn disk(s: &Scratch) -> PathBuf {
    s.write("tree/f", b"data\n");
    s.write("tree/big", &[7; 3_000_000]);
    s.ext4("disk.raw", Some(&s.join("tree")), 24)
}

fn convert(s: &Scratch, words: &str) {
    let mut qemu = Command::new("qemu-img");
    succeed(
        qemu.arg("convert")
            .args(words.split(' '))
            .current_dir(s.path()),
    );
}

#[test]
fn every_container_is_read_from_a_server() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    disk(&s);
    let Some(nginx) = Nginx::new(&s) else { return };
    for (format, name) in [
        ("qcow2 -c", "d.qcow2"),
        ("vmdk", "d.vmdk"),
        ("vmdk -o subformat=twoGbMaxExtentFlat", "two.vmdk"),
        ("vpc", "d.vhd"),
        ("vhdx", "d.vhdx"),
        ("vdi", "d.vdi"),
    ] {
        convert(&s, &format!("-f raw -O {format} disk.raw {name}"));
    }
    convert(&s, "-f raw -O qcow2 disk.raw base.qcow2");
    let mut qemu = Command::new("qemu-img");
    let over = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "base.qcow2",
        "-F",
        "qcow2",
        "top.qcow2",
    ];
    succeed(qemu.args(over).current_dir(s.path()));
    succeed(Command::new("gzip").arg("-k").arg(s.join("disk.raw")));
    // In pieces, and a name like that of a piece.
    let pieces = ["-n", "3", "disk.raw", "disk."];
    succeed(Command::new("split").args(pieces).current_dir(s.path()));
    s.write("one.001", &s.read("disk.raw"));
    for name in [
        "disk.raw",
        "d.qcow2",
        "d.vmdk",
        "two.vmdk",
        "d.vhd",
        "d.vhdx",
        "d.vdi",
        "disk.aa",
        "one.001",
        "top.qcow2",
        "disk.raw.gz",
        "moved/disk.raw",
        "whole/disk.raw",
    ] {
        let at = nginx.url(&format!("{name}:/f"));
        assert_eq!(
            succeed(s.tane().args(["cat", &at])).stdout,
            b"data\n",
            "{name}"
        );
    }
    succeed(s.tane().args(["cp", &nginx.url("d.qcow2:/big"), "big"]));
    assert!(s.read("big") == s.read("tree/big"));
    // Of a large image that is nearly empty little is asked for.
    let log = text(&s.read("accesses"));
    let ranges = log
        .lines()
        .filter(|line| line.contains("disk.raw HTTP") && line.contains(" 206 "));
    assert!(ranges.count() > 2, "{log}");
}

#[test]
fn inspect_names_a_partition_that_cat_takes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let fs = std::fs::read(disk(&s)).expect("the file system");
    let mut bytes = vec![0u8; 1 << 20];
    bytes[446 + 4] = 0x83;
    bytes[454..458].copy_from_slice(&2048u32.to_le_bytes());
    bytes[458..462].copy_from_slice(&((fs.len() / 512) as u32).to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes.extend(fs);
    s.write("parts.img", &bytes);
    let Some(nginx) = Nginx::new(&s) else { return };
    let url = nginx.url("parts.img");
    let found = text(&succeed(s.tane().args(["inspect", &url])).stdout);
    assert!(
        found.starts_with(&format!("{url}  raw, 25M, on a server\n")),
        "{found}"
    );
    let at = format!("{url}@1:/f");
    assert_eq!(succeed(s.tane().args(["cat", &at])).stdout, b"data\n");
}

#[test]
fn https_is_read_where_the_certificate_is_trusted() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    disk(&s);
    let Some(nginx) = Nginx::new(&s) else { return };
    let url = nginx.https("disk.raw");
    let cat = |at: &str| {
        let mut tane = s.tane();
        tane.args(["cat", at])
            .env("SSL_CERT_FILE", s.join("ca.pem"));
        tane
    };
    assert_eq!(succeed(&mut cat(&format!("{url}:/f"))).stdout, b"data\n");
    let mut strange = s.tane();
    let said = text(&exit(strange.args(["cat", &format!("{url}:/f")]), 3).stderr);
    assert!(said.starts_with(&format!("tane: {url}: ")), "{said}");
    assert!(said.contains("certificate"), "{said}");
    // Nobody is led from what is sealed to what is open.
    let down = nginx.https("down/disk.raw:/f");
    let said = text(&exit(&mut cat(&down), 3).stderr);
    assert!(said.contains("redirects from https to http"), "{said}");
}

#[test]
fn a_login_opens_and_is_never_shown() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    disk(&s);
    let Some(nginx) = Nginx::new(&s) else { return };
    let url = nginx.url("closed/disk.raw");
    let said = text(&exit(s.tane().args(["ls", &url]), 3).stderr);
    assert!(said.contains("another name and password"), "{said}");
    let with = |login: &str| url.replace("//", &format!("//{login}@"));
    let right = with("me:secret");
    assert_eq!(
        succeed(s.tane().args(["cat", &format!("{right}:/f")])).stdout,
        b"data\n"
    );
    for (words, code) in [
        (vec!["inspect", &right], 0),
        (vec!["inspect", "--json", &right], 0),
        (vec!["find", &right], 0),
        (vec!["stat", "--json", &right], 0),
        (vec!["cat", &format!("{right}:/none")], 1),
        (vec!["ls", &with("me:secrets")], 3),
        (vec!["rm", &format!("{right}:/f")], 3),
        (vec!["cp", &right, "x"], 2),
        (vec!["ls", "--odd-option", &right], 2),
    ] {
        let output = exit(s.tane().args(words), code);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(!all.contains("secret"), "{all}");
    }
}

#[test]
fn what_is_written_goes_into_an_overlay_or_is_refused() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    disk(&s);
    let Some(nginx) = Nginx::new(&s) else { return };
    let (f, g) = (nginx.url("disk.raw:/f"), nginx.url("disk.raw:/g"));
    let said = text(&exit(s.tane().args(["mv", &f, &g]), 3).stderr);
    assert!(said.contains("--overlay"), "{said}");
    let over = "--overlay=over.qcow2";
    succeed(s.tane().args([over, "mv", &f, &g]));
    assert_eq!(succeed(s.tane().args([over, "cat", &g])).stdout, b"data\n");
    exit(s.tane().args(["cat", &g]), 1);
    succeed(s.tane().args(["--overlay=:memory:", "mv", &f, &g]));
    exit(s.tane().args(["cat", &g]), 1);
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = std::fs::read(disk(&s)).expect("the file system");
    let server = Server::of(file);
    let to = server.address();
    let proxy = Server::new(move |request| {
        assert_eq!(
            (&*request.method, &*request.target),
            ("CONNECT", "disks.invalid:80")
        );
        Reply {
            tunnel: Some(to.clone()),
            ..Reply::default()
        }
    });
    let mut tane = s.tane();
    tane.args(["cat", "http://disks.invalid/d:/f"]);
    assert_eq!(
        succeed(tane.env("http_proxy", proxy.url(""))).stdout,
        b"data\n"
    );
    assert!(proxy.requests() > 0);
    let mut direct = s.tane();
    direct.args(["cat", &server.url("d:/f")]);
    direct
        .env("http_proxy", proxy.url(""))
        .env("no_proxy", "127.0.0.1");
    assert_eq!(succeed(&mut direct).stdout, b"data\n");
}

#[test]
fn an_image_that_changes_while_it_is_read_is_an_error_with_its_reason() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = std::fs::read(disk(&s)).expect("the file system");
    // The middle of the file is read long after it was opened.
    let data = file.windows(4096).position(|w| w.iter().all(|b| *b == 7));
    let data = data.expect("the data") + 1_500_000;
    let server = Server::new(move |request| {
        let (first, last) = request.range().expect("a range");
        let tag = if (first..=last).contains(&data) { 2 } else { 1 };
        Reply::part(&file, request).header(format!("ETag: \"{tag}\""))
    });
    let said = text(&exit(s.tane().args(["cat", &server.url("d:/big")]), 1).stderr);
    assert!(said.contains("has changed on the server"), "{said}");
}
