//! The root directory of a program: the file system of an image, or one in memory with
//! copies of what the host has.

use super::image::{mount, mount_volume, Opened};
use super::machine::Machine;
use super::{jail, Access, Session, HOST};
use crate::copy::{self, Destination, Owner, Progress, ProgressMode, Report, Settings, Source};
use crate::copy::{SparseMode, To, What};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::session::Global;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane::{ImagePath, MountOptions};
use tane_copy::patterns::Excludes;
use tane_linux::{Root, Sys};

/// Beside what a file holds: its inode, its name, and the rest of its last page.
const PER_FILE: u64 = 8 << 10;
/// What programs may write beside the copies, in bytes.
const ROOM: u64 = 128 << 20;
/// The most that is copied unless `--memory` says that there is room, in bytes.
const MOST: u64 = 4 << 30;
/// A part of memory as small as this is for what Linux keeps of each page.
const OVERHEAD: u64 = 32;

/// An image's. `kept`: what is written goes into it, or where `--overlay` says; else
/// into memory, and is forgotten.
pub fn of_image(at: &ImagePath, kept: bool, global: &Global) -> Result<Opened> {
    let global = &match kept {
        true => global.clone(),
        false => global.changed(|options| options.overlay = Some(":memory:".into())),
    };
    if kept {
        interrupt::be_orderly();
    }
    jail::declare(jail::Needs::images([(at, Access::Write)]).runs());
    let machine = Arc::new(Machine::with_image(at, Access::Write, global)?);
    let opened = match kept {
        true => mount(machine.clone(), at, Access::Write, global),
        // It need not be one that can be written.
        false => mount_volume(&machine, at, Access::Read, global).map(|mounted| {
            add_system_directories(&mounted);
            Opened::passing(machine.clone(), mounted)
        }),
    };
    opened.map_err(|failure| machine.explain(failure))
}

/// A directory's: all that is in it, in memory.
pub fn of_directory(dir: &Path, global: &Global) -> Result<Opened> {
    let name = dir.as_os_str().as_bytes();
    let host: Sys = Sys(&HOST);
    host.raise_open_files();
    let open = || Root::host(host).open_dir(name);
    let sources = || -> Result<Vec<Source<'static>>> {
        let dir = open().map_err(|e| Failure::file(name, e))?;
        let shown = name.to_vec();
        Ok(vec![Source::Contents { dir, shown }])
    };
    let excludes = Excludes::new(&[]);
    let (files, bytes) = copy::totals(&sources()?, &excludes, interrupt::requested);
    let size = bytes.saturating_add(files.saturating_mul(PER_FILE));
    let opened = in_memory(dir, size, &[dir], global)?;
    let session = Session::Image(Arc::new(opened));
    let failed = {
        let root = session.root()?;
        let to = Destination {
            dir: root.open_dir(b"/").map_err(|e| Failure::file(b"/", e))?,
            shown: b"/".to_vec(),
            avoid: None,
        };
        let settings = Settings {
            owner: Owner::Keep,
            sparse: SparseMode::Auto,
            no_clobber: false,
            devices: true,
            duplicates: false,
            empty: true,
            no_umask: true,
        };
        let what = What {
            sources: sources()?,
            excludes: &excludes,
            host_blocks: None,
        };
        let progress = Progress::new(ProgressMode::Never, || (0, 0));
        let report = Report::new(progress, false, global.quiet);
        copy::copy(what, To::Here(to), settings, &report, true);
        report.has_errors()
    };
    interrupt::check()?;
    match &session {
        Session::Image(opened) if global.runs => drop(opened.mount().map(add_system_directories)),
        _ => {}
    }
    if failed {
        let text = format!("{}: not all of it could be copied", dir.display());
        let remedy = "a root is taken as a whole: have somebody run this who can read it";
        return Err(Failure::image(text).about(name).remedy(remedy));
    }
    jail::close_after_copies(global)?;
    match session {
        Session::Image(opened) => {
            Arc::try_unwrap(opened).map_err(|_| Failure::image("the root is in use"))
        }
        Session::Directory { .. } => unreachable!("an image's"),
    }
}

