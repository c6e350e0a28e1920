//! The worker: a thread for each slot takes calls, and the first thread waits for the
//! end of the caller.

use crate::area::{Area, ANSWERED, ASKED, SLOTS};
use crate::client::{OTHER_VERSION, STUCK};
use crate::ended::Ended;
use crate::failure::{Failure, Result};
use crate::list::{self, Lister};
use crate::local;
use crate::objects::{lock, Object, Objects};
use crate::open::Setup;
use crate::operations::{dispatch, special};
use crate::records::MountHow;
use crate::servers::{self, Link};
use crate::syscalls;
use crate::take_over::{is_socket, take_over, Given};
use crate::wait::{self, Patience};
use crate::wire::{Reader, Wire, Writer};
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What one message of a listing holds, in bytes.
const LIST: usize = 256 << 10;

/// Serve the caller that started this process, to its end.
pub fn serve() -> ! {
    if !is_socket(0) {
        eprintln!("tane-worker: the library starts it, to serve an image in a jail");
        std::process::exit(2);
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == servers::ARGUMENT)
    {
        servers::run();
    }
    let Ok(Given {
        first: line,
        second: memory,
        third,
    }) = take_over()
    else {
        std::process::exit(1);
    };
    let area = match Area::of_caller(memory) {
        Ok(Some(area)) => Arc::new(area),
        Ok(None) => std::process::exit(OTHER_VERSION),
        Err(_) => std::process::exit(1),
    };
    tane::prepare();
    let server = Arc::new(Server {
        area,
        objects: Objects::default(),
        link: Mutex::new(third.map(Link::new)),
        writes: AtomicBool::new(true),
        leaving: Mutex::default(),
        hang: OnceLock::new(),
    });
    // The image's opening, for which there must be one thread.
    if !server.take(0, &Patience::new()) {
        await_end(&line, Duration::MAX);
    }
    let hang = *server.hang.get().unwrap_or(&Duration::MAX);
    for slot in 0..SLOTS {
        let server = server.clone();
        let thread = std::thread::Builder::new().name(format!("slot {slot}"));
        let work = move || {
            let patience = Patience::new();
            loop {
                server.take(slot, &patience);
                server.leave();
            }
        };
        if thread.spawn(work).is_err() {
            std::process::abort();
        }
    }
    await_end(&line, hang)
}

