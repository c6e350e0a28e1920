//! Promises of `tane run`: programs talk to each other by sockets, and to nobody else.

use crate::common::run::{add_dynamic, image, run, says};
use crate::common::*;
use std::path::Path;

#[test]
fn there_is_a_loopback_interface_that_is_up_and_no_other() {
    let Some(s) = image() else { return };
    let script = "busybox ip -o link | while read number name rest; do echo $name; done; \
                  busybox ip -4 -o address | grep -c 'lo .*127.0.0.1/8'; \
                  busybox ping -q -c 1 -W 60 127.0.0.1 >/dev/null; echo $?";
    let mut command = run(&s, &[], &["busybox", "sh", "-c", script]);
    says(&mut command, 0, "lo:\n1\n0\n", "");
    // The host is not there, whatever it listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let script = format!("busybox nc 127.0.0.1 {port} </dev/null");
    let err = "nc: can't connect to remote host (127.0.0.1): Connection refused\n";
    says(&mut run(&s, &[], &["sh", "-c", &script]), 1, "", err);
}

#[test]
fn a_server_and_its_client_talk_over_tcp() {
    let Some(s) = image() else { return };
    // The server is there once it answers.
    let script = "cd /etc; busybox httpd -p 127.0.0.1:8080 -h /etc; \
                  until busybox wget -q -O - http://127.0.0.1:8080/motd; do :; done 2>/dev/null";
    says(
        &mut run(&s, &[], &["sh", "-c", script]),
        0,
        "good morning\n",
        "",
    );
}

#[test]
fn sockets_of_all_kinds_work_from_a_program_with_its_libraries() {
    let Some(s) = image() else { return };
    // Debian's.
    let libraries = Path::new("/usr/lib/x86_64-linux-gnu/perl-base");
    if !libraries.is_dir() {
        return;
    }
    add_dynamic(&s, "root", "/usr/bin/perl");
    let below = s.join(&format!("root{}", libraries.display()));
    std::fs::create_dir_all(below.parent().expect("one")).expect("a directory");
    succeed(s.tool("cp").arg("-a").arg(libraries).arg(&below));
    let wanted = "tcp: 8 of 8\nrefused: yes\ntcp6: over six\nudp: datagram\n\
                  unix: by name\nunix: by name\npair: one\nselect: 1 10\n";
    let mut command = s.tane();
    command.args(["run", "--root", "root", "--", "perl", "-e"]);
    says(
        command.arg(include_str!("guests/sockets.pl")),
        0,
        wanted,
        "",
    );
}
