//! Whether two files hold the same, and what differs in texts.

use super::pairs::Content;
use super::Entry;
use crate::failure::Result;
use crate::interrupt;
use tane_linux::{Errno, Fd};

/// Bytes read at once.
const STEP: usize = 1 << 20;
/// Longest text that is compared line by line, in bytes.
const LONGEST: u64 = 8 << 20;
/// Most lines that may differ: the time grows with their square.
const MOST_LINES: usize = 40_000;

/// What cannot be read: the file is the new one, and why.
pub type Unreadable = (bool, Errno);

fn open<'w, 'a>(
    entry: &Entry<'w, 'a>,
    is_new: bool,
) -> std::result::Result<Content<'w, 'a>, Unreadable> {
    entry.open().map_err(|e| (is_new, e))
}

/// The first byte in which two files of one length differ. Outer failures end the
/// command, inner ones concern the files.
pub fn first_difference(
    old: &Entry,
    new: &Entry,
) -> Result<std::result::Result<Option<u64>, Unreadable>> {
    let (a, b) = match (open(old, false), open(new, true)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(e), _) | (_, Err(e)) => return Ok(Err(e)),
    };
    let mut buffers = [vec![0; STEP], vec![0; STEP]];
    let mut at = 0;
    loop {
        interrupt::check()?;
        // Holes of both read the same.
        match (next_data(&a, at), next_data(&b, at)) {
            (None, None) => return Ok(Ok(None)),
            (a, b) => at = at.max(a.unwrap_or(u64::MAX).min(b.unwrap_or(u64::MAX))),
        }
        let [x, y] = &mut buffers;
        let n = match a.sys().pread_all(&a, x, at) {
            Ok(n) => n,
            Err(e) => return Ok(Err((false, e))),
        };
        let m = match b.sys().pread_all(&b, y, at) {
            Ok(m) => m,
            Err(e) => return Ok(Err((true, e))),
        };
        if x[..n] != y[..m] {
            let same = x[..n].iter().zip(&y[..m]).take_while(|(a, b)| a == b);
            return Ok(Ok(Some(at + same.count() as u64)));
        }
        if n < STEP {
            return Ok(Ok(None));
        }
        a.sys().forget(&a, at, n as u64);
        b.sys().forget(&b, at, m as u64);
        at += n as u64;
    }
}

/// Where data begins, from `at` on; None: only a hole follows.
fn next_data(fd: &Fd, at: u64) -> Option<u64> {
    match fd.sys().lseek(fd, at as i64, libc::SEEK_DATA) {
        Ok(data) => Some(data),
        Err(Errno(libc::ENXIO)) => None,
        // A file system that does not know: all of it is to be read.
        Err(_) => Some(at),
    }
}

/// The difference of two texts in the unified format, as `patch -p1` takes it; a
/// file that is missing is empty. A sentence if that cannot be, nothing if they
/// are the same.
pub fn patch(
    path: &[u8],
    old: Option<&Entry>,
    new: Option<&Entry>,
) -> std::result::Result<Vec<u8>, Unreadable> {
    let names = [header("a/", path, old), header("b/", path, new)];
    let sentence = |why: &str| {
        let [old, new] = names.each_ref().map(|n| String::from_utf8_lossy(n));
        format!("Files {old} and {new} differ{why}\n").into_bytes()
    };
    let (old, new) = (text(old, false)?, text(new, true)?);
    let (Some(old), Some(new)) = (old, new) else {
        return Ok(sentence(": too long for a comparison by lines"));
    };
    if old == new {
        return Ok(Vec::new());
    }
    if !is_text(&old) || !is_text(&new) {
        return Ok(sentence(" (binary)"));
    }
    if differing_lines(&old, &new) > MOST_LINES {
        return Ok(sentence(": too many lines for a comparison by lines"));
    }
    let patch = diffy::create_patch_bytes(&old, &new).to_bytes();
    // Its own header has no names that are not UTF-8.
    let mut lines = patch.splitn(3, |&b| b == b'\n');
    let hunks = lines.nth(2).unwrap_or_default();
    let [old, new] = &names;
    Ok([b"--- ", &old[..], b"\n+++ ", new, b"\n", hunks].concat())
}

/// As the headers of patches have names, quoted like in C if need be.
fn header(prefix: &str, path: &[u8], entry: Option<&Entry>) -> Vec<u8> {
    if entry.is_none() {
        return b"/dev/null".to_vec();
    }
    let name = [prefix.as_bytes(), path].concat();
    let odd = |b: &u8| !b.is_ascii_graphic() || matches!(b, b'"' | b'\\');
    if !name.iter().any(odd) {
        return name;
    }
    let mut quoted = b"\"".to_vec();
    for b in name {
        match b {
            b'"' | b'\\' => quoted.extend([b'\\', b]),
            b if b.is_ascii_graphic() || b == b' ' => quoted.push(b),
            b => quoted.extend(format!("\\{b:03o}").bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

fn text(entry: Option<&Entry>, is_new: bool) -> std::result::Result<Option<Vec<u8>>, Unreadable> {
    let Some(entry) = entry else {
        return Ok(Some(Vec::new()));
    };
    if entry.stat.size > LONGEST {
        return Ok(None);
    }
    let fd = open(entry, is_new)?;
    let mut bytes = vec![0; entry.stat.size as usize];
    let n = fd.sys().pread_all(&fd, &mut bytes, 0);
    bytes.truncate(n.map_err(|e| (is_new, e))?);
    Ok(Some(bytes))
}

/// As diff(1) and git tell: no zero byte near the beginning.
fn is_text(bytes: &[u8]) -> bool {
    !bytes[..bytes.len().min(8000)].contains(&0)
}

/// Lines between those that both begin with and those that both end with.
fn differing_lines(old: &[u8], new: &[u8]) -> usize {
    let lines =
        |bytes: &'_ [u8]| -> Vec<_> { bytes.split(|&b| b == b'\n').map(Vec::from).collect() };
    let (old, new) = (lines(old), lines(new));
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let same = ends.take_while(|(a, b)| a == b).count();
    old.len() + new.len() - 2 * same
}
