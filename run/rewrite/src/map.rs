//! From a place in trampolines to the place in the text that it stands for, and back.
//!
//! What a program sees of its own instruction pointer (signal frames, core dumps,
//! registers that a debugger reads) has to be where it would be without us: C libraries
//! compare it with ranges of their own code to tell whether a thread can be cancelled.
//! The functions here need no heap, so that signal handlers can use them.

/// Of an entry: no text.
pub const NOWHERE: u32 = u32::MAX;

/// From here on, until the next entry, a trampoline stands for this place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Entry {
    /// Offset in the region of trampolines.
    pub trampoline: u32,
    /// Offset in the segment, or [`NOWHERE`].
    pub original: u32,
}

/// A place where a patched site has a trap, or has while it is patched, and where it goes
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Resume {
    /// Offset in the segment: the `syscall`, or what is behind it.
    pub original: u32,
    /// Offset in the region of trampolines.
    pub trampoline: u32,
}

/// The offset in the segment that an instruction pointer at this offset in the region
/// stands for. What the program has not done yet is done again if it goes on there; what
/// it has done is not.
pub fn original(entries: &[Entry], trampoline: u32) -> Option<u32> {
    let behind = entries.partition_point(|entry| entry.trampoline <= trampoline);
    let entry = entries.get(behind.checked_sub(1)?)?;
    (entry.original != NOWHERE).then_some(entry.original)
}

/// Where a program goes on that met a trap at this offset in the segment, if that is ours.
pub fn resume(table: &[Resume], original: u32) -> Option<u32> {
    let at = table.binary_search_by_key(&original, |resume| resume.original);
    Some(table.get(at.ok()?)?.trampoline)
}
