//! Arguments of system calls as text. The program's memory is whatever it is: what cannot be
//! read is shown as its address.

use super::names;
use super::signatures::{Kind, Parameter};

/// So much of a text or of bytes is shown.
const SHOWN: usize = 32;
/// So much of a path.
const PATH: usize = 4096;
/// So many texts or buffers of a list.
const MOST: usize = 8;

type Memory<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// A call's arguments, and what they point to.
pub struct Reader<'a> {
    pub memory: Memory<'a>,
    pub args: &'a [u64; 6],
}

impl Reader<'_> {
    /// All of it or nothing.
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        ((self.memory)(address, &mut bytes) == N).then_some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// A text up to its zero; whether there is more of it.
    fn text(&self, address: u64, most: usize) -> Option<(Vec<u8>, bool)> {
        const STEP: usize = 256;
        let mut text = Vec::new();
        while text.len() < most {
            let mut bytes = [0; STEP];
            let at = address.wrapping_add(text.len() as u64);
            let read = (self.memory)(at, &mut bytes).min(STEP);
            if read == 0 {
                return (!text.is_empty()).then_some((text, true));
            }
            if let Some(end) = bytes[..read].iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&bytes[..end]);
                let more = text.len() > most;
                text.truncate(most);
                return Some((text, more));
            }
            text.extend_from_slice(&bytes[..read]);
        }
        text.truncate(most);
        Some((text, true))
    }
}

/// `result`: `None` before the call, then what it gave, if it did not fail.
pub fn show(
    reader: &Reader,
    at: usize,
    parameter: &Parameter,
    result: Option<Option<u64>>,
) -> String {
    let value = reader.args[at];
    let next = reader.args.get(at + 1).copied().unwrap_or(0);
    // A call that failed has written nothing.
    let failed = parameter.is_written && result == Some(None);
    if failed && !matches!(parameter.kind, Kind::Named(_)) {
        return pointer(value);
    }
    let written = result.flatten().filter(|_| parameter.is_written);
    let shown = match parameter.kind {
        Kind::Int => Some(signed(value)),
        Kind::Size => Some(value.to_string()),
        Kind::Hex => Some(hex(value)),
        Kind::Pointer => Some(pointer(value)),
        Kind::Fd => Some((value as i32).to_string()),
        Kind::DirFd => Some(directory(value)),
        Kind::Path => reader
            .text(value, PATH)
            .map(|(text, more)| quoted(&text, more)),
        Kind::Text => reader
            .text(value, PATH)
            .map(|(text, more)| quoted(&text, more)),
        Kind::Data => data(reader, value, written.unwrap_or(next)),
        Kind::Strings => strings(reader, value),
        Kind::Iov => iov(reader, value, next),
        Kind::Fds => reader
            .word(value)
            .map(|both| format!("[{}, {}]", both as u32, both >> 32)),
        Kind::Stat => stat(reader, value),
        Kind::Time => time(reader, value),
        Kind::WaitStatus => reader
            .bytes(value)
            .map(|word| status(i32::from_le_bytes(word))),
        Kind::SockAddr => address(reader, value, next),
        Kind::SigSet => reader.word(value).map(signals),
        Kind::Named(names) => Some(names.show(value)),
    };
    shown.unwrap_or_else(|| pointer(value))
}

fn signed(value: u64) -> String {
    // What programs pass as an int has anything above.
    match value >> 32 {
        0 | 0xffff_ffff => (value as i32).to_string(),
        _ => (value as i64).to_string(),
    }
}

fn hex(value: u64) -> String {
    match value {
        0..=9 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn pointer(value: u64) -> String {
    match value {
        0 => "NULL".into(),
        _ => format!("{value:#x}"),
    }
}

fn directory(value: u64) -> String {
    match value as i32 {
        libc::AT_FDCWD => "AT_FDCWD".into(),
        fd => fd.to_string(),
    }
}

/// As C has it.
fn quoted(bytes: &[u8], more: bool) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', *byte as char]),
            b'\n' => text += "\\n",
            b'\r' => text += "\\r",
            b'\t' => text += "\\t",
            0x20..=0x7e => text.push(*byte as char),
            _ => text += &format!("\\{byte:03o}"),
        }
    }
    text += match more {
        true => "\"...",
        false => "\"",
    };
    text
}

