//! Files of the host that are not replaced unasked: those that hold a disk image.
//!
//! What has an image's Linux in it cannot read what is in a destination, and who looks
//! into a file meets what somebody else put there: so a child of this process looks, in a
//! jail of its own, as long as this process lives. A session's jail has what it shares.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::child;
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tane::images::open_host_file;
use tane::jail::{Jail, Tied};

/// Private memory of the child, in bytes: a stream is unpacked in it.
const MEMORY: u64 = 512 << 20;

/// Who looks into the files of one directory of the host, or into one file.
pub struct Guard {
    place: PathBuf,
    /// None: this process itself.
    child: Option<Arc<Child>>,
}

/// A process that is asked what a file holds by its path, and where it answers.
struct Child {
    ask: PipeWriter,
    hear: PipeReader,
    /// It ends with this.
    tied: Tied,
}

/// That of the copy at hand.
static AT_HAND: Mutex<Option<Guard>> = Mutex::new(None);
/// Who looks for what writes a session's copies.
static OF_SESSION: Mutex<Option<Arc<Child>>> = Mutex::new(None);

impl Guard {
    /// Before a kernel runs and before a jail is entered, unless this process looks itself.
    pub fn of(place: &Path, itself: bool) -> Result<Guard> {
        let fail = |e: io::Error| {
            let text = format!("{}: cannot be looked into: {e}", place.display());
            Failure::new(SOME_FAILED, text)
        };
        let place = place.canonicalize().map_err(fail)?;
        let child = match itself {
            true => None,
            false => Some(start(std::slice::from_ref(&place)).map_err(fail)?),
        };
        Ok(Guard { place, child })
    }

