//! tane run: ordinary programs, on the Linux in this process.

mod front;
mod raw;
mod stat;
pub mod terminal;
mod trace;

use crate::args::Net;
use crate::failure::{Failure, Result, INTERRUPTED};
use crate::interrupt;
use crate::names::plain;
use crate::network;
use crate::session::Global;
use crate::session::{
    attach_network, is_host_kernel, root_of_directory, root_of_file, root_of_image, whole_image,
    Opened, Session, WayOut,
};
use crate::tell;
use crate::users::Users;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tane::Kernel;
use tane_run::{Child, Command, Error, Streams, DEFAULT_PATH};

/// PROGRAM cannot be executed, or is not there; as shells, env(1) and others have it.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Run a program of an image, on the Linux in this process
#[derive(clap::Args)]
#[command(after_help = "\
PROGRAM is an ordinary program for x86-64 Linux, static or with its libraries in the root
(docs/run.md has what is there and what is not). Its files,
processes and users are those of that Linux; of the host it has standard input, output and
error, and the jail is around it: it opens nothing of the host and has no network but its
own loopback interface, or with --net user what you let it reach. With -t these three are a
terminal of that Linux, and with -it each key is the program's.

The root directory is that of an image, or a directory of the host, which is copied into
memory. What the program writes is forgotten, unless --rw lets it write to the image
or --overlay FILE to a qcow2 on top of it. /proc, /sys, /dev, /dev/pts, /tmp and
/dev/shm are mounted where the root has such directories, or can have them without keeping
them; the last two are empty, and in memory. Without --root the program is a file of the host, and there is nothing else in its root.

--net user: the program reaches what this host reaches, by TCP and UDP, through ordinary
sockets of yours (docs/net.md). Names are resolved by the host's resolvers. Closed stay, unless
--allow names them, the host's loopback interface, which is 10.0.2.2 inside and host in
rules, and link-local addresses. With other rules nothing but what they name is open.
--net tap=NAME and switch=PATH give it a card on a wire of the host's instead, with the
--address and --gateway that it is to have.

The environment has PATH, HOME and what --env says. Ctrl-C, a hangup and a termination
reach the program as signals. When it ends, whatever it has left behind is killed. The exit
code is its own, or 128 and the number of the signal that ended it; 126 if it cannot be
executed, 127 if it is not there.

Examples:
  tane run --root disk.img -- /bin/busybox ls -l /
  tane run --root disk.img@2 --rw -- sqlite3 /var/lib/app.db vacuum
  tane run -it --root disk.img -- bash
  tane run --root tree -w /srv -e LANG=C -- ./server --check <requests >answers
  tane run --root disk.img --net user -p 8080:8000 -- python3 -m http.server
  tane run --root disk.img --net user --allow example.com:80 -- curl http://example.com
  tane run --trace=calls.txt --root disk.img -- git status
  tane run -- ./hello")]
pub struct Args {
    /// The root directory: an image, or a directory of the host
    #[arg(long, value_name = "IMAGE[@SELECTOR]|DIR")]
    pub root: Option<OsString>,
    /// Let the program write to the image
    #[arg(long)]
    pub rw: bool,
    /// A variable of the environment, in the place of one of that name; NAME alone is the
    /// host's. Can be repeated
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_variable))]
    pub env: Vec<(OsString, OsString)>,
    /// The directory that the program starts in
    #[arg(short, long, value_name = "DIR", default_value = "/")]
    pub workdir: PathBuf,
    /// Who runs it: names are those of the root's /etc/passwd and /etc/group (default: root)
    #[arg(short, long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,
    /// Pass what is typed on to the program's terminal (-t). Without -t the program reads
    /// standard input in any case
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the program a terminal, with this one's size; -it is for shells, editors and the
    /// like
    #[arg(short, long)]
    pub tty: bool,
    /// The program's network: none but its own loopback interface, user (what this host reaches,
    /// through ordinary sockets of yours), tap=NAME (a tap interface of this host's) or
    /// switch=PATH (a Unix socket in QEMU's framing)
    #[arg(
        long,
        value_name = "KIND",
        default_value = "none",
        help_heading = "Network"
    )]
    pub net: Net,
    #[command(flatten)]
    pub network: network::Options,
    /// Tell at the end, on standard error, which system calls the program made, and how long
    /// they took
    #[arg(long)]
    pub stat: bool,
    /// Tell each system call of the program and of what it starts, with its arguments, result
    /// and time, on standard error or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub trace: Option<Option<PathBuf>>,
    /// The program, behind --: a path, or a name that is looked for in PATH
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// While the environment is still all there.
fn parse_variable(text: OsString) -> std::result::Result<(OsString, OsString), String> {
    let bytes = text.as_bytes();
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(0) => Err("a variable has a name".into()),
        Some(at) => Ok((part(&bytes[..at]), part(&bytes[at + 1..]))),
        None => match std::env::var_os(&text) {
            Some(value) => Ok((text, value)),
            None => Err("it is not set here: write NAME=VALUE".into()),
        },
    }
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        let text = "run: programs are run by a Linux in this process, not by --kernel host";
        return Err(Failure::usage(text));
    }
    if !global.lower.is_empty() {
        let text = "run: a root is one image: --lower shows several as one for reading alone";
        return Err(Failure::usage(text));
    }
    let Some((program, words)) = args.program.split_first() else {
        return Err(Failure::usage("run: no program"));
    };
    let global = &of_programs(global)?;
    let tracer = args.trace.as_ref().map(|file| tracer(file.as_deref()));
    let tracer = tracer.transpose()?;
    let names = network::begin(&args.net, &args.network, network::Asker::Run, global)?;
    let (opened, program) = root(&args, program, global)?;
    let opened = Arc::new(opened);
    if let Some(tracer) = tracer {
        opened.machine().kernel.trace_programs(Arc::new(tracer));
    }
    let code = execute(&opened, &program, words, &args, names, global);
    let closed = Session::Image(opened).close();
    let code = code?;
    closed?;
    Ok(code)
}

