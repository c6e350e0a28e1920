//! Trees whose calls a lying worker answers.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tane::{Kernel, Remote, Tree};
use tane_linux::Linux;

/// Passes calls on, as the crate `tane-jailed` does.
struct Liar(tane_worker::Mount);

impl Linux for Liar {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: as the caller promises.
        unsafe { self.0.call(nr, args) }
    }
}

impl Remote for Liar {
    fn dmesg(&self) -> String {
        String::new()
    }

    fn is_alive(&self) -> bool {
        true
    }

    fn last_words(&self) -> String {
        String::new()
    }

    fn halt(&self) {}
}

/// How many calls it had answered with an error, and how many not.
pub fn ask(mount: tane_worker::Mount) -> [u32; 2] {
    let kernel = Kernel::remote(Arc::new(Liar(mount)));
    let mut seen = [0; 2];
    for _ in 0..20 {
        let Ok(tree) = kernel.tree("/mnt/0") else {
            seen[0] += 1;
            continue;
        };
        for done in answers(&tree) {
            seen[usize::from(done)] += 1;
        }
    }
    seen
}

fn answers(tree: &Tree) -> [bool; 9] {
    let listed = tree.read_dir("d").map(|entries| {
        // It may go on for as long as it is asked.
        for entry in entries.take(10_000).flatten() {
            let name = entry.file_name().as_bytes();
            assert!(!name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/'));
            assert!(name.len() < 1 << 16 && !name.contains(&0));
        }
    });
    let mut room = vec![0xa5; 9000];
    let read = tree.open("f").map(|file| {
        let n = file.read_at(&mut room[100..8100], 0);
        assert!(n.is_err() || n.is_ok_and(|n| n <= 8000));
        // One of another length is given back as it came.
        let _ = file.metadata().map(|found| found.len());
    });
    assert!(room[..100].iter().chain(&room[8100..]).all(|b| *b == 0xa5));
    [
        listed.is_ok(),
        read.is_ok(),
        tree.metadata("a").is_ok(),
        tree.read_link("a").is_ok(),
        tree.statfs().is_ok(),
        tree.xattrs("a").is_ok(),
        tree.xattr("a", "user.b").is_ok(),
        tree.write("a", b"b").is_ok(),
        tree.rename("a", "b").is_ok(),
    ]
}
