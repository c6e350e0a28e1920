//! Runs a checked module in an ordinary process, by itself or beside a kernel, whose system
//! calls are then functions to it. What `tane_checked::Layout` asks of a loader, this does.
//!
//! ```text
//! window.rs     the 4 GiB, what of them can be accessed, and the stack of returns
//! switch.rs     from the host into a module and back, by return, import and trap
//! calls.rs      which system calls it may import, and the way of one to the kernel
//! confined.rs   the kernel's task that makes them
//! signals.rs    faults of a module become traps
//! watch.rs      the end of its time
//! ```
//!
//! A thread is in one instance at a time, and an import does not call its module.
//!
//! Imports of ours: `tane-checked`, `tane-host`.

mod calls;
mod confined;
mod signals;
mod switch;
mod watch;
mod window;

pub use calls::{Call, Calls};
pub use signals::lacks;

use confined::{confined, Scratch};
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switch::Context;
use tane_checked::{check, Layout, Refusal, PAGE};
use tane_host::{Kernel, Program};
use watch::Watch;
use window::Window;

/// What ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Memory that cannot be accessed so.
    Memory,
    /// Too deep.
    Stack,
    /// A division by zero, or one whose result does not fit.
    Divide,
    /// `ud2`, or an instruction that this processor lacks.
    Unreachable,
    /// A call through an empty slot of the table.
    Call,
    /// Longer than [`Instance::limit`] allows.
    Time,
}

/// Why there is no instance, or no call.
#[derive(Debug)]
pub enum Error {
    Refused(Refusal),
    /// The module imports what was not given.
    Import(String),
    /// The module does not export this.
    Export(String),
    Host(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Host(error)
    }
}

/// What an import is given: its first six arguments, and the module's memory.
pub type Import = Box<dyn FnMut([u64; 6], &Memory) -> u64 + Send>;

/// The module's data, heap and stack, as those who were called by it see them.
pub struct Memory {
    window: NonNull<u8>,
    layout: Layout,
    end: u64,
}

impl Memory {
    fn at(&self, offset: u64, bytes: usize, from: u32) -> Option<*mut u8> {
        let last = offset.checked_add(bytes as u64)?;
        let inside = offset >= u64::from(from) && last <= self.end;
        // SAFETY: within what is mapped.
        inside.then(|| unsafe { self.window.as_ptr().add(offset as usize) })
    }

    /// Copies out of the window; none if the module could not read it all.
    pub fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let from = self.at(offset, bytes, self.layout.read_only)?;
        let mut copy = vec![0; bytes];
        // SAFETY: readable, and the module waits.
        unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes) };
        Some(copy)
    }

    /// Copies into the window; false if the module could not write it all.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.at(offset, bytes.len(), self.layout.data) else {
            return false;
        };
        // SAFETY: writable, and the module waits.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }
}

/// A module in memory. It stays on the thread that made it.
pub struct Instance {
    exports: Vec<(String, u32)>,
    layout: Layout,
    // In the order in which they go: whoever uses what comes later.
    watch: Option<(Watch, Duration)>,
    program: Option<Program>,
    kernel: Option<Kernel>,
    context: Box<Context>,
    window: Window,
    thread: PhantomData<*const ()>,
}

/// A kernel that an instance makes calls to.
#[derive(Clone, Copy)]
pub struct Linux<'a> {
    pub kernel: &'a Kernel,
    /// A directory of the kernel's: the instance's root, and its descriptor 0. Without
    /// one it makes no calls on files.
    pub directory: Option<&'a CStr>,
}

impl Instance {
    /// Checks the module, maps it, and gives it so many bytes of heap and stack. What it
    /// imports are functions of the host's.
    pub fn new(file: &[u8], heap: u64, imports: Vec<(&str, Import)>) -> Result<Instance, Error> {
        Instance::made(None, file, heap, imports)
    }

    /// The same for a module that also imports system calls of a kernel's. It is for calls
    /// on this thread.
    pub fn on(
        linux: Linux<'_>,
        file: &[u8],
        heap: u64,
        imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        Instance::made(Some(linux), file, heap, imports)
    }

