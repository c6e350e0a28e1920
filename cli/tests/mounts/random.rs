//! The same operations at random on a mounted image and on a directory of the
//! host's: each has the same result, and the trees are the same in the end, also
//! when the image is mounted anew.

use crate::common::fuse::*;
use crate::common::*;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const STEPS: u32 = 2000;
const SEEDS: [u64; 2] = [1, 20261121];

/// xorshift64*: it need not be good.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }
}

/// One operation, with all it needs.
#[derive(Debug)]
struct Step {
    kind: u64,
    name: PathBuf,
    other: PathBuf,
    at: u64,
    length: u64,
    /// Which of the open files.
    file: usize,
}

/// A few names in a few directories, so that they meet often.
fn name(random: &mut Random) -> PathBuf {
    let mut path = PathBuf::new();
    for _ in 0..random.next(3) {
        path.push(format!("d{}", random.next(3)));
    }
    path.push(match random.next(3) {
        0 => format!("d{}", random.next(3)),
        _ => format!("f{}", random.next(5)),
    });
    path
}

fn step(random: &mut Random) -> Step {
    Step {
        kind: random.next(25),
        name: name(random),
        other: name(random),
        at: random.next(200_000),
        length: 1 + random.next(70_000),
        file: random.next(4) as usize,
    }
}

/// One of the two trees, with files that are open in it.
struct Side {
    root: PathBuf,
    open: [Option<File>; 4],
}

fn c_path(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path")
}

fn done(result: libc::c_long) -> io::Result<String> {
    match result {
        n if n < 0 => Err(io::Error::last_os_error()),
        n => Ok(n.to_string()),
    }
}

/// What is the same on any file system. Sizes of directories are not.
fn seen(path: &Path) -> io::Result<String> {
    let stat = path.symlink_metadata()?;
    let size = match stat.is_dir() {
        true => 0,
        false => stat.size(),
    };
    Ok(format!("{:o} {} {size}", stat.mode(), stat.nlink()))
}

