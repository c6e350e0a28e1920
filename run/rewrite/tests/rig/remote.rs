//! A traced task: its registers, its memory, calls on its behalf.

use std::io::{self, Error};
use std::os::unix::fs::FileExt;

pub type Registers = libc::user_regs_struct;

#[derive(Clone, Copy, Debug)]
pub struct Task(pub i32);

impl Task {
    pub fn ptrace(self, request: libc::c_uint, address: u64, data: u64) -> io::Result<()> {
        // SAFETY: what `data` points at is the callers', and as the request wants it.
        match unsafe { libc::ptrace(request, self.0, address, data) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    pub fn registers(self) -> io::Result<Registers> {
        // SAFETY: plain numbers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.ptrace(libc::PTRACE_GETREGS, 0, &raw mut registers as u64)?;
        Ok(registers)
    }

    pub fn set_registers(self, registers: &Registers) -> io::Result<()> {
        self.ptrace(libc::PTRACE_SETREGS, 0, &raw const *registers as u64)
    }

    fn memory(self) -> io::Result<std::fs::File> {
        let path = format!("/proc/{}/mem", self.0);
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
    }

    pub fn read(self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory()?.read_exact_at(bytes, address)
    }

    pub fn write(self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory()?.write_all_at(bytes, address)
    }

    /// Waits for this task's next stop; its wait status.
    pub fn wait(self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: a number of ours is written.
        match unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(status),
        }
    }

    /// Has the stopped task make a call by the `syscall; int3` at `stub`. Its signals
    /// wait meanwhile.
    pub fn call(self, stub: u64, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        const GETSIGMASK: libc::c_uint = 0x420a;
        const SETSIGMASK: libc::c_uint = 0x420b;
        let (mut mask, all) = (0u64, !(1u64 << (libc::SIGTRAP - 1)));
        self.ptrace(GETSIGMASK, 8, &raw mut mask as u64)?;
        self.ptrace(SETSIGMASK, 8, &raw const all as u64)?;
        let before = self.registers()?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = Registers {
            rip: stub,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        };
        self.set_registers(&registers)?;
        self.ptrace(libc::PTRACE_CONT, 0, 0)?;
        let status = self.wait()?;
        if !libc::WIFSTOPPED(status) || status >> 8 != libc::SIGTRAP {
            let message = format!("call {number} of task {}: status {status:#x}", self.0);
            return Err(Error::other(message));
        }
        let result = self.registers()?.rax;
        self.set_registers(&before)?;
        self.ptrace(SETSIGMASK, 8, &raw const mask as u64)?;
        match -(result as i64) {
            errno @ 1..4096 => Err(Error::from_raw_os_error(errno as i32)),
            _ => Ok(result),
        }
    }
}

/// A line of /proc/PID/maps.
#[derive(Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub code: bool,
    pub offset: u64,
    pub device: String,
    pub inode: u64,
    pub path: String,
}

pub fn mappings(task: Task) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read_to_string(format!("/proc/{}/maps", task.0))?;
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            code: words.next()?.as_bytes()[2] == b'x',
            offset: number(words.next()?)?,
            device: words.next()?.to_owned(),
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().to_owned(),
        })
    };
    Ok(text.lines().filter_map(mapping).collect())
}
