//! Promises of watched sockets: the host's poll(2) waits for a kernel's descriptors.

mod inside;
mod wired;

use inside::default_kernel;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;
use tane::net::{Socket, TcpListener, TcpStream, UdpSocket, Watched};
use tane::{Kernel, Ready};
use tane_test_support::eventually;
use wired::{pattern, LONG};

const IN: i16 = libc::POLLIN;
const OUT: i16 = libc::POLLOUT;

/// What the host says of it within so many milliseconds.
fn host_says(of: &impl AsRawFd, events: i16, milliseconds: i32) -> i16 {
    let fd = of.as_raw_fd();
    let mut polled = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one structure.
    unsafe { libc::poll(&raw mut polled, 1, milliseconds) };
    polled.revents
}

fn now(of: &impl AsRawFd) -> i16 {
    host_says(of, IN | OUT, 0)
}

/// The host waits until it is ready for this.
#[track_caller]
fn wait(of: &impl AsRawFd, events: i16) {
    let said = host_says(of, events, LONG.as_millis() as i32);
    assert_ne!(said & events, 0, "it never became ready for {events}");
}

fn looped() -> Option<Kernel> {
    let kernel = default_kernel()?;
    kernel.link("lo").unwrap().set_up().unwrap();
    Some(kernel)
}

fn listen(kernel: &Kernel, ip: impl Into<IpAddr>) -> (Watched<TcpListener>, SocketAddr) {
    let listener = TcpListener::bind(kernel, (ip.into(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (Watched::new(listener).unwrap(), address)
}

fn pair(kernel: &Kernel) -> [Watched<TcpStream>; 2] {
    let (listener, address) = listen(kernel, Ipv4Addr::LOCALHOST);
    let near = TcpStream::connect(kernel, address).unwrap();
    wait(&listener, IN);
    let (far, _) = listener.accept().unwrap();
    [near, far].map(|stream| Watched::new(stream).unwrap())
}

#[test]
fn a_listener_is_readable_while_a_connection_waits() {
    let Some(kernel) = looped() else { return };
    for ip in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let (listener, address) = listen(&kernel, ip);
        for _ in 0..3 {
            let error = listener.accept().expect_err("nobody is there");
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(now(&listener) & IN, 0);
            let streams = [0; 2].map(|_| TcpStream::connect(&kernel, address).unwrap());
            wait(&listener, IN);
            let (first, from) = listener.accept().unwrap();
            assert_eq!(from, streams[0].local_addr().unwrap());
            // The second still waits, so it stays readable.
            assert_eq!(now(&listener) & IN, IN);
            drop((first, listener.accept().unwrap()));
            assert_eq!(now(&listener) & IN, 0);
        }
    }
}

#[test]
fn a_stream_is_ready_for_what_it_can_do_and_nothing_else() {
    let Some(kernel) = looped() else { return };
    let [near, far] = pair(&kernel);
    wait(&near, OUT);
    assert_eq!(now(&near), OUT);
    (&*far).write_all(b"abc").unwrap();
    wait(&near, IN);
    // Read in two parts: it stays readable until all is read.
    assert_eq!((&*near).read(&mut [0; 2]).unwrap(), 2);
    assert_eq!(now(&near), IN | OUT);
    assert_eq!((&*near).read(&mut [0; 2]).unwrap(), 1);
    assert_eq!(now(&near), OUT);
    let error = (&*near).read(&mut [0; 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    // Full, it is writable no more, until somebody reads.
    let data = pattern(1 << 20);
    let mut sent = 0;
    loop {
        match (&*near).write(&data[sent % data.len()..]) {
            Ok(n) => sent += n,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                // What is on its way may still be taken.
                if host_says(&near, OUT, 200) == 0 {
                    break;
                }
            }
        }
    }
    let mut got = 0;
    let mut buffer = vec![0; 100_000];
    while got < sent {
        wait(&far, IN);
        match (&*far).read(&mut buffer) {
            Ok(n) => {
                let at = got % data.len();
                let part = n.min(data.len() - at);
                assert!(buffer[..part] == data[at..at + part], "bytes have changed");
                got += n;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    wait(&near, OUT);
    // An end is something to read.
    far.shutdown(Shutdown::Write).unwrap();
    wait(&near, IN);
    assert_eq!((&*near).read(&mut buffer).unwrap(), 0);
    assert_eq!(now(&near) & IN, IN);
}

#[test]
fn who_waits_for_edges_gets_one_after_each_call_that_would_have_waited() {
    let Some(kernel) = looped() else { return };
    let [near, far] = pair(&kernel);
    // SAFETY: numbers; the events are ours.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event {
        events: (libc::EPOLLIN | libc::EPOLLET) as u32,
        u64: 7,
    };
    let fd = near.as_raw_fd();
    // SAFETY: reads an event.
    let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    assert_eq!(added, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..2_000u32 {
                (&*far).write_all(&number.to_le_bytes()).unwrap();
                if number % 7 == 0 {
                    std::thread::yield_now();
                }
            }
            far.shutdown(Shutdown::Write).unwrap();
        });
        let mut all = Vec::new();
        'all: loop {
            let mut buffer = [0; 1000];
            loop {
                match (&*near).read(&mut buffer) {
                    Ok(0) => break 'all,
                    Ok(n) => all.extend_from_slice(&buffer[..n]),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        break;
                    }
                }
            }
            // SAFETY: writes one event.
            let n = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, LONG.as_millis() as i32) };
            assert_eq!(n, 1, "no edge after {} bytes", all.len());
        }
        let expected: Vec<u8> = (0..2_000u32).flat_map(u32::to_le_bytes).collect();
        assert!(all == expected);
    });
    // SAFETY: ours.
    unsafe { libc::close(epoll) };
}

