//! Confines this process, and with it a kernel that runs inside.
//!
//! Whoever crafts an image may know a bug of the file system that reads it, and so
//! run code of his own in this process. A [`Jail`] is what that code finds itself
//! in: it can use what is open already, and reach nothing else of the host.
//!
//! ```no_run
//! use tane_jail::Jail;
//!
//! // First thing in the process: files, and what booting takes.
//! Jail::new().read("disk.img").read("kernel.elf").boots(true).enter()?;
//! // … open the image, boot the kernel …
//! // Before the kernel sees a byte of the image: nothing but the work itself.
//! Jail::new().enter()?;
//! # Ok::<(), tane_jail::Error>(())
//! ```
//!
//! Layers, each of which holds if another should not:
//!
//! ```text
//! calls.rs      which system calls there are, and which mean an attack (seccomp)
//!   programs.rs   the same for programs of the host
//!   net.rs        the same for a program whose calls a runtime takes
//!   lists.rs      their names
//! files.rs      which files and directories can be opened (Landlock)
//! limits.rs     memory, time, core dumps
//! privileges.rs what root could do beside
//! namespaces.rs networks and shared memory of its own, for programs of the host
//! leash.rs      a child that ends with who started it, jailed or not
//!   hidden.rs     what no other child may have open
//! ```
//!
//! Nothing here can be undone, and all of it is inherited by what is started
//! later. A second [`Jail::enter`] takes away more; it never gives back.
//!
//! Imports of ours: none.

mod calls;
mod files;
mod filter;
mod hidden;
mod leash;
mod limits;
mod lists;
mod namespaces;
mod net;
mod privileges;
mod programs;

use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use files::{spawn_fenced, Files};
pub use hidden::Hidden;
pub use leash::{fork_tied, leash, Leash, Tied};
pub use limits::no_dump;
pub use namespaces::set_apart;
pub use net::Net;

/// What the process still needs. The default is the least: to compute, and to
/// read and write what is open.
#[derive(Clone, Debug, Default)]
pub struct Jail {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    create: Vec<PathBuf>,
    trees: Vec<PathBuf>,
    boots: bool,
    /// Of these alone, if any are named.
    code: Option<Vec<RawFd>>,
    changes_code: bool,
    checkpoints: bool,
    network: bool,
    exec: bool,
    handed: bool,
    hands: bool,
    terminal: bool,
    unpacks: bool,
    connected: bool,
    accepts: bool,
    attributes: bool,
    metadata: bool,
    devices: bool,
    memory_files: bool,
    no_holes: bool,
    programs: bool,
    memory: Option<u64>,
    time: Option<Duration>,
}

/// What could not be set up. The process may be confined in part.
#[derive(Debug)]
pub enum Error {
    /// A file or directory of the rules.
    Path(PathBuf, io::Error),
    /// Landlock works per thread, and there are others already.
    Threads(usize),
    /// Landlock refused; why.
    Landlock(String),
    /// The filter of system calls was refused.
    Seccomp(io::Error),
    /// This resource could not be limited.
    Limit(&'static str, io::Error),
    /// Privileges could not be dropped.
    Capabilities(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path, e) => write!(f, "{}: {e}", path.display()),
            Self::Threads(n) => write!(
                f,
                "{n} threads run that would stay outside: enter the jail before they start"
            ),
            Self::Landlock(e) => write!(f, "Landlock: {e}"),
            Self::Seccomp(e) => write!(f, "seccomp: {e}"),
            Self::Capabilities(e) => write!(f, "capabilities: {e}"),
            Self::Limit(what, e) => write!(f, "the limit on {what}: {e}"),
        }
    }
}

impl std::error::Error for Error {}

/// What holds after [`Jail::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// What holds of files.
    pub files: Files,
}

/// From now on no memory becomes code, in any thread: what [`Jail::changes_code`] let in.
pub fn keep_code() -> Result<(), Error> {
    calls::keep_code().map_err(Error::Seccomp)
}

impl Jail {
    /// Nothing but computing, and reading and writing what is open.
    pub fn new() -> Self {
        Self::default()
    }

    /// This file, or everything beneath this directory, may be read.
    pub fn read(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.read.push(path.into());
        self
    }

    /// This file may be read and written, or all files beneath this directory,
    /// but none made or removed.
    pub fn write(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.write.push(path.into());
        self
    }

    /// As [`Self::write`], and files may be made beneath this directory.
    pub fn create_beneath(&mut self, dir: impl Into<PathBuf>) -> &mut Self {
        self.create.push(dir.into());
        self
    }

    /// Everything beneath this directory may be made, written, changed, renamed and
    /// removed, and its directories listed; its files cannot be read.
    pub fn write_beneath(&mut self, dir: impl Into<PathBuf>) -> &mut Self {
        self.trees.push(dir.into());
        self
    }

    /// Kernels are still to be booted: code of any file may be mapped that may be read,
    /// memory files made. [`Self::boots_from`] allows less.
    pub fn boots(&mut self, yes: bool) -> &mut Self {
        self.boots = yes;
        self.code = None;
        self
    }

    /// Kernels are still to be booted, with what was taken for that: code is mapped of
    /// these descriptors alone, which cannot be closed or replaced from now on, and no
    /// memory files are made. Nobody else may be able to write those files.
    pub fn boots_from(&mut self, images: &[RawFd]) -> &mut Self {
        self.boots = true;
        self.code = Some(images.to_vec());
        self
    }

    /// A kernel that is booted changes its code (the image `lab`), until [`keep_code`]:
    /// memory may become code. For what nobody else has a say in: before anything is read
    /// that is not this process's own.
    pub fn changes_code(&mut self, yes: bool) -> &mut Self {
        self.changes_code = yes;
        self
    }

