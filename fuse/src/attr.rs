//! What stat(2) tells, in FUSE's words and back.

use fuser::{FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tane_linux::{Kind, Stat, Time};

pub fn attr(id: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: stat.size,
        blocks: stat.blocks,
        atime: system_time(stat.atime),
        mtime: system_time(stat.mtime),
        ctime: system_time(stat.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(stat.kind()),
        perm: stat.permissions() as u16,
        nlink: u32::try_from(stat.nlink).unwrap_or(u32::MAX),
        uid: stat.uid,
        gid: stat.gid,
        // Both sides have 12 bits of major and 20 of minor in the lower half.
        rdev: stat.rdev as u32,
        blksize: stat.block_size as u32,
        flags: 0,
    }
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let second = match time.sec < 0 {
        false => UNIX_EPOCH.checked_add(whole),
        true => UNIX_EPOCH.checked_sub(whole),
    };
    let nsec = Duration::from_nanos(time.nsec.into());
    second
        .and_then(|s| s.checked_add(nsec))
        .unwrap_or(UNIX_EPOCH)
}

/// What a request asks for. The crate turns s seconds and n nanoseconds before
/// 1970 into -(|s| + n): this takes it back.
pub fn timespec(time: SystemTime) -> libc::timespec {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            (-(before.as_secs() as i64), before.subsec_nanos())
        }
    };
    libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fraction() {
        let half_before = system_time(Time {
            sec: -1,
            nsec: 500_000_000,
        });
        assert_eq!(
            UNIX_EPOCH - half_before_as_duration(half_before),
            half_before
        );
        assert_eq!(
            half_before_as_duration(half_before),
            Duration::from_millis(500)
        );
    }

    fn half_before_as_duration(time: SystemTime) -> Duration {
        UNIX_EPOCH.duration_since(time).expect("it is before")
    }
}
