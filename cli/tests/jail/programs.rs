//! Promises about other projects' programs that the command starts, in its jail.

use crate::common::*;
use crate::jailed::{has_prisoners, path, refused, Running, DENIED, HERE, NOT_PERMITTED};
use crate::prisoner::Outcome::{Killed, Returned};
use crate::prisoner::*;
use std::path::Path;
use std::process::{Child, Stdio};

/// A program of that name which a shell is, and the PATH that finds it first.
fn program(s: &Scratch, name: &str, script: &str) -> String {
    let script = format!("#!/bin/sh\n{script}");
    let program = s.write(&format!("bin/{name}"), script.as_bytes());
    succeed(s.tool("chmod").arg("+x").arg(program));
    let places = std::env::var("PATH").expect("PATH");
    format!("{}:{places}", s.join("bin").display())
}

/// `tane fsck`, whose program sleeps.
fn checking(s: &Scratch, options: &[&str]) -> Running {
    sleeping(s, &[options, &["fsck", "disk.img"]].concat())
}

/// A verb whose program, e2fsck, sleeps.
fn sleeping(s: &Scratch, words: &[&str]) -> Running {
    s.ext4("disk.img", None, 64);
    let places = program(s, "e2fsck", "exec sleep 100000\n");
    let mut command = s.tane();
    command.env("PATH", places).env("A_SECRET", "of the caller");
    command.args(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    heeds_ctrl_c(&mut command);
    Running(command.spawn().expect("tane"))
}

fn word(pid: i32, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

fn children(of: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<i32> = all.collect();
    all.retain(|pid| word(*pid, "PPid:").is_some_and(|ppid| ppid == of.to_string()));
    all
}

/// The program that this process had started by another one.
fn sleeper_of(pid: i32) -> Option<i32> {
    let mut all = children(pid).into_iter().flat_map(children);
    all.find(|pid| word(*pid, "Name:").as_deref() == Some("sleep"))
}

fn sleeper(command: &Child) -> i32 {
    let mut found = None;
    tane_test_support::eventually("the program runs", || {
        found = sleeper_of(command.id() as i32);
        found.is_some()
    });
    found.expect("just found")
}

/// What a process has open.
fn open_files(pid: i32) -> Vec<std::path::PathBuf> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let links = fds.flatten().map(|fd| std::fs::read_link(fd.path()));
    links.flatten().collect()
}

#[test]
fn whoever_resizes_an_image_opens_nothing_and_the_command_has_neither_it_nor_linux() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let command = sleeping(&s, &["resize", "disk.img", "32M"]);
    let front = command.0.id() as i32;
    let mut steps = Vec::new();
    tane_test_support::eventually("a step runs its program", || {
        steps = children(front);
        steps.retain(|pid| sleeper_of(*pid).is_some());
        !steps.is_empty()
    });
    let [step] = steps[..] else {
        panic!("one step at a time: {steps:?}");
    };
    let mut thread = Prisoner::behind(step as u32, 2);
    let temporary = std::env::var("TMPDIR").unwrap_or("/var/tmp".into());
    let temporary = Path::new(&temporary).join(format!("tane-{step}.tmp"));
    let makes = libc::O_CREAT | libc::O_RDWR;
    for name in [s.join("new"), temporary.join("file")] {
        assert_eq!(thread.open(&path(&name), makes), DENIED, "{name:?}");
    }
    for name in [&s.join("disk.img"), &temporary] {
        for how in [libc::O_RDONLY, libc::O_RDWR, libc::O_PATH] {
            assert_eq!(thread.open(&path(name), how), DENIED, "{name:?}");
        }
    }
    // The command itself.
    let image = s.join("disk.img");
    let has = open_files(front);
    assert!(!has.contains(&image), "{has:?}");
    let maps = std::fs::read_to_string(format!("/proc/{front}/maps")).expect("its memory");
    assert!(!maps.contains("memfd:") && !maps.contains(".elf"), "{maps}");
    let threads = std::fs::read_dir(format!("/proc/{front}/task")).expect("its threads");
    assert_eq!(threads.count(), 2, "it, and who waits for signals");
    // It ends with a step that is killed.
    let shell = thread.text(c"/bin/sh");
    let started = thread.call(libc::SYS_execve, &[shell, 0, 0]);
    assert_eq!(started, Killed(libc::SIGSYS));
}

