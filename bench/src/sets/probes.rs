//! Finding one of many probes by its address, which kprobes do whenever one is hit: the
//! structures alone (kernel/arch/tane/probes, in the image default), the kernel's own
//! probes with each of them (the image of kernel/experiments/kprobe-lookup), and both
//! beside what an article on the XArray says of that.

use crate::asked::{ask, prepare, Answer};
use crate::kernel::{boot, boot_with, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::Report;
use crate::sample::Sample;
use crate::target::Target;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const STRUCTURES_FILE: &str = "/proc/tane-probes";
const KPROBES_FILE: &str = "/proc/tane-kprobes";
const COUNTS: [u32; 5] = [64, 512, 2048, 8192, 20_000];
const MANY: u32 = 20_000;
const MEMORY: &str = "memory";
/// As the file has them, and what they are of.
const PARTS: [(&str, &str); 7] = [
    ("uniform", "finding any of them: time for one"),
    ("hot", "finding one of sixteen of them: time for one"),
    ("miss", "finding none: time for one"),
    (
        "during",
        "finding one while another CPU registers: time for one",
    ),
    ("register", "registering: time for one"),
    ("unregister", "taking out: time for one"),
    (MEMORY, "memory beside the probes: bytes for one"),
];
/// As the kernel calls them, and people.
const STRUCTURES: [(&str, &str); 6] = [
    ("table64", "64 lists"),
    ("table512", "512 lists"),
    ("xarray", "XArray"),
    ("xarray-address", "XArray, addresses"),
    ("xarray-cache", "XArray and cache"),
    ("rhashtable", "rhashtable"),
];
const KPROBES: [(&str, &str); 6] = [
    ("uniform", "finding any of them: time for one"),
    ("hot", "finding one of sixteen of them: time for one"),
    ("miss", "finding none: time for one"),
    ("hit", "what a probe that is hit adds to a call"),
    ("register", "registering: time for one"),
    ("unregister", "taking out: time for one"),
];
/// The one that takes longest is the last.
const INDEXES: [(&str, &str); 5] = [
    ("xarray", "XArray"),
    ("xarray-cache", "XArray and cache"),
    ("rhashtable", "rhashtable"),
    ("table512", "512 lists"),
    ("none", "64 lists"),
];
/// Of these two, what the article has: so many times what a table of 512 lists takes.
const ARTICLE: [(&str, f64); 2] = [("xarray", 1.08), ("xarray-cache", 0.9)];
const ARTICLE_MEMORY: f64 = 10.0;
const ARTICLE_NAME: &str = "the article";

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for (part, what) in PARTS {
        for count in COUNTS {
            let unit = if part == MEMORY { "B" } else { "ns" };
            let name = format!("probes-{part}-{count}");
            let what = format!("{count} probes in a structure: {what}");
            let row = Promise::new(name, Set::Probes, what, unit, Target::None);
            rows.push(row.at(part, f64::from(count), 0));
        }
    }
    for (part, what) in KPROBES {
        let name = format!("probes-kernel-{part}");
        let what = format!("{MANY} kprobes: {what}");
        rows.push(Promise::new(name, Set::Probes, what, "ns", Target::None));
    }
    for (structure, _) in ARTICLE {
        let name = format!("probes-article-{structure}");
        let who = people(structure);
        let what = format!("{who}, finding any of {MANY} probes: 512 lists take 1");
        rows.push(Promise::new(name, Set::Probes, what, "times", Target::None));
    }
    let what = format!("XArray and cache, {MANY} probes: more memory than 512 lists");
    let name = "probes-article-memory";
    rows.push(Promise::new(name, Set::Probes, what, "MB", Target::None));
    rows
}

fn people(structure: &str) -> &'static str {
    let found = STRUCTURES.iter().find(|(name, _)| *name == structure);
    found.map_or("", |(_, people)| people)
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let name = promise.name.strip_prefix("probes-").unwrap_or_default();
    match name.split_once('-') {
        Some(("kernel", part)) => kprobes(promise, part, paths, report),
        Some(("article", what)) => article(promise, what, paths, report),
        Some((part, count)) => {
            let count = count.parse().map_err(|_| "not a count")?;
            structures(promise, part, count, paths, report);
        }
        None => return Err("not a row of this set".into()),
    }
    Ok(())
}

fn structures(promise: &Promise, part: &str, count: u32, paths: &Paths, report: &mut Report) {
    let contestant = |(name, subject): (&'static str, &str)| {
        let part = part.to_owned();
        let mut runs = Runs::of(Of::Structure(name, count), paths);
        Contestant::new(subject, move || runs.next()?.one(&part))
    };
    let all = STRUCTURES.map(contestant).into();
    race(promise, report.runs, all, report);
}

