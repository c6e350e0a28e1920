//! Runs a checked module in an ordinary process, by itself or beside a kernel, whose system
//! calls are then functions to it. What `tane_checked::Layout` asks of a loader, this does.
//!
//! ```text
//! checked.rs    a module that was checked, once for all its instances
//! memory.rs     what of it the host reads and writes
//! views.rs      files' pages that are lent to it
//! sockets.rs    which sockets it may have
//! window.rs     the 4 GiB, what of them can be accessed, and the stack of returns
//! switch.rs     from the host into a module and back, by return, import and trap
//! calls.rs      which system calls it may import, and the way of one to the kernel
//! confined.rs   the kernel's task that makes them
//! lines.rs      which line of the source a place in the code comes of
//! signals.rs    faults of a module become traps
//! watch.rs      the end of its time
//! ends.rs       how a call ends, and why there is none
//! ```
//!
//! A thread is in one instance at a time, and an import does not call its module.
//!
//! Imports of ours: `tane-checked`, `tane-host`.

mod calls;
mod checked;
mod confined;
mod ends;
mod lines;
mod memory;
mod signals;
mod sockets;
mod switch;
mod views;
mod watch;
mod window;

pub use calls::{Call, Calls};
pub use checked::Checked;
pub use ends::{Error, Trap};
pub use memory::Memory;
pub use signals::lacks;
pub use watch::Stopper;

use confined::{confined, Scratch};
use lines::Lines;
use std::cell::RefCell;
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switch::{Context, Own, NO_TRAP};
use tane_checked::{check, Layout, Module, PAGE};
use tane_host::Kernel;
use views::Views;
use watch::{Marker, Watch};
use window::Window;

/// What an import is given: its first six arguments, and the module's memory.
pub type Import = Box<dyn FnMut([u64; 6], &Memory) -> u64 + Send>;

/// How many instances there were.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A module in memory. It stays on the thread that made it.
pub struct Instance {
    /// No other one has it.
    number: u64,
    exports: Vec<(String, u32)>,
    layout: Layout,
    // In the order in which they go: whoever uses what comes later.
    watch: Option<(Watch, Duration)>,
    lines: Option<Lines>,
    needs_kernel: bool,
    /// A call on files that it imports.
    needs_directory: Option<String>,
    /// It imports a call that makes sockets.
    has_sockets: bool,
    /// Its memory is of types: views end with the call that has them.
    is_typed: bool,
    kernel: Option<Kernel>,
    context: Box<Context>,
    window: Window,
    process: u64,
    thread: PhantomData<*const ()>,
}

