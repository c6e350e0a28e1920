//! Promises about what code that a hostile image got to run in the command could
//! do to the host: what the thread that serves the image is made to do here.

use crate::common::terminal::Terminal;
use crate::common::*;
use crate::jailed::*;
use crate::prisoner::Outcome::{Killed, Returned};
use crate::prisoner::*;
use std::io::Read;
use std::process::Stdio;
use tane_test_support::http::Server;

#[test]
fn whoever_reads_an_image_can_open_no_file() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let command = reading(&s, &[]);
    let mut first = Prisoner::writing_to(&command.0, STDOUT);
    let mut others = threads(command.0.id());
    others.retain(|tid| *tid != first.tid());
    assert!(others.len() > 1, "Linux has threads of its own");
    for tid in others {
        let mut other = first.beside(tid);
        assert_eq!(other.open(c"/etc/passwd", libc::O_RDONLY), DENIED);
    }
    let image = path(&s.join("disk.img"));
    for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_PATH] {
        assert_eq!(first.open(&image, flags), DENIED);
        assert_eq!(first.open(c"/proc/self/mem", flags), DENIED);
    }
    let new = path(&s.join("new"));
    assert_eq!(first.open(&new, libc::O_CREAT | libc::O_WRONLY), DENIED);
    let at = first.text(&new);
    // Of zeroes: for reading.
    let how = at + 2048;
    refused(&first.call(libc::SYS_openat2, &[HERE, at, how, 24]));
    refused(&first.call(libc::SYS_creat, &[at, 0o600]));
    refused(&first.call(libc::SYS_mkdir, &[at, 0o700]));
    refused(&first.call(libc::SYS_mkdirat, &[HERE, at, 0o700]));
    refused(&first.call(libc::SYS_symlinkat, &[at, HERE, at]));
    let at = first.text(&image);
    refused(&first.call(libc::SYS_unlink, &[at]));
    refused(&first.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    refused(&first.call(libc::SYS_chmod, &[at, 0o777]));
    refused(&first.call(libc::SYS_fchmodat, &[HERE, at, 0o777]));
    refused(&first.call(libc::SYS_truncate, &[at, 0]));
    refused(&first.call(libc::SYS_utimensat, &[HERE, at, 0, 0]));
    assert!(s.join("disk.img").exists() && !s.join("new").exists());
}

#[test]
fn whoever_reads_an_image_can_map_no_code() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let command = reading(&s, &[]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let none = -1i64 as u64;
    let mapped = thread.call(libc::SYS_mmap, &[0, 4096, 3, memory, none, 0]);
    let Returned(at @ 1..) = mapped else {
        panic!("memory: {mapped:?}");
    };
    let code_of = thread.call(libc::SYS_mmap, &[0, 4096, code, memory, none, 0]);
    assert_eq!(code_of, NOT_PERMITTED);
    let protect = thread.call(libc::SYS_mprotect, &[at as u64, 4096, code]);
    assert_eq!(protect, NOT_PERMITTED);
    refused(&thread.call(libc::SYS_pkey_mprotect, &[at as u64, 4096, code, 0]));
    let name = thread.text(c"x");
    refused(&thread.call(libc::SYS_memfd_create, &[name, 0]));
}

#[test]
fn whoever_reads_the_first_of_several_images_can_open_no_file_and_map_no_code() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    std::fs::copy(s.join("disk.img"), s.join("other.img")).expect("a copy");
    let mut command = s.tane();
    command.args(["cat", "disk.img:/big", "other.img:/big"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = Running(command.spawn().expect("tane"));
    {
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        let other = path(&s.join("other.img"));
        assert_eq!(thread.open(&other, libc::O_RDONLY), DENIED);
        let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let mapped = thread.call(libc::SYS_mmap, &[0, 4096, code, memory, u64::MAX, 0]);
        assert_eq!(mapped, NOT_PERMITTED);
    }
    // And the other one is read, too.
    let mut all = Vec::new();
    let mut stdout = command.0.stdout.take().expect("its output");
    stdout.read_to_end(&mut all).expect("both files");
    assert_eq!(all.len(), 2 * SIZE);
}

#[test]
fn whoever_reads_an_image_on_a_server_has_no_network() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let server = Server::of(s.read("disk.img"));
    let mut command = s.tane();
    command.args(["cat", &format!("{}:/big", server.url("disk.img"))]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    assert_eq!(thread.open(c"/etc/resolv.conf", libc::O_RDONLY), DENIED);
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let asked = thread.call(libc::SYS_socket, &inet);
    assert_eq!(asked, Killed(libc::SIGSYS));
}

#[test]
fn an_attack_on_the_host_ends_the_command() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let shell = c"/bin/sh";
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let unix = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0];
    let parent = std::process::id().into();
    let attacks: &[(&str, i64, &[u64])] = &[
        ("execve", libc::SYS_execve, &[u64::MAX, 0, 0]),
        ("execveat", libc::SYS_execveat, &[HERE, u64::MAX, 0, 0, 0]),
        ("fork", libc::SYS_fork, &[]),
        ("vfork", libc::SYS_vfork, &[]),
        ("clone", libc::SYS_clone, &[libc::SIGCHLD as u64, 0]),
        ("socket", libc::SYS_socket, &inet),
        ("socket", libc::SYS_socket, &unix),
        ("connect", libc::SYS_connect, &[0, 0, 0]),
        ("bind", libc::SYS_bind, &[0, 0, 0]),
        (
            "ptrace",
            libc::SYS_ptrace,
            &[libc::PTRACE_ATTACH as u64, parent, 0, 0],
        ),
        ("kill", libc::SYS_kill, &[parent, 0]),
        ("tgkill", libc::SYS_tgkill, &[parent, parent, 0]),
        (
            "process_vm_writev",
            libc::SYS_process_vm_writev,
            &[parent, 0, 0, 0, 0, 0],
        ),
        ("unshare", libc::SYS_unshare, &[libc::CLONE_NEWUSER as u64]),
        ("mount", libc::SYS_mount, &[0, 0, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, &[0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, &[1, 0]),
        ("x32", 0x4000_0000 + 39, &[]),
    ];
    for (name, number, arguments) in attacks {
        let mut command = reading(&s, &[]);
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        let path = thread.text(shell);
        let arguments = arguments
            .iter()
            .map(|a| if *a == u64::MAX { path } else { *a });
        let arguments: Vec<_> = arguments.collect();
        assert_eq!(
            thread.call(*number, &arguments),
            Killed(libc::SIGSYS),
            "{name}"
        );
        drop(thread);
        // It was waited for already, by whoever traced it.
        let _ = command.0.try_wait();
    }
    // Without the flags in a register it is not even looked at.
    let command = reading(&s, &[]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    refused(&thread.call(libc::SYS_clone3, &[0, 0]));
}

#[test]
fn without_the_jail_all_of_that_is_allowed() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let command = reading(&s, &["--no-jail"]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    done(&thread.open(c"/etc/passwd", libc::O_RDONLY));
    let unix = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0];
    done(&thread.call(libc::SYS_socket, &unix));
    let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    done(&thread.call(libc::SYS_mmap, &[0, 4096, code, memory, -1i64 as u64, 0]));
}

#[test]
fn every_thread_is_jailed() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let command = reading(&s, &[]);
    let pid = command.0.id();
    let _first = Prisoner::writing_to(&command.0, STDOUT);
    for tid in threads(pid) {
        let path = format!("/proc/{pid}/task/{tid}/status");
        let status = std::fs::read_to_string(path).expect("a status");
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    }
}

