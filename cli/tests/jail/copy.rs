//! What code that an image got to run finds in a copy between it and the host: the process
//! with Linux writes nothing itself, and who writes for it reaches the destination alone.

use crate::common::*;
use crate::jailed::*;
use crate::prisoner::Outcome::Killed;
use crate::prisoner::*;

#[test]
fn whoever_reads_an_image_for_a_copy_out_writes_nothing_itself() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    s.write("out/there", b"there before");
    s.write("outside/precious", b"precious");
    let command = copying(&s, &["disk.img:/.", "out"]);
    let mut thread = Prisoner::writing_to(&command.0, STDERR);
    let join = |name: &str| path(&s.join(name));
    let new = libc::O_CREAT | libc::O_WRONLY;
    for name in ["out/new", "outside/new"] {
        assert_eq!(thread.open(&join(name), new), DENIED, "{name}");
    }
    for name in ["out/there", "outside/precious", "disk.img"] {
        for how in [libc::O_RDONLY, libc::O_WRONLY, libc::O_PATH] {
            assert_eq!(thread.open(&join(name), how), DENIED, "{name}");
        }
    }
    let other = threads(command.0.id());
    let other = other.into_iter().find(|tid| *tid != thread.tid());
    assert_eq!(
        thread
            .beside(other.expect("another thread"))
            .open(&join("out/new"), new),
        DENIED
    );
    drop(thread);
    // No call that takes a name and changes something is left, nor one that changes what
    // a file has beside its content.
    let now = libc::AT_SYMLINK_NOFOLLOW as u64;
    let null = libc::makedev(1, 3);
    let regular = u64::from(libc::S_IFREG | 0o600);
    let device = u64::from(libc::S_IFCHR | 0o600);
    let lends = 0o4777;
    for (from, to) in [("out/there", "out/new"), ("outside/precious", "outside/x")] {
        let calls: [(i64, &[u64]); 18] = [
            (libc::SYS_fchmodat, &[HERE, FROM, lends, 0]),
            (libc::SYS_chmod, &[FROM, lends]),
            (libc::SYS_fchmod, &[STDOUT, lends]),
            (libc::SYS_fchownat, &[HERE, FROM, 1, 1, now]),
            (libc::SYS_fchown, &[STDOUT, 1, 1]),
            (libc::SYS_lchown, &[FROM, 1, 1]),
            (libc::SYS_utimensat, &[HERE, FROM, 0, now]),
            (libc::SYS_lsetxattr, &[FROM, TO, FROM, 4, 0]),
            (libc::SYS_fsetxattr, &[STDOUT, TO, FROM, 4, 0]),
            (libc::SYS_lremovexattr, &[FROM, TO]),
            (libc::SYS_symlinkat, &[FROM, HERE, TO]),
            (libc::SYS_linkat, &[HERE, FROM, HERE, TO, 0]),
            (libc::SYS_renameat2, &[HERE, FROM, HERE, TO, 0]),
            (libc::SYS_unlinkat, &[HERE, FROM, 0]),
            (libc::SYS_mkdirat, &[HERE, TO, 0o700]),
            (libc::SYS_mknodat, &[HERE, TO, regular, 0]),
            (libc::SYS_mknodat, &[HERE, TO, device, null]),
            (libc::SYS_truncate, &[FROM, 0]),
        ];
        let mut thread = Prisoner::writing_to(&command.0, STDERR);
        let (from, to) = (thread.text(&join(from)), thread.second(&join(to)));
        for (call, arguments) in calls {
            let real = |a: &u64| match *a {
                FROM => from,
                TO => to,
                a => a,
            };
            let arguments: Vec<u64> = arguments.iter().map(real).collect();
            refused(&thread.call(call, &arguments));
        }
    }
    assert_eq!(s.read("outside/precious"), b"precious");
    assert_eq!(s.read("out/there"), b"there before");
    let names = std::fs::read_dir(s.join("outside")).expect("a listing");
    assert_eq!(names.count(), 1);
}

