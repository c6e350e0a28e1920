//! Promises about the process that talks to servers: what a worker gets from it, whoever that is.

use super::*;
use crate::servers::link::Link;
use std::os::unix::net::UnixStream;
use tane_test_support::eventually;
use tane_test_support::http::Server;
use tane_test_support::nbd;

/// A link to servers that may open this address.
fn link(address: String, test: impl FnOnce(&Arc<Link>)) {
    let (near, far) = UnixStream::pair().expect("sockets");
    let named = vec![Named {
        address,
        write: false,
    }];
    let exports = Exports::connect(&named);
    let servers = Arc::new(Servers::new(named, exports, Vec::new(), None));
    let thread = std::thread::spawn(move || servers.serve(&File::from(OwnedFd::from(far))));
    test(&Arc::new(Link::new(near.into())));
    thread.join().expect("it ends with the link");
}

#[test]
fn only_what_was_named_and_what_lies_beside_it_is_opened() {
    let server = Server::of(vec![7; 5000]);
    link(server.url("dir/disk"), |link| {
        let good = ["dir/disk", "dir/part-2.vmdk"];
        assert!(good.map(|name| link.open(&server.url(name)).is_ok()) == [true; 2]);
        let other = Server::of(vec![7; 5000]);
        let bad = [
            server.url(""),
            server.url("disk"),
            server.url("dir/"),
            server.url("dir/.."),
            server.url("dir/deep/disk"),
            server.url("dir/disk?more"),
            other.url("dir/disk"),
            format!("http://me:pw@{}/dir/disk", server.address()),
            "/etc/passwd".into(),
        ];
        for address in bad {
            let error = link.open(&address).err().expect("refused");
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        }
        assert_eq!(other.requests(), 0);
    });
}

#[test]
fn an_export_is_agreed_on_before_somebody_asks_for_it() {
    let asked = Arc::new(AtomicBool::new(false));
    let is_asked = asked.clone();
    let server = nbd::Server::new(move |client| {
        client.agree(1 << 20, nbd::ALL)?;
        asked.store(true, SeqCst);
        client.request().map(drop)
    });
    link(server.url("x"), |link| {
        eventually("the export is agreed on", || is_asked.load(SeqCst));
        assert_eq!(link.open(&server.url("x")).expect("it").size(), 1 << 20);
    });
}

#[test]
fn a_server_is_told_of_the_end_and_asked_for_nothing_more() {
    let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
    let log = asked.clone();
    let server = nbd::Server::new(move |client| client.serve(&[7; 1 << 20], &log));
    link(server.url("x"), |link| {
        let disk = link.open(&server.url("x")).expect("a disk");
        let mut bytes = [0; 512];
        disk.read(&[buffer_mut(&mut bytes)], 0).expect("bytes");
        link.farewell();
        eventually("the server is told", || {
            *lock(&asked) == [nbd::READ, nbd::DISCONNECT]
        });
        let after = disk.read(&[buffer_mut(&mut bytes)], 0);
        let text = after.expect_err("an end").to_string();
        assert!(text.contains("has been ended"), "{text}");
    });
    assert_eq!(*lock(&asked), [nbd::READ, nbd::DISCONNECT]);
}

#[test]
fn a_server_is_told_of_the_end_behind_more_requests_than_are_served_at_once() {
    let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
    let log = asked.clone();
    let server = nbd::Server::new(move |client| {
        client.agree(1 << 20, nbd::ALL)?;
        // No read is answered.
        loop {
            let request = client.request()?;
            lock(&log).push(request.command);
        }
    });
    link(server.url("x"), |link| {
        let disk = &link.open(&server.url("x")).expect("a disk");
        std::thread::scope(|scope| {
            for _ in 0..4 * THREADS {
                scope.spawn(|| {
                    let mut bytes = [0; 512];
                    disk.read(&[buffer_mut(&mut bytes)], 0).expect_err("an end");
                });
            }
            eventually("the server has all that is served", || {
                lock(&asked).len() == THREADS
            });
            link.farewell();
            eventually("the server is told", || {
                lock(&asked).last() == Some(&nbd::DISCONNECT)
            });
        });
    });
}

#[test]
fn a_farewell_that_nobody_hears_is_given_up() {
    let (near, _far) = UnixStream::pair().expect("sockets");
    let link = Arc::new(Link::new(near.into()));
    let begun = std::time::Instant::now();
    link.farewell();
    let took = begun.elapsed();
    assert!(took >= crate::servers::FAREWELLS && took < tane_test_support::PATIENCE);
}

/// What a worker may ask for that somebody else has taken over.
#[test]
fn what_was_named_for_reading_is_written_for_nobody() {
    let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
    let log = asked.clone();
    let server = nbd::Server::new(move |client| client.serve(&[7; 1 << 20], &log));
    let url = server.url("x");
    link(url.clone(), |link| {
        let refused = link.open_and_tell(&url, true).err().expect("refused");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        let disk = link.open(&url).expect("a disk");
        let question = |what, len| Question {
            id: 0,
            what,
            // The first that was opened.
            handle: 0,
            offset: 0,
            len,
            address: String::new(),
            data: vec![1; if what == WRITE { 512 } else { 0 }],
        };
        for what in [WRITE, DISCARD, ZEROES, HOLES] {
            let refused = link.ask(question(what, 512)).expect_err("refused");
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        // There is nothing to keep.
        link.ask(question(FLUSH, 0)).expect("nothing");
        let mut bytes = [0; 512];
        disk.read(&[buffer_mut(&mut bytes)], 0).expect("bytes");
    });
    let end = [nbd::READ, nbd::DISCONNECT];
    eventually("the end", || lock(&asked).ends_with(&end[1..]));
    assert_eq!(*lock(&asked), end);
}

#[test]
fn once_sealed_it_reads_what_is_open_and_opens_nothing() {
    let file: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
    let server = Server::of(file.clone());
    link(server.url("disk"), |link| {
        let disk = link.open(&server.url("disk")).expect("a disk");
        link.seal().expect("sealed");
        assert!(link.open(&server.url("disk")).is_err());
        let mut bytes = vec![0; file.len() - 9];
        disk.read(&[buffer_mut(&mut bytes)], 9).expect("bytes");
        assert!(bytes == file[9..]);
        let past = disk.read(&[buffer_mut(&mut bytes)], 10);
        assert!(past.is_err(), "past its end");
    });
}

#[test]
fn threads_get_what_each_of_them_asked_for() {
    let file: Vec<u8> = (0..2_000_000u32).map(|i| (i / 5) as u8).collect();
    let server = Server::of(file.clone());
    link(server.url("disk"), |link| {
        let disk = &link.open(&server.url("disk")).expect("a disk");
        let file = &file;
        std::thread::scope(|scope| {
            for thread in 0..16 {
                scope.spawn(move || {
                    for round in 0..20 {
                        let at = (thread * 104_729 + round * 60_013) % 1_900_000;
                        let mut bytes = vec![0; 4096 + thread];
                        let to = [buffer_mut(&mut bytes)];
                        disk.read(&to, at as u64).expect("bytes");
                        assert!(bytes == file[at..][..bytes.len()]);
                    }
                });
            }
        });
    });
}
