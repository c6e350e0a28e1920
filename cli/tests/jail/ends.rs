//! Promises about the other processes of a command: they end with it, however that ends and
//! whatever they are doing.

use crate::common::*;
use crate::jailed::sleeping::{checking, children, program, sleeper, sleeper_of, sleeping, word};
use crate::jailed::{image, Running, MANY};
use std::process::Stdio;
use tane_test_support::eventually;
use tane_test_support::http::Server;

fn is_alive(pid: i32) -> bool {
    word(pid, "State:").is_some_and(|state| !state.starts_with('Z'))
}

fn gone(pid: i32) {
    eventually("it ends too", || !is_alive(pid));
}

/// A command, started with an option that limits its time, and its program, which it began in
/// time: on a busy machine that takes longer.
fn whose_time_is_limited(start: impl Fn(&str) -> Running) -> (Running, i32) {
    for seconds in [3, 15, 75] {
        let mut command = start(&format!("--time-limit={seconds}"));
        while command.0.try_wait().expect("a child").is_none() {
            if let Some(pid) = sleeper_of(command.0.id() as i32) {
                return (command, pid);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    panic!("its program never began in time");
}

fn send(signal: i32, pid: i32) {
    // SAFETY: processes of ours that nobody has waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn a_program_ends_with_the_command_however_that_ends() {
    if !has_kernel() {
        return;
    }
    for options in [&[][..], &["--no-jail"]] {
        let s = Scratch::new();
        let start = |limit: &str| checking(&s, &[options, &[limit]].concat());
        let (mut command, pid) = whose_time_is_limited(start);
        let status = command.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(124));
        gone(pid);
    }
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let s = Scratch::new();
        let mut command = checking(&s, &[]);
        let pid = sleeper(&command.0);
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(command.0.id() as i32, signal) };
        command.0.wait().expect("it ends");
        gone(pid);
    }
}

/// Who runs it has nothing of its any more that would tell of its end.
#[test]
fn a_program_that_closes_its_output_ends_with_the_command_too() {
    if !has_kernel() {
        return;
    }
    for (options, signal) in [
        (&[][..], None),
        (&["--no-jail"], None),
        (&[], Some(libc::SIGKILL)),
        (&[], Some(libc::SIGINT)),
    ] {
        let s = Scratch::new();
        s.ext4("disk.img", None, 64);
        let places = program(&s, "e2fsck", "exec >&- 2>&-\nexec sleep 100000\n");
        let start = |more: &[&str]| {
            let mut command = s.tane();
            command.env("PATH", &places).args(options).args(more);
            command.args(["fsck", "disk.img"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            heeds_ctrl_c(&mut command);
            Running(command.spawn().expect("tane"))
        };
        let (mut command, pid) = match signal {
            None => whose_time_is_limited(|limit| start(&[limit])),
            Some(_) => {
                let command = start(&[]);
                let pid = sleeper(&command.0);
                (command, pid)
            }
        };
        let runner = word(pid, "PPid:").and_then(|pid| pid.parse().ok());
        if let Some(signal) = signal {
            send(signal, command.0.id() as i32);
        }
        command.0.wait().expect("it ends");
        gone(pid);
        let runner: i32 = runner.expect("who runs it");
        gone(runner);
    }
}

/// Stopped, they look at nothing: neither at a line that was closed, nor would they after
/// somebody had taken them over.
#[test]
fn who_serves_a_command_ends_with_it_whatever_it_is_doing() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    image(&s, MANY);
    s.ext4("to.img", None, 64);
    for number in 0..4 * MANY {
        s.write(&format!("many/a-rather-long-name-{number:060}"), b"");
    }
    // What may be replaced, which a guard looks into.
    s.write("out/there", b"a file");
    let server = Server::of(s.read("disk.img"));
    let url = format!("{}:/big", server.url("disk.img"));
    let commands: [(&[&str], usize); 6] = [
        // Its guard and its gofer.
        (&["cp", "-v", "disk.img:/.", "out"], 2),
        // Its lender.
        (&["cp", "-v", "tree", "to.img:/"], 1),
        // Its teller.
        (&["diff", "disk.img:/", "many"], 1),
        // Who opens images for it.
        (&["sh", "-c", "cat /big", "disk.img"], 1),
        // Who asks the server.
        (&["cat", &url], 1),
        // The Linux that fills.
        (&["make-image", "tree", "made.img"], 1),
    ];
    for (words, count) in commands {
        let mut command = s.tane();
        command.args(words);
        if words[0] == "make-image" {
            command.env("PATH", program(&s, "mke2fs", "exec sleep 100000\n"));
        }
        // Nobody takes what it says.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = Running(command.spawn().expect("tane"));
        let front = command.0.id() as i32;
        let has_filters = |pid: &i32| word(*pid, "Seccomp_filters:").is_some_and(|n| n != "0");
        let mut served = Vec::new();
        eventually("its jail and theirs close", || {
            served = children(front);
            served.retain(has_filters);
            served.len() >= count && has_filters(&front)
        });
        for pid in &served {
            send(libc::SIGSTOP, *pid);
        }
        for pid in &served {
            eventually("it is stopped", || {
                word(*pid, "State:").is_some_and(|state| state.starts_with('T'))
            });
        }
        send(libc::SIGKILL, front);
        command.0.wait().expect("it ends");
        served.into_iter().for_each(gone);
    }
}

#[test]
fn a_step_of_a_resize_that_dies_or_is_stopped_ends_the_command_and_nothing_is_left() {
    if !has_kernel() {
        return;
    }
    for (signal, code) in [(libc::SIGKILL, 3), (libc::SIGINT, 130)] {
        let s = Scratch::new();
        let mut command = sleeping(&s, &["resize", "disk.img", "32M"]);
        let front = command.0.id() as i32;
        let mut found = None;
        eventually("a step runs its program", || {
            let steps = children(front).into_iter();
            found = { steps }.find_map(|step| Some((step, sleeper_of(step)?)));
            found.is_some()
        });
        let (step, program) = found.expect("just found");
        let to = if signal == libc::SIGINT { front } else { step };
        // SAFETY: processes of ours that were not waited for.
        unsafe { libc::kill(to, signal) };
        let status = command.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{signal}");
        [step, program].into_iter().for_each(gone);
        assert_sound(&s.join("disk.img"));
    }
}
