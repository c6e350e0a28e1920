//! How many instructions one warm call takes: repeatable where nanoseconds are
//! not. A child makes the call between two breakpoints, and we step it from the
//! one to the other with ptrace(2). A repeated string instruction counts once
//! for each repetition, as it traps. Those that lock their memory are counted too:
//! each costs as much as some ten others.

use super::bed::Bed;
use crate::child;
use crate::kernel::{check, Kernel, Ours};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use std::arch::asm;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::Duration;

const CALLS: [(&str, &str); 7] = [
    ("getppid", "getppid"),
    ("pread-1", "pread of 1 B on ramfs"),
    ("pwrite-1", "pwrite of 1 B on ramfs"),
    ("pread-4k", "pread of 4 KiB on ramfs"),
    ("fstat", "fstat on ramfs"),
    ("stat", "stat by path on ramfs"),
    ("open-close", "open and close a file on ramfs"),
];
/// Calls before the first that is counted.
const WARM: usize = 200;
/// Calls that are counted in one child. The fewest instructions are taken: what
/// is done in some calls only (a batch that is full) is not part of each.
const COUNTED: usize = 7;

/// Children that are tried, and how long each may take.
const ATTEMPTS: usize = 3;
const LATE: Duration = Duration::from_secs(30);

pub fn promises() -> Vec<Promise> {
    let row = |name: String, what: String| {
        Promise::new(name, Set::Instructions, what, "instr", Target::None)
    };
    let all = CALLS.map(|(call, what)| row(format!("instructions-{call}"), what.into()));
    let locked = CALLS.map(|(call, what)| {
        let what = format!("{what}: those that lock their memory");
        row(format!("locked-{call}"), what)
    });
    [all, locked].concat()
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let (what, call) = promise.name.split_once('-').unwrap_or_default();
    let contest = |config: &'static str| {
        move || {
            let image = paths.image(config)?;
            let (empty, full) = (count(&image, "nothing")?, count(&image, call)?);
            Ok(match what {
                "locked" => full.locked - empty.locked,
                _ => full.all - empty.all,
            } as f64)
        }
    };
    let contestants = vec![
        Contestant::new(TANE, contest("default")),
        Contestant::new("tane, tiny image", contest("tiny")),
        Contestant::new("tane, smp image", contest("smp")),
    ];
    // The count is exact: three runs show whether it is the same each time.
    race(promise, report.runs.min(3), contestants, report);
    Ok(())
}

/// What one call takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    all: i64,
    locked: i64,
}

