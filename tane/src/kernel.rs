//! A running kernel.

use crate::builder::Builder;
use crate::companion::Companion;
use crate::error::{Context, Error, Result};
use crate::machine::{Local, Machine, Remote};
use crate::missing::Guard;
use crate::path::with_cstr;
use crate::tree::Tree;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tane_host::{Interception, ProgramCounts, ProgramTracer};
use tane_linux::Linux;

/// The most descriptors a Linux process may have: /proc/sys/fs/nr_open.
const NR_OPEN: u64 = 1 << 20;

/// A Linux kernel that answers this process's calls.
///
/// Cheap to clone; may be used from any thread at once. Whatever it gives out
/// (disks, mounts, files) keeps it alive; when the last of them is dropped the
/// kernel is halted and its memory given back. Nothing is written to an image
/// behind the program's back afterwards, and what was not synced by then is
/// lost: call [`Mount::unmount`](crate::Mount::unmount) or one of the `sync`s.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<Inner>,
}

/// Handles of one kernel are equal.
impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

struct Inner {
    machine: Machine,
    /// Below it, mounts get their directories.
    mount_base: PathBuf,
    next_mount: AtomicU64,
    /// So that a mount can hold on to the disk it is on.
    disks: Mutex<Vec<Companion>>,
    /// Of those who wait for descriptors with the host's calls.
    watcher: Mutex<Companion>,
    /// Behind the machine, so that it goes after it.
    _faults: Option<Guard>,
}

impl Kernel {
    /// Boot the default kernel image with default settings: see [`Builder`].
    pub fn boot() -> Result<Kernel> {
        Builder::new().boot()
    }

    /// Choose an image, memory and so on before booting.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The Linux that runs this process, behind the same interface. It is there
    /// for comparing, and for programs that want one code path for an image and
    /// for the host's own files. Mounting and device nodes take the privileges
    /// they always take; disks cannot be added.
    pub fn host() -> Kernel {
        let base = format!("tane-{}", std::process::id());
        Self::with_machine(Machine::Host, std::env::temp_dir().join(base), None)
    }

    /// One in another process, behind the same interface, as far as its calls cross. Its
    /// answers are taken for what they are, whatever that process is: no pointer is
    /// followed that comes with them. The crate `tane-jailed` has such kernels.
    pub fn remote(linux: Arc<dyn Remote>) -> Kernel {
        Self::with_machine(Machine::Remote(linux), PathBuf::from("/mnt"), None)
    }

    /// A kernel that was just booted: give it the file systems that everything
    /// else here relies on, take its umask away so that modes are exact, and let
    /// it have as many files open as Linux allows.
    pub(crate) fn start(machine: tane_host::Kernel, faults: Guard) -> Result<Kernel> {
        let machine = Machine::Tane(Local::new(machine));
        let kernel = Self::with_machine(machine, PathBuf::from("/mnt"), Some(faults));
        kernel.sys().umask(0);
        kernel
            .sys()
            .limit_open_files(NR_OPEN)
            .map_err(|errno| errno.during("raise the limit of open files"))?;
        for (kind, at) in [
            (c"proc", c"/proc"),
            (c"sysfs", c"/sys"),
            (c"devtmpfs", c"/dev"),
        ] {
            match kernel.sys().mkdir(libc::AT_FDCWD, at, 0o755) {
                Ok(()) => {}
                Err(errno) if errno.0 == libc::EEXIST => {}
                Err(errno) => return Err(kernel.failed_start(errno.0, at.to_str())),
            }
            match kernel.sys().mount_plain(kind, at) {
                // The kernel itself may have mounted it.
                Ok(()) => {}
                Err(errno) if errno.0 == libc::EBUSY => {}
                Err(errno) => return Err(kernel.failed_start(errno.0, at.to_str())),
            }
        }
        Ok(kernel)
    }

    fn failed_start(
        &self,
        errno: i32,
        what: std::result::Result<&str, std::str::Utf8Error>,
    ) -> Error {
        Error::new(errno, "mount").with_path(Path::new(what.unwrap_or_default()))
    }

