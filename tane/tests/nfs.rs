//! Files of servers, by Linux's own client of NFS: Ganesha's, and what stands between it and the
//! client and does what that one never does.

mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tane::images::NetFsConnection;
use tane::{Kernel, Mount, MountOptions, Result};
use tane_test_support::{image, nfs, Dice, Scratch};

/// Of servers that answer: no test takes as long.
const LONG: Duration = Duration::from_secs(300);

fn kernel() -> Option<Kernel> {
    let image = image("remote")?;
    Some(Kernel::builder().image(image).boot().expect("it boots"))
}

fn mount(kernel: &Kernel, url: &str, silence: Duration) -> Result<Mount> {
    mount_with(kernel, url, silence, &MountOptions::new())
}

fn mount_with(
    kernel: &Kernel,
    url: &str,
    silence: Duration,
    options: &MountOptions,
) -> Result<Mount> {
    let connection = NetFsConnection::new(url, silence).expect("a connection");
    kernel.mount_netfs(connection, "not told", options)
}

fn scratch() -> Scratch {
    Scratch::within(env!("CARGO_TARGET_TMPDIR").as_ref(), "nfs")
}

/// A server that does this with its only client, and its address.
fn serve(with: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || with(listener.accept().expect("a client").0));
    format!("nfs://{address}/tree")
}

