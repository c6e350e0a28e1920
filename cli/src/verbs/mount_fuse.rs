//! tane mount, where FUSE is built in.

use super::Args;
use crate::args::Global;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::fuse::background::{self, Ready};
use crate::fuse::{self, Busy, Death, Manner, Served};
use crate::interrupt;
use crate::names::plain;
use crate::session::{image_path, Access, Session};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems in which no two names differ in case alone.
const FOLDING: [&str; 7] = ["vfat", "msdos", "exfat", "hfs", "hfsplus", "hpfs", "ntfs3"];

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let point = usable(&args.dir)?;
    if args.background && args.ready.is_none() {
        return background::start();
    }
    let ready = args.ready.map(Ready::new);
    let at = image_path(&args.image, global)?;
    let access = match args.rw {
        true => Access::Write,
        false => Access::Read,
    };
    // It is used by threads that end only with the mount: until then it stays.
    let session = Box::into_raw(Box::new(Session::open(&at, access, global)?));
    // SAFETY: just made, and freed below when nobody else has it.
    let shared: &'static Session = unsafe { &*session };
    let used = Arc::new(());
    let mounted = serve(shared, &at.path, &point, &args, ready, used.clone());
    if Arc::try_unwrap(used).is_err() {
        let text = "a thread is still at work: the image is not unmounted";
        return Err(Failure::new(SOME_FAILED, text));
    }
    // SAFETY: whoever had it had `used` as well.
    let closed = unsafe { Box::from_raw(session) }.close();
    let told = |e: &Failure| {
        if args.ready.is_some() {
            background::log(&format!("{}: {e}", at.image.display()));
        }
    };
    if let Err(e) = &closed {
        told(e);
    }
    mounted?;
    closed?;
    Ok(0)
}

/// Until it is unmounted. Nothing of the session is used when this returns and
/// `used` is free.
fn serve(
    session: &'static Session,
    path: &[u8],
    point: &Path,
    args: &Args,
    ready: Option<Ready>,
    used: Arc<()>,
) -> Result<()> {
    let is_root = is_root();
    let root = session.root()?.open_dir(path);
    let root = root.map_err(|e| Failure::file(path, e))?;
    let manner = Manner {
        writable: args.rw,
        many_users: is_root || args.allow_other,
        folds_case: session.fstype().is_some_and(|fs| FOLDING.contains(&fs)),
    };
    let in_background = ready.is_some();
    let death = Death::new(move || {
        let _used = &used;
        let text = format!("the image's Linux has died: {}", session.last_words());
        match in_background {
            true => background::log(&text),
            false => eprintln!("tane: {text}"),
        }
    });
    let served = Served::new(root, manner, death).map_err(|e| Failure::file(path, e))?;
    let wish = fuse::Wish {
        point,
        source: args.image.to_string_lossy().into_owned(),
        allow_other: is_root || args.allow_other,
        threads: args.threads,
    };
    let refused = |e: io::Error| Failure::new(SOME_FAILED, why(&e, point));
    let connection = fuse::mount(served, &wish).map_err(refused)?;
    let unmounted = point.to_path_buf();
    interrupt::take_over(move |count| end(&unmounted, count));
    if interrupt::requested() {
        end(point, 1);
    }
    if let Some(ready) = ready {
        ready.say();
    }
    let ended = connection.wait();
    ended.map_err(|e| Failure::new(SOME_FAILED, format!("{}: {e}", point.display())))
}

/// What Ctrl-C does, the first time and later.
fn end(point: &Path, count: u32) {
    let name = plain(point.as_os_str().as_bytes());
    match fuse::unmount(point, count > 1) {
        Ok(()) if count > 1 => {
            eprintln!("tane: {name}: gone from view; it ends when nothing in it is open any more");
        }
        Ok(()) => {}
        // By whoever was faster, or by the second Ctrl-C.
        Err(Busy::No(_)) if count > 2 => {
            eprintln!("tane: {name}: abandoned, with everything written that was synced");
            std::process::exit(INTERRUPTED.into());
        }
        Err(Busy::Yes) => eprintln!(
            "tane: {name}: something in it is in use: still mounted (once more takes it from view)"
        ),
        Err(Busy::No(why)) => eprintln!("tane: {name}: cannot be unmounted: {why}"),
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
    let device = Path::new("/dev/fuse");
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
    if !is_root() && !has_helper() {
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

fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}
