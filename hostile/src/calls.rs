//! What is done with a file system: a list of calls, each a line of words.

use crate::random::Random;
use std::fmt;
use std::path::Path;
use tane::{Error, Mount, OpenOptions, Result};

/// The calls there are: a name, and how many paths and numbers it takes.
const KINDS: [(&str, usize, usize); 21] = [
    ("walk", 0, 0),
    ("list", 1, 0),
    ("stat", 1, 0),
    ("read", 1, 2),
    ("readlink", 1, 0),
    ("xattrs", 1, 0),
    ("setxattr", 2, 1),
    ("create", 1, 0),
    ("write", 1, 2),
    ("append", 1, 1),
    ("truncate", 1, 1),
    ("allocate", 1, 3),
    ("mkdir", 1, 0),
    ("rmdir", 1, 0),
    ("unlink", 1, 0),
    ("rename", 2, 0),
    ("link", 2, 0),
    ("symlink", 2, 0),
    ("fsync", 1, 0),
    ("sync", 0, 0),
    ("statfs", 0, 0),
];
/// A list never gets longer.
const MOST: usize = 24;
/// Bytes of a read or write, and of a path.
const LONGEST: u64 = 256 << 10;
const LONGEST_PATH: usize = 4096;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    kind: usize,
    paths: Vec<Vec<u8>>,
    numbers: Vec<u64>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS[self.kind].0)?;
        for path in &self.paths {
            f.write_str(" ")?;
            for byte in path {
                match byte {
                    b'%' | 0..=b' ' | 0x7f.. => write!(f, "%{byte:02x}")?,
                    byte => write!(f, "{}", *byte as char)?,
                }
            }
        }
        self.numbers.iter().try_for_each(|n| write!(f, " {n}"))
    }
}

fn path_of(word: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    (bytes.len() <= LONGEST_PATH && !bytes.contains(&0)).then_some(bytes)
}

impl Call {
    /// A line of words; None: it is none.
    pub fn parse(line: &str) -> Option<Call> {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let kind = KINDS.iter().position(|(known, ..)| *known == name)?;
        let (_, paths, numbers) = KINDS[kind];
        let paths = (0..paths).map(|_| path_of(words.next()?)).collect();
        let paths: Option<Vec<_>> = paths;
        let numbers: Option<Vec<u64>> = (0..numbers).map(|_| words.next()?.parse().ok()).collect();
        let call = Call {
            kind,
            paths: paths?,
            numbers: numbers?,
        };
        words.next().is_none().then_some(call)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        KINDS[self.kind].0
    }

    /// Do it.
    pub fn make(&self, mount: &Mount) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let path = |n: usize| Path::new(std::ffi::OsStr::from_bytes(&self.paths[n]));
        let number = |n: usize| self.numbers[n];
        let bytes = |n: usize| vec![0x5a; number(n).min(LONGEST) as usize];
        let io = |error: std::io::Error| {
            Error::plain(tane::errno_or_guess(&error), "call", error.to_string())
        };
        let open = |write: bool| {
            let mut options = OpenOptions::new();
            // Nobody is at a FIFO's other end.
            options
                .read(true)
                .write(write)
                .custom_flags(libc::O_NONBLOCK);
            options.open(mount, path(0))
        };
        match self.name() {
            "walk" => {
                crate::walk::everything(mount, 300);
            }
            "list" => {
                for entry in mount.read_dir(path(0))?.take(1000) {
                    entry?;
                }
            }
            "stat" => {
                mount.symlink_metadata(path(0))?;
            }
            "read" => {
                let file = open(false)?;
                file.read_at(&mut bytes(1), number(0)).map_err(io)?;
            }
            "readlink" => drop(mount.read_link(path(0))?),
            "xattrs" => {
                for key in mount.symlink_xattrs(path(0))? {
                    mount.symlink_xattr(path(0), key)?;
                }
            }
            "setxattr" => {
                let key = self.paths[1].as_slice();
                let key = std::ffi::OsStr::from_bytes(key);
                mount.set_xattr(path(0), key, &bytes(0), 0)?;
            }
            "create" => drop(mount.create(path(0))?),
            "write" => open(true)?.write_all_at(&bytes(1), number(0)).map_err(io)?,
            "append" => {
                let file = open(true)?;
                let end = file.metadata()?.len();
                file.write_all_at(&bytes(0), end).map_err(io)?;
            }
            "truncate" => mount.truncate(path(0), number(0))?,
            "allocate" => open(true)?.allocate(number(0) as i32, number(1), number(2))?,
            "mkdir" => mount.create_dir(path(0))?,
            "rmdir" => mount.remove_dir(path(0))?,
            "unlink" => mount.remove_file(path(0))?,
            "rename" => mount.rename(path(0), path(1))?,
            "link" => mount.hard_link(path(0), path(1))?,
            "symlink" => mount.symlink(path(0), path(1))?,
            "fsync" => open(false)?.sync_all()?,
            "sync" => mount.sync()?,
            "statfs" => {
                mount.statfs()?;
            }
            name => unreachable!("{name} is in no table"),
        }
        Ok(())
    }
}

