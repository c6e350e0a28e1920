//! What a session has of its own.

use super::line::Own;
use super::run::{Shell, Step};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{image_path, inner_path, Access, Here, Session};
use serde_json::Map;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::ImagePath;
use tane_linux::{Errno, Root};

pub fn run(shell: &mut Shell, own: Own, global: &Global) -> Result<Step> {
    let mut out = Output::new();
    match own {
        Own::Cd { dir } => {
            let before = global.kept.here();
            let here = match dir.as_bytes() {
                b"-" => {
                    let text = "cd: there is nowhere to go back to";
                    shell.before.take().ok_or_else(|| Failure::usage(text))?
                }
                _ => go(&dir, global)?,
            };
            shell.before = before;
            global.kept.go(Some(here));
        }
        Own::Pwd => {
            let here = global.kept.here().ok_or_else(nowhere)?;
            let text = here.shown();
            if global.json {
                let mut object = Map::new();
                names::put(&mut object, "image", here.image.as_os_str().as_bytes());
                names::put(&mut object, "path", &here.dir);
                names::put(&mut object, "address", &text);
                out.json(&object.into())?;
            } else {
                out.name(&text)?;
                out.text("\n")?;
            }
        }
        Own::Lcd { dir } => {
            let home = || std::env::var_os("HOME").map(PathBuf::from);
            let dir = dir.or_else(home);
            let dir = dir.ok_or_else(|| Failure::usage("lcd: HOME is not set"))?;
            std::env::set_current_dir(&dir).map_err(|e| host_failure(&dir, &e))?;
        }
        Own::Lpwd => {
            let dir = std::env::current_dir().map_err(|e| host_failure(Path::new("."), &e))?;
            if global.json {
                let mut object = Map::new();
                names::put(&mut object, "path", dir.as_os_str().as_bytes());
                out.json(&object.into())?;
            } else {
                out.name(dir.as_os_str().as_bytes())?;
                out.text("\n")?;
            }
        }
        Own::Get { path, dest } => return Ok(Step::Again(copy(path, on_host(&dest)))),
        Own::Put { path, dest } => return Ok(Step::Again(copy(on_host(&path), dest))),
        Own::Open { image } => {
            let at = image_path(&image, global)?;
            global.kept.remember(&at.image, global)?;
            let before = global.kept.here();
            // As if the session were nowhere: a name is an image's.
            global.kept.go(None);
            let here = go(&image, global);
            global.kept.go(before.clone());
            global.kept.go(Some(here?));
            shell.before = before;
        }
        Own::Close { image } => close(image, shell, global)?,
        Own::Images => {
            for (file, access) in global.kept.list() {
                let written = access == Access::Write;
                if global.json {
                    let mut object = Map::new();
                    names::put(&mut object, "image", file.as_os_str().as_bytes());
                    object.insert("writable".into(), written.into());
                    out.json(&object.into())?;
                    continue;
                }
                out.name(file.as_os_str().as_bytes())?;
                out.line(if written {
                    "  read and written"
                } else {
                    "  read"
                })?;
            }
        }
        Own::Sync => global.kept.sync()?,
        Own::Undo => {
            let undone = global.kept.undo()?;
            if global.json {
                let mut object = Map::new();
                names::put(&mut object, "undone", undone.as_bytes());
                out.json(&object.into())?;
            } else {
                out.line(&format!("undone: {undone}"))?;
            }
        }
        Own::Echo { words } => {
            let words: Vec<_> = words.iter().map(|w| w.as_bytes()).collect();
            let line = words.join(&b' ');
            if global.json {
                let mut object = Map::new();
                names::put(&mut object, "echo", &line);
                out.json(&object.into())?;
            } else {
                out.bytes(&line)?;
                out.text("\n")?;
            }
        }
        Own::Set { option } => shell.errexit = option == "-e",
        Own::Exit { code } => return Ok(Step::Exit(code)),
    }
    out.flush()?;
    Ok(Step::Done(0))
}

fn nowhere() -> Failure {
    Failure::usage("no image is open: write open IMAGE")
}

fn host_failure(path: &Path, e: &std::io::Error) -> Failure {
    let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
    Failure::file(path.as_os_str().as_bytes(), errno)
}

fn on_host(path: &OsStr) -> OsString {
    let mut with = OsString::from("host:");
    with.push(path);
    with
}

fn copy(from: OsString, to: OsString) -> Vec<OsString> {
    vec!["cp".into(), "--".into(), from, to]
}

/// The directory that an argument means, without symlinks, "." and "..".
pub fn go(argument: &OsStr, global: &Global) -> Result<Here> {
    let mut at = inner_path(argument, global)?;
    make_absolute(&mut at)?;
    let session = Session::open(&at, Access::Read, global)?;
    let root = session.root()?;
    let fail = |e| Failure::file(argument.as_bytes(), e);
    let top = real_path(&root, b"/").map_err(fail)?;
    let dir = real_path(&root, &at.path).map_err(fail)?;
    let below = dir.strip_prefix(&top[..]).filter(|_| top != b"/");
    let dir = match below.unwrap_or(&dir) {
        b"" => b"/".to_vec(),
        dir => dir.to_vec(),
    };
    drop(root);
    session.close()?;
    Ok(Here {
        image: at.image,
        selector: at.selector,
        dir,
        within: at.within,
    })
}

/// Names of the host must mean the same after `lcd`.
fn make_absolute(at: &mut ImagePath) -> Result<()> {
    if !at.is_remote() {
        at.image = std::path::absolute(&at.image).map_err(|e| host_failure(&at.image, &e))?;
    }
    match &mut at.within {
        Some(outer) => make_absolute(outer),
        None => Ok(()),
    }
}

/// What the side's kernel calls a directory.
fn real_path(root: &Root, path: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
    let dir = root.open_dir(path)?;
    let link = std::ffi::CString::new(format!("/proc/self/fd/{}", dir.raw()));
    let link = link.map_err(|_| Errno(libc::EINVAL))?;
    dir.sys().readlink(&dir, &link)
}

fn close(image: Option<OsString>, shell: &mut Shell, global: &Global) -> Result<()> {
    let here = global.kept.here();
    let file = match image {
        Some(image) => image_path(&image, global)?.image,
        None => here.as_ref().ok_or_else(nowhere)?.image.clone(),
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    let is_it = |here: &Here| real(&here.image) == real(&file);
    if here.is_some_and(|h| is_it(&h)) {
        global.kept.go(None);
    }
    shell.before = shell.before.take().filter(|h| !is_it(h));
    if !global.kept.close(&file)? {
        let text = format!("{}: is not open", file.display());
        return Err(Failure::new(SOME_FAILED, text));
    }
    Ok(())
}
