//! tane fuzz: damaged file systems, until Linux does something wrong with one.

mod base;
mod report;

use crate::args::parse_time;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::output::Output;
use crate::session::is_host_kernel;
use crate::session::victim::Victims;
use crate::session::Global;
use crate::tell;
use base::Corpus;
use clap::ValueEnum;
use report::{Find, Rates};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tane_hostile::bench::How;
use tane_hostile::hunt::{fault, smallest, Hunt, Input, Meets, Met};
use tane_hostile::reproducer::Reproducer;
use tane_hostile::sparse::Sparse;
use tane_hostile::Base;

/// What Linux gets, beside what the file system is.
const MEMORY: u64 = 160 << 20;
/// How often a find is met again to make it smaller.
const TRIES: u32 = 600;
/// Of the time, how much goes into doing the same with a restart, and how often at least.
const SHARE: u32 = 20;
const AT_LEAST: u64 = 3;

/// Try damaged file systems on Linux until it does something wrong
#[derive(clap::Args)]
#[command(after_help = "\
A sound file system of TYPE (IMAGE, which is only read, or one that tane make-image makes
for this) is damaged again and again, mounted, and used by calls that change as well; after
each the kernel goes back to a checkpoint, so that none begins with what another has left.
With the kernel image fuzz, which counts the ways through the code of file systems, what
takes a new way is kept and changed further; without it, what has calls answer with new
errors. Looked for are oopses, BUGs, panics, hangs, a process that ends, and with --warn
warnings. Each is told once, tried again alone, made as small as possible, and saved.

The kernel runs in a process of its own, in the jail of the other verbs, which closes before
it sees the image. The same SEED, IMAGE, kernel image and number of runs try the same.

DIR gets, and keeps for the next time:
  base.img         the sound file system, if it was made for this
  inputs/          what did something new; the next hunt begins with these
  found/NAME.calls what was found, as text: what is done, and what the kernel said
  found/NAME.img   the image for that

--replay meets such a NAME.calls again, with the NAME.img beside it.

Ctrl-C ends it; what was found and kept until then stays. The exit code is 0 if nothing was
found (or does not happen again), 1 if something was.

Examples:
  tane fuzz fs ext4 --time 10m
  tane fuzz fs xfs --seed 7 --runs 20000 --corpus xfs-hunt
  tane fuzz fs ext4 disk.img --options data=journal --warn
  tane fuzz fs --replay xfs-hunt/found/kernel-bug-at-fs.calls
  tane fuzz fs vfat --kernel build/images/tane-debug.elf --time 1h")]
pub struct Args {
    /// What is tried
    #[arg(value_name = "fs")]
    pub what: What,
    /// The type of the file system, as mount(8) calls it
    #[arg(value_name = "TYPE", required_unless_present = "replay")]
    pub fstype: Option<String>,
    /// A sound one of it: a raw image, without a partition table
    pub image: Option<PathBuf>,
    /// Where chance begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// End after so many
    #[arg(long, value_name = "N")]
    pub runs: Option<u64>,
    /// End after this time: seconds, or a number and s, m or h (default: 1m, unless --runs
    /// is given)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Where it keeps what it needs and finds (default: fuzz-TYPE)
    #[arg(long, value_name = "DIR")]
    pub corpus: Option<PathBuf>,
    /// Warnings (WARN_ON) are finds, too
    #[arg(long)]
    pub warn: bool,
    /// What takes longer hangs
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20s")]
    pub hang: Duration,
    /// Do not try a few with a restart, too, to tell what going back is worth
    #[arg(long)]
    pub no_compare: bool,
    /// Only read what is mounted
    #[arg(long)]
    pub read_only: bool,
    /// Meet what such a file describes, once
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["fstype", "image", "runs", "time", "corpus", "read_only"])]
    pub replay: Option<PathBuf>,
}

/// What can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// File systems
    Fs,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        let text = "--kernel host: what is found would be found in the host's own Linux";
        return Err(Failure::usage(text));
    }
    interrupt::stop_soon();
    match &args.replay {
        Some(file) => replay(file, &args, global),
        None => hunt(&args, global),
    }
}

fn kernel(global: &Global) -> Result<PathBuf> {
    match &global.kernel {
        Some(named) => Ok(named.clone()),
        None => tane::fuzz_image().map_or_else(
            || tane::default_image().map_err(|e| Failure::image(e.to_string())),
            Ok,
        ),
    }
}

/// Superblocks may ask for a panic on errors, which would be found first and always.
fn usual_options(fstype: &str) -> &'static str {
    match fstype {
        "ext2" | "ext3" | "ext4" | "jfs" | "nilfs2" => "errors=continue",
        _ => "",
    }
}

/// Linux only reads them.
fn is_read_only(fstype: &str) -> bool {
    const THOSE: [&str; 6] = ["squashfs", "erofs", "iso9660", "cramfs", "romfs", "efs"];
    THOSE.contains(&fstype)
}

