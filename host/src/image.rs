//! The kernel image: an ELF file whose code and data are mapped, not copied.

use crate::{abi, provisions};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: u64 = 4096;
/// What an address takes.
const WORD: u64 = 8;

/// Why a file is not an image that this program can load.
#[derive(Debug)]
pub enum ImageError {
    /// The host does not let us read it.
    Io(PathBuf, io::Error),
    /// It is something else; why.
    NotAnImage(PathBuf, &'static str),
    /// It ends before what its headers say is in it.
    Truncated(PathBuf),
    /// It was built for another version of the contract (asm/host.h).
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// This program's.
        expected: u32,
    },
    /// The structure of that name has another size in it than in this program.
    Layout(PathBuf, &'static str),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => {
                write!(f, "cannot read kernel image {}: {error}", path.display())
            }
            Self::NotAnImage(path, why) => write!(
                f,
                "{} is not a tane kernel image ({why}); `make kernel` builds one",
                path.display()
            ),
            Self::Truncated(path) => write!(
                f,
                "kernel image {} is truncated; `make kernel` builds it again",
                path.display()
            ),
            Self::Version {
                path,
                found,
                expected,
            } => write!(
                f,
                "kernel image {} speaks host ABI version {found}, this program version \
                 {expected}; build both from the same source",
                path.display()
            ),
            Self::Layout(path, what) => write!(
                f,
                "kernel image {} disagrees with this program about {what}; build both \
                 from the same source",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

/// An open, checked image file. May be used for any number of kernels.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    file: Arc<File>,
    /// Where in the file the image's first byte is.
    text_offset: u64,
    /// Where in the file the byte at `header.text_end` is, and how many bytes
    /// follow; what they do not cover is zero.
    data_offset: u64,
    data_len: u64,
    /// What it says of itself, checked.
    pub header: abi::ImageHeader,
}

impl Image {
    /// Open and check a file: its kind, its completeness, its ABI version and
    /// the sizes of everything that host and kernel share.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let path = path.to_path_buf();
        let file = provisions::image(&path).map_err(|e| ImageError::Io(path.clone(), e))?;
        let len = file
            .metadata()
            .map_err(|e| ImageError::Io(path.clone(), e))?
            .len();

        let mut ehdr = [0; 64];
        read(&file, &path, &mut ehdr, 0)?;
        if ehdr[..6] != [0x7f, b'E', b'L', b'F', 2, 1] || word(&ehdr, 18, 2) != 62 {
            return Err(ImageError::NotAnImage(path, "not an x86-64 ELF file"));
        }
        let Segments {
            text_offset,
            data_offset,
            data_len,
            end,
        } = segments(&file, &path, &ehdr)?;

        let mut bytes = [0; size_of::<abi::ImageHeader>()];
        read(&file, &path, &mut bytes, text_offset)?;
        // SAFETY: any bytes are a valid header.
        let header: abi::ImageHeader = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        check(&path, &header)?;
        // All code is mapped from the file, also what no segment names.
        let code_end = text_offset.saturating_add(header.text_end);
        if len < end.max(code_end) {
            return Err(ImageError::Truncated(path));
        }
        if data_len > header.data_end - header.text_end {
            return Err(ImageError::NotAnImage(
                path,
                "more data than its header says",
            ));
        }
        Ok(Self {
            path,
            file,
            text_offset,
            data_offset,
            data_len,
            header,
        })
    }

    /// The file it was opened as.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Put the image at `base`, where RAM is mapped: map code and data from the
    /// file and relocate the data. Of constants hardly a page has an address in it,
    /// and most are never looked at: they stay the file's.
    ///
    /// `shared`: with processes that are forked later, so what is written while they
    /// are there is copied into RAM. Constants are not: they are equal by then.
    ///
    /// # Safety
    /// `base` is the start of at least `header.image_end` bytes of zeroed,
    /// writable memory that nobody else uses yet.
    pub(crate) unsafe fn load(&self, base: *mut u8, shared: bool) -> Result<(), ImageError> {
        let h = &self.header;
        let (read, fd) = (libc::PROT_READ, self.file.as_raw_fd());
        let data = h.text_end + self.data_len;
        let private = match shared {
            true => h.rodata_end.min(data) & !(PAGE - 1),
            false => data,
        };
        for (at, len, prot, offset) in [
            (0, h.text_end, read | libc::PROT_EXEC, self.text_offset),
            (
                h.text_end,
                private - h.text_end,
                read | libc::PROT_WRITE,
                self.data_offset,
            ),
        ] {
            let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
            let offset = offset as libc::off_t;
            // SAFETY: in the caller's memory, as the header was checked.
            let mapped = unsafe {
                let at = base.add(at as usize).cast();
                libc::mmap(at, len as usize, prot, flags, fd, offset)
            };
            if mapped == libc::MAP_FAILED {
                return Err(self.io(io::Error::last_os_error()));
            }
        }
        if private < data {
            // SAFETY: in the caller's memory, as the header was checked.
            let rest = unsafe {
                let len = (data - private) as usize;
                std::slice::from_raw_parts_mut(base.add(private as usize), len)
            };
            let offset = self.data_offset + (private - h.text_end);
            self.file
                .read_exact_at(rest, offset)
                .map_err(|error| self.io(error))?;
        }
        // The file goes on in the last page, with what is not the kernel's.
        let end = data as usize;
        let rest = end.next_multiple_of(PAGE as usize) - end;
        // SAFETY: the end of a page that was just mapped, writable.
        unsafe {
            base.add(end).write_bytes(0, rest);
            self.relocate(base)
        }
    }