/// A function that an instance exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    instance: u64,
    at: u32,
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
            Some(_) => Calls::files(),
            None => Calls::without_files(),
        });
        let mut instance = Instance::mapped(file, heap, calls.unwrap_or_default(), imports)?;
        if let Some(linux) = linux {
            instance.connect(linux)?;
        }
        Ok(instance)
    }

    /// Checks a module and maps it, for calls of a kernel that is not there yet: a process
    /// may give up making code before that sees anything. [`Instance::connect`] follows.
    pub fn mapped(
        file: &[u8],
        heap: u64,
        calls: Calls,
        imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        let module = check(file).map_err(Error::Refused)?;
        Instance::map(&module, heap, calls, imports)
    }

    /// The same of a module that was checked already. One that makes no calls of a kernel
    /// needs no [`Instance::connect`].
    pub fn of(
        module: &Checked,
        heap: u64,
        calls: Calls,
        imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        Instance::map(&module.module(), heap, calls, imports)
    }

    fn map(
        module: &Module<'_>,
        heap: u64,
        calls: Calls,
        mut imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        // Whatever comes later, it can be called.
        signals::install()?;
        let mut window = Window::new(module, heap.max(PAGE.into()))?;
        let memory = Memory {
            window: window.start(),
            layout: module.layout,
            stack: window.stack(),
            end: window.end(),
            limit: Rc::default(),
            ended: Rc::default(),
            views: Rc::new(RefCell::new(Views::new(window.start(), window.end()))),
        };
        memory.limit.set(memory.heap_end());
        let mut context = Context::new(&mut window, memory);
        let mut thunks = Vec::new();
        let (mut needs_kernel, mut needs_directory, mut has_sockets) = (false, None, false);
        for name in &module.imports {
            let given = imports.iter().position(|(given, _)| given == name);
            let heap = memory::import(name);
            let call = calls.find(name);
            let view = views::import(name).filter(|_| calls.find(views::AS).is_some());
            if given.is_none() && view.is_some() {
                needs_kernel = true;
                needs_directory.get_or_insert((*name).to_owned());
            }
            let socket = call.and_then(|_| sockets::import(name));
            if given.is_none() && socket.is_some() {
                needs_kernel = true;
                has_sockets |= *name == "socket";
            }
            let by_host = heap.or(view).or(socket);
            thunks.push(match (given, by_host, Own::find(name), call) {
                (Some(given), ..) => context.add(imports.swap_remove(given).1),
                (None, Some(import), ..) => context.add(import),
                (None, None, Some(own), _) => context.own(own),
                (None, None, None, Some(call)) => {
                    needs_kernel = true;
                    if call.needs_directory() {
                        needs_directory = Some(call.name.to_owned());
                    }
                    calls::thunk(call, window.address(0))
                }
                (None, None, None, None) => return Err(Error::Import((*name).to_owned())),
            });
        }
        window.fill_table(module, &thunks)?;
        let exports = module
            .exports
            .iter()
            .map(|e| (e.name.to_owned(), e.at))
            .collect();
        Ok(Instance {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            exports,
            lines: Lines::of(module.read_only),
            layout: module.layout,
            watch: None,
            kernel: None,
            needs_kernel,
            needs_directory,
            has_sockets,
            is_typed: module.types.is_some(),
            context,
            window,
            process: signals::process(),
            thread: PhantomData,
        })
    }

    /// The kernel that its calls are for, from now on. Of a mapped instance's memory nothing
    /// was used before.
    pub fn connect(&mut self, linux: Linux<'_>) -> Result<(), Error> {
        if let (Some(name), None) = (&self.needs_directory, linux.directory) {
            return Err(Error::Import(name.clone()));
        }
        let (bytes, at) = (PAGE as usize, self.window.end() - u64::from(PAGE));
        let at = self.window.start().as_ptr() as u64 + at;
        let (start, scratch) = (self.window.address(0), Scratch { at, bytes });
        // SAFETY: the window has room below it, and its last page is heap.
        let program = unsafe { confined(linux, self.has_sockets, start, &scratch) };
        let mut views = self.context.memory.views.borrow_mut();
        views.set_program(Some(program?));
        drop(views);
        self.kernel = Some(linux.kernel.clone());
        Ok(())
    }

    /// From now on a call that takes longer ends with [`Trap::Time`], a sixteenth of that time
    /// later, or a millisecond, where one call follows another: at once in the
    /// module's own code, and in a call of the kernel's as soon as that is over, which
    /// it is at once if it sleeps. Functions of the host's are not interrupted.
    pub fn limit(&mut self, limit: Duration) -> io::Result<()> {
        let mut views = self.context.memory.views.borrow_mut();
        let cancel = match (views.program(), &self.kernel) {
            (Some(program), Some(kernel)) => {
                program.divert(signals::after_call, &raw const *self.context as usize);
                Some(confined::cancel(program, kernel)?)
            }
            _ => None,
        };
        drop(views);
        let context = Marker::new(&self.context.expired);
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
        let function = self.function(name);
        let function = function.ok_or_else(|| Error::Export(name.to_owned()))?;
        self.call_function(function, arguments)
    }

    /// The export with this name, for calls that do not look for it.
    pub fn function(&self, name: &str) -> Option<Function> {
        let export = self.exports.iter().find(|(export, _)| export == name);
        export.map(|(_, at)| Function {
            instance: self.number,
            at: *at,
        })
    }

    /// Calls an export of this instance's, with up to six arguments.
    // Within its caller: a result of this size goes through memory, in parts that whoever reads it
    // at once waits for.
    #[inline(always)]
    pub fn call_function(
        &mut self,
        function: Function,
        arguments: &[u64],
    ) -> Result<Result<u64, Trap>, Error> {
        if !self.can_call(function) || arguments.len() > 6 {
            return Err(self.refuse(function, arguments.len()));
        }
        // Written word by word, as they are read right afterwards: anything wider would be waited for.
        let word = |n: usize| arguments.get(n).copied().unwrap_or(0);
        let six = [word(0), word(1), word(2), word(3), word(4), word(5)];
        match self.run(function.at, &six) {
            (result, NO_TRAP) => Ok(Ok(result)),
            (_, trap) => Ok(Err(self.context.trap(trap))),
        }
    }

    fn can_call(&self, function: Function) -> bool {
        // Elsewhere there can be anything at its place.
        function.instance == self.number
            && self.process == signals::process()
            && !(self.needs_kernel && self.kernel.is_none())
    }

    /// Why it cannot.
    #[cold]
    fn refuse(&self, function: Function, arguments: usize) -> Error {
        if function.instance != self.number {
            Error::Function
        } else if self.process != signals::process() {
            Error::Forked
        } else if self.needs_kernel && self.kernel.is_none() {
            Error::NoKernel
        } else {
            Error::Arguments(arguments)
        }
    }

    fn run(&mut self, at: u32, six: &[u64; 6]) -> (u64, usize) {
        let function = self.window.address(self.layout.code + at);
        if let Some((watch, limit)) = &self.watch {
            watch.begin(*limit);
        }
        let result = self.context.enter(function, six);
        if let Some((watch, _)) = &self.watch {
            watch.end();
        }
        if result.1 != NO_TRAP || self.is_typed || self.context.expired.load(Ordering::Relaxed) {
            self.clean_up();
        }
        result
    }

    /// After a call that did not only return, or has views that end with it.
    #[cold]
    #[inline(never)]
    fn clean_up(&mut self) {
        let mut views = self.context.memory.views.borrow_mut();
        views.give_all_back();
        // However it ended: from here on nobody marks it.
        if self.context.expired.load(Ordering::Relaxed) {
            self.context.expired.store(false, Ordering::Relaxed);
            if let Some(program) = views.program() {
                // Takes what was sent to it last, which the next call is not to find.
                // SAFETY: no pointers.
                unsafe { program.syscall(libc::SYS_getppid, [0; 6]) };
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What tells the program's task something goes before it.
        self.watch = None;
        let mut views = self.context.memory.views.borrow_mut();
        if self.process != signals::process() {
            views.forget();
        }
        // Whoever holds the memory still holds no kernel.
        views.set_program(None);
    }
}
