//! What the jail leaves open, as a whole: in each verb the filters that the host has for
//! the process that runs Linux are worked out and compared with docs/jail-calls.md, and
//! the attacks of prisoner/attacks.txt are tried in it.

use crate::common::make::container_images;
use crate::common::terminal::Terminal;
use crate::common::*;
use crate::jailed::{child, first_child, has_prisoners, image, Running, MANY};
use crate::prisoner::filter::Filters;
use crate::prisoner::{attacks, listed, Prisoner};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tane_test_support::eventually;
use tane_test_support::http::Server;

/// nobody's
const USER: u32 = 65534;

/// A verb in the middle of its work.
struct Verb {
    /// Of docs/jail-calls.md.
    class: char,
    /// How many filters it has when its last jail has closed.
    filters: usize,
    words: &'static [&'static str],
    who: Who,
}

/// Which of a command's processes.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Itself,
    /// The one that it started and that has filters.
    Child,
    /// That which it started after so many others.
    Nth(usize),
    /// What a child of its started: a program of the host.
    Grandchild,
    /// A child that waits for nobody: it is stopped when it is seen.
    Briefly,
    /// One of several children, one after the other: the one that has a program run.
    Step,
}

const fn verb(class: char, filters: usize, words: &'static [&'static str]) -> Verb {
    Verb {
        class,
        filters,
        words,
        who: Who::Itself,
    }
}

/// The first of each class stands for it where attacks are tried.
const VERBS: &[Verb] = &[
    verb('L', 2, &["cat", "disk.img:/big"]),
    verb('L', 2, &["ls", "-l", "disk.img:/"]),
    verb('L', 2, &["find", "disk.img:/"]),
    verb('L', 2, &["stat", "disk.img:/big"]),
    verb('L', 2, &["du", "disk.img:/"]),
    verb('L', 2, &["inspect", "disk.img"]),
    verb('L', 2, &["diff", "disk.img:/", "other.img:/tree"]),
    verb('L', 2, &["cat", "disk.img:/big", "other.img:/tree/big"]),
    verb('L', 2, &["tar", "create", "-", "disk.img:/."]),
    verb('L', 2, &["tar", "extract", "-", "written.img:/"]),
    verb('L', 2, &["--json", "trim", "written.img"]),
    Verb {
        who: Who::Briefly,
        ..verb('L', 2, &["edit", "disk.img:/big"])
    },
    RUN,
    verb('U', 2, NETWORKED),
    Verb {
        who: Who::Child,
        ..verb('B', 1, NETWORKED)
    },
    verb('M', 2, &["diff", "disk.img:/", "other"]),
    verb('L', 2, &["--json", "cp", "tree/big", "written.img:/"]),
    Verb {
        who: Who::Child,
        ..verb('K', 1, &["--json", "cp", "tree/big", "written.img:/"])
    },
    verb('C', 2, &["--json", "cp", "disk.img:/big", "out"]),
    Verb {
        who: Who::Child,
        ..verb('G', 1, &["--json", "cp", "--force", "disk.img:/big", "out"])
    },
    Verb {
        who: Who::Nth(0),
        ..verb('F', 1, &["--json", "cp", "disk.img:/big", "there"])
    },
    verb(
        'L',
        2,
        &["--json", "convert", "disk.img", "out/converted.qcow2"],
    ),
    verb('L', 2, &["fsck", "disk.img"]),
    verb('L', 2, &["fsck", "--repair", "disk.img"]),
    verb('L', 2, &["mkfs", "--force", "blank.img"]),
    Verb {
        who: Who::Child,
        ..verb(
            'D',
            1,
            &[
                "--json",
                "cp",
                "--force",
                "--devices",
                "disk.img:/big",
                "out",
            ],
        )
    },
    verb('S', 1, &["sh", "-c", "cat /big", "disk.img"]),
    Verb {
        who: Who::Child,
        ..verb('O', 1, &["sh", "-c", "cat /big", "disk.img"])
    },
    Verb {
        who: Who::Child,
        ..verb('O', 1, &["diff", "disk.img:/", "many"])
    },
    verb(
        'V',
        1,
        &["sh", "--share", "out", "-c", "cat /big", "disk.img"],
    ),
    verb('V', 1, &["sh", "-c", "cat /big; get /big out", "disk.img"]),
    verb('V', 1, SHARING),
    // Its guard, its gofer, its lender, who opens images, who tells.
    Verb {
        who: Who::Nth(1),
        ..verb('W', 1, SHARING)
    },
    Verb {
        who: Who::Nth(0),
        ..verb('F', 1, SHARING)
    },
    Verb {
        who: Who::Nth(4),
        ..verb('O', 1, SHARING)
    },
    verb('A', 1, &["make-image", "tree", "out/made.img"]),
    verb('A', 1, &["make-image", "disk.toml", "out/made.img"]),
    verb('E', 1, &["make-image", "tree.tar", "out/made.img"]),
    verb('P', 1, &["make-image", "oci", "out/made.img"]),
    verb('P', 1, &["make-image", "oci.toml", "out/made.img"]),
    verb('P', 1, &["make-image", "saved", "out/made.img"]),
    verb(
        'P',
        1,
        &["make-image", "tree", "--layer=tree.tar", "out/made.img"],
    ),
    Verb {
        who: Who::Step,
        ..verb('L', 2, &["resize", "written.img", "48M"])
    },
    Verb {
        who: Who::Child,
        ..verb(
            'Z',
            2,
            &[
                "fuzz",
                "fs",
                "ext4",
                "disk.img",
                "--corpus=out/fuzz",
                "--time=1h",
                "--hang=1h",
                "--no-compare",
            ],
        )
    },
    Verb {
        who: Who::Child,
        ..verb('N', 1, &["cat", "http:/big"])
    },
    Verb {
        who: Who::Grandchild,
        ..verb('T', 1, &["fsck", "disk.img"])
    },
];