/// A kernel without a file system, in the jail: for code that brings its own memory.
pub fn of_nothing(global: &Global) -> Result<Machine> {
    let image = Machine::smallest(global)?;
    jail::enter_alone(&image, global)?;
    let global = &global.changed(|options| options.kernel = Some(image));
    let machine = Machine::alone(global)?;
    jail::close_after_copies(global)?;
    Ok(machine)
}

/// One that knows everything, and beside it files of the host beneath this directory, which are
/// read to the end.
pub fn of_nothing_but(files: Option<&Path>, global: &Global) -> Result<Machine> {
    let sources: Vec<_> = files.into_iter().collect();
    jail::enter_copying(&sources, global)?;
    let machine = Machine::alone(global)?;
    jail::close_for_good(global)?;
    Ok(machine)
}

/// One with nothing in it but a copy of this file; where that is.
pub fn of_file(file: &Path, global: &Global) -> Result<(Opened, PathBuf)> {
    let fail = |e: io::Error| Failure::of_host(file, &e);
    let mut from = File::open(file).map_err(fail)?;
    let metadata = from.metadata().map_err(fail)?;
    let opened = in_memory(file, metadata.len(), &[], global)?;
    let inside = |e: tane::Error| Failure::image(format!("{}: its copy: {e}", file.display()));
    // Not where the host has it: another file system may be mounted there.
    let copy = Path::new("/bin").join(file.file_name().unwrap_or(OsStr::new("program")));
    if let Some(mount) = opened.mount() {
        mount.create_dir("/bin").map_err(inside)?;
        add_system_directories(mount);
        let mut to = mount.create(&copy).map_err(inside)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = from.read(&mut buffer).map_err(fail)?;
            if n == 0 {
                break;
            }
            to.write_all(&buffer[..n]).map_err(fail)?;
        }
        drop(to);
        let mode = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777;
        mount.set_permissions(&copy, mode).map_err(inside)?;
    }
    jail::close_after_copies(global)?;
    Ok((opened, copy))
}

/// Where the kernel's own file systems are mounted. Nobody keeps these directories, and
/// where they cannot be made, programs go without.
fn add_system_directories(mount: &tane::Mount) {
    for dir in ["/dev", "/proc", "/sys", "/tmp"] {
        let _ = mount.create_dir(dir);
    }
}

/// An empty one, with room for so many bytes of `what`. Nothing is read on the host from
/// now on but `sources`.
fn in_memory(what: &Path, size: u64, sources: &[&Path], global: &Global) -> Result<Opened> {
    let room = size.saturating_add(ROOM);
    let needed = room.saturating_add(room / OVERHEAD);
    let needed = needed
        .saturating_add(tane::MEMORY)
        .next_multiple_of(1 << 20);
    let too_much = match global.memory {
        None => size > MOST,
        Some(memory) => needed > memory,
    };
    if too_much {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let text = format!(
            "{}: is copied into memory, and its {} MiB take --memory {}M",
            what.display(),
            mib(size),
            mib(needed)
        );
        let remedy = "or make an image of it (tane make-image) and run that";
        return Err(Failure::image(text).remedy(remedy));
    }
    let global = &global.changed(|options| options.memory = options.memory.or(Some(needed)));
    jail::enter_copying(sources, global)?;
    let machine = Machine::alone(global)?;
    let mut options = MountOptions::new();
    options.fstype("tmpfs");
    if global.runs {
        options.exec(true).devices(true);
    }
    options
        .option("size", room.to_string())
        .option("mode", "755");
    let mounted = options.mount(&machine.kernel, "root");
    let mounted = mounted.map_err(|e| Failure::image(format!("the root directory: {e}")))?;
    Ok(Opened::passing(Arc::new(machine), mounted))
}
