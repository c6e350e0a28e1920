//! tane cp: copies in, out and across, keeping everything.

mod needs;

use needs::{guard, is_guarded, named, needs, wanted};

use crate::copy::gofer::Wish;
use crate::copy::stream::descriptor;
use crate::copy::{
    self, Observer, Operand, Owner, Progress, ProgressMode, Report, Settings, Sparse, To, What,
};
use crate::expand;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::names::{self, plain};
use crate::output::Output;
use crate::session::Global;
use crate::session::{address, declare, gofer, lender, Access, End, Session};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use tane::{Address, ImagePath};
use tane_copy::patterns::Excludes;
use tane_linux::Root;

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
incomplete is ever seen under its final name. On the host a file that holds a disk
image, a partition table or a volume is left alone without --force. What a crash
interrupts stays under a name like .tane-PID-NUMBER.part and can be removed. Ctrl-C
stops after the file at hand, removes nothing that is complete, and leaves images
consistent.

SOURCE - is standard input, as are /dev/stdin and /dev/fd/N what is open under that
number; DEST is the name of a file in an image then. A file that is there keeps its mode,
owner and attributes, a new one is root's. DEST - is standard output. A fifo or device
that is named stays one: write - <FIFO for what is in it.

-a, -p, -r and -R are taken for the habit of cp(1) and change nothing: copies always are
what cp -a makes.

Examples:
  tane cp disk.img:/etc/fstab .              one file out
  tane cp 'disk.img:/var/log/*.log' logs     patterns, in quotes
  hostname | tane cp - disk.img:/etc/hostname
  tane cp --exclude '*.o' --exclude /build src disk.img:/usr/src
  tane cp disk.img:/. tree                   everything, as root to keep owners
  tane cp --owner=root site disk.img:/var/www
  tane cp old.img:/home/. new.img@2:/home    from image to image
  tane cp --strict --json disk.img:/. tree   fail if anything is left behind")]
pub struct Args {
    /// What to copy: IMAGE:/path, a path on the host, or - for standard input; of
    /// directories all that is in them
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<OsString>,
    /// Where to: a directory, or the new name
    #[arg(value_name = "DEST")]
    pub dest: OsString,
    /// Whose the copies are: keep, root or UID:GID
    #[arg(long, default_value = "keep")]
    pub owner: Owner,
    /// Make device nodes on the host, as root: whoever may open them reaches the device
    #[arg(long)]
    pub devices: bool,
    /// What to do about holes
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub sparse: Sparse,
    /// Leave files alone that exist already
    #[arg(short = 'n', long)]
    pub no_clobber: bool,
    /// Replace files on the host also where they hold a disk image
    #[arg(long)]
    pub force: bool,
    /// Copy what a SOURCE that is a symlink points to
    #[arg(short = 'L', long)]
    pub follow_link: bool,
    /// Fail (exit code 1) if anything had to be left behind
    #[arg(long)]
    pub strict: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressMode,
    /// Leave out what matches a pattern with *, ? and [...], and all below it: names
    /// wherever they are, or with a / paths below SOURCE; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// As always: accepted for the habit of cp -a
    #[arg(short = 'a', long = "archive", hide = true)]
    pub archive: bool,
    /// As always: accepted for the habit of cp -r
    #[arg(short = 'r', short_alias = 'R', long = "recursive", hide = true)]
    pub recursive: bool,
    /// As always: accepted for the habit of cp -p
    #[arg(short = 'p', hide = true)]
    pub preserve: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let streams = args.sources.iter().find_map(|s| descriptor(s, 0));
    if let Some(number) = streams {
        return from_stream(&args, number, global);
    }
    let is_out = |name: &OsStr| descriptor(name, 1) == Some(1);
    let on_host = args.dest.as_bytes().strip_prefix(b"host:");
    let on_host = on_host.filter(|_| global.kept.is_session());
    if is_out(on_host.map_or(&args.dest, OsStr::from_bytes)) {
        return to_stream(args, global);
    }
    let dest = address(&args.dest, global)?;
    let sources = args
        .sources
        .iter()
        .map(|s| address(s, global))
        .collect::<Result<Vec<_>>>()?;
    let is_image = |a: &Address| matches!(a, Address::Image(_));
    if !is_image(&dest) && !sources.iter().all(is_image) {
        let mut named = args.sources.iter().chain([&args.dest]);
        let meant = named.find_map(|name| names::without_slash(name.as_bytes()));
        let how = || "write IMAGE:/path for what is in an image".into();
        let failure = Failure::usage("cp: both are on the host");
        return Err(failure.remedy(meant.unwrap_or_else(how)));
    }
    interrupt::be_orderly();
    guard(&sources, &dest, &args, global)?;
    let global = &global.copying();
    let mut code = 0;
    // Sources of one image share a pass, and so their hard links.
    let groups: Vec<_> = sources.chunk_by(same_place).collect();
    declare(needs(&groups, &dest, &args));
    let mut first = 0;
    for group in groups {
        code = code.max(pass(group, first, &dest, &args, global)?);
        first += named(group, &args).len();
        if interrupt::requested() {
            return Ok(INTERRUPTED);
        }
    }
    Ok(code)
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

/// `first`: so many sources on the host came before.
fn pass(
    sources: &[Address],
    first: usize,
    dest: &Address,
    args: &Args,
    global: &Global,
) -> Result<u8> {
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
        (sources, first),
        from.as_ref().unwrap_or(&to),
        dest,
        &to,
        args,
        global,
    );
    let closed = from.map_or(Ok(()), End::close).and(to.close());
    finish(&result?, closed, args, global)
}