    fn made(
        linux: Option<Linux<'_>>,
        file: &[u8],
        heap: u64,
        mut imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        let module = check(file).map_err(Error::Refused)?;
        let mut window = Window::new(&module, heap.max(PAGE.into()))?;
        let program = linux
            .map(|linux| {
                let (bytes, at) = (PAGE as usize, window.end() - u64::from(PAGE));
                let at = window.start().as_ptr() as u64 + at;
                let start = window.address(0);
                // SAFETY: the window has room below it, and its last page is heap.
                unsafe { confined(linux.kernel, start, linux.directory, &Scratch { at, bytes }) }
            })
            .transpose()?;
        // After the kernel's, so that a module's faults need not pass there first.
        signals::install()?;
        let calls = linux.map(|linux| Calls {
            files: linux.directory.is_some(),
        });
        let memory = Memory {
            window: window.start(),
            layout: module.layout,
            end: window.end(),
        };
        let mut context = Context::new(&mut window, memory);
        let mut thunks = Vec::new();
        for name in &module.imports {
            let given = imports.iter().position(|(given, _)| given == name);
            let call = calls.and_then(|calls| calls.find(name));
            thunks.push(match (given, call) {
                (Some(given), _) => context.add(imports.swap_remove(given).1),
                (None, Some(call)) => calls::thunk(call, window.address(0)),
                (None, None) => return Err(Error::Import((*name).to_owned())),
            });
        }
        window.fill_table(&module, &thunks)?;
        let exports = module
            .exports
            .iter()
            .map(|e| (e.name.to_owned(), e.at))
            .collect();
        Ok(Instance {
            exports,
            layout: module.layout,
            watch: None,
            kernel: linux.map(|linux| linux.kernel.clone()),
            program,
            context,
            window,
            thread: PhantomData,
        })
    }

    /// From now on a call that takes longer ends with [`Trap::Time`]: at once in the
    /// module's own code, and in a call of the kernel's as soon as that is over, which
    /// it is at once if it sleeps. Functions of the host's are not interrupted.
    pub fn limit(&mut self, limit: Duration) -> io::Result<()> {
        let cancel = match (&mut self.program, &self.kernel) {
            (Some(program), Some(kernel)) => {
                program.divert(signals::after_call, &raw const *self.context as usize);
                Some(confined::cancel(program, kernel)?)
            }
            _ => None,
        };
        let context = Marker(&raw const self.context.expired);
        let watch = Watch::new(move || {
            context.mark();
            if let Some(cancel) = &cancel {
                cancel();
            }
        })?;
        self.watch = Some((watch, limit));
        Ok(())
    }

    /// Memory that is the module's.
    pub fn memory(&self) -> &Memory {
        &self.context.memory
    }

    /// The first byte behind the module's data: its heap. The stack ends where this does
    /// not tell, at the window's accessible end.
    pub fn heap(&self) -> u64 {
        u64::from(self.layout.end)
    }

    /// Where the window is, for those who look whether it was left.
    pub fn window(&self) -> NonNull<u8> {
        self.window.start()
    }

    /// Calls an export with up to six arguments.
    pub fn call(&mut self, name: &str, arguments: &[u64]) -> Result<Result<u64, Trap>, Error> {
        let export = self.exports.iter().find(|(export, _)| export == name);
        let (_, at) = export.ok_or_else(|| Error::Export(name.to_owned()))?;
        let mut six = [0; 6];
        for (to, from) in six.iter_mut().zip(arguments) {
            *to = *from;
        }
        let function = self.window.address(self.layout.code + at);
        if let Some((watch, limit)) = &self.watch {
            watch.begin(*limit);
        }
        let result = self.context.enter(function, six);
        if let Some((watch, _)) = &self.watch {
            watch.end();
        }
        if let (Err(Trap::Time), Some(program)) = (result, &mut self.program) {
            // Takes what was sent to it last, which the next call is not to find.
            // SAFETY: no pointers.
            unsafe { program.syscall(libc::SYS_getppid, [0; 6]) };
        }
        Ok(result)
    }
}

/// The word that says that time is over.
struct Marker(*const AtomicBool);

// SAFETY: an atomic, in a box that outlives who watches it.
unsafe impl Send for Marker {}

impl Marker {
    fn mark(&self) {
        // SAFETY: as above.
        unsafe { (*self.0).store(true, Ordering::Relaxed) };
    }
}
