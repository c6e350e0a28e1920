//! tane touch: sets times, makes empty files.

use super::on_entries;
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::session::{for_each_image, Access};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tane_linux::{Errno, Time};

/// Set the times of files in an image, creating what is missing
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane touch disk.img:/etc/machine-id
  tane touch -d 2024-01-31T12:00:00.5Z disk.img:/srv/data
  tane touch -d @1700000000 -m disk.img:/srv/data
  tane touch -c -r reference disk.img:/srv/data")]
pub struct Args {
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// The time: @SECONDS[.FRACTION] or YYYY-MM-DD[THH:MM:SS[.FRACTION]][Z], in UTC
    #[arg(short, long, value_parser = parse_time)]
    pub date: Option<Time>,
    /// The times of this file on the host
    #[arg(short, long, value_name = "FILE", conflicts_with = "date")]
    pub reference: Option<PathBuf>,
    /// Create nothing
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Only the time of the last access
    #[arg(short)]
    pub access: bool,
    /// Only the time of the last modification
    #[arg(short)]
    pub modification: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let times = times(&args)?;
    for_each_image(&args.paths, Access::Write, global, |root, items| {
        root.sys().umask(0o022);
        Ok(on_entries(root, items, |dir, name, _| {
            let sys = dir.sys();
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            match sys.utimens(dir, name, &times, flags) {
                Err(Errno(libc::ENOENT)) if args.no_create => Ok(true),
                Err(Errno(libc::ENOENT)) => {
                    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW;
                    let fd = sys.openat(dir, name, flags, 0o666)?;
                    sys.futimens(&fd, &times).map(|()| true)
                }
                other => other.map(|()| true),
            }
        }))
    })
}

fn times(args: &Args) -> Result<[libc::timespec; 2]> {
    let spec = |sec, nsec| libc::timespec {
        tv_sec: sec,
        tv_nsec: nsec,
    };
    let mut times = match (&args.date, &args.reference) {
        (Some(t), _) => [spec(t.sec, t.nsec.into()); 2],
        (None, Some(path)) => {
            let m = path.metadata().map_err(|e| {
                let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
                Failure::file(path.as_os_str().as_encoded_bytes(), errno)
            })?;
            [
                spec(m.atime(), m.atime_nsec()),
                spec(m.mtime(), m.mtime_nsec()),
            ]
        }
        (None, None) => [spec(0, libc::UTIME_NOW); 2],
    };
    if args.access != args.modification {
        times[usize::from(args.access)] = spec(0, libc::UTIME_OMIT);
    }
    Ok(times)
}

fn parse_time(text: &str) -> std::result::Result<Time, String> {
    time(text).ok_or_else(|| "use @SECONDS or YYYY-MM-DD[THH:MM:SS[.FRACTION]][Z]".into())
}

fn time(text: &str) -> Option<Time> {
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        return Some(Time {
            sec: whole.parse().ok()?,
            nsec: nanoseconds(fraction)?,
        });
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [year, month, day] = three(date, '-')?;
    let [hour, minute, second] = match clock.matches(':').count() {
        1 => three(&format!("{clock}:0"), ':')?,
        _ => three(clock, ':')?,
    };
    let sane = (1..=12).contains(&month) && (1..=31).contains(&day) && year <= 9999;
    let sane = sane && hour < 24 && minute < 60 && second <= 60;
    // Howard Hinnant's days_from_civil.
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    let days = era * 146_097 + doe - 719_468;
    let sec = days * 86400 + hour * 3600 + minute * 60 + second;
    let nsec = nanoseconds(fraction)?;
    sane.then_some(Time { sec, nsec })
}

fn three(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text
        .split(separator)
        .map(|p| p.parse::<u32>().ok().map(i64::from));
    let all = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(all)
}

fn nanoseconds(fraction: &str) -> Option<u32> {
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<9}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_utc_and_exact() {
        assert_eq!(
            time("@1.5"),
            Some(Time {
                sec: 1,
                nsec: 500_000_000
            })
        );
        assert_eq!(
            time("1970-01-02"),
            Some(Time {
                sec: 86400,
                nsec: 0
            })
        );
        let exact = Time {
            sec: 951_827_696,
            nsec: 123_456_789,
        };
        assert_eq!(time("2000-02-29T12:34:56.123456789Z"), Some(exact));
        assert_eq!(crate::show::utc(exact), "2000-02-29T12:34:56.123456789Z");
        assert_eq!(time("1969-12-31 23:59"), Some(Time { sec: -60, nsec: 0 }));
        for bad in [
            "",
            "@",
            "@x",
            "2000-13-01",
            "2000-01-01T25:00:00",
            "yesterday",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
