//! Names of flags, errors and signals, as their manual pages have them.

/// Which names an argument's bits or value have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    OpenFlags,
    /// Permissions, in octal.
    Mode,
    Prot,
    MapFlags,
    Whence,
    AccessMode,
    AtFlags,
    CloneFlags,
    WaitFlags,
    Clock,
    Fcntl,
    FutexOp,
    Family,
    SockType,
    MaskHow,
    Signal,
}

type Table = &'static [(u64, &'static str)];

macro_rules! table {
    ($($name:ident)*) => { &[$((libc::$name as u64, stringify!($name))),*] };
}

const PROT: Table = table!(PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN);
const MAP: Table = table!(
    MAP_SHARED_VALIDATE MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_LOCKED
    MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB MAP_FIXED_NOREPLACE
);
const OPEN: Table = table!(
    O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_SYNC O_DSYNC O_DIRECT O_TMPFILE
    O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH
);
const WHENCE: Table = table!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE);
const ACCESS: Table = table!(R_OK W_OK X_OK);
const AT: Table = table!(AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_EMPTY_PATH AT_NO_AUTOMOUNT);
const CLONE: Table = table!(
    CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PTRACE CLONE_VFORK CLONE_PARENT CLONE_THREAD
    CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID
    CLONE_CHILD_SETTID CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID
    CLONE_NEWNET CLONE_IO
);
const WAIT: Table = table!(WNOHANG WUNTRACED WEXITED WCONTINUED WNOWAIT __WALL __WCLONE);
const CLOCK: Table = table!(
    CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
    CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_TAI
);
const FCNTL: Table = table!(
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
    F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_OFD_GETLK F_OFD_SETLK
    F_OFD_SETLKW
);
const FUTEX: Table = table!(
    FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI
    FUTEX_UNLOCK_PI FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_WAIT_REQUEUE_PI
    FUTEX_CMP_REQUEUE_PI
);
const FAMILY: Table = table!(AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET);
const SOCKET: Table = table!(SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET);
const MASK: Table = table!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK);
const SIGNALS: Table = table!(
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2
    SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG
    SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS
);
const ERRORS: Table = table!(
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
    ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG
    ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
    ENOMSG EIDRM ENODATA ETIME EPROTO EBADMSG EOVERFLOW EILSEQ EUSERS ENOTSOCK EDESTADDRREQ
    EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT
    EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET
    ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY
    EINPROGRESS ESTALE EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED
    EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE
);

impl Names {
    /// As `signatures.txt` has it.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "openflags" => Self::OpenFlags,
            "mode" => Self::Mode,
            "prot" => Self::Prot,
            "mapflags" => Self::MapFlags,
            "whence" => Self::Whence,
            "accessmode" => Self::AccessMode,
            "atflags" => Self::AtFlags,
            "cloneflags" => Self::CloneFlags,
            "waitflags" => Self::WaitFlags,
            "clock" => Self::Clock,
            "fcntl" => Self::Fcntl,
            "futexop" => Self::FutexOp,
            "family" => Self::Family,
            "socktype" => Self::SockType,
            "maskhow" => Self::MaskHow,
            "signal" => Self::Signal,
            _ => return None,
        })
    }

    pub fn show(self, value: u64) -> String {
        let low = u64::from(value as u32);
        match self {
            Self::OpenFlags => open_flags(low),
            Self::Mode => format!("{low:#05o}"),
            Self::Prot => flags(PROT, low, "PROT_NONE"),
            Self::MapFlags => flags(MAP, low, "0"),
            Self::Whence => named(WHENCE, low),
            Self::AccessMode => flags(ACCESS, low, "F_OK"),
            Self::AtFlags => flags(AT, low, "0"),
            Self::CloneFlags => clone_flags(value),
            Self::WaitFlags => flags(WAIT, low, "0"),
            Self::Clock => named(CLOCK, low),
            Self::Fcntl => named(FCNTL, low),
            Self::FutexOp => futex(low),
            Self::Family => named(FAMILY, low),
            Self::SockType => socket_type(low),
            Self::MaskHow => named(MASK, low),
            Self::Signal => signal(low),
        }
    }
}

