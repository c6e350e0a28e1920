//! pax records: `LENGTH KEY=VALUE\n`, the length counting itself.

use tane_linux::Time;

/// Add a record.
pub fn put(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut digits = 1;
    while (rest + digits).to_string().len() > digits {
        digits += 1;
    }
    records.extend_from_slice((rest + digits).to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// A time, to the nanosecond.
pub fn put_time(records: &mut Vec<u8>, key: &[u8], time: Time) {
    // The fraction counts upwards, also before 1970.
    let text = match (time.sec, time.nsec) {
        (sec, 0) => sec.to_string(),
        (sec, nsec) if sec >= 0 => format!("{sec}.{nsec:09}"),
        (sec, nsec) => format!("-{}.{:09}", -(sec + 1), 1_000_000_000 - nsec),
    };
    put(records, key, text.as_bytes());
}

/// `[-]SECONDS[.FRACTION]`; what is finer than a nanosecond is dropped.
pub fn time(value: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(value).ok()?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sec: i64 = whole.parse().ok()?;
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let nsec: u32 = digits.parse().ok()?;
    Some(match (negative, nsec) {
        (false, nsec) => Time { sec, nsec },
        (true, 0) => Time { sec: -sec, nsec: 0 },
        (true, nsec) => Time {
            sec: -sec - 1,
            nsec: 1_000_000_000 - nsec,
        },
    })
}

/// The records in a buffer. None in place of one that makes no sense; it is the
/// last then.
pub fn all(mut bytes: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() || bytes[0] == 0 {
            return None;
        }
        let found = one(bytes);
        bytes = found.map_or(&[][..], |(_, rest)| rest);
        Some(found.map(|(record, _)| record))
    })
}

type Record<'a> = (&'a [u8], &'a [u8]);

fn one(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let blank = bytes.iter().position(|b| *b == b' ')?;
    let len: usize = std::str::from_utf8(&bytes[..blank]).ok()?.parse().ok()?;
    let record = bytes.get(blank + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some(((&record[..equals], &record[equals + 1..]), &bytes[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_whatever_their_length() {
        let values: Vec<Vec<u8>> = (0..2000).map(|n| vec![b'v'; n]).collect();
        let mut bytes = Vec::new();
        values.iter().for_each(|v| put(&mut bytes, b"k", v));
        put(&mut bytes, b"odd", b"a=b\n\0c");
        let found: Vec<_> = all(&bytes).map(Option::unwrap).collect();
        assert_eq!(found.len(), 2001);
        assert!(values
            .iter()
            .zip(&found)
            .all(|(v, f)| *f == (&b"k"[..], &v[..])));
        assert_eq!(found[2000], (&b"odd"[..], &b"a=b\n\0c"[..]));
    }

    #[test]
    fn nonsense_ends_the_records() {
        for bytes in [
            &b"x"[..],
            b"99999999999999999999 a=b\n",
            b"5 a=b",
            b"3 a=b\n",
            b"0 a=b\n",
            b"6 abc\n",
        ] {
            assert_eq!(all(bytes).collect::<Vec<_>>(), [None], "{bytes:?}");
        }
    }

    #[test]
    fn times_come_back() {
        for (sec, nsec) in [
            (0, 0),
            (5, 1),
            (-1, 0),
            (-1, 5),
            (-7, 999_999_999),
            (1 << 40, 7),
        ] {
            let mut bytes = Vec::new();
            put_time(&mut bytes, b"mtime", Time { sec, nsec });
            let (_, value) = all(&bytes).next().flatten().unwrap();
            assert_eq!(time(value), Some(Time { sec, nsec }), "{value:?}");
        }
        assert_eq!(
            time(b"1.5"),
            Some(Time {
                sec: 1,
                nsec: 500_000_000
            })
        );
        assert_eq!(time(b"x"), None);
    }
}
