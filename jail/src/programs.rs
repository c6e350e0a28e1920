//! The system calls of programs of the host. Nobody knows which of them they need: all
//! are left but those that reach beyond the files and the process that they are given.

use crate::calls::{clone_of_threads, memory, only, set, Table, CODE};
use crate::filter::{equals, is, Test, Verdict};
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

/// What they fail without, as on a host that does not have it: memory that outlives
/// processes and that no limit counts.
const SHARED_MEMORY: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_memfd_secret,
    libc::SYS_remap_file_pages,
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
    libc::SYS_pkey_mprotect,
];

fn not(test: Test) -> Test {
    Test { not: true, ..test }
}

/// All but the attacks.
pub fn table(jail: &Jail) -> Table {
    let mut table = Table::new();
    let t = &mut table;
    set(t, ATTACKS, &Verdict::Kill);
    set(t, ENDS_OF_THE_NETWORK, &Verdict::Kill);
    set(t, SHARED_MEMORY, &Verdict::Refuse(libc::ENOSYS));
    set(t, OTHERS, &Verdict::Refuse(libc::EPERM));
    // It has its threads, and is the only process: so it ends when it is ended, and has
    // no more memory than one.
    clone_of_threads(t, Some(libc::EPERM));
    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() } as u32;
    only(t, libc::SYS_kill, vec![vec![equals(0, me)]]);
    only(t, libc::SYS_tgkill, vec![vec![equals(0, me)]]);
    // Nor are there signals by way of a file's owner, and no limits of others.
    let owners = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
    let owners = owners.map(|command| not(equals(1, command as u32)));
    only(t, libc::SYS_fcntl, vec![owners.to_vec()]);
    let itself = vec![vec![equals(0, 0)], vec![equals(0, me)]];
    only(t, libc::SYS_prlimit64, itself);
    // Else it would outlive who started it.
    let death = not(equals(0, libc::PR_SET_PDEATHSIG as u32));
    let dumps = not(equals(0, libc::PR_SET_DUMPABLE as u32));
    only(t, libc::SYS_prctl, vec![vec![death, dumps]]);
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