fn hunt(args: &Args, global: &Global) -> Result<u8> {
    let fstype = args.fstype.clone().unwrap_or_default();
    let how = How {
        kernel: kernel(global)?,
        memory: global.memory.unwrap_or(MEMORY),
        options: match &global.options {
            Some(options) => options.clone(),
            None => usual_options(&fstype).into(),
        },
        read_only: args.read_only || is_read_only(&fstype),
        fstype: fstype.clone(),
    };
    let named = args.corpus.clone();
    let corpus = Corpus::new(named.unwrap_or_else(|| format!("fuzz-{fstype}").into()))?;
    let sound = corpus.base(args.image.as_deref(), &fstype, global)?;
    let mut victims = Victims::new(&how, &sound, args.hang, global);
    let (counts, names) = victims.look()?;
    if !counts && !global.quiet {
        let text = "this kernel image does not count its ways, so calls and their errors guide: \
                    tane kernel build --base fuzz -o fuzz.elf builds one that does";
        tell::note(text);
    }
    let base = Base::new(sound.clone(), base::MAGIC);
    let hunt = Hunt::new(base, &fstype, args.seed, names, how.read_only);
    let mut hunt = hunt.warns(args.warn);
    let loaded = corpus.inputs(&sound)?;
    let began_with = loaded.len();
    loaded.into_iter().for_each(|input| hunt.keep(input));

    let mut out = Output::new();
    let mut finds = Vec::new();
    let mut again = Victims::new(&how, &sound, args.hang, global).anew();
    let mut rates = Rates::default();
    let until = match (args.time, args.runs) {
        (Some(time), _) => Some(time),
        (None, Some(_)) => None,
        (None, None) => Some(Duration::from_secs(60)),
    };
    let began = Instant::now();
    let is_over = |tried: u64| {
        let tried_all = args.runs.is_some_and(|runs| tried >= runs);
        tried_all || until.is_some_and(|until| began.elapsed() >= until)
    };
    let mut told = Instant::now();
    while !is_over(hunt.tried()) && !interrupt::requested() {
        let started = Instant::now();
        let input = hunt.choose();
        let blocks = input.image.differing(&sound);
        let prepared = started.elapsed();
        let met = match victims.meet(&blocks, &input.calls) {
            // What was under way is of no interest.
            Err(_) if interrupt::requested() => break,
            met => met?,
        };
        rates.back.add(started.elapsed());
        // The same with a restart, for as long as a part of the time.
        let due = rates.anew.count < AT_LEAST || rates.anew.time * SHARE < began.elapsed();
        if due && !args.no_compare {
            let started = Instant::now();
            match again.meet(&blocks, &input.calls) {
                Err(_) if interrupt::requested() => break,
                other => drop(other?),
            }
            rates.anew.add(prepared + started.elapsed());
        }
        let news = hunt.learn(input.clone(), &met);
        if news.kept && hunt.tried() > 1 {
            corpus.keep(&input, &how, hunt.tried(), &sound)?;
        }
        if let Some(fault) = news.found {
            let find = save(&fault, &input, &met, args, &how, &sound, &corpus, global)?;
            find.tell(&mut out, global)?;
            finds.push(find);
        }
        if global.verbose && told.elapsed() >= Duration::from_secs(5) {
            told = Instant::now();
            tell::note(&report::progress(&hunt, &rates));
        }
    }
    let end = report::End {
        hunt: &hunt,
        rates: &rates,
        began_with,
        counts,
        kernels: victims.started(),
        seed: args.seed,
        took: began.elapsed(),
    };
    end.tell(&mut out, &corpus, global)?;
    out.flush()?;
    if interrupt::requested() {
        return Err(Failure::interrupted());
    }
    Ok(match finds.is_empty() {
        true => 0,
        false => SOME_FAILED,
    })
}

/// Makes it small, and saves it.
#[allow(clippy::too_many_arguments)]
fn save(
    fault: &str,
    input: &Input,
    met: &Met,
    args: &Args,
    how: &How,
    sound: &Sparse,
    corpus: &Corpus,
    global: &Global,
) -> Result<Find> {
    let mut victims = Victims::new(how, sound, args.hang, global);
    // What hangs takes as long each time.
    let tries = match met {
        Met::Hang(_) => TRIES / 60,
        _ => TRIES,
    };
    let least = match smallest(sound, input, fault, args.warn, tries, &mut victims) {
        // What is there is kept as it is.
        Err(_) if interrupt::requested() => None,
        least => least?,
    };
    let alone = least.is_some();
    let input = least.as_ref().unwrap_or(input);
    let mut reproducer = Reproducer::of(how);
    reproducer.fault = Some(fault.into());
    reproducer.calls.clone_from(&input.calls);
    let words = match met {
        Met::Outcome(outcome) => outcome.died.clone().unwrap_or_default(),
        _ => String::new(),
    };
    let file = corpus.find(fault, &reproducer, &input.image, &words)?;
    Ok(Find::new(fault, file, alone, input, sound))
}

fn replay(file: &Path, args: &Args, global: &Global) -> Result<u8> {
    let fail = |path: &Path, e: std::io::Error| match e.raw_os_error() {
        Some(_) => Failure::of_host(path, &e),
        None => Failure::image(format!("{}: {e}", path.display())),
    };
    let read = Reproducer::load(file).map_err(|e| fail(file, e))?;
    let Some(image) = read.image() else {
        let text = format!(
            "{}: names no image: it is an input, not a find",
            file.display()
        );
        return Err(Failure::image(text));
    };
    let damaged = Sparse::load(image).map_err(|e| fail(image, e))?;
    let how = How {
        kernel: kernel(global)?,
        memory: global.memory.unwrap_or(MEMORY),
        fstype: read.fstype.clone(),
        options: global.options.clone().unwrap_or(read.options.clone()),
        read_only: read.read_only,
    };
    // Nothing is on the disk but what is damaged.
    let nothing = Sparse::empty(damaged.len());
    let mut victims = Victims::new(&how, &nothing, args.hang, global).anew();
    let met = victims.meet(&damaged.differing(&nothing), &read.calls)?;
    let warns = args.warn
        || read
            .fault
            .as_deref()
            .is_some_and(|f| f.starts_with("WARNING"));
    let found = fault(&met, &read.calls, warns);
    let mut out = Output::new();
    report::replayed(&mut out, &read, found.as_deref(), &met, global)?;
    out.flush()?;
    Ok(match found {
        Some(_) => SOME_FAILED,
        None => 0,
    })
}
