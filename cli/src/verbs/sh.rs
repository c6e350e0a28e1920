//! tane sh: a session of many commands.

use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::shell::{self, Input, Settings};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Run many commands on images that stay open
#[derive(clap::Args)]
#[command(after_help = "\
Commands are the verbs of tane, and cd, pwd, lcd, get, put, open, close, sync and
others: help lists them, help COMMAND tells more. Words are quoted as in sh; *, ? and
[...] that are not quoted stand for files; there are no variables and pipes. Without -c
and -f, commands are read from standard input, with history and completion (Tab) if it
is a terminal.

Paths are those of the image where you are (cd IMAGE:/DIR goes elsewhere), and other
images have their name in front as ever. For cp and diff, host:PATH is a path on the
host; lcd goes there.

Images can be written to if a command of -c, -f or a file that is standard input does
that, or with --rw or --overlay: commands that are typed, or come by a pipe, only read
otherwise. An image is opened for reading until the first command that writes to it; from
then on it is locked. What was written is in the image for certain after sync, close and
the end. Ctrl-C ends a command; a script it ends as a whole, with its images in order.

The session is in a jail that lets it open the images named here and by the commands of
-c or -f, what get and put name there, and files of the host beneath --share DIR: if that
is given, no others. If none is named, it may open those of the first command that
opens one.

With --undo what is written stays in memory and is forgotten at the end, and undo goes back to
before the last command that wrote, again and again: to see what commands do, one by one.

The exit code is that of the last command, or of the one that failed under -e.

Examples:
  tane sh disk.img
  tane sh --rw disk.img                to change it by typed commands
  tane sh --undo disk.img              to try commands that nothing remains of
  tane sh -ec 'rm -f /etc/machine-id; truncate -s 0 /etc/hostname; trim' disk.img
  tane sh disk.img -c 'get etc/fstab'  into this directory
  tane sh --share . disk.img           the same by typed commands
  tane sh --share /etc a.img b.img -c 'cp /etc/hosts b.img:/etc; ls -l b.img:/etc/hosts'
  tane sh -e -f prepare.tane disk.qcow2
  echo 'du -s /var; df' | tane sh --json disk.img@2")]
pub struct Args {
    /// Images to open; the session begins in the first
    #[arg(value_name = "IMAGE[:/DIR]")]
    pub images: Vec<OsString>,
    /// A directory of the host that commands may read and write
    #[arg(long, value_name = "DIR")]
    pub share: Vec<PathBuf>,
    /// Run these commands
    #[arg(short, value_name = "COMMANDS", conflicts_with = "file")]
    pub commands: Option<OsString>,
    /// Run the commands of this file, which is read to its end first; - is standard input
    #[arg(short, long, value_name = "SCRIPT")]
    pub file: Option<PathBuf>,
    /// End with the first command that fails
    #[arg(short, long)]
    pub errexit: bool,
    /// Refuse commands that write to images
    #[arg(short, long)]
    pub read_only: bool,
    /// Let commands write to images that are typed, or come by a pipe
    #[arg(long, conflicts_with = "read_only")]
    pub rw: bool,
    /// Keep what is written in memory (--overlay :memory:), where undo goes back to before
    /// the last command that wrote
    #[arg(long, conflicts_with_all = ["read_only", "rw"])]
    pub undo: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let global = &match args.undo {
        true => in_memory(global)?,
        false => global.clone(),
    };
    let input = match (args.commands, args.file) {
        (Some(text), _) => Some(Input::text(text.into_vec())),
        (None, Some(path)) => Some(Input::file(&path)?),
        (None, None) => None,
    };
    let settings = Settings {
        images: args.images,
        errexit: args.errexit,
        read_only: args.read_only,
        rw: args.rw,
        undo: args.undo,
        shared: args.share,
    };
    shell::run(settings, input, global)
}

/// There is no way back from what is written to a file.
fn in_memory(global: &Global) -> Result<Global> {
    if global.overlay.is_some() && !global.forgets() {
        let text = "what is written to a file stays there: --undo goes with --overlay :memory:";
        return Err(Failure::usage(text));
    }
    let mut global = global.clone();
    global.overlay = Some(":memory:".into());
    Ok(global)
}
