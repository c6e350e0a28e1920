//! What a kernel is booted with.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::kernel_image::default_image;
use crate::missing::Guard;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// Settings of a kernel to be booted.
///
/// ```no_run
/// let kernel = tane::Kernel::builder()
///     .memory(512 << 20)
///     .log(|text| eprint!("{text}"))
///     .boot()?;
/// # Ok::<(), tane::Error>(())
/// ```
#[derive(Default)]
pub struct Builder {
    image: Option<PathBuf>,
    memory: Option<u64>,
    working_set: u64,
    cpus: Option<u32>,
    cmdline: String,
    nokaslr: bool,
    deterministic: Option<tane_host::Deterministic>,
    sleep_at_once: bool,
    programs: bool,
    shared: bool,
    compare: bool,
    log: Option<Sink>,
}

impl Builder {
    /// The defaults: the image of [`default_image`], 256 MiB, one CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kernel image to load.
    pub fn image(mut self, path: impl Into<PathBuf>) -> Self {
        self.image = Some(path.into());
        self
    }

    /// The kernel's memory in bytes, at least some 32 MiB; 256 MiB if not said.
    /// Only what the kernel touches is taken from the host.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How much of its memory the kernel will surely use, in bytes: where the host has
    /// a processor for it, another thread gets that from the host, as each page costs
    /// whoever touches it first one or two microseconds. What is not used then is taken
    /// nevertheless. 0 if not said.
    pub fn working_set(mut self, bytes: u64) -> Self {
        self.working_set = bytes;
        self
    }

    /// Virtual CPUs, 1 if not said. More than one takes an image built for it.
    pub fn cpus(mut self, count: u32) -> Self {
        self.cpus = Some(count);
        self
    }

    /// Words for the kernel command line; may be called several times. See
    /// Linux's Documentation/admin-guide/kernel-parameters.rst.
    pub fn cmdline(mut self, words: &str) -> Self {
        if !self.cmdline.is_empty() {
            self.cmdline.push(' ');
        }
        self.cmdline.push_str(words);
        self
    }

    /// Load the image at the same address each time, for debugging.
    pub fn nokaslr(mut self) -> Self {
        self.nokaslr = true;
        self
    }

    /// Whether a thread that waits for its call looks for the result for some
    /// microseconds before it sleeps; it does unless told. Answers of another thread
    /// come sooner by that where processors are free, and later where others want
    /// them, as in a program with many more threads than processors.
    pub fn spin(mut self, spin: bool) -> Self {
        self.sleep_at_once = !spin;
        self
    }

    /// A kernel that does the same in every run, if its callers do: its clock
    /// stands still at `time`, in seconds since 1970, and what it takes for entropy
    /// comes from `seed` (so that nothing it draws is secret).
    ///
    /// Time passes only while a call has nothing left to wait for but a timer, and
    /// then as far as that timer at once: a sleep of a minute takes a millisecond.
    /// What a call sets going behind it has ended when it returns; of disks that
    /// takes [`DiskOptions::in_order`](crate::DiskOptions::in_order).
    /// Takes a kernel with one CPU; calls of several threads at a time come in an
    /// order that nothing fixes.
    pub fn deterministic(mut self, time: u64, seed: u64) -> Self {
        self.deterministic = Some(tane_host::Deterministic {
            realtime: time.saturating_mul(1_000_000_000),
            seed,
        });
        self
    }

    /// Gets the kernel's log, piece by piece, as it is written. It is called
    /// from within the kernel, on any thread: it must be quick and must not
    /// call the kernel. [`Kernel::dmesg`] has the log in any case.
    pub fn log(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(sink));
        self
    }

    /// Keep room in the address space for programs ([`Kernel::spawn`]); one kernel of a
    /// process can. The image must be `run`.
    pub fn programs(mut self, yes: bool) -> Self {
        self.programs = yes;
        self
    }

    /// Whether forks of this process go on using the kernel, each as a Linux process of
    /// its own that fork(2) has made: pipes, files and wait4(2) work between them. In
    /// forks of other processes all calls answer ENOTSUP. What a shared kernel does not do
    /// is in docs/processes.md; memory cannot be mapped from it.
    pub fn shared(mut self, yes: bool) -> Self {
        self.shared = yes;
        self
    }

    /// For [`Kernel::checkpoint`], find what was written by comparing all memory, some
    /// milliseconds more each time: in a jail that does not let this process ask the host.
    pub fn compare(mut self, yes: bool) -> Self {
        self.compare = yes;
        self
    }

    /// Load the image and boot it; some milliseconds.
    ///
    /// Errors: ENOENT no image; ENOEXEC the file is not an image this library
    /// can load; EINVAL settings it cannot meet; ENOMEM no memory; EIO it died.
    pub fn boot(self) -> Result<Kernel> {
        let path = match self.image {
            Some(path) => path,
            None => default_image()?,
        };
        let image = tane_host::Image::open(&path)
            .map_err(|error| Error::from_source(image_errno(&error), "boot", error))?;
        let mut host = tane_host::Builder {
            cmdline: self.cmdline,
            log: self.log,
            deterministic: self.deterministic,
            working_set: self.working_set,
            spin: !self.sleep_at_once,
            programs: self.programs,
            shared: self.shared,
            compare: self.compare,
            ..Default::default()
        };
        host.ram = self.memory.unwrap_or(host.ram);
        host.cpus = self.cpus.unwrap_or(host.cpus);
        if self.nokaslr {
            host.cmdline.push_str(" nokaslr");
        }
        let faults = Guard::new();
        let machine = host
            .boot(&image)
            .map_err(|error| Error::from_source(boot_errno(&error), "boot", error))?;
        Kernel::start(machine, faults)
    }
}

/// Take what booting takes of the host, before this process enters a jail in which it
/// opens no files and makes none in memory: for kernels of these images, as many at a time
/// as `kernels`, each with at most `memory` bytes (256 MiB: [`MEMORY`](crate::MEMORY)).
/// They can then be booted again and again; the memory of one that has ended is for the
/// next. What [`Jail::boots_from`](crate::jail::Jail::boots_from) takes.
///
/// Errors: those of [`Builder::boot`] that concern the images, and EMFILE.
pub fn provide(images: &[&Path], kernels: usize, memory: u64) -> Result<Vec<RawFd>> {
    tane_host::provide(images, kernels, memory)
        .map_err(|error| Error::from_source(boot_errno(&error), "boot", error))
}

fn image_errno(error: &tane_host::ImageError) -> i32 {
    use tane_host::ImageError::*;
    match error {
        Io(_, error) => error.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::ENOEXEC,
    }
}

fn boot_errno(error: &tane_host::BootError) -> i32 {
    use tane_host::BootError::*;
    match error {
        Image(error) => image_errno(error),
        Memory(error) => error.raw_os_error().unwrap_or(libc::ENOMEM),
        Thread(error) => error.raw_os_error().unwrap_or(libc::EAGAIN),
        TooManyKernels => libc::EAGAIN,
        Options(_) => libc::EINVAL,
        _ => libc::EIO,
    }
}
