//! Promises about what other projects' programs that the command starts can reach: their
//! files, and nothing else.

use crate::common::*;
use crate::jailed::sleeping::{checker, program, sleeper, sleeping_with, word};
use crate::jailed::{has_prisoners, path, refused, DENIED, HERE, NOT_PERMITTED};
use crate::prisoner::Outcome::{Killed, Returned};
use std::os::unix::process::CommandExt;

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

/// Those that meet what an archive has, and make what Linux does not write.
#[test]
fn a_program_that_makes_a_squashfs_or_erofs_can_open_nothing_else() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/file", b"a file");
    s.write("secret", b"a secret");
    let script = "test \"$1\" = -version && exec echo mksquashfs version 4.6\n\
                  read x < secret; echo $x >&2; echo new > new\n\
                  exit 1\n";
    let fuse = fuse::has_fuse().then_some(("erofs", "mkfs.erofs"));
    for (kind, name) in [("squashfs", "mksquashfs")].into_iter().chain(fuse) {
        let places = program(&s, name, script);
        let run = |options: &[&str]| {
            let mut command = s.tane();
            command.env("PATH", &places).args(options);
            command.args(["make-image", "--fs", kind, "tree", "a.img"]);
            text(&exit(&mut command, 1).stderr)
        };
        let said = run(&[]);
        assert!(said.contains("open secret: Permission denied"), "{said}");
        assert!(
            !s.join("new").exists() && !said.contains("a secret"),
            "{said}"
        );
        let said = run(&["--no-jail"]);
        assert!(
            said.contains("a secret") && s.join("new").exists(),
            "{said}"
        );
        std::fs::remove_file(s.join("new")).expect("it is there");
    }
}

const ANY: u64 = u64::MAX;
/// linux/fcntl.h
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const F_SETLEASE: u64 = 1024;

#[test]
fn a_program_reaches_nothing_but_its_files() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let (command, pid, mut tool) = checker(&s);
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

/// Landlock does not know these calls, and the file is the user's, as programs are root's
/// where root runs them.
#[test]
fn a_program_changes_nothing_of_the_programs_that_it_may_read() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    let (_command, _, mut tool) = checker(&s);
    let known = path(&s.join("bin/e2fsck"));
    let Returned(fd @ 0..) = tool.open(&known, libc::O_RDONLY) else {
        panic!("it reads programs");
    };
    let fd = fd as u64;
    let name = tool.text(c"user.name");
    for (call, arguments) in [
        (libc::SYS_fchmod, [fd, 0o4777, 0, 0, 0]),
        // What its owner may do without any capability.
        (libc::SYS_fchown, [fd, ANY, ANY, 0, 0]),
        (libc::SYS_fsetxattr, [fd, name, name, 4, 0]),
        (libc::SYS_fremovexattr, [fd, name, 0, 0, 0]),
        (
            libc::SYS_fcntl,
            [fd, F_SETLEASE, libc::F_RDLCK as u64, 0, 0],
        ),
    ] {
        assert_eq!(tool.call(call, &arguments), NOT_PERMITTED, "{call}");
    }
}

/// Whether a limit that was zero for good can be raised here.
fn limits_rise() -> bool {
    // SAFETY: structures of ours, in a child that ends at once.
    tane_test_support::child_can(|| unsafe {
        let set = |most| {
            let limit = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) == 0
        };
        set(0) && set(1)
    })
}

/// A limit of one byte holds for pipes too, and none and zero do not.
#[test]
fn a_program_has_no_dump_of_itself_made_whatever_the_limit_was() {
    if !has_prisoners() {
        return;
    }
    let limits = [limits_rise().then_some(0), Some(libc::RLIM_INFINITY)];
    for before in limits.into_iter().flatten() {
        let s = Scratch::new();
        let command = sleeping_with(&s, &["fsck", "disk.img"], |command| {
            let limit = libc::rlimit {
                rlim_cur: before,
                rlim_max: before,
            };
            let set = move || {
                // SAFETY: a structure of ours.
                match unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) } {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            };
            // SAFETY: a system call alone.
            unsafe { command.pre_exec(set) };
        });
        let pid = sleeper(&command.0);
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
        let core = limits.lines().find(|line| line.starts_with("Max core"));
        let core: Vec<_> = core.expect("one of dumps").split_whitespace().collect();
        assert_eq!(core[4..6], ["1", "1"], "{before}: {core:?}");
    }
}
