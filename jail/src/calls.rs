//! The system calls that are left.

use crate::filter::{assemble, equals, install, is, Test, Verdict};
use crate::Jail;
use std::collections::BTreeMap;
use std::io;

type Table = BTreeMap<u32, Verdict>;

/// What serving and using a kernel takes, on descriptors that are open: all of it
/// is needed, and none of it reaches anything new.
const WORK: &[i64] = &[
    // Data.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_close,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    // By path too; they tell what there is, and open nothing.
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    // Memory that holds no code.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads and time.
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_timer_create,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
];

/// Where files may be opened at all.
const OPENING: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_getdents64,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_lgetxattr,
    libc::SYS_llistxattr,
    libc::SYS_umask,
    libc::SYS_chdir,
];

/// Where whole trees are written.
const TREES: &[i64] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_fsetxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fremovexattr,
    libc::SYS_syncfs,
];

const NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_uname,
];

const TERMINAL: &[i64] = &[
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// Programs and processes; allowed to those who start programs.
const PROGRAMS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_kill,
    libc::SYS_tkill,
];

/// What nothing here ever does, and what an attacker would: better an end than a
/// second try.
const ATTACKS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
];

const ENDS_OF_THE_NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Whether a call on a socket waits.
const WAITING: &[u32] = &[libc::FIONBIO as u32, libc::FIONREAD as u32];

// linux/fs.h, asm-generic/ioctls.h: terminals, sizes of disks, what lsattr shows.
const ASKING: &[u32] = &[
    0x5401,      // TCGETS
    0x802c_542a, // TCGETS2
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x8008_1272, // BLKGETSIZE64
    0x1268,      // BLKSSZGET
    0x127b,      // BLKPBSZGET
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0xc020_660b, // FS_IOC_FIEMAP
];
/// For passphrases, and to edit lines: TCSETS, TCSETSW, TCSETSF, and again with a 2.
const ECHO: &[u32] = &[
    0x5402,
    0x5403,
    0x5404,
    0x402c_542b,
    0x402c_542c,
    0x402c_542d,
];
/// What chattr(1) does.
const CHANGING: &[u32] = &[0x4008_6602, 0x401c_5820]; // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR

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
const ARCH_GET_GS: u32 = 0x1004;
const PR_SET_VMA: u32 = 0x5356_4d41;

fn set(table: &mut Table, calls: &[i64], verdict: &Verdict) {
    for nr in calls {
        table.insert(*nr as u32, verdict.clone());
    }
}

fn only(table: &mut Table, nr: i64, lists: Vec<Vec<Test>>) {
    table.insert(nr as u32, Verdict::If(lists, Some(libc::EPERM)));
}

fn one_of(table: &mut Table, nr: i64, argument: u32, values: &[u32]) {
    let verdict = Verdict::OneOf(argument, values.to_vec(), libc::EPERM);
    table.insert(nr as u32, verdict);
}

/// The list of this jail; the number of the timer that it must not touch.
fn table(jail: &Jail, watchdog: Option<i32>) -> Table {
    let mut table = Table::new();
    let t = &mut table;
    set(t, ATTACKS, &Verdict::Kill);
    set(t, PROGRAMS, &Verdict::Kill);
    set(t, ENDS_OF_THE_NETWORK, &Verdict::Kill);
    set(t, WORK, &Verdict::Allow);
    // The C library asks for threads this way first, and the flags are not to be
    // seen here. Then it asks by clone(2).
    t.insert(libc::SYS_clone3 as u32, Verdict::Refuse(libc::ENOSYS));
    let thread = vec![vec![is(0, THREAD | NO_THREAD, THREAD)]];
    t.insert(libc::SYS_clone as u32, Verdict::If(thread, None));

    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() } as u32;
    let ourselves = vec![vec![equals(0, me)]];
    let signal = Verdict::If(ourselves.clone(), None);
    t.insert(libc::SYS_tgkill as u32, signal);
    only(t, libc::SYS_process_vm_readv, ourselves);

    let no_code = vec![vec![is(2, libc::PROT_EXEC as u32, 0)]];
    if jail.boots {
        set(
            t,
            &[libc::SYS_mmap, libc::SYS_memfd_create],
            &Verdict::Allow,
        );
    } else {
        only(t, libc::SYS_mmap, no_code.clone());
    }
    only(t, libc::SYS_mprotect, no_code);

    let requests = [
        ASKING,
        ECHO,
        if jail.trees.is_empty() { &[] } else { CHANGING },
        if jail.network { WAITING } else { &[] },
    ];
    one_of(t, libc::SYS_ioctl, 1, &requests.concat());
    // Not F_SETOWN: it would have signals sent to others.
    let commands = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
    ];
    one_of(t, libc::SYS_fcntl, 1, &commands.map(|c| c as u32));
    let names = [libc::PR_SET_NAME as u32, PR_SET_VMA];
    one_of(t, libc::SYS_prctl, 0, &names);
    let gs = [ARCH_GET_GS, ARCH_SET_GS];
    one_of(t, libc::SYS_arch_prctl, 0, &gs);
    // Asking for limits, of oneself; and more open files, up to the hard limit.
    let files = libc::RLIMIT_NOFILE;
    let limits = vec![
        vec![equals(0, 0), equals(1, libc::RLIMIT_STACK), equals(2, 0)],
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
    if jail.boots {
        // A second jail may follow.
        let more = [
            libc::SYS_seccomp,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
            libc::SYS_setrlimit,
        ];
        set(t, &more, &Verdict::Allow);
        let names = [names[0], names[1], libc::PR_SET_NO_NEW_PRIVS as u32];
        one_of(t, libc::SYS_prctl, 0, &names);
        let core = vec![equals(0, 0), equals(1, libc::RLIMIT_CORE)];
        let Some(Verdict::If(lists, _)) = t.get_mut(&(libc::SYS_prlimit64 as u32)) else {
            unreachable!("just set");
        };
        lists.push(core);
    }
    if !jail.trees.is_empty() {
        set(t, TREES, &Verdict::Allow);
        // Of a file's own name: never through a symlink.
        let own = is(4, u32::MAX, libc::AT_SYMLINK_NOFOLLOW as u32);
        only(t, libc::SYS_fchownat, vec![vec![own]]);
    }
    if jail.network {
        set(t, NETWORK, &Verdict::Allow);
    }
    if jail.terminal {
        set(t, TERMINAL, &Verdict::Allow);
        // Whoever writes the history makes its directory, which is there, and takes no
        // other answer for that.
        t.insert(libc::SYS_mkdir as u32, Verdict::Refuse(libc::EEXIST));
    }
    if jail.handed {
        set(t, &[libc::SYS_recvmsg], &Verdict::Allow);
    }
    table
}

/// Those of a jail whose programs nobody knows: all but the attacks.
fn table_of_programs(jail: &Jail) -> Table {
    let mut table = Table::new();
    set(&mut table, ATTACKS, &Verdict::Kill);
    if !jail.network {
        set(&mut table, ENDS_OF_THE_NETWORK, &Verdict::Kill);
    }
    table
}

pub fn restrict(jail: &Jail, watchdog: Option<i32>) -> io::Result<()> {
    let (table, others) = match jail.exec {
        true => (table_of_programs(jail), Verdict::Allow),
        false => (table(jail, watchdog), Verdict::Refuse(libc::ENOSYS)),
    };
    install(&mut assemble(&table, &others))
}