/// A program runs, and waits; where there is something to run it.
const RUN: Verb = verb(
    'R',
    2,
    &[
        "run", "--root", "disk.img", "--", "/busybox", "sleep", "100000",
    ],
);

/// The same with a network: it, and who makes the host's sockets.
const NETWORKED: &[&str] = &[
    "run",
    "--net",
    "user",
    "--publish",
    "0:80",
    "--root",
    "disk.img",
    "--",
    "/busybox",
    "sleep",
    "100000",
];

/// A session that makes, compares and looks for files of the host.
const SHARING: &[&str] = &[
    "sh",
    "--share",
    "out",
    "-c",
    "cat /big; diff /big host:out; tar create out/x.tar /; convert disk.img out/x.img; ls host:out/*",
    "disk.img",
];

/// All that can be started here.
fn verbs() -> impl Iterator<Item = &'static Verb> {
    let runs = run::can_run();
    let can = move |verb: &&Verb| runs || !"RUB".contains(verb.class);
    VERBS.iter().filter(can)
}

/// Where the commands work: in `place`; beside it lies what is not theirs.
struct Setting {
    s: Scratch,
    server: Server,
    user: u32,
}

impl Setting {
    fn new(user: u32) -> Setting {
        let s = Scratch::new();
        if run::can_run() {
            s.write("tree/busybox", &run::busybox());
            s.make_executable("tree/busybox");
        }
        image(&s, 0);
        s.write("other/tree/big", b"another");
        // More than is told and printed before somebody reads it.
        for number in 0..4 * MANY {
            s.write(&format!("many/a-rather-long-name-{number:060}"), b"");
        }
        s.ext4("other.img", Some(&s.join("other")), 16);
        // What mkfs begins with it may have done when it is stopped: no other verb meets that.
        for name in ["written.img", "blank.img"] {
            std::fs::copy(s.join("disk.img"), s.join(name)).expect("a copy");
        }
        for (name, sleeps) in [("out", false), ("outside", false), ("bin", true)] {
            std::fs::create_dir(s.join(name)).expect("a directory");
            for program in ["e2fsck", "mke2fs", "resize2fs"] {
                if sleeps {
                    let path =
                        s.write(&format!("bin/{program}"), b"#!/bin/sh\nexec sleep 100000\n");
                    succeed(s.tool("chmod").arg("+x").arg(path));
                }
            }
        }
        succeed(s.command("tar", "-cf tree.tar tree").current_dir(s.path()));
        let layout = "table = 'gpt'\n[[partition]]\ntype = 'root'\nfs = 'ext4'\nsource = 'tree'\n";
        s.write("disk.toml", layout.as_bytes());
        let images = "l = Layout()\nl.add('app:a', l.image([LOWER]))\nl.write('oci')\n\
                      write('saved.tar', legacy([('app:a', [LOWER, UPPER])]))";
        container_images(&s, images);
        s.write("saved/other", b"");
        succeed(
            s.command("tar", "-xf ../saved.tar")
                .current_dir(s.join("saved")),
        );
        let layout = layout.replace("'tree'", "'oci'");
        s.write("oci.toml", layout.as_bytes());
        s.write("outside/secret", b"a secret");
        s.write("there/big", b"a file that may be an image");
        let server = Server::of(s.read("disk.img"));
        succeed(
            s.tool("chown")
                .arg("-R")
                .arg(user.to_string())
                .arg(s.path()),
        );
        Setting { s, server, user }
    }

