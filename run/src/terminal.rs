//! A terminal inside the kernel: the program has one end of it, and a thread each moves what
//! is typed at the other and what comes there.

use crate::pipe::End;
use crate::streams::{feed, start, Pumps, CHUNK};
use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::sync::Arc;
use tane::Kernel;

/// Whose terminal a program has, in the place of its three standard streams.
pub struct Terminal {
    /// What is typed there. The terminal hangs up when it ends; without it nobody types.
    pub input: Option<Box<dyn Read + Send>>,
    /// Gets what is shown there. The terminal hangs up when it takes no more.
    pub output: Box<dyn Write + Send>,
    /// How large it is at first.
    pub size: Size,
}

/// Of a terminal, in characters; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// A pseudo-terminal on a devpts of its own, which the program finds at /dev/pts.
pub struct Pty {
    pub devpts: End,
    pub theirs: End,
    pub ours: Screen,
}

/// Where somebody types and reads.
#[derive(Clone)]
pub struct Screen(Arc<End>);

/// As Debian's and others' /etc/group and fstab have it.
const OPTIONS: [(&CStr, &CStr); 3] = [(c"gid", c"5"), (c"mode", c"620"), (c"ptmxmode", c"666")];
/// The same, for mount(2).
pub const DEVPTS: &CStr = c"gid=5,mode=620,ptmxmode=666";

// linux/mount.h
const CLOSE_ON_EXEC: u64 = 1;
const SET_STRING: u64 = 1;
const CREATE: u64 = 6;
const NO_SUID_NO_EXEC: u64 = 2 | 8;

const OPEN: u64 = (libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) as u64;

fn call(kernel: &Kernel, nr: i64, args: &[u64]) -> io::Result<u64> {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: the callers' pointers are to what lives until the call is over.
    unsafe { kernel.try_syscall(nr, six) }.map(|answer| answer as u64)
}

/// As [`call`], which gives a descriptor.
fn open(kernel: &Kernel, nr: i64, args: &[u64]) -> io::Result<End> {
    let fd = call(kernel, nr, args)?;
    let kernel = kernel.clone();
    End { kernel, fd }.above_standard()
}

fn address(text: &CStr) -> u64 {
    text.as_ptr() as u64
}

impl Pty {
    pub fn new(kernel: &Kernel) -> io::Result<Self> {
        let made = open(
            kernel,
            libc::SYS_fsopen,
            &[address(c"devpts"), CLOSE_ON_EXEC],
        )?;
        for (key, value) in OPTIONS.map(|(key, value)| (address(key), address(value))) {
            call(
                kernel,
                libc::SYS_fsconfig,
                &[made.fd, SET_STRING, key, value, 0],
            )?;
        }
        call(kernel, libc::SYS_fsconfig, &[made.fd, CREATE, 0, 0, 0])?;
        let mount = [made.fd, CLOSE_ON_EXEC, NO_SUID_NO_EXEC];
        let devpts = open(kernel, libc::SYS_fsmount, &mount)?;
        let ptmx = [devpts.fd, address(c"ptmx"), OPEN];
        let ours = open(kernel, libc::SYS_openat, &ptmx)?;
        let unlocked = 0i32;
        let at = &raw const unlocked as u64;
        call(kernel, libc::SYS_ioctl, &[ours.fd, libc::TIOCSPTLCK, at])?;
        let peer = [ours.fd, libc::TIOCGPTPEER, OPEN];
        let theirs = open(kernel, libc::SYS_ioctl, &peer)?;
        Ok(Self {
            devpts,
            theirs,
            ours: Screen(Arc::new(ours)),
        })
    }

    /// The user may open it once more, by its name.
    pub fn give_to(&self, uid: u32) -> io::Result<()> {
        let (fd, same) = (self.theirs.fd, u64::from(u32::MAX));
        call(
            &self.theirs.kernel,
            libc::SYS_fchown,
            &[fd, uid.into(), same],
        )
        .map(drop)
    }
}

impl Screen {
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (fd, at) = (self.0.fd, &raw const size as u64);
        call(&self.0.kernel, libc::SYS_ioctl, &[fd, libc::TIOCSWINSZ, at]).map(drop)
    }

    /// As if somebody had pulled the plug: its session gets SIGHUP, whoever reads there the
    /// end, and whoever writes there an error.
    fn hang_up(&self) -> io::Result<()> {
        const TIOCVHANGUP: u64 = 0x5437;
        let Screen(ours) = self;
        let peer = [ours.fd, libc::TIOCGPTPEER, OPEN];
        let theirs = open(&ours.kernel, libc::SYS_ioctl, &peer)?;
        call(&ours.kernel, libc::SYS_ioctl, &[theirs.fd, TIOCVHANGUP]).map(drop)
    }

    fn show(&self, mut to: Box<dyn Write + Send>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let n = match self.0.read(&mut buffer) {
                // Nobody has its other end any more, and all that was written has come.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => 0,
                other => other?,
            };
            if n == 0 {
                return to.flush();
            }
            if let Err(error) = to.write_all(&buffer[..n]).and_then(|()| to.flush()) {
                self.hang_up()?;
                return Err(error);
            }
        }
    }
}

/// Threads for what is typed and shown.
pub fn connect(
    screen: &Screen,
    input: Option<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
) -> io::Result<Pumps> {
    if let Some(input) = input {
        let screen = screen.clone();
        // It may wait for keys that never come, and ends with the process.
        start("tane-input", move || {
            let fed = feed(input, &screen.0);
            screen.hang_up().and(fed)
        })?;
    }
    let screen = screen.clone();
    let shown = start("tane-output", move || screen.show(output))?;
    Ok(Pumps(vec![shown]))
}
