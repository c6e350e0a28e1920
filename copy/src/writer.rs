//! The writing half of a copy: makes what the reader describes.
//!
//! Nothing partial is ever found under its final name. In a directory that was
//! there before, a file grows under a temporary name and gets its own by rename.
//! A new directory itself has a temporary name until it is complete, so that
//! what is in it needs no renames; that is a quarter of the time. Directories
//! are private (0700) while they fill up.
//! Nothing is reached but by descriptor and a single name without symlinks.

mod directories;
mod entries;
mod failures;
mod files;
mod ranges;
mod seal;
mod share;

use super::batch::{Batch, Head, LinkId, Op, Span};
use super::finish::Finish;
use super::loss::Loss;
use super::observer::Observer;
use super::sharing::{SharerId, Shares};
use super::Settings;
use directories::Frame;
use files::Open;
use ranges::Way;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU32, Ordering};
use tane_linux::{is_safe_name, strips_dots, Errno, Fd, Flags, Stat, Sys, Xattrs};

/// Temporary names that this process has given.
static TEMPORARIES: AtomicU32 = AtomicU32::new(0);

pub struct Writer<'a, 'r> {
    sys: Sys<'a>,
    report: &'r dyn Observer,
    settings: Settings,
    finish: Finish<'r>,
    frames: Vec<Frame<'a>>,
    /// Lengths of the paths of directories that could not be made, outside in: what
    /// is in them is only named.
    omitted: Vec<usize>,
    open: Option<Open<'a>>,
    /// How many files came in pieces.
    begun: u64,
    /// Something found no room.
    short: bool,
    /// How many small things in a row found none.
    strained: u32,
    links: HashMap<LinkId, Vec<u8>>,
    /// Symlinks, devices and the like that there are none of here, by path.
    lost: HashSet<Vec<u8>>,
    /// Files whose blocks others have too, by path.
    sharers: HashMap<SharerId, Vec<u8>>,
    /// What the file that comes next shares.
    shares: Option<Shares>,
    /// Why no blocks can be shared here.
    unshared: Option<Errno>,
    /// Names end before their last dots here.
    strips_dots: bool,
    /// Flags that come last of all, by path.
    late: Vec<(Vec<u8>, Flags)>,
    /// The names in the first directory that are the copy's, if not all are,
    only: Option<Vec<CString>>,
    /// and whether that itself is.
    adopts: bool,
    /// How ranges of the host's files are copied.
    way: Way,
    buffer: Vec<u8>,
    process: u32,
    path: Vec<u8>,
    pub fatal: bool,
}

type Result<T> = std::result::Result<T, Errno>;

impl<'a, 'r> Writer<'a, 'r> {
    /// Writes into `dir`, which the user calls `shown`.
    pub fn new(dir: Fd<'a>, shown: &[u8], report: &'r dyn Observer, settings: Settings) -> Self {
        let sys = dir.sys();
        if sys.0.is_ours() {
            sys.umask(0);
        }
        let mut writer = Writer {
            sys,
            report,
            settings,
            finish: Finish::new(report, settings.owner),
            frames: Vec::new(),
            omitted: Vec::new(),
            open: None,
            begun: 0,
            short: false,
            strained: 0,
            links: HashMap::new(),
            lost: HashSet::new(),
            sharers: HashMap::new(),
            shares: None,
            // The jail does not let copies on the host be read again.
            unshared: (!sys.0.is_ours()).then_some(Errno(libc::EOPNOTSUPP)),
            strips_dots: strips_dots(&dir),
            late: Vec::new(),
            only: None,
            adopts: true,
            way: Way::of(sys, settings.sparse),
            buffer: Vec::new(),
            process: std::process::id(),
            path: shown.to_vec(),
            fatal: false,
        };
        let acl = Finish::has_default_acl(&dir);
        writer.push(dir, settings.empty, None, acl);
        writer
    }

