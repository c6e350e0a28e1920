//! The metadata of a disk of a DDF group, which mdadm made (tests/ddf), for tests that
//! damage it: "Common RAID Disk Data Format", revision 2.0, section 4.

use crate::common::TempDir;
use crate::inside;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// Where the recorded disk has its first header.
const FIRST: u64 = 96 << 20;
/// That and its sections.
const METADATA: usize = 620 << 9;
/// And the last sector.
const ALL: usize = METADATA + 512;
const RECORD: [u8; 4] = [0xee; 4];

/// The metadata alone, at a place.
pub fn disk(at: usize) -> Vec<u8> {
    let dir = TempDir::new();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/ddf/disks.tar.xz");
    let mut tar = Command::new("tar");
    inside::run(tar.args(["-xJf", kept, "-C"]).arg(dir.path()).arg("a"));
    let file = File::open(dir.path().join("a")).expect("the disk");
    let mut disk = vec![0u8; at + ALL];
    let (metadata, anchor) = disk[at..].split_at_mut(METADATA);
    file.read_exact_at(metadata, FIRST).expect("metadata");
    anchor.copy_from_slice(&metadata[..512]);
    for place in [96, 104] {
        anchor[place..place + 8].copy_from_slice(&(at as u64 / 512).to_be_bytes());
    }
    sum(&mut disk);
    disk
}

/// What the header says, in bytes.
struct Header {
    disks: Range<usize>,
    volumes: Range<usize>,
    records: Range<usize>,
    this: Range<usize>,
    /// Of a record.
    record: usize,
    /// Where a record has the places of its extents.
    starts: usize,
}

impl Header {
    fn of(metadata: &[u8]) -> Self {
        let half = |at: usize| usize::from(u16::from_be_bytes([metadata[at], metadata[at + 1]]));
        let word = |at: usize| (half(at) << 16) + half(at + 2);
        let section = |at: usize| word(at) * 512..(word(at) + word(at + 4)) * 512;
        Self {
            disks: section(200),
            volumes: section(208),
            records: section(216),
            this: section(224),
            record: half(134) * 512,
            starts: 512 + 4 * half(136),
        }
    }

    fn records(&self) -> impl Iterator<Item = usize> {
        let (start, end) = (self.records.start, self.records.end.min(METADATA));
        let records = (start..end).step_by(self.record.max(512));
        records.filter(move |record| *record < METADATA)
    }
}

/// Makes checksums right, of all that is where the header says.
pub fn sum(disk: &mut [u8]) {
    let at = disk.len() - ALL;
    let (metadata, anchor) = disk[at..].split_at_mut(METADATA);
    let header = Header::of(metadata);
    for record in header.records() {
        if metadata[record..].starts_with(&RECORD) {
            sum_part(metadata.get_mut(record..record + header.record));
        }
    }
    for section in [header.disks, header.volumes, header.this] {
        sum_part(metadata.get_mut(section));
    }
    sum_part(metadata.get_mut(..512));
    sum_part(Some(anchor));
}

fn sum_part(part: Option<&mut [u8]>) {
    let Some(part) = part.filter(|part| part.len() >= 512) else {
        return;
    };
    part[4..8].fill(0xff);
    let mut sum = crc32fast::Hasher::new_with_initial(u32::MAX);
    sum.update(part);
    let sum = !sum.finalize();
    part[4..8].copy_from_slice(&sum.to_be_bytes());
}

/// Makes a disk that is sound every member of its volumes, as a hostile one may be, so
/// that they lack none.
pub fn make_only_member(disk: &mut [u8]) {
    let at = disk.len() - ALL;
    let metadata = &mut disk[at..];
    let header = Header::of(metadata);
    let this = header.this.start + 32;
    for record in header.records() {
        if metadata[record..].starts_with(&RECORD) {
            for member in 0..usize::from(metadata[record + 65]) {
                metadata.copy_within(this..this + 4, record + 512 + 4 * member);
            }
        }
    }
    sum(disk);
}

/// Of a disk that is sound: what means something.
pub fn places(disk: &[u8]) -> Vec<Range<usize>> {
    let at = disk.len() - ALL;
    let header = Header::of(&disk[at..]);
    let (disks, volumes) = (header.disks.start, header.volumes.start);
    let (this, anchor) = (header.this.start, METADATA);
    let mut places = vec![0..256, disks..disks + 320, volumes..volumes + 448];
    places.extend([this..this + 64, anchor..anchor + 112]);
    for record in header.records().take(6) {
        let (members, starts) = (record + 512, record + header.starts);
        places.extend([
            record..record + 96,
            members..members + 16,
            starts..starts + 32,
        ]);
    }
    let moved = places.into_iter().map(|p| p.start + at..p.end + at);
    moved.collect()
}