/// What calls are made of.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<Vec<u8>>);

impl Names {
    fn any(&self, random: &mut Random) -> Vec<u8> {
        let new = random.below(4) == 0;
        if new || self.0.is_empty() {
            return format!("new{}", random.below(4)).into_bytes();
        }
        self.0[random.below(self.0.len() as u64) as usize].clone()
    }

    /// Any call.
    pub fn call(&self, random: &mut Random) -> Call {
        let kind = random.below(KINDS.len() as u64) as usize;
        let (name, paths, numbers) = KINDS[kind];
        let mut call = Call {
            kind,
            paths: (0..paths).map(|_| self.any(random)).collect(),
            numbers: (0..numbers).map(|_| number(random)).collect(),
        };
        match name {
            "setxattr" => call.paths[1] = format!("user.{}", random.below(4)).into_bytes(),
            // Of linux/falloc.h, in any combination.
            "allocate" => call.numbers[0] = random.below(0x80),
            _ => {}
        }
        call
    }

    /// Another list, a little different.
    pub fn mutate(&self, calls: &mut Vec<Call>, random: &mut Random) {
        let at = random.below(calls.len() as u64 + 1) as usize;
        match random.below(5) {
            0 if at < calls.len() => drop(calls.remove(at)),
            1 if at < calls.len() => calls[at] = self.call(random),
            2 if at < calls.len() => {
                let other = random.below(calls.len() as u64) as usize;
                calls.swap(at, other);
            }
            _ if calls.len() < MOST => calls.insert(at, self.call(random)),
            _ => calls.truncate(at),
        }
    }
}

/// Offsets and lengths at which code turns.
fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => 1 << random.below(63),
        2 => (1 << random.below(40)) - 1,
        3 => random.below(64),
        4 => random.below(64) * 4096,
        _ => random.below(LONGEST),
    }
}

/// What every file system is tried with first.
pub fn first(write: bool) -> Vec<Call> {
    let lines: &[&str] = match write {
        true => &[
            "walk",
            "create new0",
            "write new0 0 100000",
            "fsync new0",
            "mkdir new1",
            "rename new0 new1/new2",
            "truncate new1/new2 5000",
            "statfs",
            "sync",
        ],
        false => &["walk", "statfs"],
    };
    lines.iter().filter_map(|line| Call::parse(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_the_same_after_it_was_text() {
        let names = Names(vec![b"a name %\n\xff".to_vec(), b"dir/file".to_vec()]);
        let mut random = Random(5);
        for _ in 0..2000 {
            let call = names.call(&mut random);
            assert_eq!(Call::parse(&call.to_string()), Some(call));
        }
        for wrong in [
            "",
            "fly",
            "list",
            "list a b",
            "read a 1",
            "stat %0",
            "stat a%00b",
        ] {
            assert_eq!(Call::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_list_stays_within_bounds() {
        let names = Names::default();
        let (mut calls, mut random) = (first(true), Random(1));
        assert_eq!(calls.len(), 9);
        for _ in 0..5000 {
            names.mutate(&mut calls, &mut random);
            assert!(calls.len() <= MOST);
        }
    }
}
