//! Runs programs of the host with all their calls through trampolines and the net, and
//! the host's kernel behind the gate.
//!
//! A tracer patches what the kernel maps as code (at exec, and at mmap(2), which the
//! filter tells of), puts the gate into each new program, and does for signals what
//! the kernel of `tane run` does: frames show the program where it would be without us.

#![allow(dead_code)]

pub mod gate;
pub mod remote;

use gate::Area;
use remote::{mappings, Mapping, Registers, Task};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Error};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tane_rewrite::{find, live, Cache, Elf, Layout, Plan, Version, When};

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

/// A text that is patched in a process.
#[derive(Clone, Debug)]
struct Text {
    start: u64,
    end: u64,
    trampolines: u64,
    file: String,
    key: tane_rewrite::Key,
    plan: std::rc::Rc<Plan>,
}

impl Text {
    fn is_patched(&self, task: Task) -> bool {
        let mut bytes = [0; 5];
        let mut now = self
            .plan
            .patches
            .iter()
            .filter(|it| it.when == When::Mapping);
        now.next().is_some_and(|patch| {
            let at = self.start + u64::from(patch.at);
            task.read(at, &mut bytes).is_ok() && bytes == patch.new
        })
    }
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

    /// Patches what is mapped and not patched yet.
    fn patch(&mut self, task: Task) -> io::Result<()> {
        let all = mappings(task)?;
        let pid = process(task.0);
        let mut texts = self.texts.remove(&pid).unwrap_or_default();
        // Another file may be where one was, or the same one again.
        texts.retain(|text| {
            let same = |it: &Mapping| it.start == text.start && it.path == text.file;
            all.iter().any(same) && text.is_patched(task)
        });
        for it in all.iter().filter(|it| it.code && it.inode != 0) {
            if texts.iter().any(|text| text.start == it.start) || it.start == RUNTIME {
                continue;
            }
            texts.extend(self.patch_one(task, it, &all)?);
        }
        self.texts.insert(pid, texts);
        Ok(())
    }

    fn patch_one(&mut self, task: Task, it: &Mapping, all: &[Mapping]) -> io::Result<Option<Text>> {
        let change = std::fs::metadata(&it.path).map(|file| {
            use std::os::unix::fs::MetadataExt;
            (
                file.dev(),
                file.ctime() as u64 * 1_000_000_000 + file.ctime_nsec() as u64,
            )
        });
        let Ok((device, change)) = change else {
            return Ok(None);
        };
        let version = Version::Inode {
            device,
            inode: it.inode,
            change,
        };
        let key = (version, it.offset);
        let size = (it.end - it.start) as usize;
        let mut code = vec![0; size];
        task.read(it.start, &mut code)?;
        let distance = if it.start < 1 << 31 {
            -DISTANCE
        } else {
            DISTANCE
        };
        let known = self.cache.get(key.clone(), || {
            let file = std::fs::read(&it.path).unwrap_or_default();
            let functions = Elf::parse(&file).map(|elf| {
                let Some(own) = elf
                    .segments
                    .iter()
                    .find(|s| s.offset as u64 & !0xfff == it.offset)
                else {
                    return Vec::new();
                };
                let base = own.address - (own.offset as u64 - it.offset);
                elf.functions
                    .iter()
                    .map(|at| at.wrapping_sub(base))
                    .collect()
            });
            find(&code, 0, &functions.unwrap_or_default())
        });
        let plan_key = (key.clone(), distance, known.proven.len());
        let plan = self.plans.entry(plan_key).or_insert_with(|| {
            let layout = Layout {
                distance,
                room: 1 << 20,
                gates: gate::GATES,
            };
            Plan::new(&code, &known.sites, &known.proven, layout).into()
        });
        if plan.trampolines.is_empty() {
            return Ok(None);
        }
        let plan = std::rc::Rc::clone(plan);
        let stub = RUNTIME + gate::at::toy_remote();
        let rwx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let own = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = it.start.wrapping_add_signed(distance);
        let length = plan.trampolines.len() as u64;
        // Trampolines of what is gone may be there, and nothing else.
        let mut there = all
            .iter()
            .filter(|it| it.start < place + length && place < it.end);
        if let Some(it) = there.find(|it| !it.code || !it.path.is_empty()) {
            return Err(Error::other(format!(
                "{it:x?} is where trampolines would be"
            )));
        }
        let region = [place, length, rwx, own as u64, u64::MAX, 0];
        task.call(stub, libc::SYS_mmap, region)?;
        task.write(place, &plan.trampolines)?;
        plan.apply(&mut code)
            .map_err(|e| Error::other(format!("{}: {e}", it.path)))?;
        task.write(it.start, &code)?;
        Ok(Some(Text {
            start: it.start,
            end: it.end,
            trampolines: place,
            file: it.path.clone(),
            key,
            plan,
        }))
    }

