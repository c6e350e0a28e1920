//! A worker whose kernel has been taken over: it answers anything, at any time, and
//! changes what it has answered. Its caller gets answers and errors, and nothing is
//! written where it should not be. This program is that worker, too.

mod common;
mod lies;

use lies::Lies;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use tane_worker::{Calls, FileCalls, ImageCalls, KernelCalls, Listing, Options};

// As worker/src/area.rs has it.
const SLOTS: usize = 4;
const ROOM: usize = (1 << 20) + (64 << 10);
const SIZE: usize = 4096 + SLOTS * 2 * ROOM;
const OPEN: u32 = 1;
const MOUNT: u32 = 3;
const OPEN_FILE: u32 = 5;
/// Seeds of workers that lie in one word of each answer, all of them in turn; the second
/// goes to and fro between the lie and the truth while its caller reads.
const IN_TURN: u64 = 900_000;
const TO_AND_FRO: u64 = 900_001;
/// So often each is asked everything: for all words of most answers, and all numbers.
const TURNS: u32 = 900;

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
    while area[64 / 4].load(SeqCst) != 1 {
        std::thread::yield_now();
    }
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
    if seed >= IN_TURN {
        liar_in_turn(area, seed == TO_AND_FRO);
    }
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

/// Each call of the caller's is answered, with the next lie.
fn liar_in_turn(area: &'static [AtomicU32], to_and_fro: bool) -> ! {
    /// Where in the area, the truth and the lie.
    static MOVED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    if to_and_fro {
        std::thread::spawn(move || loop {
            let [at, truth, lie] = [0, 1, 2].map(|i| MOVED[i].load(SeqCst));
            if at != 0 {
                area[at].store(truth as u32, SeqCst);
                area[at].store(lie as u32, SeqCst);
            }
            std::hint::spin_loop();
        });
    }
    let mut lies = Lies::default();
    loop {
        for slot in 0..SLOTS {
            let control = &area[(64 + slot * 64) / 4..][..10];
            if control[0].load(SeqCst) != 1 {
                continue;
            }
            MOVED[0].store(0, SeqCst);
            let room = &area[(4096 + (2 * slot + 1) * ROOM) / 4..][..ROOM / 4];
            if let Some(lie) = lies.tell(control, room) {
                MOVED[1].store(lie.honest as usize, SeqCst);
                MOVED[2].store(lie.lie as usize, SeqCst);
                let at = std::ptr::from_ref(lie.at).addr() - area.as_ptr().addr();
                MOVED[0].store(at / 4, SeqCst);
            }
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

/// Whether that came to anything.
fn tried<T>(outcome: tane_worker::Result<T>, seen: &mut [u32; 2]) {
    seen[usize::from(outcome.is_ok())] += 1;
}

/// System calls that cross, each with what it fills and how much of that may be filled: what
/// lies around it stays as it was, and results are those that Linux may give.
fn system_calls(mount: &tane_worker::Mount, seen: &mut [u32; 2]) {
    const ROOM: usize = 4096;
    // FS_IOC_GETFLAGS.
    const GETFLAGS: u64 = 0x8008_6601;
    let linux: &dyn tane_linux::Linux = mount;
    let (stat, statx) = (size_of::<libc::stat>(), size_of::<libc::statx>());
    let mut room = vec![0xa5u8; ROOM + 200];
    let at = room[100..].as_mut_ptr() as u64;
    let (name, some) = (c"a".as_ptr() as u64, ROOM as u64);
    // The most that it fills; whether its result says how much.
    let calls = [
        (libc::SYS_pread64, [3, at, some, 0, 0, 0], ROOM, true),
        (libc::SYS_read, [3, at, 1, 0, 0, 0], 1, true),
        (libc::SYS_getdents64, [3, at, some, 0, 0, 0], ROOM, true),
        (libc::SYS_readlinkat, [3, name, at, 100, 0, 0], 100, true),
        (libc::SYS_fgetxattr, [3, name, at, 0, 0, 0], 0, false),
        (libc::SYS_flistxattr, [3, at, 50, 0, 0, 0], 50, true),
        (libc::SYS_fstat, [3, at, 0, 0, 0, 0], stat, false),
        (libc::SYS_statx, [3, name, 0, 0, at, 0], statx, false),
        (libc::SYS_ioctl, [3, GETFLAGS, at, 0, 0, 0], 8, false),
        (libc::SYS_openat, [3, name, 0, 0, 0, 0], 0, false),
        (
            libc::SYS_fcntl,
            [3, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0],
            0,
            false,
        ),
        (libc::SYS_lseek, [3, 0, 0, 0, 0, 0], 0, false),
        (libc::SYS_write, [3, at, 60, 0, 0, 0], 60, true),
        (libc::SYS_copy_file_range, [3, 0, 4, 0, 70, 0], 70, true),
        (libc::SYS_close, [3, 0, 0, 0, 0, 0], 0, false),
    ];
    for (nr, args, most, is_length) in calls {
        room.fill(0xa5);
        // SAFETY: room for what each fills, and strings.
        let result = unsafe { linux.call(nr, args) };
        assert!(result >= -4095, "{nr}: {result}");
        let never = [libc::EINTR, libc::ECANCELED].map(|errno| -i64::from(errno));
        assert!(!never.contains(&result), "{nr}: {result}");
        if is_length {
            assert!(result <= most as i64, "{nr}: {result}");
        }
        if [libc::SYS_openat, libc::SYS_fcntl].contains(&nr) {
            assert!(result <= i64::from(i32::MAX), "{nr}: {result}");
        }
        let fills = ![libc::SYS_write, libc::SYS_copy_file_range].contains(&nr);
        let used = match (result, is_length) {
            (..0, _) => 0,
            _ if !fills => 0,
            (result, true) => result as usize,
            (_, false) => most,
        };
        let around = room[..100].iter().chain(&room[100 + used..]);
        assert!(around.into_iter().all(|b| *b == 0xa5), "{nr}: {result}");
        seen[usize::from(result >= 0)] += 1;
    }
}

/// Everything that there is to ask, again and again.
fn lied_to_in_turn(seed: u64) {
    let this = std::env::current_exe().expect("this program");
    let mut options = Options::new();
    options.program(this).kernel("/none");
    let image = options.open(seed.to_string()).expect("the first answer");
    let how = Default::default();
    let mount = image.mount(None, &how).expect("the first answer");
    // Nothing is read ahead of what is written.
    let file = mount
        .open_file("f".as_ref(), libc::O_RDWR, 0)
        .expect("the first answer");
    let mut seen = [[0; 2]; 21];
    let mut room = vec![0xa5; 9000];
    for _ in 0..TURNS {
        let path = "a".as_ref();
        tried(image.mount(None, &how), &mut seen[0]);
        let other = mount.open_file(path, 0, 0);
        if let Ok(other) = &other {
            // Where sums overflow.
            tried(
                other.pread(&mut room[100..132], u64::MAX - 5),
                &mut seen[19],
            );
            tried(
                other.pread(&mut room[100..132], i64::MAX as u64),
                &mut seen[19],
            );
            let _ = other.read(&mut room[100..132]);
            let _ = other.lseek(i64::MAX, libc::SEEK_CUR);
        }
        tried(other, &mut seen[1]);
        tried(file.pread(&mut room[100..8100], 0), &mut seen[2]);
        tried(file.read(&mut room[100..8100]), &mut seen[3]);
        tried(file.pwrite(b"b", u64::MAX), &mut seen[19]);
        tried(file.pwrite(b"b", 0), &mut seen[7]);
        tried(file.write(b"b"), &mut seen[4]);
        tried(file.lseek(0, libc::SEEK_CUR), &mut seen[5]);
        let paths = |at: usize| (at < 10).then_some(Ok(path));
        let mut fared = 0;
        let done = mount.read_files(paths, &mut room[100..8100], |at, one| {
            assert_eq!(at, fared);
            assert!(one.is_err() || one.is_ok_and(|n| n <= 8000));
            fared += 1;
        });
        tried(done, &mut seen[6]);
        names_are_names(&mount, 3);
        tried(image.is_alive(), &mut seen[8]);
        tried(image.dmesg(), &mut seen[9]);
        tried(image.last_words(), &mut seen[9]);
        for _ in 0..5 {
            let volumes = image.volumes();
            if let Ok(volumes) = &volumes {
                assert!(volumes.0.iter().all(|v| v.name.contains(&0) && v.kind < 6));
            }
            tried(volumes, &mut seen[10]);
        }
        let found = mount.statfs();
        assert!(found.as_ref().map_or(true, |found| found.block_size > 0));
        tried(found, &mut seen[11]);
        for found in [mount.stat(path, 0), file.fstat()] {
            let is_time = |found: &tane_worker::Stat| found.mtime.nanoseconds < 1_000_000_000;
            assert!(found.as_ref().map_or(true, is_time));
            tried(found, &mut seen[12]);
        }
        tried(mount.readlink(path), &mut seen[13]);
        tried(mount.getxattr(path, path, 0), &mut seen[14]);
        tried(mount.listxattr(path, 0), &mut seen[15]);
        tried(file.flags(), &mut seen[16]);
        tried(file.shared_parts(0), &mut seen[17]);
        tried(mount.mkdir(path, 0), &mut seen[18]);
        system_calls(&mount, &mut seen[20]);
        assert!(room[..100].iter().chain(&room[8100..]).all(|b| *b == 0xa5));
    }
    // It was lied to, and could tell; and not all was lies. Who reads what goes to and fro
    // may find the truth each time.
    for (kind, [failed, done]) in seen.iter().enumerate() {
        assert!(
            *failed > 0 || seed == TO_AND_FRO,
            "{kind}: every lie was believed"
        );
        assert!(*done > 0 || kind == 19, "{kind}: nothing was believed");
    }
}

fn lied_to(seed: u64) -> Option<[u32; 2]> {
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
        system_calls(&mount, &mut [0; 2]);
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
    drop(file);
    Some(lies::trees::ask(mount))
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
    let trees: Vec<_> = (1..=seeds.unwrap_or(60)).filter_map(lied_to).collect();
    let through = trees.len();
    assert!(through > 0, "nobody was lied to");
    for kind in 0..2 {
        assert!(trees.iter().any(|seen| seen[kind] > 0), "trees: {trees:?}");
    }
    println!("test a_hostile_worker_gets_nowhere ... ok ({through} of them)");
    for seed in [IN_TURN, TO_AND_FRO] {
        lied_to_in_turn(seed);
    }
    println!("test a_worker_that_lies_in_each_field_in_turn_gets_nowhere ... ok");
    println!("\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
