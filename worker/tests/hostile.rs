//! A worker whose kernel has been taken over: it answers anything, at any time, and
//! changes what it has answered. Its caller gets answers and errors, and nothing is
//! written where it should not be. This program is that worker, too.

mod common;

use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tane_worker::{Calls, FileCalls, ImageCalls, KernelCalls, Listing, Options};

// As worker/src/area.rs has it.
const SLOTS: usize = 4;
const ROOM: usize = (1 << 20) + (64 << 10);
const SIZE: usize = 4096 + SLOTS * 2 * ROOM;
const OPEN: u32 = 1;
const MOUNT: u32 = 3;
const OPEN_FILE: u32 = 5;

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// Numbers that programs get wrong.
    fn odd(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX - self.below(4096),
            1 => 1 << self.below(64),
            2 => ROOM as u64 - 8 + self.below(16),
            3 => self.roll(),
            4 => 0,
            _ => self.below(600),
        }
    }
}

fn worker() -> ! {
    // SAFETY: the memory that the caller made, of that size; all of it is words.
    let area = unsafe {
        let (none, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let area = libc::mmap(none, SIZE, access, libc::MAP_SHARED, 1, 0);
        assert_ne!(area, libc::MAP_FAILED);
        std::slice::from_raw_parts(area.cast::<AtomicU32>(), SIZE / 4)
    };
    // The seed comes as the image's name, behind the list of ended handles.
    let request = (4096 + 16) / 4;
    let digits: Vec<u8> = (0..5)
        .flat_map(|i| area[request + i].load(SeqCst).to_le_bytes())
        .collect();
    let seed = digits.iter().filter(|b| b.is_ascii_digit());
    let seed = seed.fold(0u64, |n, b| n.wrapping_mul(10) + u64::from(b - b'0'));
    let mut dice = Dice(seed * 2 + 1);
    std::thread::spawn(|| {
        let mut end = [0u8];
        let mut line = unsafe { std::fs::File::from_raw_fd(0) };
        let _ = std::io::Read::read(&mut line, &mut end);
        std::process::exit(0);
    });
    // Every second one changes things behind the caller's back.
    if seed % 2 == 1 {
        let mut dice = Dice(seed + 77);
        std::thread::spawn(move || loop {
            let slot = dice.below(SLOTS as u64) as usize;
            let room = (4096 + (2 * slot + 1) * ROOM) / 4;
            let at = match dice.below(3) {
                0 => (64 + slot * 64) / 4 + 5 + dice.below(5) as usize,
                _ => room + dice.below(200) as usize,
            };
            area[at].store(dice.odd() as u32, SeqCst);
            if dice.below(64) == 0 {
                std::thread::yield_now();
            }
        });
    }
    loop {
        for slot in 0..SLOTS {
            let control = &area[(64 + slot * 64) / 4..][..10];
            if control[0].load(SeqCst) != 1 {
                continue;
            }
            let room = &area[(4096 + (2 * slot + 1) * ROOM) / 4..][..ROOM / 4];
            let operation = control[3].load(SeqCst);
            let words = 2 * dice.below(60) as usize;
            for pair in room[..words.max(12)].chunks(2) {
                let odd = dice.odd();
                pair[0].store(odd as u32, SeqCst);
                pair[1].store((odd >> 32) as u32, SeqCst);
            }
            // Tags of a listing, and names in it.
            if dice.below(2) == 0 {
                let name =
                    [*b"..\0\0", *b"a/b\0", *b"ok\0\0", *b"\0\0\0\0"][dice.below(4) as usize];
                let entry = [
                    1,
                    7,
                    0x8000,
                    1 + dice.below(4),
                    u64::from(u32::from_le_bytes(name)),
                ];
                for (i, word) in entry.into_iter().enumerate() {
                    room[2 * i].store(word as u32, SeqCst);
                    room[2 * i + 1].store((word >> 32) as u32, SeqCst);
                }
            }
            let (mut errno, mut len) = (0, 8 * dice.below(40));
            if dice.below(5) == 0 {
                (errno, len) = (dice.odd(), dice.odd());
            }
            if operation == OPEN || (operation == MOUNT || operation == OPEN_FILE) && errno != 0 {
                // So that there is somebody to lie to.
                room[..8].iter().for_each(|word| word.store(0, SeqCst));
                (errno, len) = (0, [16, 24][usize::from(operation == MOUNT)]);
            }
            let result = dice.odd();
            control[6].store(errno as u32, SeqCst);
            control[7].store(len as u32, SeqCst);
            control[8].store(result as u32, SeqCst);
            control[9].store((result >> 32) as u32, SeqCst);
            control[0].store(2, SeqCst);
            // SAFETY: a live word.
            unsafe { libc::syscall(libc::SYS_futex, control[0].as_ptr(), libc::FUTEX_WAKE, 1) };
        }
        std::thread::yield_now();
    }
}

fn names_are_names(mount: &tane_worker::Mount, flags: u32) {
    let Ok(mut list) = mount.list("d".as_ref(), flags) else {
        return;
    };
    for _ in 0..500 {
        let Ok(Some(next)) = list.next() else { return };
        let names = match next {
            Listing::Entry(entry) => vec![entry.name],
            Listing::Directory(path) => path
                .as_bytes()
                .split(|b| *b == b'/')
                .map(|n| std::ffi::OsStr::from_bytes(n).to_owned())
                .collect(),
        };
        for name in names {
            let bytes = name.as_bytes();
            assert!(!bytes.is_empty() && bytes.len() < 256, "{name:?}");
            assert!(!bytes.contains(&b'/') && !bytes.contains(&0), "{name:?}");
            assert!(name != "." && name != "..", "{name:?}");
        }
    }
}

fn lied_to(seed: u64) -> Option<()> {
    let this = std::env::current_exe().expect("this program");
    let mut options = Options::new();
    // The name is no file: nobody opens it.
    options.program(this).kernel("/none");
    let image = options.open(seed.to_string()).ok()?;
    let mount = image.mount(None, &Default::default()).ok()?;
    let file = mount.open_file("f".as_ref(), 0, 0);
    for _ in 0..20 {
        let _ = mount.stat("a".as_ref(), 0);
        let _ = mount.statfs().map(|s| assert!(s.block_size > 0));
        let _ = mount.readlink("a".as_ref());
        let _ = mount.getxattr("a".as_ref(), "b".as_ref(), 0);
        if let Ok(volumes) = image.volumes() {
            assert!(volumes.0.iter().all(|v| v.name.contains(&0) && v.kind < 6));
        }
        let _ = image.dmesg();
        names_are_names(&mount, 0);
        names_are_names(&mount, 3);
        // What lies around the room stays as it was.
        let mut room = vec![0xa5; 9000];
        if let Ok(file) = &file {
            let n = file.pread(&mut room[100..8100], 0);
            let _ = n.map(|n| assert!(n <= 8000));
            let _ = file.fsync();
            let _ = file.pwrite(&room[..5000], 0).map(|n| assert!(n <= 5000));
            let _ = file.lseek(0, 0);
        }
        let mut fared = 0;
        let paths = |at: usize| (at < 10).then(|| Ok("p".as_ref()));
        let done = mount.read_files(paths, &mut room[100..8100], |at, one| {
            assert_eq!(at, fared);
            assert!(one.is_err() || one.is_ok_and(|n| n <= 8000));
            fared += 1;
        });
        assert!(done.is_err() || done.is_ok_and(|n| n <= 10));
        assert!(room[..100].iter().chain(&room[8100..]).all(|b| *b == 0xa5));
    }
    Some(())
}

fn main() {
    if std::env::args_os()
        .next()
        .is_some_and(|name| name == "tane-worker")
    {
        worker();
    }
    let seeds = std::env::var("TANE_TEST_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    let through = (1..=seeds.unwrap_or(60)).filter_map(lied_to).count();
    assert!(through > 0, "nobody was lied to");
    println!("test a_hostile_worker_gets_nowhere ... ok ({through} of them)");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
