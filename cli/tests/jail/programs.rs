//! Promises about other projects' programs that the command starts, in its jail, and about who
//! has them started. What they can reach is in reach.rs.

use crate::common::*;
use crate::jailed::sleeping::{
    checker, checking, children, program, sleeper, sleeper_of, sleeping,
};
use crate::jailed::{has_prisoners, path, refused, DENIED, HERE, NOT_PERMITTED};
use crate::prisoner::Outcome::{Killed, Returned};
use crate::prisoner::*;
use std::path::Path;

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
    let (command, pid, mut tool) = checker(&s);
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
