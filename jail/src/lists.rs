//! Lists of system calls, and of requests to ioctl(2), by what they are for.

/// What serving and using a kernel takes, on descriptors that are open: all of it
/// is needed, and none of it reaches anything new.
pub const WORK: &[i64] = &[
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
pub const OPENING: &[i64] = &[
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

/// Where whole trees are written: names, which Landlock knows.
pub const TREES: &[i64] = &[
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_rename,
    libc::SYS_renameat2,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_syncfs,
];

/// What files have beside their content, which Landlock does not know: these change it
/// wherever the user may.
pub const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_fsetxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fremovexattr,
];

/// Of a client: nobody calls here.
pub const NETWORK: &[i64] = &[
    libc::SYS_connect,
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

pub const TERMINAL: &[i64] = &[
    // Where what is named is looked for.
    libc::SYS_chdir,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// Programs and processes; allowed to those who start programs.
pub const PROGRAMS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_kill,
    libc::SYS_tkill,
];

/// What nothing here ever does, and what an attacker would: better an end than a
/// second try.
pub const ATTACKS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
];

pub const ENDS_OF_THE_NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Whether a call on a socket waits.
pub const WAITING: &[u32] = &[libc::FIONBIO as u32, libc::FIONREAD as u32];

// linux/fs.h, asm-generic/ioctls.h: terminals, sizes of disks, what lsattr shows.
pub const ASKING: &[u32] = &[
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
pub const ECHO: &[u32] = &[
    0x5402,
    0x5403,
    0x5404,
    0x402c_542b,
    0x402c_542c,
    0x402c_542d,
];
/// What chattr(1) does.
pub const CHANGING: &[u32] = &[0x4008_6602, 0x401c_5820]; // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR

/// linux/userfaultfd.h: a kernel is about to watch what is written to its own memory.
pub const WATCHING: &[u32] = &[UFFDIO_API, UFFDIO_REGISTER];
/// linux/fs.h: which of its own pages a process has written.
pub const WRITTEN: &[u32] = &[PAGEMAP_SCAN];

const UFFDIO_API: u32 = 0xc018_aa3f;
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
const PAGEMAP_SCAN: u32 = 0xc060_6610;