/// In place of an address in the arguments of a call.
const FROM: u64 = u64::MAX - 1000;
const TO: u64 = u64::MAX - 1001;

#[test]
fn whoever_writes_a_copy_out_reaches_its_destination_and_nothing_else() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    std::fs::create_dir(s.join("out")).expect("mkdir");
    s.write("outside/precious", b"precious");
    let command = copying(&s, &["disk.img:/.", "out"]);
    // The one is stopped, and so the other waits for it.
    let reader = Prisoner::writing_to(&command.0, STDERR);
    let pid = gofer(command.0.id());
    assert_eq!(threads(pid).len(), 1);
    let call = [
        libc::SYS_recvmsg,
        libc::SYS_write,
        libc::SYS_sendto,
        libc::SYS_read,
    ];
    let mut thread = Prisoner::waiting_in_any(pid, &call);
    let join = |name: &str| path(&s.join(name));
    let new = libc::O_CREAT | libc::O_WRONLY;
    done(&thread.open(&join("out/new"), new));
    for name in ["outside/new", "out/../outside/new"] {
        assert_eq!(thread.open(&join(name), new), DENIED);
    }
    for name in ["outside/precious", "disk.img"] {
        assert_eq!(thread.open(&join(name), libc::O_WRONLY), DENIED);
        assert_eq!(thread.open(&join(name), libc::O_RDONLY), DENIED);
    }
    // What is there is not to be read either.
    assert_eq!(thread.open(&join("out/new"), libc::O_RDONLY), DENIED);
    // Neither by a link nor by a name.
    let target = thread.text(&join("outside"));
    let link = thread.second(&join("out/link"));
    done(&thread.call(libc::SYS_symlinkat, &[target, HERE, link]));
    assert_eq!(thread.open(&join("out/link/new"), new), DENIED);
    for (from, to) in [("out/new", "outside/x"), ("outside/precious", "out/x")] {
        let from = thread.text(&join(from));
        let to = thread.second(&join(to));
        refused(&thread.call(libc::SYS_renameat2, &[HERE, from, HERE, to, 0]));
        refused(&thread.call(libc::SYS_linkat, &[HERE, from, HERE, to, 0]));
    }
    let at = thread.text(&join("outside/precious"));
    refused(&thread.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    let at = thread.text(&join("outside/dir"));
    refused(&thread.call(libc::SYS_mkdirat, &[HERE, at, 0o700]));
    refused(&thread.call(libc::SYS_mknodat, &[HERE, at, 0o10_600, 0]));
    // Devices are made nowhere, by root neither.
    let at = thread.text(&join("out/device"));
    let null = libc::makedev(1, 3);
    for kind in [libc::S_IFCHR, libc::S_IFBLK] {
        let mode = u64::from(kind | 0o600);
        assert_eq!(
            thread.call(libc::SYS_mknodat, &[HERE, at, mode, null]),
            NOT_PERMITTED
        );
    }
    let fifo = u64::from(libc::S_IFIFO | 0o600);
    done(&thread.call(libc::SYS_mknodat, &[HERE, at, fifo, 0]));
    drop(reader);
    assert_eq!(s.read("outside/precious"), b"precious");
    let names = std::fs::read_dir(s.join("outside")).expect("a listing");
    assert_eq!(names.count(), 1);
}

/// A copy whose process without Linux is killed under way fails, and says why.
fn dies(s: &Scratch, words: &[&str], why: &str) {
    use std::io::Read;
    // More than is under way at once.
    image(s, 3 * MANY);
    let mut command = copying(s, words);
    let linux = Prisoner::writing_to(&command.0, STDERR);
    let pid = gofer(command.0.id());
    // SAFETY: a signal to a process that is there.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
    drop(linux);
    let mut said = String::new();
    let stderr = command.0.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let end = &said[said.len().saturating_sub(500)..];
    assert!(said.contains(why), "{end}");
    assert_eq!(command.0.wait().expect("exit").code(), Some(1));
}

