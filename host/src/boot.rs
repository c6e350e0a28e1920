//! Making a kernel: what it is made with, and its first moments.

use crate::abi;
use crate::address::Physical;
use crate::area::{self, Area};
use crate::bias;
use crate::call::{Caller, GONE};
use crate::clock::{self, Clock, Deterministic};
use crate::cpu::{self, CpuNumber, Gate};
use crate::host_vdso;
use crate::image::{Image, ImageError};
use crate::inner::{Inner, Parts};
use crate::kernel::Kernel;
use crate::log::Log;
use crate::memory::{Memory, Sizes, PAGE};
#[cfg(not(tane_tsan))]
use crate::ops::table;
use crate::prefault;
#[cfg(tane_tsan)]
use crate::tsan::table;
use crate::{fork, run_gate, service, supervise, thread};
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A kernel's memory unless somebody says otherwise, in bytes.
pub const MEMORY: u64 = 256 << 20;

/// What a kernel is made with. All sizes in bytes.
pub struct Builder {
    /// The kernel's memory, the image included.
    pub ram: u64,
    /// The kernel command line.
    pub cmdline: String,
    /// Several virtual CPUs need an image built for them.
    pub cpus: u32,
    /// Load at a random address (and let `nokaslr` on the command line win).
    pub randomise: bool,
    /// Address space for the kernel's own mappings.
    pub vmalloc: u64,
    /// Address space for what `mmap` shows the program.
    pub user_window: u64,
    /// Keep the lower half of the address space for programs ([`Kernel::spawn`]), as far
    /// as it is free. One kernel of a process can.
    pub programs: bool,
    /// What it will surely use of its RAM: another thread gets that from the host.
    pub working_set: u64,
    /// A thread that waits for its call looks for the result for some microseconds
    /// before it sleeps. To sleep at once is better where others want the processors.
    pub spin: bool,
    /// Forks of this process go on using the kernel, each as a Linux process of its own:
    /// a copy of its parent's, made by the host's fork(2). Other kernels stay with the
    /// process that booted them, and calls in its forks answer `-ENOTSUP`. docs/processes.md
    /// says what is different in a shared one.
    pub shared: bool,
    /// Instead of the host's clocks and entropy. One CPU only.
    pub deterministic: Option<Deterministic>,
    /// For [checkpoints](Kernel::checkpoint), find what was written by comparing all memory,
    /// as on a host before Linux 6.7, which cannot tell.
    pub compare: bool,
    /// Called with each piece of the kernel's log as it is written, inside the kernel's
    /// CPU: must be quick, and must not call the kernel.
    #[allow(clippy::type_complexity)]
    pub log: Option<Box<dyn Fn(&str) + Send + Sync>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ram: MEMORY,
            cmdline: String::new(),
            cpus: 1,
            randomise: true,
            vmalloc: 16 << 30,
            user_window: 64 << 30,
            programs: false,
            working_set: 0,
            spin: true,
            shared: false,
            deterministic: None,
            compare: false,
            log: None,
        }
    }
}

/// Why a kernel did not come up.
#[derive(Debug)]
pub enum BootError {
    /// The image cannot be loaded.
    Image(ImageError),
    /// The host has no memory or address space for it.
    Memory(io::Error),
    /// The host has no thread for it.
    Thread(io::Error),
    /// This process has as many as signal handlers can look through.
    TooManyKernels,
    /// What the builder was told cannot be; why.
    Options(&'static str),
    /// It died; the text is the end of its log.
    Died(String),
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => error.fmt(f),
            Self::Memory(error) => write!(f, "no memory for the kernel: {error}"),
            Self::Thread(error) => write!(f, "no thread for the kernel: {error}"),
            Self::TooManyKernels => write!(f, "this process has too many kernels"),
            Self::Options(what) => f.write_str(what),
            Self::Died(text) => write!(f, "the kernel died while booting: {text}"),
        }
    }
}

