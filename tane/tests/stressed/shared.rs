//! What all threads do in one directory: nobody knows its state, but what can be
//! seen in it must be possible.

use super::model::listed;
use crate::medium::Random;
use std::io::{Result, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tane::{errno_of, Mount, OpenOptions, Tree};

const ANCHORS: u64 = 150;
const BOXES: u64 = 6;
const LOCKS: usize = 3;
const RECORD: usize = 64;

/// Beside the directory, what must not happen twice and what was promised.
pub struct Shared {
    held: [AtomicBool; LOCKS],
    /// Records that each thread has appended, and how many of them are synced.
    appended: Vec<AtomicU64>,
    kept: Vec<AtomicU64>,
}

pub struct Visitor<'a> {
    pub mount: &'a Mount,
    pub random: &'a mut Random,
    pub shared: &'a Shared,
    pub me: usize,
}

type Deed = fn(&mut Visitor) -> Result<bool>;

pub const DEEDS: [(&str, Deed); 8] = [
    ("shared append", |visitor| visitor.append()),
    ("shared append", |visitor| visitor.append()),
    ("shared replace", |visitor| visitor.replace()),
    ("shared read", |visitor| visitor.look()),
    ("shared exchange", |visitor| visitor.exchange()),
    ("shared lock file", |visitor| visitor.lock()),
    ("shared move", |visitor| visitor.change_house()),
    ("shared readdir", |visitor| visitor.list()),
];

fn one_of(result: tane::Result<()>, allowed: &[i32]) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if allowed.contains(&error.errno()) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Shared {
    /// A fresh directory, whatever was there.
    pub fn new(mount: &Mount, threads: usize) -> Result<Shared> {
        if mount.exists("shared")? {
            mount.remove_dir_all("shared")?;
        }
        for name in ["shared", "shared/a", "shared/b"] {
            mount.create_dir(name)?;
        }
        for n in 0..ANCHORS {
            mount.write(format!("shared/anchor-{n:03}"), "")?;
        }
        for me in 0..threads {
            mount.create_dir(format!("shared/a/house-{me}"))?;
            mount.write(format!("shared/a/house-{me}/who"), format!("{me}"))?;
        }
        mount.write("shared/log", "")?;
        let zeros = || (0..threads).map(|_| AtomicU64::new(0)).collect();
        Ok(Shared {
            held: Default::default(),
            appended: zeros(),
            kept: zeros(),
        })
    }

    /// Whether the log has each thread's records once, in their order and whole:
    /// all of them, or at least those that were synced.
    pub fn compare(&self, tree: &Tree, only_kept: bool) -> std::result::Result<u64, String> {
        let log = tree.read("shared/log").map_err(|e| e.to_string())?;
        let mut seen = vec![0; self.appended.len()];
        let enough = |seen: &[u64]| {
            let mut kept = self.kept.iter().zip(seen);
            only_kept && kept.all(|(kept, seen)| *seen >= kept.load(Ordering::SeqCst))
        };
        for (n, record) in log.chunks(RECORD).enumerate() {
            // What comes after what was synced may be anything.
            if enough(&seen) {
                return Ok(seen.iter().sum());
            }
            let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            let (me, count) = match record.len() {
                RECORD => (number(0) as usize, number(8)),
                len => return Err(format!("the log ends in {len} bytes")),
            };
            let whole = seen.get(me) == Some(&count) && record == self::record(me, count);
            if !whole {
                return Err(format!("record {n} of the log is {record:x?}"));
            }
            seen[me] += 1;
        }
        let last = if only_kept {
            &self.kept
        } else {
            &self.appended
        };
        for (me, (last, seen)) in last.iter().zip(&seen).enumerate() {
            let last = last.load(Ordering::SeqCst);
            if *seen < last || (!only_kept && *seen != last) {
                return Err(format!("{seen} records of thread {me}, not {last}"));
            }
        }
        Ok(seen.iter().sum())
    }
}

