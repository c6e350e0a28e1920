//! What there is of a program's thread beside its task: its registers while it is in the
//! kernel, and what the kernel tells it. Any host thread that runs programs can go on with
//! it (`run_carriers.rs`); while one does, it is that thread's.

use crate::abi;
use crate::run_back::Back;
use crate::thread_slot::ThreadSlot;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU32, AtomicU8, Ordering};
use std::sync::OnceLock;

/// x87, SSE, AVX and AVX-512: what is saved. Protection keys stay as they are.
const FEATURES: u64 = 0xe7;
const XSTATE_SIZE: usize = 2816;

/// The address of `program` is what the kernel knows it by (`tane_thread.program`).
#[repr(C, align(64))]
pub struct GuestState {
    xstate: [u8; XSTATE_SIZE],
    pub program: abi::Program,
    /// `program.xfeatures`, when the vector registers are there.
    pub features: u64,
    /// 1: do not go out, ask for signals.
    pub called: AtomicU8,
    /// 1: in the program, on the way there or on the way back.
    pub out: AtomicU8,
    /// The host thread that runs it, 0: none.
    pub carrier: AtomicU32,
    /// What is done with the answer to the call that it waits for.
    pub after: After,
    /// It is one of `Inner::waiting`.
    pub counted: bool,
}

/// What is done with the kernel's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum After {
    /// It is rax.
    Rax,
    /// The same, of a call by a signal; the address behind it.
    Trapped(u64),
    /// The same, of a call by the gate.
    ByGate(Back),
    /// The same, which did not look at signals.
    AtGate(Back),
}

/// A guest, by its owner: the host thread that runs it, or who makes or ends it.
#[derive(Clone, Copy)]
pub struct Guest(NonNull<GuestState>);

// SAFETY: one thread at a time is its owner.
unsafe impl Send for Guest {}

const LAYOUT: Layout = Layout::new::<GuestState>();

impl Guest {
    /// None: there is no memory.
    pub fn new() -> Option<Self> {
        // SAFETY: the layout is not empty; all zeros are a state (`After::Rax` is 0).
        unsafe {
            let state = NonNull::new(alloc_zeroed(LAYOUT).cast::<GuestState>())?;
            let at = state.as_ptr();
            let (features, size) = vector_state();
            (*at).program.xstate = &raw const (*at).xstate as u64;
            (*at).program.xfeatures = features;
            (*at).features = features;
            (*at).program.xstate_size = size;
            Some(Self(state))
        }
    }

    /// That of a slot, if a program's thread has it.
    pub fn of(slot: ThreadSlot) -> Option<Self> {
        let program = slot.program().load(Ordering::Relaxed) as *mut u8;
        let state = program.wrapping_sub(offset_of!(GuestState, program));
        NonNull::new(program)
            .and(NonNull::new(state.cast()))
            .map(Self)
    }

    /// # Safety
    /// Nobody knows of it any more.
    pub unsafe fn free(self) {
        // SAFETY: made by `new`, and as the caller promises.
        unsafe { dealloc(self.0.as_ptr().cast(), LAYOUT) };
    }

    pub fn state(self) -> *mut GuestState {
        self.0.as_ptr()
    }

    /// What `tane_thread.program` says.
    pub fn address(self) -> u64 {
        // SAFETY: it exists.
        unsafe { &raw const (*self.0.as_ptr()).program as u64 }
    }

    /// The program's registers.
    ///
    /// # Safety
    /// The task exists, and is not inside the kernel; the caller is the owner.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn regs<'a>(self) -> &'a mut abi::PtRegs {
        // SAFETY: the kernel has written it; as the caller promises.
        unsafe { &mut *((*self.0.as_ptr()).program.regs as *mut abi::PtRegs) }
    }

    /// Its task's id in the kernel.
    pub fn thread(self) -> u32 {
        // SAFETY: it exists; the kernel writes it before the task's first moment.
        unsafe { (&raw const (*self.0.as_ptr()).program.tid).read_volatile() }
    }

    /// Whether the program has a tracer inside, which is to see all of its calls with all
    /// of its registers.
    pub fn is_traced(&self) -> bool {
        // SAFETY: it exists; the kernel writes it before it answers.
        unsafe { (&raw const (*self.0.as_ptr()).program.traced).read_volatile() != 0 }
    }

    /// So many nanoseconds its code has run and the kernel does not know yet. By the owner.
    pub fn ran(&self) -> u64 {
        // SAFETY: it exists; the kernel takes it away while the owner waits for its answer.
        unsafe { (&raw const (*self.0.as_ptr()).program.ran).read_volatile() }
    }

    /// It has run for so many more.
    pub fn has_run(&self, nanoseconds: u64) {
        let sum = self.ran() + nanoseconds;
        // SAFETY: as above.
        unsafe { (&raw mut (*self.0.as_ptr()).program.ran).write_volatile(sum) }
    }

    fn called(&self) -> &AtomicU8 {
        // SAFETY: it exists; an atomic.
        unsafe { &(*self.0.as_ptr()).called }
    }

    /// Who runs it.
    pub fn carrier(&self) -> &AtomicU32 {
        // SAFETY: it exists; an atomic.
        unsafe { &(*self.0.as_ptr()).carrier }
    }

    /// Have the next way out ask for signals at once. From any thread.
    pub fn call_in(&self) {
        self.called().store(1, Ordering::SeqCst);
    }

    pub fn was_called_in(&self) {
        self.called().store(0, Ordering::Relaxed);
    }

    /// Whether a host thread may be in the program: not, once it was called in and this
    /// was false. From any thread.
    pub fn is_out(&self) -> bool {
        fence(Ordering::SeqCst);
        // SAFETY: it exists; an atomic.
        unsafe { (*self.0.as_ptr()).out.load(Ordering::SeqCst) != 0 }
    }
}

/// The features that are saved, and where XSAVE's standard format ends with them. Asked
/// once: each `cpuid` leaves a virtual machine.
fn vector_state() -> (u64, u32) {
    static STATE: OnceLock<(u64, u32)> = OnceLock::new();
    *STATE.get_or_init(ask_for_vector_state)
}

fn ask_for_vector_state() -> (u64, u32) {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    unsafe fn xcr0() -> u64 {
        // SAFETY: the caller has seen that the instruction is there.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: `possible` has looked for XSAVE.
    let features = unsafe { xcr0() } & FEATURES;
    let mut size = 576;
    for component in 2..8 {
        if features >> component & 1 != 0 {
            let leaf = __cpuid_count(0xd, component);
            size = size.max(leaf.ebx + leaf.eax);
        }
    }
    assert!(size as usize <= XSTATE_SIZE, "XSAVE's area is larger");
    (features, size)
}
