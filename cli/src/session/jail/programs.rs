//! The jail of programs of the host: what they are read from, and what they work on.

use super::{limit_memory, Needs};
use crate::failure::{Failure, Result};
use crate::programs;
use crate::session::Global;
use crate::session::{container, scratch, Access};
use crate::tell;
use std::path::{Path, PathBuf};
use tane::images::Format;
use tane::jail::Jail;
use tane_make::Beside;

/// What programs are, and what they read wherever they run: their settings, what is
/// mounted, what disks and processors there are. Of processes only their own.
const SYSTEM: [&str; 31] = [
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/etc/alternatives",
    "/etc/blkid.conf",
    "/etc/e2fsck.conf",
    "/etc/fstab",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/mke2fs.conf",
    "/etc/nsswitch.conf",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/filesystems",
    "/proc/meminfo",
    "/proc/partitions",
    "/proc/self/maps",
    "/proc/self/mountinfo",
    "/proc/self/mounts",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/swaps",
    "/proc/version",
    "/sys/block",
    "/sys/class/block",
    "/sys/dev",
    "/sys/devices",
];
/// Not /dev/zero: what is mapped of it is memory that no limit counts.
const DEVICES: [&str; 2] = ["/dev/null", "/dev/urandom"];

/// It is entered by each program: /proc/self is its own.
pub fn jail(needs: &Needs, global: &Global) -> Result<Jail> {
    let mut jail = Jail::new();
    let own = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&own);
    let system = SYSTEM.iter().map(PathBuf::from).chain(own);
    for path in system.filter(|path| path.is_absolute() && path.exists()) {
        jail.read(path);
    }
    for path in DEVICES.iter().filter(|path| Path::new(path).exists()) {
        jail.write(path);
    }
    for (at, access) in &needs.images {
        let image = &at.outermost().image;
        match access {
            _ if !image.exists() => {}
            // They have a copy.
            _ if container(at, global) != Some(Format::Raw) => {}
            Access::Write => drop(jail.write(image)),
            Access::Read => drop(jail.read(image)),
        }
    }
    for path in needs.changed.iter().filter(|p| p.exists()) {
        jail.write(path);
    }
    if needs.temporary {
        let own = scratch::directory()?;
        jail.read(&own).write_beneath(&own).write(own);
    }
    limit_memory(&mut jail, global);
    jail.exec(true).no_holes(needs.no_holes);
    Ok(jail)
}

/// Start who shows this image's files to a program, which makes another file of them that is
/// changed. Of the image itself it knows nothing.
pub fn start_shower(image: &Path, needs: &Needs, global: &Global) -> Result<()> {
    let written = needs.changed.iter().filter(|path| *path != image);
    let of_it = written.fold(Needs::default(), |needs, path| needs.change(path));
    let mut jail = jail(&of_it, global)?;
    jail.read(Beside::of(image)).attributes(true);
    let fail = |e| Failure::image(format!("the process that shows files: {e}"));
    programs::start_shower(image, jail).map_err(fail)
}

/// `fed`: how many programs read what is made meanwhile.
pub fn start(jail: Option<Jail>, fed: usize, global: &Global) -> Result<()> {
    let fail = |e| Failure::image(format!("the process that runs programs: {e}"));
    let is_jailed = jail.is_some();
    programs::start_runner(jail, fed).map_err(fail)?;
    if is_jailed && global.verbose && !global.json && !programs::runner_is_apart() {
        tell::note(
            "this host gives programs no network and IPC namespace of their own; the rest of \
             their jail holds",
        );
    }
    Ok(())
}
