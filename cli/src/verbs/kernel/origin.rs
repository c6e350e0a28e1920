//! Linux's source: what somebody named, what the distribution has installed, or its package.

use super::build::failed;
use crate::failure::{Failure, Result, NO_IMAGE};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane_kernel_build::{command, layout, origin, Layout, Listener};

const PACKAGE: &str = "linux-source-6.12";

/// The archive or tree to build from.
pub fn find(named: Option<&Path>, work: &Path, listener: &dyn Listener) -> Result<PathBuf> {
    let layout = Layout::new(work, work).with_origin(named.map(Path::to_owned));
    let found = origin(&layout);
    let is_named = named.is_some() || std::env::var_os("TANE_LINUX_SOURCE").is_some();
    match std::path::absolute(&found) {
        Ok(found) if found.exists() => Ok(found),
        _ if is_named => {
            let gone = std::io::Error::from_raw_os_error(libc::ENOENT);
            Err(Failure::of_host(&found, &gone).remedy("it is an archive or tree of a Linux 6.12"))
        }
        _ => fetched(work, listener),
    }
}

/// The distribution's package, by its own program, which knows where that is and whether
/// it is genuine; taken apart, and not installed.
fn fetched(work: &Path, listener: &dyn Listener) -> Result<PathBuf> {
    let place = work.join("package");
    let archive = place.join(format!("{PACKAGE}.tar.xz"));
    let fetch = || {
        if archive.is_file() {
            return Ok(());
        }
        listener.note(&format!(
            "linux: {PACKAGE} is not installed; apt-get fetches it (140 MB) into {}",
            place.display()
        ));
        let fresh = place.join("fresh");
        let _ = std::fs::remove_dir_all(&fresh);
        layout::create_dir(&fresh)?;
        let log = place.join("log");
        let mut get = Command::new("apt-get");
        get.args(["download", PACKAGE]).current_dir(&fresh);
        command::logged(&mut get, &log, "linux: fetching", listener)?;
        let package = std::fs::read_dir(&fresh)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
            .ok_or("linux: apt-get fetched nothing")?;
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(&package).arg(&fresh);
        command::logged(
            &mut unpack,
            &log,
            "linux: taking the package apart",
            listener,
        )?;
        let inside = fresh.join(format!("usr/src/{PACKAGE}.tar.xz"));
        let moved = std::fs::rename(&inside, &archive);
        moved.map_err(|e| format!("{}: {e}", inside.display()))?;
        let _ = std::fs::remove_dir_all(&fresh);
        Ok(())
    };
    fetch().map_err(|text: String| {
        let remedy = format!(
            "install {PACKAGE}, or name an archive or clean tree of a Linux 6.12 by --source"
        );
        match failed(NO_IMAGE, text) {
            failure if failure.code == NO_IMAGE => failure.remedy(remedy),
            stopped => stopped,
        }
    })?;
    Ok(archive)
}
