//! Runs a checked module in an ordinary process, without a kernel of Tane's: for tests
//! and for measurements. What `tane_checked::Layout` asks of a loader, this does.
//!
//! ```text
//! window.rs     the 4 GiB, what of them can be accessed, and the stack of returns
//! switch.rs     from the host into a module and back, by return, import and trap
//! signals.rs    faults of a module become traps
//! ```
//!
//! A thread is in one instance at a time, and an import does not call its module.
//!
//! Imports of ours: `tane-checked`.

mod signals;
mod switch;
mod window;

pub use signals::lacks;

use std::io;
use std::ptr::NonNull;
use switch::Context;
use tane_checked::{check, Layout, Refusal};
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

/// A module in memory.
pub struct Instance {
    exports: Vec<(String, u32)>,
    layout: Layout,
    context: Box<Context>,
    window: Window,
}

impl Instance {
    /// Checks the module, maps it, and gives it so many bytes of heap and stack.
    pub fn new(
        file: &[u8],
        heap: u64,
        mut imports: Vec<(&str, Import)>,
    ) -> Result<Instance, Error> {
        let module = check(file).map_err(Error::Refused)?;
        signals::install()?;
        let mut functions = Vec::new();
        for name in &module.imports {
            let given = imports.iter().position(|(given, _)| given == name);
            let given = given.ok_or_else(|| Error::Import((*name).to_owned()))?;
            functions.push(imports.swap_remove(given).1);
        }
        let mut window = Window::new(&module, heap)?;
        let memory = Memory {
            window: window.start(),
            layout: module.layout,
            end: window.end(),
        };
        let context = Context::new(&mut window, memory, functions);
        window.fill_table(&module, &*context)?;
        let exports = module
            .exports
            .iter()
            .map(|e| (e.name.to_owned(), e.at))
            .collect();
        Ok(Instance {
            exports,
            layout: module.layout,
            context,
            window,
        })
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
        let function = self.layout.code + at;
        Ok(self.context.enter(self.window.address(function), six))
    }
}