#[test]
fn a_connection_that_is_made_later_is_told_as_writable_and_a_refusal_too() {
    let Some(kernel) = looped() else { return };
    let (listener, address) = listen(&kernel, Ipv4Addr::LOCALHOST);
    let socket = |kernel: &Kernel| {
        let kind = libc::SOCK_STREAM;
        Watched::new(Socket::new(kernel, libc::AF_INET, kind, 0).unwrap()).unwrap()
    };
    let begin = |socket: &Socket, to: &SocketAddr| match socket.connect(to) {
        Ok(()) => {}
        Err(error) => {
            let errno = error.raw_os_error();
            assert!([Some(libc::EINPROGRESS), Some(libc::ECONNREFUSED)].contains(&errno));
        }
    };
    let near = socket(&kernel);
    begin(&near, &address);
    wait(&near, OUT);
    assert!(near.take_error().unwrap().is_none());
    wait(&listener, IN);
    drop(listener);
    let refused = socket(&kernel);
    let began = refused.connect(&address);
    let error = match began {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            wait(&refused, OUT);
            refused.take_error().unwrap().expect("an error")
        }
        other => other.unwrap_err(),
    };
    assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
}

#[test]
fn datagrams_and_pipes_are_told_as_well() {
    let Some(kernel) = looped() else { return };
    let near = UdpSocket::bind(&kernel, ([127, 0, 0, 1], 0)).unwrap();
    let near = Watched::new(near).unwrap();
    let far = UdpSocket::bind(&kernel, "127.0.0.1:0").unwrap();
    wait(&near, OUT);
    for _ in 0..3 {
        assert_eq!(now(&near), OUT);
        for byte in 0..2 {
            far.send_to(&[byte], near.local_addr().unwrap()).unwrap();
        }
        for byte in 0..2 {
            wait(&near, IN);
            let mut got = [9];
            near.recv(&mut got).unwrap();
            assert_eq!(got, [byte]);
        }
    }
    let mut ends = [0i32; 2];
    let args = [inside::into(&mut ends), libc::O_NONBLOCK as u64];
    inside::ok(&kernel, libc::SYS_pipe2, &args);
    let watch = kernel.watch(ends[0]).unwrap();
    assert_eq!(now(&watch), 0);
    inside::ok(
        &kernel,
        libc::SYS_write,
        &[ends[1] as u64, inside::at(b"ab"), 2],
    );
    wait(&watch, IN);
    let mut byte = [0u8; 1];
    let read = [ends[0] as u64, inside::into(&mut byte), 1];
    inside::ok(&kernel, libc::SYS_read, &read);
    watch.look_again(Ready::READ);
    assert_eq!(now(&watch), IN);
    inside::ok(&kernel, libc::SYS_read, &read);
    watch.look_again(Ready::READ);
    assert_eq!(now(&watch), 0);
    assert_eq!(
        kernel.watch(9999).unwrap_err().raw_os_error(),
        Some(libc::EBADF)
    );
}

