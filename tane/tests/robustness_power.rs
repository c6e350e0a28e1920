//! Promises for the moment the power fails: whatever was written until then, the
//! next mount replays the journal without an error, has everything that a sync
//! had promised, and leaves an image that e2fsck calls clean.

mod medium;
mod scratch;

use medium::{Medium, Random};
use std::io::Write;
use std::sync::Arc;
use tane::images::power::{cut, Survives};
use tane::images::{Event, Fault};
use tane::{DiskOptions, Kernel, Mount, MountOptions, OpenOptions};

/// The most moments to try; those around each flush are always among them.
const MOST_CUTS: usize = 300;

/// What a write gets through in one piece. ext4 takes its superblock of 1 KiB for
/// granted: torn in its middle, its checksum is wrong and nothing mounts.
const ATOMIC: usize = 4096;

#[derive(Debug)]
enum State {
    Content(Vec<u8>),
    /// As `Content`, in a file with this many names.
    Linked(Vec<u8>, u32),
    Attribute(&'static str, Vec<u8>),
    Directory,
    Absent,
}

/// What must be there if the power fails with `from..=until` events done.
#[derive(Debug)]
struct Promise {
    path: &'static str,
    state: State,
    from: usize,
    until: usize,
}

impl Promise {
    fn holds(&self, mount: &Mount) -> Result<(), String> {
        let path = self.path;
        let read = || mount.read(path).map_err(|e| e.to_string());
        let kept = match &self.state {
            State::Content(wanted) => read()? == *wanted,
            State::Linked(wanted, names) => {
                let metadata = mount.metadata(path).map_err(|e| e.to_string())?;
                read()? == *wanted && metadata.nlink() == *names
            }
            State::Attribute(key, wanted) => {
                mount.xattr(path, key).map_err(|e| e.to_string())?.as_ref() == Some(wanted)
            }
            State::Directory => mount.metadata(path).is_ok_and(|m| m.is_dir()),
            State::Absent => !mount.exists(path).map_err(|e| e.to_string())?,
        };
        match kept {
            true => Ok(()),
            false => Err(format!("{path}: not as promised")),
        }
    }
}

/// A workload that writes down what it was promised.
struct Workload<'a> {
    disk: &'a Fault,
    mount: &'a Mount,
    promises: Vec<Promise>,
}

impl Workload<'_> {
    fn now(&self) -> usize {
        self.disk.log().len()
    }

    /// The path is about to change: what was promised about it ends.
    fn change(&mut self, path: &str) {
        let now = self.now();
        for promise in &mut self.promises {
            if promise.path == path {
                promise.until = promise.until.min(now);
            }
        }
    }

    /// A sync has returned.
    fn promised(&mut self, path: &'static str, state: State) {
        self.promises.push(Promise {
            path,
            state,
            from: self.now(),
            until: usize::MAX,
        });
    }

    fn write(&mut self, path: &'static str, data: &[u8]) {
        self.change(path);
        let mut file = self.mount.create(path).expect("create");
        file.write_all(data).expect("write");
        file.sync_all().expect("fsync");
        self.promised(path, State::Content(data.to_vec()));
    }

    fn sync_dir(&self, path: &str) {
        let dir = self.mount.open_dir(path).expect("the directory");
        dir.sync().expect("fsync");
    }

    fn run(&mut self) {
        let mut random = Random(1);
        let mount = self.mount;
        self.write("a", &random.bytes(100));
        self.write("b", &random.bytes(70_000));
        mount.create_dir("d").expect("mkdir");
        self.sync_dir("/");
        self.promised("d", State::Directory);
        // Never synced: may be there or not, and may be any length.
        mount.write("loose", random.bytes(50_000)).expect("write");

        // The way editors save: the old or the new, and after the sync the new.
        let newer = random.bytes(9_000);
        self.change("a");
        let mut file = mount.create("a.new").expect("create");
        file.write_all(&newer).expect("write");
        file.sync_all().expect("fsync");
        drop(file);
        mount.rename("a.new", "a").expect("rename");
        self.sync_dir("/");
        self.promised("a", State::Content(newer.clone()));
        self.promised("a.new", State::Absent);

        self.change("a");
        mount.hard_link("a", "d/a").expect("link");
        self.sync_dir("d");
        self.promised("a", State::Linked(newer.clone(), 2));
        self.promised("d/a", State::Linked(newer.clone(), 2));

        self.change("b");
        let file = OpenOptions::new().write(true).open(mount, "b").expect("b");
        file.set_len(5).expect("truncate");
        file.write_all_at(b"rest", 40_000).expect("write");
        file.sync_all().expect("fsync");
        let mut content = mount.read("b").expect("b");
        self.promised("b", State::Content(content.clone()));
        // In place, the data alone.
        self.change("b");
        file.write_all_at(b"patch", 20_000).expect("write");
        file.sync_data().expect("fdatasync");
        content[20_000..20_005].copy_from_slice(b"patch");
        self.promised("b", State::Content(content));

        let value = random.bytes(300);
        mount.set_xattr("a", "user.key", &value, 0).expect("xattr");
        mount.open("a").expect("a").sync_all().expect("fsync");
        self.promised("a", State::Attribute("user.key", value));

        for name in ["d/1", "d/2", "d/3", "d/4", "d/5", "d/6"] {
            self.write(name, &random.bytes(1_000));
        }
        for name in ["d/2", "d/4", "d/a"] {
            self.change(name);
            self.change("a");
            mount.remove_file(name).expect("unlink");
        }
        self.sync_dir("d");
        for name in ["d/2", "d/4", "d/a"] {
            self.promised(name, State::Absent);
        }
        self.promised("a", State::Linked(newer, 1));
        mount.sync().expect("syncfs");
        self.write("d/7", &random.bytes(600_000));
        self.change("d/7");
        mount.remove_file("d/7").expect("unlink");
        self.write("last", b"end");
    }
}

