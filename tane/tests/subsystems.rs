//! What the default kernel offers beside files: networking, namespaces, control
//! groups, BPF, io_uring.

mod inside;

use inside::{at, call, default_kernel, into, ok};
use std::sync::atomic::{AtomicU32, Ordering};
use tane::{Kernel, MountOptions};

fn socket(kernel: &Kernel, family: i32, kind: i32) -> u64 {
    ok(kernel, libc::SYS_socket, &[family as u64, kind as u64, 0])
}

/// `struct ifreq` of lo, with its flags.
fn lo_request(flags: i16) -> [u8; 40] {
    let mut request = [0; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    request
}

fn lo_flags(kernel: &Kernel, socket: u64) -> i32 {
    let mut request = lo_request(0);
    let get = libc::SIOCGIFFLAGS;
    ok(kernel, libc::SYS_ioctl, &[socket, get, into(&mut request)]);
    i32::from(i16::from_ne_bytes([request[16], request[17]]))
}

fn lo_up(kernel: &Kernel) {
    let inet = socket(kernel, libc::AF_INET, libc::SOCK_DGRAM);
    let flags = lo_flags(kernel, inet) | libc::IFF_UP;
    let request = lo_request(flags as i16);
    let set = libc::SIOCSIFFLAGS;
    ok(kernel, libc::SYS_ioctl, &[inet, set, at(&request)]);
    ok(kernel, libc::SYS_close, &[inet]);
}

/// 127.0.0.1 and this port.
fn local(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    }
}

const ADDRESS: u64 = size_of::<libc::sockaddr_in>() as u64;

/// A listening socket and its port.
fn listen(kernel: &Kernel) -> (u64, u16) {
    let listener = socket(kernel, libc::AF_INET, libc::SOCK_STREAM);
    let mut address = local(0);
    let bind = [listener, at(&address), ADDRESS];
    ok(kernel, libc::SYS_bind, &bind);
    ok(kernel, libc::SYS_listen, &[listener, 8]);
    let mut len = ADDRESS as u32;
    let name = [listener, into(&mut address), into(&mut len)];
    ok(kernel, libc::SYS_getsockname, &name);
    (listener, u16::from_be(address.sin_port))
}

fn connect(kernel: &Kernel, port: u16) -> Result<u64, i32> {
    let client = socket(kernel, libc::AF_INET, libc::SOCK_STREAM);
    let args = [client, at(&local(port)), ADDRESS];
    call(kernel, libc::SYS_connect, &args).map(|_| client)
}

fn send(kernel: &Kernel, socket: u64, bytes: &[u8]) {
    let args = [socket, at(bytes), bytes.len() as u64, 0, 0, 0];
    let sent = ok(kernel, libc::SYS_sendto, &args);
    assert_eq!(sent, bytes.len() as u64);
}

fn receive(kernel: &Kernel, socket: u64, bytes: &mut [u8], flags: i32) -> Result<u64, i32> {
    let len = bytes.len() as u64;
    let args = [socket, into(bytes), len, flags as u64, 0, 0];
    call(kernel, libc::SYS_recvfrom, &args)
}

#[test]
fn tcp_over_the_loopback() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    lo_up(&kernel);
    let (listener, port) = listen(&kernel);
    std::thread::scope(|scope| {
        // An echo: this thread blocks in accept and in recv.
        scope.spawn(|| {
            let peer = ok(&kernel, libc::SYS_accept, &[listener, 0, 0]);
            let mut bytes = [0; 64];
            for _ in 0..100 {
                let wait = libc::MSG_WAITALL;
                assert_eq!(receive(&kernel, peer, &mut bytes, wait), Ok(64));
                send(&kernel, peer, &bytes);
            }
            ok(&kernel, libc::SYS_close, &[peer]);
        });
        let client = connect(&kernel, port).expect("connects");
        for round in 0..100 {
            send(&kernel, client, &[round; 64]);
            let mut back = [0; 64];
            let wait = libc::MSG_WAITALL;
            assert_eq!(receive(&kernel, client, &mut back, wait), Ok(64));
            assert_eq!(back, [round; 64]);
        }
        // The other side has closed.
        assert_eq!(receive(&kernel, client, &mut [0], 0), Ok(0));
    });
}

#[test]
fn a_network_namespace_is_a_network_of_its_own() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    lo_up(&kernel);
    let (_listener, port) = listen(&kernel);
    connect(&kernel, port).expect("connects where it listens");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let new = libc::CLONE_NEWNET as u64;
            ok(&kernel, libc::SYS_unshare, &[new]);
            let inet = socket(&kernel, libc::AF_INET, libc::SOCK_DGRAM);
            assert_eq!(lo_flags(&kernel, inet) & libc::IFF_UP, 0, "lo is down");
            assert_eq!(connect(&kernel, port), Err(libc::ENETUNREACH));
            lo_up(&kernel);
            assert_eq!(connect(&kernel, port), Err(libc::ECONNREFUSED));
            let (_listener, port) = listen(&kernel);
            connect(&kernel, port).expect("connects to its own");
        });
    });
    connect(&kernel, port).expect("others are not affected");
}

