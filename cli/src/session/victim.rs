//! The processes in which Linux meets what is damaged (`tane fuzz`). Each boots one kernel,
//! in a jail that closes before that sees a byte of an image, and goes back after every
//! meeting; whoever asks has no Linux, and lets none of them take longer than it may.

use super::child::{self, keep_only};
use super::machine::no_start;
use super::{is_without_jail, jail};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::session::Global;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tane::images::Ram;
use tane::jail::{Jail, Tied};
use tane_hostile::bench::{Bench, How};
use tane_hostile::calls::{Call, Names};
use tane_hostile::hunt::{Meets, Met};
use tane_hostile::sparse::{Block, Sparse};
use tane_hostile::wire::{self, Ready};

/// How often an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Booting takes milliseconds; on a busy machine, longer.
const START: Duration = Duration::from_secs(60);

/// Where a process is, in memory that it shares with whoever asks.
struct At(*mut AtomicU32);

impl At {
    fn new() -> io::Result<At> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0) };
        match at {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(At(at.cast())),
        }
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: a page of ours, which begins as zero.
        unsafe { &*self.0 }
    }
}

impl Drop for At {
    fn drop(&mut self) {
        // SAFETY: nobody has it any more.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// Such a process.
struct Victim {
    /// Until it has been waited for.
    child: Option<Tied>,
    socket: UnixStream,
    at: At,
}

impl Victim {
    /// How it has ended, after its socket has.
    fn ended(mut self) -> String {
        status_text(self.end().unwrap_or(0))
    }

    /// One that has ended keeps its status; one that has only closed its socket does not live
    /// on.
    fn end(&mut self) -> Option<i32> {
        let child = self.child.take()?;
        let mut status = 0;
        // SAFETY: a child of ours, which is not waited for again; a live int.
        unsafe {
            libc::kill(child.pid(), libc::SIGKILL);
            libc::waitpid(child.pid(), &raw mut status, 0);
        }
        Some(status)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.end();
    }
}

/// Those that meet one file system after the other: a new one when one has ended.
pub struct Victims<'a> {
    how: &'a How,
    base: &'a Sparse,
    limit: Duration,
    global: &'a Global,
    /// A process and a kernel for each meeting.
    anew: bool,
    now: Option<Victim>,
    started: u64,
}

impl<'a> Victims<'a> {
    /// `limit` is for a meeting.
    pub fn new(how: &'a How, base: &'a Sparse, limit: Duration, global: &'a Global) -> Self {
        Victims {
            how,
            base,
            limit,
            global,
            anew: false,
            now: None,
            started: 0,
        }
    }

    /// The same without going back.
    pub fn anew(mut self) -> Self {
        self.anew = true;
        self
    }

    /// How many processes there were.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Whether their kernels count their ways, and what names there are.
    pub fn look(&mut self) -> Result<(bool, Names)> {
        let (victim, ready) = self.start()?;
        self.now = Some(victim);
        Ok(ready)
    }

    fn start(&mut self) -> Result<(Victim, (bool, Names))> {
        let fail = |e: io::Error| Failure::image(format!("the process with Linux: {e}"));
        self.started += 1;
        let at = At::new().map_err(fail)?;
        let (near, far) = UnixStream::pair().map_err(fail)?;
        let far = File::from(OwnedFd::from(far));
        let child = child::start_tied(|| self.serve(&far, at.get()));
        let victim = Victim {
            child: Some(child.map_err(fail)?),
            socket: near,
            at,
        };
        drop(far);
        match self.hear(&victim, START, |mut socket| wire::ready(&mut socket))? {
            Some(Ok(Ok(ready))) => Ok((victim, ready)),
            Some(Ok(Err(why))) => Err(Failure::image(crate::names::plain(why.as_bytes()))),
            _ => Err(Failure::image("the process with Linux did not start")),
        }
    }

