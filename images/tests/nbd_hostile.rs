//! Promises about servers of NBD that lie, stall or go away when they are asked for
//! something: a clear error, and no harm to what others have asked for.

mod common;

use common::nbd::*;
use common::{read, write};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tane_images::Backend;
use tane_test_support::nbd::{Server, ALL};
use tane_test_support::{eventually, Dice};

/// Of a server that will be silent, and is given up soon. It may be slow before as well, on
/// a machine that is busy; then it is asked again.
fn briefly(url: &str) -> Arc<dyn Backend> {
    let mut found = None;
    eventually("the server's handshake", || {
        match options().timeout(BRIEF).open(url) {
            Ok(image) => found = Some(image.backend),
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {}
            Err(e) => panic!("{e}"),
        }
        found.is_some()
    });
    found.expect("just opened")
}

/// Each is what happens to the request that comes first; others are answered well.
#[test]
fn nonsense_afterwards_is_an_error_for_all_who_wait_and_ever_after() {
    let scripts: [(&str, Script); 10] = [
        ("ended the connection", |_| None),
        ("given up", |c| c.be_silent()),
        ("is no answer", |c| c.send(&[7; 4096])),
        ("was not asked", |c| {
            let request = c.request()?;
            c.reply(request.cookie + 1000, 0, &[0; 512])
        }),
        ("was not asked", |c| {
            let request = c.request()?;
            c.reply(request.cookie, 0, &vec![0; request.len as usize])?;
            c.reply(request.cookie, 0, &vec![0; request.len as usize])
        }),
        ("ended the connection", |c| {
            let request = c.request()?;
            c.reply(request.cookie, 0, &vec![0; request.len as usize / 2])
        }),
        ("given up", |c| {
            let request = c.request()?;
            c.reply(request.cookie, 0, &vec![0; request.len as usize / 2])?;
            c.be_silent()
        }),
        // A byte now and then.
        ("given up", |c| {
            let request = c.request()?;
            c.reply(request.cookie, 0, &[])?;
            loop {
                c.send(&[0])?;
                std::thread::sleep(BRIEF / 10);
            }
        }),
        ("given up", |c| {
            let cookie = c.request()?.cookie.to_be_bytes();
            let error = [0x6744_6698_u32, 5].map(u32::to_be_bytes).concat();
            for byte in [&error[..], &cookie].concat() {
                c.send(&[byte])?;
                std::thread::sleep(BRIEF);
            }
            serve_on(c)
        }),
        // As if structured replies had been agreed on.
        ("is no answer", |c| {
            c.send(&0x668e_33ef_u32.to_be_bytes().repeat(8))
        }),
    ];
    for (text, script) in scripts {
        let server = Server::new(move |client| {
            client.agree(SIZE, ALL)?;
            script(client)
        });
        let url = server.url("x");
        let disk = &match text {
            "given up" => briefly(&url),
            _ => patient(&url),
        };
        let failed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (failed, url) = (&failed, &url);
                scope.spawn(move || {
                    // One of them may have been answered before.
                    let result = read(&**disk, thread * 4096, 4096);
                    if result.is_err() {
                        failed.fetch_add(1, SeqCst);
                        says(result, url, text);
                    }
                });
            }
        });
        assert!(failed.into_inner() >= 3, "{text}");
        says(read(&**disk, 0, 512), &url, text);
        says(write(&**disk, 0, &[0; 512]), &url, text);
        says(disk.flush(), &url, text);
    }
}

#[test]
fn a_request_that_is_forgotten_while_others_are_answered_is_given_up() {
    let server = Server::new(|client| {
        client.agree(SIZE, ALL)?;
        loop {
            let request = client.request()?;
            if request.offset != 0 {
                client.reply(request.cookie, 0, &vec![0; request.len as usize])?;
            }
        }
    });
    let url = server.url("x");
    let disk = &briefly(&url);
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || while !over.load(SeqCst) && read(&**disk, 512, 512).is_ok() {});
        says(read(&**disk, 0, 512), &url, "given up");
        over.store(true, SeqCst);
    });
}

#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let server = Server::new(|client| {
        client.agree(1 << 30, ALL)?;
        client.be_silent()
    });
    let url = server.url("x");
    let disk = briefly(&url);
    // More than sockets hold.
    says(write(&*disk, 0, &vec![0; 256 << 20]), &url, "given up");
}

#[test]
fn whatever_a_server_sends_nothing_worse_than_an_error_comes_of_it() {
    let kinds: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    for seed in 1..60 {
        let server = Server::new(move |client| {
            let mut dice = Dice(seed * 7919);
            // As far as chance has it.
            match dice.roll(4) {
                0 => client.send(b"NBDMAGICIHAVEOPT\0\x03")?,
                1 => client.greet()?,
                2 => {
                    client.greet()?;
                    client.option()?;
                }
                _ => client.agree(SIZE, ALL)?,
            }
            for _ in 0..dice.roll(40) {
                let words: [&[u8]; 5] = [
                    &0x6744_6698_u32.to_be_bytes(),
                    &0x0003_e889_0455_65a9_u64.to_be_bytes(),
                    &[0; 8],
                    &[0, 0, 0, 7, 0, 0, 0, 3],
                    &[0, 0, 0, 0, 0, 0, 0, 1],
                ];
                match dice.roll(3) {
                    0 => client.send(&[dice.roll(256) as u8])?,
                    _ => client.send(words[dice.roll(5)])?,
                }
            }
            Some(())
        });
        let disk = open(&server.url("x"));
        let result = disk.and_then(|disk| {
            read(&*disk, 0, 4096)?;
            read(&*disk, 4096, 4096)
        });
        let text = result.expect_err("nonsense").to_string();
        kinds
            .lock()
            .expect("them")
            .insert(text.split(": ").last().expect("some").into());
    }
    let kinds = kinds.lock().expect("them");
    assert!(kinds.len() > 3, "{kinds:?}");
}