#[test]
fn control_groups_limit() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut options = MountOptions::new();
    let cgroup = options.fstype("cgroup2").mount(&kernel, "cgroup2");
    let cgroup = cgroup.expect("mounts");
    let text = |path: &str| cgroup.read_to_string(path).expect(path);
    let set = |path: &str, value: &str| {
        let file = tane::OpenOptions::new().write(true).open(&cgroup, path);
        let file = file.expect(path);
        file.write_all_at(value.as_bytes(), 0).expect(path);
    };
    let controllers = text("cgroup.controllers");
    for controller in ["cpu", "io", "memory", "pids"] {
        let found = controllers.split_whitespace().any(|c| c == controller);
        assert!(found, "no {controller} in {controllers}");
    }
    set("cgroup.subtree_control", "+pids +memory");
    cgroup.create_dir("group").expect("a group");
    set("group/pids.max", "2");
    assert_eq!(text("group/pids.max"), "2\n");
    assert_eq!(text("group/pids.current"), "0\n");
    // This process, with all its threads, goes in and comes out again.
    set("group/cgroup.procs", "0");
    let inside: u32 = text("group/pids.current").trim().parse().expect("a number");
    assert!(inside >= 1);
    set("cgroup.procs", "0");
    assert_eq!(text("group/pids.current"), "0\n");
    cgroup.remove_dir("group").expect("goes away");
}

const BPF_PROG_LOAD: u64 = 5;
const BPF_PROG_TEST_RUN: u64 = 10;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const SO_ATTACH_BPF: u64 = 50;

/// `union bpf_attr`, as words of 32 bits; a pointer takes two.
fn attributes(words: &[(usize, u64)]) -> [u32; 32] {
    let mut attr = [0; 32];
    for &(at, value) in words {
        attr[at] = value as u32;
        if value >> 32 != 0 {
            attr[at + 1] = (value >> 32) as u32;
        }
    }
    attr
}

fn bpf(kernel: &Kernel, command: u64, attr: &mut [u32; 32]) -> Result<u64, i32> {
    call(kernel, libc::SYS_bpf, &[command, into(attr), 128])
}

/// A socket filter that lets this many bytes through.
fn filter(kernel: &Kernel, keep: u32, log: &mut [u8]) -> Result<u64, i32> {
    let mov_r0 = 0xb7 | u64::from(keep) << 32;
    let exit = 0x95;
    let program = [mov_r0, exit];
    let mut attr = attributes(&[
        (0, BPF_PROG_TYPE_SOCKET_FILTER.into()),
        (1, 2),
        (2, at(&program)),
        (4, at(c"GPL".to_bytes_with_nul())),
        (6, 1),
        (7, log.len() as u64),
        (8, into(log)),
    ]);
    bpf(kernel, BPF_PROG_LOAD, &mut attr)
}

#[test]
fn bpf_programs_run_in_the_interpreter() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut log = vec![0; 65536];
    let program = filter(&kernel, 7, &mut log).unwrap_or_else(|errno| {
        panic!("{errno}: {}", String::from_utf8_lossy(&log));
    });
    let packet = [0u8; 64];
    let mut test = attributes(&[(0, program), (2, 64), (4, at(&packet)), (8, 1000)]);
    bpf(&kernel, BPF_PROG_TEST_RUN, &mut test).expect("runs");
    assert_eq!(test[1], 7, "what the program returned");

    // Attached to a socket it cuts what arrives to seven bytes.
    let mut pair = [0u32; 2];
    let kind = libc::SOCK_DGRAM as u64;
    let args = [libc::AF_UNIX as u64, kind, 0, into(&mut pair)];
    ok(&kernel, libc::SYS_socketpair, &args);
    let [from, to] = pair.map(u64::from);
    let number = program as u32;
    let level = libc::SOL_SOCKET as u64;
    let args = [to, level, SO_ATTACH_BPF, at(&number), 4];
    ok(&kernel, libc::SYS_setsockopt, &args);
    send(&kernel, from, &packet);
    assert_eq!(receive(&kernel, to, &mut [0; 64], 0), Ok(7));
}