/// Before the jail, in which there are no files to open.
fn tracer(file: Option<&Path>) -> Result<trace::Trace> {
    let make = |path: &Path| {
        let made = File::create(path);
        made.map_err(|e| Failure::image(format!("--trace: {}: {e}", path.display())))
    };
    Ok(trace::Trace::new(file.map(make).transpose()?))
}

/// With the kernel image that runs programs, also on what the tiny one could read.
fn of_programs(global: &Global) -> Result<Global> {
    let kernel = match &global.kernel {
        Some(named) => named.clone(),
        None => installed()?,
    };
    Ok(Global {
        runs: true,
        ..global.changed(|options| options.kernel = Some(kernel))
    })
}

/// That image.
fn installed() -> Result<PathBuf> {
    let remedy = "make builds it, and make install puts it beside the others";
    let none = |text| Failure::image(text).remedy(remedy);
    let path = tane::default_image().map_err(|e| none(said(&e)))?;
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("no kernel image that runs programs: {}", path.display());
    Err(none(text))
}

fn said(error: &tane::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// The root directory, and the program's path there or name.
fn root(args: &Args, program: &OsStr, global: &Global) -> Result<(Opened, OsString)> {
    let is_kept = args.rw || global.overlay.is_some() && !global.forgets();
    let refuse = |what: &str| {
        let text = format!("run: {what} is in memory: --rw and --overlay are for images");
        Err(Failure::usage(text))
    };
    match &args.root {
        None if is_kept => refuse("a root without --root"),
        None => {
            let (opened, copy) = root_of_file(&of_host(program)?, global)?;
            Ok((opened, copy.into()))
        }
        Some(dir) if Path::new(dir).is_dir() => match is_kept {
            true => refuse("a copy of a directory"),
            false => Ok((root_of_directory(Path::new(dir), global)?, program.into())),
        },
        Some(image) => {
            let at = whole_image(image, global)?;
            Ok((root_of_image(&at, is_kept, global)?, program.into()))
        }
    }
}

/// The program that the host has, by its path or in PATH.
fn of_host(program: &OsStr) -> Result<PathBuf> {
    let absent = |why: &str| {
        let failure = Failure::new(NOT_FOUND, format!("{}: {why}", plain(program.as_bytes())));
        failure.remedy("--root names the image or directory that it is in")
    };
    if program.as_bytes().contains(&b'/') {
        let path = Path::new(program);
        return match path.is_file() {
            true => Ok(path.to_owned()),
            false => Err(absent("there is no such file here")),
        };
    }
    let places = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut places = std::env::split_paths(&places).map(|dir| dir.join(program));
    let found = places.find(|path| path.is_file() && path.is_absolute());
    found.ok_or_else(|| absent("is in no directory of PATH"))
}

fn execute(
    opened: &Arc<Opened>,
    program: &OsStr,
    words: &[OsString],
    args: &Args,
    names: Option<network::Names>,
    global: &Global,
) -> Result<u8> {
    let root = Path::new(OsStr::from_bytes(opened.mount_point()));
    let mut command = Command::new(program)
        .root(root)
        .directory(Path::new("/").join(&args.workdir))
        .env("PATH", DEFAULT_PATH);
    for word in words {
        command = command.arg(word);
    }
    command = match &args.user {
        None => command.env("HOME", "/root"),
        Some(user) => {
            let Who { uid, gid, home } = who(user, opened)?;
            command.user(uid, gid).env("HOME", home)
        }
    };
    if args.tty {
        // What all of them understand, as containers have it.
        command = command.env("TERM", "xterm");
    }
    for (name, value) in &args.env {
        command = command.env(name, value);
    }
    if let Some(names) = names {
        command = names.show_to(command);
    }
    let kernel = &opened.machine().kernel;
    let way_out = attach_network(kernel)?;
    if args.stat {
        kernel.count_programs();
    }
    let signals = take_signals();
    interrupt::check()?;
    let begun = Instant::now();
    let child = start(&command, kernel, args)?;
    pass_signals(signals, &child)?;
    if let (Some((name, error)), false) = (child.without_file(), global.quiet) {
        let text = format!("{}: {error}: the program resolves no names", name.display());
        tell::warning(&text);
    }
    // What it has left behind uses the image.
    let ended = child.wait_and_end_all();
    let written = way_out.map_or(Ok(()), WayOut::end);
    opened.check()?;
    let counts = kernel.program_counts();
    if args.stat {
        stat::tell(&counts, begun.elapsed());
    }
    let ended = ended.map_err(|e| Failure::image(format!("{}: {e}", plain(program.as_bytes()))))?;
    written?;
    Ok(u8::try_from(ended.code()).unwrap_or(u8::MAX))
}

fn start(command: &Command, kernel: &Kernel, args: &Args) -> Result<Child> {
    if !args.tty {
        let streams = streams().map_err(|e| Failure::image(format!("standard streams: {e}")))?;
        return command.start(kernel, streams).map_err(failure);
    }
    let fail = |e| Failure::image(format!("the terminal: {e}"));
    let (terminal, sizes) = terminal::take(args).map_err(fail)?;
    let child = command.start_on_terminal(kernel, terminal);
    let child = child.map_err(failure)?;
    sizes.follow(child.handle()).map_err(fail)?;
    Ok(child)
}

fn failure(error: Error) -> Failure {
    let code = match &error {
        Error::Program(..) => NOT_EXECUTABLE,
        Error::Missing(..) => NOT_FOUND,
        Error::System(..) => crate::failure::NO_IMAGE,
    };
    Failure::new(code, error.to_string())
}

/// This process's own, without buffers, so that what is written arrives. What is read may be
/// more than the program takes.
fn streams() -> io::Result<Streams> {
    let of = |fd: std::os::fd::BorrowedFd| fd.try_clone_to_owned().map(File::from);
    Ok(Streams {
        input: Box::new(of(io::stdin().as_fd())?),
        output: Box::new(of(io::stdout().as_fd())?),
        errors: Box::new(of(io::stderr().as_fd())?),
    })
}

/// Whose a program is.
struct Who {
    uid: u32,
    gid: u32,
    home: String,
}

/// USER[:GROUP]: numbers, or names of the root's.
fn who(text: &str, opened: &Arc<Opened>) -> Result<Who> {
    let session = Session::Image(opened.clone());
    let users = Users::of(&session.root()?);
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let unknown = |what: &str, name: &str| {
        let text = format!("--user: there is no {what} {name} in the root's /etc");
        Failure::usage(text).remedy("a number does without")
    };
    let uid = users.find_user(user).ok_or_else(|| unknown("user", user))?;
    let gid = match group {
        "" => users.group_of(uid).unwrap_or(uid),
        name => users
            .find_group(name)
            .ok_or_else(|| unknown("group", name))?,
    };
    let home = users.home_of(uid).unwrap_or("/").to_owned();
    Ok(Who { uid, gid, home })
}

/// Ctrl-C and its like are the program's from now on, also while it is being started.
fn take_signals() -> Receiver<i32> {
    let (signals, received) = channel();
    let kept = Mutex::new(signals);
    interrupt::take_over(move |signal, _| {
        // Who takes them goes with the process.
        let _ = kept.lock().map(|signals| signals.send(signal));
    });
    received
}

/// The thread that takes signals has a jail of its own, and never runs Linux: another does.
fn pass_signals(received: Receiver<i32>, child: &Child) -> Result<()> {
    let handle = child.handle();
    let thread = std::thread::Builder::new().name("tane-signals".into());
    let pass = move || {
        let mut asked = false;
        for signal in received {
            if handle.kill_group(signal).is_ok() {
                continue;
            }
            // All of them have ended. Nobody may read what it wrote, or its image take long.
            if std::mem::replace(&mut asked, true) {
                interrupt::leave(INTERRUPTED);
            }
            tell::note("the program has ended (once more abandons its output and image)");
        }
    };
    let started = thread.spawn(pass).map(drop);
    started.map_err(|e| Failure::image(format!("a thread for signals: {e}")))
}
