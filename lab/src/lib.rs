//! Looking into a kernel that runs inside this process.
//!
//! Its image must be `lab`: the others have no probes and no tracers.
//!
//! ```no_run
//! use tane_lab::Trace;
//!
//! let kernel = tane::Kernel::builder().image("tane-lab.elf").boot()?;
//! let lab = kernel.trace()?;
//! let tmp = kernel.tree("/tmp")?;
//!
//! let (written, calls) = lab.graph().run(|| tmp.write("file", "text"))?;
//! written?;
//! print!("{calls}");
//!
//! let probe = lab.probe("vfs_write", "size=$arg3")?;
//! tmp.write("file", "more")?;
//! assert!(probe.hits()? > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! error.rs     what can go wrong
//! files.rs     the kernel's own interface: files of tracefs
//! probe.rs     probes: how often, with what, and what comes back
//! graph.rs     recording which functions calls of a thread go through
//! module.rs    modules, loaded and taken out again
//! log.rs       lines of the kernel's log
//! bpf/         programs of BPF at functions and tracepoints
//! recorder.rs  recording several threads, tracepoints and probes, from here to there
//! call.rs      what was recorded of a thread, call by call
//! record.rs    what was recorded of several
//! tree.rs      calls put together by where they come from
//! chrome.rs    for trace viewers
//! flame.rs     as a flame graph
//! histogram.rs how often which values were there
//! nearest.rs   what a wrong name may have meant
//! ring.rs      the pages that the kernel records into
//! format.rs    where in a record a field is
//! symbols.rs   functions by address
//! ```
//!
//! A kernel has one tracer: [`Graph::run`] of several threads take turns.
//!
//! Imports of ours: `tane`.

mod bpf;
mod call;
mod chrome;
mod error;
mod files;
mod flame;
mod format;
mod graph;
mod histogram;
mod log;
mod module;
mod nearest;
mod probe;
mod record;
mod recorder;
mod ring;
mod symbols;
mod tree;

pub use bpf::{shown, Data, Entry, Map, Programs, Variable};
pub use call::{Call, Calls};
pub use chrome::quoted;
pub use error::{Error, Result};
pub use graph::{booted, Graph};
pub use histogram::{Bucket, Histogram};
pub use log::message;
pub use module::Module;
pub use probe::Probe;
pub use record::{Event, Record, Thread};
pub use recorder::{boot_words, Recorder, Recording};
pub use tree::Node;

use std::sync::{Arc, Mutex};
use symbols::Symbols;
use tane::{Kernel, Mount, MountOptions};

/// What can be looked into.
pub trait Trace {
    /// The tracers and probes of this kernel. They cost nothing until they are used.
    ///
    /// Errors: [`Error::NoTracers`] where the image has none.
    fn trace(&self) -> Result<Lab>;
}

impl Trace for Kernel {
    fn trace(&self) -> Result<Lab> {
        Lab::new(self)
    }
}

/// The tracers and probes of one kernel. Any thread may use it.
pub struct Lab {
    mount: Mount,
    /// Held while there is a recording.
    recording: Mutex<()>,
    /// As they were when somebody last asked.
    symbols: Mutex<Option<Arc<Symbols>>>,
}

impl Lab {
    fn new(kernel: &Kernel) -> Result<Self> {
        if !kernel.filesystems(false)?.iter().any(|f| f == "tracefs") {
            return Err(Error::NoTracers);
        }
        let mount = MountOptions::new()
            .fstype("tracefs")
            .mount(kernel, "none")?;
        let lab = Lab {
            mount,
            recording: Mutex::new(()),
            symbols: Mutex::default(),
        };
        match lab.mount.exists("kprobe_events")? {
            true => Ok(lab),
            false => Err(Error::NoTracers),
        }
    }

    /// The kernel that this looks into.
    pub fn kernel(&self) -> &Kernel {
        self.mount.kernel()
    }

    /// Functions that a probe or a graph can name.
    pub fn functions(&self) -> Result<Vec<String>> {
        let list = self.get("available_filter_functions")?;
        // Behind a module's function is the module, in brackets.
        let names = list.lines().filter_map(|line| line.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    fn symbols(&self) -> Result<Arc<Symbols>> {
        let mut known = self.symbols.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let read = Arc::new(Symbols::read(self.kernel())?);
        *known = Some(read.clone());
        Ok(read)
    }

    /// There are others now.
    fn forget_symbols(&self) {
        *self.symbols.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}
