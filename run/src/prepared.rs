//! What a new process does before a program is in its place.

use crate::command::Command;
use crate::file::File;
use crate::network;
use crate::terminal::DEVPTS;
use std::ffi::{CStr, CString, NulError, OsStr};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tane::Kernel;

/// A file system of the kernel's own that programs expect.
struct System {
    kind: &'static CStr,
    at: &'static CStr,
    options: &'static CStr,
}

const SYSTEM: [System; 7] = [
    System {
        kind: c"proc",
        at: c"/proc",
        options: c"",
    },
    System {
        kind: c"sysfs",
        at: c"/sys",
        options: c"",
    },
    System {
        kind: c"cgroup2",
        at: c"/sys/fs/cgroup",
        options: c"",
    },
    System {
        kind: c"devtmpfs",
        at: c"/dev",
        options: c"",
    },
    System {
        kind: c"devpts",
        at: c"/dev/pts",
        options: DEVPTS,
    },
    System {
        kind: c"tmpfs",
        at: c"/dev/shm",
        options: c"mode=1777",
    },
    System {
        kind: c"tmpfs",
        at: c"/tmp",
        options: c"mode=1777",
    },
];

/// What udev makes beside the devices; programs name them.
const LINKS: [(&CStr, &CStr); 4] = [
    (c"/proc/self/fd", c"/dev/fd"),
    (c"/proc/self/fd/0", c"/dev/stdin"),
    (c"/proc/self/fd/1", c"/dev/stdout"),
    (c"/proc/self/fd/2", c"/dev/stderr"),
];

/// What the new process has of process 1's, by their numbers.
#[derive(Clone, Copy)]
pub struct Given {
    /// In the order of the numbers they are to have.
    pub standard: [u64; 3],
    /// Mounted nowhere yet: the standard streams are a terminal of it.
    pub devpts: Option<u64>,
}

const MOVE_MOUNT_F_EMPTY_PATH: u64 = 4;

/// What is to be said of the start.
#[derive(Default)]
pub struct Said {
    /// What could not be done before the program was even tried.
    pub failed: OnceLock<&'static str>,
    without_file: OnceLock<(PathBuf, i64)>,
}

impl Said {
    pub fn without_file(&self) -> Option<(PathBuf, io::Error)> {
        let (path, errno) = self.without_file.get()?;
        let error = io::Error::from_raw_os_error(-*errno as i32);
        Some((path.clone(), error))
    }
}

/// All that the new process needs, as the calls want it.
pub struct Prepared {
    root: CString,
    has_own_root: bool,
    user: Option<(u32, u32)>,
    file: Option<File>,
    directory: CString,
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

fn text(text: impl AsRef<OsStr>) -> Result<CString, NulError> {
    CString::new(text.as_ref().as_bytes())
}

/// What could not be done for the program, and the errno, negative.
type Done = Result<(), (&'static str, i64)>;

/// Calls of the new process.
struct Calls<'k>(&'k Kernel);

impl Calls<'_> {
    fn answer(&self, nr: i64, args: &[u64]) -> i64 {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        // SAFETY: the strings live until the program is in their place.
        unsafe { self.0.syscall(nr, six) }
    }

    fn call(&self, what: &'static str, nr: i64, args: &[u64]) -> Done {
        match self.answer(nr, args) {
            errno @ ..0 => Err((what, errno)),
            _ => Ok(()),
        }
    }
}

fn address(text: &CStr) -> u64 {
    text.as_ptr() as u64
}

impl Prepared {
    pub fn new(command: &Command, path: &Path) -> Result<Self, NulError> {
        let words = std::iter::once(&command.program).chain(&command.arguments);
        let variables = command.environment.iter().map(|(name, value)| {
            let mut both = name.clone().into_vec();
            both.push(b'=');
            both.extend(value.as_bytes());
            CString::new(both)
        });
        Ok(Self {
            root: text(&command.root)?,
            has_own_root: command.root != Path::new("/"),
            user: command.user,
            file: match &command.file {
                Some((path, content)) => Some(File::new(path, content)?),
                None => None,
            },
            directory: text(&command.directory)?,
            path: text(path)?,
            arguments: words.map(text).collect::<Result<_, _>>()?,
            environment: variables.collect::<Result<_, _>>()?,
        })
    }

