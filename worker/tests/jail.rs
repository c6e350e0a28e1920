//! Promises about what code that a hostile image got to run in a worker could do:
//! its threads are made to do it.

mod common;
#[path = "../../cli/tests/prisoner/mod.rs"]
mod prisoner;

use common::*;
use prisoner::filter::Filters;
use prisoner::{attacks, listed, threads, Outcome, Prisoner};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use tane_worker::Calls;

const DENIED: Outcome = Outcome::Returned(-(libc::EACCES as i64));

#[test]
fn no_thread_of_a_worker_can_open_a_file() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk);
    let stat = mount.stat("hello".as_ref(), 0).expect("it serves");
    assert_eq!(stat.length, 15);
    let mut first = Prisoner::waiting_in(image.pid(), libc::SYS_poll, None);
    let path = CString::new(disk.as_os_str().as_bytes()).expect("no NUL");
    for file in [c"/etc/passwd", &path, c"/proc/self/mem"] {
        for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_CREAT | libc::O_WRONLY] {
            assert_eq!(first.open(file, flags), DENIED, "{file:?}");
        }
    }
    let mut others = threads(image.pid());
    others.retain(|tid| *tid != first.tid());
    assert!(others.len() > 4, "a thread for each slot, and Linux's own");
    for tid in others {
        let mut other = first.beside(tid);
        assert_eq!(other.open(c"/etc/passwd", libc::O_RDONLY), DENIED);
    }
    drop(first);
    assert_eq!(mount.stat("hello".as_ref(), 0), Ok(stat), "it goes on");
}

/// Those of the command that reads images.
#[test]
fn a_worker_has_the_calls_that_are_listed_for_it() {
    let s = scratch();
    let Some(disk) = image(&s).filter(|_| tane_test_support::has_root()) else {
        return;
    };
    let (image, _mount) = open(&disk);
    let thread = Prisoner::behind(image.pid(), 2);
    let wrong = listed::differences(&Filters::of(&thread), image.pid(), 'L');
    assert!(
        wrong.is_empty(),
        "docs/jail-calls.md:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn no_attack_from_inside_a_worker_succeeds() {
    let s = scratch();
    let Some(disk) = image(&s).filter(|_| tane_test_support::has_root()) else {
        return;
    };
    let place = s.join("outside");
    std::fs::create_dir(&place).expect("a directory");
    std::fs::write(place.join("secret"), b"a secret").expect("a file");
    let start = || {
        let held = open(&disk);
        let pid = held.0.pid();
        (held, pid)
    };
    let wrong = attacks::try_all('L', 2, false, &place, start);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let secret = std::fs::read(place.join("secret")).expect("it is there");
    assert_eq!(secret, b"a secret");
    assert_eq!(std::fs::read_dir(&place).expect("a listing").count(), 1);
}

#[test]
fn a_worker_that_connects_or_starts_a_program_is_killed() {
    let shell = c"/bin/sh";
    let unix = libc::AF_UNIX as u64;
    let attacks: [(&str, i64, [u64; 3]); 7] = [
        ("socket", libc::SYS_socket, [unix, 1, 0]),
        ("inet", libc::SYS_socket, [libc::AF_INET as u64, 1, 0]),
        ("connect", libc::SYS_connect, [3, 0, 0]),
        ("execve", libc::SYS_execve, [u64::MAX, 0, 0]),
        ("fork", libc::SYS_fork, [0; 3]),
        ("kill", libc::SYS_kill, [std::process::id().into(), 0, 0]),
        (
            "ptrace",
            libc::SYS_ptrace,
            [libc::PTRACE_ATTACH as u64, 1, 0],
        ),
    ];
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    for (name, number, arguments) in attacks {
        let (image, mount) = open(&disk);
        let mut thread = Prisoner::waiting_in(image.pid(), libc::SYS_poll, None);
        let path = thread.text(shell);
        let arguments = arguments.map(|a| if a == u64::MAX { path } else { a });
        let outcome = thread.call(number, &arguments);
        assert_eq!(outcome, Outcome::Killed(libc::SIGSYS), "{name}");
        drop(thread);
        // Whoever traced it has waited for it, so that its caller cannot know the cause.
        let failure = mount.stat("hello".as_ref(), 0).expect_err("it is dead");
        assert_eq!(failure.errno, libc::ESHUTDOWN, "{failure}");
    }
}

#[test]
fn a_worker_can_map_no_code_and_inherits_nothing() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    // Without FD_CLOEXEC, as careless libraries have them.
    // SAFETY: a descriptor of our own.
    let leak = unsafe { libc::dup(1) };
    let (image, _mount) = open(&disk);
    let mut thread = Prisoner::waiting_in(image.pid(), libc::SYS_poll, None);
    let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let mapped = thread.call(libc::SYS_mmap, &[0, 4096, code, kind, u64::MAX, 0]);
    assert_eq!(mapped, Outcome::Returned(-(libc::EPERM as i64)));
    let files = std::fs::read_dir(format!("/proc/{}/fd", image.pid())).expect("its files");
    let names = files
        .flatten()
        .map(|f| std::fs::read_link(f.path()).expect("a link"));
    let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    names.retain(|name| {
        // Nobody can close the kernel images any more.
        if name.ends_with(".elf") {
            return false;
        }
        let own = [
            "/dev/null",
            "socket:",
            "/memfd:",
            "anon_inode:",
            &*disk.to_string_lossy(),
        ];
        !own.iter().any(|own| name.starts_with(own))
    });
    assert!(names.is_empty(), "{names:?}");
    let environment = std::fs::read(format!("/proc/{}/environ", image.pid())).expect("its");
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("PATH="), "{environment}");
    // SAFETY: ours.
    unsafe { libc::close(leak) };
}

#[test]
fn code_that_has_taken_a_worker_over_ends_with_its_caller() {
    Caller::work(|| {});
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let test = "code_that_has_taken_a_worker_over_ends_with_its_caller";
    let caller = Caller::start(test, &disk);
    // The thread that waits for the caller's end never looks again.
    let mut thread = Prisoner::waiting_in(caller.worker, libc::SYS_poll, None);
    let refused = Outcome::Returned(-(libc::EPERM as i64));
    let me = u64::from(caller.worker);
    for fd in 0..64 {
        let set_owner = [fd, libc::F_SETOWN as u64, 0];
        assert_eq!(thread.call(libc::SYS_fcntl, &set_owner), refused);
        thread.call(libc::SYS_fcntl, &[fd, libc::F_SETFL as u64, 0]);
        thread.call(libc::SYS_close, &[fd]);
    }
    let death = [libc::PR_SET_PDEATHSIG as u64, 0];
    assert_eq!(thread.call(libc::SYS_prctl, &death), refused);
    assert_eq!(
        thread.call(libc::SYS_getpid, &[]),
        Outcome::Returned(me as i64)
    );
    caller.kill();
    assert_eq!(thread.ends_by(), libc::SIGKILL);
}