/// The instructions between the child's breakpoints, at the least. A child that never
/// reaches them is given up, for another.
fn count(image: &Path, call: &str) -> Result<Count, String> {
    let mut last = Err(String::new());
    for _ in 0..ATTEMPTS {
        last = count_in_a_child(image, call);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn count_in_a_child(image: &Path, call: &str) -> Result<Count, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let mut command = Command::new(own);
    command.arg("--step-child").arg(image).arg(call);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: one system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            match libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let child = command.spawn();
    let mut traced = Traced {
        child: child.map_err(|e| format!("tracing a child with ptrace: {e}"))?,
        is_stopped: false,
        signal: 0,
        frozen: Vec::new(),
    };
    let _limit = kill_late(traced.child.id() as i32);
    let counts = traced.count_all()?;
    let least = counts.into_iter().min_by_key(|count| count.all);
    least.ok_or_else(|| "the child ended before its first call".into())
}

/// Ends a process, unless what is returned is dropped in time. Its service threads are
/// frozen where they happen to be, which may be where the process needs them.
fn kill_late(pid: i32) -> Sender<()> {
    let (in_time, end) = channel();
    std::thread::spawn(move || {
        if end.recv_timeout(LATE) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: a child that was not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    in_time
}

struct Traced {
    child: Child,
    is_stopped: bool,
    /// To be delivered when it goes on.
    signal: i32,
    /// Its other threads, which are stopped and traced too.
    frozen: Vec<i32>,
}

enum Stop {
    /// The child's own int3.
    Breakpoint,
    Stepped,
    /// A signal that is the child's own business.
    Signal(i32),
    Ended,
}

impl Traced {
    /// Instructions between the first and second breakpoint, the third and
    /// fourth, and so on.
    fn count_all(&mut self) -> Result<Vec<Count>, String> {
        let mut counts = Vec::new();
        while counts.len() < COUNTED {
            if !self.run_until_breakpoint()? {
                return Err("the child ended before its calls".into());
            }
            if counts.is_empty() {
                self.freeze_others()?;
            }
            let mut steps = Count::default();
            loop {
                let locks = locks_memory(&self.next_instruction());
                self.go_on(libc::PTRACE_SINGLESTEP, self.signal)?;
                self.signal = 0;
                match self.wait()? {
                    Stop::Stepped => {
                        steps.all += 1;
                        steps.locked += i64::from(locks);
                    }
                    Stop::Signal(number) => self.signal = number,
                    Stop::Breakpoint => break,
                    Stop::Ended => return Err("the child ended within a call".into()),
                }
            }
            counts.push(steps);
        }
        Ok(counts)
    }

    /// The bytes that the child stands at; zeroes where they cannot be read.
    fn next_instruction(&self) -> [u8; 8] {
        let pid = self.child.id() as i32;
        let rip = std::mem::offset_of!(libc::user_regs_struct, rip);
        // SAFETY: of a stopped child; the calls only read.
        unsafe {
            let at = libc::ptrace(libc::PTRACE_PEEKUSER, pid, rip, 0);
            *libc::__errno_location() = 0;
            let bytes = libc::ptrace(libc::PTRACE_PEEKTEXT, pid, at, 0);
            match *libc::__errno_location() {
                0 => bytes.to_le_bytes(),
                _ => [0; 8],
            }
        }
    }

    /// Stop the kernel's service threads for good. A step takes microseconds, so
    /// its timer would tick within most calls, and who does not look at once is
    /// sent a signal: none of that is part of a call.
    fn freeze_others(&mut self) -> Result<(), String> {
        let path = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(&path).map_err(|e| format!("{path}: {e}"))?;
        let names = tasks.flatten().map(|task| task.file_name());
        let tids: Vec<i32> = names.flat_map(|n| n.to_string_lossy().parse()).collect();
        for tid in tids
            .into_iter()
            .filter(|tid| *tid != self.child.id() as i32)
        {
            let none = ptr::null_mut::<u8>();
            let mut status = 0;
            // SAFETY: a thread of our child, and room for its status.
            let stopped = unsafe {
                libc::ptrace(libc::PTRACE_SEIZE, tid, none, 0) == 0
                    && libc::ptrace(libc::PTRACE_INTERRUPT, tid, none, 0) == 0
                    && libc::waitpid(tid, &raw mut status, libc::__WALL) == tid
            };
            if !stopped {
                let error = std::io::Error::last_os_error();
                return Err(format!("stopping a thread of the child: {error}"));
            }
            self.frozen.push(tid);
        }
        Ok(())
    }

    /// Whether there was another.
    fn run_until_breakpoint(&mut self) -> Result<bool, String> {
        loop {
            // After a count the child stands at its breakpoint; at first it runs.
            if self.is_stopped {
                self.go_on(libc::PTRACE_CONT, self.signal)?;
            }
            self.signal = 0;
            match self.wait()? {
                Stop::Breakpoint => return Ok(true),
                Stop::Ended => return Ok(false),
                Stop::Signal(number) => self.signal = number,
                Stop::Stepped => {}
            }
        }
    }

    fn go_on(&mut self, how: libc::c_uint, signal: i32) -> Result<(), String> {
        let pid = self.child.id() as i32;
        self.is_stopped = false;
        // SAFETY: a stopped child of ours.
        match unsafe { libc::ptrace(how, pid, 0, i64::from(signal)) } {
            0 => Ok(()),
            _ => Err(format!("ptrace: {}", std::io::Error::last_os_error())),
        }
    }

    fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_end(&mut text);
        }
        child::complaint(&text)
    }

    fn wait(&mut self) -> Result<Stop, String> {
        let pid = self.child.id() as i32;
        let mut status = 0;
        // SAFETY: our own child; room for a status and for a siginfo.
        unsafe {
            // Its end is told after that of its other threads.
            loop {
                match libc::waitpid(-1, &raw mut status, libc::__WALL) {
                    -1 => return Err(format!("waitpid: {}", std::io::Error::last_os_error())),
                    which if which == pid => break,
                    _ => {}
                }
            }
            if !libc::WIFSTOPPED(status) {
                return match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
                    true => Ok(Stop::Ended),
                    false => Err(self.complaint()),
                };
            }
            self.is_stopped = true;
            let signal = libc::WSTOPSIG(status);
            if signal != libc::SIGTRAP {
                return Ok(Stop::Signal(signal));
            }
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, pid, 0, &raw mut info);
            Ok(match info.si_code {
                SI_KERNEL => Stop::Breakpoint,
                _ => Stop::Stepped,
            })
        }
    }
}

