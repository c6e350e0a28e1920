//! Promises about the end of a worker, and of its caller.

mod common;

use common::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use tane_test_support::{eventually, tool};
use tane_worker::{Calls, Image, Mount};

fn kill(pid: u32, signal: i32) {
    // SAFETY: a process of our own.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

#[test]
fn a_killed_worker_is_an_error_for_all_who_wait_and_all_who_come() {
    let s = scratch();
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
    let s = scratch();
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
    let s = scratch();
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
    let s = scratch();
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

#[test]
fn a_caller_that_is_killed_leaves_no_worker() {
    Caller::work(|| {
        // A child that lives on holds nothing of it.
        // SAFETY: the child only sleeps.
        if unsafe { libc::fork() } == 0 {
            unsafe { libc::alarm(60) };
            loop {
                unsafe { libc::pause() };
            }
        }
    });
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let caller = Caller::start("a_caller_that_is_killed_leaves_no_worker", &disk);
    let worker = caller.worker;
    assert!(std::path::Path::new(&format!("/proc/{worker}/exe")).exists());
    caller.kill();
    eventually("the worker ends", || {
        let state = std::fs::read_to_string(format!("/proc/{worker}/stat"));
        // As a zombie it waits for whoever adopted it.
        state.map_or(true, |s| s.contains(") Z "))
    });
}

#[test]
fn a_worker_outlives_the_thread_that_opened_its_image() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let opened = std::thread::spawn(move || open(&disk)).join();
    let (_image, mount) = opened.expect("a thread");
    mount.stat("hello".as_ref(), 0).expect("it serves");
}

/// An image whose calls are given up while this is true.
fn open_for_the_impatient(disk: &std::path::Path) -> (Arc<AtomicBool>, Image, Mount) {
    let flag = Arc::new(AtomicBool::new(false));
    let asked = flag.clone();
    let mut options = options();
    options
        .image(writing())
        .interrupted(move || asked.load(SeqCst));
    let image = options.open(disk).expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    (flag, image, mount)
}

/// Have a worker do nothing any more.
fn silence(pid: u32) {
    kill(pid, libc::SIGSTOP);
    eventually("all its threads stop", || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        })
    });
}

#[test]
fn calls_of_a_worker_that_is_silent_can_be_given_up_and_made_again() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (flag, image, mount) = open_for_the_impatient(&disk);
    silence(image.pid());
    flag.store(true, SeqCst);
    // More than there are slots.
    for _ in 0..6 {
        let file = mount.open_file("hello".as_ref(), libc::O_RDONLY, 0);
        assert_eq!(file.expect_err("silence").errno, libc::EINTR);
    }
    flag.store(false, SeqCst);
    kill(image.pid(), libc::SIGCONT);
    for _ in 0..20 {
        mount.stat("hello".as_ref(), 0).expect("it goes on");
    }
    let file = mount.open_file("new".as_ref(), libc::O_CREAT | libc::O_RDWR, 0o600);
    let file = file.expect("a file");
    assert_eq!(file.pwrite(&pattern(BIG), 0), Ok(BIG));
    drop(file);
    // What was opened for nobody is closed.
    mount.unmount().expect("nothing is open");
    drop(image);
    let check = tool("e2fsprogs", "e2fsck").map(|mut fsck| fsck.arg("-fn").arg(&disk).status());
    assert!(check.is_none_or(|status| status.expect("e2fsck").success()));
}

#[test]
fn unmounting_waits_for_calls_that_were_given_up() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (flag, _image, mount) = open_for_the_impatient(&disk);
    mount
        .mknod("pipe".as_ref(), libc::S_IFIFO | 0o600, 0)
        .expect("a pipe");
    let open = |how| mount.open_file("pipe".as_ref(), how, 0).expect("the pipe");
    let writer = open(libc::O_RDWR);
    let reader = open(libc::O_RDONLY);
    flag.store(true, SeqCst);
    let failure = reader.read(&mut [0]).expect_err("nothing is in it");
    assert_eq!(failure.errno, libc::EINTR);
    flag.store(false, SeqCst);
    drop(reader);
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(writer);
    });
    // Until then the read uses the file: it ends when nobody can write any more.
    mount.unmount().expect("nothing is in use");
    later.join().expect("it is closed");
}

