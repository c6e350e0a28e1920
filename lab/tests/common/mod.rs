//! What the tests of this crate share: a kernel that can be looked into.
#![allow(dead_code)]

use tane::{Kernel, Tree};

/// The image lab, with so many CPUs and these words on its command line.
#[track_caller]
pub fn boot(cpus: u32, words: &str) -> Option<Kernel> {
    let image = tane_test_support::image("lab")?;
    let mut builder = Kernel::builder().image(image).cpus(cpus).cmdline(words);
    if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder = builder.log(|text| eprint!("{text}"));
    }
    Some(builder.boot().unwrap_or_else(|e| panic!("{e}")))
}

#[track_caller]
pub fn kernel() -> Option<Kernel> {
    boot(1, "")
}

/// A file system in memory to make calls on.
pub fn tmp(kernel: &Kernel) -> Tree {
    let dev = kernel.tree("/dev").expect("/dev");
    dev.create_dir_all("tmp").expect("a directory");
    kernel.tree("/dev/tmp").expect("the directory")
}

/// Nothing in the log is what a healthy kernel would not write.
#[track_caller]
pub fn assert_healthy(kernel: &Kernel) {
    assert!(kernel.is_alive(), "{}", kernel.last_words());
    let log = kernel.dmesg();
    let bad = log.lines().filter(|line| {
        ["WARNING:", "BUG", "Oops", "INFO: rcu"]
            .iter()
            .any(|m| line.contains(m))
    });
    let bad: Vec<_> = bad.collect();
    assert!(bad.is_empty(), "{bad:#?}\n{log}");
}

/// Tells threads to end when it goes, be it because a test fails.
pub struct Done<'a>(pub &'a std::sync::atomic::AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
