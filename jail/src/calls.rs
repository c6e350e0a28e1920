//! The system calls that are left.

use crate::filter::{assemble, equals, install, is, null, Test, Verdict};
use crate::lists::*;
use crate::{programs, Jail};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;

pub type Table = BTreeMap<u32, Verdict>;

/// pthread_create(3)'s, by any C library; nothing that makes a process.
const THREAD: u32 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD) as u32;
const NO_THREAD: u32 = (libc::CLONE_PIDFD
    | libc::CLONE_PTRACE
    | libc::CLONE_VFORK
    | libc::CLONE_PARENT
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_IO) as u32;

const ARCH_SET_GS: u32 = 0x1001;
pub const ARCH_SET_FS: u32 = 0x1002;
const ARCH_GET_GS: u32 = 0x1004;
const PR_SET_VMA: u32 = 0x5356_4d41;
const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;
/// linux/userfaultfd.h
const UFFD_USER_MODE_ONLY: i32 = 1;

pub fn set(table: &mut Table, calls: &[i64], verdict: &Verdict) {
    for nr in calls {
        table.insert(*nr as u32, verdict.clone());
    }
}

pub fn only(table: &mut Table, nr: i64, lists: Vec<Vec<Test>>) {
    table.insert(nr as u32, Verdict::If(lists, Some(libc::EPERM)));
}

pub fn one_of(table: &mut Table, nr: i64, argument: u32, values: &[u32]) {
    let verdict = Verdict::OneOf(argument, values.to_vec(), libc::EPERM);
    table.insert(nr as u32, verdict);
}

/// Threads, by clone(2). The C library asks for them by clone3(2) first, whose flags are
/// not to be seen here.
pub fn clone_of_threads(table: &mut Table, else_: Option<i32>) {
    table.insert(libc::SYS_clone3 as u32, Verdict::Refuse(libc::ENOSYS));
    let thread = vec![vec![is(0, THREAD | NO_THREAD, THREAD)]];
    table.insert(libc::SYS_clone as u32, Verdict::If(thread, else_));
}

pub const CODE: u32 = libc::PROT_EXEC as u32;

/// Only of memory that RLIMIT_DATA counts: what is shared, and stacks that grow, it does
/// not.
pub fn memory(lists: Vec<Vec<Test>>) -> Vec<Vec<Test>> {
    let uncounted = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u32;
    let counted = [
        Test {
            not: true,
            ..is(3, uncounted, uncounted)
        },
        is(3, libc::MAP_GROWSDOWN as u32, 0),
    ];
    let lists = lists.into_iter();
    lists.map(|list| [&counted, &list[..]].concat()).collect()
}

/// Advice that has the host take pages away from everybody, as if their memory were broken, of
/// who is CAP_SYS_ADMIN.
const BREAKS: [i32; 2] = [libc::MADV_HWPOISON, MADV_SOFT_OFFLINE];
/// asm-generic/mman-common.h
const MADV_SOFT_OFFLINE: i32 = 101;

/// All other advice is about memory of its own.
pub fn advice(table: &mut Table) {
    let others = BREAKS.map(|advice| Test {
        not: true,
        ..equals(2, advice as u32)
    });
    only(table, libc::SYS_madvise, vec![others.to_vec()]);
}

/// prlimit64(2): which limit this process has.
fn asks_for(resource: libc::__rlimit_resource_t) -> Vec<Test> {
    [&[equals(0, 0), equals(1, resource)][..], &null(2)].concat()
}

/// Nothing else ever gets these descriptors: they are not closed, and so not given out
/// again, nor replaced.
fn keep(table: &mut Table, fds: &[RawFd]) {
    let other = |argument| {
        let others = fds.iter().map(|fd| Test {
            not: true,
            ..equals(argument, *fd as u32)
        });
        vec![others.collect()]
    };
    only(table, libc::SYS_close, other(0));
    only(table, libc::SYS_dup2, other(1));
}

