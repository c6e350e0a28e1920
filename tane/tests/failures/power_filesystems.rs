//! Promises for the moment the power fails, beside those of ext4 (power.rs):
//! a file system comes back by a mount, or by its own program where Linux leaves it to
//! that, has everything that a sync had promised, and is sound in the eyes of its fsck.
//!
//! TANE_POWER_CUTS says how many moments are tried for each, 10 unless told.

use crate::common::TempDir;
use crate::crash::kinds::Kind;
use crate::crash::workload::{Promise, Workload};
use crate::crash::Image;
use crate::medium::Random;
use tane::images::power::{cut, Survives};
use tane::images::Event;
use tane::Kernel;
use tane_hostile::sparse::Sparse;

const CUTS: usize = 10;
/// What a write gets through in one piece: see power.rs.
const ATOMIC: usize = 4096;

/// What the workload leaves behind.
struct Recording {
    before: Sparse,
    log: Vec<Event>,
    promises: Vec<Promise>,
}

fn record(kernel: &Kernel, image: &Image) -> Recording {
    let before = image.save();
    let (fault, mount) = image.mount_faulty(kernel);
    let promises = Workload::run(&fault, &mount, image.kind.gives);
    mount.unmount().expect("unmounts");
    Recording {
        before,
        log: fault.log(),
        promises,
    }
}

impl Recording {
    /// So many moments, the first and the last ones among them.
    fn cuts(&self) -> Vec<usize> {
        let count = std::env::var("TANE_POWER_CUTS").map(|n| n.parse().expect("a number"));
        let count = count.unwrap_or(CUTS).max(2);
        (0..count)
            .map(|i| self.log.len() * i / (count - 1))
            .collect()
    }

    /// What a cut after `done` events left comes back. How many promises were kept.
    fn comes_back(
        &self,
        kernel: &Kernel,
        image: &Image,
        done: usize,
        survives: impl FnMut(usize, &Event) -> Survives,
    ) -> Result<usize, String> {
        image.restore(&self.before);
        cut(&self.log[..done], &*image.disk(), survives).map_err(|e| e.to_string())?;
        image.repair()?;
        let mount = image.mount(kernel)?;
        let due = |promise: &&Promise| promise.from <= done && done <= promise.until;
        let mut kept = 0;
        let promises = self.promises.iter().filter(|_| image.kind.keeps);
        for promise in promises.filter(due) {
            promise.holds(&mount)?;
            kept += 1;
        }
        mount.write("after", "usable").map_err(|e| e.to_string())?;
        mount.unmount().map_err(|e| e.to_string())?;
        image.check()?;
        Ok(kept)
    }
}

#[track_caller]
fn survives_power_cuts(kind: &Kind) {
    let Some(kernel) = crate::inside::default_kernel() else {
        return;
    };
    let dir = TempDir::new();
    let Some(image) = Image::new(kind, dir.path().join("image")) else {
        return;
    };
    let recording = record(&kernel, &image);
    let name = kind.name;
    let mut kept = 0;
    for (i, done) in recording.cuts().into_iter().enumerate() {
        let all = |_: usize, _: &Event| Survives::All;
        let back = recording.comes_back(&kernel, &image, done, all);
        kept += back.unwrap_or_else(|e| panic!("{name}, cut after {done} events: {e}"));
        if !kind.flushes {
            continue;
        }
        let mut random = Random(i as u64);
        let some = |_: usize, _: &Event| match random.below(3) {
            0 => Survives::Nothing,
            1 => Survives::All,
            _ => Survives::Torn {
                bytes: ATOMIC * random.below(4) as usize,
            },
        };
        let back = recording.comes_back(&kernel, &image, done, some);
        kept += back.unwrap_or_else(|e| panic!("{name}, cache lost after {done} events: {e}"));
    }
    println!(
        "{name}: {} events, {kept} promises kept",
        recording.log.len()
    );
    let enough = !kind.keeps || kept > recording.cuts().len();
    assert!(enough, "too little was promised");
    assert!(kernel.is_alive(), "{}", kernel.last_words());
}

crate::crash::each_file_system!(survives_power_cuts);