#[test]
fn a_step_of_a_resize_that_dies_or_is_stopped_ends_the_command_and_nothing_is_left() {
    if !has_kernel() {
        return;
    }
    for (signal, code) in [(libc::SIGKILL, 3), (libc::SIGINT, 130)] {
        let s = Scratch::new();
        let mut command = sleeping(&s, &["resize", "disk.img", "32M"]);
        let front = command.0.id() as i32;
        let mut found = None;
        tane_test_support::eventually("a step runs its program", || {
            let steps = children(front).into_iter();
            found = { steps }.find_map(|step| Some((step, sleeper_of(step)?)));
            found.is_some()
        });
        let (step, program) = found.expect("just found");
        let to = if signal == libc::SIGINT { front } else { step };
        // SAFETY: processes of ours that were not waited for.
        unsafe { libc::kill(to, signal) };
        let status = command.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{signal}");
        for pid in [step, program] {
            tane_test_support::eventually("it ends too", || !is_alive(pid));
        }
        assert_sound(&s.join("disk.img"));
    }
}

fn is_alive(pid: i32) -> bool {
    word(pid, "State:").is_some_and(|state| !state.starts_with('Z'))
}

#[test]
fn a_program_that_checks_an_image_can_open_nothing_else() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/file", b"a file");
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    s.write("secret", b"a secret");
    let script = "read x < secret; echo $x\necho new > new\necho new > disk.img\nexit 0\n";
    let places = program(&s, "e2fsck", script);
    let before = s.read("disk.img");
    let run = |options: &[&str]| {
        let mut command = s.tane();
        command.env("PATH", &places).env("TMPDIR", s.join("bin"));
        text(&succeed(command.args(options).args(["-v", "fsck", "disk.img"])).stderr)
    };
    let said = run(&[]);
    assert!(said.contains("open secret: Permission denied"), "{said}");
    assert!(!s.join("new").exists() && s.read("disk.img") == before);
    let said = run(&["--no-jail"]);
    assert!(said.contains("a secret"), "{said}");
    assert!(s.join("new").exists());
    // Nothing is left of the directory for temporary files.
    tane_test_support::eventually("it is gone", || {
        let names = std::fs::read_dir(s.join("bin")).expect("a listing");
        names.count() == 1
    });
}

#[test]
fn a_program_that_makes_an_image_can_open_nothing_else() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    for (name, text) in [
        ("tree/file", "a file"),
        ("secret", "a secret"),
        ("out/secret", "a secret"),
    ] {
        s.write(name, text.as_bytes());
    }
    let look = |name: &str| format!("read x < {name}; echo $x >&2\n");
    let looks = ["tree/file", "secret", "out/secret"].map(look).concat();
    let places = program(&s, "mke2fs", &format!("{looks}echo new > new\nexit 1\n"));
    let run = |options: &[&str]| {
        let mut command = s.tane();
        command.env("PATH", &places).args(options);
        command.args(["make-image", "tree", "out/disk.img"]);
        text(&exit(&mut command, 1).stderr)
    };
    let said = run(&[]);
    for name in ["tree/file", "secret", "out/secret"] {
        let denied = format!("open {name}: Permission denied");
        assert!(said.contains(&denied), "{said}");
    }
    assert!(
        !said.contains("a secret") && !s.join("new").exists(),
        "{said}"
    );
    let said = run(&["--no-jail"]);
    assert!(
        said.contains("a secret") && s.join("new").exists(),
        "{said}"
    );
}

#[test]
fn whoever_checks_an_image_opens_nothing_not_even_it_or_what_the_programs_work_on() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let command = checking(&s, &[]);
    sleeper(&command.0);
    let temporary = std::env::var("TMPDIR").unwrap_or("/var/tmp".into());
    let temporary = Path::new(&temporary).join(format!("tane-{}.tmp", command.0.id()));
    let known = std::fs::read_dir(&temporary).expect("a listing");
    let known = known.map(|name| name.expect("a name").path());
    let known: Vec<_> = known.collect();
    let [volume] = &known[..] else {
        panic!("{known:?}");
    };
    let mut thread = Prisoner::behind(command.0.id(), 2);
    let makes = libc::O_CREAT | libc::O_RDWR;
    for name in [s.join("new"), temporary.join("file")] {
        assert_eq!(thread.open(&path(&name), makes), DENIED, "{name:?}");
    }
    for name in [&s.join("disk.img"), volume, &temporary] {
        for how in [libc::O_RDONLY, libc::O_RDWR, libc::O_PATH] {
            assert_eq!(thread.open(&path(name), how), DENIED, "{name:?}");
        }
    }
    let (at, to) = (
        thread.text(&path(volume)),
        thread.second(&path(&temporary.join("other"))),
    );
    refused(&thread.call(libc::SYS_linkat, &[HERE, at, HERE, to, 0]));
    refused(&thread.call(libc::SYS_renameat2, &[HERE, at, HERE, to, 0]));
    refused(&thread.call(libc::SYS_symlinkat, &[at, HERE, to]));
    refused(&thread.call(libc::SYS_mkdirat, &[HERE, to, 0o700]));
    refused(&thread.call(libc::SYS_mknodat, &[HERE, to, 0o10_0600, 0]));
    refused(&thread.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    refused(&thread.call(libc::SYS_fchmodat, &[HERE, at, 0o777]));
    // What was opened before is what this verb may do: it reads the image.
    let mut found = 0;
    let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", command.0.id()));
    for fd in fds.expect("its files").flatten() {
        let name = fd.file_name().into_string().expect("a number");
        let to = std::fs::read_link(format!("/proc/{}/fd/{name}", command.0.id()));
        if to.is_ok_and(|to| to == s.join("disk.img")) {
            let info = std::fs::read_to_string(fd.path()).expect("how it is open");
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = i32::from_str_radix(flags.expect("flags").trim(), 8).expect("octal");
            assert_eq!(flags & libc::O_ACCMODE, libc::O_RDONLY, "{info}");
            found += 1;
        }
    }
    assert!(found > 0);
}

