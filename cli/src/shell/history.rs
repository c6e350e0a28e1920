//! The lines of earlier sessions. Their file is opened before a jail closes, in which nothing
//! is opened, and gets each line when it is typed.
//!
//! Who has taken over an earlier session had that file open, too: its size and what is in it
//! are anybody's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Lines that are remembered.
pub const MOST: usize = 1000;
/// How many more the file may have before the oldest go.
const MORE: usize = 1000;
/// So much of the file's end is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Longest line that is remembered, in bytes.
const LONGEST_LINE: usize = 4096;

pub struct History {
    file: File,
    earlier: Vec<String>,
    last: String,
}

/// As the XDG base directories have it.
pub fn place() -> Option<PathBuf> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("tane").join("history"))
}

impl History {
    /// What that file has; it is made if it is not there, for nobody else to read.
    pub fn open(path: &Path) -> io::Result<History> {
        if let Some(dir) = path.parent() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(dir)?;
        }
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (mut earlier, is_whole) = end_of(&file)?;
        let mut history = History {
            file,
            earlier: Vec::new(),
            last: earlier.last().cloned().unwrap_or_default(),
        };
        let too_long = !is_whole || earlier.len() > MOST + MORE;
        earlier.drain(..earlier.len().saturating_sub(MOST));
        if too_long {
            history.file.set_len(0)?;
            let text: String = earlier.iter().map(|line| format!("{line}\n")).collect();
            history.file.write_all(text.as_bytes())?;
        }
        history.earlier = earlier;
        Ok(history)
    }

    /// The oldest first.
    pub fn earlier(&self) -> impl Iterator<Item = String> + '_ {
        self.earlier.iter().cloned()
    }

    /// A line that was typed. One that is repeated counts once.
    pub fn add(&mut self, line: &str) {
        if !is_kept(line) || line == self.last {
            return;
        }
        // At once, since several sessions may have it: each adds at the end. A line that is
        // not kept is no reason to end anything.
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
        self.last = line.to_owned();
    }
}

/// The lines at its end that are such as somebody types, and whether that was all of it.
fn end_of(file: &File) -> io::Result<(Vec<String>, bool)> {
    let len = file.metadata()?.len();
    let start = len.saturating_sub(LONGEST);
    let mut bytes = vec![0; (len - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    if start > 0 {
        // The first is a part of one.
        let first = bytes.iter().position(|byte| *byte == b'\n');
        bytes.drain(..first.map_or(bytes.len(), |at| at + 1));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    let lines = text.lines().filter(|line| is_kept(line));
    Ok((lines.map(str::to_owned).collect(), start == 0))
}

/// Whether it can be shown at a terminal as it is.
fn is_kept(line: &str) -> bool {
    let is_plain = |c: char| !c.is_control() || c == '\t';
    !line.is_empty() && line.len() <= LONGEST_LINE && line.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tane_test_support::Scratch;

    #[test]
    fn lines_are_there_in_the_next_session_and_no_more_than_so_many() {
        let s = Scratch::new("history");
        let path = s.join("state/tane/history");
        let mut one = History::open(&path).expect("a history");
        for line in ["ls", "ls", "", "cat a", "two\nlines"] {
            one.add(line);
        }
        let mut other = History::open(&path).expect("a history");
        assert_eq!(other.earlier().collect::<Vec<_>>(), ["ls", "cat a"]);
        for number in 0..MOST + MORE {
            other.add(&number.to_string());
        }
        // Both have it open.
        one.add("last");
        drop((one, other));
        let now = History::open(&path).expect("a history");
        let all: Vec<_> = now.earlier().collect();
        assert_eq!((all.len(), &*all[MOST - 1]), (MOST, "last"));
        let text = fs::read_to_string(&path).expect("a file");
        assert_eq!(text.lines().collect::<Vec<_>>(), all);
    }

    #[test]
    fn of_a_file_of_any_size_the_plain_lines_at_its_end_are_taken() {
        let s = Scratch::new("history");
        let path = s.join("history");
        let long = "x".repeat(LONGEST_LINE + 1);
        let text = format!("\nls\n\x1b[2J\n{long}\n\ncat a\tb\n");
        let file = File::create(&path).expect("a file");
        file.set_len(1 << 40).expect("a hole");
        file.write_all_at(text.as_bytes(), 1 << 40).expect("a text");
        for _ in 0..2 {
            let history = History::open(&path).expect("a history");
            let lines: Vec<_> = history.earlier().collect();
            assert_eq!(lines, ["ls", "cat a\tb"]);
        }
        assert_eq!(fs::read(&path).expect("a file"), b"ls\ncat a\tb\n");
        // Nothing of it need be any.
        file.set_len(0).expect("it is emptied");
        file.set_len(LONGEST + 1).expect("a hole");
        let history = History::open(&path).expect("a history");
        assert_eq!(history.earlier().count(), 0);
    }

    #[test]
    fn what_is_no_file_or_no_text_is_no_history() {
        let s = Scratch::new("history");
        fs::write(s.join("bytes"), b"\xff\n").expect("a file");
        assert!(History::open(&s.join("bytes")).is_err());
        assert!(History::open(Path::new("/dev/null")).is_err());
    }
}
