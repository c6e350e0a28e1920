//! The thread that carries frames from a descriptor of the host's to a device, and
//! waits for room on either side.

use crate::header::Header;
use crate::packet::Packet;
use crate::thread::spawn;
use crate::wire::{Port, Sent};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::JoinHandle;
use tane_buffers::buffer;

/// Frames that are carried between two looks at everything else.
const BATCH: usize = 64;

/// Frames of a descriptor. Only the pump's thread reads.
pub trait Source: Send + Sync + 'static {
    fn fd(&self) -> RawFd;

    /// Put the next frame into `frame`; `None` if there is none yet. Never waits, and
    /// passes over none, even if it makes no sense: the pump counts them, so that no
    /// flood keeps it from anything else. After an error there will be none.
    fn next(&self, frame: &mut Vec<u8>) -> io::Result<Option<Header>>;

    /// The descriptor takes more: whether what was kept for it is all gone.
    fn flush(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// Such a thread, and what others tell it.
pub struct Pump {
    thread: Mutex<Option<JoinHandle<()>>>,
    signals: Arc<Signals>,
}

struct Signals {
    wake: OwnedFd,
    stopping: AtomicBool,
    /// Somebody waits until the descriptor takes more.
    full: AtomicBool,
    /// Why there will be no more frames.
    error: OnceLock<Arc<io::Error>>,
}

impl Pump {
    pub fn new() -> io::Result<Self> {
        // SAFETY: makes a descriptor, which is ours alone.
        let wake = unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        Ok(Self {
            thread: Mutex::default(),
            signals: Arc::new(Signals {
                wake,
                stopping: AtomicBool::new(false),
                full: AtomicBool::new(false),
                error: OnceLock::new(),
            }),
        })
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Carry frames to this port from now on. EBUSY: there is one already.
    pub fn start(&self, source: Arc<dyn Source>, port: Weak<dyn Port>) -> io::Result<()> {
        let mut thread = self.thread();
        if thread.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let signals = self.signals.clone();
        signals.stopping.store(false, Ordering::SeqCst);
        *thread = Some(spawn("tane-net", move || {
            let result = carry(&*source, &port, &signals);
            if let Err(error) = result {
                signals.error.get_or_init(|| Arc::new(error));
                if let Some(port) = port.upgrade() {
                    port.link(false);
                    // What waits for room is dropped instead.
                    port.room();
                }
            }
        })?);
        Ok(())
    }

    /// When this returns the thread has ended.
    pub fn stop(&self) {
        let thread = self.thread().take();
        if let Some(thread) = thread {
            self.signals.stopping.store(true, Ordering::SeqCst);
            self.signals.wake();
            thread.join().ok();
        }
    }

    /// The device has room again.
    pub fn room(&self) {
        self.signals.wake();
    }

    /// Say [`Port::room`] when the descriptor takes more.
    pub fn wait_for_room(&self) {
        if !self.signals.full.swap(true, Ordering::SeqCst) {
            self.signals.wake();
        }
    }

    /// Why there will be no more frames.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        self.signals.error.get().cloned()
    }

    pub fn fail(&self, error: io::Error) {
        self.signals.error.get_or_init(|| Arc::new(error));
        self.signals.wake();
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Signals {
    fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: reads eight bytes of ours. It fails only when it is awake already.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn calm(&self) {
        let mut count = [0; 8];
        // SAFETY: writes eight bytes of ours.
        unsafe {
            libc::read(
                self.wake.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

fn carry(source: &dyn Source, port: &Weak<dyn Port>, signals: &Signals) -> io::Result<()> {
    let mut frame = Vec::new();
    // A frame that the device had no room for.
    let mut kept: Option<Header> = None;
    loop {
        let full = signals.full.load(Ordering::SeqCst);
        let events =
            if kept.is_none() { libc::POLLIN } else { 0 } | if full { libc::POLLOUT } else { 0 };
        // A descriptor that is gone reports so for ever, asked or not.
        let fd = if events == 0 { -1 } else { source.fd() };
        let mut polled =
            [(signals.wake.as_raw_fd(), libc::POLLIN), (fd, events)].map(|(fd, events)| {
                libc::pollfd {
                    fd,
                    events,
                    revents: 0,
                }
            });
        // SAFETY: an array of ours.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if n < 0 {
            match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => continue,
                error => return Err(error),
            }
        }
        if polled[0].revents != 0 {
            signals.calm();
            if signals.stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
            if let Some(error) = signals.error.get() {
                return Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
        let Some(port) = port.upgrade() else {
            return Ok(());
        };
        let seen = polled[1].revents;
        if seen & libc::POLLOUT != 0 {
            // Before: who finds it full again from now on says so again.
            signals.full.store(false, Ordering::SeqCst);
            if source.flush()? {
                port.room();
            } else {
                signals.full.store(true, Ordering::SeqCst);
            }
        }
        if let Some(header) = kept.take() {
            if give(&*port, header, &frame) == Sent::Later {
                kept = Some(header);
                continue;
            }
        }
        if seen & !libc::POLLOUT == 0 {
            continue;
        }
        for turn in 0..BATCH {
            match source.next(&mut frame)? {
                Some(header) if give(&*port, header, &frame) == Sent::Later => {
                    kept = Some(header);
                    break;
                }
                Some(_) => {}
                None if turn == 0 && seen & libc::POLLIN == 0 => {
                    return Err(io::Error::from_raw_os_error(libc::ENODEV));
                }
                None => break,
            }
        }
    }
}

fn give(port: &dyn Port, header: Header, frame: &[u8]) -> Sent {
    let buffers = [buffer(frame)];
    // SAFETY: bytes of ours, which are only read.
    match unsafe { Packet::new(header, &buffers) } {
        Ok(packet) => port.deliver(&packet),
        // A network may lose what makes no sense.
        Err(_) => Sent::Dropped,
    }
}