fn data(reader: &Reader, address: u64, length: u64) -> Option<String> {
    let shown = usize::try_from(length).unwrap_or(usize::MAX).min(SHOWN);
    let mut bytes = vec![0; shown];
    if (reader.memory)(address, &mut bytes) != shown {
        return None;
    }
    Some(quoted(&bytes, length > shown as u64))
}

fn strings(reader: &Reader, address: u64) -> Option<String> {
    let mut words = Vec::new();
    for at in 0..=MOST as u64 {
        let one = reader.word(address.wrapping_add(at * 8))?;
        if one == 0 {
            break;
        }
        if words.len() == MOST {
            words.push("...".to_owned());
            break;
        }
        let text = reader.text(one, PATH);
        words.push(text.map_or_else(|| pointer(one), |(text, more)| quoted(&text, more)));
    }
    Some(format!("[{}]", words.join(", ")))
}

fn iov(reader: &Reader, address: u64, count: u64) -> Option<String> {
    let mut words = Vec::new();
    for at in 0..count.min(MOST as u64) {
        let part = reader.bytes::<16>(address.wrapping_add(at * 16))?;
        let (base, length) = part.split_at(8);
        let word = |half: &[u8]| half.try_into().map(u64::from_le_bytes).unwrap_or(0);
        let (base, length) = (word(base), word(length));
        let bytes = data(reader, base, length).unwrap_or_else(|| pointer(base));
        words.push(format!("{{{bytes}, {length}}}"));
    }
    if count > MOST as u64 {
        words.push("...".to_owned());
    }
    Some(format!("[{}]", words.join(", ")))
}

/// `struct stat` of x86-64: the mode at 24, the size at 48.
fn stat(reader: &Reader, address: u64) -> Option<String> {
    let bytes = reader.bytes::<56>(address)?;
    let mode = u32::from_le_bytes(bytes[24..28].try_into().ok()?);
    let size = i64::from_le_bytes(bytes[48..56].try_into().ok()?);
    let kind = match mode & libc::S_IFMT {
        libc::S_IFREG => "S_IFREG",
        libc::S_IFDIR => "S_IFDIR",
        libc::S_IFCHR => "S_IFCHR",
        libc::S_IFBLK => "S_IFBLK",
        libc::S_IFIFO => "S_IFIFO",
        libc::S_IFLNK => "S_IFLNK",
        libc::S_IFSOCK => "S_IFSOCK",
        _ => "0",
    };
    let rights = mode & !libc::S_IFMT;
    Some(format!(
        "{{st_mode={kind}|{rights:#05o}, st_size={size}, ...}}"
    ))
}

fn time(reader: &Reader, address: u64) -> Option<String> {
    let bytes = reader.bytes::<16>(address)?;
    let seconds = i64::from_le_bytes(bytes[..8].try_into().ok()?);
    let nanoseconds = i64::from_le_bytes(bytes[8..].try_into().ok()?);
    Some(format!("{{tv_sec={seconds}, tv_nsec={nanoseconds}}}"))
}

fn status(status: i32) -> String {
    let signal = |signal: i32| names::signal(signal.unsigned_abs().into());
    if libc::WIFEXITED(status) {
        return format!("[exited {}]", libc::WEXITSTATUS(status));
    }
    if libc::WIFSTOPPED(status) {
        return format!("[stopped by {}]", signal(libc::WSTOPSIG(status)));
    }
    if libc::WIFCONTINUED(status) {
        return "[continued]".into();
    }
    format!("[killed by {}]", signal(libc::WTERMSIG(status)))
}

