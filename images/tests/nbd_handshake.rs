//! Promises about what is agreed on with an NBD server before the first request: with real
//! ones, and with such that talk nonsense or nothing.

mod common;

use common::nbd::*;
use common::{pattern, read};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use tane_test_support::nbd::{serve, Client, Server, ALL};
use tane_test_support::{eventually, Scratch};

const MIB: usize = 1 << 20;

/// A handshake in which this is said of the export.
fn told(client: &mut Client, infos: &[Vec<u8>]) -> Option<()> {
    client.greet()?;
    client.option()?;
    for info in infos {
        client.answer(7, 3, info)?;
    }
    client.answer(7, 1, &[])?;
    serve_on(client)
}

#[test]
fn nonsense_before_the_first_request_is_an_error() {
    let scripts: [(&str, Script); 17] = [
        ("ended the connection at once", |_| None),
        ("something else listens", |c| {
            c.send(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n")
        }),
        ("no known one", |c| c.send(b"NBDMAGICNOTMAGIC")),
        ("has ended the connection", |c| c.send(b"NBDMAGICIHAVEOPT")),
        ("is no answer", |c| {
            c.greet()?;
            c.option()?;
            c.answer(6, 1, &[])
        }),
        ("is no answer", |c| {
            c.greet()?;
            c.option()?;
            c.send(&[9; 64])
        }),
        ("too long", |c| {
            c.greet()?;
            c.option()?;
            c.answer(7, 3, &vec![0; 70_000])
        }),
        ("without an end", |c| {
            c.greet()?;
            c.option()?;
            loop {
                c.answer(7, 3, &[0, 9])?;
            }
        }),
        ("too short", |c| told(c, &[vec![0, 0, 1]])),
        ("says nothing", |c| told(c, &[vec![0]])),
        ("how large it is", |c| told(c, &[])),
        ("has no flags", |c| told(c, &[info(0, &[SIZE, 0])])),
        ("is empty", |c| told(c, &[info(0, &[0, ALL.into()])])),
        ("bytes, in blocks", |c| {
            told(c, &[info(0, &[u64::MAX, ALL.into()])])
        }),
        ("bytes, in blocks", |c| {
            told(
                c,
                &[
                    info(0, &[SIZE + 512, ALL.into()]),
                    info(3, &[4096, 4096, 1 << 20]),
                ],
            )
        }),
        ("wants blocks", |c| {
            told(
                c,
                &[info(0, &[SIZE, ALL.into()]), info(3, &[3, 4096, 1 << 20])],
            )
        }),
        ("wants blocks", |c| {
            told(c, &[info(0, &[SIZE, ALL.into()]), info(3, &[512, 4096, 0])])
        }),
    ];
    for (text, script) in scripts {
        let server = Server::new(script);
        let url = server.url("x");
        says(open(&url), &url, text);
    }
}

#[test]
fn silence_before_the_first_request_is_given_up() {
    let scripts: [(&str, Script); 3] = [
        ("has not greeted", |c| c.be_silent()),
        ("silent for", |c| {
            c.greet()?;
            c.option()?;
            c.be_silent()
        }),
        // Each answer comes soon, and the last one never.
        ("has not said what it has", |c| {
            c.greet()?;
            c.option()?;
            loop {
                c.answer(7, 3, &[0, 9])?;
                std::thread::sleep(BRIEF / 30);
            }
        }),
    ];
    for (text, script) in scripts {
        let server = Server::new(script);
        let url = server.url("x");
        // On a machine that is busy it may be silent before that.
        eventually(text, || {
            let found = options().timeout(BRIEF).open(&url);
            let error = found.err().expect("an error");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            error.to_string().contains(text)
        });
    }
}

#[test]
fn who_knows_no_go_of_this_kind_is_asked_by_the_name_alone_and_what_it_says_is_told() {
    // Unsupported, invalid, too big.
    for refusal in [1, 3, 9] {
        let server = Server::new(move |client| {
            client.greet()?;
            client.option()?;
            client.answer(7, 1 << 31 | refusal, b"what?")?;
            assert_eq!(client.option()?, (1, b"x".to_vec()));
            client.send(&SIZE.to_be_bytes())?;
            client.send(&ALL.to_be_bytes())?;
            serve_on(client)
        });
        let disk = patient(&server.url("x"));
        assert_eq!(disk.size(), SIZE);
        assert_eq!(read(&*disk, 0, 512).expect("read"), pattern(512, 1));

        let server = Server::new(move |client| {
            client.greet()?;
            client.option()?;
            client.answer(7, 1 << 31 | refusal, b"what is x?")?;
            client.option().map(drop)
        });
        let url = server.url("x");
        let kind = says(open(&url), &url, "no export \"x\" (what is x?)");
        assert_eq!(kind, io::ErrorKind::NotFound);
    }
}

#[test]
fn a_server_that_listens_and_takes_no_connection_is_given_up() {
    let s = Scratch::new("nbd");
    let path = s.join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    // SAFETY: no memory involved.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    // Nobody takes it, and there is no room for another.
    let _first = UnixStream::connect(&path).expect("room for one");
    let url = format!("nbd+unix:///x?socket={}", path.display());
    let opened = options().timeout(BRIEF).open(&url);
    says(opened.map(drop), &url, "taken no connection");
}

#[test]
fn what_a_server_says_in_words_is_shown_without_its_control_characters() {
    let server = Server::new(|client| {
        client.greet()?;
        client.option()?;
        client.answer(7, 1 << 31 | 2, b"go away\x1b[31m\n")?;
        client.be_silent()
    });
    let url = server.url("x");
    says(open(&url), &url, "refuses the export \"x\" (go away?[31m )");
}

#[test]
fn an_export_is_one_of_several_and_what_is_not_there_is_told_with_what_is() {
    let s = Scratch::new("nbd");
    std::fs::create_dir(s.join("exports")).expect("a directory");
    named(&s, "exports/one", &[1; 4096]);
    named(&s, "exports/two", &[2; 8192]);
    let dir = format!("dir={}", s.join("exports").display());
    let Some(server) = serve(&s, &["file", &dir]) else {
        return;
    };
    assert_eq!(patient(&server.url("one")).size(), 4096);
    assert_eq!(
        read(&*patient(&server.url("two")), 8191, 1).expect("read"),
        [2]
    );
    let Some(server) = serve(
        &s,
        &[
            "qemu-nbd",
            "-f",
            "raw",
            "-x",
            "here",
            &named(&s, "disk", &[0; 512]),
        ],
    ) else {
        return;
    };
    let url = server.url("there");
    let kind = says(open(&url), &url, "no export \"there\"; it has \"here\"");
    assert_eq!(kind, io::ErrorKind::NotFound);
}

#[test]
fn older_handshakes_are_understood_and_the_oldest_is_refused() {
    let s = Scratch::new("nbd");
    let path = named(&s, "disk", &pattern(MIB, 5));
    // Not fixed; without zeroes, and with.
    for mask in [
        "--mask-handshake=0",
        "--mask-handshake=1",
        "--mask-handshake=2",
    ] {
        let Some(server) = serve(&s, &[mask, "file", &path]) else {
            return;
        };
        let disk = patient(&server.url(""));
        assert!(read(&*disk, 3, 99_999).expect("read") == pattern(MIB, 5)[3..100_002]);
    }
    let Some(server) = serve(&s, &["--oldstyle", "file", &path]) else {
        return;
    };
    let url = server.url("");
    says(open(&url), &url, "oldstyle");
}

#[test]
fn a_server_that_wants_tls_is_refused_with_that_reason() {
    let s = Scratch::new("nbd");
    let keys = named(&s, "keys", b"me:0123456789abcdef0123456789abcdef\n");
    let keys = format!("--tls-psk={keys}");
    let Some(server) = serve(&s, &["--tls=require", &keys, "memory", "1M"]) else {
        return;
    };
    let url = server.url("");
    let kind = says(open(&url), &url, "TLS is not supported");
    assert_eq!(kind, io::ErrorKind::Unsupported);
}
