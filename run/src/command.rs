//! What to run, and starting it.

use crate::child::{Child, Kept};
use crate::intercept::Intercept;
use crate::path;
use crate::prepared::{Given, Prepared, Said};
use crate::refusal::explain;
use crate::started::Started;
use crate::streams::{connect, Pumps, Streams};
use crate::terminal::{self, Pty, Terminal};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tane::Kernel;

/// A program to run, with its arguments and surroundings.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) root: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) file: Option<(PathBuf, Vec<u8>)>,
}

/// Why a program did not start.
#[derive(Debug)]
pub enum Error {
    /// It cannot be executed: its name, and why.
    Program(OsString, String),
    /// It, or the directory to start in, cannot be found: its name, and where.
    Missing(OsString, String),
    /// The kernel or the host has something against it, or against what was to be done
    /// before it is started: what, and why.
    System(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name, why) | Self::Missing(name, why) => {
                write!(f, "{}: {why}", name.display())
            }
            Self::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl Command {
    /// A program by its path, or by a name that is looked for in PATH.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            root: PathBuf::from("/"),
            directory: PathBuf::from("/"),
            user: None,
            file: None,
        }
    }

    /// One more argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// A variable, in the place of one of that name; the environment is empty else.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.into()));
        self
    }

    /// The program's root directory, by its path inside the kernel: as a rule a
    /// [`tane::Mount::mount_point`].
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// The directory it starts in, as it sees it.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Whose it is: user and group, and no further groups. Root's, if not said.
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((uid, gid));
        self
    }

    /// What the program sees as this file of its root, in memory: whatever has that name
    /// stays as it is, a link too. Where nothing has, an empty file is made there; if that
    /// cannot be, the program goes without ([`Child::without_file`]). For a root of its own.
    pub fn file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.file = Some((path.into(), content.into()));
        self
    }

    /// Start it. With a root of its own it has there, where there are directories for them,
    /// the kernel's /proc, /sys and /dev, and an empty /tmp and /dev/shm in memory. The kernel must be of an image with programs, and booted with
    /// [`tane::Builder::programs`].
    pub fn start(&self, kernel: &Kernel, streams: Streams) -> Result<Child, Error> {
        self.launch(kernel, || {
            let (standard, pumps) =
                connect(kernel, streams).map_err(|e| Error::System("a pipe", e))?;
            let given = Given {
                standard: [0, 1, 2].map(|number: usize| standard.0[number].fd),
                devpts: None,
            };
            Ok((given, pumps, None, standard))
        })
    }

    /// As [`Command::start`], in a session that has this terminal: its keys are signals, and
    /// a shell there has jobs.
    pub fn start_on_terminal(&self, kernel: &Kernel, on: Terminal) -> Result<Child, Error> {
        self.launch(kernel, || {
            let no_terminal = |e| Error::System("a terminal", e);
            let pty = Pty::new(kernel).map_err(no_terminal)?;
            if let Some((uid, _)) = self.user {
                pty.give_to(uid).map_err(no_terminal)?;
            }
            pty.ours.resize(on.size).map_err(no_terminal)?;
            let pumps = terminal::connect(&pty.ours, on.input, on.output).map_err(no_terminal)?;
            let given = Given {
                standard: [pty.theirs.fd; 3],
                devpts: Some(pty.devpts.fd),
            };
            let kept = Kept {
                _theirs: pty.theirs,
                ours: pty.ours,
            };
            Ok((given, pumps, Some(kept), pty.devpts))
        })
    }

    /// `give`: what the new process is given, what moves its bytes, what is kept as long as it
    /// runs, and what only until it has been started.
    fn launch<Handed>(
        &self,
        kernel: &Kernel,
        give: impl FnOnce() -> Result<(Given, Pumps, Option<Kept>, Handed), Error>,
    ) -> Result<Child, Error> {
        let tree = kernel
            .tree(&self.root)
            .map_err(|e| Error::System("the root directory", e.into()))?;
        if !tree.metadata(&self.directory).is_ok_and(|m| m.is_dir()) {
            let name = self.directory.clone().into_os_string();
            return Err(Error::Missing(name, "there is no such directory".into()));
        }
        let path =
            path::find(&tree, &self.program, &path::of(&self.environment)).map_err(|_| {
                Error::Missing(self.program.clone(), "is in no directory of PATH".into())
            })?;
        let prepared = Prepared::new(self, &path)
            .map_err(|_| self.refused("an argument has a zero byte in it".into()))?;
        let (given, pumps, terminal, handed) = give()?;
        kernel.intercept(Arc::new(Intercept::default()));
        let said = Arc::new(Said::default());
        let told = said.clone();
        let (started, answer) =
            Started::new(|| kernel.spawn(move |kernel| prepared.execute(kernel, given, &told)))
                .map_err(|e| Error::System("a process", e.into()))?;
        // Or the output would never end.
        drop(handed);
        if answer < 0 {
            let errno = -answer as i32;
            started.wait(kernel).ok();
            if let Some(what) = said.failed.get() {
                return Err(Error::System(what, io::Error::from_raw_os_error(errno)));
            }
            let path = self.directory.join(&path);
            let why = explain(&tree, &path, errno);
            let absent = [libc::ENOENT, libc::ENOTDIR].contains(&errno);
            if why.is_none() && absent {
                let why = format!("there is no {}", path.display());
                return Err(Error::Missing(self.program.clone(), why));
            }
            let plain = || io::Error::from_raw_os_error(errno).to_string();
            return Err(self.refused(why.unwrap_or_else(plain)));
        }
        Ok(Child {
            kernel: kernel.clone(),
            started,
            pumps,
            terminal,
            without_file: said.without_file(),
        })
    }

    fn refused(&self, why: String) -> Error {
        Error::Program(self.program.clone(), why)
    }
}
