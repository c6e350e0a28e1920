//! What an image is made by, beside this crate: programs of the host, a kernel, and
//! somebody who may want it to stop. A command has them in a jail; a program of anybody's
//! has [`Direct`].

use crate::error::{Error, Result};
use crate::feed::{self, Feed};
use crate::order::Order;
use crate::told::Telling;
use crate::tool::Tool;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use tane::images::Spool;
use tane::Kernel;
use tane_copy::{Observer, SenderBy};

/// Whoever has an image made: what is done for it, and who is told.
#[derive(Clone, Copy)]
pub struct By<'b> {
    /// Is told what becomes of each file.
    pub observer: &'b dyn Observer,
    /// Does what this crate does not.
    pub means: &'b dyn Means,
}

/// A kernel that does the same each time, with one CPU: see
/// [`tane::Builder::deterministic`].
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Seconds since 1970 at which its clock stands.
    pub time: u64,
    /// Of its entropy.
    pub seed: u64,
    /// It is for an ext2, ext3, ext4 or FAT.
    pub plain: bool,
    /// Bytes of memory that it will use.
    pub working_set: u64,
}

/// What is done for who makes an image.
pub trait Means: Sync {
    /// Somebody wants it to stop.
    fn interrupted(&self) -> bool;

    /// Where temporary files without a name may be.
    fn temporary(&self) -> PathBuf;

    /// A file that the image is made of, for reading: an archive, or what says something of
    /// files. Once for each time that it is named.
    fn open(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// A file in a directory of container images, or in one that was told, or below that, for
    /// reading; as often as somebody asks.
    fn open_in(&self, dir: &Path, name: &Path) -> io::Result<File> {
        open_at_once(&dir.join(name))
    }

    /// Whether this directory holds what `docker save` writes, if somebody else has looked:
    /// then nobody does here.
    fn is_saved(&self, _dir: &Path) -> Option<bool> {
        None
    }

    /// What is in a directory, if this process does not look into it: once for each time that
    /// it is named. Its files are had by [`Self::open_in`].
    fn told(&self, _dir: &Path) -> Option<Box<Telling<'_>>> {
        None
    }

    /// An empty temporary file without a name, for what is unpacked.
    fn spool(&self) -> io::Result<Spool> {
        Spool::new(&self.temporary())
    }

    /// A program, to be given arguments; [`Tool::command`], or why not.
    fn command(&self, tool: Tool) -> Result<Command>;

    /// What comes of a command of this program, whatever its exit code.
    fn ask(&self, tool: Tool, command: &mut Command) -> Result<Output>;

    /// As [`Self::ask`], of a program that reads what `feed` writes, and takes itself for this
    /// user and group. What it prints is not wanted.
    fn ask_fed(
        &self,
        tool: Tool,
        command: &mut Command,
        owner: Option<(u32, u32)>,
        feed: &mut Feed<'_>,
    ) -> Result<Output> {
        feed::ask(tool, command, owner, feed)
    }

    /// As [`Self::ask`], of a program with one argument more: a directory, which is made beside
    /// this image, and in which its files are seen for that long. It is an ext4 in a file,
    /// whatever its bytes say.
    fn ask_shown(&self, tool: Tool, command: &mut Command, image: &Path) -> Result<Output>;

    /// Has another process fill a new file system, in the file of this name, with what `emit`
    /// sends. None: there is none, and it is done in this one.
    fn fill(
        &self,
        _name: &Path,
        _order: &Order,
        _observer: &dyn Observer,
        _emit: &dyn Fn(SenderBy<'_>),
    ) -> Option<Result<()>> {
        None
    }

    /// Boots a kernel.
    fn kernel(&self, wanted: &Wanted) -> Result<Kernel>;
}

/// An empty directory beside an image, which goes away with this.
pub struct Beside(PathBuf);

impl Beside {
    /// It is made. Errors: mkdir(2).
    pub fn new(image: &Path) -> Result<Beside> {
        let dir = Beside::of(image);
        std::fs::create_dir(&dir).map_err(|e| Error::of(&dir, &e))?;
        Ok(Beside(dir))
    }

    /// Where that of this image is, or will be.
    pub fn of(image: &Path) -> PathBuf {
        image.with_extension("dir")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A file for reading, of which nothing is waited for: what waits for a writer is none of
/// those that are meant.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open(path)
}

/// Runs a program to its end, which must be a success; an error says what it said.
pub(crate) fn run(means: &dyn Means, tool: Tool, command: &mut Command) -> Result<Output> {
    success(means, tool, means.ask(tool, command)?)
}

/// An error that says what it said, if it did not succeed.
pub(crate) fn success(means: &dyn Means, tool: Tool, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    if means.interrupted() {
        return Err(Error::Interrupted);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        said => said.to_owned(),
    };
    let text = format!("{} failed ({}): {said}", tool.program, output.status);
    Err(Error::failed(text))
}

/// The means of a process that trusts what it makes images of: programs are its children,
/// and the kernel runs in it.
#[derive(Default)]
pub struct Direct<'d> {
    stop: Option<Box<dyn Fn() -> bool + Sync + 'd>>,
}

impl<'d> Direct<'d> {
    /// Never to be stopped.
    pub fn new() -> Self {
        Direct { stop: None }
    }

