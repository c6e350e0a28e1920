//! Suites that others wrote, by `tane run`: unit by unit, with lists of the failures that
//! are known. A test that fails and is not listed fails the run, and so does one that is
//! listed and does not fail: the lists only shrink.

pub mod bash;
pub mod busybox;
pub mod debian;
pub mod expected;
mod foreign;
pub mod git;
pub mod go;
pub mod kselftest;
pub mod pjdfstest;
pub mod posix;
pub mod report;
mod root;
pub mod sqlite;

use crate::common::run::on;
use crate::common::*;
use foreign::{foreign, names, units};
use root::{image, runs, users};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Instant;

pub struct Suite {
    pub name: &'static str,
    /// What it is and where it is from.
    pub about: &'static str,
    /// Makes the tree `root`, with a program /suite/run that runs a unit, and says which
    /// units there are; or why there are none.
    pub make: fn(&Scratch, Extent) -> Result<Vec<String>, String>,
    /// What of it every run of the tests has time for: units, or directories of units.
    pub part: &'static [&'static str],
    /// Why its list is none of the version that is here; None: it is.
    pub other_version: fn() -> Option<String>,
    /// The kernel image that they run on here.
    pub kernel: &'static str,
    /// What a unit's output says of its tests.
    pub read: fn(&str) -> Outcome,
}

/// How much of a suite runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Extent {
    /// What every run of the tests has time for.
    Part,
    All,
}

/// What became of a unit's tests.
#[derive(Default)]
pub struct Outcome {
    pub passed: usize,
    pub skipped: usize,
    /// The names of those that failed, with what they said.
    pub failed: BTreeMap<String, String>,
}

/// Where a unit is run.
#[derive(Clone, Copy)]
pub enum Place {
    Here,
    /// On the host's kernel, in namespaces of its own, as the same user.
    Host,
}

pub const SUITES: &[&Suite] = &[
    &posix::SUITE,
    &go::SUITE,
    &kselftest::SUITE,
    &bash::SUITE,
    &busybox::SUITE,
    &git::SUITE,
    &pjdfstest::SUITE,
    &sqlite::SUITE,
];

/// No unit takes longer.
const LIMIT_SECONDS: u32 = 900;

impl Suite {
    /// The outcomes of all units by their names, or why it cannot be run.
    pub fn outcomes(
        &self,
        s: &Scratch,
        units: &[String],
        place: Place,
        jobs: usize,
    ) -> BTreeMap<String, Outcome> {
        let left = Mutex::new(units.iter());
        let done = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| loop {
                    let next = left.lock().expect("no panic").next();
                    let Some(unit) = next else { break };
                    let began = Instant::now();
                    let outcome = self.outcome(unit, &run(s, self.kernel, unit, place));
                    let took = began.elapsed().as_secs_f32();
                    eprintln!("{}: {unit}: {took:.1} s", self.name);
                    done.lock().expect("no panic").insert(unit.clone(), outcome);
                });
            }
        });
        done.into_inner().expect("no panic")
    }

    /// A unit that ended otherwise than its tests say has failed itself.
    fn outcome(&self, unit: &str, done: &Output) -> Outcome {
        let said = text(&done.stdout);
        let mut outcome = (self.read)(&said);
        let ran = outcome.passed + outcome.skipped + outcome.failed.len();
        let good = done.status.success() && ran > 0;
        if !good && (outcome.failed.is_empty() || done.status.code() != Some(1)) {
            let err = text(&done.stderr);
            let last = said.lines().chain(err.lines()).last().unwrap_or_default();
            let why = format!("the unit ended with {}: {last}", done.status);
            outcome.failed.insert(String::new(), why);
        }
        let full = |name: String| match name.is_empty() {
            true => unit.to_owned(),
            false => format!("{unit}/{name}"),
        };
        outcome.failed = std::mem::take(&mut outcome.failed)
            .into_iter()
            .map(|(name, why)| (full(name), why))
            .collect();
        outcome
    }
}

fn run(s: &Scratch, kernel: &str, unit: &str, place: Place) -> Output {
    let mut command = match place {
        Place::Here => {
            let mut command = on(s, kernel);
            let limit = LIMIT_SECONDS.to_string();
            command.args(["run", "--root", "suite.img", "--memory", "1G"]);
            command.args(["--time-limit", &limit, "--"]);
            command
        }
        Place::Host => host(s),
    };
    command
        .args(["/suite/run", unit])
        .output()
        .expect("a program")
}

/// What starts a program of `root` on the host; nobody may set the host's clock.
fn host(s: &Scratch) -> Command {
    let script = "mount --rbind /dev root/dev && mount -t proc proc root/proc && \
                  mount --rbind /sys root/sys && mount -t tmpfs tmp root/tmp && \
                  mkdir -p root/dev/shm && busybox ifconfig lo up && \
                  exec setpriv --bounding-set -sys_time env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
                  chroot root \"$@\"";
    let mut command = s.tool("timeout");
    command.args(["-s", "KILL", &LIMIT_SECONDS.to_string(), "unshare"]);
    // SAFETY: it only tells.
    if unsafe { libc::geteuid() } != 0 {
        command.arg("-r");
    }
    command.args(["-m", "-p", "-f", "-i", "-n", "--kill-child"]);
    command.args(["sh", "-c", script, "sh"]);
    command
}
