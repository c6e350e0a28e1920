//! The system calls of programs of the host. Nobody knows which of them they need: all
//! are left but those that reach beyond the files and the process that they are given.

use crate::calls::{advice, clone_of_threads, memory, one_of, only, set, Table, ARCH_SET_FS, CODE};
use crate::filter::{equals, is, null, Test, Verdict};
use crate::lists::{ATTACKS, ENDS_OF_THE_NETWORK};
use crate::Jail;

// linux/fs.h, asm-generic/ioctls.h, linux/hdreg.h and others: what programs ask of files,
// disks and standard output. Nothing that terminals, keyboards and consoles obey.
const REQUESTS: &[u32] = &[
    0x5401,      // TCGETS
    0x802c_542a, // TCGETS2
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x125e,      // BLKROGET
    0x1260,      // BLKGETSIZE
    0x1261,      // BLKFLSBUF
    0x1263,      // BLKRAGET
    0x1267,      // BLKSECTGET
    0x1268,      // BLKSSZGET
    0x8008_1270, // BLKBSZGET
    0x4008_1271, // BLKBSZSET
    0x8008_1272, // BLKGETSIZE64
    0x1277,      // BLKDISCARD
    0x1278,      // BLKIOMIN
    0x1279,      // BLKIOOPT
    0x127a,      // BLKALIGNOFF
    0x127b,      // BLKPBSZGET
    0x127c,      // BLKDISCARDZEROES
    0x127d,      // BLKSECDISCARD
    0x127e,      // BLKROTATIONAL
    0x127f,      // BLKZEROOUT
    0xc010_1282, // BLKREPORTZONE
    0x8004_1284, // BLKGETZONESZ
    0x8004_1285, // BLKGETNRZONES
    0x0301,      // HDIO_GETGEO
    0x8008_6601, // FS_IOC_GETFLAGS
    0xc020_660b, // FS_IOC_FIEMAP
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x800c_581e, // XFS_IOC_DIOINFO
    0x8070_5864, // XFS_IOC_FSGEOMETRY_V1
    0x8100_587e, // XFS_IOC_FSGEOMETRY
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
];

// linux/fcntl.h
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_SETLEASE: i32 = 1024;
// What libc has no names for.
const FCHMODAT2: i64 = 452;
const MAP_SHADOW_STACK: i64 = 453;
const MSEAL: i64 = 462;
const IO_PGETEVENTS: i64 = 333;
const FIRST_NEW: i64 = 424;
const LAST_OLD: i64 = 334;
/// _sysctl and other numbers below, behind which Linux has nothing any more.
const EMPTY: &[i64] = &[
    156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 205, 211, 212, 214, 215, 236,
];

/// What they fail without, as on a host that does not have it: memory that outlives
/// processes and that no limit counts.
const SHARED_MEMORY: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmdt,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_semtimedop,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
    libc::SYS_memfd_secret,
    libc::SYS_remap_file_pages,
    libc::SYS_uselib,
    libc::SYS_sysfs,
    libc::SYS_ustat,
    // Asynchronous reads and writes, which programs do otherwise where they are not.
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    IO_PGETEVENTS,
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
];

/// What files have beside their content: Landlock does not know it, and these change it
/// wherever the user may, by a descriptor that is open for reading too, as of a program.
const METADATA: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
    libc::SYS_fremovexattr,
];

/// Other processes, sessions, and the host as a whole.
const OTHERS: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_vm_readv,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_mknod,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_quotactl_fd,
    libc::SYS_process_mrelease,
    libc::SYS_get_robust_list,
    libc::SYS_pkey_mprotect,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    // Landlock knows it since Linux 6.2 only; ftruncate() serves.
    libc::SYS_truncate,
    // Whose turn it is, at processors, disks and memory.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Other users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // Processors' oddities, and pages that wander between processes.
    libc::SYS_modify_ldt,
    libc::SYS_vmsplice,
    MAP_SHADOW_STACK,
];