impl std::error::Error for BootError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Image(error) => Some(error),
            Self::Memory(error) | Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ImageError> for BootError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl Builder {
    /// Load the image, start its service threads and boot it. Blocks until
    /// process 1 runs, some milliseconds.
    pub fn boot(self, image: &Image) -> Result<Kernel, BootError> {
        #[cfg(tane_tsan)]
        crate::tsan::prepare();
        cpu::detect();
        fork::watch();
        bias::prepare();
        let cpus = self.cpus.clamp(1, abi::MAX_VCPUS as u32);
        if cpus > image.header.smp {
            return Err(BootError::Options(
                "more virtual CPUs than this kernel image can use (tiny: one; the others: eight)",
            ));
        }
        if cpus > 1 && self.deterministic.is_some() {
            return Err(BootError::Options(
                "several virtual CPUs are not in step: a deterministic kernel has one",
            ));
        }
        if self.cmdline.len() >= abi::CMDLINE_SIZE {
            return Err(BootError::Options("the kernel command line is too long"));
        }
        let ram = self.ram.next_multiple_of(PAGE);
        if ram < image.header.image_end + (8 << 20) {
            return Err(BootError::Options(
                "too little memory for this kernel image",
            ));
        }
        if self
            .deterministic
            .is_some_and(|how| how.realtime > clock::LATEST_START)
        {
            return Err(BootError::Options(
                "Linux cannot count the time that much later: a deterministic kernel begins before 2116",
            ));
        }
        if self.shared && self.deterministic.is_some() {
            return Err(BootError::Options(
                "processes of the host are not in step: a deterministic kernel cannot be shared",
            ));
        }
        if self.shared && self.programs {
            return Err(BootError::Options(
                "a shared kernel runs no programs yet: leave out one of `shared` and `programs`",
            ));
        }
        let nokaslr = self.cmdline.split_whitespace().any(|w| w == "nokaslr");
        let sizes = Sizes {
            ram,
            area: area::SIZE,
            vmalloc: self.vmalloc,
            user: self.user_window,
            programs: self.programs,
            shared: self.shared,
        };
        let mut memory =
            Memory::new(&sizes, self.randomise && !nokaslr).map_err(BootError::Memory)?;
        // What booting touches for certain.
        let h = &image.header;
        memory.shown.start = Physical(h.data_end.next_multiple_of(PAGE));
        memory.populate(Physical(h.data_end), h.image_end - h.data_end);
        memory
            .populate_tail(ram / PAGE * h.struct_page_size, self.shared)
            .map_err(BootError::Memory)?;
        // SAFETY: fresh memory of the right sizes, which lives as long as Inner.
        let (area, gate) = unsafe {
            image.load(memory.base.pointer(), self.shared)?;
            (
                Area::new(memory.area()),
                Gate::new(memory.base, &image.header),
            )
        };
        let log = self.shared.then(|| &raw const area.common().shared.log);
        let parts = Parts {
            memory,
            area,
            gate,
            header: image.header,
            log: Log::new(self.log, log),
            clock: Clock::new(self.deterministic),
            spin: self.spin,
            shared: self.shared,
            compare: self.compare,
        };
        let inner = Inner::new(parts, cpus).ok_or(BootError::TooManyKernels)?;
        prepare(&inner, &self.cmdline, cpus);
        start(&inner, self.working_set)?;
        Ok(Kernel::new(inner))
    }
}

/// Fill the shared structures.
fn prepare(inner: &Arc<Inner>, cmdline: &str, cpus: u32) {
    let (area, memory) = (&inner.area, &inner.memory);
    let mut text = [0; abi::CMDLINE_SIZE];
    text[..cmdline.len()].copy_from_slice(cmdline.as_bytes());
    // SAFETY: nobody else uses the area yet.
    unsafe {
        for i in 0..cpus {
            let vcpu = area.vcpus().add(i as usize);
            (&raw mut (*vcpu).self_).write(vcpu as u64);
            (&raw mut (*vcpu).cpu).write(i);
            (&raw mut (*vcpu).program).write(memory.base.0 + inner.header.program);
            (*vcpu).deadline.store(u64::MAX, Ordering::Relaxed);
            if inner.member.is_some() {
                (*vcpu).patience.store(bias::NEVER, Ordering::Relaxed);
            }
        }
        area.ops().write(table(Arc::as_ptr(inner)));
        area.boot().write(abi::Boot {
            magic: abi::MAGIC,
            version: abi::VERSION,
            size: size_of::<abi::Boot>() as u32,
            base: memory.base.0,
            ram_size: memory.ram_size,
            vmalloc_start: memory.vmalloc.start.0,
            vmalloc_end: memory.vmalloc.end.0,
            user_start: memory.user.start.0,
            user_end: memory.user.end.0,
            shown_start: memory.shown.start.0,
            shown_end: memory.shown.end.0,
            program_start: memory.program.start.0,
            program_end: memory.program.end.0,
            clock_gettime: match inner.clock.is_still() {
                true => 0,
                false => host_vdso::clock_gettime(),
            },
            program_gate: run_gate::address(),
            nr_vcpus: cpus,
            randomised: u32::from(memory.randomised),
            shared: inner.process(),
            pad: 0,
            vcpus: area.vcpus(),
            init_thread: area.init_thread().ptr(),
            virtio: area.virtio(),
            ops: area.ops(),
            cmdline: text,
        });
    }
}

/// Boot on this thread: the answer to process 1's first request says it is up.
fn start(inner: &Arc<Inner>, working_set: u64) -> Result<(), BootError> {
    thread::ensure_signal_stack();
    let cpu = inner.cpu(CpuNumber::FIRST);
    assert!(cpu.try_lock(), "a CPU that nobody knows yet");
    cpu.online().store(1, Ordering::Release);
    for cpu in inner.cpus() {
        let thread = service::spawn(inner, *cpu).map_err(|error| {
            cpu.unlock();
            BootError::Thread(error)
        })?;
        inner.add_service(thread);
    }
    if inner.member.is_some() {
        let threads = supervise::spawn(inner).map_err(|error| {
            cpu.unlock();
            BootError::Thread(error)
        })?;
        for thread in threads {
            inner.add_service(thread);
        }
    }
    if working_set != 0 {
        // Without it all is well, but slower.
        if let Ok(Some(thread)) = prefault::spawn(inner, working_set) {
            inner.add_service(thread);
        }
    }
    let caller = Caller::new(inner.area.init_thread(), inner.tid());
    // SAFETY: the slot is ours until the kernel answers.
    unsafe { caller.slot.ask(abi::NR_BOOT, &[0; 6]) };
    let state = caller.slot.state();
    state.store(abi::THREAD_POSTED, Ordering::Release);
    cpu.occupy(caller.tid);
    let exit = (inner.gate.start)(cpu.ptr(), inner.area.boot());
    let answer = inner.finish(caller, cpu, exit.reason);
    if answer == GONE {
        return Err(BootError::Died(inner.last_words()));
    }
    if let Some(member) = &inner.member {
        member.is_up_now();
    }
    Ok(())
}
