//! tane du: what takes the room.

use super::entry;
use crate::failure::{Failure, Result};
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use crate::show::human;
use crate::tell;
use crate::walk::{walk, Next, Visit, Visitor};
use serde_json::Map;
use std::collections::HashSet;
use std::ffi::OsString;
use tane_linux::{Errno, Kind, Stat};

/// Show how much room directories of an image take, with all that is in them
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Counted is what is allocated on the disk, in KiB; a file with several names counts
once in a command. Directories come after what is in them.

Examples:
  tane du -h disk.img:/var                  each directory
  tane du -sh disk.img:/home/a disk.img:/home/b
  tane du -a disk.img | sort -n | tail      the largest
  tane du --json -d 1 disk.img | jq 'select(.inodes > 10000).path'")]
pub struct Args {
    /// Images (their root) or files and directories in them
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub paths: Vec<OsString>,
    /// Files too, not only directories
    #[arg(short, long)]
    pub all: bool,
    /// Only a total for each argument
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub summarize: bool,
    /// Show nothing that lies deeper, but count it
    #[arg(short = 'd', long, value_name = "LEVELS")]
    pub max_depth: Option<usize>,
    /// The lengths of files and symlinks in bytes, instead of what is allocated
    #[arg(short = 'b', long = "bytes", visible_alias = "apparent-size")]
    pub apparent: bool,
    /// A total of all arguments
    #[arg(short = 'c', long)]
    pub total: bool,
    /// Sizes like 4.0K and 20M
    #[arg(short, long = "human-readable")]
    pub human: bool,
    /// Raw names, each ended by a NUL
    #[arg(short = '0', long = "null", visible_alias = "zero")]
    pub zero: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    allocated: u64,
    size: u64,
    inodes: u64,
}

impl Sum {
    fn of(stat: &Stat) -> Sum {
        let has_length = matches!(stat.kind(), Kind::File | Kind::Symlink);
        Sum {
            allocated: stat.blocks.saturating_mul(512),
            size: if has_length { stat.size } else { 0 },
            inodes: 1,
        }
    }

    fn add(&mut self, other: Sum) {
        // A damaged image may claim anything.
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.size = self.size.saturating_add(other.size);
        self.inodes += other.inodes;
    }
}

struct Counter<'r> {
    args: &'r Args,
    json: bool,
    image: &'r [u8],
    out: &'r mut Output,
    /// Of the directories above, and what is in them so far.
    above: Vec<Sum>,
    /// The last of them.
    entered: Vec<u8>,
    seen: HashSet<(u64, u64)>,
    total: Sum,
    all_well: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let mut total = Sum::default();
    let code = for_each_image(&args.paths, Access::Read, global, |root, items| {
        let mut counter = Counter {
            args: &args,
            json: global.json,
            image: items[0].at.image.as_os_str().as_encoded_bytes(),
            out: &mut out,
            above: Vec::new(),
            entered: Vec::new(),
            seen: HashSet::new(),
            total: Sum::default(),
            all_well: true,
        };
        for item in items {
            // Else a missing one would be told by its path alone.
            let found = root.stat(item.path(), item.path().ends_with(b"/"));
            match found.and_then(|_| entry(root, item.path())) {
                Ok((dir, name)) => walk(&dir, &name, item.path(), &mut counter)?,
                Err(e) => counter.all_well = item.complain(e),
            }
        }
        total.add(counter.total);
        Ok(counter.all_well)
    })?;
    if args.total && !global.json {
        print(&args, b"total", total, &mut out)?;
    }
    out.flush()?;
    Ok(code)
}

fn print(args: &Args, path: &[u8], sum: Sum, out: &mut Output) -> Result<()> {
    let amount = if args.apparent {
        sum.size
    } else {
        sum.allocated
    };
    let amount = match () {
        () if args.human => human(amount),
        () if args.apparent => amount.to_string(),
        () => amount.div_ceil(1024).to_string(),
    };
    out.text(&format!("{amount}\t"))?;
    if args.zero {
        out.bytes(path)?;
        return out.bytes(b"\0");
    }
    out.name(path)?;
    out.text("\n")
}

impl Counter<'_> {
    fn show(&mut self, visit: &Visit, sum: Sum) -> Result<()> {
        let is_dir = visit.stat.kind() == Kind::Directory;
        let wanted = match visit.depth {
            0 => true,
            _ if self.args.summarize => false,
            depth => (is_dir || self.args.all) && self.args.max_depth.is_none_or(|d| depth <= d),
        };
        if !wanted {
            return Ok(());
        }
        if !self.json {
            return print(self.args, visit.path, sum, self.out);
        }
        let mut object = Map::new();
        names::put(&mut object, "image", self.image);
        names::put(&mut object, "path", visit.path);
        object.insert("type".into(), visit.stat.kind().word().into());
        object.insert("allocated".into(), sum.allocated.into());
        object.insert("size".into(), sum.size.into());
        object.insert("inodes".into(), sum.inodes.into());
        self.out.json(&object.into())
    }
}

impl Visitor for Counter<'_> {
    type Error = Failure;

    fn visit(&mut self, visit: &Visit) -> Result<Next> {
        let is_dir = visit.stat.kind() == Kind::Directory;
        let mut sum = Sum::of(visit.stat);
        if visit.after {
            sum = self.above.pop().unwrap_or_default();
        } else {
            // Directories as well: one may be named twice, or within another.
            if (is_dir || visit.stat.nlink > 1) && !self.seen.insert(visit.stat.identity()) {
                return Ok(Next::Past);
            }
            if is_dir {
                self.above.push(sum);
                self.entered = visit.path.to_vec();
                return Ok(Next::Into);
            }
        }
        match self.above.last_mut() {
            Some(above) if visit.depth > 0 => above.add(sum),
            _ => self.total.add(sum),
        }
        self.show(visit, sum)?;
        Ok(Next::Past)
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        if self.entered == path {
            // A directory that cannot be opened, and so is not visited again.
            let sum = self.above.pop().unwrap_or_default();
            self.above.last_mut().unwrap_or(&mut self.total).add(sum);
        }
        tell::failure(&Failure::file(path, error));
    }
}