    /// Stops, between two files or within a large one, once this is true; a program of the
    /// host's is killed then. It is asked again and again, by any thread.
    pub fn stopping(stop: impl Fn() -> bool + Sync + 'd) -> Self {
        Direct {
            stop: Some(Box::new(stop)),
        }
    }
}

/// How often somebody who may want a program to stop is asked.
const LOOK: Duration = Duration::from_millis(50);

/// None: it was killed because this became true.
fn output_unless(stop: &dyn Fn() -> bool, command: &mut Command) -> io::Result<Option<Output>> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        let mut all = Vec::new();
        let done = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut all));
        done.map(|_| all)
    };
    let out = child.stdout.take().map(|pipe| Box::new(pipe) as _);
    let err = child.stderr.take().map(|pipe| Box::new(pipe) as _);
    std::thread::scope(|scope| {
        // Nothing is ever sent: it is over when both have nothing more to read.
        let (reading, over) = mpsc::channel::<()>();
        let also = reading.clone();
        let out = scope.spawn(move || (read(out), drop(reading)).0);
        let err = scope.spawn(move || (read(err), drop(also)).0);
        let mut killed = false;
        while !killed && over.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
            killed = stop();
            if killed {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        let joined = |thread: ScopedJoinHandle<io::Result<Vec<u8>>>| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("its output was not read")))
        };
        let (stdout, stderr) = (joined(out)?, joined(err)?);
        Ok((!killed).then_some(Output {
            status,
            stdout,
            stderr,
        }))
    })
}

impl Means for Direct<'_> {
    fn interrupted(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop())
    }

    fn temporary(&self) -> PathBuf {
        let place = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
        place.into()
    }

    fn command(&self, tool: Tool) -> Result<Command> {
        tool.command()
    }

    fn ask(&self, tool: Tool, command: &mut Command) -> Result<Output> {
        command.stdin(Stdio::null());
        let output = match &self.stop {
            Some(stop) => output_unless(stop, command),
            None => command.output().map(Some),
        };
        let output = output.map_err(|e| Error::of(Path::new(tool.program), &e))?;
        output.ok_or(Error::Interrupted)
    }

    fn kernel(&self, wanted: &Wanted) -> Result<Kernel> {
        // Memory that is touched for the first time costs the host more than what is
        // used again, and these have no use for much.
        const LITTLE: u64 = 64 << 20;
        let no_start =
            |e: tane::Error| Error::Kernel(format!("cannot start Linux: {e}"), e.errno());
        let tiny = tane::tiny_image().filter(|_| wanted.plain);
        let image = tiny
            .map_or_else(tane::default_image, Ok)
            .map_err(no_start)?;
        let mut builder = Kernel::builder().image(&image);
        if wanted.plain {
            builder = builder.memory(LITTLE);
        }
        let builder = builder.working_set(wanted.working_set).cpus(1);
        let builder = builder.deterministic(wanted.time, wanted.seed);
        builder.boot().map_err(no_start)
    }

    #[cfg(not(feature = "fuse"))]
    fn ask_shown(&self, _: Tool, _: &mut Command, _: &Path) -> Result<Output> {
        Err(Error::failed(
            "erofs needs a mount by FUSE, and this library was built without",
        ))
    }

    #[cfg(feature = "fuse")]
    fn ask_shown(&self, tool: Tool, command: &mut Command, image: &Path) -> Result<Output> {
        let fail = |e: &dyn std::fmt::Display, errno| {
            let text = format!("erofs needs a mount by FUSE, and there is none: {e}");
            Error::Failed(text, errno)
        };
        let dir = Beside::new(image)?;
        // Nothing is recognised: its content is another's, who may have begun it as what names
        // other files of the host.
        let mut options = tane::ImageOptions::new();
        options.format = Some(tane::images::Format::Raw);
        let image = options.open(image, |_| tane::Kernel::boot());
        let image = image.map_err(|e| fail(&e, e.errno()))?;
        let mount = image.mount(None, tane::MountOptions::new().fstype("ext4"));
        let mount = mount.map_err(|e| fail(&e, e.errno()))?;
        let shown = tane_fuse::HostMountOptions::new().mount(mount, dir.path());
        let shown = shown.map_err(|e| fail(&e, e.errno()))?;
        let output = self.ask(tool, command.arg(dir.path()))?;
        let fail = |e: tane_fuse::Error| Error::Failed(e.to_string(), e.errno());
        shown.unmount().map_err(fail)?;
        // It was only read.
        shown.wait().map_err(fail)?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::tool;

    #[test]
    fn a_program_that_goes_on_is_killed_when_it_is_to_stop() {
        let tool = tool("ext4").expect("is known");
        let means = Direct::stopping(|| true);
        let ended = means.ask(tool, Command::new("sleep").arg("infinity"));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        let means = Direct::stopping(|| false);
        let both = "echo here; echo there >&2; exit 3";
        let ended = means.ask(tool, Command::new("sh").args(["-c", both]));
        let ended = ended.expect("its output");
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (&ended.stdout[..], &ended.stderr[..]),
            (&b"here\n"[..], &b"there\n"[..])
        );
    }
}
