//! tane_opendir, tane_list and what follows.

use crate::error::{answer, answer64, done, Failure, Result};
use crate::mount::{Side, TaneMount};
use crate::pass::{self, bytes, give, handle, take, Sized_};
use crate::stat::RawStat;
use std::ffi::{c_char, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard};
use tane_worker::{Dir, Entry, Lister, Listing, Stat};

/// The lock is for programs that list from several threads.
pub struct TaneDir(Mutex<Open>);

struct Open {
    source: Source,
    /// Where it began.
    top: CString,
    /// The directory at hand.
    path: CString,
    /// About the entry that was given last.
    stat: Option<Stat>,
    /// What came when nobody could be given it.
    kept: Option<Next>,
}

type Next = Result<Option<Listing>>;

impl Open {
    fn next(&mut self) -> Next {
        self.stat = None;
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        Ok(match &mut self.source {
            Source::Local(lister) => lister.next()?,
            Source::Remote(dir) => dir.next()?,
        })
    }
}

enum Source {
    Local(Box<Lister>),
    Remote(Dir),
}

#[repr(C)]
pub struct RawDirent {
    size: usize,
    ino: u64,
    kind: u32,
    name_len: u32,
    name: [c_char; 256],
}

// SAFETY: integers.
unsafe impl Sized_ for RawDirent {}

fn open(mount: &TaneMount, path: &OsStr, flags: u32) -> Result<TaneDir> {
    let top = CString::new(path.as_bytes()).unwrap_or_default();
    Ok(TaneDir(Mutex::new(Open {
        source: match mount.side() {
            Side::Local(tree) => Source::Local(Box::new(Lister::new(tree, path, flags)?)),
            Side::Remote(mount) => Source::Remote(mount.list(path, flags)?),
        },
        path: top.clone(),
        top,
        stat: None,
        kept: None,
    })))
}

impl TaneDir {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_opendir(
    mount: *mut TaneMount,
    name: *const c_char,
    dir: *mut *mut TaneDir,
) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { tane_list(mount, name, 0, dir) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_list(
    mount: *mut TaneMount,
    name: *const c_char,
    flags: u32,
    dir: *mut *mut TaneDir,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (mount, name) = (handle(mount)?, bytes(name)?);
        give(dir, || open(mount, name, flags))
    })
}

const ENTRY: i32 = 1;
const DIRECTORY: i32 = 2;

fn dirent(entry: &Entry) -> RawDirent {
    let name = entry.name.as_bytes();
    let mut raw = RawDirent {
        size: 0,
        ino: entry.ino,
        kind: entry.kind,
        name_len: name.len() as u32,
        name: [0; 256],
    };
    // Linux has no longer names; the last byte stays a NUL in any case.
    for (to, from) in raw.name[..255].iter_mut().zip(name) {
        *to = *from as c_char;
    }
    raw
}

#[no_mangle]
pub unsafe extern "C" fn tane_readdir(dir: *mut TaneDir, to: *mut RawDirent) -> i32 {
    answer(|| {
        pass::check(to)?;
        // SAFETY: as tane.h says.
        let mut open = unsafe { handle(dir) }?.lock();
        match open.next()? {
            None => Ok(0),
            Some(Listing::Entry(entry)) => {
                // SAFETY: as tane.h says.
                unsafe { pass::write(to, &dirent(&entry)) }?;
                open.stat = entry.stat;
                Ok(ENTRY)
            }
            Some(Listing::Directory(below)) => {
                let mut path = open.top.as_bytes().to_vec();
                if !path.ends_with(b"/") {
                    path.push(b'/');
                }
                path.extend_from_slice(below.as_bytes());
                open.path = CString::new(path).unwrap_or_default();
                Ok(DIRECTORY)
            }
        }
    })
}

/// Room for any name.
const NAME: usize = 256;

#[no_mangle]
pub unsafe extern "C" fn tane_read_names(
    dir: *mut TaneDir,
    names: *mut c_char,
    len: usize,
    types: *mut u8,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let mut open = handle(dir)?.lock();
        handle(names)?;
        handle(types)?;
        if len < NAME {
            return Err(Failure::new(libc::EINVAL, "there is no room for a name"));
        }
        let names = std::slice::from_raw_parts_mut(names.cast::<u8>(), len);
        let types = std::slice::from_raw_parts_mut(types, len / 2);
        let (mut used, mut count) = (0, 0);
        while len - used >= NAME {
            match open.next() {
                Ok(Some(Listing::Entry(entry))) => {
                    let name = entry.name.as_bytes();
                    names[used..][..name.len()].copy_from_slice(name);
                    used += name.len() + 1;
                    names[used - 1] = 0;
                    types[count] = (entry.kind >> 12) as u8;
                    count += 1;
                }
                next => {
                    open.kept = Some(next);
                    break;
                }
            }
        }
        if used == 0 && matches!(open.kept, Some(Err(_))) {
            open.next()?;
        }
        Ok(used as i64)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_entry_stat(dir: *mut TaneDir, stat: *mut RawStat) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let open = unsafe { handle(dir) }?.lock();
        let none = || Failure::new(libc::ENODATA, "nothing is known of this entry");
        // SAFETY: as tane.h says.
        unsafe { pass::write(stat, open.stat.as_ref().ok_or_else(none)?) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_dir_path(dir: *const TaneDir) -> *const c_char {
    // SAFETY: as tane.h says.
    match unsafe { handle(dir) } {
        Ok(dir) => dir.lock().path.as_ptr(),
        Err(_) => std::ptr::null(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_rewinddir(dir: *mut TaneDir) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let mut open = unsafe { handle(dir) }?.lock();
        open.path = open.top.clone();
        open.kept = None;
        match &mut open.source {
            Source::Local(lister) => lister.rewind(),
            Source::Remote(dir) => dir.rewind(),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_closedir(dir: *mut TaneDir) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(dir) });
        Ok(0)
    });
}
