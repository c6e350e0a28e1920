//! Runs a checked module in an ordinary process, by itself or beside a kernel, whose system
//! calls are then functions to it. What `tane_checked::Layout` asks of a loader, this does.
//!
//! ```text
//! window.rs     the 4 GiB, what of them can be accessed, and the stack of returns
//! switch.rs     from the host into a module and back, by return, import and trap
//! calls.rs      which system calls it may import, and the way of one to the kernel
//! confined.rs   the kernel's task that makes them
//! lines.rs      which line of the source a place in the code comes of
//! signals.rs    faults of a module become traps
//! watch.rs      the end of its time
//! ```
//!
//! A thread is in one instance at a time, and an import does not call its module.
//!
//! Imports of ours: `tane-checked`, `tane-host`.

mod calls;
mod confined;
mod lines;
mod signals;
mod switch;
mod watch;
mod window;

pub use calls::{Call, Calls};
pub use signals::lacks;
pub use watch::Stopper;

use confined::{confined, Scratch};
use lines::Lines;
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switch::{Context, Own};
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
    /// None: it called `tane_exit` with this.
    Exit(i32),
}

/// Why there is no instance, or no call.
#[derive(Debug)]
pub enum Error {
    Refused(Refusal),
    /// The module imports what was not given.
    Import(String),
    /// The module does not export this.
    Export(String),
    /// The module makes calls of a kernel, and was given none.
    NoKernel,
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
    /// The stack's lowest byte, and the one behind its highest.
    stack: u64,
    end: u64,
}

impl Memory {
    fn at(&self, offset: u64, bytes: usize, from: u32) -> Option<*mut u8> {
        let last = offset.checked_add(bytes as u64)?;
        let heap = self.heap_end();
        let inside = offset >= u64::from(from) && last <= self.end;
        let inside = inside && (last <= heap || offset >= self.stack);
        // SAFETY: within what is mapped.
        inside.then(|| unsafe { self.window.as_ptr().add(offset as usize) })
    }

    /// The first byte behind the module's data: its heap, up to [`Memory::heap_end`].
    pub fn heap(&self) -> u64 {
        self.layout.end.into()
    }

    /// The first byte behind the heap.
    pub fn heap_end(&self) -> u64 {
        match self.guard() {
            [low, high] if low == high => self.end,
            [low, _] => low,
        }
    }

    /// What lies between heap and stack: nothing, if there is no room for it.
    fn guard(&self) -> [u64; 2] {
        match self.stack > self.layout.end.into() {
            true => [self.stack - window::GUARD as u64, self.stack],
            false => [self.stack; 2],
        }
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
    lines: Option<Lines>,
    needs_kernel: bool,
    program: Option<Program>,
    kernel: Option<Kernel>,
    context: Box<Context>,
    window: Window,
    thread: PhantomData<*const ()>,
}

/// Where in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where in the code.
    pub at: u32,
    /// The function with a name of its own that begins there or before. That may be another:
    /// `static` ones have none.
    pub function: Option<String>,
    /// File and line of the source, as whoever made the module says.
    pub line: Option<(String, u32)>,
}

