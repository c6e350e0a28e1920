//! What the host itself has an image for: a loop device, swap, a mount, a part of a set.
//! Its kernel takes no locks.

use crate::plain::plain;
use std::fs::{read_dir, read_to_string, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// What it is used for.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// "is on /dev/loop0 of the host"
    pub what: String,
    pub remedy: String,
    /// The host may write.
    pub writes: bool,
    /// It goes by itself as soon as nobody has it open, and nothing is seen that has.
    passes: bool,
}

impl Use {
    /// For who would write.
    pub fn refusal(&self) -> String {
        format!("{}: {}", self.what, self.remedy)
    }

    /// For who reads, if there is anything to be said.
    pub fn warning(&self) -> Option<String> {
        let text = "and may be written there meanwhile: what is read may not fit together";
        self.writes.then(|| format!("{}, {text}", self.what))
    }
}

/// Which file it is, or (true) which block device.
type Identity = (bool, u64, u64);

fn identity(found: &Metadata) -> Identity {
    match found.file_type().is_block_device() {
        true => (true, found.rdev(), 0),
        false => (false, found.dev(), found.ino()),
    }
}

/// What there was before a jail hid it.
static KNOWN: Mutex<Vec<(Identity, Use)>> = Mutex::new(Vec::new());

/// How often to look again for what passes, and how long to wait each time: after an
/// umount(8) others may look at the loop device for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// What a file or block device is used for, by who would write to it or read it.
pub(crate) fn of(found: &Metadata, write: bool) -> Option<Use> {
    let id = identity(found);
    let known = || KNOWN.lock().unwrap_or_else(|e| e.into_inner()).clone();
    let all = find_lasting(id, write).unwrap_or_else(known);
    of_file(&all, id).cloned()
}

/// A jail is about to be entered, in which the host cannot be asked about this file, or
/// any other.
pub(crate) fn remember(path: &Path, write: bool) {
    let Ok(found) = path.metadata() else { return };
    let new = find_lasting(identity(&found), write).unwrap_or_default();
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    known.retain(|(old, _)| !new.iter().any(|(id, _)| id == old));
    known.extend(new);
}

fn of_file(all: &[(Identity, Use)], id: Identity) -> Option<&Use> {
    all.iter()
        .find(|(known, _)| *known == id)
        .map(|(_, used)| used)
}

/// What [`find`] finds, when what passes had the time to.
fn find_lasting(id: Identity, write: bool) -> Option<Vec<(Identity, Use)>> {
    let mut found = find(id)?;
    for _ in 0..TRIES {
        if !write || !of_file(&found, id).is_some_and(|used| used.passes) {
            break;
        }
        std::thread::sleep(PAUSE);
        found = find(id)?;
    }
    Some(found)
}

/// What the host has for something, this one among it; None: it does not tell.
fn find(id: Identity) -> Option<Vec<(Identity, Use)>> {
    match id {
        (true, number, _) => {
            // Hidden, rather than used for nothing?
            read_dir("/sys/dev/block").ok()?;
            Some(Vec::from_iter(of_device(number).map(|used| (id, used))))
        }
        _ => files(),
    }
}

/// All files that the host has for something.
fn files() -> Option<Vec<(Identity, Use)>> {
    let mut files = Vec::new();
    for entry in read_dir("/sys/block").ok()?.flatten() {
        let is_loop = entry.file_name().as_encoded_bytes().starts_with(b"loop");
        files.extend(is_loop.then(|| of_loop(&entry.path())).flatten());
    }
    files.extend(swaps().into_iter().filter_map(|path| {
        let found = path.metadata().ok().filter(Metadata::is_file)?;
        let used = Use {
            what: "is swap of the host".into(),
            remedy: "take it out of use first (swapoff)".into(),
            writes: true,
            passes: false,
        };
        Some((identity(&found), used))
    }));
    Some(files)
}

fn of_loop(dir: &Path) -> Option<(Identity, Use)> {
    let backing = read_to_string(dir.join("loop/backing_file")).ok()?;
    let found = Path::new(backing.trim_end_matches('\n')).metadata().ok()?;
    let device = Device::at(dir)?;
    let name = device.node();
    let purposes = device.purposes();
    let is =
        |what: &str, yes: &str| read_to_string(dir.join(what)).is_ok_and(|text| text.trim() == yes);
    let (writes, passes) = (
        is("ro", "0"),
        is("loop/autoclear", "1") && purposes.is_empty(),
    );
    let on = format!("is on {name} of the host");
    let (what, remedy) = match purposes.is_empty() {
        true => (on, format!("detach it first (losetup -d {name})")),
        false => (
            format!("{on}, which {}", purposes.join(", ")),
            "end that and detach it first".into(),
        ),
    };
    let used = Use {
        what,
        remedy,
        writes,
        passes,
    };
    Some((identity(&found), used))
}

