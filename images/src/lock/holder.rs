//! Who has a file, as far as the host tells: for messages.

use crate::host_files::open_host_file;
use crate::plain::plain;
use std::fmt;
use std::fs::{read_dir, read_link, read_to_string, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Us,
    /// Its number, and its name unless it is hidden.
    Program(u32, Option<String>),
    /// Nobody tells whose locks QEMU's are.
    Qemu,
    Unknown,
}

impl Holder {
    pub fn is_us(&self) -> bool {
        *self == Holder::Us
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Us => f.write_str("this program itself"),
            Holder::Program(pid, Some(name)) => write!(f, "another program, {name} (pid {pid})"),
            Holder::Program(pid, None) => write!(f, "another program (pid {pid})"),
            Holder::Qemu => f.write_str("another program, with QEMU's locks"),
            Holder::Unknown => f.write_str("another program"),
        }
    }
}

type Identity = (u64, u64);

/// Those that were in the way before a jail hid them.
static KNOWN: Mutex<Vec<(Identity, Holder)>> = Mutex::new(Vec::new());

fn identity(file: &File) -> Option<Identity> {
    file.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Whoever has locked this file; to be asked when that is in the way.
pub fn of(file: &File) -> Holder {
    identity(file).map_or(Holder::Unknown, |id| holder(id, &Locks::of(id)))
}

fn holder(id: Identity, locks: &Locks) -> Holder {
    if locks.pid == Some(std::process::id()) {
        return Holder::Us;
    }
    let named = |pid| Some(Holder::Program(pid, Some(name(pid)?)));
    let hidden = || {
        let known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
        let found = known.iter().find(|(known, _)| *known == id);
        // By now it may be somebody else.
        let fits = |holder: &&Holder| match holder {
            Holder::Program(pid, _) => locks.pid.is_none_or(|now| now == *pid),
            _ => false,
        };
        found.map(|(_, holder)| holder).filter(fits).cloned()
    };
    let other = || match locks.pid {
        Some(pid) => Holder::Program(pid, None),
        None if locks.is_qemus => Holder::Qemu,
        None => Holder::Unknown,
    };
    let locker = locks.pid.and_then(named);
    let user = || who_has_open(id).and_then(named);
    locker.or_else(user).or_else(hidden).unwrap_or_else(other)
}

pub fn is_this_process(file: &File) -> bool {
    identity(file).is_some_and(|id| Locks::of(id).pid == Some(std::process::id()))
}

/// A jail is about to be entered in which this file will be locked: who has it locked now
/// is looked up now, for the message, if somebody has. It takes no lock, which might be
/// in the way of others.
pub(crate) fn look(path: &Path) {
    let Ok(found) = path.metadata() else { return };
    let id = (found.dev(), found.ino());
    let locks = Locks::of(id);
    if locks == Locks::default() {
        return;
    }
    let holder = holder(id, &locks);
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    known.retain(|(known, _)| *known != id);
    known.push((id, holder));
}

/// What /proc/locks says of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Locks {
    /// Of a lock that is a process's.
    pid: Option<u32>,
    is_qemus: bool,
}

impl Locks {
    fn of(id: Identity) -> Locks {
        let read = || {
            let mut text = String::new();
            let mut file = open_host_file(Path::new("/proc/locks"), false, 0)?;
            file.read_to_string(&mut text).map(|_| text)
        };
        read().map_or(Locks::default(), |text| Locks::parse(&text, id))
    }

    /// Lines like `1: FLOCK ADVISORY WRITE pid major:minor:inode start end`; of some file
    /// systems (btrfs, overlayfs) the device is another one than files say they are on.
    fn parse(text: &str, (device, inode): Identity) -> Locks {
        let exact = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
        let mut found = Locks::default();
        let mut is_exact = false;
        for line in text.lines() {
            let mut fields = line.split_whitespace().filter(|f| *f != "->").skip(1);
            let (Some(kind), Some(pid), Some(place)) =
                (fields.next(), fields.nth(2), fields.next())
            else {
                continue;
            };
            let Some((on, number)) = place.rsplit_once(':') else {
                continue;
            };
            if number.parse() != Ok(inode) {
                continue;
            }
            found.is_qemus |= kind == "OFDLCK";
            let pid = pid.parse().ok().filter(|pid| *pid > 0);
            if pid.is_some() && (found.pid.is_none() || on == exact && !is_exact) {
                found.pid = pid;
                is_exact = on == exact;
            }
        }
        found
    }
}

/// A program's name: that of its file or, of other users' programs, what ps(1) shows.
fn name(pid: u32) -> Option<String> {
    let file = read_link(format!("/proc/{pid}/exe")).ok();
    let file = file.and_then(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let name = match file {
        Some(name) => name.trim_end_matches(" (deleted)").to_owned(),
        None => read_to_string(format!("/proc/{pid}/comm")).ok()?,
    };
    Some(plain(name.trim_end())).filter(|name| !name.is_empty())
}

/// Another process that has the file open, of those that this one may look into.
fn who_has_open((device, inode): Identity) -> Option<u32> {
    let has = |pid: u32| {
        let entries = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        entries.flatten().any(|entry| {
            let found = Path::metadata(&entry.path());
            found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
        })
    };
    let entries = read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid| *pid != std::process::id() && has(*pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_lock_it_is_stands_in_the_list_of_locks() {
        let text = "1: FLOCK  ADVISORY  WRITE 44 fe:00:6236599 0 EOF\n\
                    2: OFDLCK ADVISORY  READ -1 fe:01:77 100 101\n\
                    3: FLOCK  ADVISORY  READ 12 00:2f:77 0 EOF\n\
                    3: -> FLOCK  ADVISORY  WRITE 13 fe:01:77 0 EOF\n\
                    nonsense\n";
        let on = |major, minor| libc::makedev(major, minor);
        let locks = |id| Locks::parse(text, id);
        let held = |pid, is_qemus| Locks { pid, is_qemus };
        assert_eq!(locks((on(0xfe, 0), 6236599)), held(Some(44), false));
        assert_eq!(locks((on(0xfe, 1), 77)), held(Some(13), true));
        assert_eq!(locks((on(0, 0x2f), 77)), held(Some(12), true));
        assert_eq!(locks((on(0xfe, 0), 5)), held(None, false));
        let qemu = Locks::parse("1: OFDLCK ADVISORY READ -1 fe:01:77 100 101", (0, 77));
        assert_eq!(qemu, held(None, true));
    }
}
