//! Promises about the end of a worker, and of its caller.

mod common;

use common::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tane_test_support::eventually;
use tane_worker::Calls;

fn kill(pid: u32, signal: i32) {
    // SAFETY: a process of our own.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

#[test]
fn a_killed_worker_is_an_error_for_all_who_wait_and_all_who_come() {
    let s = Scratch::new();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk);
    std::thread::scope(|scope| {
        let (started, all) = std::sync::mpsc::channel();
        for _ in 0..8 {
            let (mount, started) = (&mount, started.clone());
            scope.spawn(move || {
                let mut told = false;
                loop {
                    match mount.stat("hello".as_ref(), 0) {
                        Ok(_) if !told => {
                            told = true;
                            started.send(()).expect("somebody listens");
                        }
                        Ok(_) => {}
                        Err(failure) => {
                            assert_eq!(failure.errno, libc::ESHUTDOWN);
                            assert!(failure.text.contains("SIGKILL"), "{failure}");
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..8 {
            all.recv().expect("a thread");
        }
        kill(image.pid(), libc::SIGKILL);
    });
    let failure = mount.unmount().expect_err("dead");
    assert_eq!(failure.errno, libc::ESHUTDOWN);
    // Others are not concerned.
    let (_image, mount) = open(&disk);
    mount.stat("hello".as_ref(), 0).expect("a new one");
}

#[test]
fn what_interrupts_a_terminal_does_not_end_a_worker() {
    let s = Scratch::new();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk);
    // SAFETY: reads a number.
    let group = unsafe { libc::getpgid(image.pid() as i32) };
    assert_eq!(group, image.pid() as i32);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        kill(image.pid(), signal);
    }
    mount.stat("hello".as_ref(), 0).expect("it lives");
}

#[test]
fn a_time_limit_ends_a_worker_and_is_told() {
    let s = Scratch::new();
    let Some(disk) = image(&s) else { return };
    let limit = Duration::from_millis(1500);
    let image = options().time_limit(limit).open(&disk).expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    let mut last = None;
    eventually("the limit", || {
        last = mount.stat("hello".as_ref(), 0).err();
        last.is_some()
    });
    let failure = last.expect("just found");
    assert_eq!(failure.errno, libc::ESHUTDOWN);
    assert!(failure.text.contains("time limit of 1.5s"), "{failure}");
}

#[test]
fn a_worker_ends_with_its_last_handle() {
    let s = Scratch::new();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk);
    let pid = image.pid();
    drop(image);
    let file = mount.open_file("hello".as_ref(), libc::O_RDONLY, 0);
    drop(mount);
    let file = file.expect("a file");
    let mut text = [0; 4];
    assert_eq!(file.pread(&mut text, 0), Ok(4), "an open file keeps it");
    drop(file);
    // SAFETY: asks whether there is such a process.
    assert_eq!(unsafe { libc::kill(pid as i32, 0) }, -1, "waited for, too");
}

/// What is run as a caller of its own.
const CALLER: &str = "TANE_TEST_CALLER";

#[test]
fn a_caller_that_is_killed_leaves_no_worker() {
    if let Some(disk) = std::env::var_os(CALLER) {
        let (image, _mount) = open(disk.as_ref());
        println!("worker {}", image.pid());
        // A child that lives on holds nothing of it.
        // SAFETY: the child only sleeps.
        if unsafe { libc::fork() } == 0 {
            unsafe { libc::alarm(60) };
            loop {
                unsafe { libc::pause() };
            }
        }
        println!("ready");
        loop {
            std::thread::park();
        }
    }
    let s = Scratch::new();
    let Some(disk) = image(&s) else { return };
    let mut caller = Command::new(std::env::current_exe().expect("this"))
        .args([
            "--exact",
            "a_caller_that_is_killed_leaves_no_worker",
            "--nocapture",
        ])
        .env(CALLER, &disk)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a caller");
    let mut lines = BufReader::new(caller.stdout.take().expect("its output")).lines();
    let mut find = |word: &str| loop {
        let line = lines.next().expect("a line").expect("text");
        if let Some((_, rest)) = line.split_once(word) {
            break rest.trim().to_owned();
        }
    };
    let worker: u32 = find("worker ").parse().expect("a number");
    find("ready");
    assert!(std::path::Path::new(&format!("/proc/{worker}/exe")).exists());
    caller.kill().expect("it runs");
    caller.wait().expect("it ends");
    eventually("the worker ends", || {
        let state = std::fs::read_to_string(format!("/proc/{worker}/stat"));
        // As a zombie it waits for whoever adopted it.
        state.map_or(true, |s| s.contains(") Z "))
    });
}
