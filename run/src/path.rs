//! Where a program is found: by its path, or in PATH.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::Tree;

/// PATH where the environment has none.
pub const DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path of a program, below the root directory. A name without a slash is looked
/// for in `search`, as a shell does; what is no executable file there is passed over.
pub fn find(root: &Tree, program: &OsStr, search: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    for directory in std::env::split_paths(search) {
        let path = directory.join(program);
        if is_executable(root, &path) {
            return Ok(path);
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENOENT))
}

fn is_executable(root: &Tree, path: &Path) -> bool {
    root.metadata(path)
        .is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}

/// PATH of an environment.
pub fn of(environment: &[(OsString, OsString)]) -> OsString {
    let given = environment.iter().find(|(name, _)| name == "PATH");
    given.map_or_else(|| OsString::from(DEFAULT), |(_, path)| path.clone())
}
