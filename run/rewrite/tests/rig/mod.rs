//! Runs programs of the host with all their calls through trampolines and the net, and
//! the host's kernel behind the gate.
//!
//! A tracer patches what the kernel maps as code (at exec, and at mmap(2), which the
//! filter tells of), puts the gate into each new program, and does for signals what
//! the kernel of `tane run` does: frames show the program where it would be without us.

#![allow(dead_code)]

mod filter;
pub mod gate;
mod patch;
pub mod remote;
mod signals;

use filter::filter;
use gate::Area;
use patch::Text;
use remote::Task;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Error};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tane_rewrite::{Cache, Plan};

/// Where the gate is in every program, and the pool of areas behind it.
const RUNTIME: u64 = 0x2000_0000_0000;
const POOL: u64 = RUNTIME + 0x10_0000;
const POOL_SIZE: usize = 32 << 20;
/// Below each text; for programs that are linked to low addresses, above.
const DISTANCE: i64 = -(1 << 30);

/// What was seen of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Exit status of the program, as wait(2) has it.
    pub status: i32,
    /// Calls through the gate by class a, b, c, and by the net.
    pub calls: [u64; 4],
    /// Programs that were started, tasks, signals that came while one was in a
    /// trampoline or the gate, traps of patched sites.
    pub programs: u64,
    pub tasks: u64,
    pub moved_out: u64,
    pub resumed: u64,
    /// Where the net caught calls, by file: how often.
    pub caught: BTreeMap<String, u64>,
}

pub struct Rig {
    pool: *const Area,
    pool_path: String,
    _memory: std::os::fd::OwnedFd,
    cache: Cache,
    plans: HashMap<(tane_rewrite::Key, i64, usize), std::rc::Rc<Plan>>,
    /// By process; what is forked has its parent's.
    texts: HashMap<i32, Vec<Text>>,
    filtered: bool,
    /// Tasks whose first stop, that of being traced, is over.
    known: HashSet<i32>,
    seen: Seen,
}

fn checked(result: i64) -> io::Result<i64> {
    match result {
        -1 => Err(Error::last_os_error()),
        value => Ok(value),
    }
}

/// Whether programs may set the GS base by an instruction, as the gate has new tasks do;
/// else says that a test does not run.
pub fn can_run() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: no memory.
    let can = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    if !can {
        tane_test_support::skip("the host has no FSGSBASE, which the tests' gate takes");
    }
    can
}

impl Rig {
    pub fn new() -> io::Result<Rig> {
        use std::os::fd::FromRawFd;
        // SAFETY: a new descriptor, and a new mapping of it.
        unsafe {
            let fd = checked(libc::memfd_create(c"areas".as_ptr(), libc::MFD_CLOEXEC).into())?;
            let memory = std::os::fd::OwnedFd::from_raw_fd(fd as i32);
            checked(libc::ftruncate(memory.as_raw_fd(), POOL_SIZE as i64).into())?;
            let rw = libc::PROT_READ | libc::PROT_WRITE;
            let pool = libc::mmap(
                std::ptr::null_mut(),
                POOL_SIZE,
                rw,
                libc::MAP_SHARED,
                fd as i32,
                0,
            );
            checked(pool as i64)?;
            AtomicU64::from_ptr(pool.cast()).store(1, Ordering::Relaxed);
            Ok(Rig {
                pool: pool.cast(),
                pool_path: format!("/proc/{}/fd/{fd}", std::process::id()),
                _memory: memory,
                cache: Cache::new(),
                plans: HashMap::new(),
                texts: HashMap::new(),
                filtered: false,
                known: HashSet::new(),
                seen: Seen::default(),
            })
        }
    }

    fn area(&self, address: u64) -> Area {
        let at = (address.wrapping_sub(POOL)) as usize / size_of::<Area>();
        assert!(at < POOL_SIZE / size_of::<Area>(), "no area: {address:#x}");
        // SAFETY: within the pool; whose area it is stands still.
        unsafe { self.pool.add(at).read_volatile() }
    }

    fn new_area(&self) -> u64 {
        // SAFETY: the first word of the pool.
        let next = unsafe { AtomicU64::from_ptr(self.pool.cast_mut().cast()) };
        let index = next.fetch_add(1, Ordering::Relaxed) as usize;
        assert!(index < POOL_SIZE / size_of::<Area>(), "too many tasks");
        // SAFETY: nobody else has this one yet.
        unsafe {
            self.pool
                .cast_mut()
                .add(index)
                .write(gate::area(RUNTIME, POOL))
        };
        POOL + (index * size_of::<Area>()) as u64
    }

