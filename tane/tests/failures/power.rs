//! Promises for the moment the power fails: whatever was written until then, the
//! next mount replays the journal without an error, has everything that a sync
//! had promised, and leaves an image that e2fsck calls clean.

use crate::crash::workload::{Gives, Promise, Workload};
use crate::medium::{Medium, Random};
use std::sync::Arc;
use tane::images::power::{cut, Survives};
use tane::images::{Event, Fault};
use tane::{DiskOptions, Kernel, MountOptions};

/// The most moments to try; those around each flush are always among them.
const MOST_CUTS: usize = 300;

/// What a write gets through in one piece. ext4 takes its superblock of 1 KiB for
/// granted: torn in its middle, its checksum is wrong and nothing mounts.
const ATOMIC: usize = 4096;

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
    let promises = Workload::run(&fault, &mount, Gives::ALL);
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
    let kernel = crate::scratch::boot();
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
    let kernel = crate::scratch::boot();
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
    let kernel = crate::scratch::boot();
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
