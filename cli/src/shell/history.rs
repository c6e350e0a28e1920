//! The lines of earlier sessions. Their file is opened before a jail closes, in which nothing
//! is opened, and gets each line when it is typed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Lines that are remembered.
pub const MOST: usize = 1000;
/// How many more the file may have before the oldest go.
const MORE: usize = 1000;

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
        let lines = BufReader::new(&file).lines();
        let mut earlier: Vec<_> = lines.collect::<io::Result<_>>()?;
        let mut history = History {
            file,
            earlier: Vec::new(),
            last: earlier.last().cloned().unwrap_or_default(),
        };
        if earlier.len() > MOST {
            let too_long = earlier.len() > MOST + MORE;
            earlier.drain(..earlier.len() - MOST);
            if too_long {
                history.file.set_len(0)?;
                let text = earlier.join("\n") + "\n";
                history.file.write_all(text.as_bytes())?;
            }
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
        if line.is_empty() || line.contains('\n') || line == self.last {
            return;
        }
        // At once, since several sessions may have it: each adds at the end. A line that is
        // not kept is no reason to end anything.
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
        self.last = line.to_owned();
    }
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
    fn what_is_no_file_or_no_text_is_no_history() {
        let s = Scratch::new("history");
        fs::write(s.join("bytes"), b"\xff\n").expect("a file");
        assert!(History::open(&s.join("bytes")).is_err());
        assert!(History::open(Path::new("/dev/null")).is_err());
    }
}