    /// Runs `command` to its end, and all that it starts.
    pub fn run(mut self, mut command: Command) -> io::Result<(Seen, Vec<u8>)> {
        let output = tempfile()?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?);
        // SAFETY: two calls.
        unsafe {
            command.pre_exec(|| {
                checked(libc::ptrace(libc::PTRACE_TRACEME))?;
                Ok(())
            })
        };
        let child = command.spawn()?;
        let first = Task(child.id() as i32);
        // The exec of a task that asked for it itself is a plain SIGTRAP.
        let status = first.wait()?;
        assert_eq!(status >> 8, libc::SIGTRAP, "{status:#x}");
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACESECCOMP
            | libc::PTRACE_O_EXITKILL;
        first.ptrace(libc::PTRACE_SETOPTIONS, 0, options as u64)?;
        self.known.insert(first.0);
        self.start(first)?;
        first.ptrace(libc::PTRACE_CONT, 0, 0)?;
        loop {
            let mut status = 0;
            // SAFETY: a number of ours is written.
            let pid =
                unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if pid == -1 {
                break;
            }
            if libc::WIFSTOPPED(status) {
                // A task may be gone at any time, by exit_group(2) or SIGKILL.
                match self.stopped(Task(pid), status) {
                    Err(e) if e.raw_os_error() != Some(libc::ESRCH) => return Err(e),
                    _ => {}
                }
            } else {
                self.texts.remove(&pid);
                self.known.remove(&pid);
                if pid == first.0 {
                    self.seen.status = status;
                }
            }
        }
        let areas = self.area_count();
        self.seen.tasks = areas as u64 - 1;
        for index in 1..areas {
            let area = self.area(POOL + (index * size_of::<Area>()) as u64);
            for (sum, count) in self.seen.calls.iter_mut().zip(area.counts) {
                *sum += count;
            }
        }
        use std::io::{Read, Seek};
        let mut output = output;
        let mut bytes = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut bytes)?;
        Ok((self.seen, bytes))
    }

    fn area_count(&self) -> usize {
        // SAFETY: the first word of the pool.
        unsafe { (*self.pool).gates[0] as usize }
    }

    fn stopped(&mut self, task: Task, status: i32) -> io::Result<()> {
        let signal = status >> 8 & 0xff;
        let new = self.known.insert(task.0);
        let go_on = |request, signal: i32| task.ptrace(request, 0, signal as u64);
        match status >> 16 {
            0 => {}
            libc::PTRACE_EVENT_EXEC => {
                // On its way out execve(2) still writes its result.
                go_on(libc::PTRACE_SYSCALL, 0)?;
                task.wait()?;
                self.start(task)?;
                return go_on(libc::PTRACE_CONT, 0);
            }
            libc::PTRACE_EVENT_SECCOMP => return go_on(libc::PTRACE_SYSCALL, 0),
            _ => return go_on(libc::PTRACE_CONT, 0),
        }
        if signal == libc::SIGTRAP | 0x80 {
            // The end of an mmap(2) of code.
            self.patch(task)?;
            return go_on(libc::PTRACE_CONT, 0);
        }
        if new && signal == libc::SIGSTOP {
            // What was forked has its parent's code. It does not run before it is here.
            if let Some(parent) = field(task.0, "PPid:").filter(|_| process(task.0) == task.0) {
                let texts = self.texts_of(Task(parent)).to_vec();
                self.texts.insert(task.0, texts);
            }
            return go_on(libc::PTRACE_CONT, 0);
        }
        let passed = self.signal(task, signal)?;
        go_on(libc::PTRACE_CONT, passed)
    }

    fn texts_of(&self, task: Task) -> &[Text] {
        let texts = self.texts.get(&process(task.0));
        texts.map_or(&[], |texts| &texts[..])
    }

    /// The exec of a new program: it gets a gate and an area.
    fn start(&mut self, task: Task) -> io::Result<()> {
        self.seen.programs += 1;
        self.texts.insert(process(task.0), Vec::new());
        let before = task.registers()?;
        let mut old = [0; 3];
        task.read(before.rip, &mut old)?;
        task.write(before.rip, &[0x0f, 0x05, 0xcc])?;
        let rwx = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let own = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let page = [RUNTIME, 0x1000, rwx, own, u64::MAX, 0];
        task.call(before.rip, libc::SYS_mmap, page)?;
        task.write(before.rip, &old)?;
        task.write(RUNTIME, gate::code())?;
        let stub = RUNTIME + gate::at::toy_remote();
        let scratch = RUNTIME + 0x800;
        task.write(scratch, format!("{}\0", self.pool_path).as_bytes())?;
        let open = [libc::AT_FDCWD as u64, scratch, libc::O_RDWR as u64, 0, 0, 0];
        let fd = task.call(stub, libc::SYS_openat, open)?;
        let shared = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let pool = [POOL, POOL_SIZE as u64, rw, shared, fd, 0];
        task.call(stub, libc::SYS_mmap, pool)?;
        task.call(stub, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        let mut registers = task.registers()?;
        registers.gs_base = self.new_area();
        task.set_registers(&registers)?;
        const REGISTER_SYNC_CORE: u64 = 1 << 6;
        task.call(
            stub,
            libc::SYS_membarrier,
            [REGISTER_SYNC_CORE, 0, 0, 0, 0, 0],
        )?;
        self.patch(task)?;
        if !self.filtered {
            self.filtered = true;
            let program = filter();
            // SAFETY: plain numbers.
            let bytes = unsafe {
                std::slice::from_raw_parts(program.as_ptr().cast::<u8>(), size_of_val(&program[..]))
            };
            task.write(scratch + 16, bytes)?;
            let mut list = [0; 16];
            list[0] = program.len() as u8;
            list[8..].copy_from_slice(&(scratch + 16).to_le_bytes());
            task.write(scratch, &list)?;
            let privileges = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
            task.call(stub, libc::SYS_prctl, privileges)?;
            task.call(stub, libc::SYS_seccomp, [1, 0, scratch, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// The thread group of a task.
fn process(task: i32) -> i32 {
    field(task, "Tgid:").unwrap_or(task)
}

fn field(task: i32, name: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

fn tempfile() -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    options.open(std::env::temp_dir())
}