    /// A signal is about to be delivered; the one that will be, or 0.
    fn signal(&mut self, task: Task, signal: i32) -> io::Result<i32> {
        let mut registers = task.registers()?;
        if signal == libc::SIGSYS && self.caught(task, &mut registers)? {
            task.set_registers(&registers)?;
            return Ok(0);
        }
        if signal == libc::SIGTRAP {
            let at = registers.rip.wrapping_sub(1);
            let text = self
                .texts_of(task)
                .iter()
                .find(|text| (text.start..text.end).contains(&at));
            let to = text.and_then(|text| {
                Some(text.trampolines + u64::from(text.plan.resume((at - text.start) as u32)?))
            });
            if let Some(to) = to {
                self.seen.resumed += 1;
                registers.rip = to;
                task.set_registers(&registers)?;
                return Ok(0);
            }
        }
        if self.moved_out(task, &mut registers) {
            self.seen.moved_out += 1;
            task.set_registers(&registers)?;
        }
        Ok(signal)
    }

    /// A call by the net: it is proven to be code, and goes through the gate.
    fn caught(&mut self, task: Task, registers: &mut Registers) -> io::Result<bool> {
        let mut info = [0u8; 128];
        task.ptrace(libc::PTRACE_GETSIGINFO, 0, info.as_mut_ptr() as u64)?;
        if info[8..12] != 1i32.to_le_bytes() {
            return Ok(false);
        }
        let site = registers.rip - 2;
        let all = self.texts_of(task);
        let text = all
            .iter()
            .find(|text| (text.start..text.end).contains(&site))
            .cloned();
        let file = text.as_ref().map_or_else(
            || {
                let all = mappings(task).unwrap_or_default();
                let at = all
                    .into_iter()
                    .find(|it| (it.start..it.end).contains(&site));
                at.map_or("nowhere".into(), |it| it.path)
            },
            |text| text.file.clone(),
        );
        *self.seen.caught.entry(file).or_insert(0) += 1;
        registers.rcx = registers.rip;
        registers.rip = RUNTIME + gate::at::toy_net();
        if let Some(text) = text {
            let at = (site - text.start) as u32;
            self.cache.prove(&text.key, at);
            if let Some(patch) = text.plan.patch_of(at) {
                let stub = RUNTIME + gate::at::toy_remote();
                let first = text.start + u64::from(patch.at);
                for group in live::steps(patch) {
                    for (offset, byte) in group {
                        task.write(first + offset as u64, &[byte])?;
                    }
                    const SYNC_CORE: u64 = 1 << 5;
                    task.call(stub, libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0])?;
                }
                if let Some(resume) = text.plan.resume(at + 2) {
                    registers.rcx = text.trampolines + u64::from(resume);
                }
            }
        }
        Ok(true)
    }

    /// If the task is in a trampoline or the gate, it is put where the program would be.
    fn moved_out(&self, task: Task, registers: &mut Registers) -> bool {
        let texts = self.texts_of(task);
        let original = |at: u64| {
            texts.iter().find_map(|text| {
                let offset = u32::try_from(at.checked_sub(text.trampolines)?).ok()?;
                Some(text.start + u64::from(text.plan.original(offset)?))
            })
        };
        if let Some(at) = original(registers.rip) {
            registers.rip = at;
            return true;
        }
        let offset = registers.rip.wrapping_sub(RUNTIME);
        if offset >= gate::at::toy_remote() {
            return false;
        }
        let r = &*registers;
        let it = gate::inside(offset, r.rax, r.rcx, r.r9, r.gs_base, |at| self.area(at));
        let behind = original(it.back).unwrap_or(it.back);
        registers.rcx = behind;
        registers.rip = if it.done { behind } else { behind - 2 };
        (registers.r9, registers.gs_base) = (it.r9, it.gs);
        true
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

/// Calls from within the gate's page: allowed, and told of where they map code of files.
/// The page itself can be mapped from anywhere.
fn filter() -> Vec<libc::sock_filter> {
    let code = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const TRACE: u32 = 0x7ff0_0000;
    const TRAP: u32 = 0x0003_0000;
    const NUMBER: u32 = 0;
    const UPPER_POINTER: u32 = 12;
    let argument = |n: u32| 16 + 8 * n;
    let high = (RUNTIME >> 32) as u32;
    vec![
        // An mmap(2) at RUNTIME?
        code(LOAD, 0, 0, NUMBER),
        code(IF_EQUAL, 0, 5, libc::SYS_mmap as u32),
        code(LOAD, 0, 0, argument(0) + 4),
        code(IF_EQUAL, 0, 3, high),
        code(LOAD, 0, 0, argument(0)),
        code(IF_EQUAL, 0, 1, RUNTIME as u32),
        code(RETURN, 0, 0, ALLOW),
        // By other code than the gate's?
        code(LOAD, 0, 0, UPPER_POINTER),
        code(IF_EQUAL, 1, 0, high),
        code(RETURN, 0, 0, TRAP),
        // An mmap(2) of code of a file?
        code(LOAD, 0, 0, NUMBER),
        code(IF_EQUAL, 0, 5, libc::SYS_mmap as u32),
        code(LOAD, 0, 0, argument(2)),
        code(IF_SET, 0, 3, libc::PROT_EXEC as u32),
        code(LOAD, 0, 0, argument(3)),
        code(IF_SET, 1, 0, libc::MAP_ANONYMOUS as u32),
        code(RETURN, 0, 0, TRACE),
        code(RETURN, 0, 0, ALLOW),
    ]
}

fn tempfile() -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    options.open(std::env::temp_dir())
}
