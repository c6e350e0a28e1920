//! Into a volume of an image that is there: its bytes, from its start on.

use super::{fail, Args};
use crate::copy::Progress;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::session::spare;
use crate::session::Global;
use crate::session::{declare, image_path, is_same_file, Access, Needs, Target, Want};
use crate::tell;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use tane::ImagePath;

/// What is read at once from standard input, in bytes.
const PIECE: usize = 64 << 10;

/// The volume that DEST is, if it is none to be made.
pub fn volume(args: &Args, global: &Global) -> Result<Option<ImagePath>> {
    let at = match image_path(args.dest.as_os_str(), global) {
        Ok(at) if at.image.exists() => at,
        Err(e) if !args.dest.exists() && args.dest.as_os_str().as_bytes().contains(&b'@') => {
            return Err(e);
        }
        _ => return Ok(None),
    };
    let selects = at.selector.as_ref().is_some_and(|s| s.volume.is_some());
    if at.path != b"/" || at.selector.is_some() && !selects {
        let text = "is no place for an image: cp copies files, and IMAGE@SELECTOR is a volume";
        return Err(fail(&args.dest, &text));
    }
    let has_key = global.key_file.is_some() || global.passphrase_file.is_some();
    let is_locked = || -> Result<bool> {
        let held = spare::guard(&at.image, global)?.held(b"");
        let held = held.map_err(|e| fail(&at.image, &e))?;
        Ok(matches!(held.as_deref(), Some("crypto_LUKS" | "BitLocker")))
    };
    let is_one = selects || has_key && at.image.is_file() && is_locked()?;
    Ok(is_one.then_some(at))
}

/// Where the bytes come from.
enum Source {
    Volume(Box<Target>),
    /// And how many it has, if it is a file.
    Standard(ManuallyDrop<File>, Option<u64>),
}

impl Source {
    fn standard() -> Source {
        // SAFETY: the descriptor stays open, and nobody else reads from it.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(0) });
        let size = || {
            use std::io::Seek;
            let len = file.metadata().ok().filter(|m| m.is_file())?.len();
            Some(len.saturating_sub((&*file).stream_position().ok()?))
        };
        let size = size();
        Source::Standard(file, size)
    }

    fn size(&self) -> Option<u64> {
        match self {
            Source::Volume(target) => Some(target.size),
            Source::Standard(_, size) => *size,
        }
    }
}

pub fn run(args: &Args, to: &ImagePath, global: &Global) -> Result<u8> {
    if args.to.is_some() {
        let text = "convert: --to is for a new image: a volume stays in what it is in";
        return Err(Failure::usage(text));
    }
    let is_standard = args.source == "-";
    if !is_standard && (global.overlay.is_some() || !global.with.is_empty()) {
        let text = "convert: --overlay and --with would be SOURCE's too: let that be -";
        return Err(Failure::usage(text));
    }
    let from = (!is_standard).then(|| image_path(&args.source, global));
    let from = from.transpose()?;
    if let Some(from) = &from {
        if is_same_file(&from.image, &to.image) {
            let text = "SOURCE and DEST are in one image: convert SOURCE into a file first";
            return Err(fail(&to.image, &text));
        }
    }
    let from_needs = from.iter().map(|from| (from, Access::Read));
    declare(Needs::images(from_needs.chain([(to, Access::Write)])));
    let target = Target::open_as(to, Access::Write, Want::PlaceByAnyKey, global)?;
    let source = match &from {
        None => Source::standard(),
        Some(from) => {
            let source = Target::open_as(from, Access::Read, Want::PlaceByAnyKey, global)?;
            Source::Volume(Box::new(source))
        }
    };
    let was_encrypted = matches!(&source, Source::Volume(source) if source.is_decrypted);
    let has_key = global.key_file.is_some() || global.passphrase_file.is_some();
    if has_key && !was_encrypted && !target.is_decrypted {
        let text = "a passphrase or key is given, and opens neither SOURCE nor this: leave it out";
        return Err(fail(&args.dest, &text));
    }
    if !args.force {
        if let Some(held) = target.held_anywhere()? {
            return Err(target.taken(&held));
        }
    }
    let room = target.size;
    if let Some(size) = source.size().filter(|size| *size > room) {
        let text = format!("has {room} bytes, and SOURCE has {size}: nothing was written");
        return Err(fail(&args.dest, &text));
    }
    let size = write(args, &source, &target)?;
    if size < room && !global.quiet {
        tell::note(&format!(
            "{}: {} bytes behind the {size} that were written are as they were",
            args.dest.display(),
            room - size
        ));
    }
    let decrypted = was_encrypted && !target.is_decrypted;
    let told = json!({
        "size": size,
        "decrypted": decrypted,
        "volume": room,
        "source": names::plain(args.source.as_os_str().as_bytes()),
    });
    super::tell(args, decrypted, told, global)
}

/// How many bytes it were.
fn write(args: &Args, source: &Source, target: &Target) -> Result<u64> {
    let mut import = target.import()?;
    let progress = Progress::new(args.progress, || (1, source.size().unwrap_or(0)));
    let go_on = |at| {
        progress.update(0, at);
        match interrupt::requested() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    };
    let failed = |e: io::Error| Failure::new(SOME_FAILED, e.to_string());
    let done = match source {
        Source::Volume(source) => source
            .read_data(|at, piece| import.write(at, piece, go_on))
            .and_then(|()| {
                let rest = import.zero_until(source.size, go_on);
                rest.map(|()| source.size).map_err(failed)
            }),
        Source::Standard(file, _) => {
            let to = |at, piece: &[u8]| import.write(at, piece, go_on);
            stream(file, target.size, to).map_err(failed)
        }
    };
    let flushed = import.flush();
    let size = done.and_then(|size| flushed.map(|()| size));
    let size = size.map_err(|failure| {
        let (new, all) = (import.done(), target.size);
        let state = format!("{new} of its {all} bytes are new, the others as they were");
        match interrupt::requested() {
            true => Failure::new(INTERRUPTED, format!("interrupted: {state}")),
            false => Failure::new(SOME_FAILED, format!("{}; {state}", failure.message)),
        }
        .of(&args.dest.display().to_string())
    })?;
    progress.finish(1, size);
    Ok(size)
}

/// All of it to its end, of which there may be only so much; how much it was.
fn stream(
    mut from: &File,
    most: u64,
    mut to: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    loop {
        let mut len = 0;
        while len < PIECE {
            wait(from)?;
            match from.read(&mut piece[len..])? {
                0 => break,
                n => len += n,
            }
        }
        if at + len as u64 > most {
            return Err(io::Error::other(
                "standard input has more bytes than the volume",
            ));
        }
        if len > 0 {
            to(at, &piece[..len])?;
        }
        at += len as u64;
        if len < PIECE {
            return Ok(at);
        }
    }
}

/// Until there is something to be read. Signals are another thread's, which does not end a
/// read.
fn wait(from: &File) -> io::Result<()> {
    const PATIENCE: i32 = 100;
    loop {
        if interrupt::requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut asked = libc::pollfd {
            fd: from.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure of ours.
        match unsafe { libc::poll(&raw mut asked, 1, PATIENCE) } {
            0 => {}
            1.. => return Ok(()),
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
}
