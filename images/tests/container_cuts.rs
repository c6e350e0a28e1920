//! The power fails while a container is written: it stays one, and has what was
//! flushed. Judged by qemu-img.

mod common;
mod qemu;

use common::{pattern, read, write};
use qemu::*;
use std::sync::Arc;
use tane_images::power::{cut, Survives};
use tane_images::{Access, Event, Fault, ImageOptions, Raw};

const SIZE: usize = 4 << 20;
const WRITE: Access = Access {
    write: true,
    direct: false,
};

/// What a disk may hold: each byte as it was at the last flush, or as any later
/// write left it.
struct Allowed {
    flushed: Vec<u8>,
    since: Vec<(usize, Vec<u8>)>,
}

impl Allowed {
    fn check(&self, got: &[u8], name: &str) {
        if got == self.flushed {
            return;
        }
        let mut explained = vec![false; got.len()];
        for (at, data) in &self.since {
            for (i, byte) in data.iter().enumerate() {
                explained[at + i] |= got[at + i] == *byte;
            }
        }
        let lost = (0..got.len()).find(|&i| got[i] != self.flushed[i] && !explained[i]);
        assert_eq!(lost, None, "{name}: a byte is neither old nor new");
    }
}

#[test]
fn whenever_the_power_fails_the_container_is_sound_and_has_what_was_flushed() {
    // Those in several files hold their data as these do.
    let kinds = WRITABLE
        .iter()
        .filter(|(name, _)| !name.starts_with("vmdk-"));
    for (name, words) in kinds {
        let folder = Folder::new();
        let start = disk_with_holes(SIZE);
        folder.write("disk.raw", &start);
        folder.run(&format!("qemu-img convert -f raw {words} disk.raw image"));
        std::fs::copy(folder.at("image"), folder.at("before")).unwrap();

        let file = Arc::new(Raw::open(&folder.at("image"), WRITE).unwrap());
        let logged = Arc::new(Fault::logging(file));
        let disk = ImageOptions::new()
            .write(true)
            .open_backend(logged.clone())
            .unwrap();
        let mut numbers = Numbers(4242);
        let mut allowed = Allowed {
            flushed: start.clone(),
            since: Vec::new(),
        };
        let mut model = start;
        let mut stages = Vec::new();
        for turn in 0..36 {
            let len = 1 + numbers.next(150_000) as usize;
            let at = numbers.next((SIZE - len) as u64) as usize;
            let data = pattern(len, turn);
            write(&*disk, at as u64, &data).unwrap();
            model[at..at + len].copy_from_slice(&data);
            allowed.since.push((at, data));
            if turn % 4 == 3 {
                disk.flush().unwrap();
                stages.push((logged.log().len(), allowed));
                allowed = Allowed {
                    flushed: model.clone(),
                    since: Vec::new(),
                };
            }
        }
        drop(disk);
        let log = logged.log();
        drop(logged);
        assert!(log.iter().filter(|e| **e == Event::Flush).count() >= 9);

        for _ in 0..16 {
            let end = 1 + numbers.next(log.len() as u64) as usize;
            std::fs::copy(folder.at("before"), folder.at("image")).unwrap();
            let file = Raw::open(&folder.at("image"), WRITE).unwrap();
            cut(&log[..end], &file, |_, event| {
                match (numbers.next(3), event) {
                    (0, _) => Survives::Nothing,
                    (1, Event::Write { data, .. }) => Survives::Torn {
                        bytes: numbers.next(data.len() as u64 + 1) as usize,
                    },
                    _ => Survives::All,
                }
            })
            .unwrap();
            drop(file);
            folder.qemu_checks("image", true);
            // The first stage that had not ended yet tells what may be there.
            let stage = stages.iter().find(|(stage_end, _)| end < *stage_end);
            let got = folder.qemu_reads_as(name, "image");
            match stage {
                Some((_, allowed)) => allowed.check(&got, name),
                None => assert!(got == model, "{name}"),
            }
            // And we read it as QEMU does.
            let file = Arc::new(Raw::open(&folder.at("image"), Access::default()).unwrap());
            let disk = ImageOptions::new().open_backend(file).unwrap();
            assert!(read(&*disk, 0, SIZE).unwrap() == got, "{name}");
        }
    }
}