const ANY: u64 = u64::MAX;
/// linux/fcntl.h
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
/// linux/tty.h and linux/kd.h; the host's kernel looks at the lower half only.
const TIOCSTI: u64 = 0x5412;
const TERMINALS: [u64; 8] = [
    TIOCSTI,
    0xdead_beef << 32 | TIOCSTI,
    0x541c, // TIOCLINUX
    0x540e, // TIOCSCTTY
    0x5410, // TIOCSPGRP
    0x541d, // TIOCCONS
    0x4b49, // KDSKBSENT
    0x5606, // VT_ACTIVATE
];

#[test]
fn a_program_has_no_terminal_and_whoever_has_it_types_nothing_into_it() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let command = checking(&s, &[]);
    let pid = sleeper(&command.0);
    let mut tool = Prisoner::waiting_in(pid as u32, libc::SYS_clock_nanosleep, None);
    // Its session is its own, and has no terminal.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<_> = stat
        .rsplit(") ")
        .next()
        .expect("fields")
        .split(' ')
        .collect();
    assert_eq!(fields[3..5], [&*pid.to_string(), "0"], "{stat}");
    assert_eq!(tool.open(c"/dev/tty", libc::O_RDWR), DENIED);
    for request in TERMINALS {
        let no_terminal = Returned(-i64::from(libc::ENOTTY));
        assert_eq!(tool.call(libc::SYS_ioctl, &[2, request, 0]), no_terminal);
    }
    drop(tool);
    // Who meets the image has it, and no right to that.
    let mut first = Prisoner::waiting_in(command.0.id(), libc::SYS_poll, None);
    for request in TERMINALS {
        let asked = first.call(libc::SYS_ioctl, &[2, request, 0]);
        assert_eq!(asked, NOT_PERMITTED, "{request:#x}");
    }
    let shell = first.text(c"/bin/sh");
    let started = first.call(libc::SYS_execve, &[shell, 0, 0]);
    assert_eq!(started, Killed(libc::SIGSYS));
}

