//! Promises about exports of NBD servers: a worker reads and writes them and has no network,
//! and who talks to the server has that connection and no other. The tests look at all
//! children of this process, and so are run one by one.

mod common;
#[path = "../../cli/tests/prisoner/mod.rs"]
mod prisoner;

use common::*;
use prisoner::{Outcome, Prisoner};
use std::sync::{Arc, Mutex, MutexGuard};
use tane_test_support::nbd::{refused, serve, Served, Server, DISCONNECT};
use tane_test_support::{eventually, Scratch};
use tane_worker::{FileCalls, Image, Mount};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn served(s: &Scratch) -> Option<Served> {
    let disk = image(s)?;
    serve(
        s,
        &["qemu-nbd", "-f", "raw", disk.to_str().expect("its name")],
    )
}

fn open_at(url: &str, write: bool) -> (Image, Mount) {
    let mut options = options();
    if write {
        options.image(writing());
    }
    let image = options.open(url).unwrap_or_else(|e| panic!("{e}"));
    let mount = image.mount(None, &Default::default()).expect("a mount");
    (image, mount)
}

/// The only one of this process's children that talks to a server.
fn talker() -> u32 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let lists = tasks.flatten().map(|task| task.path().join("children"));
    let all: String = lists.flat_map(std::fs::read_to_string).collect();
    let is_one = |pid: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.ends_with("servers\0"))
    };
    let found: Vec<_> = all.split_whitespace().filter(is_one).collect();
    let [pid] = found[..] else {
        panic!("{found:?}");
    };
    pid.parse().expect("a number")
}

#[test]
fn an_export_is_read_and_written_by_a_worker_that_has_no_network() {
    let _alone = alone();
    let s = scratch();
    let Some(server) = served(&s) else { return };
    let (image, mount) = open_at(&server.url(""), true);
    let file = mount
        .open_file("big".as_ref(), libc::O_RDWR, 0)
        .expect("a file");
    let mut bytes = vec![0; BIG];
    assert_eq!(file.pread(&mut bytes, 0), Ok(BIG));
    assert!(bytes == pattern(BIG));
    bytes.reverse();
    assert_eq!(file.pwrite(&bytes, 0), Ok(BIG));
    file.fsync().expect("synced");
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let killed = Outcome::Killed(libc::SIGSYS);
    let mut thread = Prisoner::waiting_in(image.pid(), libc::SYS_poll, None);
    assert_eq!(thread.call(libc::SYS_socket, &inet), killed);
    drop((thread, file, mount, image));
    // What was synced is there, whatever became of the worker.
    let (_image, mount) = {
        eventually("the server has room", || {
            options().open(server.url("")).is_ok()
        });
        open_at(&server.url(""), false)
    };
    let file = mount
        .open_file("big".as_ref(), libc::O_RDONLY, 0)
        .expect("a file");
    let mut again = vec![0; BIG];
    assert_eq!(file.pread(&mut again, 0), Ok(BIG));
    assert!(again == bytes);
}

#[test]
fn who_talks_to_the_server_can_make_no_other_connection_and_open_nothing() {
    let _alone = alone();
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX];
    for family in families {
        let s = scratch();
        let Some(server) = served(&s) else { return };
        let (_image, _mount) = open_at(&server.url(""), true);
        let pid = talker();
        // Its first thread waits for questions.
        let mut thread = Prisoner::waiting_in(pid, libc::SYS_read, None);
        let denied = Outcome::Returned(-i64::from(libc::EACCES));
        assert_eq!(thread.open(c"/etc/passwd", libc::O_RDONLY), denied);
        let socket = [family as u64, libc::SOCK_STREAM as u64, 0];
        let killed = Outcome::Killed(libc::SIGSYS);
        assert_eq!(thread.call(libc::SYS_socket, &socket), killed);
    }
}

#[test]
fn a_server_is_told_of_the_end() {
    let _alone = alone();
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let disk = std::fs::read(disk).expect("the image");
    let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
    let log = asked.clone();
    let server = Server::new(move |client| client.serve(&disk, &log));
    drop(open_at(&server.url(""), false));
    eventually("the end", || {
        asked.lock().expect("the log").ends_with(&[DISCONNECT])
    });
}

#[test]
fn an_export_that_cannot_be_had_is_an_error_that_says_why() {
    let _alone = alone();
    if tane_test_support::has_kernel(tane::default_image()).is_none() {
        return;
    }
    let server = Server::new(|client| client.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let failure = options().open(server.url("x")).expect_err("no NBD");
    assert!(failure.text.contains("something else listens"), "{failure}");
    let (_port, gone) = refused();
    let failure = options().open(&gone).expect_err("nobody there");
    assert_eq!(failure.errno, libc::ECONNREFUSED);
    assert!(failure.text.contains("onnection refused"), "{failure}");
    assert!(failure.text.contains(&gone), "{failure}");
}