    /// What the file of that name, relative to the place, holds. Nothing if it is not
    /// there or is no file, nor if its owner keeps himself from reading it: such an image
    /// is none.
    pub fn held(&self, name: &[u8]) -> io::Result<Option<String>> {
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let path = match name {
            b"" => self.place.clone(),
            name => self.place.join(OsStr::from_bytes(name)),
        };
        let Some(child) = &self.child else {
            return look(&path);
        };
        let (mut ask, mut hear, path) = (&child.ask, &child.hear, path.as_os_str().as_bytes());
        let length = u16::try_from(path.len()).map_err(io::Error::other)?;
        ask.write_all(&[&length.to_le_bytes(), path].concat())?;
        let mut head = [0; 5];
        hear.read_exact(&mut head)?;
        let [length, error @ ..] = head;
        let mut text = vec![0; length.into()];
        hear.read_exact(&mut text)?;
        match i32::from_le_bytes(error) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// The copy that begins asks this one.
pub fn begin(guard: Option<Guard>) {
    *AT_HAND.lock().unwrap_or_else(|e| e.into_inner()) = guard;
}

/// For a process that is about to be started, and writes below these directories on
/// behalf of a session.
pub fn for_session(places: &[PathBuf]) -> io::Result<()> {
    let child = start(places)?;
    *OF_SESSION.lock().unwrap_or_else(|e| e.into_inner()) = Some(child);
    Ok(())
}

/// That process was started, and asks from now on; this one can neither ask nor answer
/// for what is asked, and ends who is asked when it ends itself.
pub fn hand_over() {
    let at_hand = AT_HAND.lock().unwrap_or_else(|e| e.into_inner()).take();
    let of_session = OF_SESSION.lock().unwrap_or_else(|e| e.into_inner()).take();
    let children = [at_hand.and_then(|guard| guard.child), of_session];
    for child in children.into_iter().flatten().filter_map(Arc::into_inner) {
        child.tied.for_good();
    }
}

/// In that process: a copy begins, into this directory if it is guarded.
pub fn begin_in_session(place: Option<&Path>) {
    let child = OF_SESSION.lock().unwrap_or_else(|e| e.into_inner()).clone();
    let guard = place.map(|place| Guard {
        place: place.into(),
        child,
    });
    begin(guard);
}

/// What a child of this process must not close if it asks a guard.
pub fn descriptors() -> Vec<i32> {
    let at_hand = AT_HAND.lock().unwrap_or_else(|e| e.into_inner());
    let of_session = OF_SESSION.lock().unwrap_or_else(|e| e.into_inner());
    let children = [
        at_hand.as_ref().and_then(|guard| guard.child.as_ref()),
        of_session.as_ref(),
    ];
    let both = |child: &Arc<Child>| [child.ask.as_raw_fd(), child.hear.as_raw_fd()];
    children.into_iter().flatten().flat_map(both).collect()
}

/// Why the file at that path below the destination is not to be replaced.
pub fn refusal(below: &[u8]) -> Option<String> {
    let guard = AT_HAND.lock().unwrap_or_else(|e| e.into_inner());
    match guard.as_ref()?.held(below) {
        Ok(held) => held.map(|what| refuses(&what)),
        Err(e) => Some(unseen(&e)),
    }
}

pub fn unseen(e: &io::Error) -> String {
    format!("cannot be looked into before it is replaced: {e}; --force replaces it")
}

pub fn refuses(what: &str) -> String {
    format!("holds {what}: --force replaces it")
}

fn look(path: &Path) -> io::Result<Option<String>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    // A session's jail lets it open nothing: it asks for that.
    match open_host_file(path, false, flags) {
        Ok(file) => Ok(tane::held_by(&file)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && !is_shut(path) => Err(e),
        Err(_) => Ok(None),
    }
}

/// A file of this user's that its mode keeps from him.
fn is_shut(path: &Path) -> bool {
    // SAFETY: no memory involved.
    let is_own = |uid| uid == unsafe { libc::geteuid() };
    let stat = path.symlink_metadata();
    stat.is_ok_and(|stat| is_own(stat.uid()) && stat.mode() & 0o400 == 0)
}

/// Ends where it is written to, and where it is read from.
fn start(places: &[PathBuf]) -> io::Result<Arc<Child>> {
    let ((questions, ask), (hear, answers)) = (io::pipe()?, io::pipe()?);
    let tied = child::start_tied(|| {
        // SAFETY: no memory involved.
        unsafe { libc::setsid() };
        child::keep_only(vec![questions.as_raw_fd(), answers.as_raw_fd()])?;
        serve(places, &questions, &answers)
    })?;
    Ok(Arc::new(Child { ask, hear, tied }))
}

fn serve(
    places: &[PathBuf],
    mut questions: &PipeReader,
    mut answers: &PipeWriter,
) -> io::Result<()> {
    let mut jail = Jail::new();
    for place in places {
        jail.read(place);
    }
    jail.memory(MEMORY);
    jail.enter().map_err(io::Error::other)?;
    loop {
        let mut length = [0; 2];
        questions.read_exact(&mut length)?;
        let mut path = vec![0; u16::from_le_bytes(length).into()];
        questions.read_exact(&mut path)?;
        let (text, error) = match look(Path::new(OsStr::from_bytes(&path))) {
            Ok(held) => (held.unwrap_or_default(), 0),
            Err(e) => (String::new(), e.raw_os_error().unwrap_or(libc::EIO)),
        };
        let text = &text.as_bytes()[..text.len().min(255)];
        answers.write_all(&[&[text.len() as u8], &error.to_le_bytes()[..], text].concat())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process has these as ends of pipes.
    fn has(fds: &[i32]) -> bool {
        fds.iter().any(|fd| {
            let name = std::fs::read_link(format!("/proc/self/fd/{fd}"));
            name.is_ok_and(|name| name.as_os_str().as_bytes().starts_with(b"pipe:"))
        })
    }

    /// In a child, which has one thread and no other descriptors.
    #[test]
    fn who_handed_a_guard_over_has_no_end_of_its_pipes() {
        let work = || {
            for_session(&[std::env::temp_dir()]).ok()?;
            let fds = descriptors();
            let had = fds.len() == 2 && has(&fds);
            hand_over();
            (had && descriptors().is_empty() && !has(&fds)).then_some(())
        };
        // SAFETY: it does nothing that another thread could be in the way of, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let done = std::panic::catch_unwind(work);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!matches!(done, Ok(Some(()))))) };
        }
        let mut status = -1;
        // SAFETY: a child of ours; a live int.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    }
}
