//! Files of servers, by Linux's own client of 9p: diod's, and servers of the test's own for
//! what that one never does.

mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;
use tane::images::NetFsConnection;
use tane::{Kernel, Mount, MountOptions, Result};
use tane_test_support::{image, ninep, Dice, Scratch};

/// Of servers that answer: no test takes as long.
const LONG: Duration = Duration::from_secs(300);

fn kernel() -> Option<Kernel> {
    let image = image("remote")?;
    Some(Kernel::builder().image(image).boot().expect("it boots"))
}

fn mount(kernel: &Kernel, url: &str, silence: Duration) -> Result<Mount> {
    let connection = NetFsConnection::new(url, silence).expect("a connection");
    let user = Command::new("id").arg("-un").output().expect("id").stdout;
    let user = String::from_utf8(user).expect("a name");
    kernel.mount_netfs(connection, user.trim(), &MountOptions::new())
}

/// A server that does this with its only client, and its address.
fn serve(with: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || with(listener.accept().expect("a client").0));
    format!("9p://{address}/")
}

/// The next request: its type and its tag.
fn request(client: &mut TcpStream) -> Option<(u8, [u8; 2])> {
    let mut head = [0; 7];
    client.read_exact(&mut head).ok()?;
    let [a, b, c, d, kind, tag @ ..] = head;
    let size = u32::from_le_bytes([a, b, c, d]);
    let mut rest = vec![0; size as usize - head.len()];
    client.read_exact(&mut rest).ok()?;
    Some((kind, tag))
}

fn answer(client: &mut TcpStream, kind: u8, tag: [u8; 2], text: &[u8]) -> Option<()> {
    let size = 7 + text.len() as u32;
    let all = [&size.to_le_bytes()[..], &[kind], &tag, text].concat();
    client.write_all(&all).ok()
}

/// Agree on the version of the protocol.
fn agree(client: &mut TcpStream) -> Option<()> {
    let (kind, tag) = request(client)?;
    assert_eq!(kind, 100, "Tversion");
    let text = [&65536u32.to_le_bytes()[..], b"\x08\x009P2000.L"].concat();
    answer(client, 101, tag, &text)
}

#[test]
fn files_of_a_server_are_as_the_server_has_them() {
    let s = Scratch::within(env!("CARGO_TARGET_TMPDIR").as_ref(), "netfs");
    let tree = s.join("tree");
    served::tree(&tree);
    let Some(server) = ninep::serve(&s, &tree) else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    for url in [server.url(), server.url_of_port()] {
        let mount = mount(&kernel, &url, LONG).expect("it is mounted");
        served::is_as_it_is(&mount, &tree);
    }
}

#[test]
fn what_is_written_is_in_the_servers_tree() {
    let s = Scratch::within(env!("CARGO_TARGET_TMPDIR").as_ref(), "netfs");
    let tree = s.join("tree");
    served::tree_to_write(&tree);
    let Some(server) = ninep::serve(&s, &tree) else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let mount = mount(&kernel, &server.url(), LONG).expect("it is mounted");
    mount
        .set_xattr("short", "user.a", b"value", 0)
        .expect("an attribute");
    served::is_written(mount, &tree);
    let mut getfattr = Command::new("getfattr");
    getfattr
        .args(["--only-values", "-n", "user.a"])
        .arg(tree.join("short"));
    assert_eq!(getfattr.output().expect("getfattr").stdout, b"value");
}

#[test]
fn a_server_that_dies_is_an_error_that_says_so() {
    let s = Scratch::within(env!("CARGO_TARGET_TMPDIR").as_ref(), "netfs");
    fs::create_dir(s.join("tree")).expect("a directory");
    fs::write(s.join("tree/f"), [7; 1_000_000]).expect("a file");
    let Some(mut server) = ninep::serve(&s, &s.join("tree")) else {
        return;
    };
    let Some(kernel) = kernel() else { return };
    let mount = mount(&kernel, &server.url(), LONG).expect("it is mounted");
    let file = mount.open("f").expect("it is open");
    server.kill();
    assert!(file.read_at(&mut [0; 100], 500_000).is_err());
    assert!(mount.read("f").is_err());
    let lost = mount.server().and_then(|server| server.lost());
    let lost = lost.expect("a reason");
    assert!(
        lost.contains("the server has") && lost.contains("9p+unix://"),
        "{lost}"
    );
    // Nothing of this is waited for.
    let error = mount.unmount().expect_err("nobody is there").to_string();
    assert!(error.contains("the server has"), "{error}");
    assert!(kernel.is_alive());
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let Some(kernel) = kernel() else { return };
    let patience = Duration::from_secs(2);
    // From the first, or after the version was agreed on; or a byte now and then.
    let silent = serve(|mut client| drop(client.read_to_end(&mut Vec::new())));
    let later = serve(|mut client| {
        agree(&mut client);
        let _ = client.read_to_end(&mut Vec::new());
    });
    let dripping = serve(move |mut client| {
        agree(&mut client);
        let (kind, [low, high]) = request(&mut client).expect("Tattach");
        let begin = client.write_all(&[20, 0, 0, 0, kind + 1, low, high]);
        begin.expect("it is taken");
        // Its last byte would come in time for none.
        while client.write_all(&[0]).is_ok() {
            thread::sleep(patience);
        }
    });
    for url in [silent, later, dripping] {
        let error = mount(&kernel, &url, patience).expect_err("nothing comes");
        let text = error.to_string();
        assert!(
            text.contains("the server has not answered for 2s"),
            "{text}"
        );
        assert!(text.contains(&url), "{text}");
    }
    assert!(kernel.is_alive());
}

#[test]
fn a_server_that_keeps_to_no_protocol_is_an_error_and_no_end_of_the_kernel() {
    const TRIES: u64 = 60;
    let Some(kernel) = kernel() else { return };
    for seed in 1..=TRIES {
        let url = serve(move |mut client| {
            let mut dice = Dice(seed * 0x9e37_79b9_7f4a_7c15);
            agree(&mut client);
            // As many requests as a mount and a listing have, some hundred at most.
            for _ in 0..300 {
                let Some((kind, tag)) = request(&mut client) else {
                    return;
                };
                let kind = match dice.roll(8) {
                    0 => dice.roll(256) as u8,
                    1 => 7,
                    _ => kind + 1,
                };
                let len = dice.roll(300);
                let text: Vec<u8> = (0..len).map(|_| dice.roll(256) as u8).collect();
                let tag = match dice.roll(16) {
                    0 => [dice.roll(256) as u8, 0],
                    _ => tag,
                };
                if answer(&mut client, kind, tag, &text).is_none() {
                    return;
                }
            }
        });
        if let Ok(mount) = mount(&kernel, &url, LONG) {
            // Whatever is there: it ends.
            let listed = mount.read_dir("/").into_iter().flatten();
            for entry in listed.take(100).flatten() {
                let _ = mount.read(entry.file_name());
            }
        }
        assert!(kernel.is_alive(), "{seed}: {}", kernel.last_words());
    }
}
