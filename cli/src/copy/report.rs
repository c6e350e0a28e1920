//! What became of a copy: counts, what could not be kept, what failed.

mod failed;

use super::progress::Progress;
use crate::failure::{remedy, Failure, SOME_FAILED};
use crate::names;
use crate::sys::{Errno, Kind};
use crate::tell;
use failed::Failed;
use serde_json::{json, Map, Value};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// Something about a file that the destination does not have now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    Owner,
    SpecialBits,
    Mode,
    Times,
    ExactTimes,
    Xattr,
    Acl,
    Capability,
    HardLink,
    Symlink,
    Device,
    Special,
    Flags,
    Project,
    Reflink,
    Subvolume,
    Name,
    Told,
}

impl Loss {
    const ALL: [Loss; 18] = [
        Loss::Owner,
        Loss::SpecialBits,
        Loss::Mode,
        Loss::Times,
        Loss::ExactTimes,
        Loss::Xattr,
        Loss::Acl,
        Loss::Capability,
        Loss::HardLink,
        Loss::Symlink,
        Loss::Device,
        Loss::Special,
        Loss::Flags,
        Loss::Project,
        Loss::Reflink,
        Loss::Subvolume,
        Loss::Name,
        Loss::Told,
    ];

    /// Warnings of this kind that are printed before they are only counted. Who is not
    /// root loses the owner of every file, and a FAT modes and odd seconds: one example
    /// will do.
    fn shown(self) -> u64 {
        match self {
            Loss::Owner | Loss::Mode | Loss::ExactTimes => 1,
            _ => 10,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Loss::Owner => "owner",
            Loss::SpecialBits => "set-user-ID or set-group-ID bit",
            Loss::Mode => "mode",
            Loss::Times => "times",
            Loss::ExactTimes => "exact times",
            Loss::Xattr => "extended attribute",
            Loss::Acl => "access control list",
            Loss::Capability => "capabilities",
            Loss::HardLink => "hard link",
            Loss::Symlink => "symlink",
            Loss::Device => "device node",
            Loss::Special => "fifo or socket",
            Loss::Flags => "flags",
            Loss::Project => "project",
            Loss::Reflink => "reflink",
            Loss::Subvolume => "subvolume",
            Loss::Name => "end of its name",
            Loss::Told => "something",
        }
    }

    fn of_xattr(name: &[u8]) -> Loss {
        match name {
            b"security.capability" => Loss::Capability,
            n if n.starts_with(b"system.posix_acl") => Loss::Acl,
            _ => Loss::Xattr,
        }
    }
}

struct Lost {
    loss: Loss,
    path: Vec<u8>,
    detail: Vec<u8>,
    error: Errno,
}

#[derive(Default)]
struct Lists {
    losses: Vec<Lost>,
    counts: [u64; Loss::ALL.len()],
    failed: Failed,
}

pub struct Report {
    progress: Progress,
    verbose: bool,
    quiet: bool,
    lists: Mutex<Lists>,
    files: AtomicU64,
    directories: AtomicU64,
    links: AtomicU64,
    others: AtomicU64,
    bytes: AtomicU64,
    by_host: AtomicU64,
    skipped: AtomicU64,
    /// The last file that came in pieces and was given up, by its number.
    given_up: AtomicU64,
    stopped: AtomicBool,
}