#[test]
fn the_death_of_whoever_writes_is_an_error_and_leaves_whole_files() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    let why = "the process that writes on the host has died";
    dies(&s, &["disk.img:/d", "out"], why);
    assert!(!s.join("out").exists(), "a directory that is not complete");
}

#[test]
fn whoever_writes_a_copy_into_an_image_opens_nothing_and_changes_no_data() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    s.write("secret", b"secret");
    s.ext4("to.img", None, 64);
    let command = copying(&s, &["tree", "to.img:/"]);
    let mut thread = Prisoner::writing_to(&command.0, STDERR);
    for name in ["tree", "tree/big", "tree/new", "secret", "to.img"] {
        for how in [libc::O_RDONLY, libc::O_WRONLY | libc::O_CREAT, libc::O_PATH] {
            assert_eq!(thread.open(&path(&s.join(name)), how), DENIED, "{name}");
        }
    }
    let at = thread.text(&path(&s.join("tree/big")));
    refused(&thread.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    // What was lent for it to read stays as it is.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", command.0.id()));
    let maps = maps.expect("its memory");
    let lent: Vec<_> = maps
        .lines()
        .filter(|line| line.contains("tane-lent"))
        .collect();
    let [lent] = lent[..] else {
        panic!("{lent:?}");
    };
    assert!(lent.contains(" r--s "), "{lent}");
    let start = lent.split('-').next().expect("an address");
    let start = u64::from_str_radix(start, 16).expect("a number");
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    assert_eq!(
        thread.call(libc::SYS_mprotect, &[start, 4096, rights]),
        DENIED
    );
}

#[test]
fn whoever_reads_a_copy_in_reads_its_sources_and_nothing_else() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    s.write("secret", b"secret");
    s.ext4("to.img", None, 64);
    let command = copying(&s, &["tree", "to.img:/"]);
    // The one is stopped, and so the other waits for it.
    let writer = Prisoner::writing_to(&command.0, STDERR);
    let pid = gofer(command.0.id());
    assert_eq!(threads(pid).len(), 1);
    let mut thread = Prisoner::waiting_in_any(pid, &[libc::SYS_read, libc::SYS_write]);
    let join = |name: &str| path(&s.join(name));
    done(&thread.open(&join("tree/big"), libc::O_RDONLY));
    for name in ["tree/big", "tree/new", "to.img", "secret"] {
        let how = libc::O_CREAT | libc::O_RDWR;
        assert_eq!(thread.open(&join(name), how), DENIED, "{name}");
    }
    for name in ["secret", "tree/../secret", "to.img"] {
        assert_eq!(thread.open(&join(name), libc::O_RDONLY), DENIED, "{name}");
    }
    let at = thread.text(&join("tree/big"));
    refused(&thread.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    refused(&thread.call(libc::SYS_fchmodat, &[HERE, at, 0o4777, 0]));
    assert_eq!(
        thread.call(libc::SYS_socket, &[1, 1, 0]),
        Killed(libc::SIGSYS)
    );
    drop(writer);
}

#[test]
fn the_death_of_whoever_reads_a_copy_in_is_an_error() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    s.ext4("to.img", None, 64);
    let why = "the process that reads on the host has died";
    dies(&s, &["tree", "to.img:/"], why);
}

#[test]
fn who_looks_into_what_would_be_replaced_has_a_pipe_each_way_and_no_terminal() {
    use crate::common::terminal::Terminal;
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("out/big", b"a file that may be an image");
    let terminal = Terminal::new();
    let mut command = s.tane();
    command.args(["--json", "cp", "disk.img:/big", "out"]);
    terminal.give(&mut command);
    let command = Running(command.spawn().expect("tane"));
    let pid = first_child(command.0.id());
    let _thread = Prisoner::behind(pid, 1);
    let mut open = open_beside_its_leash(pid);
    open.retain(|to| to != "/dev/null");
    let pipes = open.iter().filter(|to| to.starts_with("pipe:"));
    assert_eq!((pipes.count(), open.len()), (2, 2), "{open:?}");
}
