//! Promises of impairments: a wire is as slow, short of room and lossy as it was asked to be.

mod inside;
mod wired;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};
use tane::net::{Impairment, Socket, TcpListener, UdpSocket};
use wired::{connect, pattern, plain, two, v4, Two, LONG};

fn how(text: &str) -> Impairment {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Two kernels that know each other's addresses, with nothing else on their wire: chance is
/// drawn for each packet.
fn quiet() -> Option<Two> {
    let two = two([&plain(), &plain()])?;
    for (nic, kernel) in two.nics.iter().zip(&two.kernels) {
        let path = format!("net/ipv6/conf/{}/disable_ipv6", nic.name());
        kernel.tree("/proc/sys").unwrap().write(path, "1").unwrap();
    }
    wired::datagrams(&two.kernels[0], &two.kernels[1], v4(), &[1]);
    Some(two)
}

/// Which of so many numbered datagrams arrive, and how often.
fn arrived(two: &Two, count: u32) -> Vec<u32> {
    let there = UdpSocket::bind(&two.kernels[1], (v4().there, 0)).unwrap();
    // Nothing is read before all is sent.
    let room = 8i32 << 20;
    let socket: &Socket = there.as_ref();
    socket
        .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room)
        .unwrap();
    let here = UdpSocket::bind(&two.kernels[0], (v4().here, 0)).unwrap();
    here.connect(there.local_addr().unwrap()).unwrap();
    for number in 0..count {
        here.send(&number.to_le_bytes()).unwrap();
    }
    // The last that is sent, without impairment, comes behind them.
    two.nics[0].unimpair().unwrap();
    here.send(&u32::MAX.to_le_bytes()).unwrap();
    there.set_read_timeout(Some(LONG)).unwrap();
    let mut numbers = Vec::new();
    loop {
        let mut bytes = [0; 4];
        there.recv(&mut bytes).expect("the last one");
        match u32::from_le_bytes(bytes) {
            u32::MAX => return numbers,
            number => numbers.push(number),
        }
    }
}

#[test]
fn a_way_that_is_long_takes_that_long() {
    let Some(two) = two([&Default::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    let listener = TcpListener::bind(b, (v4().there, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    for (nic, text, least) in [
        (&two.nics[0], "delay=60ms", 60),
        // Another one takes its place; and the other end adds its own.
        (&two.nics[0], "delay=30ms", 30),
        (&two.nics[1], "delay=50ms", 80),
    ] {
        nic.impair(&how(text)).unwrap();
        let begun = Instant::now();
        connect(a, to);
        assert!(begun.elapsed() >= Duration::from_millis(least), "{text}");
    }
}

#[test]
fn a_rate_is_not_exceeded() {
    let Some(two) = two([&Default::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    two.nics[0].impair(&how("rate=4mbit,limit=10000")).unwrap();
    let listener = TcpListener::bind(b, (v4().there, 0)).unwrap();
    let mut near = connect(a, listener.local_addr().unwrap());
    let (mut far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    let data = pattern(250_000);
    let begun = Instant::now();
    let back = std::thread::scope(|scope| {
        scope.spawn(|| {
            near.write_all(&data).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        far.read_to_end(&mut back).unwrap();
        back
    });
    // Two million bits, of which the last ones are on their way when they are counted.
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert!(back == data, "bytes have changed");
}

#[test]
fn what_is_lost_or_comes_twice_is_up_to_the_seed() {
    let mut before = None;
    for _ in 0..2 {
        let Some(two) = quiet() else { return };
        two.nics[0].impair(&how("loss=30%,seed=7")).unwrap();
        let some = arrived(&two, 300);
        assert!((150..=260).contains(&some.len()), "{} of 300", some.len());
        two.nics[0].impair(&how("duplicate=50%,seed=7")).unwrap();
        let more = arrived(&two, 300);
        assert!((380..=520).contains(&more.len()), "{} of 300", more.len());
        let both = (some, more);
        assert_eq!(before.get_or_insert_with(|| both.clone()), &both);
    }
    let Some(two) = quiet() else { return };
    two.nics[0].impair(&how("loss=30%,seed=8")).unwrap();
    assert_ne!(before.map(|(some, _)| some), Some(arrived(&two, 300)));
}

#[test]
fn a_way_that_loses_everything_is_none_and_a_corrupt_one_keeps_tcp_right() {
    let Some(two) = quiet() else { return };
    two.nics[0].impair(&how("loss=100%")).unwrap();
    assert!(arrived(&two, 50).is_empty());
    two.nics[0]
        .impair(&how("corrupt=5%,loss=2%,seed=1"))
        .unwrap();
    wired::echo(&two.kernels[0], &two.kernels[1], v4().there, 300_000);
    two.nics[0].unimpair().unwrap();
    assert!(
        two.nics[0].unimpair().is_err(),
        "there was nothing any more"
    );
}
