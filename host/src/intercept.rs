//! Who makes jumps of programs' system calls: what it is told, and what it can do to a
//! program's code. Without one each call is a signal of the host's.

use crate::abi;
use crate::call::{Caller, Wait};
use crate::inner::Inner;
use crate::kernel::Kernel;
use crate::run_block;
use std::io;
use std::sync::Arc;

/// Rewrites code of programs. Called on their host threads, outside of the program and of
/// the kernel.
pub trait Interception: Send + Sync {
    /// A system call came by a signal; `behind` is the address behind its instruction,
    /// where the program goes on when this returns.
    fn trapped(&self, program: &ProgramCode, behind: u64);

    /// The address of the program's own code that `address` stands for, if it is in code
    /// that this has put beside it.
    fn original(&self, program: &ProgramCode, address: u64) -> Option<u64>;

    /// Where a program goes on that met a breakpoint at this address, if it is one of this.
    fn resume(&self, program: &ProgramCode, address: u64) -> Option<u64>;
}

impl Kernel {
    /// Have this rewrite the programs of this kernel, from the next trap on. Once: the
    /// first one stays.
    pub fn intercept(&self, with: Arc<dyn Interception>) {
        self.inner().interception.set(with).ok();
    }
}

/// From the GS base that programs run with to the address of the gate, which rewritten
/// code jumps to: with registers as before the instruction `syscall`, but for rcx, where
/// to go on, and r11, the address behind the instruction that this is for. It goes on with
/// registers as behind the instruction, but for rcx, and with its flags.
pub const GATE: i32 = run_block::GATE;

/// The memory of the program whose thread this is.
pub struct ProgramCode<'a> {
    kernel: &'a Arc<Inner>,
    caller: Caller,
}

/// A part of a file that is mapped as code which the program cannot change.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramText {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Where in the file `start` is.
    pub offset: u64,
    /// st_dev, as the kernel numbers devices inside.
    pub device: u64,
    /// st_ino
    pub inode: u64,
    /// The time of its last change (ctime), in nanoseconds.
    pub changed: u64,
}

impl<'a> ProgramCode<'a> {
    pub(crate) fn new(kernel: &'a Arc<Inner>, caller: Caller) -> Self {
        Self { kernel, caller }
    }

    fn ask(&self, nr: i64, args: [u64; 6]) -> io::Result<u64> {
        let answer = self.kernel.request(self.caller, nr, &args, Wait::Inside);
        u64::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer as i32))
    }

    /// The text that this address is in. `ENOENT`: it is in none.
    pub fn text(&self, address: u64) -> io::Result<ProgramText> {
        let mut text = ProgramText::default();
        let to = &raw mut text as u64;
        self.ask(abi::NR_TEXT, [address, to, 0, 0, 0, 0])?;
        Ok(text)
    }

    /// Read as a debugger does; how many bytes there were.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let args = [address, bytes.as_mut_ptr() as u64, bytes.len() as u64];
        let [at, to, length] = args;
        self.ask(abi::NR_PEEK, [at, to, length, 0, 0, 0])
            .map(|read| read as usize)
    }

    /// Write as a debugger does, whatever the protection; the program gets pages of its own.
    /// Other threads see bytes within eight aligned ones all at once.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (from, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
        match self.ask(abi::NR_POKE, [address, from, length, 0, 0, 0])? {
            written if written == length => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }

    /// Map `length` bytes of executable memory, zeros, at this address. `EEXIST`: something
    /// is there.
    pub fn map(&self, address: u64, length: u64) -> io::Result<()> {
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let args = [address, length, prot, flags as u64, u64::MAX, 0];
        self.ask(libc::SYS_mmap, args).map(drop)
    }

    /// Take away what [`ProgramCode::map`] has put there.
    pub fn unmap(&self, address: u64, length: u64) -> io::Result<()> {
        self.ask(libc::SYS_munmap, [address, length, 0, 0, 0, 0])
            .map(drop)
    }
}
