//! What a file system that Linux does not write cannot hold. Its program would leave
//! it out without a word that helps, so it is taken out here, and told.

use tane_copy::{Loss, Observer};
use tane_linux::{Errno, Kind, Stat, Time, Xattrs};

const LACKING: Errno = Errno(libc::EOPNOTSUPP);

pub struct Limits {
    /// How the attributes begin that it has.
    xattrs: &'static [&'static str],
    /// Whether its program gives attributes to the root directory.
    xattrs_of_root: bool,
    /// Times are seconds, in 32 bits from 1970 on.
    short_times: bool,
    /// Sockets are lost on their way to its program, which is told there.
    sockets: bool,
}

/// None for what Linux writes: whatever it refuses is told then.
pub fn of(kind: &str) -> Option<Limits> {
    match kind {
        "squashfs" => Some(Limits {
            xattrs: &["user.", "trusted.", "security."],
            xattrs_of_root: false,
            short_times: true,
            sockets: false,
        }),
        "erofs" => Some(Limits {
            xattrs: &["user.", "trusted.", "security.", "system.posix_acl_"],
            xattrs_of_root: true,
            short_times: false,
            sockets: true,
        }),
        _ => None,
    }
}

impl Limits {
    /// Takes out what cannot be kept of a file; `path` starts at the root, "/".
    pub fn apply(&self, path: &[u8], stat: &mut Stat, xattrs: &mut Xattrs, report: &dyn Observer) {
        if !self.sockets && stat.kind() == Kind::Socket {
            return;
        }
        let flags = std::mem::take(&mut stat.flags);
        if flags.project != 0 {
            let project = flags.project.to_string();
            report.lose(Loss::Project, path, project.as_bytes(), LACKING);
        }
        if flags.bits != 0 {
            report.lose(Loss::Flags, path, &flags.letters(), LACKING);
        }
        let keeps = |name: &[u8]| {
            let fits = self.xattrs.iter().any(|p| name.starts_with(p.as_bytes()));
            fits && (self.xattrs_of_root || path != b"/")
        };
        let mut kept = Xattrs::default();
        for (name, value) in xattrs.iter() {
            match keeps(name.to_bytes()) {
                true => kept.push(name, value),
                false => report.lose_xattr(path, name, LACKING),
            }
        }
        *xattrs = kept;
        if self.short_times {
            let short = shortened(stat.mtime);
            if short != stat.mtime {
                let loss = match short.sec == stat.mtime.sec {
                    true => Loss::ExactTimes,
                    false => Loss::Times,
                };
                report.lose(loss, path, b"", LACKING);
                stat.mtime = short;
            }
        }
    }
}

/// What is beyond the range would come out as any other time.
pub fn shortened(time: Time) -> Time {
    Time {
        sec: time.sec.clamp(0, u32::MAX.into()),
        nsec: 0,
    }
}
