//! tane_opendir and what follows.

use crate::error::{answer, done, Failure};
use crate::mount::TaneMount;
use crate::pass::{self, give, handle, path, take, Sized_};
use std::ffi::c_char;
use std::sync::Mutex;
use tane::{FileType, ReadDir};

/// The lock is for programs that list from several threads.
pub struct TaneDir(Mutex<ReadDir>);

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

#[no_mangle]
pub unsafe extern "C" fn tane_opendir(
    mount: *mut TaneMount,
    name: *const c_char,
    dir: *mut *mut TaneDir,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (tree, name) = (&handle(mount)?.mount, path(name)?);
        give(dir, || Ok(TaneDir(Mutex::new(tree.read_dir(name)?))))
    })
}

fn mode(kind: Option<FileType>) -> u32 {
    match kind {
        Some(FileType::File) => libc::S_IFREG,
        Some(FileType::Dir) => libc::S_IFDIR,
        Some(FileType::Symlink) => libc::S_IFLNK,
        Some(FileType::BlockDevice) => libc::S_IFBLK,
        Some(FileType::CharDevice) => libc::S_IFCHR,
        Some(FileType::Fifo) => libc::S_IFIFO,
        Some(FileType::Socket) => libc::S_IFSOCK,
        Some(FileType::Unknown) | None => 0,
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_readdir(dir: *mut TaneDir, to: *mut RawDirent) -> i32 {
    answer(|| {
        pass::check(to)?;
        // SAFETY: as tane.h says.
        let dir = unsafe { handle(dir) }?;
        let mut listing = dir.0.lock().unwrap_or_else(|e| e.into_inner());
        let Some(entry) = listing.next_entry()? else {
            return Ok(0);
        };
        let name = entry.c_name().to_bytes();
        let mut raw = RawDirent {
            size: 0,
            ino: entry.ino(),
            kind: mode(entry.file_type()),
            name_len: name.len() as u32,
            name: [0; 256],
        };
        // Linux has no longer names; the last byte stays a NUL in any case.
        for (to, from) in raw.name[..255].iter_mut().zip(name) {
            *to = *from as c_char;
        }
        // SAFETY: as tane.h says.
        unsafe { pass::write(to, &raw) }?;
        Ok(1)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_rewinddir(dir: *mut TaneDir) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let dir = unsafe { handle(dir) }?;
        let mut listing = dir.0.lock().unwrap_or_else(|e| e.into_inner());
        listing.rewind().map_err(Failure::from)
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
