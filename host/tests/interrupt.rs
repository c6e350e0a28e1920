//! Signals: a kernel that does not look is interrupted, and faults that are not
//! a kernel's go where they would go without one. What concerns the handlers of
//! a whole process is tried in children of this one.

mod common;

use common::{boot, boot_with, nap, syscall};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tane_host::Kernel;

fn open(k: &Kernel, path: &CStr, flags: i32) -> u64 {
    let args = [
        libc::AT_FDCWD as u64,
        path.as_ptr() as u64,
        flags as u64,
        0o600,
    ];
    let fd = syscall(k, libc::SYS_openat, &args);
    assert!(fd >= 0, "{path:?}: {fd}");
    fd as u64
}

/// /dev is where the kernel puts its devices; mounted if it is not yet.
fn mount_dev(k: &Kernel) {
    let (kind, at) = (c"devtmpfs".as_ptr() as u64, c"/dev".as_ptr() as u64);
    syscall(k, libc::SYS_mkdir, &[at, 0o755]);
    syscall(k, libc::SYS_mount, &[kind, at, kind, 0, 0]);
}

/// While `busy` is inside for long, another thread's naps end: more of them than times
/// it came out, so they did not only end then.
fn naps_end_while(k: &Kernel, busy: impl Fn(&Kernel)) {
    nap(k, 1); // has its task before the other is busy
    let done = AtomicBool::new(false);
    let naps = AtomicU32::new(0);
    let mut times = 0;
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                nap(k, 2);
                naps.fetch_add(1, Ordering::Relaxed);
            }
        });
        while naps.load(Ordering::Relaxed) == 0 {
            nap(k, 1);
        }
        naps.store(0, Ordering::Relaxed);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            busy(k);
            times += 1;
        }
        done.store(true, Ordering::Relaxed);
        start.elapsed()
    });
    let naps = naps.into_inner();
    println!("{naps} naps of 2 ms while busy {times} times in {took:?}");
    assert!(naps > times + 1, "{naps} naps, busy {times} times");
}

/// One call, which never sleeps, of some tenths of a second: two GiB of zeros
/// into the same 16 MiB.
struct LongRead {
    zero: u64,
    /// Atomic, as the kernel writes behind the compiler's back.
    buffer: Vec<AtomicU8>,
}

impl LongRead {
    fn new(k: &Kernel) -> Self {
        mount_dev(k);
        Self {
            zero: open(k, c"/dev/zero", libc::O_RDONLY),
            buffer: (0..16 << 20).map(|_| AtomicU8::new(1)).collect(),
        }
    }

    fn run(&self, k: &Kernel) {
        let part = libc::iovec {
            iov_base: self.buffer.as_ptr().cast_mut().cast(),
            iov_len: self.buffer.len(),
        };
        let parts = [part; 127];
        let args = [self.zero, parts.as_ptr() as u64, 127];
        let all = (parts.len() * self.buffer.len()) as i64;
        assert_eq!(syscall(k, libc::SYS_readv, &args), all);
    }
}

#[test]
fn one_long_read_of_zeros_holds_nobody_up() {
    let k = boot();
    let read = LongRead::new(&k);
    naps_end_while(&k, |k| read.run(k));
    assert!(read.buffer.iter().all(|b| b.load(Ordering::Relaxed) == 0));
}

/// The signal that injects interrupts queues up while its thread waits to run.
#[test]
fn signals_that_queue_up_do_not_fill_the_kernels_stack() {
    let k = boot();
    let read = LongRead::new(&k);
    // SAFETY: no arguments.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for _ in 0..400 {
                    let signal = libc::SIGRTMAX() - 5;
                    // SAFETY: the thread outlives this one.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                nap(&k, 1);
            }
        });
        read.run(&k);
        done.store(true, Ordering::Relaxed);
    });
    assert!(k.is_alive(), "{}", k.last_words());
}

#[test]
fn a_long_write_to_tmpfs_holds_nobody_up() {
    let k = boot_with(|b| b.ram = 512 << 20);
    let kind = c"tmpfs".as_ptr() as u64;
    let at = c"/t".as_ptr() as u64;
    assert_eq!(syscall(&k, libc::SYS_mkdir, &[at, 0o755]), 0);
    assert_eq!(syscall(&k, libc::SYS_mount, &[kind, at, kind, 0, 0]), 0);
    let file = open(&k, c"/t/f", libc::O_CREAT | libc::O_RDWR);
    let buffer = vec![7u8; 200 << 20];
    naps_end_while(&k, |k| {
        for _ in 0..4 {
            let args = [file, buffer.as_ptr() as u64, 200 << 20, 0];
            assert_eq!(syscall(k, libc::SYS_pwrite64, &args), 200 << 20);
        }
    });
}

#[test]
fn reading_the_names_of_all_symbols_holds_nobody_up() {
    let k = boot();
    common::read_file(&k, c"/proc/version"); // mounts /proc
    let mut buffer = vec![0u8; 64 << 20];
    let address = buffer.as_mut_ptr() as u64;
    naps_end_while(&k, |k| {
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            let symbols = open(k, c"/proc/kallsyms", libc::O_RDONLY);
            while syscall(k, libc::SYS_read, &[symbols, address, 64 << 20]) > 0 {}
            syscall(k, libc::SYS_close, &[symbols]);
        }
    });
}

