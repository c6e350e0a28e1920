//! bpf(2) and perf_event_open(2) of the kernel that is looked into.

use super::object::{Map, Part, Target};
use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_info, bpf_prog_type, perf_event_attr,
    perf_type_id, BPF_F_RDONLY_PROG,
};
use std::ffi::{c_char, CStr, CString};
use std::io::Result;
use tane::Kernel;

const SYS_CLOSE: i64 = 3;
const SYS_MMAP: i64 = 9;
const SYS_MUNMAP: i64 = 11;
const SYS_PERF_EVENT_OPEN: i64 = 298;
const SYS_BPF: i64 = 321;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;

/// A descriptor of that kernel's, closed when dropped.
pub(super) struct Fd {
    kernel: Kernel,
    number: i32,
}

impl Fd {
    pub fn raw(&self) -> i32 {
        self.number
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let args = [self.number as u64, 0, 0, 0, 0, 0];
        // SAFETY: it is ours, and nobody has its number any more.
        unsafe { self.kernel.syscall(SYS_CLOSE, args) };
    }
}

/// Memory of the kernel's that is also this process's, unmapped when dropped.
pub(super) struct Mapping {
    kernel: Kernel,
    start: *mut u8,
    len: usize,
}

impl Mapping {
    /// Of a map's, from there on.
    pub fn new(map: &Fd, offset: usize, len: usize, write: bool) -> Result<Mapping> {
        const READ: u64 = 1;
        const WRITE: u64 = 2;
        const SHARED: u64 = 1;
        let rights = if write { READ | WRITE } else { READ };
        let fd = map.raw() as u64;
        let args = [0, len as u64, rights, SHARED, fd, offset as u64];
        // SAFETY: a new mapping where none is.
        let start = unsafe { map.kernel.try_syscall(SYS_MMAP, args) }?;
        Ok(Mapping {
            kernel: map.kernel.clone(),
            start: start as *mut u8,
            len,
        })
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let args = [self.start as u64, self.len as u64, 0, 0, 0, 0];
        // SAFETY: it is ours, and nobody has a pointer into it any more.
        unsafe { self.kernel.syscall(SYS_MUNMAP, args) };
    }
}

fn attributes() -> bpf_attr {
    // SAFETY: numbers and arrays of them, in each of its forms.
    unsafe { std::mem::zeroed() }
}

/// What `attr` points to must be alive, and as large as the command takes it for.
unsafe fn bpf(kernel: &Kernel, command: bpf_cmd, attr: &mut bpf_attr) -> Result<i32> {
    let size = size_of::<bpf_attr>() as u64;
    let args = [
        command as u64,
        std::ptr::from_mut(attr) as u64,
        size,
        0,
        0,
        0,
    ];
    // SAFETY: as the caller promises.
    unsafe { kernel.try_syscall(SYS_BPF, args) }.map(|value| value as i32)
}

/// The same for commands that answer with a descriptor.
unsafe fn open(kernel: &Kernel, command: bpf_cmd, attr: &mut bpf_attr) -> Result<Fd> {
    // SAFETY: as the caller promises.
    let number = unsafe { bpf(kernel, command, attr) }?;
    Ok(Fd {
        kernel: kernel.clone(),
        number,
    })
}

/// What the kernel takes for a name: at most 15 of a few characters.
fn name_of(text: &str) -> [c_char; 16] {
    let mut name = [0; 16];
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.".contains(byte);
    for (to, from) in name[..15].iter_mut().zip(text.bytes().filter(good)) {
        *to = from as c_char;
    }
    name
}

pub(super) fn create_map(kernel: &Kernel, map: &Map) -> Result<Fd> {
    let mut attr = attributes();
    // SAFETY: numbers, which are zero, for a new one.
    let create = unsafe { &mut attr.__bindgen_anon_1 };
    create.map_type = map.number;
    create.key_size = map.key_size;
    create.value_size = map.value_size;
    create.max_entries = map.max_entries;
    create.map_flags = map.flags;
    if map.kind == super::Kind::Constants {
        create.map_flags |= BPF_F_RDONLY_PROG;
    }
    create.map_name = name_of(&map.name);
    // SAFETY: it points to nothing.
    unsafe { open(kernel, bpf_cmd::BPF_MAP_CREATE, &mut attr) }
}