fn record(me: usize, count: u64) -> Vec<u8> {
    let mut record = [me as u64, count].map(u64::to_le_bytes).concat();
    record.extend(Random(count << 8 | me as u64).bytes(RECORD - 16));
    record
}

impl Visitor<'_> {
    fn append(&mut self) -> Result<bool> {
        let count = &self.shared.appended[self.me];
        let mut options = OpenOptions::new();
        let options = options.write(true).append(true);
        let mut file = options.open(self.mount, "shared/log")?;
        let mut n = count.load(Ordering::SeqCst);
        for _ in 0..=self.random.below(4) {
            let record = record(self.me, n);
            assert_eq!(file.write(&record)?, RECORD);
            n += 1;
            count.store(n, Ordering::SeqCst);
        }
        if self.random.below(30) == 0 {
            file.sync_all()?;
            self.shared.kept[self.me].store(n, Ordering::SeqCst);
        }
        Ok(true)
    }

    /// Whoever reads a box finds one thread's content, whole.
    fn replace(&mut self) -> Result<bool> {
        let draft = format!("shared/draft-{}", self.me);
        let len = 1 + self.random.below(9000) as usize;
        self.mount.write(&draft, vec![len as u8; len])?;
        let to = format!("shared/box-{}", self.random.below(BOXES));
        self.mount.rename(&draft, to)?;
        Ok(true)
    }

    fn look(&mut self) -> Result<bool> {
        let path = format!("shared/box-{}", self.random.below(BOXES));
        match self.mount.read(&path) {
            Ok(seen) => {
                let whole = !seen.is_empty() && seen.iter().all(|&b| b == seen.len() as u8);
                assert!(whole, "{path} is torn: {} bytes", seen.len());
            }
            Err(error) if error.errno() == libc::ENOENT => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        match self.random.below(4) {
            0 => one_of(self.mount.remove_file(&path), &[libc::ENOENT]),
            _ => Ok(true),
        }
    }

    fn exchange(&mut self) -> Result<bool> {
        let [a, b] = [(); 2].map(|()| format!("shared/box-{}", self.random.below(BOXES)));
        let exchanged = self.mount.rename_with(a, b, libc::RENAME_EXCHANGE);
        one_of(exchanged, &[libc::ENOENT])
    }

    /// Only one can make a file that is not there.
    fn lock(&mut self) -> Result<bool> {
        let n = self.random.below(LOCKS as u64) as usize;
        let path = format!("shared/lock-{n}");
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true);
        match options.open(self.mount, &path) {
            Ok(_) => {}
            Err(error) if error.errno() == libc::EEXIST => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let was = self.shared.held[n].swap(true, Ordering::SeqCst);
        assert!(!was, "{path} was made twice");
        std::thread::yield_now();
        self.shared.held[n].store(false, Ordering::SeqCst);
        self.mount.remove_file(&path)?;
        Ok(true)
    }

    /// A directory moves between two others, with what is in it.
    fn change_house(&mut self) -> Result<bool> {
        let here = |side: &str| format!("shared/{side}/house-{}", self.me);
        let (mut from, mut to) = (here("a"), here("b"));
        if !self.mount.exists(&from)? {
            (from, to) = (to, from);
        }
        self.mount.rename(&from, &to)?;
        let who = self.mount.read_to_string(format!("{to}/who"))?;
        assert_eq!(who, self.me.to_string(), "{to}");
        assert!(!self.mount.exists(&from)?, "{from} and {to}");
        Ok(true)
    }

    /// What does not change is listed once, whatever else does.
    fn list(&mut self) -> Result<bool> {
        let names = listed(self.mount, "shared")?;
        let anchors = names.iter().filter(|name| name.starts_with("anchor-"));
        let should = (0..ANCHORS).map(|n| format!("anchor-{n:03}"));
        assert!(anchors.eq(should.collect::<Vec<_>>().iter()), "{names:?}");
        Ok(true)
    }
}

/// What a call of a kernel that has ended answers.
pub fn has_ended(error: &std::io::Error) -> bool {
    errno_of(error) == Some(libc::ESHUTDOWN)
}
