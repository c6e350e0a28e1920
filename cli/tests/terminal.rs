//! Promises of `tane sh` on a terminal: completion, history, Ctrl-C.

mod common;

use common::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tane_test_support::eventually;

/// A terminal of its own for a session.
struct Typist {
    keys: File,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: String,
    child: std::process::Child,
}

impl Typist {
    fn at(mut command: Command) -> Typist {
        let mut ends = [0; 2];
        let null = std::ptr::null_mut();
        // SAFETY: room for two descriptors, which are then ours.
        let (keys, terminal) = unsafe {
            let made = libc::openpty(&mut ends[0], &mut ends[1], null, null.cast(), null.cast());
            assert_eq!(made, 0);
            (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
        };
        let end = || terminal.try_clone().expect("a descriptor");
        command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .env("TERM", "xterm");
        heeds_ctrl_c(&mut command);
        // SAFETY: these may be called there.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("tane");
        drop((command, terminal));
        let mut reader = keys.try_clone().expect("a descriptor");
        let (sender, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                // "Where is the cursor?" is for the terminal to answer.
                if buffer[..n].windows(4).any(|w| w == b"\x1b[6n") {
                    let _ = reader.write_all(b"\x1b[1;1R");
                }
                // Holes come as zeroes, which nobody would see.
                let seen = buffer[..n].iter().copied().filter(|&b| b != 0);
                let _ = sender.send(seen.collect());
            }
        });
        Typist {
            keys,
            screen,
            seen: String::new(),
            child,
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Until this is on the screen; what was there before is forgotten.
    fn sees(&mut self, wanted: &str) {
        let (seen, screen) = (std::cell::RefCell::new(&mut self.seen), &self.screen);
        eventually(&format!("{wanted} on the screen"), || {
            let mut seen = seen.borrow_mut();
            while let Ok(bytes) = screen.try_recv() {
                seen.push_str(&text(&bytes));
            }
            seen.contains(wanted)
        });
        let at = self.seen.find(wanted).expect("seen") + wanted.len();
        self.seen.drain(..at);
    }

    fn ends(mut self) -> Option<i32> {
        self.child.wait().expect("exit").code()
    }
}

#[test]
fn a_terminal_has_completion_and_history() {
    let s = Scratch::new();
    s.write("i/etc/some file", b"the content");
    let state = s.join("state");
    let mut command = s.host();
    command.args(["sh", "i"]).env("XDG_STATE_HOME", &state);
    let mut typist = Typist::at(command);
    typist.sees("i:/> ");
    typist.types("cat e\tso\t\r");
    typist.sees("the content");
    typist.sees("i:/> ");
    // The line before, by the arrow up.
    typist.types("\x1b[A\r");
    typist.sees("the content");
    typist.sees("i:/> ");
    typist.types("exit 5\r");
    assert_eq!(typist.ends(), Some(5));
    let history = std::fs::read_to_string(state.join("tane/history")).expect("a history");
    assert!(history.contains("cat 'etc/some file'"), "{history}");
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("d/f", b"");
    let image = s.ext4("disk.img", Some(&s.join("d")), 64);
    succeed(s.tane().args(["truncate", "-s", "8T", "disk.img:/a"]));
    let mut command = s.tane();
    command
        .args(["sh", "disk.img"])
        .env("XDG_STATE_HOME", s.join("state"));
    let mut typist = Typist::at(command);
    typist.sees("disk.img:/> ");
    typist.types("touch before; echo $'\\x72eady'\r");
    typist.sees("ready");
    typist.sees("disk.img:/> ");
    // 8 TiB of zeroes take longer than anybody waits.
    typist.types("echo $'\\x62egun'; cat a; echo never\r");
    typist.sees("begun");
    typist.types("\x03");
    typist.sees("interrupted");
    typist.sees("disk.img:/> ");
    typist.types("touch after; echo $'\\x6fn'\r");
    typist.sees("on\r\n");
    // Before that, the terminal takes the key for itself.
    typist.sees("disk.img:/> ");
    typist.types("\x04");
    assert_eq!(typist.ends(), Some(0));
    assert_sound(&image);
    let found = text(&succeed(s.tane().args(["ls", "disk.img"])).stdout);
    assert!(found.contains("after\nbefore\n"), "{found}");
}

#[test]
fn completion_and_history_work_in_a_jail_that_closes_while_somebody_types() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("d/etc/some file", b"the content");
    s.ext4("disk.img", Some(&s.join("d")), 64);
    let mut command = s.tane();
    command.arg("sh").env("XDG_STATE_HOME", s.join("state"));
    let mut typist = Typist::at(command);
    typist.sees("tane> ");
    typist.types("cd disk.img:/\r");
    typist.sees("disk.img:/> ");
    typist.types("cat e\tso\t\r");
    typist.sees("the content");
    typist.sees("disk.img:/> ");
    typist.types("exit 5\r");
    assert_eq!(typist.ends(), Some(5));
    let history = std::fs::read_to_string(s.join("state/tane/history")).expect("a history");
    assert!(history.contains("cat 'etc/some file'"), "{history}");
}
