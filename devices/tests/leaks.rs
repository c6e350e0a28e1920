//! A disk that is gone leaves no thread, descriptor or mapping behind. Alone in
//! its program: it counts what the whole process has.

mod rig;

use rig::driver::*;
use std::sync::Arc;
use tane_devices::BlockOptions;
use tane_images::{Access, Raw};
use tane_test_support::eventually;

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

fn life(path: &std::path::Path) {
    let access = Access {
        write: true,
        direct: false,
    };
    let raw = Raw::open(path, access).unwrap();
    let options = BlockOptions {
        inline: false,
        queues: 2,
        ..BlockOptions::default()
    };
    let guest = Guest::with(Arc::new(raw), options, Style::default());
    let asked: Vec<_> = (0..8).map(|s| guest.put(0, OUT, s, &[1; 512], 0)).collect();
    guest.kick(0);
    if asked.len() % 2 == 0 {
        guest.wait(0);
    }
}

#[test]
fn a_disk_leaves_no_thread_descriptor_or_mapping_behind() {
    let path = std::env::temp_dir().join(format!("tane-leaks-{}", std::process::id()));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    for _ in 0..20 {
        life(&path);
    }
    let maps = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count()
    };
    let before = (entries("/proc/self/task"), entries("/proc/self/fd"), maps());
    for _ in 0..200 {
        life(&path);
    }
    // A thread that was joined may still be listed for a moment.
    eventually("threads and descriptors are given back", || {
        let after = (entries("/proc/self/task"), entries("/proc/self/fd"));
        after == (before.0, before.1)
    });
    // The allocator keeps an arena or two per thread that ever was at a time.
    let (before, after) = (before.2, maps());
    assert!(after <= before + 16, "mappings: {before} to {after}");
    std::fs::remove_file(&path).unwrap();
}
