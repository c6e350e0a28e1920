//! A running command, made to do system calls of our choice: what code that a
//! hostile image got to run in it could do. By ptrace(2), so that the command is
//! the one that is installed, and its jail its own.
#![allow(dead_code)] // every test program uses a part of it

pub mod attacks;
pub mod filter;
pub mod listed;
pub mod names;

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::process::Child;
use tane_test_support::eventually;

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the host's kernel returned it: a negative errno for an error.
    Returned(i64),
    /// The process was ended by this signal.
    Killed(i32),
}

/// A thread of the command, stopped. It goes on when this is dropped.
pub struct Prisoner {
    tid: i32,
    /// Registers to go on with.
    own: libc::user_regs_struct,
    /// Where a `syscall` instruction is.
    site: u64,
    /// Free memory of the thread's stack.
    room: u64,
    alive: bool,
}

fn trace(request: libc::c_uint, tid: i32, address: u64, data: u64) -> i64 {
    // SAFETY: the requests used here write nothing but through `data`, which
    // callers point at live structures.
    unsafe { libc::ptrace(request, tid, address, data) }
}

/// The number and the first argument of the system call that a thread waits in,
/// and the instruction behind it; None if it runs.
fn waits_in(pid: u32, tid: i32) -> Option<(i64, u64, u64)> {
    let path = format!("/proc/{pid}/task/{tid}/syscall");
    let text = std::fs::read_to_string(path).ok()?;
    let words: Vec<_> = text.split_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let number = words.first()?.parse().ok()?;
    Some((number, hex(words.get(1)?)?, hex(words.last()?)?))
}

/// A `syscall` instruction of the vdso.
fn instruction(pid: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its memory");
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line
        .and_then(|line| line.split(' ').next())
        .expect("a vdso");
    let (from, to) = range.split_once('-').expect("a range");
    let number = |text| u64::from_str_radix(text, 16).expect("an address");
    let (from, to) = (number(from), number(to));
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut code = vec![0; (to - from) as usize];
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut code, from).expect("its code");
    let at = code.windows(2).position(|pair| pair == [0x0f, 0x05]);
    from + at.expect("a system call") as u64
}

pub fn threads(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let name = |t: std::fs::DirEntry| t.file_name().to_str()?.parse().ok();
    tasks.flatten().filter_map(name).collect()
}

impl Prisoner {
    /// The thread that writes to `fd` and has to wait: somebody must not be
    /// reading there.
    pub fn writing_to(child: &Child, fd: u64) -> Prisoner {
        Prisoner::waiting_in(child.id(), libc::SYS_write, Some(fd))
    }

    /// The thread that waits in this call, with this for its first argument.
    pub fn waiting_in(pid: u32, call: i64, argument: Option<u64>) -> Prisoner {
        let mut found = None;
        eventually("a thread of the command waits", || {
            let mut threads = threads(pid).into_iter();
            found = threads.find_map(|tid| {
                let (number, first, behind) = waits_in(pid, tid)?;
                let is_it = number == call && argument.is_none_or(|wanted| first == wanted);
                is_it.then_some((tid, behind))
            });
            found.is_some()
        });
        let (tid, behind) = found.expect("just found");
        Prisoner::stop(tid, behind - 2)
    }

