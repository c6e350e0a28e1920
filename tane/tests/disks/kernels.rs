//! Promises about kernels: what they are made of, what they say, how they end.

use crate::common::{ext4, kernel, mount, TempDir};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tane::{Kernel, MountOptions};

#[test]
fn kernels_do_not_mix() {
    let dir = TempDir::new();
    let (Some(one), Some(two)) = (kernel(), kernel()) else {
        return;
    };
    let image = ext4(&dir, 16);
    let (_disk, mount) = mount(&one, &image);
    mount.write("f", "").unwrap();
    let here = mount.open_dir("/").unwrap();
    let there = two.tree("/").unwrap().open_dir("/").unwrap();
    let error = here.rename("f", &there, "f", 0).unwrap_err();
    assert_eq!(error.errno(), libc::EXDEV);
}

#[test]
fn a_halted_kernel_answers_eshutdown() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let Some(kernel) = kernel() else { return };
    let (disk, mount) = mount(&kernel, &image);
    let file = mount.create("f").unwrap();
    assert!(kernel.is_alive());
    kernel.halt();
    assert!(!kernel.is_alive());
    assert_eq!(file.sync_all().unwrap_err().errno(), libc::ESHUTDOWN);
    let error = mount.open("f").unwrap_err();
    assert_eq!(error.errno(), libc::ESHUTDOWN);
    assert_eq!(error.to_string(), "open f: the kernel has ended");
    assert_eq!(mount.unmount().unwrap_err().errno(), libc::ESHUTDOWN);
    drop((file, disk));
    assert!(kernel.dmesg().contains("Linux version"));
}

#[test]
fn a_kernel_says_what_it_knows() {
    let Some(kernel) = kernel() else { return };
    assert!(kernel.filesystems(true).unwrap().contains(&"ext4".into()));
    assert!(kernel.filesystems(false).unwrap().contains(&"tmpfs".into()));
    let mount = MountOptions::new()
        .fstype("tmpfs")
        .mount(&kernel, "none")
        .unwrap();
    mount.write("f", "in memory").unwrap();
    assert_eq!(mount.fstype(), "tmpfs");
    assert!(kernel
        .tree("/")
        .unwrap()
        .exists(mount.mount_point().join("f"))
        .unwrap());
    mount.unmount().unwrap();
}

#[test]
fn an_image_that_is_none_is_refused_with_a_reason() {
    let dir = TempDir::new();
    let boot = |path: &Path| Kernel::builder().image(path).boot().unwrap_err();
    let none = boot(&dir.path().join("none"));
    assert_eq!(none.errno(), libc::ENOENT, "{none}");
    let other = dir.path().join("other");
    std::fs::write(&other, vec![b'x'; 10_000]).unwrap();
    let other = boot(&other);
    assert_eq!(other.errno(), libc::ENOEXEC, "{other}");
    assert!(
        other.to_string().contains("not a tane kernel image"),
        "{other}"
    );
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    if kernel().is_none() {
        return;
    }
    let error = Kernel::builder().memory(1 << 20).boot().unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
    let error = Kernel::builder()
        .cmdline(&"x".repeat(5000))
        .boot()
        .unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
}

#[test]
fn the_log_is_handed_out_as_it_is_written() {
    if kernel().is_none() {
        return;
    }
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    let kernel = Kernel::builder()
        .cmdline("loglevel=7")
        .nokaslr()
        .log(move |piece| sink.lock().unwrap().push_str(piece))
        .boot()
        .unwrap();
    assert!(text.lock().unwrap().contains("Linux version"));
    assert!(kernel.dmesg().contains("nokaslr"));
}

#[test]
fn a_panic_ends_the_kernel_and_not_the_process() {
    let Some(kernel) = kernel() else { return };
    let proc = kernel.tree("/proc").unwrap();
    let mut options = tane::OpenOptions::new();
    let trigger = options.write(true).open(&proc, "sysrq-trigger").unwrap();
    let error = (&trigger).write_all(b"c").unwrap_err();
    assert_eq!(tane::errno_of(&error), Some(libc::ESHUTDOWN));
    assert!(!kernel.is_alive());
    let words = kernel.last_words();
    assert!(words.contains("sysrq"), "{words}");
    drop((trigger, proc, kernel));
    assert!(crate::common::kernel().is_some_and(|next| next.is_alive()));
}
