//! Sizes and times on the command line, beside those that the library reads.

use super::parse_size;
use std::time::Duration;

pub fn parse_sector_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(size @ (512 | 1024 | 2048 | 4096)) => Ok(size),
        _ => Err("disks have sectors of 512, 1024, 2048 or 4096 bytes".into()),
    }
}

pub fn parse_limit(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(u64::MAX),
        _ => parse_size(text),
    }
}

/// What was never is none.
pub fn parse_hang(text: &str) -> Result<Duration, String> {
    match text {
        "none" => Ok(Duration::MAX),
        _ => parse_time(text),
    }
}

/// A number of seconds, or of what the letter behind it says.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((i, 's')) => (&text[..i], 1.0),
        Some((i, 'm')) => (&text[..i], 60.0),
        Some((i, 'h')) => (&text[..i], 3600.0),
        _ => (text, 1.0),
    };
    let number: Option<f64> = digits.parse().ok();
    let time = number.and_then(|n| Duration::try_from_secs_f64(n * unit).ok());
    time.filter(|t| !t.is_zero())
        .ok_or_else(|| "not a time: write a number of seconds, or 5m, or 1h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "0", "-1", "soon", "1d", "nan", "inf"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