/// Whether this instruction holds the cache line that it changes: it has the prefix
/// for it, or is an exchange with memory, which needs none.
fn locks_memory(code: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    const OTHER_PREFIXES: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
    let mut rest = code;
    while let [byte, tail @ ..] = rest {
        match *byte {
            LOCK => return true,
            byte if OTHER_PREFIXES.contains(&byte) || byte >> 4 == 4 => rest = tail,
            // xchg; of two registers if the highest bits of what follows are set.
            0x86 | 0x87 => return tail.first().is_some_and(|mode| mode >> 6 != 3),
            _ => return false,
        }
    }
    false
}

/// Of an int3; a step has TRAP_TRACE, an exec SI_USER (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        for &tid in &self.frozen {
            // The process ends only when its tracer knows of each thread's end. A
            // stop may be told first: a signal that came before we interrupted it.
            let mut status = 0;
            // SAFETY: a thread that we trace, and room for its status.
            while unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) } == tid
                && libc::WIFSTOPPED(status)
            {}
        }
        let _ = self.child.wait();
    }
}

/// What the child does.
pub fn stepped(image: &Path, call: &str) -> Result<(), String> {
    let image = tane_host::Image::open(image).map_err(|e| e.to_string())?;
    let builder = tane_host::Builder {
        cmdline: "quiet".into(),
        ..Default::default()
    };
    let kernel = Ours(builder.boot(&image).map_err(|e| e.to_string())?);
    let dir = Path::new("/ramfs");
    check("mkdir", kernel.on_path(libc::SYS_mkdir, dir, 0o755, 0))?;
    let (kind, at) = (c"ramfs".as_ptr() as u64, c"/ramfs".as_ptr() as u64);
    // SAFETY: C strings.
    let mounted = unsafe { kernel.call(libc::SYS_mount, [kind, at, kind, 0, 0, 0]) };
    check("mounting a ramfs", mounted)?;
    let bed = Bed::new(&kernel, dir, "file", 4096)?;
    match call {
        "nothing" => between(|| 0),
        // SAFETY: takes no pointers.
        "getppid" => between(|| unsafe { kernel.call(libc::SYS_getppid, [0; 6]) }),
        "pread-1" => between(|| bed.read(1)),
        "pwrite-1" => between(|| bed.write(1)),
        "pread-4k" => between(|| bed.read(4096)),
        "fstat" => between(|| bed.fstat()),
        "stat" => between(|| bed.stat()),
        "open-close" => between(|| bed.open_close()),
        _ => Err(format!("no call is called {call}")),
    }
}

fn between(call: impl Fn() -> i64) -> Result<(), String> {
    for _ in 0..WARM {
        check("the call", call())?;
    }
    for _ in 0..COUNTED {
        // SAFETY: stops for the tracer and changes nothing.
        unsafe { asm!("int3") };
        let result = call();
        // SAFETY: as above.
        unsafe { asm!("int3", in("rax") result) };
        check("the call", result)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::locks_memory;

    #[test]
    fn instructions_that_lock_their_memory_are_known() {
        let locking: [&[u8]; 4] = [
            &[0xf0, 0x48, 0x0f, 0xb1, 0x0f],       // lock cmpxchg %rcx,(%rdi)
            &[0x65, 0xf0, 0xff, 0x05, 0, 0, 0, 0], // lock incl %gs:0(%rip)
            &[0x48, 0x87, 0x07],                   // xchg %rax,(%rdi)
            &[0x87, 0x02],                         // xchg %eax,(%rdx)
        ];
        assert!(locking.into_iter().all(locks_memory));
        let others: [&[u8]; 5] = [
            &[0x48, 0x87, 0xc3],             // xchg %rax,%rbx
            &[0x90],                         // nop
            &[0xf3, 0xa4],                   // rep movsb
            &[0x65, 0x48, 0x0f, 0xb1, 0x0a], // cmpxchg %rcx,%gs:(%rdx)
            &[0xb8, 0xf0, 0, 0, 0],          // mov $0xf0,%eax
        ];
        assert!(!others.into_iter().any(locks_memory));
    }
}
