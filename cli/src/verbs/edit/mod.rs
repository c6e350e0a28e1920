//! tane edit: a file of an image in the user's editor.
//!
//! Three processes, since an editor is no program for a jail, and an image is none to be
//! met without: one reads the file out of the image and ends, this one runs the editor
//! on the copy and never looks into an image, and a third one writes what came of it.

mod inside;

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::inherited;
use crate::interrupt;
use crate::names::{self, plain};
use crate::output::Output;
use crate::session::Global;
use crate::session::{self, apart, image_path};
use crate::tell;
use inside::Original;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tane::ImagePath;
use tane_linux::Errno;

/// Change a file of an image in your editor
#[derive(clap::Args)]
#[command(after_help = "\
The editor is what VISUAL names, else EDITOR, else vi; it gets a copy in a directory of
its own that nobody else can enter (in TMPDIR, else /var/tmp), and runs with all of your
rights. The image is not open meanwhile. When the editor has ended without an error and
the copy is another text, it takes the place of the file at once, with the owner, mode
and attributes that this has; else nothing is written. A file that does not exist is
made.

What became another file in the image meanwhile is left alone, and the changed text is
kept where the error says. A file with several names (hard links) is refused.

Examples:
  tane edit disk.img:/etc/fstab
  VISUAL='code --wait' tane edit disk.qcow2@2:/etc/hostname
  EDITOR=\"sed -i s/quiet//\" tane edit disk.img:/etc/default/grub")]
pub struct Args {
    /// A file in an image
    #[arg(value_name = "IMAGE:/PATH")]
    pub file: OsString,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let at = image_path(&args.file, global)?;
    let name = args.file.as_bytes();
    let copy = place(&at)?;
    let original = fetch(&at, &copy, name, global)?;
    interrupt::belongs_to_others();
    edit(&copy, name)?;
    let edited = open_edited(&copy)?;
    let digest = inside::digest_of_host(&edited).map_err(|e| on_host(&copy, &e))?;
    let changed = original.is_changed(&digest);
    if changed {
        interrupt::be_orderly();
        let stored = apart::ask("the image", || {
            forget(global);
            inside::store(&at, &edited, &original, name, global).map(|()| Vec::new())
        });
        stored.map_err(|failure| keep(&copy, failure))?;
    } else if !global.quiet {
        tell::note(&format!("{}: not changed", plain(name)));
    }
    if global.json {
        let mut out = Output::new();
        let told = names::named("path", &at.path, json!({ "changed": changed }));
        out.json(&names::named(
            "image",
            at.image.as_os_str().as_bytes(),
            told,
        ))?;
        out.flush()?;
    }
    Ok(0)
}

/// What was inherited is the editor's, and nothing for who meets an image.
fn forget(global: &Global) {
    if !global.no_jail {
        inherited::forget_the_rest();
    }
}

/// Where the copy is for the editor, which may know by the name what it is.
fn place(at: &ImagePath) -> Result<PathBuf> {
    let base = tane_linux::base_name(&at.path).unwrap_or_default();
    let harmless = |b: &u8| b.is_ascii_alphanumeric() || b"._+@-".contains(b);
    let usable = !base.is_empty() && base.len() < 200 && base.iter().all(harmless);
    let name = if usable { base } else { b"file" };
    Ok(session::temporary_directory()?.join(OsStr::from_bytes(name)))
}

fn fetch(at: &ImagePath, copy: &Path, name: &[u8], global: &Global) -> Result<Original> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(copy).map_err(|e| on_host(copy, &e))?;
    let said = apart::ask("the image", || {
        forget(global);
        let original = inside::fetch(at, &file, name, global)?;
        serde_json::to_vec(&original).map_err(|e| Failure::new(SOME_FAILED, e.to_string()))
    })?;
    let wrong = |e| Failure::image(format!("{}: {e}", plain(name)));
    serde_json::from_slice(&said).map_err(wrong)
}

/// Runs the editor to its end.
fn edit(copy: &Path, name: &[u8]) -> Result<()> {
    let named = |key| std::env::var_os(key).filter(|value| !value.is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR"));
    let editor = editor.unwrap_or_else(|| "vi".into());
    // As git does: it may have arguments.
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(&editor).arg(copy);
    // SAFETY: system calls alone, on a set of its own.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            Ok(())
        });
    }
    let shown = plain(editor.as_bytes()).into_owned();
    let status = command.status().map_err(|e| {
        let text = format!("{shown}: cannot be started: {e}");
        Failure::new(SOME_FAILED, text)
    })?;
    if status.success() {
        return Ok(());
    }
    let what = plain(name);
    let text = format!("{what}: nothing was written: the editor {shown} ended with {status}");
    let failure = Failure::new(SOME_FAILED, text).about(name);
    Err(match status.code() {
        Some(126 | 127) => failure.remedy("name one by VISUAL or EDITOR"),
        _ => failure,
    })
}

/// What the editor left under the name, which need not be the file that it was given.
fn open_edited(copy: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(copy).map_err(|e| on_host(copy, &e))?;
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) => {
            let text = format!("{}: the editor left no file there", copy.display());
            Err(Failure::new(SOME_FAILED, text))
        }
        Err(e) => Err(on_host(copy, &e)),
    }
}

/// The text is the user's work, and stays when it could not be written.
fn keep(copy: &Path, failure: Failure) -> Failure {
    let dir = copy.parent().and_then(Path::parent);
    let name = copy.file_name().unwrap_or_default().to_string_lossy();
    let Some(dir) = dir.filter(|_| failure.code != 0) else {
        return failure;
    };
    let base = format!("tane-{}-{name}", std::process::id());
    let places = (0..1000).map(|n| match n {
        0 => dir.join(&base),
        n => dir.join(format!("{base}.{n}")),
    });
    let mut free = places.filter(|place| place.symlink_metadata().is_err());
    let kept = free.next().unwrap_or_else(|| dir.join(&base));
    match fs::hard_link(copy, &kept) {
        Ok(()) => failure.remedy(format!("the changed text is in {}", kept.display())),
        Err(e) => failure.remedy(format!("the changed text is lost: {}: {e}", kept.display())),
    }
}

fn on_host(path: &Path, e: &std::io::Error) -> Failure {
    let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
    Failure::file(path.as_os_str().as_bytes(), errno)
}
