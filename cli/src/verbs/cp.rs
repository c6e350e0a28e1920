//! tane cp: copies in, out and across, keeping everything.

use crate::args::Global;
use crate::copy::{self, Owner, Place, Progress, ProgressMode, Report, Settings, SparseMode};
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::output::Output;
use crate::session::{address, declare, Access, End, Needs};
use crate::sys::Root;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use tane::{Address, ImagePath};

/// Copy files and directories into an image, out of it, or between images
#[derive(clap::Args)]
#[command(after_help = "\
Copies keep times to the nanosecond, modes, owners, ACLs, capabilities and other
extended attributes, hard links, holes, symlinks, devices, fifos and sockets.
Whatever the destination refuses is left behind with a warning.

Names follow docker cp: if DEST is a directory, SOURCE goes into it under its own
name; SOURCE/. means its contents, and so does the root of an image. If DEST does
not exist, SOURCE becomes DEST; its parent must exist. Directories are always
copied with everything in them. Existing files are replaced, each at once: nothing
incomplete is ever seen under its final name. What a crash interrupts stays under
a name like .tane-PID-NUMBER.part and can be removed. Ctrl-C stops after the file
at hand, removes nothing that is complete, and leaves images consistent.

Examples:
  tane cp disk.img:/etc/fstab .              one file out
  tane cp disk.img:/. tree                   everything, as root to keep owners
  tane cp --owner=root site disk.img:/var/www
  tane cp old.img:/home/. new.img@2:/home    from image to image
  tane cp --strict --json disk.img:/. tree   fail if anything is left behind")]
pub struct Args {
    /// What to copy: IMAGE:/path or a path on the host
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<OsString>,
    /// Where to: a directory, or the new name
    #[arg(value_name = "DEST")]
    pub dest: OsString,
    /// Whose the copies are: keep, root or UID:GID
    #[arg(long, default_value = "keep")]
    pub owner: Owner,
    /// What to do about holes
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub sparse: SparseMode,
    /// Leave files alone that exist already
    #[arg(short = 'n', long)]
    pub no_clobber: bool,
    /// Copy what a SOURCE that is a symlink points to
    #[arg(short = 'L', long)]
    pub follow_link: bool,
    /// Fail (exit code 1) if anything had to be left behind
    #[arg(long)]
    pub strict: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressMode,
    /// As always: accepted for the habit of cp -a
    #[arg(short = 'a', long = "archive", hide = true)]
    pub archive: bool,
    /// As always: accepted for the habit of cp -r
    #[arg(short = 'r', short_alias = 'R', long = "recursive", hide = true)]
    pub recursive: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let dest = address(&args.dest, global)?;
    let sources = args
        .sources
        .iter()
        .map(|s| address(s, global))
        .collect::<Result<Vec<_>>>()?;
    let is_image = |a: &Address| matches!(a, Address::Image(_));
    if !is_image(&dest) && !sources.iter().all(is_image) {
        return Err(Failure::usage(
            "cp: both are on the host: write IMAGE:/path for what is in an image",
        ));
    }
    interrupt::be_orderly();
    let global = &global.copying();
    let mut code = 0;
    // Sources of one image share a pass, and so their hard links.
    let groups: Vec<_> = sources.chunk_by(same_place).collect();
    declare(needs(&groups, &dest, &args));
    for group in groups {
        code = code.max(pass(group, &dest, &args, global)?);
        if interrupt::requested() {
            return Ok(INTERRUPTED);
        }
    }
    Ok(code)
}