    /// If there are names, nothing else in the first directory is made or changed; that
    /// itself only if the copy `adopts` it.
    pub fn only(mut self, names: Option<Vec<CString>>, adopts: bool) -> Self {
        self.only = names;
        self.adopts = adopts;
        self
    }

    fn is_only(&self, op: &Op, name: Option<&CStr>) -> bool {
        match (&self.only, name) {
            _ if self.frames.len() > 1 => true,
            _ if matches!(op, Op::Adopt(_)) => self.adopts,
            (Some(only), Some(name)) => only.iter().any(|own| **own == *name),
            (None, _) | (_, None) => true,
        }
    }

    /// Performs a batch; stops early if nothing more can be written.
    pub fn perform(&mut self, batch: &Batch, stop: impl Fn() -> bool) {
        for op in &batch.ops {
            // A file is finished in the directory that it was begun in, or not at all.
            if self.open.is_some() && !continues(op) {
                self.abort();
            }
            // Of a file in pieces the reader says that it ends early; of ranges it
            // may have sent all before.
            let is_range = matches!(op, Op::Range(..));
            if self.fatal || (self.open.is_none() || is_range) && stop() {
                self.abort();
                return;
            }
            self.begun += u64::from(matches!(op, Op::Begin(_)));
            if let Some(name) = name_of(op) {
                self.enter_path(batch.name(name));
            }
            if self.omit(op) {
                continue;
            }
            match self.one(batch, op) {
                Ok(()) if name_of(op).is_some() || matches!(op, Op::End) => {
                    self.strained = 0;
                    self.tell_name(op);
                }
                Ok(()) => {}
                Err(e) => self.failed(op, e),
            }
            let inside = matches!(op, Op::Enter(_) | Op::Pass(_) | Op::Leave);
            if !inside && self.open.is_none() {
                self.path.truncate(self.dir_len());
            }
        }
        self.report.update_progress();
    }

    /// Whether what was made has a shorter name than it was to get.
    fn tell_name(&self, op: &Op) {
        let is_made = !matches!(op, Op::End | Op::Pass(_) | Op::Unreadable(..) | Op::Omit(_));
        if self.strips_dots && is_made && self.path.ends_with(b".") {
            let error = Errno(libc::EOPNOTSUPP);
            self.report.lose(Loss::Name, &self.path, b"", error);
        }
    }

    /// Leaves all directories as they should be, whatever happened.
    pub fn end(mut self) {
        self.abort();
        while self.frames.len() > 1 {
            self.leave();
        }
        self.seal_late();
        self.leave();
    }

