//! Under the net every call of the program's comes to the runtime, of whatever kind, and
//! the runtime can do what its list says and no more. The host's kernel is asked.

#[path = "rig/gate.rs"]
mod gate;
mod scratch;

use gate::Area;
use libc::{c_long, EPERM};
use scratch::ground;
use std::arch::asm;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use tane_rewrite::trap::{self, Cause};

const RUNTIME: u64 = 0x3000_0000_0000;
/// What each cause was, as often as it came.
static CAUGHT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

unsafe extern "C" fn caught(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel gave them; the gate is at its place.
    unsafe {
        let kind = match trap::cause(signal, info, context) {
            Some(Cause::Call(_)) => {
                let back = trap::get(context, libc::REG_RIP);
                trap::enter(context, RUNTIME + gate::at::toy_net(), back);
                0
            }
            Some(Cause::Vsyscall(_)) => {
                trap::answer(context, 4711);
                1
            }
            Some(Cause::Foreign) => {
                trap::answer(context, -i64::from(libc::ENOSYS));
                2
            }
            Some(Cause::Breakpoint(_)) | None => return,
        };
        CAUGHT[kind].fetch_add(1, Ordering::Relaxed);
    }
}

fn count(kind: usize) -> u64 {
    CAUGHT[kind].load(Ordering::Relaxed)
}

/// A call by the C library; its result or error.
fn call(number: c_long, arguments: [u64; 6]) -> Result<u64, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: calls that are refused, or do what the test says.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        value => Ok(value as u64),
    }
}

/// Runs `work` in a process under the net; what it wrote to its bell. The second
/// descriptor it may map.
fn under_the_net(work: impl FnOnce(i32, i32)) -> Vec<u8> {
    let ground = ground();
    let pool = Box::leak(vec![Area::default(); 64].into_boxed_slice());
    pool[0].gates[0] = 1;
    ground.area = gate::area(RUNTIME, pool.as_ptr() as u64);
    let stack = vec![0u8; 64 << 10].leak();
    let mut ends = [0; 2];
    // SAFETY: descriptors of ours; what the child needs is there before it is made.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let memory = libc::memfd_create(c"memory".as_ptr(), 0);
        assert_eq!(libc::ftruncate(memory, 4096), 0);
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let page = libc::mmap(RUNTIME as *mut _, 4096, rwx, fixed, -1, 0).cast::<u8>();
            let (code, back) = (gate::code(), trap::return_code());
            page.copy_from_nonoverlapping(code.as_ptr(), code.len());
            page.add(code.len())
                .copy_from_nonoverlapping(back.as_ptr(), back.len());
            let restorer = RUNTIME + code.len() as u64;
            let alternate = libc::stack_t {
                ss_sp: stack.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: stack.len(),
            };
            libc::sigaltstack(&raw const alternate, std::ptr::null_mut());
            libc::signal(libc::SIGUSR1, libc::SIG_IGN);
            trap::install(libc::SIGSYS, caught, restorer).expect("a handler");
            tane_jail::Net {
                runtime: RUNTIME..restorer + back.len() as u64,
                memory: vec![memory],
                bells: vec![ends[1]],
                interrupt: libc::SIGUSR1,
            }
            .enter()
            .expect("a filter");
            let worked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(ends[1], memory)));
            libc::_exit(i32::from(worked.is_err()));
        }
        libc::close(ends[1]);
        libc::close(memory);
        let mut told = Vec::new();
        std::fs::File::from_raw_fd(ends[0])
            .read_to_end(&mut told)
            .expect("a pipe");
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(
            libc::WIFEXITED(status),
            "{status:#x}, after {:?}",
            String::from_utf8_lossy(&told)
        );
        assert_eq!(
            libc::WEXITSTATUS(status),
            0,
            "after {:?}",
            String::from_utf8_lossy(&told)
        );
        told
    }
}

/// Tells through the bell, which is all that is left to write to.
fn check(bell: i32, what: &str, holds: bool) {
    if !holds {
        let text = format!("{what}; ");
        let arguments = [
            bell as u64,
            text.as_ptr() as u64,
            text.len() as u64,
            0,
            0,
            0,
        ];
        call(libc::SYS_write, arguments).expect("the bell");
        // SAFETY: the end of this process.
        unsafe { libc::_exit(1) };
    }
}