/// Tells what became of it; the exit code.
fn finish(report: &Report, closed: Result<()>, args: &Args, global: &Global) -> Result<u8> {
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

/// `devices`: they are made.
fn settings(args: &Args, devices: bool) -> Settings {
    Settings {
        owner: args.owner,
        sparse: args.sparse.into(),
        no_clobber: args.no_clobber,
        devices,
        duplicates: false,
        empty: false,
        no_umask: true,
    }
}

/// A stream becomes a file of an image.
fn from_stream(args: &Args, number: i32, global: &Global) -> Result<u8> {
    let [source] = &args.sources[..] else {
        return Err(Failure::usage(
            "cp: a stream is copied alone: it becomes the file DEST",
        ));
    };
    if global.kept.is_session() {
        return Err(Failure::usage(
            "cp: standard input belongs to the session: copy a file",
        ));
    }
    let Address::Image(at) = address(&args.dest, global)? else {
        return Err(Failure::usage(
            "cp: both are on the host: write IMAGE:/path for what is in an image",
        ));
    };
    let input = copy::stream::open(number)
        .map_err(|e| Failure::new(SOME_FAILED, format!("{}: {e}", plain(source.as_bytes()))))?;
    interrupt::be_orderly();
    let global = &global.copying();
    let session = Session::open(&at, Access::Write, global)?;
    let put = |session: &Session| {
        let root = session.root()?;
        let dest = Operand {
            root: &root,
            path: &at.path,
            prefix: &at.prefix(),
        };
        let (to, name) = copy::plan_file(&dest)?;
        let progress = Progress::new(args.progress, || (0, 0));
        let report = Report::new(progress, global.verbose, global.quiet);
        copy::stream::copy(input, to, &name, settings(args, false), &report);
        sync(&root, &report);
        Ok(report)
    };
    let result: Result<Report> = put(&session);
    let closed = session.close();
    finish(&result?, closed, args, global)
}

/// A file of an image goes to standard output.
fn to_stream(args: Args, global: &Global) -> Result<u8> {
    let [source] = &args.sources[..] else {
        return Err(Failure::usage(
            "cp: several files would be one on standard output: use tane cat for that",
        ));
    };
    if let Address::Host(_) = address(source, global)? {
        return Err(Failure::usage(
            "cp: both are on the host: write IMAGE:/path for what is in an image",
        ));
    }
    let files = args.sources;
    super::cat::run(super::cat::Args { files }, global)
}

fn transfer(
    (sources, first): (&[Address], usize),
    from: &End,
    dest: &Address,
    to: &End,
    args: &Args,
    global: &Global,
) -> Result<Report> {
    let (from_root, to_root) = (from.root()?, to.root()?);
    let mut meant = Vec::new();
    for source in sources {
        match source {
            Address::Host(_) => meant.push(source.clone()),
            Address::Image(at) => {
                let paths = expand::sources(&from_root, at, global.kept.is_session())?;
                meant.extend(paths.into_iter().map(Address::Image));
            }
        }
    }
    let parts: Vec<_> = meant.iter().map(path_and_prefix).collect();
    let operands: Vec<_> = parts
        .iter()
        .map(|(path, prefix)| Operand {
            root: &from_root,
            path,
            prefix,
        })
        .collect();
    let (path, prefix) = path_and_prefix(dest);
    let dest = Operand {
        root: &to_root,
        path,
        prefix: &prefix,
    };
    let write_here = matches!(to, End::Image(_));
    let settings = settings(args, write_here || args.devices);
    let wish = gofer().filter(|_| !write_here).map(|gofer| Wish {
        gofer,
        settings,
        guarded: is_guarded(args),
        verbose: global.verbose,
    });
    let more = sources.len() < args.sources.len();
    let on_host = named(sources, args);
    let mut lent = match lender().filter(|_| !on_host.is_empty()) {
        Some(lender) => {
            let chosen = lender.choose(&wanted(on_host, args), first);
            Some(chosen.map_err(|e| Failure::file(b"SOURCE", e))?)
        }
        None => None,
    };
    let plan = copy::plan(
        &operands,
        more,
        &dest,
        wish,
        lent.as_mut(),
        args.follow_link,
    );
    let mut plan = plan?;
    if let To::Here(destination) = &mut plan.to {
        if std::ptr::eq(from, to) {
            let dir = &destination.dir;
            destination.avoid = dir.sys().fstat(dir).ok().map(|s| s.identity());
        }
    }
    let excludes = Excludes::new(&args.exclude);
    let progress = Progress::new(args.progress, || match &mut lent {
        Some(lent) => lent.totals(interrupt::requested),
        None => copy::totals(&plan.sources, &excludes, interrupt::requested),
    });
    let report = Report::new(progress, global.verbose, global.quiet);
    let what = What {
        sources: plan.sources,
        excludes: &excludes,
        host_blocks: from.host_blocks(),
    };
    match (lent, plan.to) {
        (Some(lent), To::Here(to)) => copy::copy_lent(lent, to, settings, &report),
        (_, to) => copy::copy(what, to, settings, &report, write_here),
    }
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
