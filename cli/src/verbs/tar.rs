//! tane tar: archives out of images and into them.

use crate::copy::{
    self, Observer, Operand, Owner, Progress, ProgressMode, Report, Settings, Sparse,
};
use crate::expand;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::names::plain;
use crate::output::Output;
use crate::session::spare;
use crate::session::Global;
use crate::session::{
    consists_of, declare, enter_before, inner_path, Access, Making, Needs, New, Session, There,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::images::{open_host_file, Format, Packer};
use tane::ImagePath;
use tane_copy::patterns::Excludes;
use tane_make::container::of_archive;

/// Make a tar archive of files in an image, or unpack one into it
#[derive(clap::Args)]
#[command(after_help = "\
Archives are POSIX pax, which every tar of today reads. Kept are times to the
nanosecond, modes, owners (by number), ACLs, capabilities and other extended
attributes (GNU tar restores them with --acls --xattrs
--xattrs-include='*'), hard links, holes, symlinks, devices and fifos; chattr flags
and project ids for tane alone. Sockets have no place in an archive.

What is unpacked replaces files of the same name, and directories keep what else is
in them. No entry reaches outside of DEST, by .. or by symlinks. An archive that is
compressed by gzip, xz, zstd or bzip2 is unpacked as it comes, and made so if its name
ends in .gz, .xz, .zst, .bz2 (or .tgz and the like).

Examples:
  tane tar create site.tar disk.img:/var/www
  tane tar create root.tar.zst disk.img:/.
  tane tar create --compression gzip - disk.img:/. | ssh host 'cat >root.tar.gz'
  tane tar create --exclude /var/cache --exclude '*.log' root.tar disk.img:/.
  tane tar extract rootfs.tar.xz new.img
  docker export app | tane tar extract - disk.img@2:/srv/app")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(clap::Subcommand)]
pub enum What {
    /// Write files of an image into an archive
    Create {
        /// The archive; - is standard output
        #[arg(value_name = "ARCHIVE")]
        archive: OsString,
        /// Files and directories, all of one image; SOURCE/. means its contents
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        sources: Vec<OsString>,
        /// How ARCHIVE is compressed, if its name does not say: none, gzip, xz, zstd or
        /// bzip2
        #[arg(long, value_name = "NAME", value_parser = parse_compression)]
        compression: Option<Packed>,
        /// Replace ARCHIVE also if it is a disk image
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Unpack an archive into a directory of an image
    Extract {
        /// The archive; - is standard input
        #[arg(value_name = "ARCHIVE")]
        archive: OsString,
        /// The directory, which has to be there
        #[arg(value_name = "IMAGE:/DEST")]
        dest: OsString,
        /// Whose the files are: keep, root or UID:GID
        #[arg(long, default_value = "keep")]
        owner: Owner,
        /// What to do about holes
        #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
        sparse: Sparse,
        /// Leave files alone that exist already
        #[arg(short = 'n', long)]
        no_clobber: bool,
        #[command(flatten)]
        common: Common,
    },
}

impl Args {
    /// Whether it writes to an image.
    pub fn extracts(&self) -> bool {
        matches!(self.what, What::Extract { .. })
    }

    /// Where in an image it unpacks.
    pub fn dest(&self) -> Option<&OsString> {
        match &self.what {
            What::Extract { dest, .. } => Some(dest),
            What::Create { .. } => None,
        }
    }
}

#[derive(clap::Args)]
pub struct Common {
    /// Fail (exit code 1) if anything had to be left behind
    #[arg(long)]
    pub strict: bool,
    /// Leave out what matches a pattern with *, ? and [...], and all below it: names
    /// wherever they are, or with a / paths below a source or in the archive; can be
    /// repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressMode,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let global = &global.copying();
    let (report, strict) = match &args.what {
        What::Create {
            archive,
            sources,
            compression,
            force,
            common,
        } => {
            if archive != "-" && !force {
                spare::spare(Path::new(archive), "", global)?;
            }
            let packed = match compression {
                Some(Packed(format)) => *format,
                None => of_archive(Path::new(archive))?,
            };
            (
                create(archive, sources, packed, common, global)?,
                common.strict,
            )
        }
        What::Extract { common, .. } => (extract(&args.what, common, global)?, common.strict),
    };
    let interrupted = interrupt::requested();
    if global.json {
        let json = report.json(interrupted);
        match &args.what {
            What::Create { archive, .. } if archive == "-" => eprintln!("{json}"),
            _ => {
                let mut out = Output::new();
                out.json(&json)?;
                out.flush()?;
            }
        }
    }
    Ok(match () {
        () if interrupted => INTERRUPTED,
        () if report.has_errors() || strict && report.has_losses() => SOME_FAILED,
        () => 0,
    })
}

/// How an archive is compressed, if it is.
#[derive(Clone, Copy, Debug)]
pub struct Packed(Option<Format>);

fn parse_compression(text: &str) -> std::result::Result<Packed, String> {
    let format = text
        .parse()
        .ok()
        .filter(|format: &Format| format.is_stream());
    match (text, format) {
        ("none", _) => Ok(Packed(None)),
        (_, Some(format)) => Ok(Packed(Some(format))),
        _ => Err("choose none, gzip, xz, zstd or bzip2".into()),
    }
}

fn archive_failure(archive: &OsStr, e: &io::Error) -> Failure {
    let name = match archive.as_bytes() {
        b"-" => "the archive".into(),
        name => plain(name),
    };
    Failure::new(SOME_FAILED, format!("{name}: {e}"))
}

fn create(
    archive: &OsStr,
    sources: &[OsString],
    packed: Option<Format>,
    common: &Common,
    global: &Global,
) -> Result<Report> {
    let sources = sources
        .iter()
        .map(|s| inner_path(s, global))
        .collect::<Result<Vec<_>>>()?;
    if !sources.iter().all(|s| s.same_image(&sources[0])) {
        return Err(Failure::usage(
            "tar create: the sources are of several images",
        ));
    }
    if archive == "-" && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "tar create: an archive is nothing for a terminal",
        ));
    }
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => archive_failure(archive, &e),
    };
    let file = Archive::begin(archive, &sources[0], global)?;
    let session = Session::open(&sources[0], Access::Read, global)?;
    let root = session.root()?;
    let mut meant = Vec::new();
    for source in &sources {
        meant.extend(expand::sources(&root, source, global.kept.is_session())?);
    }
    let sources = meant;
    let prefixes: Vec<_> = sources.iter().map(|s| s.prefix()).collect();
    let places = sources.iter().zip(&prefixes);
    let planned = places
        .into_iter()
        .map(|(at, prefix)| {
            let place = Operand {
                root: &root,
                path: &at.path,
                prefix,
            };
            copy::source(&place, None, false)
        })
        .collect::<Result<Vec<_>>>()?;
    let excludes = Excludes::new(&common.exclude);
    let progress = Progress::new(common.progress, || {
        copy::totals(&planned, &excludes, interrupt::requested)
    });
    let report = Report::new(progress, global.verbose, global.quiet);
    let out = file.writer().map_err(fail)?;
    let out = BufWriter::with_capacity(1 << 18, out);
    let mut out = Packer::new(out, packed).map_err(fail)?;
    let what = copy::What {
        sources: planned,
        excludes: &excludes,
        host_blocks: session.host_blocks(),
    };
    copy::tar::create(what, &mut out, &report).map_err(fail)?;
    out.finish().map_err(fail)?;
    drop(root);
    session.close()?;
    if !interrupt::requested() {
        file.finish(archive)?;
    }
    Ok(report)
}

