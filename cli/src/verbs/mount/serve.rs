//! The process that serves a mount, in a jail: it opens the image, says so, gets the
//! mount's other end, and answers until somebody unmounts.

use super::Args;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::session::Global;
use crate::session::{declare, end_questions, image_path, Access, Needs, Session};
use crate::tell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use tane_fuse::{Connection, Death, Link, Manner, Served, Word};

pub fn run(args: &Args, link: &Link, global: &Global) -> Result<u8> {
    // It cannot be opened later.
    let null = args.background.then(|| File::open("/dev/null"));
    declare(Needs::default().handed());
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
    let leave = || {
        if let Some(Ok(null)) = null {
            end_questions();
            leave_terminal(&null);
        }
    };
    let served = serve(shared, &at.path, args, link, used.clone(), leave);
    if Arc::try_unwrap(used).is_err() {
        let text = "a thread is still at work: the image is not unmounted";
        return Err(Failure::new(SOME_FAILED, text));
    }
    // SAFETY: whoever had it had `used` as well.
    let closed = unsafe { Box::from_raw(session) }.close();
    served?;
    closed?;
    Ok(0)
}

/// Until it is unmounted. Nothing of the session is used when this returns and
/// `used` is free.
fn serve(
    session: &'static Session,
    path: &[u8],
    args: &Args,
    link: &Link,
    used: Arc<()>,
    leave_terminal: impl FnOnce(),
) -> Result<()> {
    let root = session.root()?.open_dir(path);
    let root = root.map_err(|e| Failure::file(path, e))?;
    let manner = Manner {
        writable: args.rw,
        many_users: args.many_users(),
        xattrs_if_any: args.xattrs_if_any,
        ends_with_process: true,
    };
    let death = Death::new(move || {
        let _used = &used;
        let words = session.last_words();
        tell::failure(&Failure::image(format!(
            "the image's Linux has died: {words}"
        )));
    });
    let served = Served::new(root, manner, death).map_err(|e| Failure::file(path, e))?;
    let fail = |e: std::io::Error| {
        let text = format!("{}: {e}", args.dir.display());
        Failure::new(SOME_FAILED, text)
    };
    link.say(Word::Open).map_err(fail)?;
    // Whoever mounts says why not.
    let Some(mount) = link.take().map_err(fail)? else {
        return Err(Failure::new(SOME_FAILED, ""));
    };
    // From here on an interrupt is the affair of who has mounted it.
    interrupt::take_over(|_, _| {});
    let connection = Connection::new(served, mount, args.threads).map_err(fail)?;
    leave_terminal();
    link.say(Word::Serving).map_err(fail)?;
    connection.serve().map_err(fail)
}

fn leave_terminal(null: &File) {
    for standard in 0..2 {
        // SAFETY: descriptors that are open.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
}