#[test]
fn many_are_watched_by_one_thread_which_ends_with_the_last_of_them() {
    const MANY: usize = 200;
    let Some(kernel) = looped() else { return };
    let threads = || {
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "tane-watch").count()
    };
    // Other tests of this program have kernels of their own.
    let before = threads();
    let pairs: Vec<_> = (0..MANY).map(|_| pair(&kernel)).collect();
    assert!(threads() <= before + 4, "a thread for each");
    for (number, [near, _]) in pairs.iter().enumerate() {
        (&**near).write_all(&[number as u8]).unwrap();
    }
    for (number, [_, far]) in pairs.iter().enumerate() {
        wait(far, IN);
        let mut byte = [0];
        (&**far).read_exact(&mut byte).unwrap();
        assert_eq!(byte, [number as u8]);
    }
    // While anything is watched, a call waits inside.
    let error = kernel.checkpoint().expect_err("it waits");
    assert_eq!(error.errno(), libc::EBUSY);
    drop(pairs);
    kernel.checkpoint().expect("nobody waits any more");
}

#[test]
fn who_asks_for_the_descriptor_gets_it_up_to_date() {
    let Some(kernel) = looped() else { return };
    let near = UdpSocket::bind(&kernel, "127.0.0.1:0").unwrap();
    let socket: &Socket = near.as_ref();
    let says = || now(&socket.watch().unwrap());
    for _ in 0..20 {
        near.send_to(b"x", near.local_addr().unwrap()).unwrap();
        assert_eq!(says(), IN | OUT);
        near.recv(&mut [0]).unwrap();
        assert_eq!(says(), OUT);
    }
}

#[test]
fn clones_share_what_the_host_is_told() {
    let Some(kernel) = looped() else { return };
    let [near, far] = pair(&kernel);
    let other = near.try_clone().unwrap();
    (&*far).write_all(b"x").unwrap();
    wait(&near, IN);
    (&other).read_exact(&mut [0]).unwrap();
    assert_eq!(now(&near) & IN, 0);
    drop(near);
    // The other handle keeps the connection.
    (&other).write_all(b"y").unwrap();
    wait(&far, IN);
    drop(other);
    (&*far).read_exact(&mut [0]).unwrap();
    wait(&far, IN);
    assert_eq!((&*far).read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_end_of_a_kernel_wakes_who_waits() {
    let Some(kernel) = looped() else { return };
    let [near, _far] = pair(&kernel);
    assert_eq!(now(&near) & IN, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            kernel.halt();
        });
        wait(&near, IN);
    });
    let error = (&*near).read(&mut [0]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESHUTDOWN));
}

#[test]
fn what_is_watched_leaves_nothing_behind() {
    let Some(kernel) = looped() else { return };
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let round = || drop((0..20).map(|_| pair(&kernel)).collect::<Vec<_>>());
    round();
    let inside = || {
        kernel
            .tree("/proc")
            .unwrap()
            .read_dir("self/fd")
            .unwrap()
            .count()
    };
    let before = inside();
    for _ in 0..5 {
        round();
    }
    assert_eq!(inside(), before);
    // Other tests open and close descriptors of the host's meanwhile.
    eventually("the host's are closed", || open() < 400);
}
