//! Why a program cannot be executed, in words: execve(2) has one errno for many things.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::Tree;

/// What the file itself says, if that explains the errno.
pub fn explain(root: &Tree, path: &Path, errno: i32) -> Option<String> {
    let metadata = root.metadata(path).ok()?;
    if metadata.is_dir() {
        return Some("is a directory".into());
    }
    // Some of what is no file would be waited for as it is opened.
    if !metadata.is_file() {
        return Some("is no regular file".into());
    }
    if errno == libc::EACCES && metadata.mode() & 0o111 == 0 {
        return Some("is not executable: its mode has no x".into());
    }
    let head = head(root, path)?;
    match errno {
        libc::ENOENT => {
            let (kind, name) = interpreter(root, &head)?;
            Some(format!("needs {kind} {name}, which is not there"))
        }
        libc::ENOEXEC => Some(format(&head)),
        libc::ENOMEM => Some("does not fit into the memory of the kernel".into()),
        _ => None,
    }
}

fn head(root: &Tree, path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let file = root.open(path).ok()?;
    file.take(4096).read_to_end(&mut head).ok()?;
    Some(head)
}

fn u16_at(head: &[u8], at: usize) -> Option<u16> {
    let bytes = head.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(head: &[u8], at: usize) -> Option<u64> {
    let bytes = head.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// What kind of file it is that Linux does not execute.
fn format(head: &[u8]) -> String {
    if head.is_empty() {
        return "is empty".into();
    }
    if !head.starts_with(b"\x7fELF") {
        return match head.iter().take(256).all(|c| *c >= 9 && *c != 127) {
            true => {
                "is a text without #! in its first line: name the shell that is to run it".into()
            }
            false => "is no program for Linux".into(),
        };
    }
    match (head.get(4), u16_at(head, 18)) {
        (Some(1), Some(3)) => "is a 32-bit program: only 64-bit ones run here".into(),
        (Some(2), Some(62)) => "is damaged: its headers make no sense".into(),
        (_, Some(machine)) => format!(
            "is a program for another processor ({}), not for x86-64",
            architecture(machine)
        ),
        _ => "is damaged: its ELF header is cut off".into(),
    }
}

fn architecture(machine: u16) -> String {
    match machine {
        8 => "MIPS".into(),
        20 | 21 => "PowerPC".into(),
        22 => "s390".into(),
        40 => "32-bit ARM".into(),
        183 => "ARM64".into(),
        243 => "RISC-V".into(),
        258 => "LoongArch".into(),
        other => format!("ELF machine {other}"),
    }
}

/// The interpreter that a script or a program names, if it is missing.
fn interpreter(root: &Tree, head: &[u8]) -> Option<(&'static str, String)> {
    let (kind, name) = match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|c| *c == b'\n').next()?;
            let name = line
                .split(|c| matches!(c, b' ' | b'\t'))
                .find(|w| !w.is_empty())?;
            ("the interpreter", name)
        }
        None => ("the dynamic loader", loader(head)?),
    };
    let missing = !root.exists(Path::new(OsStr::from_bytes(name))).ok()?;
    // A file says it, and a terminal may show it.
    let shown = String::from_utf8_lossy(name).escape_debug().to_string();
    missing.then_some((kind, shown))
}

/// PT_INTERP of a 64-bit ELF file whose first page this is.
fn loader(head: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u16 = 3;
    let (offset, size) = (u64_at(head, 32)? as usize, u16_at(head, 54)? as usize);
    for i in 0..u16_at(head, 56)? as usize {
        let at = offset.checked_add(i.checked_mul(size)?)?;
        if u16_at(head, at)? == PT_INTERP {
            let start = u64_at(head, at + 8)? as usize;
            let end = start.checked_add(u64_at(head, at + 32)? as usize)?;
            return head.get(start..end)?.strip_suffix(b"\0");
        }
    }
    None
}