/// A kernel that an instance makes calls to.
#[derive(Clone, Copy)]
pub struct Linux<'a> {
    pub kernel: &'a Kernel,
    /// A directory of the kernel's: the instance's root, and its descriptor 0. Without
    /// one it makes no calls on files.
    pub directory: Option<&'a CStr>,
    /// How many descriptors are that directory: 3 where 0, 1 and 2 are not to be a file's.
    pub descriptors: u32,
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
        imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        let calls = linux.map(|linux| match linux.directory {
            Some(_) => Calls::all(),
            None => Calls::without_files(),
        });
        let mut instance = Instance::mapped(file, heap, calls.unwrap_or_default(), imports)?;
        match linux {
            Some(linux) => instance.connect(linux)?,
            None => signals::install()?,
        }
        Ok(instance)
    }

    /// Checks a module and maps it, for calls of a kernel that is not there yet: a process
    /// may give up making code before that sees anything. [`Instance::connect`] follows.
    pub fn mapped(
        file: &[u8],
        heap: u64,
        calls: Calls,
        mut imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        let module = check(file).map_err(Error::Refused)?;
        let mut window = Window::new(&module, heap.max(PAGE.into()))?;
        let memory = Memory {
            window: window.start(),
            layout: module.layout,
            stack: window.stack(),
            end: window.end(),
        };
        let mut context = Context::new(&mut window, memory);
        let mut thunks = Vec::new();
        let mut needs_kernel = false;
        for name in &module.imports {
            let given = imports.iter().position(|(given, _)| given == name);
            let call = calls.find(name);
            thunks.push(match (given, Own::find(name), call) {
                (Some(given), _, _) => context.add(imports.swap_remove(given).1),
                (None, Some(own), _) => context.own(own),
                (None, None, Some(call)) => {
                    needs_kernel = true;
                    calls::thunk(call, window.address(0))
                }
                (None, None, None) => return Err(Error::Import((*name).to_owned())),
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
            lines: Lines::of(module.read_only),
            layout: module.layout,
            watch: None,
            kernel: None,
            needs_kernel,
            program: None,
            context,
            window,
            thread: PhantomData,
        })
    }

    /// The kernel that its calls are for, from now on. Of a mapped instance's memory nothing
    /// was used before.
    pub fn connect(&mut self, linux: Linux<'_>) -> Result<(), Error> {
        let (bytes, at) = (PAGE as usize, self.window.end() - u64::from(PAGE));
        let at = self.window.start().as_ptr() as u64 + at;
        let (start, scratch) = (self.window.address(0), Scratch { at, bytes });
        // SAFETY: the window has room below it, and its last page is heap.
        let program = unsafe { confined(linux, start, &scratch) };
        self.program = Some(program?);
        self.kernel = Some(linux.kernel.clone());
        // After the kernel's, so that a module's faults need not pass there first.
        Ok(signals::install()?)
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

    /// What ends its calls from another thread, as the end of their time does; none without
    /// [`Instance::limit`].
    pub fn stopper(&self) -> Option<Stopper> {
        self.watch.as_ref().map(|(watch, _)| watch.stopper())
    }

    /// Memory that is the module's.
    pub fn memory(&self) -> &Memory {
        &self.context.memory
    }

    /// The first byte behind the module's data: its heap, up to [`Memory::heap_end`].
    pub fn heap(&self) -> u64 {
        self.memory().heap()
    }

    /// Where the window is, for those who look whether it was left.
    pub fn window(&self) -> NonNull<u8> {
        self.window.start()
    }

    /// Copies bytes to the upper end of its stack, and says where they are; none if there is
    /// no room.
    pub fn give(&mut self, bytes: &[u8]) -> Option<u64> {
        self.context.give(bytes)
    }

    /// Whether it has a function of this name to be called.
    pub fn exports(&self, name: &str) -> bool {
        self.exports.iter().any(|(export, _)| export == name)
    }

    /// Where the last call was when it was ended, if that is known.
    pub fn place(&self) -> Option<Place> {
        let at = self.context.at.checked_sub(self.context.code[0])?;
        let at = u32::try_from(at).ok()?;
        let inside = at < self.context.code[1].wrapping_sub(self.context.code[0]) as u32;
        let before = self.exports.iter().filter(|(_, start)| *start <= at);
        let function = before.max_by_key(|(_, start)| *start);
        inside.then(|| Place {
            at,
            function: function.map(|(name, _)| name.clone()),
            line: self.lines.as_ref().and_then(|lines| lines.find(at)),
        })
    }

    /// Calls an export with up to six arguments.
    pub fn call(&mut self, name: &str, arguments: &[u64]) -> Result<Result<u64, Trap>, Error> {
        let export = self.exports.iter().find(|(export, _)| export == name);
        let (_, at) = export.ok_or_else(|| Error::Export(name.to_owned()))?;
        if self.needs_kernel && self.program.is_none() {
            return Err(Error::NoKernel);
        }
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
