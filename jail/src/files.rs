//! Landlock: which files can be opened, which directories changed.

use crate::{Error, Jail};
use landlock::{
    Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    RestrictSelfAttr, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
    Scope, ABI,
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

/// The newest that we know; older hosts enforce what they can.
const KNOWN: ABI = ABI::V7;

/// Whether the host keeps this process from files that it does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// All rules hold.
    Fully,
    /// An older Landlock (before Linux 6.12): some rights are not known to it.
    Partly,
    /// The host has no Landlock that serves. What the system calls allow holds.
    No,
}

/// Threads of [`spawn_fenced`], and those of them that are not yet fenced.
static FENCED: AtomicUsize = AtomicUsize::new(0);
static STARTING: AtomicUsize = AtomicUsize::new(0);
/// What the first call of [`restrict`] came to.
static HELD: Mutex<Option<Files>> = Mutex::new(None);

/// Start a thread that can open no file at all, so that [`Jail::enter`] need not
/// mind it. Where there is no Landlock it is a thread like any other.
pub fn spawn_fenced(
    builder: Builder,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    struct Gone;
    impl Drop for Gone {
        fn drop(&mut self) {
            FENCED.fetch_sub(1, SeqCst);
        }
    }
    if threads() == 1 {
        // After a fork: those that were counted are its parent's.
        FENCED.store(0, SeqCst);
        STARTING.store(0, SeqCst);
    }
    FENCED.fetch_add(1, SeqCst);
    let gone = Gone;
    STARTING.fetch_add(1, SeqCst);
    let spawned = builder.spawn(move || {
        let _gone = gone;
        if let Ok(rules) = rules(&Jail::new()) {
            let _ = rules.restrict_self();
        }
        crate::privileges::none();
        STARTING.fetch_sub(1, SeqCst);
        work();
    });
    if spawned.is_err() {
        STARTING.fetch_sub(1, SeqCst);
    }
    spawned
}

fn wrong(e: impl std::fmt::Display) -> Error {
    Error::Landlock(e.to_string())
}

fn rules(jail: &Jail) -> Result<RulesetCreated, Error> {
    let mut set = Ruleset::default();
    if !jail.trees.is_empty() {
        // The first Landlock has no hard links and renames between directories:
        // better none of it than copies that fail.
        set = set
            .set_compatibility(CompatLevel::SoftRequirement)
            .handle_access(AccessFs::Refer)
            .map_err(wrong)?
            .set_compatibility(CompatLevel::BestEffort);
    }
    set = set
        .handle_access(AccessFs::from_all(KNOWN))
        .map_err(wrong)?;
    if !jail.network {
        set = set
            .handle_access(AccessNet::from_all(KNOWN))
            .map_err(wrong)?;
    }
    let set = set.scope(Scope::from_all(KNOWN)).map_err(wrong)?;
    set.create().map_err(wrong)
}

pub fn restrict(jail: &Jail) -> Result<Files, Error> {
    let mut held = HELD.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(files) = *held {
        return Ok(files);
    }
    let mut set = rules(jail)?
        .set_compatibility(CompatLevel::BestEffort)
        .all_threads(true)
        .map_err(wrong)?;
    // A device is asked for its sector size; the filter says what else it is not.
    let mut read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::IoctlDev;
    if jail.exec {
        read |= AccessFs::Execute;
    }
    let files = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let create = files | AccessFs::MakeReg;
    let tree = AccessFs::from_write(KNOWN) | AccessFs::ReadDir;
    // Devices are made, not used.
    let tree = tree & !BitFlags::from(AccessFs::IoctlDev);
    let lists = [
        (&jail.read, read),
        (&jail.write, files | AccessFs::ReadDir),
        (&jail.create, create | AccessFs::ReadDir),
        (&jail.trees, tree),
    ];
    for (list, access) in lists {
        for path in list {
            set = allow(set, path, access)?;
        }
    }
    let status = set.restrict_self().map_err(wrong)?;
    if status.ruleset != RulesetStatus::NotEnforced && !status.all_threads {
        others()?;
    }
    Ok(*held.insert(match status.ruleset {
        RulesetStatus::FullyEnforced => Files::Fully,
        RulesetStatus::PartiallyEnforced => Files::Partly,
        RulesetStatus::NotEnforced => Files::No,
    }))
}

fn allow(
    set: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Error> {
    let fail = |e| Error::Path(path.into(), e);
    // First, because it says why it is not there.
    let is_dir = path.metadata().map_err(fail)?.is_dir();
    let fd = PathFd::new(path).map_err(|e| fail(std::io::Error::other(e)))?;
    let access = match is_dir {
        true => access,
        false => access & AccessFs::from_file(KNOWN),
    };
    set.add_rule(PathBeneath::new(fd, access)).map_err(wrong)
}

/// All threads of this process; 0 if the host does not tell.
fn threads() -> usize {
    // A directory for each, and two names of its own.
    let tasks = Path::new("/proc/self/task").metadata();
    tasks.map_or(0, |tasks| (tasks.nlink() as usize).saturating_sub(2))
}

/// Whether threads run that this one's restrictions do not cover.
fn others() -> Result<(), Error> {
    // After a fork this one is alone, whatever was counted before.
    while STARTING.load(SeqCst) != 0 && threads() > 1 {
        std::thread::yield_now();
    }
    let threads = threads();
    let ours = 1 + FENCED.load(SeqCst);
    match threads > ours {
        true => Err(Error::Threads(threads - ours)),
        false => Ok(()),
    }
}