/// linux/capability.h
const READS_ALL: u64 = 1 << 2;
const MAKES_DEVICES: u64 = 1 << 27;
const LOADS_MODULES: u64 = 1 << 16;

#[test]
fn root_keeps_no_right_that_the_files_do_not_need() {
    if !has_prisoners() || !tane_test_support::has_root() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    std::fs::create_dir(s.join("out")).expect("mkdir");
    let sets = |pid: u32| {
        threads(pid).into_iter().flat_map(move |tid| {
            let path = format!("/proc/{pid}/task/{tid}/status");
            let status = std::fs::read_to_string(path).expect("a status");
            let sets = ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:", "CapAmb:"];
            sets.map(|set| {
                let line = status.lines().find_map(|line| line.strip_prefix(set));
                u64::from_str_radix(line.expect("a set").trim(), 16).expect("a number")
            })
        })
    };
    let command = reading(&s, &[]);
    let _first = Prisoner::writing_to(&command.0, STDOUT);
    for set in sets(command.0.id()) {
        assert_eq!(set & !READS_ALL, 0, "{set:#x}");
    }
    let command = copying(&s, &["disk.img:/.", "out"]);
    let _first = Prisoner::writing_to(&command.0, STDERR);
    for set in sets(command.0.id()) {
        assert_eq!(set & !READS_ALL, 0, "{set:#x}");
    }
    for set in sets(gofer(command.0.id())) {
        assert_eq!(set & (MAKES_DEVICES | LOADS_MODULES), 0, "{set:#x}");
    }
}

#[test]
fn nothing_of_the_caller_stays_within_reach() {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let file = std::fs::File::open(s.join("disk.img")).expect("a file");
    let (fd, number) = (file.as_raw_fd(), 177);
    let mut command = s.tane();
    command
        .args(["cat", "disk.img:/big"])
        .stdout(Stdio::piped());
    command.env("A_TOKEN", "of the caller");
    command.env("http_proxy", "http://me:password@proxy.invalid");
    // SAFETY: it may be called there, on a descriptor that stays open till then.
    unsafe {
        command.pre_exec(move || match libc::dup2(fd, number) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let asked = thread.call(libc::SYS_fcntl, &[number as u64, libc::F_GETFD as u64]);
    assert_eq!(asked, Returned(-i64::from(libc::EBADF)));
    let environment = format!("/proc/{}/environ", command.0.id());
    let environment = crate::common::text(&std::fs::read(environment).expect("its environment"));
    for secret in ["of the caller", "password"] {
        assert!(!environment.contains(secret), "{environment}");
    }
    assert!(environment.contains("PATH="), "{environment}");
    // No dump, and no look from outside.
    let dumpable = [libc::PR_GET_DUMPABLE as u64];
    assert_eq!(thread.call(libc::SYS_prctl, &dumpable), Returned(0));
    let again = [libc::PR_SET_DUMPABLE as u64, 1];
    assert_eq!(thread.call(libc::SYS_prctl, &again), NOT_PERMITTED);
}

#[test]
fn whoever_reads_an_image_reads_nothing_that_is_typed() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let mut terminal = Terminal::new();
    let mut command = s.tane();
    command.args(["cat", "disk.img:/big"]);
    terminal.give(&mut command);
    let command = Running(command.spawn().expect("tane"));
    terminal.types("a password, for what comes next");
    // Nobody takes what it writes.
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let room = thread.text(c"");
    let mut read = |fd| thread.call(libc::SYS_read, &[fd, room, 64]);
    assert_eq!(read(0), Returned(0), "nothing is there");
    for fd in [STDOUT, STDERR] {
        assert_eq!(read(fd), Returned(-i64::from(libc::EBADF)));
    }
}
