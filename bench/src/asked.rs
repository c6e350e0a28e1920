//! Files of our kernel that measure something when they are asked: one writes what, and
//! reads what came out from the same open file.

use crate::kernel::{c_path, check, Kernel, Ours};
use std::path::Path;

/// /proc inside, and the file in it, which needs `option` in the kernel's configuration.
pub fn prepare(kernel: &Ours, file: &str, option: &str) -> Result<(), String> {
    kernel.on_path(libc::SYS_mkdir, Path::new("/proc"), 0o755, 0);
    let (kind, at) = (c"proc".as_ptr() as u64, c"/proc".as_ptr() as u64);
    // SAFETY: C strings.
    let mounted = unsafe { kernel.call(libc::SYS_mount, [kind, at, kind, 0, 0, 0]) };
    check("mounting proc inside", mounted)?;
    match kernel.on_path(libc::SYS_access, Path::new(file), 0, 0) {
        0 => Ok(()),
        _ => Err(format!(
            "no {file} in this kernel image: it was built without {option}"
        )),
    }
}

/// Lines of a name and numbers.
pub fn ask(kernel: &Ours, file: &str, request: &str) -> Result<Answer, String> {
    let path = c_path(Path::new(file));
    let mut answer = [0u8; 512];
    let (at, room) = (answer.as_mut_ptr() as u64, answer.len() as u64);
    let (text, len) = (request.as_ptr() as u64, request.len() as u64);
    // SAFETY: a C string, a text and a buffer with their lengths.
    let read = unsafe {
        let open = [path.as_ptr() as u64, libc::O_RDWR as u64, 0, 0, 0, 0];
        let fd = check(file, kernel.call(libc::SYS_open, open))? as u64;
        let written = kernel.call(libc::SYS_write, [fd, text, len, 0, 0, 0]);
        let read = kernel.call(libc::SYS_read, [fd, at, room, 0, 0, 0]);
        kernel.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        check(&format!("{file}: {}", request.trim()), written)?;
        check(file, read)?
    };
    let text = String::from_utf8_lossy(&answer[..read as usize]);
    Ok(Answer {
        file: file.into(),
        text: text.into_owned(),
    })
}

pub struct Answer {
    file: String,
    text: String,
}

impl Answer {
    /// The number of that name, and those behind it.
    pub fn of(&self, name: &str) -> Result<Vec<f64>, String> {
        let found = self.text.lines().find_map(|line| {
            let (first, rest) = line.split_once(' ')?;
            let numbers = rest.split(' ').map(|word| word.parse().ok());
            (first == name).then(|| numbers.collect())?
        });
        found.ok_or_else(|| format!("{} said: {}", self.file, self.text))
    }

    /// What one took, if there were any.
    pub fn one(&self, name: &str) -> Result<f64, String> {
        match self.of(name)?[..] {
            [all, count, ..] if count > 0.0 => Ok(all / count),
            _ => Err(format!("{} measured no {name}", self.file)),
        }
    }
}