    fn enter_path(&mut self, name: &CStr) {
        self.path.truncate(self.dir_len());
        if !matches!(self.path.last(), None | Some(b'/')) {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
    }

    fn one(&mut self, batch: &Batch, op: &Op) -> Result<()> {
        let name = name_of(op).map(|name| batch.name(name));
        if name.is_some_and(|name| !is_safe_name(name.to_bytes())) {
            return Err(Errno(libc::EINVAL));
        }
        if !self.is_only(op, name) {
            return Err(Errno(libc::EPERM));
        }
        match op {
            Op::Enter(head) => {
                let keep = self.settings.no_clobber;
                let wanted = wanted(batch, head);
                self.enter(batch.name(head.name), wanted, keep)
            }
            Op::Pass(name) => self.pass(batch.name(*name)),
            Op::Map(_) => Ok(()),
            Op::Shares(shares) => {
                self.shares = Some(Shares::clone(shares));
                Ok(())
            }
            Op::Adopt(head) => {
                let wanted = wanted(batch, head);
                if let Some(frame) = self.frames.last_mut() {
                    frame.wanted = Some(wanted);
                }
                Ok(())
            }
            Op::Leave => {
                self.leave_below_first();
                Ok(())
            }
            Op::File(head, data) => self.file(batch, head, batch.data(*data)),
            Op::Unreadable(_, e) => {
                self.report.unreadable(&self.path, *e);
                Ok(())
            }
            Op::Omit(_) => Ok(()),
            Op::Begin(head) => {
                let shares = self.shares.take();
                self.open = self.create(batch, head)?;
                if let Some(open) = &mut self.open {
                    open.shares = shares;
                }
                Ok(())
            }
            Op::Piece(at, data) => {
                let Some(mut open) = self.open.take() else {
                    return Ok(());
                };
                match self.data(&mut open, *at, batch.data(*data)) {
                    Ok(()) => {
                        self.open = Some(open);
                        self.report.update_progress();
                        Ok(())
                    }
                    Err(e) => self.close(open, Err(e)),
                }
            }
            Op::Range(at, range) => self.range(*at, range),
            Op::Clone(raw) => self.clone_of(&Fd::new(self.sys, *raw)),
            Op::Length(length) => {
                if let Some(open) = &mut self.open {
                    open.stat.size = *length;
                }
                Ok(())
            }
            Op::End => match self.open.take() {
                Some(open) => self.close(open, Ok(())),
                None => Ok(()),
            },
            Op::Abort => {
                self.abort();
                Ok(())
            }
            Op::Symlink(head, target) => self.symlink(batch, head, *target),
            Op::Node(head) => self.node(batch, head),
            Op::Link(name, id) => self.link(batch.name(*name), *id),
            Op::LinkTo(name, first) => {
                let first = self.path_below(batch.bytes(*first));
                self.link_to(batch.name(*name), &first).map(drop)
            }
        }
    }

    /// What entries made by an archive are called in `links` and `late`.
    fn path_below(&self, path: &[u8]) -> Vec<u8> {
        let base = self.frames.first().map_or(0, |f| f.path_len);
        let slash = !matches!(self.path[..base].last(), None | Some(b'/'));
        [if slash { &b"/"[..] } else { b"" }, path].concat()
    }

    fn is_missing(&self, name: &CStr) -> Result<bool> {
        match self.sys.lstat(&self.frame()?.fd, name) {
            Ok(_) => Ok(false),
            Err(Errno(libc::ENOENT)) => Ok(true),
            Err(e) => Err(e),
        }
    }

    fn temporary(&mut self) -> CString {
        let number = TEMPORARIES.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!(".tane-{}-{number}.part", self.process);
        CString::new(name).unwrap_or_default()
    }

    /// Is the name taken, and must it stay as it is?
    fn is_kept(&self, name: &CStr) -> Result<bool> {
        let frame = self.frame()?;
        if !self.settings.no_clobber || frame.fresh || self.is_missing(name)? {
            return Ok(false);
        }
        self.report.skip();
        Ok(true)
    }

    /// Is there a disk image of that name on the host, which nobody said to replace?
    fn is_guarded(&self, name: &CStr) -> Result<bool> {
        let frame = self.frame()?;
        if self.sys.0.is_ours() || frame.fresh || self.is_missing(name)? {
            return Ok(false);
        }
        let refusal = self.report.refusal(&self.below_base());
        if let Some(text) = &refusal {
            self.report.error_text(&self.path, text.clone());
        }
        Ok(refusal.is_some())
    }
}

fn wanted(batch: &Batch, head: &Head) -> (Stat, Xattrs) {
    (
        head.stat,
        Xattrs {
            packed: batch.bytes(head.xattrs).to_vec(),
        },
    )
}

/// Whether it is about the file that was begun.
fn continues(op: &Op) -> bool {
    matches!(
        op,
        Op::Piece(..) | Op::Range(..) | Op::Clone(_) | Op::Length(_) | Op::End | Op::Abort
    )
}

fn name_of(op: &Op) -> Option<Span> {
    match op {
        Op::Enter(h) | Op::File(h, _) | Op::Begin(h) | Op::Symlink(h, _) | Op::Node(h) => {
            Some(h.name)
        }
        Op::Link(name, _)
        | Op::LinkTo(name, _)
        | Op::Pass(name)
        | Op::Unreadable(name, _)
        | Op::Omit(name) => Some(*name),
        _ => None,
    }
}
