//! The steps of a resize. The first says what there is, each of the others makes one change,
//! the last looks again.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::programs::Tool;
use crate::session::Global;
use crate::session::{apart, declare, know_secrets, without_linux, Access, Needs, Target};
use crate::tools::place::{self, Change, Place};
use crate::tools::{check, online};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tane::ImagePath;

const RESIZE2FS: Tool = Tool {
    program: "resize2fs",
    package: "e2fsprogs",
};
const RESIZE_F2FS: Tool = Tool {
    program: "resize.f2fs",
    package: "f2fs-tools",
};
const NTFSRESIZE: Tool = Tool {
    program: "ntfsresize",
    package: "ntfs-3g",
};
/// Those of which programs change the size.
const BY_PROGRAMS: [&str; 2] = ["f2fs", "ntfs3"];
/// Most bytes of passphrases that are told: those that were typed are short.
const LONGEST: usize = 8 << 10;

/// What the first step tells.
#[derive(Serialize, Deserialize)]
struct Found {
    kind: String,
    place: Place,
    /// What was typed to open it: nobody is asked for it again.
    secrets: Vec<Vec<u8>>,
}

pub struct Steps<'a> {
    at: &'a ImagePath,
    global: &'a Global,
}

impl<'a> Steps<'a> {
    pub fn new(at: &'a ImagePath, global: &'a Global) -> Self {
        Steps { at, global }
    }

    fn fail(&self, text: &str) -> Failure {
        Failure::new(SOME_FAILED, format!("{}: {text}", self.at.image.display()))
    }

    /// In a process of its own. A session has one for all that it does.
    fn apart(&self, access: Access, work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let work = || {
            declare(Needs::images([(self.at, access)]).programs());
            work()
        };
        match self.global.kept.is_session() {
            true => work(),
            false => apart::work("the image", self.global, work),
        }
    }

    /// The same, of what takes Linux for one thing.
    fn on(&self, access: Access, work: impl FnOnce(Target) -> Result<()>) -> Result<()> {
        let work = || {
            let target = Target::open(self.at, access, false, self.global)?;
            work(target).map(|()| Vec::new())
        };
        self.apart(access, work).map(drop)
    }

    /// The same, without Linux.
    fn on_file(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let work = || {
            without_linux(self.at, Access::Write, self.global)?;
            work().map(|()| Vec::new())
        };
        self.apart(Access::Write, work).map(drop)
    }

    /// The type of the file system, as its programs call it, and where it is.
    pub fn look(&self) -> Result<(String, Place)> {
        let said = self.apart(Access::Read, || {
            let target = Target::open(self.at, Access::Read, false, self.global)?;
            let kind = target.fstype.clone().ok_or_else(|| {
                let text = "no file system that is known; --fs says its type";
                Failure::image(format!("{}: {text}", self.at.image.display()))
            })?;
            // The others this one and its parent have alike.
            let given = self.global.kept.secrets(self.global)?;
            let mut secrets = target.machine().secrets();
            secrets.retain(|secret| !given.contains(secret));
            let short = secrets.iter().map(Vec::len).sum::<usize>() <= LONGEST;
            let found = Found {
                kind: match kind.as_str() {
                    "ntfs" => "ntfs3".to_owned(),
                    _ => kind,
                },
                place: Place::of(&target, self.at, self.global),
                secrets: if short { secrets } else { Vec::new() },
            };
            serde_json::to_vec(&found).map_err(|e| self.fail(&e.to_string()))
        })?;
        let found = serde_json::from_slice::<Found>(&said);
        let found = found.map_err(|_| Failure::image("what looked into the image lies"))?;
        if !self.global.kept.is_session() {
            know_secrets(found.secrets);
        }
        // Whoever has looked may have been taken over: it is shown.
        let harmless = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        match found.kind.chars().all(harmless) {
            true => Ok((found.kind, found.place)),
            false => Err(Failure::image("what looked into the image lies")),
        }
    }

    fn change(&self, place: &Place, change: &Change) -> Result<()> {
        match change.partition {
            Some(partition) if place.is_in_file() => {
                self.on_file(|| place::resize_in_file(self.at, partition))
            }
            Some(partition) => self
                .apart(Access::Write, || {
                    let done = place::resize_in_container(self.at, partition, self.global);
                    done.map(|()| Vec::new())
                })
                .map(drop),
            None => Ok(()),
        }
    }