/// The kernel's own probes, which take minutes with the lists that Linux has.
fn kprobes(promise: &Promise, part: &str, paths: &Paths, report: &mut Report) {
    let contestant = |(name, subject): (&'static str, &str)| {
        let part = part.to_owned();
        let mut runs = Runs::of(Of::Kprobes(name), paths);
        let once = move || {
            let answer = runs.next()?;
            match &part[..] {
                "hit" => Ok(answer.one("probed")? - answer.one("plain")?),
                part => answer.one(part),
            }
        };
        Contestant::new(subject, once).at_most(1)
    };
    let all = INDEXES.map(contestant).into();
    race(promise, report.runs, all, report);
}

/// What the article says, beside what came out: of structures, and of the kernel's probes.
fn article(promise: &Promise, what: &str, paths: &Paths, report: &mut Report) {
    let said = match ARTICLE.iter().find(|(name, _)| *name == what) {
        Some((_, times)) => *times,
        None => ARTICLE_MEMORY,
    };
    let sample = Sample::of(vec![said]);
    let note = if what == MEMORY { "at most" } else { "" };
    if let Some(sample) = sample {
        report.add_noted(promise, ARTICLE_NAME, note, sample);
    }
    let of = |who: Of| Runs::of(who, paths);
    let (name, lists) = match what {
        "xarray" => ("xarray", "table512"),
        _ => ("xarray-cache", "table512"),
    };
    let ratio = |part: &'static str, who: [Of; 2]| {
        let [mut mine, mut others] = who.map(of);
        move || Ok(mine.next()?.one(part)? / others.next()?.one(part)?)
    };
    let pair = |of: fn(&'static str) -> Of| [of(name), of(lists)];
    let structure = |name| Of::Structure(name, MANY);
    if what == MEMORY {
        let [mut mine, mut others] = pair(structure).map(of);
        let more = move || Ok((mine.next()?.of(MEMORY)?[0] - others.next()?.of(MEMORY)?[0]) / 1e6);
        let all = vec![Contestant::new("alone", more)];
        return race(promise, report.runs, all, report);
    }
    let all = vec![
        Contestant::new("alone", ratio("uniform", pair(structure))),
        Contestant::new("in kprobes", ratio("uniform", pair(Of::Kprobes))).at_most(1),
    ];
    race(promise, report.runs, all, report);
}

/// Whoever is measured.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
enum Of {
    Structure(&'static str, u32),
    Kprobes(&'static str),
}

/// All parts are measured in one go, which several rows want one of: run by run, each
/// has the same.
static DONE: LazyLock<Mutex<HashMap<Of, Vec<Arc<Answer>>>>> = LazyLock::new(Mutex::default);

struct Runs<'a> {
    of: Of,
    paths: &'a Paths,
    at: usize,
}

impl<'a> Runs<'a> {
    fn of(of: Of, paths: &'a Paths) -> Self {
        Self { of, paths, at: 0 }
    }

    fn next(&mut self) -> Result<Arc<Answer>, String> {
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = done.entry(self.of).or_default();
        if known.len() <= self.at {
            known.push(Arc::new(self.of.measure(self.paths)?));
        }
        let answer = known[self.at].clone();
        // What takes minutes is measured once.
        self.at += usize::from(matches!(self.of, Of::Structure(..)));
        Ok(answer)
    }
}

impl Of {
    /// By a kernel of its own.
    fn measure(self, paths: &Paths) -> Result<Answer, String> {
        match self {
            Self::Structure(name, count) => {
                let kernel = boot(paths, "default", 2, RAM)?;
                prepare(&kernel, STRUCTURES_FILE, "CONFIG_TANE_PROBES")?;
                ask(&kernel, STRUCTURES_FILE, &format!("{name} {count}\n"))
            }
            Self::Kprobes(name) => {
                // Linux's own lists are what every image with kprobes has.
                let image = if name == "none" { "lab" } else { "lab-probes" };
                let words = format!("quiet kprobe_index={name}");
                let kernel = boot_with(paths, image, |builder| {
                    builder.ram = RAM;
                    builder.cmdline = words;
                })?;
                prepare(
                    &kernel,
                    KPROBES_FILE,
                    "CONFIG_TANE_PROBES and CONFIG_KPROBES",
                )?;
                ask(&kernel, KPROBES_FILE, &format!("{MANY}\n"))
            }
        }
    }
}
