//! struct tane_stat.

use crate::pass::Sized_;
use tane::{Metadata, SetTime, Timestamp};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawTimestamp {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

/// UTIME_NOW and UTIME_OMIT.
const NOW: u32 = 0x3fff_ffff;
const KEEP: u32 = 0x3fff_fffe;

impl From<Timestamp> for RawTimestamp {
    fn from(time: Timestamp) -> Self {
        RawTimestamp {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
            reserved: 0,
        }
    }
}

impl From<RawTimestamp> for SetTime {
    fn from(time: RawTimestamp) -> Self {
        match time.nanoseconds {
            NOW => SetTime::Now,
            KEEP => SetTime::Keep,
            nanoseconds => SetTime::To(Timestamp {
                seconds: time.seconds,
                nanoseconds,
            }),
        }
    }
}

#[repr(C)]
pub struct RawStat {
    size: usize,
    ino: u64,
    dev: u64,
    rdev: u64,
    length: u64,
    blocks: u64,
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    block_size: u32,
    has_btime: u32,
    attributes: u64,
    atime: RawTimestamp,
    mtime: RawTimestamp,
    ctime: RawTimestamp,
    btime: RawTimestamp,
}

// SAFETY: integers.
unsafe impl Sized_ for RawStat {}

impl From<Metadata> for RawStat {
    fn from(m: Metadata) -> Self {
        RawStat {
            size: 0,
            ino: m.ino(),
            dev: m.dev(),
            rdev: m.rdev(),
            length: m.len(),
            blocks: m.blocks(),
            mode: m.mode(),
            nlink: m.nlink(),
            uid: m.uid(),
            gid: m.gid(),
            block_size: m.blksize(),
            has_btime: m.btime().is_some().into(),
            attributes: m.attributes(),
            atime: m.atime().into(),
            mtime: m.mtime().into(),
            ctime: m.ctime().into(),
            btime: m.btime().unwrap_or_default().into(),
        }
    }
}
