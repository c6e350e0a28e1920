//! Where verbs are in the middle of their work, and how they get there.

use super::sleeping::{program, word};
use super::verbs::{Verb, Who};
use super::{child, image, Running, MANY};
use crate::common::make::container_images;
use crate::common::*;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tane_test_support::eventually;
use tane_test_support::http::Server;
use tane_test_support::ninep;

/// Where the commands work: in `place`; beside it lies what is not theirs.
pub struct Setting {
    pub s: Scratch,
    server: Server,
    files: Option<ninep::Served>,
    user: u32,
    /// Its PATH.
    places: String,
}

impl Setting {
    pub fn new(user: u32) -> Setting {
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
        for name in ["out", "outside"] {
            std::fs::create_dir(s.join(name)).expect("a directory");
        }
        let programs = ["e2fsck", "mke2fs", "mksquashfs", "resize2fs"];
        let [places, ..] = programs.map(|name| program(&s, name, "exec sleep 100000\n"));
        succeed(s.command("tar", "-cf tree.tar tree").current_dir(s.path()));
        let layout = "table = 'gpt'\n[[partition]]\ntype = 'root'\nfs = 'ext4'\nsource = 'tree'\n";
        s.write("disk.toml", layout.as_bytes());
        let read = "[[partition]]\nfs = 'squashfs'\nsource = 'tree.tar'\n\
                    [[partition]]\nfs = 'erofs'\nsource = 'tree.tar'\n";
        s.write("read.toml", read.as_bytes());
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
        let files = ninep::serve(s.path(), &s.join("tree"));
        succeed(
            s.tool("chown")
                .arg("-R")
                .arg(user.to_string())
                .arg(s.path()),
        );
        Setting {
            s,
            server,
            files,
            user,
            places,
        }
    }

    pub fn outside(&self) -> std::path::PathBuf {
        self.s.join("outside")
    }

    /// Starts it. What it says, nobody takes.
    pub fn start(&self, verb: &Verb) -> (Running, OwnedFd, u32) {
        let (full, blocked) = full_pipe();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tane"));
        command.current_dir(self.s.path());
        let url = format!("{}:/big", self.server.url("disk.img"));
        for word in verb.words {
            let files = self.files.as_ref();
            command.arg(match (*word, files) {
                ("http:/big", _) => url.clone(),
                ("9p:/big", Some(files)) => format!("{}:/big", files.url_of_port()),
                // Nobody serves it here: any other of its class.
                ("9p:/big", None) => "disk.img:/big".into(),
                (word, _) => word.into(),
            });
        }
        command.env("PATH", &self.places);
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
    let (reader, writer) = std::io::pipe().expect("a pipe");
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
    (reader.into(), writer.into())
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
    number(pid, "PPid:").expect("a process")
}

/// None of who has ended meanwhile.
fn number(pid: u32, field: &str) -> Option<u32> {
    word(pid as i32, field)?.parse().ok()
}

/// The process so many generations below this one that has so many filters: others there
/// have none, or not yet.
fn jailed_below(pid: u32, generations: usize, filters: usize) -> u32 {
    let mut found = None;
    eventually("a jailed child runs", || {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of = |pid| Some((pid, number(pid, "PPid:")?, number(pid, "Seccomp_filters:")?));
        let all: Vec<_> = all.filter_map(of).collect();
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
