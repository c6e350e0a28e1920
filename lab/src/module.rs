//! Modules: code of the kernel's own that was built out of its tree, for its image.

use crate::error::{Error, Result};
use crate::log::message;
use crate::Lab;
use std::ffi::CString;
use std::io;
use std::sync::{Mutex, MutexGuard};
use tane::Kernel;

const SYS_INIT_MODULE: i64 = 175;
const SYS_DELETE_MODULE: i64 = 176;
const O_NONBLOCK: u64 = 0o4000;
const ENOEXEC: i32 = 8;
const EWOULDBLOCK: i32 = 11;
const ENOSYS: i32 = 38;

/// A module in a kernel. It stays there when this is dropped.
#[derive(Debug)]
pub struct Module {
    kernel: Kernel,
    name: String,
    said: Vec<String>,
}

impl Lab {
    /// Load a module: `bytes` are those of `file`, NAME.ko, and `parameters` are as
    /// insmod(8) has them, "count=3 name=x". Its code is trusted as the kernel's own is,
    /// and runs in this process.
    ///
    /// Errors: [`Error::NoModules`] where the image loads none; [`Error::Refused`], in
    /// Linux's words, where the module is not one of this image (another release, unknown
    /// symbols), where the file is damaged, or where the module itself says no.
    pub fn module(&self, file: &str, bytes: &[u8], parameters: &str) -> Result<Module> {
        let kernel = self.kernel();
        let refused = |why: String| Error::Refused {
            what: file.to_owned(),
            why,
        };
        let words = CString::new(parameters);
        let words = words.map_err(|_| refused("a NUL in its parameters".into()))?;
        // Which module is new, and which words are about it.
        let _one = one_at_a_time();
        let before = names(kernel)?;
        let log = kernel.dmesg();
        let (start, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
        let args = [start, len, words.as_ptr() as u64, 0, 0, 0];
        // SAFETY: both are read, and outlive the call. What the module does is the caller's.
        let done = unsafe { kernel.try_syscall(SYS_INIT_MODULE, args) };
        let said = said_since(kernel, &log);
        if let Err(error) = done {
            return Err(match error.raw_os_error() {
                Some(ENOSYS) => Error::NoModules,
                _ => refused(reason(&error, &said)),
            });
        }
        self.forget_symbols();
        let new = names(kernel)?
            .into_iter()
            .find(|name| !before.contains(name));
        let name = new.ok_or_else(|| refused("it has gone already".into()))?;
        Ok(Module {
            kernel: kernel.clone(),
            name,
            said,
        })
    }

    /// Take a module out again; what it said then.
    ///
    /// Errors: [`Error::Refused`] where it is in use, or has no way out.
    pub fn unload(&self, module: Module) -> Result<Vec<String>> {
        let Module { kernel, name, .. } = module;
        let refused = |why: String| Error::Refused {
            what: name.clone(),
            why,
        };
        let word = CString::new(name.as_str()).map_err(|_| refused("a NUL in its name".into()))?;
        let _one = one_at_a_time();
        let log = kernel.dmesg();
        let args = [word.as_ptr() as u64, O_NONBLOCK, 0, 0, 0, 0];
        // SAFETY: the name is read, and outlives the call.
        let done = unsafe { kernel.try_syscall(SYS_DELETE_MODULE, args) };
        let said = said_since(&kernel, &log);
        self.forget_symbols();
        match done {
            Ok(_) => Ok(said),
            Err(e) if e.raw_os_error() == Some(EWOULDBLOCK) => Err(refused("it is in use".into())),
            Err(error) => Err(refused(reason(&error, &said))),
        }
    }
}

impl Module {
    /// What the kernel calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel said while it was loaded, the module's own words among it.
    pub fn said(&self) -> &[String] {
        &self.said
    }
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Of all modules that are there.
fn names(kernel: &Kernel) -> Result<Vec<String>> {
    let proc = kernel.tree("/proc")?;
    if !proc.exists("modules")? {
        return Err(Error::NoModules);
    }
    let list = proc.read_to_string("modules")?;
    let names = list.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

/// The lines of the log that came after these, without their times.
fn said_since(kernel: &Kernel, before: &str) -> Vec<String> {
    let log = kernel.dmesg();
    // Of a log that is full, the beginning has gone: its last line is still there.
    let last = before.lines().last().unwrap_or_default();
    let new = log.strip_prefix(before);
    let new = new.or_else(|| log.rsplit_once(last).map(|(_, new)| new));
    let lines = new.unwrap_or(&log).lines().map(message);
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Linux's error and its words.
fn reason(error: &io::Error, said: &[String]) -> String {
    let what = match error.raw_os_error() {
        Some(ENOEXEC) => "it is no module of this kernel".to_owned(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    };
    match said.is_empty() {
        true => what,
        false => format!("{what}: {}", said.join("; ")),
    }
}
