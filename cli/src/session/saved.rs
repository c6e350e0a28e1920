//! Whether a directory is what `docker save` writes, which nobody knows before a file in it was
//! taken apart: a child looks, which has this file and opens nothing. Whatever it says, this
//! process takes for true, and looks no more.

use super::{apart, is_without_jail, jail};
use crate::failure::{Failure, Result};
use crate::names::plain;
use crate::session::Global;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane::jail::Jail;
use tane_make::{is_list_of_saved, list_of_saved, open_at_once};

/// What children said.
static KNOWN: Mutex<Vec<(PathBuf, bool)>> = Mutex::new(Vec::new());

/// What one said of this directory.
pub fn known(dir: &Path) -> Option<bool> {
    let known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    let found = known.iter().find(|(known, _)| known == dir);
    found.map(|(_, is_it)| *is_it)
}

/// Have a child look, before the jail closes.
pub fn is_it(dir: &Path, global: &Global) -> Result<bool> {
    if let Some(is_it) = known(dir) {
        return Ok(is_it);
    }
    if is_without_jail(global) {
        // This process looks, when it is its turn.
        return Ok(false);
    }
    let list = list_of_saved(dir);
    let is_it = list.is_file() && ask(dir, &list, global)?;
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    known.push((dir.to_owned(), is_it));
    Ok(is_it)
}

fn ask(dir: &Path, list: &Path, global: &Global) -> Result<bool> {
    let said = apart::ask(&plain(dir.as_os_str().as_bytes()), || {
        // What cannot be opened is no list.
        let Ok(file) = open_at_once(list) else {
            return Ok(vec![0]);
        };
        let mut own = Jail::new();
        jail::limit_memory(&mut own, global);
        own.enter().map_err(jail::failure)?;
        Ok(vec![u8::from(is_list_of_saved(file))])
    })?;
    match said[..] {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(Failure::image("what looked into the directory lies")),
    }
}
