//! Where in the window the parts of a module are.

/// Bytes of a page.
pub const PAGE: u32 = 4096;

/// Where code begins. What is below can be neither read nor run: null pointers, and the
/// table's empty slots, end there.
const CODE: u64 = 0x1_0000;

/// All of code and data: what code addresses without a register is signed, of 32 bits.
const MOST: u64 = 0x7fff_0000;

/// Offsets in the window, whole pages each.
///
/// What is proven of a module is true if the loader does this. The window's 4 GiB are
/// aligned to 4 GiB, the GS base is its first byte, and the 64 KiB above it can be
/// neither read nor written. Code can be read and run; table and read-only data can be
/// read; data, heap and stack can be read and written; nothing else in the window is
/// accessible, and nobody gives the module a way to change that. A slot of the table is
/// 8 bytes: the address of the function or import, or the window's first byte where it is
/// empty. rsp is at the end of a stack outside the window, with a guard page at either
/// end, and the direction flag is clear. Each fault ends the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub code: u32,
    pub table: u32,
    /// Slots, a power of two.
    pub slots: u32,
    pub read_only: u32,
    pub data: u32,
    /// Behind the data and its zeroes.
    pub end: u32,
}

impl Layout {
    /// None if it is more than there is room for.
    pub fn new(code: u64, entries: u64, read_only: u64, data: u64) -> Option<Layout> {
        let most = |n: u64| (n <= MOST).then_some(n);
        let pages = |at: u64| at.next_multiple_of(u64::from(PAGE));
        let slots = most(entries)?.max(1).next_power_of_two();
        let table = pages(CODE + most(code)?);
        let first = pages(table + slots * 8);
        let second = pages(first + most(read_only)?);
        let end = most(pages(second + most(data)?))?;
        Some(Layout {
            code: CODE as u32,
            table: table as u32,
            slots: slots as u32,
            read_only: first as u32,
            data: second as u32,
            end: end as u32,
        })
    }
}
