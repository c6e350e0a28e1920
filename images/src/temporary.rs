//! What has to be had as a whole before it can be used: in a temporary file that
//! has no name and takes no room for zeros.

use crate::backend::Backend;
use crate::raw::{Access, Raw};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Zeros of this length become holes, in bytes.
const HOLE: usize = 64 << 10;

/// Where such files are: `TMPDIR`, else /var/tmp.
pub(crate) fn place() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// What is left free of the place, in bytes: others need it too, and so does the system.
const SPARED: u64 = 1 << 30;
/// Or of small ones, such a part.
const PART: u64 = 16;
/// The place is asked after so many bytes.
const STEP: u64 = 16 << 20;

/// Files that [`set_aside`] has opened, in the process of this number.
static ASIDE: Mutex<Aside> = Mutex::new((0, Vec::new(), false));
/// And whether any were.
type Aside = (u32, Vec<io::Result<File>>, bool);
/// So many: streams that a session unpacks, one after the other.
const MOST_ASIDE: usize = 16;

/// Opens temporary files for what this process will unpack or download, for when it cannot
/// open any more: a jail then need not let it into the directory that they are in. An error
/// is that of whoever would use the file.
pub fn set_aside() {
    let mut aside = ASIDE.lock().unwrap_or_else(|e| e.into_inner());
    disown(&mut aside);
    let place = place();
    aside.2 = true;
    while aside.1.len() < MOST_ASIDE {
        aside.1.push(open(&place));
    }
}

/// Forgets those of a parent, before it was forked: its child may have closed them, and
/// use their numbers for others.
fn disown(aside: &mut Aside) {
    let me = std::process::id();
    if aside.0 != me {
        std::mem::forget(std::mem::take(&mut aside.1));
        aside.0 = me;
        aside.2 = false;
    }
}

/// One that was set aside, or a new one.
fn take(place: &Path) -> io::Result<Spool> {
    let mut aside = ASIDE.lock().unwrap_or_else(|e| e.into_inner());
    disown(&mut aside);
    match aside.1.pop() {
        Some(file) => file.map(Spool::of),
        None => Spool::new(place).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied if aside.2 => io::Error::other(format!(
                "a command in its jail unpacks or downloads {MOST_ASIDE} files at most"
            )),
            _ => e,
        }),
    }
}

/// A file of all that `from` has, `most` bytes without zeros at most; `verb` says what is
/// done to it, in errors.
pub(crate) fn fill(from: &mut dyn Read, verb: &str, most: u64) -> io::Result<Arc<dyn Backend>> {
    let place = place();
    let cannot = |e: io::Error, hint: &str| {
        let text = format!("cannot be {verb} into {}: {e}{hint}", place.display());
        io::Error::new(e.kind(), text)
    };
    let to = take(&place).map_err(|e| match e.kind() {
        io::ErrorKind::Other => cannot(e, ""),
        _ => cannot(e, "; set TMPDIR to another place"),
    })?;
    let to = copy(from, to, most).map_err(|e| {
        let full = e.kind() == io::ErrorKind::StorageFull;
        let hint = "; set TMPDIR to a place with more room";
        let unpack = "; unpack it yourself first if you trust it";
        match e.kind() {
            _ if full => cannot(e, hint),
            io::ErrorKind::FileTooLarge => cannot(e, unpack),
            _ => cannot(e, ""),
        }
    })?;
    let access = Access {
        write: false,
        direct: false,
    };
    Raw::from_file(to, access).map(|raw| Arc::new(raw) as Arc<dyn Backend>)
}

/// An error unless there is room for more, and for others.
fn check_room(to: &File) -> io::Result<()> {
    // SAFETY: a structure of ours, which the call fills.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::statvfs>();
        match libc::fstatvfs(to.as_raw_fd(), &raw mut found) {
            0 => found,
            _ => return Err(io::Error::last_os_error()),
        }
    };
    // Some have no size to tell; a write says when they are full.
    if found.f_blocks == 0 {
        return Ok(());
    }
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let spared = (bytes(found.f_blocks) / PART).min(SPARED);
    match bytes(found.f_bavail) < spared + STEP {
        true => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("it would leave less than {spared} bytes free there"),
        )),
        false => Ok(()),
    }
}

fn copy(from: &mut dyn Read, mut to: Spool, most: u64) -> io::Result<File> {
    let mut piece = vec![0; HOLE];
    loop {
        let mut len = 0;
        while len < HOLE {
            match from.read(&mut piece[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        to.append(&piece[..len], most)?;
        if len < HOLE {
            to.end()?;
            return Ok(to.file);
        }
    }
}

fn open(place: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_TMPFILE).open(place)
}

/// A file without a name, to which pieces are appended.
pub struct Spool {
    file: File,
    len: u64,
    written: u64,
    checked: Option<u64>,
}

impl Spool {
    /// An empty one in this directory.
    pub fn new(place: &Path) -> io::Result<Spool> {
        open(place).map(Spool::of)
    }

    fn of(file: File) -> Spool {
        Spool {
            file,
            len: 0,
            written: 0,
            checked: None,
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a piece; one of zeros becomes a hole. An error if more than `most` bytes are
    /// none, or if the place would have too little room for others.
    pub fn append(&mut self, piece: &[u8], most: u64) -> io::Result<()> {
        if piece.iter().any(|b| *b != 0) {
            self.written += piece.len() as u64;
            if self.written > most {
                let text = format!("it holds more than {most} bytes, too much for its size");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            let due = |checked| self.written >= checked + STEP;
            if self.checked.is_none_or(due) {
                check_room(&self.file)?;
                self.checked = Some(self.written);
            }
            self.file.write_all_at(piece, self.len)?;
        }
        self.len += piece.len() as u64;
        Ok(())
    }

    /// A hole at its end is part of the file from now on.
    pub fn end(&self) -> io::Result<()> {
        self.file.set_len(self.len)
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}
