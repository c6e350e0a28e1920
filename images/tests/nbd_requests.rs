//! Promises about what an NBD server is asked for, and what becomes of its answers.

mod common;

use common::nbd::*;
use common::{pattern, read, write};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use tane_images::Backend;
use tane_test_support::nbd::{Server, ALL, DISCONNECT, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
use tane_test_support::{eventually, Dice};

#[test]
fn answers_in_any_order_are_those_of_their_questions() {
    const THREADS: usize = 8;
    let server = Server::new(|client| {
        client.agree(SIZE, ALL)?;
        let mut dice = Dice(9);
        loop {
            // Not before all of them are there.
            let mut requests = Vec::new();
            for _ in 0..THREADS {
                requests.push(client.request()?);
            }
            while !requests.is_empty() {
                let request = requests.swap_remove(dice.roll(requests.len()));
                let data = request
                    .offset
                    .to_be_bytes()
                    .repeat(request.len as usize / 8);
                client.reply(request.cookie, 0, &data)?;
            }
        }
    });
    let disk = &patient(&server.url("x"));
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            scope.spawn(move || {
                for round in 0..50 {
                    let at = (round * THREADS as u64 + thread) * 4096;
                    let bytes = read(&**disk, at, 4096).expect("read");
                    assert!(bytes == at.to_be_bytes().repeat(512), "{at}");
                }
            });
        }
    });
}

#[test]
fn a_large_read_is_several_requests_at_once() {
    let server = Server::new(|client| {
        client.agree(SIZE, ALL)?;
        let first = client.request()?;
        let mut seen = vec![first.clone()];
        let most = u64::from(first.len);
        while (seen.len() as u64) < SIZE / most {
            seen.push(client.request()?);
        }
        for request in seen {
            client.reply(request.cookie, 0, &vec![3; request.len as usize])?;
        }
        serve_on(client)
    });
    let disk = patient(&server.url("x"));
    assert!(read(&*disk, 0, SIZE as usize).expect("read") == vec![3; SIZE as usize]);
}

/// A server that cannot go on until its answers are read, while much is written to it.
#[test]
fn who_writes_much_does_not_wait_for_who_reads_much() {
    let server = Server::new(|client| {
        client.agree(SIZE, ALL)?;
        serve_on(client)
    });
    let disk = &patient(&server.url("x"));
    let bytes = &pattern(4 << 20, 1);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                for _ in 0..10 {
                    match thread % 2 {
                        0 => assert_eq!(read(&**disk, 0, 4 << 20).expect("read").len(), 4 << 20),
                        _ => write(&**disk, 0, bytes).expect("written"),
                    }
                }
            });
        }
    });
}

#[test]
fn errors_of_a_server_are_the_questions_alone() {
    // NBD has the first of these; the others nobody.
    for number in [5, 28, 75, 1, 0xffff_ffff, 1 << 16] {
        let server = Server::new(move |client| {
            client.agree(SIZE, ALL)?;
            loop {
                let request = client.request()?;
                match (request.command, request.offset) {
                    (READ, 0) => client.reply(request.cookie, 0, &vec![4; request.len as usize])?,
                    (WRITE, 512) => client.reply(request.cookie, 0, &[])?,
                    _ => client.reply(request.cookie, number, &[])?,
                }
            }
        });
        let url = server.url("x");
        let disk = patient(&url);
        says(read(&*disk, 512, 512), &url, "read 512 bytes at 512: ");
        says(write(&*disk, 0, &[0; 512]), &url, "write 512 bytes at 0: ");
        says(disk.flush(), &url, "keep what was written: ");
        says(disk.discard(0, 4096), &url, "give up 4096 bytes at 0: ");
        says(
            disk.write_zeroes(0, 512, true),
            &url,
            "write zeroes of 512 bytes at 0: ",
        );
        assert_eq!(read(&*disk, 0, 512).expect("read"), [4; 512]);
        write(&*disk, 512, &[0; 512]).expect("written");
    }
}