    fn outside(&self) -> std::path::PathBuf {
        self.s.join("outside")
    }

    /// Starts it. What it says, nobody takes.
    fn start(&self, verb: &Verb) -> (Running, OwnedFd, u32) {
        let (full, blocked) = full_pipe();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tane"));
        command.current_dir(self.s.path());
        let url = format!("{}:/big", self.server.url("disk.img"));
        for word in verb.words {
            command.arg(if *word == "http:/big" {
                url.as_str()
            } else {
                word
            });
        }
        let places = std::env::var("PATH").unwrap_or_default();
        let bin = self.s.join("bin");
        command.env("PATH", format!("{}:{places}", bin.display()));
        command.stdin(Stdio::piped());
        command.stdout(blocked).stderr(Stdio::inherit());
        if self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command.env("VISUAL", "false").env_remove("TMPDIR");
        if verb.who == Who::Briefly {
            let (command, pid) = caught(&mut command, verb.filters);
            return (command, full, pid);
        }
        let command = Running(command.spawn().expect("tane"));
        // An archive that does not end.
        let begun = &self.s.read("tree.tar")[..1 << 15];
        let mut stdin = command.0.stdin.as_ref().expect("a pipe");
        stdin.write_all(begun).expect("room in it");
        let pid = match verb.who {
            Who::Itself | Who::Briefly => command.0.id(),
            Who::Child => jailed_below(command.0.id(), 1, verb.filters),
            Who::Nth(number) => child(command.0.id(), number),
            Who::Grandchild => jailed_below(command.0.id(), 2, verb.filters),
            Who::Step => parent(parent(jailed_below(command.0.id(), 3, 1))),
        };
        if verb.who == Who::Grandchild {
            // It is sleep(1) in the end.
            let wait = format!("{} ", libc::SYS_clock_nanosleep);
            eventually("the program runs", || {
                let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
                call.is_ok_and(|call| call.starts_with(&wait))
            });
        }
        (command, full, pid)
    }
}

/// A pipe that holds as much as it can, so that who writes to it waits.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors, which are ours alone.
    let (reader, writer) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    let wait = |flags: i32| {
        // SAFETY: no memory involved.
        assert_eq!(
            unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) },
            0
        );
    };
    wait(libc::O_NONBLOCK);
    while (&writer).write(&[0; 4096]).is_ok() {}
    wait(0);
    (reader, writer.into())
}

/// A command whose child was stopped in its work, with so many filters. It may have ended
/// before it was seen: then it is started again.
fn caught(command: &mut Command, filters: usize) -> (Running, u32) {
    let has = format!("Seccomp_filters:\t{filters}\n");
    for _ in 0..100 {
        let mut started = Running(command.spawn().expect("tane"));
        let parent = started.0.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        while started.0.try_wait().expect("a child").is_none() {
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            let pids = children.split_whitespace();
            let mut pids = pids.map(|pid| pid.parse::<u32>().expect("a number"));
            let status = |pid| std::fs::read_to_string(format!("/proc/{pid}/status"));
            let has = |pid: &u32| status(*pid).is_ok_and(|text| text.contains(&has));
            let Some(pid) = pids.find(has) else {
                continue;
            };
            // SAFETY: no memory involved. Perhaps it is the child no more: then nobody is
            // there, as its parent has just waited for it.
            unsafe { libc::kill(pid as i32, libc::SIGSTOP) };
            let mut stopped = false;
            while let Some(text) = status(pid).ok().filter(|text| !text.contains("\tZ (")) {
                if text.contains("\nState:\tT") {
                    stopped = true;
                    break;
                }
            }
            if stopped {
                return (started, pid);
            }
        }
    }
    panic!("it was never seen in a hundred times")
}

fn parent(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let found = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    found
        .and_then(|found| found.trim().parse().ok())
        .expect("a number")
}