/// What a workload leaves behind.
struct Recording {
    before: Vec<u8>,
    log: Vec<Event>,
    promises: Vec<Promise>,
}

fn record(kernel: &Kernel, mke2fs: &str) -> Recording {
    let medium = Medium::mke2fs(16, mke2fs);
    let before = medium.bytes();
    let fault = Arc::new(Fault::logging(medium.disk()));
    let disk = kernel.add_disk(fault.clone(), &DiskOptions::new());
    let disk = disk.expect("the disk");
    let mount = MountOptions::new().mount(kernel, disk.device());
    let mount = mount.expect("the mount");
    let mut workload = Workload {
        disk: &fault,
        mount: &mount,
        promises: Vec::new(),
    };
    workload.run();
    let promises = workload.promises;
    mount.unmount().expect("unmounts");
    let log = fault.log();
    Recording {
        before,
        log,
        promises,
    }
}

impl Recording {
    /// How many events are done when the power fails: every number if there
    /// are few, else those beside a flush and a spread of the others.
    fn cuts(&self) -> Vec<usize> {
        let all = 0..=self.log.len();
        let flush = |at: usize| self.log.get(at) == Some(&Event::Flush);
        let step = self.log.len() / MOST_CUTS + 1;
        let wanted = |k: &usize| k.is_multiple_of(step) || flush(*k) || (*k > 0 && flush(*k - 1));
        all.filter(wanted).collect()
    }

    /// Mount what a cut after `done` events left, and look at everything.
    fn recovers(
        &self,
        kernel: &Kernel,
        done: usize,
        survives: impl FnMut(usize, &Event) -> Survives,
    ) -> Result<usize, String> {
        let medium = Medium::of(&self.before);
        cut(&self.log[..done], &*medium.disk(), survives).map_err(|e| e.to_string())?;
        let mount = medium.mount(kernel).map_err(|e| e.to_string())?;
        let due = |promise: &&Promise| promise.from <= done && done <= promise.until;
        let mut kept = 0;
        for promise in self.promises.iter().filter(due) {
            promise.holds(&mount)?;
            kept += 1;
        }
        mount.write("after", "usable").map_err(|e| e.to_string())?;
        mount.unmount().map_err(|e| e.to_string())?;
        match medium.fault() {
            None => Ok(kept),
            Some(text) => Err(text),
        }
    }
}

fn no_complaints(kernel: &Kernel) {
    let log = kernel.dmesg();
    let complaint = log.lines().find(|line| line.contains("EXT4-fs error"));
    assert_eq!(complaint, None);
}

const KINDS: [&str; 3] = [
    "-t ext4 -b 4096 -J size=4",
    "-t ext4 -b 1024 -J size=1",
    "-t ext3 -b 1024 -J size=1",
];

#[test]
fn after_a_power_cut_at_any_moment_everything_synced_is_there() {
    let kernel = scratch::boot();
    for kind in KINDS {
        let recording = record(&kernel, kind);
        let (mut cuts, mut kept) = (0, 0);
        for done in recording.cuts() {
            let all = |_: usize, _: &Event| Survives::All;
            kept += recording
                .recovers(&kernel, done, all)
                .unwrap_or_else(|e| panic!("{kind}, cut after {done} events: {e}"));
            cuts += 1;
        }
        let events = recording.log.len();
        println!("{kind}: {events} events, {cuts} cuts, {kept} promises kept");
        assert!(kept > cuts, "too little was promised");
    }
    no_complaints(&kernel);
}

#[test]
fn what_a_volatile_cache_loses_was_never_promised() {
    let kernel = scratch::boot();
    for kind in KINDS {
        let recording = record(&kernel, kind);
        let (mut cuts, mut kept) = (0, 0);
        for (i, done) in recording.cuts().into_iter().enumerate() {
            let seed = i as u64;
            let mut random = Random(seed);
            let some = |_: usize, _: &Event| match random.below(3) {
                0 => Survives::Nothing,
                1 => Survives::All,
                _ => Survives::Torn {
                    bytes: ATOMIC * random.below(4) as usize,
                },
            };
            kept += recording
                .recovers(&kernel, done, some)
                .unwrap_or_else(|e| panic!("{kind}, cut after {done} events, seed {seed}: {e}"));
            cuts += 1;
        }
        println!("{kind}: {cuts} cuts, {kept} promises kept");
    }
    no_complaints(&kernel);
}

/// The check itself: of a disk that only pretends to flush, it must complain.
#[test]
fn a_disk_that_lies_about_flushes_is_found_out() {
    let kernel = scratch::boot();
    let mut recording = record(&kernel, KINDS[0]);
    let nothing = Event::Write {
        offset: 0,
        data: Vec::new(),
    };
    for event in &mut recording.log {
        if *event == Event::Flush {
            *event = nothing.clone();
        }
    }
    let lost = (0..recording.log.len()).step_by(10).filter(|&done| {
        let mut random = Random(done as u64);
        let some = |_: usize, _: &Event| match random.below(2) {
            0 => Survives::Nothing,
            _ => Survives::All,
        };
        recording.recovers(&kernel, done, some).is_err()
    });
    assert!(lost.count() > 0);
}
