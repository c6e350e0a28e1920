//! Promises about how much memory and time a hostile image can take.

use crate::common::*;
use crate::jailed::*;
use crate::prisoner::Outcome::Returned;
use crate::prisoner::*;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

#[test]
fn memory_has_a_limit() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let memory = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
    let ask = |options: &[&str], size: u64| {
        let command = reading(&s, options);
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        thread.call(libc::SYS_mmap, &[0, size, 3, memory, -1i64 as u64, 0])
    };
    let too_much = Returned(-(libc::ENOMEM as i64));
    assert_eq!(ask(&[], 4 << 30), too_much);
    done(&ask(&[], 1 << 30));
    assert_eq!(ask(&["--memory-limit=1G"], 1 << 30), too_much);
    done(&ask(&["--memory-limit=none"], 4 << 30));
    // Nor as what no limit counts.
    let command = reading(&s, &[]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    let grows = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN) as u64;
    for kind in [shared, grows] {
        let mapped = thread.call(libc::SYS_mmap, &[0, 4096, 3, kind, -1i64 as u64, 0]);
        assert_eq!(mapped, NOT_PERMITTED);
    }
    drop((thread, command));
    // Nor by more RAM for the kernel: the memory file keeps its size.
    let command = reading(&s, &[]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let fds = std::fs::read_dir(format!("/proc/{}/fd", command.0.id())).expect("its files");
    let ram = fds.flatten().find(|fd| {
        let name = std::fs::read_link(fd.path()).unwrap_or_default();
        name.as_os_str().as_bytes().starts_with(b"/memfd:tane-ram")
    });
    let ram = ram.expect("the RAM").file_name();
    let ram: u64 = ram.to_str().and_then(|n| n.parse().ok()).expect("a number");
    assert_eq!(
        thread.call(libc::SYS_ftruncate, &[ram, 64 << 30]),
        NOT_PERMITTED
    );
}

/// Files in memory are what no limit of the host's counts.
#[test]
fn the_memory_of_later_kernels_is_all_there_is_and_serves_one_after_the_other() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    std::fs::create_dir(s.join("outer")).expect("a directory");
    std::fs::copy(s.join("disk.img"), s.join("outer/disk.img")).expect("a copy");
    s.ext4("outer.img", Some(&s.join("outer")), 80);
    // Each command has two kernels of its own, and all the session sixteen at a time.
    let line = "stat outer.img:/disk.img:/big\n".repeat(20);
    succeed(s.tane().args(["sh", "-c", &line, "outer.img"]));

    let mut command = s.tane();
    command.args(["sh", "-c", "cat /big", "disk.img"]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let mut sizes = Vec::new();
    for fd in std::fs::read_dir(format!("/proc/{}/fd", command.0.id())).expect("its files") {
        let fd = fd.expect("a file");
        let name = std::fs::read_link(fd.path()).expect("a link");
        if !name.as_os_str().as_bytes().starts_with(b"/memfd:") {
            continue;
        }
        let number = fd.file_name().to_str().and_then(|n| n.parse().ok());
        let (number, size): (u64, _) =
            (number.expect("a number"), fd.metadata().expect("its").len());
        assert_eq!(
            thread.call(libc::SYS_ftruncate, &[number, 1 << 40]),
            NOT_PERMITTED
        );
        let more = [number, 0, 1 << 40, 4096];
        assert_eq!(thread.call(libc::SYS_fallocate, &more), NOT_PERMITTED);
        sizes.push(size);
    }
    assert_eq!(sizes.len(), 16);
    assert!(sizes.iter().all(|size| *size < 260 << 20), "{sizes:?}");
}

#[test]
fn time_has_a_limit_that_cannot_be_lifted() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let mut command = reading(&s, &["--time-limit=1"]);
    let status = command.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(124));
    // Long enough to begin, and to look, whatever else the machine does.
    let command = reading(&s, &["--time-limit=60"]);
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let kept = (0..4).filter(|id| thread.call(libc::SYS_timer_delete, &[*id]) == NOT_PERMITTED);
    assert_eq!(kept.count(), 1);
    refused(&thread.call(libc::SYS_setitimer, &[0, 0, 0]));
}

/// Whoever stops the thread that says that time is over is killed a little later.
#[test]
fn who_keeps_a_command_from_ending_in_time_is_killed() {
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    // It has to begin, and to be stopped, by then.
    let command = reading(&s, &["--time-limit=15"]);
    let thread = Prisoner::writing_to(&command.0, STDOUT);
    // While all threads are stopped nobody takes the alarm.
    let mut others = threads(command.0.id());
    others.retain(|tid| *tid != thread.tid());
    let others: Vec<_> = others.into_iter().map(|tid| thread.beside(tid)).collect();
    for other in others {
        assert_eq!(other.ends_by(), libc::SIGKILL);
    }
    assert_eq!(thread.ends_by(), libc::SIGKILL);
}

/// Its key takes hours, in which nobody asks the disk for anything.
#[test]
fn an_image_that_never_comes_up_ends_the_command_by_itself() {
    if !has_kernel() || tane_test_support::tool("cryptsetup-bin", "cryptsetup").is_none() {
        return;
    }
    let s = Scratch::new();
    s.write("pw", b"secret");
    let file = std::fs::File::create(s.join("luks.img")).expect("a file");
    file.set_len(4 << 20).expect("its size");
    let words = "luksFormat -q --type=luks1 --hash=sha256 --pbkdf-force-iterations=1000 \
                 --key-file=pw luks.img";
    succeed(&mut s.command("cryptsetup", words));
    // The first key's number of iterations.
    let iterations = u32::MAX.to_be_bytes();
    std::os::unix::fs::FileExt::write_all_at(&file, &iterations, 212).expect("writes");
    let listed = ["--key-file=pw", "--hang-limit=1", "ls", "luks.img:/"];
    let ended = exit(s.tane().args(listed), 124);
    let said = text(&ended.stderr);
    assert!(said.contains("without reading or writing"), "{said}");
}