impl Side {
    fn run(&mut self, s: &Step) -> io::Result<String> {
        let path = self.root.join(&s.name);
        let other = self.root.join(&s.other);
        let (from, to) = (c_path(&path), c_path(&other));
        let nothing = |()| String::new();
        let data: Vec<u8> = (0..s.length).map(|i| (i * 7 + s.at) as u8 | 1).collect();
        let rename = |flags: u32| {
            let here = libc::AT_FDCWD;
            // SAFETY: C strings.
            done(unsafe {
                libc::syscall(
                    libc::SYS_renameat2,
                    here,
                    from.as_ptr(),
                    here,
                    to.as_ptr(),
                    flags,
                )
            })
        };
        match s.kind {
            0 | 1 => {
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(s.kind == 0)
                    .open(&path)?;
                file.write_all_at(&data, s.at).map(nothing)
            }
            2 => fs::create_dir(&path).map(nothing),
            3 => fs::remove_dir(&path).map(nothing),
            4 => fs::remove_file(&path).map(nothing),
            5 => fs::rename(&path, &other).map(nothing),
            6 => rename(libc::RENAME_EXCHANGE),
            7 => rename(libc::RENAME_NOREPLACE),
            8 => fs::hard_link(&path, &other).map(nothing),
            9 => std::os::unix::fs::symlink(&s.other, &path).map(nothing),
            10 => fs::read(&path).map(|data| format!("{data:?}")),
            11 => OpenOptions::new()
                .write(true)
                .open(&path)?
                .set_len(s.at)
                .map(nothing),
            12 => fs::set_permissions(&path, fs::Permissions::from_mode(s.at as u32 & 0o777))
                .map(nothing),
            13 => seen(&path),
            14 => fs::read_link(&path).map(|target| format!("{target:?}")),
            15 => {
                let listed: io::Result<Vec<_>> =
                    fs::read_dir(&path)?.map(|e| Ok(e?.file_name())).collect();
                let mut listed = listed?;
                listed.sort();
                Ok(format!("{listed:?}"))
            }
            16 => {
                let file = OpenOptions::new().read(true).write(true).open(&path);
                self.open[s.file] = None;
                self.open[s.file] = Some(file?);
                Ok(String::new())
            }
            17 => Ok(format!("{}", self.open[s.file].take().is_some())),
            18 => self.with(s, |file| file.write_all_at(&data, s.at).map(nothing)),
            19 => self.with(s, |file| {
                let mut data = vec![0; s.length as usize];
                let n = file.read_at(&mut data, s.at)?;
                Ok(format!("{:?}", &data[..n]))
            }),
            20 => self.with(s, |file| file.set_len(s.at).map(nothing)),
            21 => self.with(s, |file| {
                let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                let (at, length) = (s.at as i64, s.length as i64);
                // SAFETY: numbers only.
                done(unsafe { libc::fallocate(file.as_raw_fd(), punch, at, length) }.into())
            }),
            // Data must never be taken for a hole: where it is said to begin, and
            // that none is left behind the end of it.
            22 => self.with(s, |file| {
                let size = file.metadata()?.size();
                let mut data = vec![0; size as usize];
                let n = file.read_at(&mut data, 0)?;
                let seek = |at: u64, whence| {
                    // SAFETY: numbers only.
                    match unsafe { libc::lseek(file.as_raw_fd(), at as i64, whence) } {
                        n if n < 0 => size,
                        n => n as u64,
                    }
                };
                let mut at = 0;
                while at < size {
                    let start = seek(at, libc::SEEK_DATA);
                    let hole = &data[(at as usize).min(n)..(start as usize).min(n)];
                    assert!(
                        hole.iter().all(|&b| b == 0),
                        "data in a hole at {at}..{start}"
                    );
                    at = seek(start, libc::SEEK_HOLE).max(start + 1);
                }
                Ok(String::new())
            }),
            23 => {
                let attribute = c_path(Path::new(&format!("user.a{}", s.at % 3)));
                let value = &data[..(s.length % 200) as usize];
                // SAFETY: C strings and a buffer of that size.
                done(
                    unsafe {
                        let (at, length) = (value.as_ptr().cast(), value.len());
                        libc::lsetxattr(from.as_ptr(), attribute.as_ptr(), at, length, 0)
                    }
                    .into(),
                )
            }
            _ => self.with(s, |file| match s.at % 2 {
                0 => file.sync_all().map(nothing),
                _ => file.sync_data().map(nothing),
            }),
        }
    }

    fn with(&self, s: &Step, work: impl FnOnce(&File) -> io::Result<String>) -> io::Result<String> {
        match &self.open[s.file] {
            Some(file) => work(file),
            None => Ok("none".into()),
        }
    }
}

#[test]
fn random_operations_have_the_results_they_have_on_the_host() {
    if !has_fuse() {
        return;
    }
    for seed in SEEDS {
        let s = Scratch::new();
        let image = s.ext4("disk.img", None, 256);
        let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
        fs::remove_dir(mounted.join("lost+found")).expect("removed");
        fs::create_dir(s.join("host")).expect("a directory");
        let mut ours = Side {
            root: s.join("mnt"),
            open: Default::default(),
        };
        let mut hosts = Side {
            root: s.join("host"),
            open: Default::default(),
        };
        let mut random = Random(seed);
        for n in 0..STEPS {
            let step = step(&mut random);
            let errno = |e: io::Error| e.raw_os_error();
            let wanted = hosts.run(&step).map_err(errno);
            let got = ours.run(&step).map_err(errno);
            if got != wanted {
                let short =
                    |r: &Result<String, _>| format!("{r:?}").chars().take(300).collect::<String>();
                panic!(
                    "seed {seed}, step {n}: {step:?}\nhost {}\nours {}",
                    short(&wanted),
                    short(&got)
                );
            }
        }
        drop((ours, hosts));
        let without = "mtime,holes";
        let wanted = manifest(&s.join("host"), without);
        assert_same(&wanted, &manifest(mounted.path(), without));
        mounted.unmount();
        assert_sound(&image);
        let again = Mounted::new(&s, &["disk.img"]);
        assert_same(&wanted, &manifest(again.path(), without));
        again.unmount();
    }
}