    fn with_machine(machine: Machine, mount_base: PathBuf, faults: Option<Guard>) -> Kernel {
        Kernel {
            inner: Arc::new(Inner {
                machine,
                mount_base,
                next_mount: AtomicU64::new(0),
                disks: Mutex::default(),
                watcher: Mutex::default(),
                _faults: faults,
            }),
        }
    }

    #[inline]
    pub(crate) fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    pub(crate) fn watcher(&self) -> &Mutex<Companion> {
        &self.inner.watcher
    }

    pub(crate) fn disks(&self) -> &Mutex<Vec<Companion>> {
        &self.inner.disks
    }

    /// Whether both handles are of one kernel.
    pub(crate) fn is_same(&self, other: &Kernel) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A directory name that no mount of this kernel has had.
    pub(crate) fn new_mount_point(&self) -> PathBuf {
        let n = self.inner.next_mount.fetch_add(1, Ordering::Relaxed);
        self.inner.mount_base.join(n.to_string())
    }

    /// Any Linux system call: x86-64 numbers and structures, pointers of this
    /// process. Returns what Linux returns, -errno for an error, and -ESHUTDOWN
    /// once the kernel was halted or has died. Blocks this thread when Linux
    /// blocks. Descriptors in it are the kernel's, not this process's. exit(2) ends the
    /// kernel's task of this thread, whose later calls are answered with -ESRCH.
    ///
    /// # Safety
    /// The call may read and write whatever its arguments point to, as its man
    /// page in section 2 says. Pointers to nowhere are answered with -EFAULT.
    #[inline]
    pub unsafe fn syscall(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: as the caller promises.
        unsafe { self.inner.machine.call(nr, args) }
    }

    /// [`Kernel::syscall`] with a negative result as an [`io::Error`], whose
    /// `raw_os_error` is the errno.
    ///
    /// # Safety
    /// As for [`Kernel::syscall`].
    #[inline]
    pub unsafe fn try_syscall(&self, nr: i64, args: [u64; 6]) -> io::Result<i64> {
        // SAFETY: as the caller promises.
        match unsafe { self.syscall(nr, args) } {
            errno @ -4095..=-1 => Err(io::Error::from_raw_os_error(-errno as i32)),
            result => Ok(result),
        }
    }

    /// Make a process for a program, on a thread of its own: `prepare` runs on it, as
    /// the new process, and ends with execve(2), whose result it returns. The thread runs
    /// the program then. Returns the process's id, a child of process 1, and what
    /// `prepare` returned.
    ///
    /// # Errors
    /// `ENOTSUP` of kernels without [`Builder::programs`], of other images and hosts that
    /// cannot.
    pub fn spawn(
        &self,
        prepare: impl FnOnce(&Kernel) -> i64 + Send + 'static,
    ) -> Result<(i32, i64)> {
        use tane_host::SpawnError::*;
        let Machine::Tane(machine) = &self.inner.machine else {
            return Err(Error::new(libc::ENOTSUP, "spawn"));
        };
        let kernel = self.clone();
        machine.spawn(move |_| prepare(&kernel)).map_err(|error| {
            let errno = match &error {
                Refused(errno) => *errno,
                Io(error) => error.raw_os_error().unwrap_or(libc::EAGAIN),
                NoRoom | Host(_) | Image => libc::ENOTSUP,
            };
            Error::from_source(errno, "spawn", error)
        })
    }

    /// Have this make jumps to the kernel's gate of the system calls of this kernel's
    /// programs, which are signals of the host's without: once, the first stays.
    pub fn intercept(&self, with: Arc<dyn Interception>) {
        if let Machine::Tane(kernel) = &self.inner.machine {
            kernel.intercept(with);
        }
    }

    /// The machine that it runs on, if that is in this process: for code that is beside the
    /// kernel without being a program of it (the crate `tane-checked-run`).
    pub fn in_process(&self) -> Option<&tane_host::Kernel> {
        match &self.inner.machine {
            Machine::Tane(machine) => Some(machine),
            Machine::Host | Machine::Remote(_) => None,
        }
    }

    /// From now on count the system calls of programs ([`Self::spawn`]), and their time.
    pub fn count_programs(&self) {
        if let Machine::Tane(kernel) = &self.inner.machine {
            kernel.count_programs();
        }
    }