#[test]
fn every_call_of_the_program_is_caught_and_the_runtime_can_do_what_its_list_says() {
    let me = std::process::id();
    let told = under_the_net(|bell, memory| {
        let refused = |what: &str, number, arguments| {
            check(bell, what, call(number, arguments) == Err(EPERM));
        };
        let allowed = |what: &str, number, arguments| {
            let result = call(number, arguments);
            check(bell, &format!("{what}: {result:?}"), result.is_ok());
            result.unwrap_or(0)
        };
        let before = count(0);
        let thread = allowed("gettid", libc::SYS_gettid, [0; 6]);
        check(
            bell,
            "the number of a child",
            thread > 1 && thread != u64::from(me),
        );
        check(bell, "caught", count(0) == before + 1);

        let path = c"/etc/passwd".as_ptr() as u64;
        refused("getpid", libc::SYS_getpid, [0; 6]);
        refused(
            "open",
            libc::SYS_openat,
            [libc::AT_FDCWD as u64, path, 0, 0, 0, 0],
        );
        refused("socket", libc::SYS_socket, [1, 1, 0, 0, 0, 0]);
        refused("execve", libc::SYS_execve, [path, 0, 0, 0, 0, 0]);
        refused(
            "kill",
            libc::SYS_kill,
            [thread, libc::SIGUSR1 as u64, 0, 0, 0, 0],
        );
        refused("ptrace", libc::SYS_ptrace, [0; 6]);
        refused("prctl", libc::SYS_prctl, [0; 6]);
        refused("seccomp", libc::SYS_seccomp, [0; 6]);

        let (rw, private) = (3, libc::MAP_PRIVATE as u64);
        let anonymous = private | libc::MAP_ANONYMOUS as u64;
        let at = allowed(
            "anonymous memory",
            libc::SYS_mmap,
            [0, 4096, rw, anonymous, u64::MAX, 0],
        );
        allowed("mprotect", libc::SYS_mprotect, [at, 4096, 1, 0, 0, 0]);
        allowed("munmap", libc::SYS_munmap, [at, 4096, 0, 0, 0, 0]);
        allowed(
            "the kernel's memory",
            libc::SYS_mmap,
            [0, 4096, rw, 1, memory as u64, 0],
        );
        refused("another file", libc::SYS_mmap, [0, 4096, 1, private, 0, 0]);

        let tgkill = |signal: i32| [thread, thread, signal as u64, 0, 0, 0];
        allowed("the interrupt", libc::SYS_tgkill, tgkill(libc::SIGUSR1));
        refused("another signal", libc::SYS_tgkill, tgkill(libc::SIGKILL));
        refused("another descriptor", libc::SYS_write, [2, path, 1, 0, 0, 0]);
        let mut base = 0u64;
        let out = &raw mut base as u64;
        allowed(
            "ARCH_GET_FS",
            libc::SYS_arch_prctl,
            [0x1003, out, 0, 0, 0, 0],
        );
        refused("ARCH_CET", libc::SYS_arch_prctl, [0x5001, out, 0, 0, 0, 0]);

        refused("fork", libc::SYS_fork, [0; 6]);
        let (chld, user) = (libc::SIGCHLD as u64, libc::CLONE_NEWUSER as u64);
        refused("a namespace", libc::SYS_clone, [chld | user, 0, 0, 0, 0, 0]);
        let shared = libc::CLONE_VM as u64;
        refused(
            "a process that shares",
            libc::SYS_clone,
            [chld | shared, 0, 0, 0, 0, 0],
        );
        let no_clone3 = call(libc::SYS_clone3, [0; 6]) == Err(libc::ENOSYS);
        check(bell, "clone3", no_clone3);
        // What is forked is under the net too.
        if allowed("a copy", libc::SYS_clone, [chld, 0, 0, 0, 0, 0]) == 0 {
            let before = count(0);
            refused("getpid of a copy", libc::SYS_getpid, [0; 6]);
            check(bell, "of a copy", count(0) == before + 1);
            let ok = c"copied".as_ptr() as u64;
            let _ = call(libc::SYS_write, [bell as u64, ok, 6, 0, 0, 0]);
            // SAFETY: the end of this process.
            unsafe { libc::_exit(0) };
        }
    });
    assert_eq!(String::from_utf8_lossy(&told), "copied");
}

#[test]
fn calls_of_other_kinds_are_answered_as_linux_without_them_does() {
    let vsyscall = std::fs::read_to_string("/proc/self/maps")
        .expect("maps")
        .contains("[vsyscall]");
    under_the_net(|bell, _| {
        let enosys = -i64::from(libc::ENOSYS);
        let mut result: i64 = 20;
        // SAFETY: getpid of the 32-bit interface.
        unsafe {
            asm!("int 0x80", inout("rax") result, lateout("r8") _, lateout("r9") _,
                 lateout("r10") _, lateout("r11") _);
        }
        check(
            bell,
            "int 0x80",
            result as i32 == enosys as i32 && count(2) == 1,
        );
        let x32 = 0x4000_0000 + libc::SYS_getpid;
        check(
            bell,
            "x32",
            call(x32, [0; 6]) == Err(libc::ENOSYS) && count(2) == 2,
        );
        if vsyscall {
            let before = count(0);
            // SAFETY: time(2) at its fixed place, with nowhere to write.
            let time = unsafe {
                let time: extern "C" fn(u64) -> i64 =
                    std::mem::transmute(0xffff_ffff_ff60_0400_u64);
                time(0)
            };
            check(
                bell,
                "vsyscall",
                time == 4711 && count(1) == 1 && count(0) == before,
            );
        }
    });
    if !vsyscall {
        tane_test_support::skip("the host has no vsyscall page: that part is not tried");
    }
}

#[test]
fn a_range_that_no_filter_can_tell_is_refused() {
    for (start, end) in [
        (4096, 4096),
        (u64::MAX - 1, u64::MAX),
        (0xffff_f000, 1 << 32),
        (8192, 4096),
    ] {
        let net = tane_jail::Net {
            runtime: start..end,
            memory: Vec::new(),
            bells: Vec::new(),
            interrupt: libc::SIGUSR1,
        };
        let error = net.enter().expect_err("no such range");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    }
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("status");
    assert!(status.contains("Seccomp:\t0"), "no filter came of it");
}