impl Report {
    pub fn new(progress: Progress, verbose: bool, quiet: bool) -> Self {
        Report {
            progress,
            verbose,
            quiet,
            lists: Mutex::default(),
            files: AtomicU64::new(0),
            directories: AtomicU64::new(0),
            links: AtomicU64::new(0),
            others: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            by_host: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, Lists> {
        self.lists
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Counts a finished file.
    pub fn done(&self, kind: Kind, path: &[u8]) {
        let counter = match kind {
            Kind::File => &self.files,
            Kind::Directory => &self.directories,
            _ => &self.others,
        };
        counter.fetch_add(1, Relaxed);
        self.tell(path);
    }

    pub fn linked(&self, path: &[u8]) {
        self.links.fetch_add(1, Relaxed);
        self.tell(path);
    }

    /// Counts a file that was there already (--no-clobber).
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// As [`Self::wrote`], of bytes that came from the image's file directly.
    pub fn wrote_by_host(&self, bytes: u64) {
        self.read_by_host(bytes);
        self.wrote(bytes);
    }

    /// They come from the image's file directly; writing them is told apart.
    pub fn read_by_host(&self, bytes: u64) {
        self.by_host.fetch_add(bytes, Relaxed);
    }

    pub fn update_progress(&self) {
        self.progress
            .update(self.files.load(Relaxed), self.bytes.load(Relaxed));
    }

    pub fn finish_progress(&self) {
        self.progress
            .finish(self.files.load(Relaxed), self.bytes.load(Relaxed));
    }

    fn tell(&self, path: &[u8]) {
        if self.verbose {
            self.progress.print(&tell::line_of_file("", path));
        }
    }

    /// Something had to be left behind: one warning.
    pub fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        let what = loss.what();
        let what = match detail {
            [] => what.into(),
            detail => format!("{what} {}", names::plain(detail)),
        };
        let text = format!("{}: {what} not kept: {error}", names::plain(path));
        self.lost(loss, path, detail, error, &text);
    }

    /// A program that makes images left something out, and says so.
    pub fn lose_as_told(&self, program: &str, line: &str) {
        let text = format!("{program}: {}", names::plain(line.as_bytes()));
        let error = Errno(libc::EOPNOTSUPP);
        self.lost(Loss::Told, b"/", line.as_bytes(), error, &text);
    }

    fn lost(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno, text: &str) {
        let mut lists = self.lists();
        let count = &mut lists.counts[loss as usize];
        *count += 1;
        if !self.quiet && (self.verbose || *count <= loss.shown()) {
            self.progress.print(&tell::line_of_warning(text));
        }
        lists.losses.push(Lost {
            loss,
            path: path.into(),
            detail: detail.into(),
            error,
        });
    }

    /// The same of an extended attribute.
    pub fn lose_xattr(&self, path: &[u8], name: &CStr, error: Errno) {
        let name = name.to_bytes();
        match Loss::of_xattr(name) {
            Loss::Xattr => self.lose(Loss::Xattr, path, name, error),
            known => self.lose(known, path, b"", error),
        }
    }

    pub fn error(&self, path: &[u8], error: Errno) {
        self.failed(path, remedy(path, error), Some(error));
    }

    /// The host could not read a file's data.
    pub fn unreadable(&self, path: &[u8], error: Errno) {
        let text = format!("the image cannot be read: {}", remedy(path, error));
        self.failed(path, text, Some(error));
    }

    pub fn error_text(&self, path: &[u8], text: String) {
        self.failed(path, text, None);
    }

    /// Something was not copied; the first few of each kind are told at once.
    pub fn failed(&self, path: &[u8], text: String, error: Option<Errno>) {
        let what = format!("{}: {text}", names::plain(path));
        let failure = Failure::new(SOME_FAILED, what).about(path);
        let line = tell::line_of_failure(&failure.errno(error));
        let shown = self.lists().failed.add(path, text, error);
        if shown || self.verbose {
            self.progress.print(&line);
        }
    }

    /// Nothing more is written, and what is still to come is only named.
    pub fn stop(&self, why: Errno) {
        self.lists().failed.stop(why);
        self.stopped.store(true, Relaxed);
    }

    pub fn has_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Something that came after the stop.
    pub fn untried(&self, path: &[u8]) {
        self.lists().failed.add_untried(path);
        if self.verbose {
            let failure = Failure::new(SOME_FAILED, format!("{}: not tried", names::plain(path)));
            self.progress
                .print(&tell::line_of_failure(&failure.about(path)));
        }
    }

    /// Whoever reads need not go on with this file.
    pub fn give_up(&self, number: u64) {
        self.given_up.store(number, Relaxed);
    }

    pub fn has_given_up(&self, number: u64) -> bool {
        self.given_up.load(Relaxed) == number
    }

    pub fn has_errors(&self) -> bool {
        !self.lists().failed.is_empty()
    }

    pub fn has_losses(&self) -> bool {
        !self.lists().losses.is_empty()
    }

    /// The errors and warnings that were only counted.
    pub fn summarize(&self) {
        let lists = self.lists();
        for line in lists.failed.summary(self.verbose) {
            tell::failure(&Failure::new(SOME_FAILED, line));
        }
        if self.quiet || self.verbose {
            return;
        }
        for loss in Loss::ALL {
            let count = lists.counts[loss as usize];
            if count > loss.shown() {
                let more = count - loss.shown();
                let what = loss.what();
                tell::warning(&format!("{what}: {more} more not kept (-v shows each)"));
            }
        }
        let owner = |l: &Lost| l.loss == Loss::Owner && l.error == Errno(libc::EPERM);
        if lists.losses.iter().any(owner) {
            tell::note("only root can keep owners; see --owner");
        }
    }

    pub fn json(&self, interrupted: bool) -> Value {
        let lists = self.lists();
        let losses = lists.losses.iter().map(|l| {
            let mut object = Map::new();
            names::put(&mut object, "path", &l.path);
            object.insert("what".into(), l.loss.what().into());
            if !l.detail.is_empty() {
                names::put(&mut object, "detail", &l.detail);
            }
            object.insert("errno".into(), l.error.0.into());
            object.insert("why".into(), l.error.to_string().into());
            Value::from(object)
        });
        json!({
            "files": self.files.load(Relaxed),
            "directories": self.directories.load(Relaxed),
            "hard_links": self.links.load(Relaxed),
            "others": self.others.load(Relaxed),
            "bytes": self.bytes.load(Relaxed),
            "bytes_by_host": self.by_host.load(Relaxed),
            "skipped": self.skipped.load(Relaxed),
            "interrupted": interrupted,
            "losses": losses.collect::<Vec<_>>(),
            "errors": lists.failed.json(),
            "stopped": lists.failed.stopped().map(|why| why.to_string()),
        })
    }
}
