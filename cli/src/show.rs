//! How files look in listings: modes, sizes, times, and their JSON object.

use crate::names;
use crate::users::Users;
use serde_json::{json, Map, Value};
use tane_linux::{Kind, Stat, Time};

/// `-rwxr-xr-x`
pub fn mode(mode: u32) -> String {
    let kind = match Kind::from_mode(mode) {
        Kind::File => '-',
        other => other.letter(),
    };
    let mut out = String::with_capacity(10);
    out.push(kind);
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    for (i, (bit, with, without)) in special.into_iter().enumerate() {
        let bits = mode >> (6 - 3 * i);
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, mode & bit != 0) {
            (true, true) => with,
            (false, true) => without,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// 1.5K, 20M: at most three digits, rounded up like ls -h.
pub fn human(bytes: u64) -> String {
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 {
        value /= 1024.0;
        unit += 1;
    }
    let suffix = ["", "K", "M", "G", "T", "P", "E"][unit];
    if unit == 0 {
        return bytes.to_string();
    }
    let tenths = (value * 10.0).ceil() / 10.0;
    if tenths < 10.0 {
        format!("{tenths:.1}{suffix}")
    } else {
        format!("{:.0}{suffix}", value.ceil())
    }
}

/// A device number's two halves.
pub fn device(rdev: u64) -> (u32, u32) {
    (libc::major(rdev), libc::minor(rdev))
}

/// `2026-11-21T09:51:00.123456789Z`, all nine digits.
pub fn utc(time: Time) -> String {
    let (days, seconds) = (time.sec.div_euclid(86400), time.sec.rem_euclid(86400));
    // Howard Hinnant's civil_from_days.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:09}Z",
        time.nsec
    )
}

/// Have the C library read the host's time zone, which it cannot in the jail.
pub fn learn_time_zone() {
    local(Time { sec: 0, nsec: 0 }, c"");
}

/// strftime in the host's time zone.
pub fn local(time: Time, format: &std::ffi::CStr) -> String {
    let mut out = [0u8; 64];
    // SAFETY: tm is plain data; localtime_r and strftime get live pointers and
    // strftime the size of the buffer.
    let length = unsafe {
        let mut tm = std::mem::zeroed::<libc::tm>();
        if libc::localtime_r(&time.sec, &mut tm).is_null() {
            return time.sec.to_string();
        }
        libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), &tm)
    };
    String::from_utf8_lossy(&out[..length]).into_owned()
}

/// The time as ls -l has it: the year instead of the hour for what is not
/// within the last six months.
pub fn listed_time(time: Time) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let age = now.map_or(0, |d| d.as_secs() as i64) - time.sec;
    let is_recent = (0..15_778_476).contains(&age);
    local(
        time,
        if is_recent {
            c"%b %e %H:%M"
        } else {
            c"%b %e  %Y"
        },
    )
}

/// What `ls`, `find` and `stat` say about a file in JSON. `key` is "name" or
/// "path".
pub fn json(key: &str, name: &[u8], stat: &Stat, users: &Users) -> Map<String, Value> {
    let mut object = Map::new();
    names::put(&mut object, key, name);
    let mut put = |key: &str, value: Value| object.insert(key.into(), value);
    put("type", stat.kind().word().into());
    put("mode", format!("{:04o}", stat.permissions()).into());
    put("uid", stat.uid.into());
    put("gid", stat.gid.into());
    if let Some(user) = users.user(stat.uid) {
        put("user", user.into());
    }
    if let Some(group) = users.group(stat.gid) {
        put("group", group.into());
    }
    put("size", stat.size.into());
    put("allocated", (stat.blocks * 512).into());
    put("links", stat.nlink.into());
    put("inode", stat.ino.into());
    if stat.kind().is_device() {
        let (major, minor) = device(stat.rdev);
        put("device", json!({"major": major, "minor": minor}));
    }
    for (key, time) in [
        ("atime", stat.atime),
        ("mtime", stat.mtime),
        ("ctime", stat.ctime),
    ] {
        put(key, utc(time).into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_like_those_of_ls() {
        assert_eq!(mode(0o100644), "-rw-r--r--");
        assert_eq!(mode(0o104755), "-rwsr-xr-x");
        assert_eq!(mode(0o102644), "-rw-r-Sr--");
        assert_eq!(mode(0o041777), "drwxrwxrwt");
        assert_eq!(mode(0o120777), "lrwxrwxrwx");
    }

    #[test]
    fn human_sizes_round_up() {
        assert_eq!(human(1023), "1023");
        assert_eq!(human(1024), "1.0K");
        assert_eq!(human(1025), "1.1K");
        assert_eq!(human(10 << 20), "10M");
        assert_eq!(human((10 << 20) + 1), "11M");
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(
            utc(Time { sec: 0, nsec: 1 }),
            "1970-01-01T00:00:00.000000001Z"
        );
        assert_eq!(
            utc(Time { sec: -1, nsec: 5 }),
            "1969-12-31T23:59:59.000000005Z"
        );
        assert_eq!(
            utc(Time {
                sec: 951_782_400,
                nsec: 0
            }),
            "2000-02-29T00:00:00.000000000Z"
        );
    }
}
