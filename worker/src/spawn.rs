//! How a worker is started: an executable of its own, by exec without a fork of this
//! process's threads and memory. It gets a lifeline as its standard input and the
//! shared memory as its standard output, a link to servers as its standard error if the
//! image is on some, and of the environment only TMPDIR.

use crate::area::Area;
use crate::failure::{Failure, Result};
use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tane::jail::{Hidden, Leash};

const NAME: &str = "tane-worker";

/// The worker's program: what TANE_WORKER names, else the one beside this program or
/// the shared library that this code is in, or in a place of theirs, or where the sources
/// were built.
pub fn program(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.into());
    }
    if let Some(path) = env::var_os("TANE_WORKER").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let mut places = tane::places_beside();
    // Programs of others that depend on the sources have `make` put it there.
    if let Some(source) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() {
        places.push(source.join("target/release"));
    }
    let mut found = places.iter().map(|place| place.join(NAME));
    found.find(|path| path.is_file()).ok_or_else(|| {
        let list: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        let text = format!(
            "no {NAME}, which serves images in a jail, in {}: install it there, set \
             TANE_WORKER to it, or open the image without a jail, in this process",
            list.join(", ")
        );
        Failure::new(libc::ENOENT, text)
    })
}

/// It, with these variables of the environment and no others.
pub fn command(program: &Path, environment: &[&str]) -> Command {
    let mut command = Command::new(program);
    let kept = environment.iter();
    let kept = kept.filter_map(|name| Some((name, env::var_os(name)?)));
    command.arg0(NAME).env_clear().envs(kept);
    // Ctrl-C is meant for the caller.
    command.process_group(0);
    command
}

/// Ends it with this process, whatever runs in it; it ends at once if that fails.
pub fn tie(child: &mut Child) -> Result<Leash> {
    Leash::of(child.id() as i32).map_err(|e| {
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
        Failure::of_io(&e, "tie the worker to this process")
    })
}

/// Start it; the lifeline, whose end is the worker's. `link`: to servers, if the image is
/// on some.
pub fn start(program: &Path, area: &Area, link: Option<OwnedFd>) -> Result<(Child, Hidden)> {
    let failed = |e: &std::io::Error| {
        let text = format!("start the worker {}", program.display());
        Failure::of_io(e, &text)
    };
    let (line, its) = UnixStream::pair().map_err(|e| failed(&e))?;
    let line = Hidden::new(line.into()).map_err(|e| failed(&e))?;
    let memory = area.as_fd().try_clone_to_owned().map_err(|e| failed(&e))?;
    let mut command = command(program, &["TMPDIR"]);
    command
        .stdin(Stdio::from(OwnedFd::from(its)))
        .stdout(Stdio::from(memory))
        .stderr(link.map_or_else(Stdio::null, Stdio::from));
    let child = command.spawn().map_err(|e| failed(&e))?;
    Ok((child, line))
}