    /// Show this the system calls of programs, from now on; the first one stays.
    pub fn trace_programs(&self, tracer: Arc<dyn ProgramTracer>) {
        if let Machine::Tane(kernel) = &self.inner.machine {
            kernel.trace_programs(tracer);
        }
    }

    /// What programs of this kernel have asked for; calls are those since
    /// [`Self::count_programs`].
    pub fn program_counts(&self) -> ProgramCounts {
        match &self.inner.machine {
            Machine::Tane(kernel) => kernel.program_counts(),
            Machine::Host | Machine::Remote(_) => ProgramCounts::default(),
        }
    }

    /// The kernel's log so far; its newest megabyte. Empty for [`Kernel::host`].
    pub fn dmesg(&self) -> String {
        match &self.inner.machine {
            Machine::Tane(kernel) => kernel.dmesg(),
            Machine::Host => String::new(),
            Machine::Remote(there) => there.dmesg(),
        }
    }

    /// Whether calls still have an effect.
    pub fn is_alive(&self) -> bool {
        match &self.inner.machine {
            Machine::Tane(kernel) => kernel.is_alive(),
            Machine::Host => true,
            Machine::Remote(there) => there.is_alive(),
        }
    }

    /// Why the kernel ended: after a panic or fault, the text of its oops.
    pub fn last_words(&self) -> String {
        match &self.inner.machine {
            Machine::Tane(kernel) => kernel.last_words(),
            Machine::Host => String::from("the kernel is alive"),
            Machine::Remote(there) => there.last_words(),
        }
    }

    /// End it now, without a sync, as a power cut would. Calls under way and
    /// later ones are answered with ESHUTDOWN.
    pub fn halt(&self) {
        match &self.inner.machine {
            Machine::Tane(kernel) => kernel.halt(),
            Machine::Remote(there) => there.halt(),
            Machine::Host => {}
        }
    }

    /// The Linux process of the child that this thread's last fork(2) made, for wait4(2):
    /// see [`Builder::shared`].
    ///
    /// Errors: EAGAIN the kernel had no room for it; ENOTSUP it is not shared, or this
    /// thread never forked.
    pub fn forked(&self) -> Result<i32> {
        let Machine::Tane(kernel) = &self.inner.machine else {
            return Err(Error::new(libc::ENOTSUP, "fork"));
        };
        kernel
            .forked()
            .map_err(|error| Error::new(error.raw_os_error().unwrap_or(libc::EIO), "fork"))
    }

    /// The files below any directory inside the kernel, such as "/", "/proc" or
    /// "/sys". No link and no ".." leads out of it.
    pub fn tree(&self, path: impl AsRef<Path>) -> Result<Tree> {
        let path = path.as_ref();
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let open = |path: &std::ffi::CStr| self.openat(libc::AT_FDCWD, path, flags, 0);
        with_cstr(path.as_os_str().as_bytes(), open)
            .map(Tree::new)
            .map_err(|errno| errno.on("open", path))
    }

    /// The names of the file systems this kernel knows, in its own order: the
    /// lines of /proc/filesystems. `needs_device` chooses those on disks, or
    /// those without.
    pub fn filesystems(&self, needs_device: bool) -> Result<Vec<String>> {
        let list = self.tree("/proc")?.read_to_string("filesystems")?;
        let names = list.lines().filter_map(|line| line.split_once('\t'));
        Ok(names
            .filter(|(nodev, _)| (*nodev == "nodev") != needs_device)
            .map(|(_, name)| name.to_owned())
            .collect())
    }
}

/// Its calls with types: see [`tane_linux::Sys`]. Descriptors are the kernel's.
impl Linux for Kernel {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: as the caller promises.
        unsafe { self.inner.machine.call(nr, args) }
    }

    fn is_ours(&self) -> bool {
        self.inner.machine.is_ours()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if matches!(self.machine, Machine::Host) {
            // It is there if something was mounted.
            let _ = std::fs::remove_dir(&self.mount_base);
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.machine {
            Machine::Tane(kernel) => write!(f, "Kernel({:#x})", kernel.layout().base),
            Machine::Host => f.write_str("Kernel(host)"),
            Machine::Remote(_) => f.write_str("Kernel(of another process)"),
        }
    }
}