    /// What it says; None: nothing in time.
    fn hear<T>(
        &self,
        victim: &Victim,
        limit: Duration,
        what: impl FnOnce(&UnixStream) -> io::Result<T>,
    ) -> Result<Option<io::Result<T>>> {
        let began = Instant::now();
        let mut poll = libc::pollfd {
            fd: victim.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            // SAFETY: a structure of ours.
            if unsafe { libc::poll(&raw mut poll, 1, LOOK.as_millis() as i32) } > 0 {
                // Who is in the middle of a message may stop there.
                let rest = limit.saturating_sub(began.elapsed()).max(LOOK);
                let _ = victim.socket.set_read_timeout(Some(rest));
                return Ok(match what(&victim.socket) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
                    heard => Some(heard),
                });
            }
            interrupt::check()?;
            if began.elapsed() >= limit {
                return Ok(None);
            }
        }
    }

    /// In the child. An error: nobody asks any more.
    fn serve(&self, mut socket: &File, at: &AtomicU32) -> io::Result<()> {
        // SAFETY: no memory involved. It has no terminal.
        unsafe { libc::setsid() };
        keep_only(vec![socket.as_raw_fd()])?;
        let bench = match self.prepare() {
            Ok((bench, names)) => {
                let ready: Ready = Ok((bench.counts(), names));
                wire::tell_ready(&mut socket, &ready)?;
                bench
            }
            Err(failure) => return wire::tell_ready(&mut socket, &Err(failure.to_string())),
        };
        while let Some(order) = wire::order(&mut socket)? {
            let blocks = order.blocks.iter().map(|(n, block)| (*n, &**block));
            let blocks: Vec<_> = blocks.collect();
            let outcome = bench.meet(&blocks, &order.calls, at);
            let goes_on = !self.anew && outcome.died.is_none() && bench.go_back().is_ok();
            wire::tell(&mut socket, &outcome, goes_on)?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn prepare(&self) -> Result<(Bench, Names)> {
        let fail = |e: tane::Error| Failure::image(e.to_string());
        let ram = Ram::new(self.base.len());
        let ram = ram.map_err(|e| Failure::image(format!("a disk in memory: {e}")))?;
        let without = is_without_jail(self.global);
        if !without {
            let kernel: &Path = &self.how.kernel;
            let provided = tane::provide(&[kernel], 1, self.how.memory).map_err(no_start)?;
            let mut first = Jail::new();
            first.boots_from(&provided);
            first.checkpoints(true).read("/proc/self/pagemap");
            jail::limit_memory(&mut first, self.global);
            first.enter().map_err(jail::failure)?;
        }
        let mut bench = Bench::boot(self.how, ram, !self.anew).map_err(no_start)?;
        if !without {
            // Before Linux sees anything of it.
            let mut second = Jail::new();
            second.checkpoints(true).enter().map_err(jail::failure)?;
        }
        bench.load(self.base).map_err(fail)?;
        if self.anew {
            return Ok((bench, Names::default()));
        }
        let names = bench.names().map_err(|e| {
            Failure::image(format!("the image that all begins with: {e}"))
                .remedy("it must be a sound file system of this type, without a partition table")
        })?;
        bench.go_back().map_err(fail)?;
        Ok((bench, names))
    }
}

impl Meets for Victims<'_> {
    type Error = Failure;

    fn meet(&mut self, blocks: &[(u64, &Block)], calls: &[Call]) -> Result<Met> {
        let victim = match self.now.take() {
            Some(victim) => victim,
            None => self.start()?.0,
        };
        victim.at.get().store(0, Ordering::Relaxed);
        if wire::ask(&mut &victim.socket, blocks, calls).is_err() {
            return Ok(Met::Gone(victim.ended()));
        }
        match self.hear(&victim, self.limit, |mut socket| wire::told(&mut socket))? {
            Some(Ok((outcome, goes_on))) => {
                if goes_on {
                    self.now = Some(victim);
                }
                Ok(Met::Outcome(outcome))
            }
            Some(Err(_)) => Ok(Met::Gone(victim.ended())),
            None => Ok(Met::Hang(victim.at.get().load(Ordering::Relaxed) as usize)),
        }
    }
}

fn status_text(status: i32) -> String {
    match libc::WIFSIGNALED(status) {
        true => format!("was ended by signal {}", libc::WTERMSIG(status)),
        false => format!("ended with code {}", libc::WEXITSTATUS(status)),
    }
}