    pub fn grow(&self, kind: &str, place: &Place, size: u64) -> Result<()> {
        if !online::GROW.contains(&kind) && !BY_PROGRAMS.contains(&kind) {
            return Err(self.fail(&format!("{kind} cannot be resized")));
        }
        if size > place.size() {
            let change = place.larger(self.at, size)?;
            if let Some(disk) = change.disk {
                self.on_file(|| place::lengthen(self.at, disk, self.global))?;
            }
            self.change(place, &change)?;
        }
        self.on(Access::Write, |target| match kind {
            "f2fs" => target.work(kind, Access::Write, false, |path| {
                let mut command = RESIZE_F2FS.command()?;
                RESIZE_F2FS.run(command.arg(path), &[0]).map(drop)
            }),
            "ntfs3" => target.work(kind, Access::Write, false, |path| ntfs(path, None)),
            _ => self.by_kernel(&target, kind, size),
        })
    }

    pub fn shrink(&self, kind: &str, place: &Place, size: u64) -> Result<()> {
        match kind {
            "ext2" | "ext3" | "ext4" | "ntfs3" => {}
            _ if online::SHRINK.contains(&kind) => {}
            "xfs" | "f2fs" | "jfs" => return Err(self.fail(&format!("{kind} cannot shrink"))),
            _ => return Err(self.fail(&format!("{kind} cannot be resized"))),
        }
        self.on(Access::Write, |target| match kind {
            "ntfs3" => target.work(kind, Access::Write, false, |path| ntfs(path, Some(size))),
            _ if online::SHRINK.contains(&kind) => self.by_kernel(&target, kind, size),
            _ => target.work(kind, Access::Write, false, |path| {
                // resize2fs refuses what was not just checked.
                let checked = check::check(kind, path, true)?;
                if checked.state == check::State::Damaged {
                    return Err(self.fail("is damaged: tane fsck --repair first"));
                }
                let mut command = RESIZE2FS.command()?;
                let size = format!("{}K", size / 1024);
                RESIZE2FS.run(command.arg(path).arg(size), &[0]).map(drop)
            }),
        })?;
        let change = place.smaller(size);
        if let Some(disk) = change.disk {
            self.on_file(|| place::cut(self.at, disk))?;
        }
        self.change(place, &change)
    }

    /// Mounted, by the file system's own system call.
    fn by_kernel(&self, target: &Target, kind: &str, size: u64) -> Result<()> {
        let mount = target.mount(self.global);
        let mount = mount.map_err(|e| self.unmountable(&e))?;
        let done = online::resize(&target.machine().kernel, &mount, kind, size);
        done.map_err(|e| {
            let text = match (kind, e.raw_os_error()) {
                ("nilfs2", Some(libc::EBUSY)) => {
                    "the part that would go holds data, which nilfs2 itself does not move"
                        .to_owned()
                }
                _ => format!("Linux does not resize it: {e}"),
            };
            self.fail(&text)
        })?;
        let unmounted = mount.unmount();
        unmounted.map_err(|e| self.fail(&format!("not everything was written: {e}")))?;
        target.flush()
    }

    fn unmountable(&self, e: &tane::Error) -> Failure {
        let text = format!("{}: cannot be mounted: {e}", self.at.image.display());
        Failure::image(text)
    }

    /// Bytes that its files can have in all, as Linux tells.
    pub fn capacity(&self) -> Result<u64> {
        let said = self.apart(Access::Read, || {
            let target = Target::open(self.at, Access::Read, false, self.global)?;
            let mount = target.mount(self.global);
            let mount = mount.map_err(|e| self.unmountable(&e))?;
            let capacity = mount.statfs().map(|fs| fs.total).unwrap_or(0);
            Ok(capacity.to_le_bytes().to_vec())
        })?;
        let lies = |_| Failure::image("what looked into the image lies");
        said.try_into().map(u64::from_le_bytes).map_err(lies)
    }
}

/// By ntfsresize: to so many bytes, or to all of the file.
fn ntfs(path: &Path, size: Option<u64>) -> Result<()> {
    let mut command = NTFSRESIZE.command()?;
    // Twice: it neither asks nor minds that the last resize set the dirty flag.
    command.args(["--force", "--force", "--no-progress-bar"]);
    if let Some(size) = size {
        command.args(["--size", &size.to_string()]);
    }
    NTFSRESIZE.run(command.arg(path), &[0])?;
    // It leaves the second boot sector to Windows, and the dirty flag, with which
    // Linux does not write.
    check::check("ntfs3", path, true).map(drop)
}