/// The process so many generations below this one that has so many filters: others there
/// have none, or not yet.
fn jailed_below(pid: u32, generations: usize, filters: usize) -> u32 {
    let field = |status: &str, name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.and_then(|found| found.trim().parse::<u32>().ok())
    };
    let mut found = None;
    eventually("a jailed child runs", || {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // Who has ended meanwhile has none.
        let status = |pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok();
        let all: Vec<_> = all
            .filter_map(|pid| {
                let status = status(pid)?;
                Some((
                    pid,
                    field(&status, "PPid:")?,
                    field(&status, "Seccomp_filters:")?,
                ))
            })
            .collect();
        let mut parents = vec![pid];
        for _ in 1..generations {
            let children = all.iter().filter(|(_, of, _)| parents.contains(of));
            parents = children.map(|(pid, ..)| *pid).collect();
        }
        let is_it = |(_, of, has): &&(u32, u32, u32)| {
            parents.contains(of) && usize::try_from(*has) == Ok(filters)
        };
        found = all.iter().find(is_it).map(|(pid, ..)| *pid);
        found.is_some()
    });
    found.expect("just found")
}

#[test]
fn what_the_jail_allows_is_listed_with_its_reason() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let setting = Setting::new(0);
    let mut wrong = BTreeSet::new();
    for verb in verbs() {
        let (_command, _pipe, pid) = setting.start(verb);
        let thread = Prisoner::behind(pid, verb.filters);
        let filters = Filters::of(&thread);
        wrong.extend(listed::differences(&filters, pid, verb.class));
    }
    #[cfg(feature = "fuse")]
    if crate::common::fuse::has_fuse() {
        let mounted = crate::common::fuse::Mounted::new(&setting.s, &["--rw", "written.img"]);
        let pid = mounted.server() as u32;
        let thread = Prisoner::behind(pid, 2);
        wrong.extend(listed::differences(&Filters::of(&thread), pid, 'M'));
    }
    wrong.extend(of_who_asks(&setting));
    let all: Vec<_> = wrong.into_iter().collect();
    assert!(all.is_empty(), "docs/jail-calls.md:\n{}", all.join("\n"));
}

/// What is wrong with the list of the process that asks for passphrases, where there is a
/// terminal. Nobody takes what the command writes.
fn of_who_asks(setting: &Setting) -> Vec<String> {
    let terminal = Terminal::new();
    let mut command = setting.s.tane();
    command.args(["cat", "disk.img:/big"]);
    terminal.give(&mut command);
    let command = Running(command.spawn().expect("tane"));
    let pid = first_child(command.0.id());
    let thread = Prisoner::behind(pid, 1);
    listed::differences(&Filters::of(&thread), pid, 'Q')
}

/// One of each class; those that end the process, one for each call in the first class, in
/// the others one for all.
fn attacked_by(user: u32) {
    if !has_prisoners() || !has_landlock() || !can_be_reached(user) {
        return;
    }
    let setting = Setting::new(user);
    let place = setting.outside();
    let mut wrong = Vec::new();
    let mut classes = BTreeSet::new();
    for verb in verbs().filter(|verb| classes.insert(verb.class)) {
        let start = || {
            let (command, pipe, pid) = setting.start(verb);
            ((command, pipe), pid)
        };
        let each_call = verb.class == 'L';
        wrong.extend(attacks::try_all(
            verb.class,
            verb.filters,
            each_call,
            &place,
            start,
        ));
    }
    // Who mounts is root in any case, or a program of root's.
    #[cfg(feature = "fuse")]
    if user == 0 && crate::common::fuse::has_fuse() {
        let start = || {
            // The one before may be on its way out.
            let options = ["--rw", "--wait", "written.img"];
            let mounted = crate::common::fuse::Mounted::new(&setting.s, &options);
            let pid = mounted.server() as u32;
            (mounted, pid)
        };
        wrong.extend(attacks::try_all('M', 2, false, &place, start));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(setting.s.read("outside/secret"), b"a secret");
    let names = std::fs::read_dir(&place).expect("a listing");
    assert_eq!(names.count(), 1);
}

/// Whether this user can start the command, and read the kernel image; else the test is
/// skipped.
fn can_be_reached(user: u32) -> bool {
    let kernel = tane::default_image().expect("a kernel");
    let files = [Path::new(env!("CARGO_BIN_EXE_tane")), &kernel];
    let reached = files.iter().all(|file| {
        let mut test = Command::new("test");
        test.arg("-r").arg(file).uid(user).gid(user);
        test.status().expect("test").success()
    });
    if !reached {
        tane_test_support::skip("the command lies where only root can read");
    }
    reached
}

#[test]
fn no_attack_from_inside_a_command_of_roots_succeeds() {
    attacked_by(0);
}

#[test]
fn no_attack_from_inside_a_command_of_an_ordinary_user_succeeds() {
    attacked_by(USER);
}
