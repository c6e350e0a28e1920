//! What kernels are booted with, taken before it is needed: a process in a jail opens no
//! kernel image, and makes no file in memory, which no limit of the host's would count.

use crate::area;
use crate::boot::BootError;
use crate::fork::{count as forks, watch as watch_forks};
use crate::image::ImageError;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kernel images get descriptors from here on, if the limit of open files lets them: a
/// filter of system calls names them, and is the same in every process.
const FIRST: RawFd = 40;

pub struct Provisions {
    images: Vec<(PathBuf, Arc<File>)>,
    /// Empty ones, each of `size` bytes.
    memory: Vec<File>,
    /// 0: nothing was taken ahead.
    size: u64,
    /// `forks()` of the process that took them.
    forks: u64,
}

static PROVISIONS: Mutex<Provisions> = Mutex::new(Provisions {
    images: Vec::new(),
    memory: Vec::new(),
    size: 0,
    forks: 0,
});

/// Nobody takes any while it exists.
pub type Locked = MutexGuard<'static, Provisions>;

pub fn lock() -> Locked {
    PROVISIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(work: impl FnOnce(&mut Provisions) -> T) -> T {
    let mut own = lock();
    if own.forks != forks() {
        // They are the parent's, whose next kernel gets them. Not closed: their numbers may
        // be somebody else's by now, as a child closes what it was not given.
        own.memory.drain(..).for_each(std::mem::forget);
        (own.size, own.forks) = (0, forks());
    }
    work(&mut own)
}

/// Take what booting takes of the host, for kernels of these images, as many at a time as
/// `kernels`, each with at most `memory` bytes. They can then be booted where nothing can
/// be opened and no memory file made, again and again: the memory of a kernel that ends
/// is for the next one. The files keep their sizes, whatever is done to them.
///
/// Returns the images' descriptors, which stay open as long as the process. May be called
/// several times in a process, for kernels of the same memory. A fork has the images; its
/// parent's memory is not for its kernels.
///
/// Errors: [`BootError::Image`], and [`BootError::Memory`] where no file can be made.
pub fn provide(images: &[&Path], kernels: usize, memory: u64) -> Result<Vec<RawFd>, BootError> {
    watch_forks();
    with(|own| {
        if own.size == 0 {
            own.size = memory.next_multiple_of(crate::memory::PAGE) + area::SIZE;
        }
        for path in images {
            if !own.images.iter().any(|(known, _)| known == path) {
                let file = File::open(path).and_then(apart);
                let file = file.map_err(|e| ImageError::Io(path.to_path_buf(), e))?;
                own.images.push((path.to_path_buf(), Arc::new(file)));
            }
        }
        for _ in 0..kernels {
            let file = sealed(own.size).map_err(BootError::Memory)?;
            own.memory.push(file);
        }
        Ok(own.images.iter().map(|(_, f)| f.as_raw_fd()).collect())
    })
}

/// The same file, where its descriptor is out of others' way.
fn apart(file: File) -> io::Result<File> {
    // SAFETY: a descriptor of ours; the new one is ours alone.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST) {
            fd if fd >= 0 => Ok(File::from_raw_fd(fd)),
            _ => Ok(file),
        }
    }
}

/// A kernel image that was opened ahead, or is now.
pub fn image(path: &Path) -> io::Result<Arc<File>> {
    let known = with(|own| {
        let found = own.images.iter().find(|(known, _)| known == path);
        found.map(|(_, file)| file.clone())
    });
    known.map_or_else(|| File::open(path).map(Arc::new), Ok)
}

/// A file in memory of at least `len` bytes, all zero, which never gets larger or smaller.
pub struct MemoryFile {
    /// Taken by drop() alone.
    file: Option<File>,
    /// If it was made ahead: `forks()` of the process that did.
    provided: Option<u64>,
}

impl MemoryFile {
    /// One that was made ahead, or a new one.
    pub fn new(len: u64) -> io::Result<Self> {
        let (ready, size) = with(|own| {
            let fits = own.size >= len;
            (fits.then(|| own.memory.pop()).flatten(), own.size)
        });
        if let Some(file) = ready {
            return Ok(MemoryFile {
                file: Some(file),
                provided: Some(forks()),
            });
        }
        Self::made(len, size)
    }

    /// A new one: other processes keep theirs mapped when this one is done with it.
    pub fn alone(len: u64) -> io::Result<Self> {
        Self::made(len, 0)
    }

    fn made(len: u64, size: u64) -> io::Result<Self> {
        let made = sealed(len).map_err(|e| match size {
            // It is in a jail that was told what would be booted.
            1.. if e.raw_os_error() == Some(libc::ENOSYS) => {
                let text = "as many run as this process took memory for before it was confined";
                io::Error::new(io::ErrorKind::OutOfMemory, text)
            }
            _ => e,
        });
        Ok(MemoryFile {
            file: Some(made?),
            provided: None,
        })
    }
}

impl Deref for MemoryFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("not dropped")
    }
}

impl Drop for MemoryFile {
    /// What it held goes back to the host, and an empty file to the next kernel. Nobody
    /// has it mapped any more.
    fn drop(&mut self) {
        // A fork drops its copy of a handle: the kernel goes on in its parent.
        let is_own = self.provided == Some(forks());
        let Some(file) = self.file.take().filter(|_| is_own) else {
            return;
        };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        with(|own| {
            // SAFETY: nobody uses its memory.
            let punched =
                unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, own.size as libc::off_t) };
            if punched == 0 {
                own.memory.push(file);
            }
        });
    }
}

fn sealed(len: u64) -> io::Result<File> {
    // SAFETY: plain system calls; the descriptor is ours alone.
    let file = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = libc::memfd_create(c"tane-ram".as_ptr(), flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.set_len(len)?;
    let size = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: no memory involved. What is inside cannot take more than it got.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, size) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    /// What a fork of this process answers, by its code.
    fn in_fork(work: impl FnOnce() -> bool) -> bool {
        let mut status = 0;
        // SAFETY: the child works on memory of its own, and ends here.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!work())),
                child => assert_eq!(libc::waitpid(child, &raw mut status, 0), child),
            }
        }
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    #[test]
    fn a_fork_takes_and_clears_nothing_of_its_parents_memory() {
        const SIZE: u64 = 1 << 20;
        provide(&[], 1, SIZE).expect("memory");
        let inode = |file: &File| file.metadata().expect("stat").ino();
        let provided = with(|own| own.memory.first().map(inode)).expect("one");

        // One that is there to be taken.
        let is_other = || MemoryFile::new(SIZE).is_ok_and(|file| inode(&file) != provided);
        assert!(in_fork(is_other));

        // One that a kernel has.
        let taken = MemoryFile::new(SIZE).expect("memory");
        assert_eq!(inode(&taken), provided);
        taken.write_all_at(b"RAM", 0).expect("writes");
        // SAFETY: the child's copy, of which nothing else is used there.
        assert!(in_fork(|| unsafe {
            drop(std::ptr::read(&raw const taken));
            with(|own| own.memory.is_empty())
        }));
        let mut kept = [0; 3];
        taken.read_exact_at(&mut kept, 0).expect("reads");
        assert_eq!(&kept, b"RAM");

        // In the process that took it, it is empty for the next one.
        drop(taken);
        let again = MemoryFile::new(SIZE).expect("memory");
        assert_eq!(inode(&again), provided);
        again.read_exact_at(&mut kept, 0).expect("reads");
        assert_eq!(kept, [0; 3]);
    }
}