    /// Kernels go back to checkpoints: which of its own pages this process has written may
    /// be asked for, and, while kernels are [booted](Self::boots), that the host takes note
    /// of it (userfaultfd(2)).
    pub fn checkpoints(&mut self, yes: bool) -> &mut Self {
        self.checkpoints = yes;
        self
    }

    /// Sockets may be made and used.
    pub fn network(&mut self, yes: bool) -> &mut Self {
        self.network = yes;
        self
    }

    /// This process becomes another program next, of the files and directories that may
    /// be read. Of the system calls those are refused that no program should need: it
    /// starts no process, signals none and has no network.
    pub fn exec(&mut self, yes: bool) -> &mut Self {
        self.exec = yes;
        self
    }

    /// That program makes files in memory, which no limit counts.
    pub fn memory_files(&mut self, yes: bool) -> &mut Self {
        self.memory_files = yes;
        self
    }

    /// Of programs: they make no holes in files and get no room ahead (fallocate(2) is
    /// `EOPNOTSUPP`), so that what they wrote is told from what they left alone.
    pub fn no_holes(&mut self, yes: bool) -> &mut Self {
        self.no_holes = yes;
        self
    }

    /// A kernel runs programs (`Kernel::spawn`): code is mapped of memory that is shared
    /// and of a descriptor that is open, and threads have their system calls taken by
    /// syscall user dispatch (prctl(2)).
    pub fn programs(&mut self, yes: bool) -> &mut Self {
        self.programs = yes;
        self
    }

    /// Root reads the attributes in trusted.* of files.
    pub fn attributes(&mut self, yes: bool) -> &mut Self {
        self.attributes = yes;
        self
    }

    /// Root sets owners, modes and attributes of what is written beneath directories.
    pub fn metadata(&mut self, yes: bool) -> &mut Self {
        self.metadata = yes;
        self
    }

    /// Devices may be made where files are written beneath directories.
    pub fn devices(&mut self, yes: bool) -> &mut Self {
        self.devices = yes;
        self
    }

    /// Descriptors may be received through sockets that are open.
    pub fn handed(&mut self, yes: bool) -> &mut Self {
        self.handed = yes;
        self
    }

    /// Descriptors may be handed over through sockets that are open and connected.
    pub fn hands(&mut self, yes: bool) -> &mut Self {
        self.hands = yes;
        self
    }

    /// A session: somebody types, and it may be waited for with other things (epoll(7)); it goes
    /// to other directories (chdir(2)).
    pub fn terminal(&mut self, yes: bool) -> &mut Self {
        self.terminal = yes;
        self
    }

    /// Something is unpacked into a file that is open: how much room is left there may be
    /// asked for (fstatfs(2)).
    pub fn unpacks(&mut self, yes: bool) -> &mut Self {
        self.unpacks = yes;
        self
    }

    /// Sockets that somebody else has connected are handed to this process, which waits for
    /// them (epoll(7)), reads, writes and ends them. It can neither make one nor lead one
    /// elsewhere: no call is left that takes an address.
    pub fn connected(&mut self, yes: bool) -> &mut Self {
        self.connected = yes;
        self
    }

    /// With [`Self::network`]: connections are taken of sockets that listen already.
    pub fn accepts(&mut self, yes: bool) -> &mut Self {
        self.accepts = yes;
        self
    }

    /// RLIMIT_DATA, in bytes: private memory of this process. The RAM of kernels is
    /// shared memory, which they were booted with.
    pub fn memory(&mut self, bytes: u64) -> &mut Self {
        self.memory = Some(bytes);
        self
    }

    /// The process is killed (SIGKILL) when this time has passed since
    /// [`Self::enter`], whatever it does.
    pub fn time(&mut self, limit: Duration) -> &mut Self {
        self.time = Some(limit);
        self
    }

    /// Whether a kernel may begin to watch its memory.
    fn watches(&self) -> bool {
        self.checkpoints && self.boots
    }

    /// Whether its rules name this file, or a directory that it is in: for who opens files for
    /// another process, as the host may have no Landlock that says so too. Symlinks in `path`
    /// are the caller's to follow.
    pub fn names(&self, path: &Path, write: bool) -> bool {
        let read: &[_] = if write { &[] } else { &self.read };
        let rules = [read, &self.write, &self.create].concat();
        let real = rules.iter().filter_map(|rule| rule.canonicalize().ok());
        real.into_iter().any(|rule| path.starts_with(rule))
    }

    fn opens(&self) -> bool {
        let lists = [&self.read, &self.write, &self.create, &self.trees];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Whether it changes what files have beside their content.
    fn changes(&self) -> bool {
        !self.trees.is_empty()
    }

    fn writes(&self) -> bool {
        let lists = [&self.write, &self.create, &self.trees];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Confine all of this process, for good. Takes some hundred microseconds.
    ///
    /// Only the first call of a process says which files there are: Landlock works
    /// by the thread, so that no thread may run yet but those of
    /// [`spawn_fenced`] (from Linux 7.0 on, others may). Later calls take
    /// away system calls; one that names no file ends all opening.
    ///
    /// Where the host has no Landlock the rest holds, and [`Held::files`] says so.
    /// Without seccomp it is an error.
    pub fn enter(&self) -> Result<Held, Error> {
        let watchdog = limits::set(self)?;
        let files = files::restrict(self)?;
        privileges::restrict(self).map_err(Error::Capabilities)?;
        calls::restrict(self, watchdog).map_err(Error::Seccomp)?;
        Ok(Held { files })
    }
}
