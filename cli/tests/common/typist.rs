//! Somebody who sits at a terminal of his own, at which a command is the first one.

use super::{heeds_ctrl_c, text};
use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;
use tane_test_support::eventually;

pub struct Typist {
    keys: File,
    /// Who reads what is shown, to the end of that pipe.
    reader: (PipeWriter, JoinHandle<()>),
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: String,
    /// What the terminal was like before anybody used it.
    pub before: Settings,
    pub child: Child,
}

/// Of the terminal at first: rows and columns.
pub const SIZE: (u16, u16) = (43, 97);

impl Typist {
    pub fn at(mut command: Command) -> Typist {
        let mut ends = [0; 2];
        let (null, size) = (std::ptr::null_mut(), winsize(SIZE.0, SIZE.1));
        // SAFETY: room for two descriptors, which are then ours.
        let (keys, terminal) = unsafe {
            let made = libc::openpty(&mut ends[0], &mut ends[1], null, null.cast(), &size);
            assert_eq!(made, 0);
            for end in ends {
                assert_eq!(libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC), 0);
            }
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
        let before = settings(&keys);
        let child = command.spawn().expect("tane");
        drop((command, terminal));
        let mut reader = keys.try_clone().expect("a descriptor");
        let (sender, screen) = std::sync::mpsc::channel();
        let (leaves, stays) = std::io::pipe().expect("a pipe");
        let reads = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while one_is_ready(reader.as_raw_fd(), leaves.as_raw_fd()) {
                let Ok(n @ 1..) = reader.read(&mut buffer) else {
                    return;
                };
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
            reader: (stays, reads),
            screen,
            seen: String::new(),
            before,
            child,
        }
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Until this is on the screen; what was there before is forgotten. All up to there.
    pub fn sees(&mut self, wanted: &str) -> String {
        let (seen, screen) = (std::cell::RefCell::new(&mut self.seen), &self.screen);
        let holds = || {
            let mut seen = seen.borrow_mut();
            while let Ok(bytes) = screen.try_recv() {
                seen.push_str(&text(&bytes));
            }
            seen.contains(wanted)
        };
        let told = std::panic::AssertUnwindSafe(|| eventually("on the screen", holds));
        if let Err(panic) = std::panic::catch_unwind(told) {
            eprintln!("{wanted:?} was not seen in {:?}", self.seen);
            std::panic::resume_unwind(panic);
        }
        let at = self.seen.find(wanted).expect("seen") + wanted.len();
        self.seen.drain(..at).collect()
    }

    /// All that comes until the end, and how the command ended.
    pub fn ends_with(mut self) -> (String, ExitStatus) {
        let status = self.child.wait().expect("exit");
        // Nobody has the other end any more.
        while let Ok(bytes) = self.screen.recv() {
            self.seen.push_str(&text(&bytes));
        }
        (self.seen, status)
    }

    pub fn ends(mut self) -> ExitStatus {
        self.child.wait().expect("exit")
    }

    /// The terminal goes away.
    pub fn leaves(self) -> Child {
        let (stays, reads) = self.reader;
        drop(stays);
        reads.join().expect("no panic");
        self.child
    }

    pub fn resizes(&self, rows: u16, columns: u16) {
        let size = winsize(rows, columns);
        // SAFETY: a live structure.
        let set = unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0);
    }

    /// What the terminal does with what is typed and shown.
    pub fn settings(&self) -> Settings {
        settings(&self.keys)
    }
}

/// Whether the terminal has something to read, and not the pipe its end.
fn one_is_ready(terminal: RawFd, pipe: RawFd) -> bool {
    let mut polled = [terminal, pipe].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: structures of ours.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
    ready > 0 && polled[1].revents == 0
}

fn winsize(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn settings(terminal: &File) -> Settings {
    // SAFETY: the structure is plain data, and the host's to fill.
    let now = unsafe {
        let mut now: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut now), 0);
        now
    };
    Settings {
        flags: [now.c_iflag, now.c_oflag, now.c_cflag, now.c_lflag],
        keys: now.c_cc,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    flags: [libc::tcflag_t; 4],
    keys: [libc::cc_t; libc::NCCS],
}

impl Settings {
    pub fn is_raw(&self) -> bool {
        self.flags[3] & (libc::ECHO | libc::ICANON | libc::ISIG) == 0
    }
}
