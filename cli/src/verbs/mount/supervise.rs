//! The process that mounts: it has the rights for that, and never looks into the
//! image. Who serves the mount is its child, in a jail.

use super::Args;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::fuse::background::{self, Ready};
use crate::fuse::{self, Busy, Link, Word};
use crate::interrupt;
use crate::names::plain;
use crate::tell;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

pub fn run(args: &Args) -> Result<u8> {
    let point = usable(&args.dir)?;
    if args.background && args.ready.is_none() {
        return background::start();
    }
    let ready = args.ready.map(Ready::new);
    let fail = |e: io::Error| Failure::new(SOME_FAILED, format!("the server: {e}"));
    let (link, mut child) = start(ready.is_some()).map_err(fail)?;
    let messages = child.stderr.take().map(pass_on);
    let mounted = mount(args, &point, &link, ready);
    // Unless it serves a mount, it ends when this goes.
    drop(link);
    let status = child.wait().map_err(fail)?;
    if let Some(messages) = messages {
        let _ = messages.join();
    }
    if mounted? && fuse::is_dead(&point) {
        let _ = fuse::unmount(&point, true);
    }
    ended(&point, status)
}

/// The server, which is this command once more, and the link to it.
fn start(in_background: bool) -> io::Result<(Link, Child)> {
    let (link, other) = Link::pair()?;
    let mut args = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(args.next().unwrap_or_else(|| "tane".into()));
    command.args(args.filter(|arg| !arg.as_bytes().starts_with(b"--ready=")));
    other.lend(&mut command, |fd| ("", format!("--serve={fd}")));
    if in_background {
        command.stderr(Stdio::piped());
    }
    Ok((link, command.spawn()?))
}

/// Mounts as soon as the image is open. False: it could not be opened, which the
/// server tells.
fn mount(args: &Args, point: &Path, link: &Link, ready: Option<Ready>) -> Result<bool> {
    if !link.hear(Word::Open) {
        return Ok(false);
    }
    let wish = fuse::Wish {
        point,
        source: args.image.to_string_lossy().into_owned(),
        writable: args.rw,
        many_users: args.many_users(),
        allow_other: args.many_users(),
    };
    fuse::mount(&wish, link).map_err(|e| Failure::new(SOME_FAILED, why(&e, point)))?;
    let unmounted = point.to_path_buf();
    interrupt::take_over(move |count| end(&unmounted, count));
    if interrupt::requested() {
        end(point, 1);
    }
    if link.hear(Word::Serving) {
        if let Some(ready) = ready {
            LATER.store(true, Relaxed);
            ready.say();
        }
    }
    Ok(true)
}

/// Nobody looks at our standard error any more.
static LATER: AtomicBool = AtomicBool::new(false);

/// What the server says goes on to whoever waits, later into the system's log.
fn pass_on(messages: ChildStderr) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(messages)
            .split(b'\n')
            .map_while(io::Result::ok)
        {
            let line = String::from_utf8_lossy(&line);
            match LATER.load(Relaxed) {
                true => background::log(line.strip_prefix("tane: ").unwrap_or(&line)),
                false => eprintln!("{line}"),
            }
        }
    })
}

fn ended(point: &Path, status: ExitStatus) -> Result<u8> {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(code as u8),
        (None, signal) => {
            let text = format!(
                "{}: its server was killed by signal {}: what was not synced is lost",
                point.display(),
                signal.unwrap_or_default()
            );
            if LATER.load(Relaxed) {
                background::log(&text);
            }
            Err(Failure::new(SOME_FAILED, text))
        }
    }
}
/// What Ctrl-C does, the first time and later.
fn end(point: &Path, count: u32) {
    let name = plain(point.as_os_str().as_bytes());
    match fuse::unmount(point, count > 1) {
        Ok(()) if count > 1 => {
            tell::note(&format!(
                "{name}: gone from view; it ends when nothing in it is open any more"
            ));
        }
        Ok(()) => {}
        // By whoever was faster, or by the second Ctrl-C.
        Err(Busy::No(_)) if count > 2 => {
            tell::note(&format!(
                "{name}: abandoned, with everything written that was synced"
            ));
            std::process::exit(INTERRUPTED.into());
        }
        Err(Busy::Yes) => tell::note(&format!(
            "{name}: something in it is in use: still mounted (once more takes it from view)"
        )),
        Err(Busy::No(why)) => tell::note(&format!("{name}: cannot be unmounted: {why}")),
    }
}

/// The directory under its full name, if something can be mounted there by FUSE.
fn usable(dir: &Path) -> Result<PathBuf> {
    let fail = |text: String| Err(Failure::new(SOME_FAILED, text));
    let name = dir.display();
    let full = match dir.canonicalize() {
        Ok(full) if full.is_dir() => full,
        Ok(_) => return fail(format!("{name}: not a directory")),
        Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {
            return fail(format!(
                "{name}: a mount whose server is gone: tane umount {name} takes it away"
            ))
        }
        Err(e) => return fail(format!("{name}: {}", crate::sys::Errno(errno(&e)))),
    };
    let device = Path::new(fuse::DEVICE);
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(device);
    if let Err(e) = opened {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => "load the module (modprobe fuse), or pass the device on",
            _ => "this user, or this container, needs access to it",
        };
        return fail(format!(
            "{}: {}: {remedy}",
            device.display(),
            crate::sys::Errno(errno(&e))
        ));
    }
    if !super::is_root() && !has_helper() {
        return fail(format!(
            "{}: not found: who is not root needs it to mount (Debian: apt install fuse3)",
            fuse::HELPER
        ));
    }
    Ok(full)
}

fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<_> = std::env::split_paths(&path).collect();
    dirs.extend(["/sbin", "/bin"].map(PathBuf::from));
    dirs.iter().any(|dir| dir.join(fuse::HELPER).is_file())
}

fn errno(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

fn why(e: &io::Error, point: &Path) -> String {
    let name = point.display();
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!("{name}: cannot mount there: {e}"),
        _ => format!("{name}: cannot mount there by FUSE: {e}"),
    }
}