fn address(reader: &Reader, at: u64, length: u64) -> Option<String> {
    let mut bytes = vec![0; usize::try_from(length).ok()?.clamp(2, 128)];
    if (reader.memory)(at, &mut bytes) != bytes.len() {
        return None;
    }
    let family = u16::from_le_bytes([bytes[0], bytes[1]]);
    let port = || Some(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    match i32::from(family) {
        libc::AF_UNIX => {
            let path = &bytes[2..];
            // An abstract name begins with a zero.
            let skip = usize::from(path.first() == Some(&0));
            let end = path[skip..].iter().position(|byte| *byte == 0);
            let end = end.map_or(path.len(), |end| end + skip);
            let text = quoted(&path[skip..end], false);
            let at = if skip == 1 { "@" } else { "" };
            Some(format!("{{AF_UNIX, {at}{text}}}"))
        }
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            let host = std::net::Ipv4Addr::from(octets);
            Some(format!("{{AF_INET, {host}:{}}}", port()?))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let host = std::net::Ipv6Addr::from(octets);
            Some(format!("{{AF_INET6, [{host}]:{}}}", port()?))
        }
        _ => {
            let family = names::Names::Family.show(family.into());
            Some(format!("{{{family}, ...}}"))
        }
    }
}

fn signals(set: u64) -> String {
    let of = |set: u64| {
        let each = (1..=64).filter(move |signal| set >> (signal - 1) & 1 == 1);
        each.map(names::signal).collect::<Vec<_>>().join(" ")
    };
    // Rather those that are not in it.
    match set.count_ones() {
        0..=32 => format!("[{}]", of(set)),
        _ => format!("~[{}]", of(!set)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program's memory: 64 bytes from 0x1000 on.
    fn read(address: u64, bytes: &mut [u8]) -> usize {
        const TEXT: &[u8; 64] =
            b"/etc/passwd\0a\"b\n\x01\0\0\0............................................";
        let Some(at) = address.checked_sub(0x1000).filter(|at| *at < 64) else {
            return 0;
        };
        let rest = &TEXT[at as usize..];
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        length
    }

    fn one(kind: Kind, args: [u64; 6]) -> String {
        let reader = Reader {
            memory: &read,
            args: &args,
        };
        let parameter = Parameter {
            kind,
            is_written: false,
        };
        show(&reader, 0, &parameter, None)
    }

    #[test]
    fn texts_are_quoted_and_what_is_not_there_is_an_address() {
        assert_eq!(one(Kind::Path, [0x1000; 6]), "\"/etc/passwd\"");
        assert_eq!(one(Kind::Path, [0x100c; 6]), "\"a\\\"b\\n\\001\"");
        assert_eq!(one(Kind::Path, [0x9000; 6]), "0x9000");
        assert_eq!(one(Kind::Path, [0; 6]), "NULL");
        assert_eq!(one(Kind::Data, [0x1000, 4, 0, 0, 0, 0]), "\"/etc\"");
        assert!(one(Kind::Data, [0x1000, 500, 0, 0, 0, 0]).ends_with("....\"..."));
        assert_eq!(one(Kind::Data, [0x1030, 500, 0, 0, 0, 0]), "0x1030");
    }

    #[test]
    fn numbers_are_those_that_the_program_meant() {
        assert_eq!(one(Kind::Int, [0xffff_ffff; 6]), "-1");
        assert_eq!(one(Kind::Int, [u64::MAX; 6]), "-1");
        assert_eq!(one(Kind::Int, [5 << 32; 6]), "21474836480");
        assert_eq!(one(Kind::DirFd, [0xffff_ff9c; 6]), "AT_FDCWD");
        assert_eq!(status(0x300), "[exited 3]");
        assert_eq!(status(9), "[killed by SIGKILL]");
        assert_eq!(signals(0b110), "[SIGINT SIGQUIT]");
        assert_eq!(signals(!1), "~[SIGHUP]");
    }
}