/// Of the key's size, and of the value's.
pub(super) fn update(map: &Fd, key: &[u8], value: &[u8]) -> Result<()> {
    let mut attr = attributes();
    // SAFETY: numbers, which are zero.
    let element = unsafe { &mut attr.__bindgen_anon_2 };
    element.map_fd = map.raw() as u32;
    element.key = key.as_ptr() as u64;
    element.__bindgen_anon_1.value = value.as_ptr() as u64;
    // SAFETY: both are alive.
    unsafe { bpf(&map.kernel, bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(|_| ())
}

/// Nobody outside changes it any more.
pub(super) fn freeze(map: &Fd) -> Result<()> {
    let mut attr = attributes();
    attr.__bindgen_anon_2.map_fd = map.raw() as u32;
    // SAFETY: it points to nothing.
    unsafe { bpf(&map.kernel, bpf_cmd::BPF_MAP_FREEZE, &mut attr) }.map(|_| ())
}

/// The value of a key, into a buffer of its size; false: it is not there.
pub(super) fn look_up(map: &Fd, key: &[u8], value: &mut [u8]) -> Result<bool> {
    let mut attr = attributes();
    // SAFETY: numbers, which are zero.
    let element = unsafe { &mut attr.__bindgen_anon_2 };
    element.map_fd = map.raw() as u32;
    element.key = key.as_ptr() as u64;
    element.__bindgen_anon_1.value = value.as_mut_ptr() as u64;
    // SAFETY: both are alive, and nobody else has the value.
    let done = unsafe { bpf(&map.kernel, bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut attr) };
    found(done)
}

/// The key behind `key`, or the first one; false: there is none.
pub(super) fn next_key(map: &Fd, key: Option<&[u8]>, next: &mut [u8]) -> Result<bool> {
    let mut attr = attributes();
    // SAFETY: numbers, which are zero.
    let element = unsafe { &mut attr.__bindgen_anon_2 };
    element.map_fd = map.raw() as u32;
    element.key = key.map_or(0, |key| key.as_ptr() as u64);
    element.__bindgen_anon_1.next_key = next.as_mut_ptr() as u64;
    // SAFETY: both are alive, and nobody else has the next one.
    let done = unsafe { bpf(&map.kernel, bpf_cmd::BPF_MAP_GET_NEXT_KEY, &mut attr) };
    found(done)
}

fn found(done: Result<i32>) -> Result<bool> {
    const ENOENT: i32 = 2;
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A program that the verifier has accepted.
pub(super) struct Program(Fd);

impl Program {
    /// The error is what the verifier says, or Linux.
    pub fn load(
        kernel: &Kernel,
        part: &Part,
        license: &CStr,
    ) -> std::result::Result<Program, String> {
        let error = match Self::try_to_load(kernel, part, license, None) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        // Once more, for its reasons.
        let mut log = vec![0u8; 1 << 20];
        let again = Self::try_to_load(kernel, part, license, Some(&mut log));
        let error = match again {
            Ok(program) => return Ok(program),
            Err(again) if again.raw_os_error() == error.raw_os_error() => error,
            // The log was too small, or whatever.
            Err(again) => again,
        };
        let said = log.split(|byte| *byte == 0).next().unwrap_or(&[]);
        Err(match reasons(&String::from_utf8_lossy(said)) {
            Some(text) => format!("the verifier refuses it:\n{text}"),
            None => error.to_string(),
        })
    }

    fn try_to_load(
        kernel: &Kernel,
        part: &Part,
        license: &CStr,
        log: Option<&mut [u8]>,
    ) -> Result<Program> {
        let kind = match part.target {
            Target::Function { .. } => bpf_prog_type::BPF_PROG_TYPE_KPROBE,
            Target::Tracepoint { .. } => bpf_prog_type::BPF_PROG_TYPE_TRACEPOINT,
            Target::RawTracepoint(_) => bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT,
        };
        let code: &[bpf_insn] = &part.instructions;
        let mut attr = attributes();
        // SAFETY: numbers, which are zero.
        let load = unsafe { &mut attr.__bindgen_anon_3 };
        load.prog_type = kind as u32;
        load.insn_cnt = code.len() as u32;
        load.insns = code.as_ptr() as u64;
        load.license = license.as_ptr() as u64;
        load.prog_name = name_of(&part.name);
        if let Some(log) = log {
            load.log_level = 1;
            load.log_size = log.len() as u32;
            load.log_buf = log.as_mut_ptr() as u64;
        }
        // SAFETY: all of it is alive, and nobody else has the log.
        unsafe { open(kernel, bpf_cmd::BPF_PROG_LOAD, &mut attr) }.map(Program)
    }

    /// It runs at that tracepoint, until the descriptor is closed.
    pub fn run_at_tracepoint(&self, name: &str) -> Result<Fd> {
        let name = CString::new(name)?;
        let mut attr = attributes();
        // SAFETY: numbers, which are zero.
        let wanted = unsafe { &mut attr.raw_tracepoint };
        wanted.name = name.as_ptr() as u64;
        wanted.prog_fd = self.0.raw() as u32;
        // SAFETY: the name is alive.
        unsafe { open(&self.0.kernel, bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr) }
    }

    /// How often another program was at work.
    pub fn missed(&self) -> Result<u64> {
        // SAFETY: numbers and arrays of them.
        let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
        let mut attr = attributes();
        attr.info.bpf_fd = self.0.raw() as u32;
        attr.info.info_len = size_of::<bpf_prog_info>() as u32;
        attr.info.info = (&raw mut info) as u64;
        // SAFETY: the structure is alive, and of the size that is said; what it could point
        // to is not asked for.
        unsafe { bpf(&self.0.kernel, bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
        Ok(info.recursion_misses)
    }
}

/// The last of what the verifier says: why, and the instructions before.
fn reasons(log: &str) -> Option<String> {
    const LINES: usize = 12;
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with("processed ");
    let lines: Vec<_> = log.lines().filter(is_said).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

/// An event of the kernel's, at which a program can run.
pub(super) struct Event(Fd);

impl Event {
    /// `kind`: the number of such events, which the kernel chooses.
    pub fn of_function(
        kernel: &Kernel,
        kind: u32,
        function: &str,
        offset: u64,
        returns: bool,
    ) -> Result<Event> {
        let name = CString::new(function)?;
        // SAFETY: numbers, and bits of them.
        let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
        attr.type_ = kind;
        attr.config = u64::from(returns);
        attr.__bindgen_anon_3.config1 = name.as_ptr() as u64;
        attr.__bindgen_anon_4.config2 = offset;
        Self::open(kernel, attr)
    }

    pub fn of_tracepoint(kernel: &Kernel, id: u64) -> Result<Event> {
        // SAFETY: as above.
        let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
        attr.type_ = perf_type_id::PERF_TYPE_TRACEPOINT as u32;
        attr.config = id;
        Self::open(kernel, attr)
    }

    /// Of everybody. Programs run on all CPUs, on whichever the event is.
    fn open(kernel: &Kernel, mut attr: perf_event_attr) -> Result<Event> {
        const EVERYBODY: u64 = u64::MAX;
        const CPU: u64 = 0;
        const NO_GROUP: u64 = u64::MAX;
        attr.size = size_of::<perf_event_attr>() as u32;
        // It counts nothing itself.
        attr.set_disabled(1);
        let at = (&raw mut attr) as u64;
        let args = [at, EVERYBODY, CPU, NO_GROUP, PERF_FLAG_FD_CLOEXEC, 0];
        // SAFETY: the structure and the name in it are alive.
        let number = unsafe { kernel.try_syscall(SYS_PERF_EVENT_OPEN, args) }?;
        Ok(Event(Fd {
            kernel: kernel.clone(),
            number: number as i32,
        }))
    }

    /// The program runs there, until the descriptor is closed.
    pub fn run(&self, program: &Program) -> Result<Fd> {
        let mut attr = attributes();
        // SAFETY: numbers, which are zero.
        let link = unsafe { &mut attr.link_create };
        link.__bindgen_anon_1.prog_fd = program.0.raw() as u32;
        link.__bindgen_anon_2.target_fd = self.0.raw() as u32;
        link.attach_type = bpf_attach_type::BPF_PERF_EVENT as u32;
        // SAFETY: it points to nothing.
        unsafe { open(&self.0.kernel, bpf_cmd::BPF_LINK_CREATE, &mut attr) }
    }
}