fn of_device(number: u64) -> Option<Use> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let dir = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let dir = dir.canonicalize().ok()?;
    let mut purposes = Device::at(&dir)?.purposes();
    if dir.join("partition").exists() {
        // The whole disk may be used as one.
        let whole = dir.parent().and_then(Device::at);
        purposes.extend(whole.map_or(Vec::new(), |whole| whole.own_purposes()));
    }
    (!purposes.is_empty()).then(|| Use {
        what: format!("is in use by the host: it {}", purposes.join(", ")),
        remedy: "end that first".into(),
        writes: true,
        passes: false,
    })
}

/// A block device of the host's, as sysfs has it.
struct Device {
    name: String,
    /// As mountinfo has it: `8:1`.
    number: String,
    dir: PathBuf,
}

impl Device {
    fn at(dir: &Path) -> Option<Device> {
        Some(Device {
            name: dir.file_name()?.to_str()?.replace('!', "/"),
            number: read_to_string(dir.join("dev")).ok()?.trim().to_owned(),
            dir: dir.to_owned(),
        })
    }

    fn node(&self) -> String {
        format!("/dev/{}", plain(&self.name))
    }

    fn partitions(&self) -> Vec<Device> {
        let entries = read_dir(&self.dir).into_iter().flatten().flatten();
        let dirs = entries.map(|entry| entry.path());
        let dirs = dirs.filter(|dir| dir.join("partition").exists());
        dirs.filter_map(|dir| Device::at(&dir)).collect()
    }

    /// Of the device or its partitions: "is mounted on /mnt", …
    fn purposes(&self) -> Vec<String> {
        let mut purposes = self.own_purposes();
        for part in self.partitions() {
            let own = part.own_purposes().into_iter();
            purposes.extend(own.map(|purpose| format!("{purpose} ({})", part.node())));
        }
        purposes
    }

    fn own_purposes(&self) -> Vec<String> {
        let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let node = format!("/dev/{}", self.name);
        let points = mounts.lines().filter_map(|line| {
            let mount = Mounted::parse(line)?;
            let is_it = mount.number == self.number || mount.source == node;
            is_it.then(|| format!("is mounted on {}", plain(&mount.point)))
        });
        let swap = swaps().iter().any(|path| path == Path::new(&node));
        let swap = swap.then(|| "is swap".to_owned());
        let holders = read_dir(self.dir.join("holders")).into_iter().flatten();
        let holders = holders.flatten().filter_map(|entry| {
            let name = entry.file_name().to_str()?.to_owned();
            let title = read_to_string(entry.path().join("dm/name"));
            let title = title.map_or(name, |title| title.trim_end().to_owned());
            Some(format!("is part of {}", plain(&title)))
        });
        let first = points.take(1);
        first.chain(swap).chain(holders).collect()
    }
}

/// A line of mountinfo, of proc(5).
struct Mounted {
    number: String,
    point: String,
    source: String,
}

impl Mounted {
    fn parse(line: &str) -> Option<Mounted> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(2);
        let number = place.next()?.to_owned();
        Some(Mounted {
            number,
            point: unescape(place.nth(1)?),
            source: unescape(kind.split(' ').nth(1)?),
        })
    }
}

/// `\040` is a space there.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..3);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match byte.filter(u8::is_ascii) {
            Some(byte) => {
                whole.push(byte.into());
                whole.push_str(&part[3..]);
            }
            None => {
                whole.push('\\');
                whole.push_str(part);
            }
        }
    }
    whole
}

fn swaps() -> Vec<PathBuf> {
    let text = read_to_string("/proc/swaps").unwrap_or_default();
    let names = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let real = |name: &str| {
        let path = PathBuf::from(unescape(name));
        path.canonicalize().unwrap_or(path)
    };
    names.map(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let line = "36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext3 /dev/loop0 rw";
        let mount = Mounted::parse(line).expect("a mount");
        assert_eq!(mount.number, "98:0");
        assert_eq!(mount.point, "/mnt/a b");
        assert_eq!(mount.source, "/dev/loop0");
        assert!(Mounted::parse("36 35 98:0 /").is_none());
        assert_eq!(unescape("a\\9\\"), "a\\9\\");
    }
}