/// To the end of the caller, or until Linux has been stuck for so long.
fn await_end(line: &OwnedFd, hang: Duration) -> ! {
    const LONGEST: Duration = Duration::from_secs(5);
    let pause = (hang / 4).min(LONGEST).as_millis() as i32;
    let mut progress = tane::Progress::new();
    loop {
        let mut line = libc::pollfd {
            fd: line.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut byte = 0u8;
        // SAFETY: a structure and a byte of ours. Nobody writes to it: it ends, or a
        // signal comes between.
        unsafe {
            if libc::poll(&mut line, 1, pause) > 0
                && libc::read(line.fd, (&raw mut byte).cast(), 1) == 0
            {
                libc::_exit(0);
            }
            if progress.stuck() >= hang {
                libc::_exit(STUCK);
            }
        }
    }
}

struct Server {
    area: Arc<Area>,
    objects: Objects,
    /// To servers, for the image's opening.
    link: Mutex<Option<Link>>,
    /// Whether the image is open for writing.
    writes: AtomicBool,
    /// Mounts that nobody waits for: they are unmounted when their caller is answered.
    leaving: Mutex<Vec<tane::Mount>>,
    /// How long Linux may be stuck.
    hang: OnceLock<Duration>,
}

/// How a call fared: bytes of the answer, and the result of one that moves data.
type Done = Result<(usize, i64)>;

impl Server {
    /// Take a call; whether it did what was asked.
    fn take(&self, slot: usize, patience: &Patience) -> bool {
        let control = self.area.control(slot);
        let (state, sleeps) = (&control.state, &control.worker_sleeps);
        wait::until(state, ASKED, sleeps, patience, None, || false);
        let (number, handle) = (
            control.operation.load(Relaxed),
            control.handle.load(Relaxed),
        );
        // SAFETY: the caller has asked, and leaves both alone until it is answered.
        let (request, room) = unsafe {
            let len = control.request.load(Relaxed) as usize;
            let request = self.area.request(slot).trusted(len);
            (request, self.area.answer(slot).to_write())
        };
        let work = || self.call(number, handle, &mut Reader::new(request), room);
        let done = catch_unwind(AssertUnwindSafe(work));
        let panicked = |_| {
            let text = "internal error: the worker panicked";
            Err(Failure::new(libc::EIO, text))
        };
        let done = done.unwrap_or_else(panicked);
        let good = done.is_ok();
        let (errno, len, result) = match done {
            Ok((len, result)) => (0, len, result),
            Err(failure) => {
                let text = failure.text.as_bytes();
                let text = &text[..text.len().min(4096)];
                let written = self.area.answer(slot).copy_from(0, text);
                let len = if written { text.len() } else { 0 };
                (failure.errno as u32, len, 0)
            }
        };
        control.errno.store(errno, Relaxed);
        control.answer.store(len as u32, Relaxed);
        control.result.store(result, Relaxed);
        wait::set(state, ANSWERED, &control.caller_sleeps);
        good
    }

    fn call(&self, number: u32, handle: u32, from: &mut Reader, room: &mut [u8]) -> Done {
        let objects = &self.objects;
        // What is done with comes along.
        for _ in 0..from.int()? {
            match Ended::of_wire(from.int()?) {
                Ended::Handle(handle) => drop(objects.take(handle)),
                Ended::Descriptor(fd) => {
                    let args = [fd.into(), 0, 0, 0, 0, 0];
                    // SAFETY: no pointers.
                    unsafe { objects.kernel(0)?.syscall(libc::SYS_close, args) };
                }
            }
        }
        let mut to = Writer::new(room);
        match number {
            // Nothing but those.
            0 => {}
            special::OPEN => {
                let link = lock(&self.link).take();
                let setup = Setup::get(from)?;
                let (image, opened) = setup.open(link)?;
                self.writes.store(setup.options.write, Relaxed);
                let _ = self.hang.set(setup.hang_limit());
                // The caller may show its mounts to others, who have many files open.
                tane_linux::Sys(image.kernel()).raise_open_files();
                objects.set_image(image);
                opened.put(&mut to)?;
            }
            special::END => {
                objects.take_all();
                self.leave();
            }
            special::MOUNT => self.mount(from, &mut to)?,
            special::UNMOUNT => self.unmount(handle)?,
            special::OPEN_FILE => {
                let (path, flags, mode) = (Wire::get(from)?, Wire::get(from)?, Wire::get(from)?);
                let file = local::open_file(&*objects.mount(handle)?, path, flags, mode)?;
                let fd = file.kernel_fd();
                objects.add(Object::File(Arc::new(file))).put(&mut to)?;
                fd.put(&mut to)?;
            }
            special::PREAD | special::READ => {
                let (len, offset) = (from.int()?, from.int()?);
                let place = to.take(len as usize)?.as_mut_ptr() as u64;
                let (action, nr) = match number {
                    special::READ => ("read", libc::SYS_read),
                    _ => ("read", libc::SYS_pread64),
                };
                let file = objects.file(handle)?;
                // SAFETY: as much room was taken.
                let n = unsafe { local::raw(&file, action, nr, [place, len, offset]) };
                return Ok((0, n?));
            }
            special::PWRITE | special::WRITE => {
                let (offset, bytes) = (from.int()?, from.bytes()?);
                let nr = match number {
                    special::WRITE => libc::SYS_write,
                    _ => libc::SYS_pwrite64,
                };
                let args = [bytes.as_ptr() as u64, bytes.len() as u64, offset];
                let file = objects.file(handle)?;
                // SAFETY: the kernel reads those bytes.
                let n = unsafe { local::raw(&file, "write", nr, args) };
                return Ok((0, n?));
            }
            special::LSEEK => {
                let args = [from.int()?, from.int()?, 0];
                let file = objects.file(handle)?;
                // SAFETY: no pointers.
                let at = unsafe { local::raw(&file, "seek", libc::SYS_lseek, args) };
                return Ok((0, at?));
            }
            special::SYSCALL => {
                let kernel = objects.kernel(0)?;
                return Ok((0, syscalls::perform(kernel, from, &mut to)?));
            }
            special::READ_FILES => return self.read_files(handle, from, &mut to),
            special::LIST => {
                let (path, flags): (&OsStr, _) = (Wire::get(from)?, Wire::get(from)?);
                let mut lister = Lister::new(&*objects.mount(handle)?, path, flags)?;
                let handle = match self.list(&mut lister, &mut to)? {
                    true => objects.add(Object::List(Arc::new(Mutex::new(lister)))),
                    false => 0,
                };
                return Ok((to.len(), handle.into()));
            }
            special::LIST_MORE => {
                let lister = objects.list(handle)?;
                let goes_on = self.list(&mut lock(&lister), &mut to)?;
                if !goes_on {
                    objects.take(handle);
                }
            }
            _ => dispatch(number, objects, handle, from, &mut to)?,
        }
        Ok((to.len(), 0))
    }

    fn list(&self, lister: &mut Lister, to: &mut Writer) -> Result<bool> {
        let mut limited = Writer::new(to.take(LIST)?);
        let goes_on = list::fill(lister, &mut limited)?;
        let len = limited.len();
        to.give_back(LIST - len);
        Ok(goes_on)
    }

    fn mount(&self, from: &mut Reader, to: &mut Writer) -> Result<()> {
        let selector: Option<&str> = Wire::get(from)?;
        let how = MountHow::get(from)?;
        let selector = selector.map(tane::Selector::parse).transpose()?;
        // It may be the same one, otherwise.
        self.leave();
        let image = self.objects.image(0)?;
        let mount = image.mount(selector.as_ref(), &how.options())?;
        let (place, root) = (mount.mount_point().to_owned(), mount.root_fd());
        self.objects.add(Object::Mount(Arc::new(mount))).put(to)?;
        place.put(to)?;
        root.put(to)
    }

    fn unmount(&self, handle: u32) -> Result<()> {
        let unknown = || Failure::new(libc::EBADF, "the worker has no such mount");
        let Some(Object::Mount(mount)) = self.objects.take(handle) else {
            return Err(unknown());
        };
        // Nobody may use it any more: that is the caller's promise.
        let mount = Arc::try_unwrap(mount).map_err(|_| unknown())?;
        let waits = self.writes.load(Relaxed) || self.objects.has_open() || self.calls() > 1;
        // What a dead kernel answers is told.
        if waits || !mount.kernel().is_alive() {
            return Ok(mount.unmount()?);
        }
        // Nothing can go wrong that matters: the worker may end meanwhile.
        lock(&self.leaving).push(mount);
        Ok(())
    }

    /// How many are under way, this one too.
    fn calls(&self) -> usize {
        let states = (0..SLOTS).map(|slot| &self.area.control(slot).state);
        states.filter(|state| state.load(Relaxed) == ASKED).count()
    }

    /// Unmount what is to be unmounted.
    fn leave(&self) {
        lock(&self.leaving).clear();
    }

    fn read_files(&self, handle: u32, from: &mut Reader, to: &mut Writer) -> Done {
        let mount = self.objects.mount(handle)?;
        let room = from.int()? as usize;
        let mut paths = Vec::new();
        while !from.is_empty() {
            paths.push(<&OsStr>::get(from)?);
        }
        let (table, rest) = to
            .take(paths.len() * 8 + room)?
            .split_at_mut(paths.len() * 8);
        let fared = mount.mount().read_files(paths, rest);
        for (fared, place) in fared.iter().zip(table.chunks_exact_mut(8)) {
            let fared = match fared {
                Ok(length) => *length as i64,
                Err(error) => -i64::from(error.errno()),
            };
            place.copy_from_slice(&fared.to_le_bytes());
        }
        Ok((0, fared.len() as i64))
    }
}
