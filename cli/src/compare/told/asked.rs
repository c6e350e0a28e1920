//! What a session asks its teller for, one directory after the other: a byte, a length of four,
//! then what is wanted, a path, and patterns of what is left out.

use super::{tell, Wanted};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Longest request: a path, and patterns of a command line.
const LONGEST: usize = 4 << 20;
const ASK: u8 = b'?';
const GO_ON: u8 = b'+';
const STOP: u8 = b'.';

/// Asks for that; the answer is what [`super::Told`] hears.
pub fn ask(mut line: &File, path: &Path, wanted: &Wanted) -> io::Result<()> {
    let flags = [wanted.content, wanted.targets, wanted.xattrs, wanted.flags];
    let flags = flags
        .iter()
        .rev()
        .fold(0, |all, one| all << 1 | u8::from(*one));
    let mut body = vec![flags];
    body.extend_from_slice(&(wanted.depth as u64).to_le_bytes());
    for string in std::iter::once(path.as_os_str()).chain(wanted.excludes.iter().map(|p| &**p)) {
        body.extend_from_slice(&(string.len() as u32).to_le_bytes());
        body.extend_from_slice(string.as_bytes());
    }
    if body.len() > LONGEST {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let length = (body.len() as u32).to_le_bytes();
    line.write_all(&[&[ASK][..], &length, &body].concat())
}

/// After a message of it.
pub(super) fn go_on(mut line: &File, more: bool) -> io::Result<()> {
    line.write_all(&[if more { GO_ON } else { STOP }])
}

/// In a session's teller: what is asked for, until nobody asks any more, or somebody says what
/// no session does. `may`: whether that can be told.
pub fn answer(mut line: &File, may: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    loop {
        let mut begin = [0];
        line.read_exact(&mut begin)?;
        match begin[0] {
            ASK => {}
            // All had been told by then.
            STOP => continue,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        let mut length = [0; 4];
        line.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        line.read_exact(&mut body)?;
        let (path, wanted) = understood(&body).ok_or(io::ErrorKind::InvalidData)?;
        let mut ear = line;
        let goes_on = || {
            let mut said = [0];
            ear.read_exact(&mut said)?;
            match said[0] {
                GO_ON => Ok(true),
                STOP => Ok(false),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        match may(&path) {
            Ok(()) => tell(line, &path, &wanted, goes_on)?,
            Err(e) => super::tell::refuse(line, &e, goes_on)?,
        }
    }
}

/// None: no request that makes sense.
fn understood(body: &[u8]) -> Option<(PathBuf, Wanted)> {
    let (flags, body) = body.split_first()?;
    let (depth, mut body) = body.split_first_chunk()?;
    let mut strings = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let (string, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        strings.push(OsString::from_vec(string.to_vec()));
        body = rest;
    }
    let mut strings = strings.into_iter();
    let path = PathBuf::from(strings.next()?);
    let has = |bit: u8| flags & 1 << bit != 0;
    let wanted = Wanted {
        content: has(0),
        targets: has(1),
        xattrs: has(2),
        flags: has(3),
        excludes: strings.collect(),
        depth: usize::try_from(u64::from_le_bytes(*depth)).ok()?,
    };
    let is_path = |path: &OsStr| path.as_bytes().first() == Some(&b'/') && path.len() < 4096;
    (flags >> 4 == 0 && is_path(path.as_os_str())).then_some((path, wanted))
}