/// Another server's answers, each record of which this may change before it is passed on; false:
/// nothing is, from now on.
fn between(
    server: &nfs::Served,
    mut change: impl FnMut(&mut Vec<u8>, &mut TcpStream) -> bool + Send + 'static,
) -> String {
    let port = server.port();
    serve(move |mut client| {
        let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
        let (mut from, mut to) = (server.try_clone().expect("it"), server);
        let mut asking = client.try_clone().expect("the client");
        thread::spawn(move || {
            let _ = std::io::copy(&mut asking, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let mut mark = [0; 4];
        while from.read_exact(&mut mark).is_ok() {
            let len = u32::from_be_bytes(mark) & 0x7fff_ffff;
            let mut record = vec![0; len as usize];
            if from.read_exact(&mut record).is_err() {
                break;
            }
            if !change(&mut record, &mut client) {
                // Until the client has gone.
                let _ = from.read_to_end(&mut Vec::new());
                return;
            }
            let mark = 0x8000_0000 | record.len() as u32;
            let all = [&mark.to_be_bytes()[..], &record].concat();
            if client.write_all(&all).is_err() {
                break;
            }
        }
        let _ = client.shutdown(std::net::Shutdown::Both);
    })
}

#[test]
fn files_of_a_server_are_as_the_server_has_them() {
    let s = scratch();
    let tree = s.join("tree");
    served::tree(&tree);
    std::os::unix::fs::chown(tree.join("d/empty"), Some(12345), Some(54321)).expect("an owner");
    // All that it knows, and the older ones alone.
    for minor in ["0,1,2", "1", "0"] {
        let Some(server) = nfs::serve(&s, &tree, minor) else {
            return;
        };
        let Some(kernel) = kernel() else { return };
        let mount = mount(&kernel, &server.url(), LONG).expect("it is mounted");
        served::is_as_it_is(&mount, &tree);
        mount.unmount().expect("unmounted");
    }
}

#[test]
fn what_is_written_is_in_the_servers_tree() {
    let s = scratch();
    let tree = s.join("tree");
    served::tree_to_write(&tree);
    let Some(server) = nfs::serve(&s, &tree, "0,1,2") else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let mount = mount(&kernel, &server.url(), LONG).expect("it is mounted");
    served::is_written(mount, &tree);
}

#[test]
fn the_server_is_told_one_user_in_numbers_and_several_beside_each_other() {
    let s = scratch();
    let tree = s.join("tree");
    fs::create_dir(&tree).expect("a directory");
    fs::set_permissions(&tree, PermissionsExt::from_mode(0o1777)).expect("a mode");
    fs::write(tree.join("secret"), b"x").expect("a file");
    fs::set_permissions(tree.join("secret"), PermissionsExt::from_mode(0o600)).expect("a mode");
    let Some(server) = nfs::serve(&s, &tree, "0,1,2") else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let url = |user: &str| server.url().replace("nfs://", &format!("nfs://{user}@"));
    let own = mount(&kernel, &server.url(), LONG).expect("it is mounted");
    let other = mount(&kernel, &url("4123456"), LONG).expect("it is mounted");
    let named = mount(&kernel, &url("daemon"), LONG).expect("it is mounted");
    for (mount, name) in [(&own, "own"), (&other, "other"), (&named, "named")] {
        mount.write(name, b"text").expect("written");
    }
    assert_eq!(own.read("secret").expect("root's"), b"x");
    let error = other.read("secret").expect_err("another's");
    assert_eq!(error.errno(), libc::EACCES);
    for (mount, name, uid) in [
        (own, "own", 0),
        (other, "other", 4123456),
        (named, "named", 1),
    ] {
        mount.unmount().expect("all is written");
        let found = fs::metadata(tree.join(name)).expect("metadata");
        assert_eq!((found.uid(), found.gid()), (uid, uid));
    }
}

#[test]
fn a_server_that_dies_is_an_error_that_says_so() {
    let s = scratch();
    fs::create_dir(s.join("tree")).expect("a directory");
    fs::write(s.join("tree/f"), [7; 1_000_000]).expect("a file");
    let Some(mut server) = nfs::serve(&s, &s.join("tree"), "0,1,2") else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let mount = mount(&kernel, &server.url(), LONG).expect("it is mounted");
    let file = mount.open("f").expect("it is open");
    let new = mount.create("new").expect("a file");
    new.write_all_at(&[1; 100_000], 0).expect("it is cached");
    server.kill();
    let begin = Instant::now();
    assert!(file.read_at(&mut [0; 100], 500_000).is_err());
    assert!(mount.read("f").is_err());
    assert!(new.sync_all().is_err());
    let lost = mount.server().and_then(|server| server.lost());
    let lost = lost.expect("a reason");
    assert!(
        lost.contains("the server has") && lost.contains("nfs://"),
        "{lost}"
    );
    drop((file, new));
    let error = mount.unmount().expect_err("nobody is there").to_string();
    assert!(error.contains("the server has"), "{error}");
    // Nothing of this is waited for as for a server that is to come again.
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert!(kernel.is_alive());
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let s = scratch();
    fs::create_dir(s.join("tree")).expect("a directory");
    fs::write(s.join("tree/f"), [7; 1_000_000]).expect("a file");
    let Some(server) = nfs::serve(&s, &s.join("tree"), "0,1,2") else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let patience = Duration::from_secs(2);
    let given_up = |error: &str, url: &str| {
        let what = "the server has not answered for 2s";
        assert!(error.contains(what) && error.contains(url), "{error}");
    };
    // From the first, or after some answers; or a byte now and then.
    let silent = serve(|mut client| drop(client.read_to_end(&mut Vec::new())));
    let later = [1, 2, 3, 4, 5, 6, 8].map(|mut left| {
        between(&server, move |_, _| {
            left -= 1;
            left >= 0
        })
    });
    let mut left = 3;
    let dripping = between(&server, move |record, client| {
        left -= 1;
        if left > 0 {
            return true;
        }
        let mark = 0x8000_0000 | record.len() as u32;
        let bytes = mark.to_be_bytes().into_iter().chain(record.drain(..));
        // Its last byte would come in time for none.
        for byte in bytes {
            if client.write_all(&[byte]).is_err() {
                break;
            }
            thread::sleep(patience);
        }
        false
    });
    for url in later.into_iter().chain([silent, dripping]) {
        let error = mount(&kernel, &url, patience).expect_err("nothing comes");
        given_up(&error.to_string(), &url);
    }
    // In the middle.
    let (stop, stopped) = mpsc::channel::<()>();
    let url = between(&server, move |_, _| {
        stopped.try_recv() == Err(mpsc::TryRecvError::Empty)
    });
    let mount = mount(&kernel, &url, patience).expect("it is mounted");
    drop(stop);
    assert!(mount.read("f").is_err());
    given_up(&mount.unmount().expect_err("lost").to_string(), &url);
    assert!(kernel.is_alive());
}

#[test]
fn a_server_that_keeps_to_no_protocol_is_an_error_and_no_end_of_the_kernel() {
    const TRIES: u64 = 40;
    let s = scratch();
    fs::create_dir_all(s.join("tree/d")).expect("a directory");
    for n in 0..20 {
        fs::write(s.join(format!("tree/f{n}")), [n; 3000]).expect("a file");
    }
    let Some(server) = nfs::serve(&s, &s.join("tree"), "0,1,2") else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let patience = Duration::from_secs(1);
    for seed in 1..=TRIES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // What is said first is what a mount fails of.
        let mut whole = dice.roll(40);
        let url = between(&server, move |record, client| {
            whole = whole.saturating_sub(1);
            if whole > 0 {
                return true;
            }
            match dice.roll(6) {
                0 => record.truncate(dice.roll(record.len() + 1)),
                1 => record.extend((0..dice.roll(300)).map(|n| n as u8)),
                2 => drop(client.write_all(&[dice.roll(256) as u8; 4])),
                _ => {}
            }
            for _ in 0..dice.roll(4) {
                // Behind the number of the call, most of the time.
                let at = dice.roll(record.len().max(1));
                if let Some(byte) = record.get_mut(at) {
                    *byte = dice.roll(256) as u8;
                }
            }
            !record.is_empty()
        });
        if let Ok(mount) = mount(&kernel, &url, patience) {
            // Whatever is there: it ends.
            let listed = mount.read_dir("/").into_iter().flatten();
            for entry in listed.take(30).flatten() {
                let _ = mount.read(entry.file_name());
            }
        }
        assert!(kernel.is_alive(), "{seed}: {}", kernel.last_words());
    }
}

#[test]
fn what_the_connection_is_cannot_be_said_otherwise() {
    let Some(kernel) = kernel() else { return };
    for option in ["port=1", "addr=10.0.0.1", "nconnect=4", "proto=udp"] {
        let url = serve(|mut client| drop(client.read_to_end(&mut Vec::new())));
        let mut options = MountOptions::new();
        options.options(option);
        let error = mount_with(&kernel, &url, LONG, &options).expect_err(option);
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
    }
}
