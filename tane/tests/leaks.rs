//! What a kernel took it gives back. Alone in its process, which it measures.

mod common;

use common::{ext4, kernel, mount, TempDir};
use tane::MapOptions;
use tane_test_support::eventually;

/// Of this process: its threads, descriptors and mappings.
fn held() -> [usize; 3] {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    [
        count("/proc/self/task"),
        count("/proc/self/fd"),
        maps.lines().count(),
    ]
}

/// Who gets SIGSEGV.
fn handler() -> usize {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks.
    unsafe {
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction
    }
}

#[test]
fn a_kernel_gives_everything_back() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let handled = handler();
    if kernel().is_none() {
        return;
    }
    let round = || {
        let kernel = kernel().expect("it was there before");
        let (disk, mount) = mount(&kernel, &image);
        mount.write("f", vec![1; 100_000]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| mount.read("f").unwrap());
            }
        });
        let mut buffer = kernel.buffer(1 << 20).unwrap();
        buffer.fill(1);
        let map = mount.open("f").unwrap().map(&MapOptions::new()).unwrap();
        // SAFETY: nobody changes the file.
        assert!(unsafe { map.as_slice() }.iter().all(|&byte| byte == 1));
        drop((buffer, map));
        mount.unmount().unwrap();
        disk.remove().unwrap();
    };
    for _ in 0..3 {
        round();
    }
    let before = held();
    for _ in 0..50 {
        round();
    }
    // A thread that was joined is listed for a moment more.
    eventually("what was taken is given back", || {
        let now = held();
        now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] + 8
    });
    assert_eq!(handler(), handled);
}