/// Where an archive goes. In the jail no file can be opened.
enum Archive {
    Standard,
    /// What is there, which is emptied when the image is open.
    There(There),
    /// It gets its name in the end.
    New(New),
}

impl Archive {
    fn begin(archive: &OsStr, source: &ImagePath, global: &Global) -> Result<Archive> {
        let path = Path::new(archive);
        if archive == "-" {
            return Ok(Archive::Standard);
        }
        enter_before([source], global)?;
        if path.symlink_metadata().is_err() {
            let new = New::create(path, "tar")?;
            declare(Needs::images([(source, Access::Read)]).makes(Making {
                made: new.path().map(Path::to_owned).into_iter().collect(),
                name: path.to_owned(),
                replaces: false,
            }));
            return Ok(Archive::New(new));
        }
        if consists_of(source, path, global) {
            let text = format!("{}: is a part of SOURCE itself", path.display());
            return Err(Failure::new(SOME_FAILED, text));
        }
        There::open(path).map(Archive::There)
    }

    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(match self {
            Archive::Standard => Box::new(io::stdout()),
            Archive::There(there) => {
                let file = there.file();
                // Not so a pipe or a device.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                Box::new(file.try_clone()?)
            }
            Archive::New(new) => Box::new(new.open().map_err(io::Error::other)?),
        })
    }

    fn finish(self, archive: &OsStr) -> Result<()> {
        match self {
            Archive::New(new) => new.finish(Path::new(archive), false),
            Archive::Standard | Archive::There(_) => Ok(()),
        }
    }
}

fn extract(what: &What, common: &Common, global: &Global) -> Result<Report> {
    let What::Extract {
        archive,
        dest,
        owner,
        sparse,
        no_clobber,
        ..
    } = what
    else {
        return Err(Failure::usage("tar: nothing to do"));
    };
    let at = inner_path(dest, global)?;
    let fail = |e: io::Error| archive_failure(archive, &e);
    let input: Box<dyn Read + Send> = match archive.as_bytes() {
        b"-" => Box::new(io::stdin()),
        _ => Box::new(open_host_file(Path::new(archive), false, 0).map_err(fail)?),
    };
    let input = BufReader::with_capacity(1 << 18, input);
    let mut input = tane::images::decompressed(input).map_err(fail)?;
    let session = Session::open(&at, Access::Write, global)?;
    let root = session.root()?;
    let shown = [at.prefix(), at.path.clone()].concat();
    let dir = root.open_dir(&at.path);
    let dir = dir.map_err(|e| Failure::file(&shown, e))?;
    let sync = root.open_dir(b"/").map_err(|e| Failure::file(&shown, e))?;
    let report = Report::new(
        Progress::new(common.progress, || (0, 0)),
        global.verbose,
        global.quiet,
    );
    let settings = Settings {
        owner: *owner,
        sparse: (*sparse).into(),
        devices: true,
        no_clobber: *no_clobber,
        duplicates: true,
        empty: false,
        no_umask: true,
    };
    let to = copy::Destination {
        dir,
        shown,
        avoid: None,
    };
    let excludes = Excludes::new(&common.exclude);
    let done = copy::tar::extract(&mut input, &excludes, to, settings, &report);
    if let Err(e) = root.sys().syncfs(&sync) {
        report.error(b"/", e);
    }
    drop(sync);
    drop(root);
    session.close()?;
    done.map_err(fail)?;
    Ok(report)
}
