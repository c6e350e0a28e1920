//! Another Linux, Debian's user-mode-linux, with the host's files and programs: it
//! makes and checks what takes a kernel that has a device mapper. No root is needed.
//!
//! It keeps its programs' registers by ptrace(), in a buffer that has room for those of
//! AVX-512 and not for those of AMX. Where the processor has these, the host takes only
//! all of them back, and the first program would end at once: [`REGISTERS`] adds what
//! the buffer lacks.

use super::{exit, text, Scratch};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PACKAGE: &str = "user-mode-linux";
/// It says each line that it runs, so that one that says nothing for so long waits for
/// itself, as its device mapper sometimes does. It has as many tries.
const SILENCE: Duration = Duration::from_secs(180);
const TRIES: usize = 3;
const MEMORY_MIB: u64 = 256;

/// What comes before each script: LVM is told not to wait for udev, which is not there.
const FIRST: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LVM_SYSTEM_DIR=/tmp/lvm LVM_SUPPRESS_FD_WARNINGS=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mount -t tmpfs tmp /tmp
mkdir -p /run/lvm /tmp/lvm /tmp/m/lib /tmp/mnt /tmp/host
mount -t hostfs -o "$host" none /tmp/host
exec >/tmp/host/uml.log 2>&1
ln -s /usr/lib/uml/modules /tmp/m/lib/modules
for m in dm-mod dm-thin-pool dm-raid dm-mirror dm-snapshot dm-cache dm-cache-smq \
	dm-writecache dm-zero dm-integrity raid0 raid1 raid10 raid456; do
	modprobe -d /tmp/m $m
done
cat >/tmp/lvm/lvm.conf <<END
backup { backup = 0 archive = 0 }
devices { use_devicesfile = 0 scan = [ "/dev" ] }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 thin_pool_autoextend_threshold = 100 }
END
cd /tmp/host
sh -ex ./uml.script && sync && echo done >/tmp/host/uml.end
sync
poweroff -f
"#;

pub struct Uml(());

impl Uml {
    /// None, and the test is skipped, where it is not installed.
    #[track_caller]
    pub fn find() -> Option<Uml> {
        tane_test_support::tool(PACKAGE, "linux.uml")?;
        tane_test_support::tool("lvm2", "lvm")?;
        tane_test_support::tool("thin-provisioning-tools", "thin_check")?;
        Some(Uml(()))
    }

    /// Run lines of sh as its root. The images are /dev/ubda, /dev/ubdb and so on,
    /// the scratch directory is the current one. The first line that fails ends it,
    /// and the test. Returns what they printed.
    pub fn run(&self, s: &Scratch, disks: &[PathBuf], script: &str) -> String {
        let first = s.write("uml.first", FIRST.as_bytes());
        succeed_chmod(&first);
        s.write("uml.script", script.as_bytes());
        let before: Vec<_> = disks
            .iter()
            .map(|disk| disk.with_extension("uml"))
            .collect();
        for (disk, before) in disks.iter().zip(&before) {
            copy(disk, before);
        }
        let ended = (0..TRIES).any(|_| {
            let ended = run_once(s, disks);
            if !ended {
                eprintln!("the other Linux stands still, and starts again");
                for (disk, before) in disks.iter().zip(&before) {
                    copy(before, disk);
                }
            }
            ended
        });
        for before in before {
            std::fs::remove_file(before).expect("removes");
        }
        let log = std::fs::read(s.join("uml.log")).unwrap_or_default();
        let (said, log) = (text(&s.read("uml.console")), text(&log));
        assert!(ended && s.join("uml.end").exists(), "{said}\n{log}");
        log
    }
}

/// With its holes.
fn copy(from: &Path, to: &Path) {
    exit(
        Command::new("cp").arg("--sparse=always").args([from, to]),
        0,
    );
}

/// Whether it came to an end; if not, nothing of it is left.
fn run_once(s: &Scratch, disks: &[PathBuf]) -> bool {
    for name in ["uml.end", "uml.log"] {
        let _ = std::fs::remove_file(s.join(name));
    }
    let name = s.path().file_name().expect("a name").to_string_lossy();
    let mut linux = Command::new("linux.uml");
    linux.env("LD_PRELOAD", registers(s));
    if !shared_memory_serves() {
        linux.env("TMPDIR", s.path());
    }
    linux.args([&format!("mem={MEMORY_MIB}M"), "rootfstype=hostfs"]);
    linux.args(["rootflags=/", "ro", "con=null", "con0=null,fd:1"]);
    linux.arg(format!("umid={name}"));
    linux.arg(format!("init={}", s.join("uml.first").display()));
    linux.arg(format!("host={}", s.path().display()));
    for (i, disk) in disks.iter().enumerate() {
        linux.arg(format!("ubd{i}={}", disk.display()));
    }
    let console = std::fs::File::create(s.join("uml.console")).expect("a file");
    linux
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(console);
    // Its processes are many, and end together.
    let mut linux = linux.process_group(0).spawn().expect("runs");
    let said = || {
        let len = |name| std::fs::metadata(s.join(name)).map_or(0, |found| found.len());
        (len("uml.console"), len("uml.log"))
    };
    let (mut last, mut since) = (said(), Instant::now());
    while linux.try_wait().expect("its status").is_none() {
        if said() != last {
            (last, since) = (said(), Instant::now());
        }
        if since.elapsed() > SILENCE {
            // SAFETY: the group of a child that was not waited for yet.
            unsafe { libc::killpg(linux.id() as i32, libc::SIGKILL) };
            linux.wait().expect("its status");
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// C, which user-mode-linux gets in place of the C library's function. What its buffer
/// has no room for stays as it is in the process: no program here uses AMX.
const REGISTERS: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, pid_t, void *, void *);
	static char state[1 << 16];
	struct iovec all = { state, sizeof(state) }, *some;
	va_list args;
	pid_t pid;
	void *at;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	at = va_arg(args, void *);
	some = va_arg(args, void *);
	va_end(args);
	if (!next)
		next = dlsym(RTLD_NEXT, "ptrace");
	if (at != (void *)NT_X86_XSTATE ||
	    (request != PTRACE_GETREGSET && request != PTRACE_SETREGSET))
		return next(request, pid, at, some);
	if (next(PTRACE_GETREGSET, pid, at, &all) < 0)
		return -1;
	if (some->iov_len > all.iov_len)
		some->iov_len = all.iov_len;
	if (request == PTRACE_GETREGSET) {
		memcpy(some->iov_base, state, some->iov_len);
		return 0;
	}
	memcpy(state, some->iov_base, some->iov_len);
	return next(request, pid, at, &all);
}
"#;

/// The library with it.
fn registers(s: &Scratch) -> PathBuf {
    let library = s.join("uml.registers.so");
    if !library.exists() {
        let source = s.write("uml.registers.c", REGISTERS.as_bytes());
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library);
        exit(cc.arg(source), 0);
    }
    library
}

/// Its memory is a file in /dev/shm, unless that is small or nothing there may be
/// executed, as in many containers.
fn shared_memory_serves() -> bool {
    // SAFETY: statvfs() fills the structure, of which all zeroes are one.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found) == 0
            && found.f_flag & libc::ST_NOEXEC == 0
            && found.f_bavail * found.f_frsize >= 2 * (MEMORY_MIB << 20)
    }
}

fn succeed_chmod(path: &Path) {
    exit(Command::new("chmod").arg("+x").arg(path), 0);
}
