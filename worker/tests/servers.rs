//! Promises about images on web servers: their bytes come, and the worker has neither
//! network nor passwords.

mod common;
#[path = "../../cli/tests/prisoner/mod.rs"]
mod prisoner;

use common::*;
use prisoner::{Outcome, Prisoner};
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use tane_test_support::eventually;
use tane_test_support::http::{Reply, Server};
use tane_worker::{Image, Mount};

fn read(mount: &Mount, name: &str) -> tane_worker::Result<Vec<u8>> {
    let mut bytes = vec![0; BIG + 1];
    let file = mount.open_file(name.as_ref(), libc::O_RDONLY, 0)?;
    let n = file.pread(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

fn open_at(url: &str) -> (Image, Mount) {
    let image = options().open(url).expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    (image, mount)
}

#[test]
fn an_image_on_a_server_is_read_by_a_worker_that_has_no_network() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let server = Server::of(std::fs::read(disk).expect("the image"));
    let (image, mount) = open_at(&server.url("disk.img"));
    assert_eq!(
        read(&mount, "hello").as_deref(),
        Ok(&b"from the image\n"[..])
    );
    assert!(read(&mount, "big") == Ok(pattern(BIG)));
    assert!(server.requests() > 0);
    let mut thread = Prisoner::waiting_in(image.pid(), libc::SYS_poll, None);
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let killed = Outcome::Killed(libc::SIGSYS);
    assert_eq!(thread.call(libc::SYS_socket, &inet), killed);
}

/// Whether a process has these bytes anywhere in memory that it writes; but for the RAM of
/// Linux, all of which would be taken from the host by looking.
fn knows(pid: u32, secret: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its memory");
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    maps.lines().any(|line| {
        let mut words = line.split(' ');
        let (range, access) = (words.next(), words.next());
        let range = range
            .and_then(|range| range.split_once('-'))
            .expect("a range");
        let at = |text| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = (at(range.0), at(range.1));
        if !access.is_some_and(|access| access.starts_with("rw")) || end - start > 64 << 20 {
            return false;
        }
        let mut bytes = Vec::new();
        let found = memory.seek(SeekFrom::Start(start));
        let read = found.and_then(|_| (&mut memory).take(end - start).read_to_end(&mut bytes));
        // SAFETY: two slices.
        let place = unsafe {
            let (all, wanted) = (bytes.as_ptr().cast(), secret.as_ptr().cast());
            libc::memmem(all, bytes.len(), wanted, secret.len())
        };
        read.is_ok() && !place.is_null()
    })
}

#[test]
fn a_password_goes_to_the_server_and_not_to_the_worker() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let file = std::fs::read(disk).expect("the image");
    let server = Server::new(move |request| {
        // "me:tide-and-thyme"
        match request.header("authorization") {
            Some("Basic bWU6dGlkZS1hbmQtdGh5bWU=") => {
                Reply::part(&file, request).header("ETag: \"1\"")
            }
            _ => Reply::status(401),
        }
    });
    let host = server.address();
    let refused = options().open(server.url("disk.img"));
    assert_eq!(refused.expect_err("no password").errno, libc::EACCES);
    let (image, mount) = open_at(&format!("http://me:tide-and-thyme@{host}/disk.img"));
    assert_eq!(
        read(&mount, "hello").as_deref(),
        Ok(&b"from the image\n"[..])
    );
    assert!(
        knows(image.pid(), b"from the image"),
        "memory can be searched"
    );
    assert!(!knows(image.pid(), b"tide-and-thyme"));
    assert!(!knows(image.pid(), b"bWU6dGlkZS1hbmQtdGh5bWU="));
}

#[test]
fn what_a_server_does_not_have_is_an_error_that_says_so() {
    if tane_test_support::has_kernel(tane::default_image()).is_none() {
        return;
    }
    let server = Server::new(|_| Reply::status(404));
    let failure = options().open(server.url("none")).expect_err("not there");
    assert_eq!(failure.errno, libc::ENOENT, "{failure}");
    assert!(failure.text.contains(&server.url("none")), "{failure}");
    let write = options().image(writing()).open(server.url("none"));
    let failure = write.expect_err("for reading only");
    assert_eq!(failure.errno, libc::EROFS, "{failure}");
}

#[test]
fn a_server_that_changes_the_image_is_an_io_error_and_no_mixture() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let file = std::fs::read(disk).expect("the image");
    let changed = Arc::new(AtomicBool::new(false));
    let other = changed.clone();
    let server = Server::new(move |request| {
        let tag = if other.load(SeqCst) { "2" } else { "1" };
        Reply::part(&file, request).header(format!("ETag: \"{tag}\""))
    });
    let (_image, mount) = open_at(&server.url("disk.img"));
    changed.store(true, SeqCst);
    let failure = read(&mount, "big").expect_err("another file");
    assert_eq!(failure.errno, libc::EIO, "{failure}");
}

#[test]
fn both_processes_end_with_their_image() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let server = Server::of(std::fs::read(disk).expect("the image"));
    let children = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
        let lists = tasks.flatten().map(|task| task.path().join("children"));
        let all: String = lists.flat_map(std::fs::read_to_string).collect();
        let all = all.split_whitespace().map(str::to_owned);
        let is_ours = |pid: &String| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            line.is_ok_and(|line| line.ends_with("servers\0"))
        };
        all.filter(is_ours).collect::<Vec<_>>()
    };
    let before = children();
    let (image, mount) = open_at(&server.url("disk.img"));
    let new: Vec<_> = children()
        .into_iter()
        .filter(|c| !before.contains(c))
        .collect();
    assert!(!new.is_empty());
    drop((image, mount));
    eventually("the process that talked to the server ends", || {
        new.iter().any(|pid| !children().contains(pid))
    });
}