#[test]
fn a_program_reaches_nothing_but_its_files() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let command = checking(&s, &[]);
    let pid = sleeper(&command.0);
    let mut tool = Prisoner::waiting_in(pid as u32, libc::SYS_clock_nanosleep, None);
    for path in [
        c"/etc/shadow",
        c"/etc/passwd",
        c"/proc/1/environ",
        c"/dev/zero",
        c"/dev/kmsg",
    ] {
        assert_eq!(tool.open(path, libc::O_RDONLY), DENIED, "{path:?}");
    }
    let environment = format!("/proc/{}/environ", command.0.id());
    let environment = std::ffi::CString::new(environment).expect("no NUL");
    assert_eq!(tool.open(&environment, libc::O_RDONLY), DENIED);
    let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    let grows = memory | libc::MAP_GROWSDOWN as u64;
    let parent = u64::from(std::process::id());
    let thread = (libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;
    let pdeathsig = libc::PR_SET_PDEATHSIG as u64;
    let attacks: &[(i64, &[u64])] = &[
        (libc::SYS_fork, &[]),
        (libc::SYS_vfork, &[]),
        (libc::SYS_clone, &[libc::SIGCHLD as u64, 0]),
        (libc::SYS_clone, &[thread, 0]),
        (libc::SYS_clone3, &[0, 0]),
        (libc::SYS_setsid, &[]),
        (libc::SYS_setpgid, &[0, 0]),
        (libc::SYS_prctl, &[pdeathsig, 0]),
        (libc::SYS_kill, &[parent, 0]),
        (libc::SYS_tgkill, &[parent, parent, 0]),
        (libc::SYS_rt_sigqueueinfo, &[parent, 9, 0]),
        // Signals by way of a file's owner; and the limits of others.
        (libc::SYS_fcntl, &[2, libc::F_SETOWN as u64, parent]),
        (libc::SYS_fcntl, &[2, F_SETSIG, 9]),
        (libc::SYS_fcntl, &[2, F_SETOWN_EX, 0]),
        (libc::SYS_prlimit64, &[parent, 0, 0, 0]),
        (libc::SYS_process_vm_readv, &[parent, 0, 0, 0, 0, 0]),
        (libc::SYS_personality, &[libc::ADDR_NO_RANDOMIZE as u64]),
        (libc::SYS_syslog, &[3, 0, 0]),
        (libc::SYS_shmget, &[0, 4096, 0o1600]),
        (libc::SYS_semget, &[0, 1, 0o1600]),
        (libc::SYS_msgget, &[0, 0o1600]),
        (libc::SYS_mq_open, &[ANY, 0o102, 0o600, 0]),
        (libc::SYS_memfd_create, &[ANY, 0]),
        (libc::SYS_mmap, &[0, 4096, 7, memory, ANY, 0]),
        (libc::SYS_mmap, &[0, 4096, 5, memory, ANY, 0]),
        (libc::SYS_mmap, &[0, 4096, 3, shared, ANY, 0]),
        (libc::SYS_mmap, &[0, 4096, 3, grows, ANY, 0]),
        (libc::SYS_mknodat, &[HERE, ANY, u64::from(libc::S_IFBLK), 0]),
    ];
    let name = tool.text(c"name");
    for (number, arguments) in attacks {
        let is_path = |i: &usize| arguments[*i] == ANY && *number != libc::SYS_mmap;
        let arguments = (0..arguments.len()).map(|i| match is_path(&i) {
            true => name,
            false => arguments[i],
        });
        let done = tool.call(*number, &arguments.collect::<Vec<_>>());
        assert!(matches!(done, Returned(-4095..=-1)), "{number}: {done:?}");
    }
    let mapped = tool.call(libc::SYS_mmap, &[0, 4096, 3, memory, ANY, 0]);
    let Returned(at @ 1..) = mapped else {
        panic!("memory: {mapped:?}");
    };
    refused(&tool.call(libc::SYS_mprotect, &[at as u64, 4096, 5]));
    refused(&tool.call(libc::SYS_pkey_mprotect, &[at as u64, 4096, 5, 0]));
    let none = "0".repeat(16);
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"] {
        let all = word(pid, set).expect("a status");
        let is_ours = set == "CapBnd:" && !tane_test_support::is_root();
        assert!(all == none || is_ours, "{set} {all}");
    }
    let unix = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0];
    assert_eq!(tool.call(libc::SYS_socket, &unix), Killed(libc::SIGSYS));
}

#[test]
fn a_program_has_namespaces_of_its_own_where_the_host_gives_them() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    let command = checking(&s, &["-v"]);
    let pid = sleeper(&command.0);
    let namespace = |pid: u32, kind: &str| {
        let link = std::fs::read_link(format!("/proc/{pid}/ns/{kind}"));
        link.expect("a namespace")
    };
    // SAFETY: no memory involved, in a child that ends at once.
    let has_them = tane_test_support::child_can(|| unsafe {
        libc::unshare(libc::CLONE_NEWIPC | libc::CLONE_NEWNET | libc::CLONE_NEWUTS) == 0
    });
    for kind in ["ipc", "net", "uts"] {
        let own = namespace(command.0.id(), kind);
        assert_eq!(namespace(pid as u32, kind) != own, has_them, "{kind}");
    }
}

#[test]
fn a_program_ends_with_the_command_however_that_ends() {
    if !has_kernel() {
        return;
    }
    let gone = |pid: i32| tane_test_support::eventually("it ends too", || !is_alive(pid));
    for options in [&["--time-limit=3"][..], &["--no-jail", "--time-limit=3"]] {
        let s = Scratch::new();
        let mut command = checking(&s, options);
        let pid = sleeper(&command.0);
        let status = command.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(124));
        gone(pid);
    }
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let s = Scratch::new();
        let mut command = checking(&s, &[]);
        let pid = sleeper(&command.0);
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(command.0.id() as i32, signal) };
        command.0.wait().expect("it ends");
        gone(pid);
    }
}

#[test]
fn what_a_program_says_does_not_steer_the_terminal() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 64);
    let places = program(&s, "e2fsck", "printf 'a\\033]0;evil\\007b\\n'\nexit 4\n");
    let said = exit(s.tane().env("PATH", places).args(["fsck", "disk.img"]), 1);
    let said = text(&said.stderr);
    assert!(said.contains("evil") && !said.contains('\x1b'), "{said:?}");
}
