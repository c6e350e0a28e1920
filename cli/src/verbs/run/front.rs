//! Who keeps the host's terminal while a program has it: a process that meets no image, and
//! looks at no byte that it moves. However the other process ends, the terminal is as it was
//! before this one ends.

use super::raw::Raw;
use super::terminal::size;
use crate::failure::INTERRUPTED;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// Passed on, as the other process takes them.
const PASSED: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// They end the process, and do so when the terminal is as it was.
const FATAL: [i32; 7] = [
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
];
const OTHERS: [i32; 4] = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGTSTP, libc::SIGCONT];

pub enum Forked {
    /// This process keeps the terminal; the other one's id.
    Front(libc::pid_t),
    /// This process goes on.
    Other,
}

/// Divide this process, which has one thread.
pub fn fork() -> io::Result<Forked> {
    let before = block();
    // SAFETY: there is one thread, and no memory involved but the set of signals.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // It ends with the front, however that does, and no terminal sends it signals.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::setsid();
                let how = libc::SIG_SETMASK;
                libc::pthread_sigmask(how, &raw const before, std::ptr::null_mut());
                Ok(Forked::Other)
            }
            child => Ok(Forked::Front(child)),
        }
    }
}

/// Those signals that nobody has ignored (nohup). They are taken by `signalfd`.
fn signals() -> libc::sigset_t {
    // SAFETY: plain structures, and pointers to live ones.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [&PASSED[..], &FATAL, &OTHERS].concat() {
            let mut now = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            if now.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        set
    }
}

/// Blocks them; those that were blocked before.
fn block() -> libc::sigset_t {
    // SAFETY: plain structures, and pointers to live ones.
    unsafe {
        // Somebody may have us not hear of children.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut before = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals(), &raw mut before);
        before
    }
}

/// Its ends of the pipes.
pub struct Front {
    /// What is typed, if the program reads it.
    pub keys: Option<PipeWriter>,
    pub screen: PipeReader,
    pub complaints: PipeReader,
    pub resized: PipeWriter,
    /// Readable when the program has the terminal.
    pub begins: PipeReader,
}

/// What goes on.
struct Keeper {
    child: libc::pid_t,
    /// How it has ended.
    status: Option<i32>,
    raw: Raw,
    /// What is typed goes here, once the program has begun.
    keys: Option<PipeWriter>,
    /// Somebody types.
    interactive: bool,
    begun: bool,
    resized: PipeWriter,
    /// The terminal moves the cursor down for a new line, and not back to the left.
    is_raw: Arc<AtomicBool>,
}

impl Front {
    /// To the end of the other process and of what it has to say, and then as that ended.
    pub fn keep(self, child: libc::pid_t) -> ! {
        let code = self.serve(child).unwrap_or_else(|e| {
            eprintln!("tane: the process that keeps the terminal: {e}");
            crate::failure::NO_IMAGE.into()
        });
        std::process::exit(code)
    }

    fn serve(self, child: libc::pid_t) -> io::Result<i32> {
        let is_raw = Arc::new(AtomicBool::new(false));
        let (drained, draining) = io::pipe()?;
        let also = draining.try_clone()?;
        let screen = to(io::stdout().as_fd())?;
        move_all(self.screen, screen, draining, |_, _| {})?;
        let (complaints, raw) = (to(io::stderr().as_fd())?, is_raw.clone());
        move_all(self.complaints, complaints, also, move |bytes, last| {
            if raw.load(Relaxed) {
                to_the_left(bytes, last);
            }
        })?;
        not_waiting(&self.resized)?;
        let signals = signals();
        // SAFETY: the set is a live one, and the descriptor then ours.
        let signals = unsafe { libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC) };
        if signals < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as said.
        let mut signals = unsafe { File::from_raw_fd(signals) };
        let mut keeper = Keeper {
            child,
            status: None,
            raw: Raw::default(),
            interactive: self.keys.is_some(),
            keys: self.keys,
            begun: false,
            resized: self.resized,
            is_raw,
        };
        let (mut begins, mut drained) = (Some(self.begins), Some(drained));
        loop {
            let fd = |pipe: &Option<PipeReader>| pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let ready = wait([signals.as_raw_fd(), fd(&begins), fd(&drained)])?;
            if ready[0] {
                keeper.signal(taken(&mut signals)?);
            }
            if ready[1] {
                let pipe = begins.take();
                if pipe.is_some_and(|mut pipe| pipe.read_exact(&mut [0]).is_ok()) {
                    keeper.begin()?;
                }
            }
            if ready[2] {
                drained = None;
            }
            if let (Some(status), None) = (keeper.status, &drained) {
                keeper.restore();
                return Ok(as_ended(status));
            }
        }
    }
}

