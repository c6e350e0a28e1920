//! tane trim: the free space of an image goes back to the host.

use crate::args::parse_size;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{declare, inner_path, is_host_kernel, Access, Needs, Session};
use crate::show::human;
use crate::tell;
use serde_json::Map;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use tane::ImagePath;
use tane_linux::{trim, Errno};

/// Give the free space of an image back to the host
#[derive(clap::Args)]
#[command(after_help = "\
The file system tells the disk which blocks are free (fstrim), and the image's file
gets holes there: raw images as sparse files, qcow2 by clusters. What is in files
does not change. Other formats, and hosts without holes, may give back nothing.

What is told is how much was free and is discarded, and how much less room the
image's files take on the host's disk. Through LUKS nothing is discarded.

Examples:
  tane trim disk.img
  tane trim disk.qcow2@2 vm.img@vg/root
  tane trim --json disk.img | jq .given_back")]
pub struct Args {
    /// Images
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
    /// Leave free pieces alone that are smaller than this
    #[arg(short, long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub minimum: u64,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        return Err(Failure::usage("trim: directories of the host have fstrim"));
    }
    let mut out = Output::new();
    let mut all_well = true;
    let images = args.images.iter().map(|image| inner_path(image, global));
    let images = images.collect::<Result<Vec<_>>>()?;
    if let Some(at) = images.iter().find(|at| at.within.is_some()) {
        let text = "is inside another image: trim that one, or copy it out of there first";
        return Err(Failure::usage(format!("{}: {text}", at.image.display())));
    }
    declare(Needs::images(images.iter().map(|at| (at, Access::Write))));
    for (image, at) in args.images.iter().zip(&images) {
        let name = match global.kept.is_session() {
            true => at.image.as_os_str().as_bytes(),
            false => image.as_bytes(),
        };
        match one(at, name, args.minimum, global)? {
            Ok(done) => done.print(name, global, &mut out)?,
            Err(failure) => {
                all_well = false;
                tell::failure(&failure);
            }
        }
    }
    out.flush()?;
    Ok(u8::from(!all_well))
}

struct Done {
    discarded: u64,
    before: u64,
    after: u64,
}

/// Outer failures end the command, inner ones concern this image.
fn one(
    at: &ImagePath,
    name: &[u8],
    minimum: u64,
    global: &Global,
) -> Result<std::result::Result<Done, Failure>> {
    let session = Session::open(at, Access::Write, global)?;
    let done = discard(&session, name, minimum);
    session.close()?;
    Ok(done)
}

fn discard(session: &Session, name: &[u8], minimum: u64) -> Result<Done> {
    let Session::Image(opened) = session else {
        return Err(Failure::usage("trim: not an image"));
    };
    let machine = opened.machine();
    // What was deleted is free only when that is in the journal.
    opened.sync()?;
    let before = machine.allocated();
    let root = session.root()?;
    let done = root.open_dir(b"/").and_then(|dir| trim(&dir, minimum));
    let discarded = done.map_err(|e| match e {
        Errno(libc::EOPNOTSUPP | libc::ENOTTY) => {
            let text = "what it lies on, or its type of file system, discards nothing";
            Failure::new(SOME_FAILED, format!("{}: {text}", names::plain(name)))
        }
        e => Failure::file(name, e),
    })?;
    opened.sync()?;
    let after = machine.allocated();
    Ok(Done {
        discarded,
        before,
        after,
    })
}

impl Done {
    fn print(&self, image: &[u8], global: &Global, out: &mut Output) -> Result<()> {
        // Less than before, unless something else was written meanwhile.
        let given_back = self.before.saturating_sub(self.after);
        if !global.json {
            out.name(image)?;
            return out.line(&format!(
                ": {} discarded, {} given back to the host, {} left",
                human(self.discarded),
                human(given_back),
                human(self.after),
            ));
        }
        let mut object = Map::new();
        names::put(&mut object, "image", image);
        object.insert("discarded".into(), self.discarded.into());
        object.insert("given_back".into(), given_back.into());
        object.insert("allocated".into(), self.after.into());
        out.json(&object.into())
    }
}