    /// The first thread of a process, in whatever it does, once that many filters hold.
    pub fn behind(pid: u32, filters: usize) -> Prisoner {
        eventually("the jail closes", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            let status = status.expect("a process that lives");
            let mut lines = status.lines();
            let found = lines.find_map(|line| line.strip_prefix("Seccomp_filters:"));
            found.is_some_and(|found| found.trim().parse() == Ok(filters))
        });
        let mut it = Prisoner::stop(pid as i32, instruction(pid));
        // Its own stack may be a small one of the kernel's.
        let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let mapped = it.call(libc::SYS_mmap, &[0, 1 << 16, 3, memory, u64::MAX, 0]);
        let Outcome::Returned(at @ 1..) = mapped else {
            panic!("memory: {mapped:?}");
        };
        it.room = at as u64 + 4096;
        it
    }

    /// The thread that waits in one of these calls.
    pub fn waiting_in_any(pid: u32, calls: &[i64]) -> Prisoner {
        let mut found = None;
        eventually("a thread of the command waits", || {
            let mut threads = threads(pid).into_iter();
            found = threads.find_map(|tid| {
                let (number, _, behind) = waits_in(pid, tid)?;
                calls.contains(&number).then_some((tid, behind))
            });
            found.is_some()
        });
        let (tid, behind) = found.expect("just found");
        Prisoner::stop(tid, behind - 2)
    }

    /// Another thread of the same process.
    pub fn beside(&self, tid: i32) -> Prisoner {
        Prisoner::stop(tid, self.site)
    }

    pub fn tid(&self) -> i32 {
        self.tid
    }

    pub fn is_alive(&self) -> bool {
        self.alive
    }

    fn stop(tid: i32, site: u64) -> Prisoner {
        assert_eq!(trace(libc::PTRACE_ATTACH, tid, 0, 0), 0, "ptrace");
        let mut status = 0;
        // SAFETY: a live int.
        unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
        let own = registers(tid);
        Prisoner {
            tid,
            own,
            site,
            room: (own.rsp - 16384) & !4095,
            alive: true,
        }
    }

    /// Puts a text where the calls find it, over the one before.
    pub fn text(&self, text: &CStr) -> u64 {
        self.poke(self.room, text)
    }

    /// A second text.
    pub fn second(&self, text: &CStr) -> u64 {
        self.poke(self.room + 4096, text)
    }

    fn poke(&self, place: u64, text: &CStr) -> u64 {
        self.write(place, text.to_bytes_with_nul());
        place
    }

    fn write(&self, place: u64, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for (i, word) in bytes.chunks(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let at = place + 8 * i as u64;
            assert_eq!(trace(libc::PTRACE_POKEDATA, self.tid, at, word), 0);
        }
    }

    /// Has the thread do a call as 32-bit programs do.
    pub fn call_of_32_bits(&mut self, number: i64, arguments: &[u64]) -> Outcome {
        let before = self.peek(self.site);
        self.write(self.site, &((before & !0xffff) | 0x80cd).to_le_bytes());
        let outcome = self.call(number, arguments);
        if self.alive {
            self.write(self.site, &before.to_le_bytes());
        }
        outcome
    }

    fn peek(&self, at: u64) -> u64 {
        let mut word = 0u64;
        let into = &raw mut word as u64;
        // SAFETY: the system call writes a word there.
        let done =
            unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.tid, at, into) };
        assert_eq!(done, 0, "ptrace");
        word
    }

    /// Waits for the end of a thread that stays stopped.
    pub fn ends_by(mut self) -> i32 {
        let mut status = 0;
        // SAFETY: a live int.
        unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL) };
        self.alive = false;
        assert!(libc::WIFSIGNALED(status), "{status:#x}");
        libc::WTERMSIG(status)
    }

    /// Has the thread do this call.
    pub fn call(&mut self, number: i64, arguments: &[u64]) -> Outcome {
        let argument = |i: usize| arguments.get(i).copied().unwrap_or(0);
        let mut registers = self.own;
        registers.rip = self.site;
        registers.rsp = self.room - 256;
        registers.rax = number as u64;
        // Not a call that was interrupted, to be done again.
        registers.orig_rax = u64::MAX;
        registers.rdi = argument(0);
        registers.rsi = argument(1);
        registers.rdx = argument(2);
        registers.r10 = argument(3);
        registers.r8 = argument(4);
        registers.r9 = argument(5);
        set_registers(self.tid, &registers);
        loop {
            trace(libc::PTRACE_SINGLESTEP, self.tid, 0, 0);
            let mut status = 0;
            // SAFETY: a live int.
            unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL) };
            if libc::WIFSIGNALED(status) {
                self.alive = false;
                return Outcome::Killed(libc::WTERMSIG(status));
            }
            // Signals of the command's own business come in between.
            if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP {
                return Outcome::Returned(self::registers(self.tid).rax as i64);
            }
            assert!(libc::WIFSTOPPED(status), "{status:#x}");
        }
    }

    /// openat(2) by a full path.
    pub fn open(&mut self, path: &CStr, flags: i32) -> Outcome {
        let path = self.text(path);
        let here = libc::AT_FDCWD as u64;
        self.call(libc::SYS_openat, &[here, path, flags as u64, 0o600])
    }
}

impl Drop for Prisoner {
    fn drop(&mut self) {
        if self.alive {
            set_registers(self.tid, &self.own);
            trace(libc::PTRACE_DETACH, self.tid, 0, 0);
        }
    }
}

fn registers(tid: i32) -> libc::user_regs_struct {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    let at = registers.as_mut_ptr() as u64;
    assert_eq!(trace(libc::PTRACE_GETREGS, tid, 0, at), 0);
    // SAFETY: all of it was written.
    unsafe { registers.assume_init() }
}

fn set_registers(tid: i32, registers: &libc::user_regs_struct) {
    let at = std::ptr::from_ref(registers) as u64;
    trace(libc::PTRACE_SETREGS, tid, 0, at);
}
