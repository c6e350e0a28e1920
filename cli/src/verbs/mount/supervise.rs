//! The process that mounts: it has the rights for that, and never looks into the
//! image. Who serves the mount is its child, in a jail.

use super::background::{self, Ready};
use super::Args;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::names::plain;
use crate::tell;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use tane_fuse::{self as fuse, Busy, Link, Word};

pub fn run(args: &Args) -> Result<u8> {
    let refused = |e: fuse::Error| Failure::new(SOME_FAILED, e.to_string());
    let point = fuse::usable(&args.dir).map_err(refused)?;
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
    fuse::mount(&wish, link).map_err(|e| Failure::new(SOME_FAILED, e.to_string()))?;
    let unmounted = point.to_path_buf();
    interrupt::take_over(move |_, count| end(&unmounted, count));
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