#[test]
fn a_system_call_that_was_given_up_leaves_no_descriptor() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (flag, image, mount) = open_for_the_impatient(&disk);
    let linux: &dyn tane_linux::Linux = &mount;
    let (sys, root) = (tane_linux::Sys(linux), mount.root_fd());
    let open = || sys.openat_raw(root, c"hello", libc::O_RDONLY, 0);
    let next = open().expect("a file").raw();
    silence(image.pid());
    flag.store(true, SeqCst);
    // As many as there are slots, and some that find none.
    for _ in 0..6 {
        assert_eq!(open().map(drop), Err(tane_linux::Errno(libc::ECANCELED)));
    }
    flag.store(false, SeqCst);
    kill(image.pid(), libc::SIGCONT);
    mount.sync().expect("it goes on");
    // All answers are there once there is nothing more to wait for.
    eventually("what was made for nobody is closed", || {
        mount.sync().expect("it goes on");
        open().expect("a file").raw() == next
    });
    let kept = open().expect("a file");
    silence(image.pid());
    flag.store(true, SeqCst);
    for _ in 0..4 {
        assert_eq!(open().map(drop), Err(tane_linux::Errno(libc::ECANCELED)));
    }
    // No slot is left to say so.
    drop(kept);
    flag.store(false, SeqCst);
    kill(image.pid(), libc::SIGCONT);
    mount.unmount().expect("nothing is open");
}

#[test]
fn nobody_waits_for_a_silent_worker_at_its_end() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (flag, image, mount) = open_for_the_impatient(&disk);
    let pid = image.pid();
    silence(pid);
    flag.store(true, SeqCst);
    let failure = mount.sync().expect_err("silence");
    assert_eq!(failure.errno, libc::EINTR);
    assert!(failure.text.contains("given up"), "{failure}");
    flag.store(false, SeqCst);
    drop((mount, image));
    // SAFETY: asks whether there is such a process.
    assert_eq!(
        unsafe { libc::kill(pid as i32, 0) },
        -1,
        "killed, and waited for"
    );
}

/// Its key takes hours, in which nobody asks the disk for anything.
#[test]
fn an_image_that_never_comes_up_ends_its_worker() {
    let s = scratch();
    let Some(plain) = image(&s) else {
        return;
    };
    let Some(mut cryptsetup) = tool("cryptsetup-bin", "cryptsetup") else {
        return;
    };
    let (disk, key) = (plain.with_extension("luks"), b"secret");
    let file = std::fs::File::create(&disk).expect("a file");
    file.set_len(4 << 20).expect("its size");
    let secret = plain.with_extension("pw");
    std::fs::write(&secret, key).expect("a file");
    let words = "luksFormat -q --type=luks1 --hash=sha256 --pbkdf-force-iterations=1000";
    cryptsetup.args(words.split_whitespace());
    let made = cryptsetup
        .arg("--key-file")
        .arg(&secret)
        .arg(&disk)
        .status();
    assert!(made.expect("cryptsetup").success());
    // The first key's number of iterations.
    let iterations = u32::MAX.to_be_bytes();
    std::os::unix::fs::FileExt::write_all_at(&file, &iterations, 212).expect("writes");
    let mut options = options();
    options
        .image(with_secret(*key))
        .hang_limit(Duration::from_secs(1));
    let image = options.open(&disk).expect("opens");
    let mounted = image.mount(None, &Default::default());
    let failure = mounted.map(drop).expect_err("it never ends");
    assert_eq!(failure.errno, libc::ESHUTDOWN);
    assert!(
        failure.text.contains("asked the image for nothing"),
        "{failure}"
    );
}
