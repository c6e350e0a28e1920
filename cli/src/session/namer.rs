//! A process that gives what this command makes its name in the end, and removes what gets
//! none. Who meets an image, or reads an archive, then has no right to any name of the
//! directory that the new file is in: it has the file, open, and nothing else.
//!
//! It was told before what there is and what it will be called. It hears the number of the
//! file that is complete, and answers with an errno, or 0. When nobody asks any more, what
//! is left goes, however the command ended.

use super::child::{self, keep_only, End};
use crate::failure::{Failure, Result, SOME_FAILED};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane_make::file::{rename_new, Unfinished};

/// What a command makes.
#[derive(Clone, Debug)]
pub struct Making {
    /// Under these names, of which one becomes it.
    pub made: Vec<PathBuf>,
    /// In the end.
    pub name: PathBuf,
    /// What has that name goes.
    pub replaces: bool,
}

/// Who is asked.
struct Namer {
    line: File,
    making: Making,
}

static NAMER: Mutex<Option<Namer>> = Mutex::new(None);

/// Start it. Before the jail is entered.
pub(super) fn start(making: Making) -> io::Result<()> {
    let (near, far) = UnixStream::pair()?;
    let line = File::from(OwnedFd::from(near));
    let work = || serve(OwnedFd::from(far).into(), &making);
    child::start(End::Unheard, work)?;
    let mut namer = NAMER.lock().unwrap_or_else(|e| e.into_inner());
    *namer = Some(Namer { line, making });
    Ok(())
}

/// In the child. The terminal's signals are not for it: it cleans up after them.
fn serve(line: File, making: &Making) -> io::Result<()> {
    // SAFETY: no memory involved.
    unsafe { libc::setsid() };
    keep_only(vec![line.as_raw_fd()])?;
    let heard = answer(&line, making);
    for path in &making.made {
        let _ = std::fs::remove_file(path);
    }
    heard
}

fn answer(mut line: &File, making: &Making) -> io::Result<()> {
    loop {
        let mut number = [0; 4];
        line.read_exact(&mut number)?;
        let number = u32::from_le_bytes(number) as usize;
        let path = making.made.get(number);
        let path = path.ok_or(io::ErrorKind::InvalidData)?;
        let done = match making.replaces {
            true => std::fs::rename(path, &making.name),
            false => rename_new(path, &making.name),
        };
        let errno = done.map_or_else(|e| e.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        line.write_all(&errno.to_le_bytes())?;
    }
}

/// What is complete gets its name: by that process, if there is one.
pub fn finish(new: Unfinished, image: &Path) -> Result<()> {
    let namer = NAMER.lock().unwrap_or_else(|e| e.into_inner());
    let Some(Namer { line, making }) = namer.as_ref() else {
        return Ok(new.finish(image)?);
    };
    let number = making.made.iter().position(|path| *path == new.path);
    let done = number.ok_or(io::ErrorKind::NotFound.into());
    let done = done.and_then(|number| ask(line, number as u32));
    let fail =
        |e: &dyn std::fmt::Display| Failure::new(SOME_FAILED, format!("{}: {e}", image.display()));
    match done {
        Ok(0) => Ok(()),
        Ok(libc::EEXIST) => Err(fail(&"exists already: --force replaces it")),
        Ok(errno) => Err(fail(&tane_linux::Errno(errno))),
        Err(_) => Err(fail(&"the process that gives it its name has died")),
    }
}

fn ask(mut line: &File, number: u32) -> io::Result<i32> {
    line.write_all(&number.to_le_bytes())?;
    let mut errno = [0; 4];
    line.read_exact(&mut errno)?;
    Ok(i32::from_le_bytes(errno))
}

/// The command ends: what has no name is gone when this returns.
pub fn end() {
    let namer = NAMER.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(Namer { mut line, .. }) = namer {
        // A number that no file has: it ends, which is all that is waited for.
        if line.write_all(&u32::MAX.to_le_bytes()).is_ok() {
            let _ = line.read(&mut [0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tane_test_support::{Dice, Scratch};

    fn making(s: &Scratch, replaces: bool) -> Making {
        let made: Vec<_> = ["a.part", "b.part"].map(|name| s.join(name)).into();
        for path in &made {
            std::fs::write(path, "new").expect("a file");
        }
        Making {
            made,
            name: s.join("image"),
            replaces,
        }
    }

    /// What it answers to these bytes, and whether they were understood.
    fn told(bytes: &[u8], making: &Making) -> (Vec<u8>, bool) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let [mut near, far] = [near, far].map(|end| File::from(OwnedFd::from(end)));
        near.write_all(bytes).expect("room in the socket");
        let ended = |near: &File| {
            // SAFETY: a descriptor of ours.
            unsafe { libc::shutdown(near.as_raw_fd(), libc::SHUT_WR) }
        };
        ended(&near);
        let end = answer(&far, making).expect_err("until the end").kind();
        drop(far);
        let mut said = Vec::new();
        let _ = near.read_to_end(&mut said);
        (said, end == io::ErrorKind::UnexpectedEof)
    }

    #[test]
    fn what_is_there_stays_unless_it_is_to_be_replaced() {
        let s = Scratch::new("namer");
        std::fs::write(s.join("image"), "old").expect("a file");
        let content = || std::fs::read_to_string(s.join("image")).expect("a file");
        let (said, _) = told(&1_u32.to_le_bytes(), &making(&s, false));
        assert_eq!(said, libc::EEXIST.to_le_bytes());
        assert_eq!(content(), "old");
        let (said, _) = told(&1_u32.to_le_bytes(), &making(&s, true));
        assert_eq!((said, content()), (vec![0; 4], "new".into()));
    }

    #[test]
    fn whatever_it_is_told_nothing_but_one_of_the_files_gets_the_name() {
        let mut dice = Dice(0x5eed_0007);
        for _ in 0..200 {
            let s = Scratch::new("namer");
            std::fs::write(s.join("beside"), "beside").expect("a file");
            let mut bytes = vec![0; dice.roll(12)];
            for byte in &mut bytes {
                *byte = if dice.roll(2) == 0 {
                    0
                } else {
                    dice.roll(256) as u8
                };
            }
            told(&bytes, &making(&s, dice.roll(2) == 0));
            let names = std::fs::read_dir(&*s).expect("a listing").flatten();
            for name in names.map(|name| name.path()) {
                let content = std::fs::read_to_string(&name).expect("a file");
                let is_beside = name.ends_with("beside");
                assert_eq!(
                    content,
                    if is_beside { "beside" } else { "new" },
                    "{name:?}"
                );
            }
            assert!(s.join("beside").exists());
        }
        let s = Scratch::new("namer");
        assert!(!told(&2_u32.to_le_bytes(), &making(&s, true)).1);
        assert!(!s.join("image").exists());
    }
}