#[test]
fn bpf_programs_that_are_not_safe_are_refused() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    // r0 = *(u64 *)0
    let program = [0xb7, 0x0079, 0x95u64];
    let mut attr = attributes(&[
        (0, BPF_PROG_TYPE_SOCKET_FILTER.into()),
        (1, 3),
        (2, at(&program)),
        (4, at(c"GPL".to_bytes_with_nul())),
    ]);
    let refused = bpf(&kernel, BPF_PROG_LOAD, &mut attr);
    assert_eq!(refused, Err(libc::EACCES));
}

const SYS_IO_URING_SETUP: i64 = 425;
const SYS_IO_URING_ENTER: i64 = 426;
const IORING_OFF_SQES: u64 = 0x1000_0000;
const IORING_ENTER_GETEVENTS: u64 = 1;
const IORING_OP_NOP: u8 = 0;
const IORING_OP_READ: u8 = 22;

/// `struct io_uring_params`, as words of 32 bits: what is where in the ring.
struct Ring {
    fd: u64,
    params: [u32; 30],
    rings: *mut u8,
    entries: *mut u8,
}

impl Ring {
    fn new(kernel: &Kernel) -> Ring {
        let mut params = [0u32; 30];
        let fd = ok(kernel, SYS_IO_URING_SETUP, &[8, into(&mut params)]);
        assert_eq!(params[5] & 1, 1, "IORING_FEAT_SINGLE_MMAP");
        let map = |offset: u64, len: u64| {
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let flags = libc::MAP_SHARED as u64;
            let args = [0, len, protection, flags, fd, offset];
            ok(kernel, libc::SYS_mmap, &args) as *mut u8
        };
        let array_end = params[10 + 6] + params[0] * 4;
        let cqes_end = params[20 + 5] + params[1] * 16;
        Ring {
            fd,
            rings: map(0, u64::from(array_end.max(cqes_end))),
            entries: map(IORING_OFF_SQES, u64::from(params[0]) * 64),
            params,
        }
    }

    /// A word in the rings; `field` is its place in the parameters.
    fn word(&self, field: usize, index: u32) -> &AtomicU32 {
        let offset = self.params[field] + index * 4;
        // SAFETY: in the mapping, by the kernel's own word.
        unsafe { &*self.rings.add(offset as usize).cast() }
    }

    /// Submit one operation and wait for it: what it was tagged with, and its result.
    fn perform(&self, kernel: &Kernel, op: u8, fd: u64, buffer: &mut [u8]) -> (u64, i32) {
        let tail = self.word(11, 0).load(Ordering::Acquire);
        let index = tail & self.word(12, 0).load(Ordering::Relaxed);
        let tag = u64::from(tail) | 0x1234_0000_0000;
        // SAFETY: the entry is ours until it is submitted.
        unsafe {
            let entry = self.entries.add(index as usize * 64);
            entry.write_bytes(0, 64);
            entry.write(op);
            entry.add(4).cast::<i32>().write(fd as i32);
            entry.add(16).cast::<u64>().write(into(buffer));
            entry.add(24).cast::<u32>().write(buffer.len() as u32);
            entry.add(32).cast::<u64>().write(tag);
        }
        self.word(16, index).store(index, Ordering::Relaxed);
        self.word(11, 0).store(tail + 1, Ordering::Release);
        let args = [self.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0];
        assert_eq!(ok(kernel, SYS_IO_URING_ENTER, &args), 1);

        let head = self.word(20, 0).load(Ordering::Acquire);
        assert_eq!(self.word(21, 0).load(Ordering::Acquire), head + 1);
        let place = head & self.word(22, 0).load(Ordering::Relaxed);
        let cqe = self.params[25] + place * 16;
        // SAFETY: the kernel has written it.
        let (seen, result) = unsafe {
            let cqe = self.rings.add(cqe as usize);
            (cqe.cast::<u64>().read(), cqe.add(8).cast::<i32>().read())
        };
        self.word(20, 0).store(head + 1, Ordering::Release);
        assert_eq!(seen, tag);
        (seen, result)
    }
}

#[test]
fn io_uring_by_its_mapped_rings() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let ring = Ring::new(&kernel);
    // More than the ring has places, so it goes around.
    for _ in 0..20 {
        assert_eq!(ring.perform(&kernel, IORING_OP_NOP, 0, &mut []).1, 0);
    }
    let mut options = MountOptions::new();
    let tmpfs = options.fstype("tmpfs").mount(&kernel, "tmpfs");
    let tmpfs = tmpfs.expect("tmpfs");
    tmpfs.write("f", b"by the ring").expect("writes");
    let file = tmpfs.open("f").expect("opens");
    let mut buffer = [0; 64];
    let fd = file.kernel_fd() as u64;
    let (_, read) = ring.perform(&kernel, IORING_OP_READ, fd, &mut buffer);
    assert_eq!(&buffer[..read as usize], b"by the ring");
}