    /// Add the load address to every word that holds an address. The table names a word,
    /// and by bits which of the 63 behind it are others (`SHT_RELR` of the generic ABI).
    ///
    /// # Safety
    /// The image is mapped at `base`, and nobody uses it yet.
    unsafe fn relocate(&self, base: *mut u8) -> Result<(), ImageError> {
        let h = &self.header;
        let count = (h.rela_end - h.rela_start) as usize / WORD as usize;
        // SAFETY: in the data, and aligned, as the header was checked. What is written
        // below lies outside.
        let table = unsafe {
            let start = base.add(h.rela_start as usize).cast::<u64>();
            std::slice::from_raw_parts(start, count)
        };
        let add = |at: u64| {
            let table = h.rela_start..h.rela_end;
            if at < h.text_end
                || at > h.data_end - WORD
                || !at.is_multiple_of(WORD)
                || table.contains(&at)
            {
                return Err(ImageError::NotAnImage(
                    self.path.clone(),
                    "it has a relocation that a loader must not do",
                ));
            }
            // SAFETY: in the data, aligned, and not in the table.
            unsafe {
                let word = base.add(at as usize).cast::<u64>();
                word.write(word.read().wrapping_add(base as u64));
            }
            Ok(())
        };
        let mut next = 0;
        for &entry in table {
            if entry & 1 == 0 {
                add(entry)?;
                next = entry + WORD;
                continue;
            }
            let mut bits = entry >> 1;
            while bits != 0 {
                add(next.saturating_add(u64::from(bits.trailing_zeros()) * WORD))?;
                bits &= bits - 1;
            }
            next = next.saturating_add(63 * WORD);
        }
        Ok(())
    }

    fn io(&self, error: io::Error) -> ImageError {
        ImageError::Io(self.path.clone(), error)
    }
}

fn read(file: &File, path: &Path, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
    file.read_exact_at(buf, offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ImageError::NotAnImage(path.into(), "too short"),
            _ => ImageError::Io(path.into(), error),
        })
}

/// A little-endian field of `len` bytes.
fn word(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len]
        .iter()
        .rev()
        .fold(0, |n, &b| n << 8 | u64::from(b))
}

/// What the program headers say: where code and data are in the file, and the
/// end of what the file must hold.
struct Segments {
    text_offset: u64,
    data_offset: u64,
    data_len: u64,
    end: u64,
}

fn segments(file: &File, path: &Path, ehdr: &[u8; 64]) -> Result<Segments, ImageError> {
    const PT_LOAD: u64 = 1;
    let foreign = |why| ImageError::NotAnImage(path.to_path_buf(), why);
    let phoff = word(ehdr, 32, 8);
    let count = word(ehdr, 56, 2).min(16);
    let (mut text, mut data, mut end) = (None, None, 0u64);

    for i in 0..count {
        let mut phdr = [0; 56];
        let at = phoff
            .checked_add(i * 56)
            .ok_or_else(|| foreign("bad program headers"))?;
        read(file, path, &mut phdr, at)?;
        if word(&phdr, 0, 4) != PT_LOAD {
            continue;
        }
        let (offset, vaddr, filesz) = (word(&phdr, 8, 8), word(&phdr, 16, 8), word(&phdr, 32, 8));
        end = end.max(
            offset
                .checked_add(filesz)
                .ok_or_else(|| foreign("bad segment"))?,
        );
        if vaddr == 0 {
            text = Some(offset);
        } else {
            data = Some((offset, filesz));
        }
    }
    match (text, data) {
        (Some(text_offset), Some((data_offset, data_len)))
            if text_offset % PAGE == 0 && data_offset % PAGE == 0 =>
        {
            Ok(Segments {
                text_offset,
                data_offset,
                data_len,
                end,
            })
        }
        _ => Err(foreign(
            "no code segment at address 0 and data segment after it",
        )),
    }
}

fn check(path: &Path, h: &abi::ImageHeader) -> Result<(), ImageError> {
    let path = path.to_path_buf();
    if h.magic != abi::MAGIC {
        return Err(ImageError::NotAnImage(path, "no image header"));
    }
    if h.version != abi::VERSION {
        return Err(ImageError::Version {
            path,
            found: h.version,
            expected: abi::VERSION,
        });
    }
    for (name, theirs, ours) in [
        ("struct tane_image", h.size, size_of::<abi::ImageHeader>()),
        ("struct tane_vcpu", h.vcpu_size, size_of::<abi::Vcpu>()),
        (
            "struct tane_thread",
            h.thread_size,
            size_of::<abi::Thread>(),
        ),
        ("struct tane_ops", h.ops_size, size_of::<abi::Ops>()),
        ("struct tane_boot", h.boot_size, size_of::<abi::Boot>()),
        (
            "struct tane_virtio",
            h.virtio_size,
            size_of::<abi::Virtio>(),
        ),
    ] {
        if theirs as usize != ours {
            return Err(ImageError::Layout(path, name));
        }
    }
    let ordered = [
        h.text_start,
        h.text_end,
        h.rodata_end,
        h.data_end,
        h.image_end,
        1 << 31,
    ];
    let in_text = [
        h.start,
        h.call,
        h.enter,
        h.trap_fault,
        h.trap_invalid,
        h.trap_interrupt,
    ];
    if !ordered.is_sorted()
        || !h.text_end.is_multiple_of(PAGE)
        || h.text_end == 0
        || in_text.iter().any(|&a| a >= h.text_end)
        || h.rela_start < h.text_end
        || h.rela_end > h.data_end
        || h.rela_start > h.rela_end
        || !h.rela_start.is_multiple_of(WORD)
        || !(1..=PAGE).contains(&h.struct_page_size)
    {
        return Err(ImageError::NotAnImage(path, "its header makes no sense"));
    }
    Ok(())
}