/// As [`pass`] opens them.
fn needs(groups: &[&[Address]], dest: &Address, args: &Args) -> Needs {
    let image = |a: &'_ Address| match a {
        Address::Image(at) => Some(at.clone()),
        Address::Host(_) => None,
    };
    let mut opened = Vec::new();
    for group in groups {
        let (from, to) = (image(&group[0]), image(dest));
        let same = matches!((&from, &to), (Some(a), Some(b)) if a.same_file(b));
        opened.extend(to.map(|at| (at, Access::Write)));
        opened.extend(from.filter(|_| !same).map(|at| (at, Access::Read)));
    }
    let mut needs = Needs::images(opened.iter().map(|(at, access)| (at, *access)));
    for source in groups.iter().copied().flatten() {
        if let Address::Host(path) = source {
            let bytes = path.as_os_str().as_bytes();
            let follow = args.follow_link || bytes.ends_with(b"/") || bytes.ends_with(b"/.");
            if follow || !path.is_symlink() {
                needs = needs.read(path);
            }
        }
    }
    match dest {
        Address::Host(path) => needs.write(path),
        Address::Image(_) => needs,
    }
}

fn same_place(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Host(_), Address::Host(_)) => true,
        (Address::Image(a), Address::Image(b)) => a.same_image(b),
        _ => false,
    }
}

fn path_and_prefix(at: &Address) -> (&[u8], Vec<u8>) {
    match at {
        Address::Host(path) => (path.as_os_str().as_bytes(), Vec::new()),
        Address::Image(image) => (&image.path, ImagePath::prefix(image)),
    }
}

fn pass(sources: &[Address], dest: &Address, args: &Args, global: &Global) -> Result<u8> {
    let to = End::open(dest, Access::Write, &global.above(&sources[0], dest)?)?;
    let from = match (&sources[0], dest, &to) {
        _ if same_place(&sources[0], dest) => None,
        // Another partition of the image that is being written.
        (Address::Image(a), Address::Image(b), End::Image(session)) if a.same_file(b) => {
            Some(End::Image(session.beside(a, global)?))
        }
        _ => Some(End::open(&sources[0], Access::Read, global)?),
    };
    let result = transfer(
        sources,
        from.as_ref().unwrap_or(&to),
        dest,
        &to,
        args,
        global,
    );
    let closed = from.map_or(Ok(()), End::close).and(to.close());
    let report = result?;
    let interrupted = interrupt::requested();
    if global.json {
        let mut out = Output::new();
        out.json(&report.json(interrupted))?;
        out.flush()?;
    }
    closed?;
    Ok(match () {
        () if interrupted => INTERRUPTED,
        () if report.has_errors() || args.strict && report.has_losses() => SOME_FAILED,
        () => 0,
    })
}

fn transfer(
    sources: &[Address],
    from: &End,
    dest: &Address,
    to: &End,
    args: &Args,
    global: &Global,
) -> Result<Report> {
    let (from_root, to_root) = (from.root()?, to.root()?);
    let parts: Vec<_> = sources.iter().map(path_and_prefix).collect();
    let places: Vec<_> = parts
        .iter()
        .map(|(path, prefix)| Place {
            root: &from_root,
            path,
            prefix,
        })
        .collect();
    let (path, prefix) = path_and_prefix(dest);
    let place = Place {
        root: &to_root,
        path,
        prefix: &prefix,
    };
    let mut plan = copy::plan(&places, &place, args.follow_link)?;
    if std::ptr::eq(from, to) {
        let dir = &plan.destination.dir;
        plan.destination.avoid = dir.sys().fstat(dir).ok().map(|s| s.identity());
    }
    let progress = Progress::new(args.progress, || copy::totals(&plan.sources));
    let report = Report::new(progress, global.verbose, global.quiet);
    let settings = Settings {
        owner: args.owner,
        sparse: args.sparse,
        no_clobber: args.no_clobber,
        duplicates: false,
        empty: false,
    };
    let write_here = matches!(to, End::Image(_));
    copy::copy(
        plan.sources,
        plan.destination,
        settings,
        &report,
        write_here,
    );
    if write_here && !report.has_errors() {
        sync(&to_root, &report);
    }
    Ok(report)
}

/// Everything must have reached the image before success is claimed.
fn sync(root: &Root, report: &Report) {
    let synced = root.open_dir(b"/").and_then(|dir| dir.sys().syncfs(&dir));
    if let Err(e) = synced {
        report.error(b"/", e);
    }
}