fn not(test: Test) -> Test {
    Test { not: true, ..test }
}

/// All that Linux 6.12 has but the attacks. Of what it does not have nobody here knows
/// what it would do.
pub fn table(jail: &Jail) -> Table {
    let mut table = Table::new();
    let t = &mut table;
    let known = (0..=LAST_OLD).chain(FIRST_NEW..=MSEAL);
    let known: Vec<_> = known.filter(|nr| !EMPTY.contains(nr)).collect();
    set(t, &known, &Verdict::Allow);
    set(t, ATTACKS, &Verdict::Kill);
    set(t, ENDS_OF_THE_NETWORK, &Verdict::Kill);
    set(t, SHARED_MEMORY, &Verdict::Refuse(libc::ENOSYS));
    set(t, OTHERS, &Verdict::Refuse(libc::EPERM));
    set(t, METADATA, &Verdict::Refuse(libc::EPERM));
    if jail.no_holes {
        set(
            t,
            &[libc::SYS_fallocate],
            &Verdict::Refuse(libc::EOPNOTSUPP),
        );
    }
    advice(t);
    // It has its threads, and is the only process: so it ends when it is ended, and has
    // no more memory than one.
    clone_of_threads(t, Some(libc::EPERM));
    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() } as u32;
    only(t, libc::SYS_kill, vec![vec![equals(0, me)]]);
    only(t, libc::SYS_tgkill, vec![vec![equals(0, me)]]);
    // Nor are there signals by way of a file's owner, leases that others wait for, and no
    // limits of others.
    let owners = [
        libc::F_SETOWN,
        F_SETSIG,
        F_SETOWN_EX,
        libc::F_NOTIFY,
        F_SETLEASE,
    ];
    let owners = owners.map(|command| not(equals(1, command as u32)));
    only(t, libc::SYS_fcntl, vec![owners.to_vec()]);
    // Its own limits, which never rise; but none at all has dumps go to a pipe (limits.rs).
    let dumps = |argument| not(equals(argument, libc::RLIMIT_CORE));
    let asks = |process| [&[equals(0, process)][..], &null(2)].concat();
    let lowers = |process| vec![equals(0, process), dumps(1)];
    let itself = vec![lowers(0), asks(0), lowers(me), asks(me)];
    only(t, libc::SYS_prlimit64, itself);
    only(t, libc::SYS_setrlimit, vec![vec![dumps(0)]]);
    // Not PR_SET_PDEATHSIG: it would outlive who started it.
    let names = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_GET_DUMPABLE,
        libc::PR_SET_NO_NEW_PRIVS,
        libc::PR_GET_NO_NEW_PRIVS,
        libc::PR_SET_VMA,
    ];
    one_of(t, libc::SYS_prctl, 0, &names.map(|name| name as u32));
    only(t, libc::SYS_sched_setaffinity, vec![vec![equals(0, 0)]]);
    only(t, libc::SYS_arch_prctl, vec![vec![equals(0, ARCH_SET_FS)]]);
    only(t, libc::SYS_personality, vec![vec![equals(0, u32::MAX)]]);
    only(
        t,
        libc::SYS_mknodat,
        vec![vec![is(2, libc::S_IFMT, libc::S_IFREG)]],
    );
    let files = (libc::MAP_ANONYMOUS | libc::MAP_SHARED) as u32;
    let code = vec![
        // A library's: of a file, and never to be written.
        is(2, libc::PROT_WRITE as u32, 0),
        is(3, files, 0),
    ];
    only(t, libc::SYS_mmap, memory(vec![vec![is(2, CODE, 0)], code]));
    only(t, libc::SYS_mprotect, vec![vec![is(2, CODE, 0)]]);
    if !jail.memory_files {
        t.insert(libc::SYS_memfd_create as u32, Verdict::Refuse(libc::ENOSYS));
    }
    let verdict = Verdict::OneOf(1, REQUESTS.to_vec(), libc::ENOTTY);
    t.insert(libc::SYS_ioctl as u32, verdict);
    table
}
