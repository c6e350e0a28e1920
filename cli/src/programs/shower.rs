//! A process that shows the files of an image below a directory beside it, and runs a program
//! which reads them there. It starts this same program, whose mount has a jail of its own, and
//! has no namespaces: in those of who runs other programs there is no mount to be had, and
//! files have other owners. It was told before which image that is, and hears the rest as the
//! other one does.
//!
//! When nobody asks any more, however the command ended, what is shown is shown no longer.

use super::execute::execute;
use super::runner::{self, serve, Terms};
use super::Tool;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::child::{self, keep_only, End};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tane::jail::Jail;
use tane_make::Beside;

static LINE: OnceLock<File> = OnceLock::new();

/// Start it, for this image and programs in this jail. Before a jail is entered.
pub fn start(image: &Path, jail: Jail) -> io::Result<()> {
    let (near, far) = UnixStream::pair()?;
    let work = || alone(OwnedFd::from(far).into(), image, jail);
    child::start(End::Unheard, work)?;
    let _ = LINE.set(OwnedFd::from(near).into());
    Ok(())
}

/// In the child. The terminal's signals are not for it: it cleans up after them.
fn alone(line: File, image: &Path, jail: Jail) -> io::Result<()> {
    // SAFETY: no memory involved.
    unsafe { libc::setsid() };
    keep_only(vec![line.as_raw_fd()])?;
    let terms = Terms {
        jail: Some(jail),
        // With the right to read trusted.*, where root is who runs it.
        only: Some("mkfs.erofs"),
        ..Terms::default()
    };
    let told = |failure: Failure| io::Error::other(failure.to_string());
    serve(line, terms, |mut request, control, heard| {
        let shown = Shown::new(image).map_err(told)?;
        request.args.push(shown.dir.path().into());
        let output = execute(request, control, heard)?;
        shown.end().map_err(told)?;
        Ok(output)
    });
    Ok(())
}

/// Has it run a program, with one argument more: a directory in which this image's files are
/// seen. Where there is no jail, this process does it.
pub fn ask(tool: Tool, command: &mut Command, image: &Path) -> Result<Output> {
    if let Some(line) = LINE.get() {
        return tool.told(runner::ask(line, tool, command, &[]));
    }
    let shown = Shown::new(image)?;
    let output = tool.ask(command.arg(shown.dir.path()), &[])?;
    shown.end()?;
    Ok(output)
}

/// An image that this same program shows in a directory.
struct Shown {
    dir: Beside,
    ended: bool,
}

impl Shown {
    fn new(image: &Path) -> Result<Shown> {
        let dir = Beside::new(image)?;
        let mut command = tane()?;
        command.args(["mount", "--quiet", "--background"]);
        // Nothing is recognised: who has written it may have been taken over, and a container's
        // name on it would have other files of the host shown.
        command.args(["--format=raw", "--fs=ext4"]);
        run(command.arg(image).arg(dir.path()))?;
        Ok(Shown { dir, ended: false })
    }

    fn end(mut self) -> Result<()> {
        run(tane()?.arg("umount").arg(self.dir.path()))?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Something went wrong before. Who serves the mount is asked first, and may be what
        // is wrong.
        let unmounted = tane().is_ok_and(|mut command| {
            let command = command.arg("umount").arg(self.dir.path());
            succeeds_soon(command).is_ok_and(|soon| soon)
        });
        if !unmounted {
            take_from_view(self.dir.path());
        }
    }
}

/// How long a mount of which nothing is wanted any more may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

fn succeeds_soon(command: &mut Command) -> io::Result<bool> {
    let command = command.stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// Whatever serves it: nobody is asked, and nothing waited for.
fn take_from_view(dir: &Path) {
    #[cfg(feature = "fuse")]
    let _ = tane_fuse::unmount(dir, true);
    #[cfg(not(feature = "fuse"))]
    let _ = dir;
}

fn tane() -> Result<Command> {
    let path = std::env::current_exe();
    let path = path.map_err(|e| Failure::new(SOME_FAILED, format!("/proc/self/exe: {e}")))?;
    Ok(Command::new(path))
}

fn run(command: &mut Command) -> Result<()> {
    let fail = |e: &dyn std::fmt::Display| {
        let text = format!("erofs needs a mount by FUSE, and there is none: {e}");
        Failure::new(SOME_FAILED, text)
    };
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| fail(&e))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(fail(&String::from_utf8_lossy(&output.stderr).trim())),
    }
}