/// Run this test program again, for one test that is otherwise passed over, and
/// say how it ended.
fn in_a_child(test: &str) -> std::process::ExitStatus {
    use std::process::{Command, Stdio};
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("TANE_TEST_CHILD", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("runs")
}

fn is_child() -> bool {
    std::env::var_os("TANE_TEST_CHILD").is_some()
}

fn killed_by(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Install a handler; what was there before.
fn handle(signal: i32, handler: usize) -> libc::sigaction {
    // SAFETY: installs a handler that is safe in a signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(signal, &raw const action, &raw mut old);
        old
    }
}

/// Take away what Rust's runtime installed, whose handler of a sent signal waits
/// for it to come again: what is tried is a program without handlers.
fn without_handlers() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default needs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

static SEEN: AtomicU32 = AtomicU32::new(0);
static PAGE: AtomicU64 = AtomicU64::new(0);
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// A program's own lazy page: a fault on it makes it writable; others are
/// passed to whoever was there before, or end the process.
unsafe extern "C" fn makes_writable(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: what the host gives to a handler of a fault.
    let address = unsafe { (*info).si_addr() as u64 };
    if (page..page + 4096).contains(&address) {
        SEEN.fetch_add(1, Ordering::Relaxed);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a page of ours.
        unsafe { libc::mprotect(page as *mut _, 4096, both) };
        return;
    }
    match BEFORE.load(Ordering::Relaxed) {
        // SAFETY: ends the process.
        0 => unsafe { libc::_exit(3) },
        // SAFETY: it was installed as a handler of this kind.
        before => unsafe {
            std::mem::transmute::<u64, Handler>(before)(signal, info, context);
        },
    }
}

fn touch_own_page() {
    let page = common::lonely_page();
    // SAFETY: our page; the handler makes it writable when it is touched.
    unsafe {
        libc::mprotect(page as *mut _, 4096, libc::PROT_NONE);
        PAGE.store(page, Ordering::Relaxed);
        let before = SEEN.load(Ordering::Relaxed);
        (page as *mut u8).write_volatile(1);
        assert_eq!(SEEN.load(Ordering::Relaxed), before + 1);
    }
}

/// Faults of the kernel's own: a bad pointer, and memory it shows on demand.
fn kernel_faults_are_handled(k: &Kernel) {
    let efault = -i64::from(libc::EFAULT);
    assert_eq!(syscall(k, libc::SYS_uname, &[8]), efault);
    let both = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map = [0, 1 << 20, both, flags, u64::MAX, 0];
    let address = syscall(k, libc::SYS_mmap, &map) as *mut u8;
    // SAFETY: the kernel has just given it to us.
    unsafe { address.add(5000).write_volatile(1) };
}

#[test]
fn child_with_a_handler_from_before_the_boot() {
    if is_child() {
        handle(libc::SIGSEGV, makes_writable as *const () as usize);
        let k = boot();
        touch_own_page();
        kernel_faults_are_handled(&k);
        touch_own_page();
        drop(k);
        touch_own_page();
    }
}

#[test]
fn a_handler_from_before_the_boot_gets_the_programs_faults() {
    let ended = in_a_child("child_with_a_handler_from_before_the_boot");
    assert!(ended.success(), "{ended}");
}

#[test]
fn child_with_a_handler_that_passes_on() {
    if is_child() {
        let k = boot();
        let old = handle(libc::SIGSEGV, makes_writable as *const () as usize);
        BEFORE.store(old.sa_sigaction as u64, Ordering::Relaxed);
        touch_own_page();
        kernel_faults_are_handled(&k);
        touch_own_page();
        // A new kernel while the handler lies over ours, and the end of all.
        kernel_faults_are_handled(&boot());
        drop(k);
        touch_own_page();
        // Ours is still below theirs; a kernel after that works as well.
        kernel_faults_are_handled(&boot());
        touch_own_page();
    }
}

/// A handler installed over ours gets every fault first, the kernel's too; what
/// it does not know it has to pass on, as sigaction(2) programs do.
#[test]
fn a_handler_installed_after_the_boot_works_if_it_passes_on_what_is_not_its_own() {
    let ended = in_a_child("child_with_a_handler_that_passes_on");
    assert!(ended.success(), "{ended}");
}

#[test]
fn child_that_crashes() {
    if is_child() {
        without_handlers();
        let k = boot();
        kernel_faults_are_handled(&k);
        // SAFETY: crashes on purpose.
        unsafe { (8 as *mut u8).write_volatile(1) };
    }
}

#[test]
fn a_fault_of_the_program_that_nobody_handles_kills_it() {
    let ended = in_a_child("child_that_crashes");
    assert_eq!(killed_by(ended), Some(libc::SIGSEGV), "{ended}");
}

#[test]
fn child_that_divides_by_zero() {
    if is_child() {
        let _k = boot();
        // SAFETY: crashes on purpose.
        unsafe {
            std::arch::asm!("xor ecx, ecx", "xor edx, edx", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
        };
    }
}

#[test]
fn a_division_by_zero_of_the_program_kills_it() {
    let ended = in_a_child("child_that_divides_by_zero");
    assert_eq!(killed_by(ended), Some(libc::SIGFPE), "{ended}");
}

#[test]
fn child_that_is_sent_a_fault_signal() {
    if is_child() {
        without_handlers();
        let _k = boot();
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) };
        std::thread::sleep(Duration::from_secs(10));
    }
}

#[test]
fn a_sent_fault_signal_kills_as_without_a_kernel() {
    let ended = in_a_child("child_that_is_sent_a_fault_signal");
    assert_eq!(killed_by(ended), Some(libc::SIGSEGV), "{ended}");
}