    /// As the new process, with these descriptors of process 1: its surroundings, then the program in its place. Returns
    /// only what failed, or 0 when the program is there.
    pub fn execute(&self, kernel: &Kernel, given: Given, said: &Said) -> i64 {
        let calls = Calls(kernel);
        if let Err((what, errno)) = self.surround(&calls, given, said) {
            let _ = said.failed.set(what);
            return errno;
        }
        let pointers = |words: &[CString]| {
            let words = words.iter().map(|w| w.as_ptr());
            words.chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let args = [
            address(&self.path),
            arguments.as_ptr() as u64,
            environment.as_ptr() as u64,
        ];
        calls.answer(libc::SYS_execve, &args)
    }

    fn surround(&self, calls: &Calls, given: Given, said: &Said) -> Done {
        for (number, end) in given.standard.into_iter().enumerate() {
            calls.call(
                "standard input and output",
                libc::SYS_dup2,
                &[end, number as u64],
            )?;
        }
        // What is kept is closed when the program is executed.
        let kept = given.devpts.unwrap_or(2);
        for (first, last) in [(3, kept - 1), (kept + 1, u32::MAX.into())] {
            if first <= last {
                let what = "the caller's open files";
                calls.call(what, libc::SYS_close_range, &[first, last, 0])?;
            }
        }
        calls.call("a session", libc::SYS_setsid, &[])?;
        if given.devpts.is_some() {
            let args = [0, libc::TIOCSCTTY, 0];
            calls.call("its terminal", libc::SYS_ioctl, &args)?;
        }
        if self.has_own_root {
            // Programs show it, and look for themselves by it. Linux's own is "(none)".
            let name = c"tane";
            let length = name.count_bytes() as u64;
            calls.answer(libc::SYS_sethostname, &[address(name), length]);
            // The mounts go with the process.
            let (what, own) = ("mounts of its own", libc::CLONE_NEWNS as u64);
            calls.call(what, libc::SYS_unshare, &[own])?;
            let private = [0, address(c"/"), 0, libc::MS_REC | libc::MS_PRIVATE, 0];
            calls.call(what, libc::SYS_mount, &private)?;
        }
        let file = self.file.as_ref().filter(|_| self.has_own_root);
        let made = file.map(|file| file.make(|nr, args| calls.answer(nr, args)));
        self.take_root(calls)?;
        if self.has_own_root {
            mount_system(calls, given.devpts)?;
            network::loop_back(|nr, args| calls.answer(nr, args));
            if let Some((file, made)) = self.file.as_ref().zip(made) {
                let call = |nr, args: &[u64]| calls.answer(nr, args);
                if let Err(errno) = made.and_then(|made| file.show(made, call)) {
                    let _ = said.without_file.set((file.path(), errno));
                }
            }
        }
        calls.call("the umask", libc::SYS_umask, &[0o022])?;
        if let Some((uid, gid)) = self.user {
            let what = "the user and group";
            calls.call(what, libc::SYS_setgroups, &[0, 0])?;
            calls.call(what, libc::SYS_setgid, &[gid.into()])?;
            calls.call(what, libc::SYS_setuid, &[uid.into()])?;
        }
        let what = "the directory to start in";
        calls.call(what, libc::SYS_chdir, &[address(&self.directory)])
    }
}

impl Prepared {
    /// Where the process has mounts of its own, its root is that of all of them, in the
    /// place of the kernel's: in a chroot(2) alone nobody may make a namespace of users,
    /// nor put another root in its place, as runtimes of containers do.
    fn take_root(&self, calls: &Calls) -> Done {
        let what = "the root directory";
        let root = address(&self.root);
        if !self.has_own_root {
            calls.call(what, libc::SYS_chroot, &[root])?;
            return calls.call(what, libc::SYS_chdir, &[address(c"/")]);
        }
        let mount = |from, to, how| [from, to, 0, how, 0];
        let here = || calls.call(what, libc::SYS_chdir, &[root]);
        let to_the_top = mount(address(c"."), address(c"/"), libc::MS_MOVE);
        here()?;
        if calls.answer(libc::SYS_mount, &to_the_top) != 0 {
            // A directory of a file system is mounted there once more to be moved.
            let again = mount(root, root, libc::MS_BIND | libc::MS_REC);
            calls.call(what, libc::SYS_mount, &again)?;
            here()?;
            calls.call(what, libc::SYS_mount, &to_the_top)?;
        }
        calls.call(what, libc::SYS_chroot, &[address(c".")])?;
        calls.call(what, libc::SYS_chdir, &[address(c"/")])
    }
}

/// Of a root without these directories, and of a kernel without these file systems, they
/// are absent. From within the root: a directory there may be a link to another.
fn mount_system(calls: &Calls, devpts: Option<u64>) -> Done {
    for System { kind, at, options } in SYSTEM {
        let what = at.to_str().unwrap_or_default();
        let mounted = match devpts {
            Some(fd) if kind == c"devpts" => {
                let here = libc::AT_FDCWD as u64;
                let args = [fd, address(c""), here, address(at), MOVE_MOUNT_F_EMPTY_PATH];
                calls.call(what, libc::SYS_move_mount, &args)
            }
            _ => {
                let words = [kind, at, kind].map(address);
                let args = [words[0], words[1], words[2], 0, address(options)];
                calls.call(what, libc::SYS_mount, &args)
            }
        };
        match mounted {
            Err((what, errno)) if !is_absence(errno) => return Err((what, errno)),
            Ok(()) if at == c"/dev" => {
                for (to, name) in LINKS {
                    // There from the last program, or from whoever made the kernel's /dev.
                    calls.answer(libc::SYS_symlink, &[address(to), address(name)]);
                }
                for directory in [c"/dev/shm", c"/dev/pts"] {
                    calls.answer(libc::SYS_mkdir, &[address(directory), 0o755]);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_absence(errno: i64) -> bool {
    let absence = [libc::ENOENT, libc::ENOTDIR, libc::ENODEV];
    absence.iter().any(|known| errno == -i64::from(*known))
}