/// Sockets that come connected: waiting for them, their end. Nothing that takes an address,
/// asks a socket or sets another option.
fn connected_sockets(t: &mut Table) {
    let wait = [libc::SYS_epoll_ctl, libc::SYS_epoll_wait];
    set(t, &wait, &Verdict::Allow);
    let epoll = libc::EPOLL_CLOEXEC as u32;
    only(t, libc::SYS_epoll_create1, vec![vec![equals(0, epoll)]]);
    let word = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as u32;
    only(t, libc::SYS_eventfd2, vec![vec![equals(1, word)]]);
    let closed_on_exec = libc::MSG_CMSG_CLOEXEC as u32;
    only(t, libc::SYS_recvmsg, vec![vec![equals(2, closed_on_exec)]]);
    set(t, &[libc::SYS_shutdown], &Verdict::Allow);
    // Whether closing one tells its peer that it has failed.
    let linger = vec![
        equals(1, libc::SOL_SOCKET as u32),
        equals(2, libc::SO_LINGER as u32),
    ];
    only(t, libc::SYS_setsockopt, vec![linger]);
}

/// The list of this jail; the number of the timer that it must not touch.
fn table(jail: &Jail, watchdog: Option<i32>) -> Table {
    let mut table = Table::new();
    let t = &mut table;
    set(t, ATTACKS, &Verdict::Kill);
    set(t, PROGRAMS, &Verdict::Kill);
    set(t, ENDS_OF_THE_NETWORK, &Verdict::Kill);
    set(t, WORK, &Verdict::Allow);
    advice(t);
    clone_of_threads(t, None);

    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() } as u32;
    let ourselves = vec![vec![equals(0, me)]];
    let signal = Verdict::If(ourselves.clone(), None);
    t.insert(libc::SYS_tgkill as u32, signal);
    only(t, libc::SYS_process_vm_readv, ourselves);

    let no_code = vec![vec![is(2, CODE, 0)]];
    let mut mapped = no_code.clone();
    if jail.programs {
        // Of the kernel's memory, which is a file. A program may ask for code that it can
        // write: whatever it is, it may do no more than this table says.
        let shared = (libc::MAP_ANONYMOUS | libc::MAP_SHARED) as u32;
        mapped.push(vec![is(3, shared, libc::MAP_SHARED as u32)]);
    }
    if jail.boots {
        // Code is a kernel image's: of a file, and never written.
        let files = (libc::MAP_ANONYMOUS | libc::MAP_SHARED) as u32;
        let code = vec![is(2, libc::PROT_WRITE as u32, 0), is(3, files, 0)];
        let code = match &jail.code {
            None => vec![code],
            Some(images) => images
                .iter()
                .map(|fd| [&code[..], &[equals(4, *fd as u32)]].concat())
                .collect(),
        };
        let lists = [&mapped[..], &code].concat();
        only(t, libc::SYS_mmap, memory(lists));
        match &jail.code {
            None => set(t, &[libc::SYS_memfd_create], &Verdict::Allow),
            Some(images) => keep(t, images),
        }
    } else {
        only(t, libc::SYS_mmap, memory(mapped));
    }
    match jail.changes_code {
        true => set(t, &[libc::SYS_mprotect], &Verdict::Allow),
        false => only(t, libc::SYS_mprotect, no_code),
    }

    let requests = [
        ASKING,
        ECHO,
        if jail.changes() { CHANGING } else { &[] },
        if jail.network { WAITING } else { &[] },
        if jail.checkpoints { WRITTEN } else { &[] },
        if jail.watches() { WATCHING } else { &[] },
    ];
    one_of(t, libc::SYS_ioctl, 1, &requests.concat());
    // Not F_SETOWN: it would have signals sent to others.
    let mut commands = vec![
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
        // Locks that wait for nobody, on what is open; flock(2) is allowed too.
        libc::F_OFD_SETLK,
        libc::F_OFD_GETLK,
    ];
    if !jail.programs {
        // Not of a program's: flags are shared with the caller, whose terminal would not
        // wait for keys any more.
        commands.push(libc::F_SETFL);
    }
    let commands: Vec<_> = commands.into_iter().map(|c| c as u32).collect();
    one_of(t, libc::SYS_fcntl, 1, &commands);
    let mut names = vec![
        libc::PR_SET_NAME as u32,
        PR_SET_VMA,
        libc::PR_GET_DUMPABLE as u32,
    ];
    if jail.programs {
        names.push(PR_SET_SYSCALL_USER_DISPATCH);
    }
    one_of(t, libc::SYS_prctl, 0, &names);
    let gs = [ARCH_GET_GS, ARCH_SET_GS];
    one_of(t, libc::SYS_arch_prctl, 0, &gs);
    // Asking for limits, of oneself; and more open files, up to the hard limit.
    let files = libc::RLIMIT_NOFILE;
    let limits = vec![
        asks_for(libc::RLIMIT_STACK),
        vec![equals(0, 0), equals(1, files)],
    ];
    only(t, libc::SYS_prlimit64, limits);
    for nr in [libc::SYS_timer_settime, libc::SYS_timer_delete] {
        let Some(id) = watchdog else {
            set(t, &[nr], &Verdict::Allow);
            continue;
        };
        let another = Test {
            not: true,
            ..equals(0, id as u32)
        };
        only(t, nr, vec![vec![another]]);
    }

    if jail.opens() {
        set(t, OPENING, &Verdict::Allow);
    } else {
        set(
            t,
            &[libc::SYS_open, libc::SYS_openat],
            &Verdict::Refuse(libc::EACCES),
        );
    }
    if jail.watches() {
        // Of this process's own faults; nobody is ever told of one.
        let flags = (libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) as u32;
        only(t, libc::SYS_userfaultfd, vec![vec![equals(0, flags)]]);
    }
    if jail.boots {
        // A second jail may follow.
        let more = [
            libc::SYS_capget,
            libc::SYS_capset,
            libc::SYS_seccomp,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ];
        set(t, &more, &Verdict::Allow);
        let names = [&names[..], &[libc::PR_SET_NO_NEW_PRIVS as u32]].concat();
        one_of(t, libc::SYS_prctl, 0, &names);
        // Which sees that there are no dumps, and never sets that again (limits.rs).
        let core = asks_for(libc::RLIMIT_CORE);
        let Some(Verdict::If(lists, _)) = t.get_mut(&(libc::SYS_prlimit64 as u32)) else {
            unreachable!("just set");
        };
        lists.push(core);
    }
    if !jail.trees.is_empty() {
        set(t, TREES, &Verdict::Allow);
        let kinds = [
            Some(libc::S_IFREG),
            Some(libc::S_IFIFO),
            Some(libc::S_IFSOCK),
            jail.devices.then_some(libc::S_IFCHR),
            jail.devices.then_some(libc::S_IFBLK),
        ];
        let kinds = kinds.into_iter().flatten();
        let kinds = kinds.map(|kind| vec![is(2, libc::S_IFMT, kind)]);
        only(t, libc::SYS_mknodat, kinds.collect());
    }
    if jail.changes() {
        set(t, METADATA, &Verdict::Allow);
        // Of a file's own name: never through a symlink.
        let own = is(4, u32::MAX, libc::AT_SYMLINK_NOFOLLOW as u32);
        only(t, libc::SYS_fchownat, vec![vec![own]]);
    }
    if jail.network {
        set(t, NETWORK, &Verdict::Allow);
        // Not those of this host: its name services, its log, its kernel's interfaces.
        let families = [libc::AF_INET as u32, libc::AF_INET6 as u32];
        let verdict = Verdict::OneOf(0, families.to_vec(), libc::EAFNOSUPPORT);
        t.insert(libc::SYS_socket as u32, verdict);
    }
    if jail.accepts {
        set(t, &[libc::SYS_accept4], &Verdict::Allow);
    }
    if jail.connected {
        connected_sockets(t);
    }
    if jail.terminal {
        set(t, TERMINAL, &Verdict::Allow);
    }
    if jail.unpacks {
        set(t, &[libc::SYS_fstatfs], &Verdict::Allow);
    }
    if jail.handed {
        set(t, &[libc::SYS_recvmsg], &Verdict::Allow);
    }
    if jail.hands {
        set(t, &[libc::SYS_sendmsg], &Verdict::Allow);
    }
    table
}

/// Beside the filters that are there.
pub fn keep_code() -> io::Result<()> {
    let mut table = Table::new();
    only(&mut table, libc::SYS_mprotect, vec![vec![is(2, CODE, 0)]]);
    install(&mut assemble(&table, &Verdict::Allow))
}

pub fn restrict(jail: &Jail, watchdog: Option<i32>) -> io::Result<()> {
    let table = match jail.exec {
        true => programs::table(jail),
        false => table(jail, watchdog),
    };
    install(&mut assemble(&table, &Verdict::Refuse(libc::ENOSYS)))
}