fn named(table: Table, value: u64) -> String {
    let found = table.iter().find(|(known, _)| *known == value);
    found.map_or_else(|| value.to_string(), |(_, name)| (*name).to_owned())
}

/// Whose bits are all there, from the first on; what is left in hexadecimal.
fn flags(table: Table, value: u64, none: &str) -> String {
    let mut rest = value;
    let mut words: Vec<String> = Vec::new();
    for (bits, name) in table {
        if *bits != 0 && rest & bits == *bits {
            words.push((*name).to_owned());
            rest &= !bits;
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    match words.is_empty() {
        true => none.to_owned(),
        false => words.join("|"),
    }
}

fn open_flags(value: u64) -> String {
    let mode = match value & libc::O_ACCMODE as u64 {
        0 => "O_RDONLY",
        1 => "O_WRONLY",
        2 => "O_RDWR",
        _ => "O_ACCMODE",
    };
    // What the kernel adds for itself.
    const LARGE: u64 = 0o100_000;
    match flags(OPEN, value & !(libc::O_ACCMODE as u64) & !LARGE, "").as_str() {
        "" => mode.to_owned(),
        more => format!("{mode}|{more}"),
    }
}

fn clone_flags(value: u64) -> String {
    let signal_bits = value & 0xff;
    let rest = flags(CLONE, value & !0xff, "");
    match (rest.as_str(), signal_bits) {
        ("", _) => signal(signal_bits),
        (_, 0) => rest,
        _ => format!("{rest}|{}", signal(signal_bits)),
    }
}

fn futex(value: u64) -> String {
    const COMMAND: u64 = 0x7f;
    let mut text = named(FUTEX, value & COMMAND);
    if value & libc::FUTEX_PRIVATE_FLAG as u64 != 0 {
        text += "|FUTEX_PRIVATE_FLAG";
    }
    if value & libc::FUTEX_CLOCK_REALTIME as u64 != 0 {
        text += "|FUTEX_CLOCK_REALTIME";
    }
    text
}

fn socket_type(value: u64) -> String {
    let mut text = named(SOCKET, value & 0xf);
    if value & libc::SOCK_NONBLOCK as u64 != 0 {
        text += "|SOCK_NONBLOCK";
    }
    if value & libc::SOCK_CLOEXEC as u64 != 0 {
        text += "|SOCK_CLOEXEC";
    }
    text
}

/// A signal's name: those from 32 on have numbers.
pub fn signal(value: u64) -> String {
    match value {
        32..=64 => format!("SIGRT_{}", value - 32),
        _ => named(SIGNALS, value),
    }
}

/// An error's name.
pub fn error(errno: i32) -> String {
    let value = u64::from(errno.unsigned_abs());
    match value {
        512 => "ERESTARTSYS".into(),
        513 => "ERESTARTNOINTR".into(),
        514 => "ERESTARTNOHAND".into(),
        516 => "ERESTART_RESTARTBLOCK".into(),
        _ => named(ERRORS, value),
    }
}

/// What it means.
pub fn said(errno: i32) -> String {
    tane_linux::Errno(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_named_and_what_has_no_name_is_shown() {
        assert_eq!(
            Names::OpenFlags.show(0o2_000_101),
            "O_WRONLY|O_CREAT|O_CLOEXEC"
        );
        assert_eq!(Names::OpenFlags.show(0), "O_RDONLY");
        assert_eq!(
            Names::MapFlags.show(0x4000_0022),
            "MAP_PRIVATE|MAP_ANONYMOUS|0x40000000"
        );
        assert_eq!(Names::Prot.show(0), "PROT_NONE");
        assert_eq!(Names::Signal.show(11), "SIGSEGV");
        assert_eq!(
            Names::CloneFlags.show(0x120_0011),
            "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD"
        );
        assert_eq!(error(2), "ENOENT");
        assert_eq!(error(999), "999");
    }
}
