//! Commands in the middle of making a new image, with something beside it.

use super::*;
use crate::prisoner::*;

/// `out` holds what somebody would like to replace.
pub fn beside(s: &Scratch) {
    s.write("out/.profile", b"the user's own");
}

/// None of the names in `out` can be had by this thread, neither new ones nor those there.
pub fn reaches_no_name(thread: &mut Prisoner, s: &Scratch) {
    let join = |name: &str| path(&s.join(name));
    let makes = libc::O_CREAT | libc::O_WRONLY;
    for name in ["out/new", "out/.profile"] {
        assert_eq!(thread.open(&join(name), makes), DENIED, "{name}");
    }
    let there = path(&s.join("out/.profile"));
    assert_eq!(thread.open(&there, libc::O_RDONLY), DENIED);
    let regular = u64::from(libc::S_IFREG | 0o600);
    for (from, to) in [("out/.profile", "out/x"), ("out/x", "out/.profile")] {
        let (from, to) = (thread.text(&join(from)), thread.second(&join(to)));
        let calls: [(i64, &[u64]); 7] = [
            (libc::SYS_renameat2, &[HERE, from, HERE, to, 0]),
            (libc::SYS_rename, &[from, to]),
            (libc::SYS_linkat, &[HERE, from, HERE, to, 0]),
            (libc::SYS_symlinkat, &[from, HERE, to]),
            (libc::SYS_mknodat, &[HERE, to, regular, 0]),
            (libc::SYS_mkdirat, &[HERE, to, 0o700]),
            (libc::SYS_unlinkat, &[HERE, to, 0]),
        ];
        for (call, arguments) in calls {
            refused(&thread.call(call, arguments));
        }
    }
    assert_eq!(s.read("out/.profile"), b"the user's own");
}

pub fn names(s: &Scratch) -> Vec<String> {
    let names = std::fs::read_dir(s.join("out")).expect("a listing");
    let names = names.map(|name| name.expect("a name").file_name());
    names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect()
}

/// A `tane make-image` of out/disk.img whose mke2fs sleeps.
pub fn making(s: &Scratch) -> Running {
    s.write("tree/file", b"a file");
    making_of(s, "tree")
}

pub fn making_of(s: &Scratch, source: &str) -> Running {
    making_as(s, &[source])
}

/// The same with these options, and of a squashfs or erofs whose program sleeps.
pub fn making_as(s: &Scratch, words: &[&str]) -> Running {
    // An erofs has two programs, and its own is the last.
    let is_erofs = words.contains(&"--fs=erofs");
    let all = ["mke2fs", "mksquashfs", "mkfs.erofs"];
    let mut command = s.tane();
    for name in all
        .into_iter()
        .filter(|name| !is_erofs || *name != "mke2fs")
    {
        let script = "test \"$1\" = -version && exec echo mksquashfs version 4.6\n\
                      exec sleep 100000\n";
        command.env("PATH", sleeping::program(s, name, script));
    }
    command.arg("make-image").args(words).arg("out/disk.img");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("tane"))
}

/// The process of a command in which Linux runs, once its last jail has closed.
pub fn linux(pid: u32) -> u32 {
    let mut found = None;
    tane_test_support::eventually("its Linux runs", || {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).expect("its children");
        let is_it = |child: &&str| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| status.contains("\nSeccomp_filters:\t2\n"))
        };
        found = children.split_whitespace().find(is_it).map(str::to_owned);
        found.is_some()
    });
    found.expect("just found").parse().expect("a number")
}
