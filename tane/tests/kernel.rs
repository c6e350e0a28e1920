//! Promises of Kernel and Builder.

mod scratch;

use scratch::{boot, errno, image_path, tmpfs_on};
use std::sync::{Arc, Mutex};
use tane::{Error, Kernel};

fn threads_may_share<T: Send + Sync>() {}

#[test]
fn every_handle_may_be_used_from_any_thread() {
    threads_may_share::<Kernel>();
    threads_may_share::<tane::Mount>();
    threads_may_share::<tane::Dir>();
    threads_may_share::<tane::File>();
    threads_may_share::<tane::Metadata>();
    threads_may_share::<Error>();
}

#[test]
fn proc_sys_and_dev_are_there_after_boot() {
    let root = boot().tree("/").unwrap();
    for path in ["/proc/self/stat", "/sys/block", "/dev/null"] {
        assert!(root.exists(path).unwrap(), "{path}");
    }
}

#[test]
fn dmesg_has_the_whole_log_without_a_sink() {
    assert!(boot().dmesg().contains("Linux version"));
}

#[test]
fn a_sink_gets_what_dmesg_has() {
    let seen = Arc::new(Mutex::new(String::new()));
    let sink = seen.clone();
    let kernel = Kernel::builder()
        .image(image_path())
        .log(move |text| sink.lock().unwrap().push_str(text))
        .boot()
        .unwrap();
    assert!(kernel.dmesg().contains("Linux version"));
    assert!(seen.lock().unwrap().contains("Linux version"));
}

#[test]
fn memory_is_what_was_asked_for() {
    let memory = |mib: u64| {
        let builder = Kernel::builder().image(image_path()).memory(mib << 20);
        let proc = builder.boot().unwrap().tree("/proc").unwrap();
        let text = proc.read_to_string("meminfo").unwrap();
        let total = text.split_whitespace().nth(1).unwrap();
        total.parse::<u64>().unwrap() >> 10
    };
    let (small, large) = (memory(64), memory(256));
    assert!((32..=64).contains(&small), "{small} MiB");
    assert!((200..=256).contains(&large), "{large} MiB");
}

#[test]
fn words_reach_the_kernel_command_line() {
    let builder = Kernel::builder().image(image_path());
    let kernel = builder.cmdline("one=1").cmdline("two=2").boot().unwrap();
    let proc = kernel.tree("/proc").unwrap();
    let text = proc.read_to_string("cmdline").unwrap();
    assert!(text.contains("one=1 two=2"), "{text}");
}

#[test]
fn a_missing_image_is_enoent_and_named() {
    let error = Kernel::builder().image("/no/image").boot().unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(error.to_string().contains("/no/image"), "{error}");
}

#[test]
fn a_file_that_is_no_image_is_enoexec() {
    let builder = Kernel::builder().image("/proc/self/cmdline");
    let not_elf = builder.boot().unwrap_err();
    assert_eq!(not_elf.errno(), libc::ENOEXEC, "{not_elf}");
}

#[test]
fn a_halted_kernel_answers_eshutdown() {
    let kernel = boot();
    let mount = tmpfs_on(&kernel);
    mount.write("file", "x").unwrap();
    kernel.halt();
    assert!(!kernel.is_alive());
    assert_eq!(errno(mount.read("file")), libc::ESHUTDOWN);
    // SAFETY: no pointers.
    let raw = unsafe { kernel.syscall(libc::SYS_getpid, [0; 6]) };
    assert_eq!(raw, -i64::from(libc::ESHUTDOWN));
    assert!(!kernel.last_words().is_empty());
}

#[test]
fn a_file_outlives_the_handles_it_came_from() {
    let file = {
        let kernel = boot();
        let mount = tmpfs_on(&kernel);
        mount.write("file", "still here").unwrap();
        mount.open("file").unwrap()
    };
    let text = std::io::read_to_string(file).unwrap();
    assert_eq!(text, "still here");
}

#[test]
fn two_kernels_share_nothing() {
    let (a, b) = (boot(), boot());
    let (a, b) = (tmpfs_on(&a), tmpfs_on(&b));
    a.write("file", "a").unwrap();
    assert!(!b.exists("file").unwrap());
    // A descriptor of one means nothing to the other.
    let (from, to) = (a.open_dir("/").unwrap(), b.open_dir("/").unwrap());
    assert_eq!(errno(from.rename("file", &to, "file", 0)), libc::EXDEV);
}

#[test]
fn copying_between_two_kernels_is_exdev() {
    let (a, b) = (boot(), boot());
    let (a, b) = (tmpfs_on(&a), tmpfs_on(&b));
    a.write("file", "from a").unwrap();
    let (from, to) = (a.open("file").unwrap(), b.create("file").unwrap());
    assert_eq!(errno(from.copy_range_to(&to, 6)), libc::EXDEV);
}