#[test]
fn a_flush_is_asked_for_behind_the_writes_that_it_is_for() {
    let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
    let log = asked.clone();
    let server = Server::new(move |client| {
        client.agree(SIZE, ALL)?;
        loop {
            let request = client.request()?;
            log.lock().expect("the log").push(request.command);
            client.reply(request.cookie, 0, &[])?;
        }
    });
    let disk = patient(&server.url("x"));
    write(&*disk, 0, &vec![0; 3 << 20]).expect("written");
    disk.flush().expect("flushed");
    drop(disk);
    let gone = || asked.lock().expect("the log").last() == Some(&DISCONNECT);
    eventually("the server is told of the end", gone);
    let asked = asked.lock().expect("the log");
    assert_eq!(*asked, [WRITE, WRITE, WRITE, FLUSH, DISCONNECT]);
}

#[test]
fn after_a_flush_that_failed_none_is_good_again() {
    let server = Server::new(|client| {
        client.agree(SIZE, ALL)?;
        let mut failed = false;
        loop {
            let request = client.request()?;
            // As a server whose host's kernel tells of lost pages once.
            let fails = request.command == FLUSH && !std::mem::replace(&mut failed, true);
            client.reply(request.cookie, if fails { 5 } else { 0 }, &[])?;
        }
    });
    let url = server.url("x");
    let disk = patient(&url);
    write(&*disk, 0, &[1; 512]).expect("written");
    for _ in 0..3 {
        says(disk.flush(), &url, "keep what was written: ");
        write(&*disk, 0, &[1; 512]).expect("written");
    }
}

/// A server of this largest request, which refuses larger ones of those that move nothing if
/// `is_strict`: the offsets and lengths of the others; and how many it refused.
fn ranges(
    largest: u32,
    is_strict: bool,
    act: impl FnOnce(&dyn Backend) -> io::Result<()>,
) -> (BTreeSet<(u64, u32)>, usize) {
    let done: Arc<Mutex<(BTreeSet<_>, usize)>> = Arc::default();
    let log = done.clone();
    let server = Server::new(move |client| {
        client.greet()?;
        client.option()?;
        client.answer(7, 3, &info(0, &[1 << 40, ALL.into()]))?;
        client.answer(7, 3, &info(3, &[512, 4096, largest.into()]))?;
        client.answer(7, 1, &[])?;
        loop {
            let request = client.request()?;
            let is_refused = is_strict && request.len > largest;
            let moves_nothing = [TRIM, WRITE_ZEROES].contains(&request.command);
            let mut seen = log.lock().expect("the log");
            if is_refused {
                seen.1 += 1;
            } else if moves_nothing {
                seen.0.insert((request.offset, request.len));
            }
            drop(seen);
            // EOVERFLOW.
            client.reply(request.cookie, if is_refused { 75 } else { 0 }, &[])?;
        }
    });
    act(&*patient(&server.url("x"))).expect("done");
    let done = done.lock().expect("the log");
    done.clone()
}

#[test]
fn what_moves_nothing_is_asked_for_in_ranges_of_32_mib_or_what_the_server_takes() {
    const RANGE: u64 = 32 << 20;
    let most = 600 * (1 << 20) + 512;
    let wanted = |step: u64| -> BTreeSet<_> {
        let starts = (0..most).step_by(step as usize);
        starts
            .map(|at| (4096 + at, step.min(most - at) as u32))
            .collect()
    };
    for (largest, is_strict, step) in [
        (RANGE as u32, true, RANGE),
        (1 << 20, true, 1 << 20),
        // Its limit is for what moves data.
        (1 << 20, false, RANGE),
        (u32::MAX, false, RANGE),
    ] {
        let (trimmed, _) = ranges(largest, is_strict, |disk| disk.discard(4096, most));
        assert!(trimmed == wanted(step), "{largest}: {trimmed:?}");
        let (zeroed, _) = ranges(largest, is_strict, |disk| {
            disk.write_zeroes(4096, most, true)
        });
        assert!(zeroed == wanted(step), "{largest}: {zeroed:?}");
    }
}

#[test]
fn a_server_is_asked_for_more_than_it_takes_once() {
    let (zeroed, refused) = ranges(1 << 20, true, |disk| {
        disk.write_zeroes(0, 64 << 20, true)?;
        disk.write_zeroes(64 << 20, 64 << 20, true)
    });
    assert_eq!((zeroed.len(), refused), (128, 1));
}
