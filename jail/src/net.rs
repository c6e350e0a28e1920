//! The net below a program whose system calls a runtime in its process takes.
//!
//! A call by any other code than the runtime's, of whatever kind (`syscall`, `int 0x80`,
//! the vsyscall page, numbers of x32), is no call of the host's: its thread gets SIGSYS,
//! and the runtime does what the program asked for. The runtime's own calls are few, and
//! their arguments are looked at: no file is opened, no socket made, no program started,
//! nobody else signalled.
//!
//! This protects the host. It does not protect the runtime, whose code a program that
//! means to can jump into: then it can do what the list says, and no more.

use crate::calls::{advice, clone_of_threads, only, set, Table};
use crate::filter::{assemble, equals, install, is, within, Verdict};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

/// What the runtime needs.
#[derive(Clone, Debug)]
pub struct Net {
    /// Addresses of its code; they do not cross a multiple of 4 GiB.
    pub runtime: Range<u64>,
    /// Descriptors of memory that it maps.
    pub memory: Vec<RawFd>,
    /// Descriptors that it writes to, to wake others.
    pub bells: Vec<RawFd>,
    /// The one signal that it sends to threads.
    pub interrupt: i32,
}

/// What may be done at all times, whatever the arguments: it reaches nothing but this
/// process and its threads.
const ALWAYS: &[i64] = &[
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS
const BASES: Range<u32> = 0x1001..0x1005;

/// Of clone(2): a copy of this process and nothing shared with it, whose end is told by
/// SIGCHLD. What else may be said is where thread numbers are written.
const COPY: u32 = libc::SIGCHLD as u32;
const NUMBERS: u32 =
    (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::CLONE_PARENT_SETTID) as u32;

impl Net {
    fn table(&self) -> Table {
        let mut table = Table::new();
        let t = &mut table;
        set(t, ALWAYS, &Verdict::Allow);
        advice(t);
        clone_of_threads(t, Some(libc::EPERM));
        let Some(Verdict::If(lists, _)) = t.get_mut(&(libc::SYS_clone as u32)) else {
            unreachable!("just set");
        };
        lists.push(vec![is(0, !NUMBERS, COPY)]);

        // Whoever may change protections at all can have code anywhere, so they are not
        // looked at: only where memory comes from.
        let anonymous = is(3, libc::MAP_ANONYMOUS as u32, libc::MAP_ANONYMOUS as u32);
        let files = self.memory.iter().map(|fd| equals(4, *fd as u32));
        only(
            t,
            libc::SYS_mmap,
            files.chain([anonymous]).map(|test| vec![test]).collect(),
        );

        let signal = vec![vec![equals(2, self.interrupt as u32)]];
        only(t, libc::SYS_tgkill, signal);
        let bells = self.bells.iter().map(|fd| vec![equals(0, *fd as u32)]);
        only(t, libc::SYS_write, bells.collect());
        let bases = BASES.map(|code| vec![equals(0, code)]);
        only(t, libc::SYS_arch_prctl, bases.collect());
        table
    }

    /// Puts all threads of this process, and what is forked from it, under the net, for
    /// good. A handler of SIGSYS has to be there, and no thread may block that signal:
    /// the host ends whoever makes a call while it is blocked.
    ///
    /// Fails if the range is empty or crosses a multiple of 4 GiB, if there is another
    /// filter in one of the threads, or if the host has no seccomp.
    pub fn enter(&self) -> io::Result<()> {
        let Range { start, end } = self.runtime;
        let first = start.checked_add(2);
        let same = |end: u64| end >> 32 == start >> 32;
        let fits = first.is_some_and(|first| first <= end);
        if !fits || !end.checked_add(1).is_some_and(same) {
            let message = format!(
                "the runtime's code at {start:#x}..{end:#x} is empty or crosses a multiple \
                 of 4 GiB: map it elsewhere"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let list = assemble(&self.table(), &Verdict::Refuse(libc::EPERM));
        install(&mut within(&self.runtime, list))
    }
}