impl Keeper {
    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        self.go_on();
        if let Some(mut keys) = self.keys.take() {
            let mut typed = to(io::stdin().as_fd())?;
            // It ends with the process, or with the terminal, and then so does the pipe.
            start("tane-keys", move || {
                let mut buffer = [0; 4096];
                loop {
                    match typed.read(&mut buffer) {
                        Ok(n @ 1..) if keys.write_all(&buffer[..n]).is_ok() => {}
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        _ => return,
                    }
                }
            })?;
        }
        Ok(())
    }

    /// The program has the terminal: for the first time, or again.
    fn go_on(&mut self) {
        if self.interactive {
            self.raw.enter();
            self.is_raw.store(true, Relaxed);
        }
        self.tell_size();
    }

    fn restore(&mut self) {
        self.is_raw.store(false, Relaxed);
        self.raw.restore();
    }

    fn tell_size(&mut self) {
        // Also if it is unknown: the first one is waited for.
        let told = |size: libc::winsize| [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel];
        let size = size().map_or([0; 4], told);
        // Nobody has read thousands of them: he will not care for this one.
        let _ = self
            .resized
            .write(size.map(u16::to_ne_bytes).as_flattened());
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.reap(),
            libc::SIGWINCH if self.begun => self.tell_size(),
            libc::SIGTSTP => {
                self.restore();
                // SAFETY: this process stops here, until somebody has it go on.
                unsafe { libc::raise(libc::SIGSTOP) };
            }
            libc::SIGCONT if self.begun => self.go_on(),
            _ if PASSED.contains(&signal) && self.status.is_none() => {
                // SAFETY: of a child that nobody has waited for.
                unsafe { libc::kill(self.child, signal) };
            }
            // It has ended, and somebody does not take what it said.
            _ if PASSED.contains(&signal) => {
                self.restore();
                std::process::exit(INTERRUPTED.into());
            }
            _ if FATAL.contains(&signal) => {
                self.restore();
                end_by(signal);
            }
            _ => {}
        }
    }

    fn reap(&mut self) {
        let mut status = 0;
        // SAFETY: a number of ours.
        let ended = unsafe { libc::waitpid(self.child, &raw mut status, libc::WNOHANG) };
        if ended == self.child {
            self.status = Some(status);
        }
    }
}

/// What the other process would have been to who started this one.
fn as_ended(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        end_by(libc::WTERMSIG(status));
    }
    libc::WEXITSTATUS(status)
}

fn end_by(signal: i32) {
    // SAFETY: plain structures, and pointers to live ones.
    unsafe {
        // The dump would be of this process, which has done nothing wrong.
        let _ = tane::jail::no_dump();
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

fn to(fd: BorrowedFd) -> io::Result<File> {
    fd.try_clone_to_owned().map(File::from)
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    thread.spawn(run).map(drop)
}

/// A thread that moves all from there, which others change first: they are told what the last
/// byte was. When nobody takes any more, the other process learns it. `done` is closed then.
fn move_all(
    mut from: PipeReader,
    mut to: File,
    done: PipeWriter,
    change: impl Fn(&mut Vec<u8>, u8) + Send + 'static,
) -> io::Result<()> {
    start("tane-screen", move || {
        let _done = done;
        let (mut buffer, mut last) = (vec![0; 64 << 10], 0);
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..n].to_vec();
            change(&mut bytes, last);
            last = buffer[n - 1];
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

/// A return before each new line that has none.
fn to_the_left(bytes: &mut Vec<u8>, mut last: u8) {
    let mut changed = Vec::with_capacity(bytes.len() + 16);
    for byte in bytes.drain(..) {
        if byte == b'\n' && last != b'\r' {
            changed.push(b'\r');
        }
        changed.push(byte);
        last = byte;
    }
    *bytes = changed;
}

/// Writing there never waits.
fn not_waiting(pipe: &PipeWriter) -> io::Result<()> {
    // SAFETY: no memory involved; nobody else has this end.
    match unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Until one of these can be read, or is at its end; -1 is none. Which.
fn wait<const N: usize>(fds: [RawFd; N]) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    loop {
        // SAFETY: structures of ours.
        if unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, -1) } >= 0 {
            return Ok(polled.map(|one| one.revents != 0));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn taken(signals: &mut File) -> io::Result<i32> {
    let mut told = [0; size_of::<libc::signalfd_siginfo>()];
    signals.read_exact(&mut told)?;
    // Its first field is the number.
    let number = told[..4].try_into().expect("four bytes");
    Ok(i32::from_ne_bytes(number))
}
