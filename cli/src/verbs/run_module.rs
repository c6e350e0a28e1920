//! tane run-module: code that `tane check` accepts, beside the Linux in this process.

mod streams;

use crate::args::{parse_size, parse_time, Net};
use crate::failure::{Failure, Result, INTERRUPTED, NO_IMAGE, OUT_OF_TIME};
use crate::interrupt;
use crate::names::plain;
use crate::network;
use crate::session::Global;
use crate::session::{
    attach_or_loop, is_host_kernel, root_of_directory, whole_image, with_network, without_root,
    Access, Machine, Opened, Session,
};
use crate::tell;
use serde_json::json;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tane::net::{Forward, Rule};
use tane_checked_run::{Calls, Error, Instance, Linux, Place, Trap};

/// MODULE is no module that may run here, or is not there; as for `run`.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Somebody has asked it to end.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Run a module of machine code, beside the Linux in this process
#[derive(clap::Args)]
#[command(after_help = "\
MODULE is what `tane build` makes and `tane check` accepts, a file of the host; it is checked
first (docs/checked.md says what that proves). Its function main(argc, argv) is called. It has
its memory, standard input and output, and system calls of that Linux: of files those beneath
one directory of the root, as its root directory and descriptor 3; without --root none. The
jail is around it: the process opens nothing of the host.

The root is an image, which is only read unless --rw lets it be written (or --overlay FILE
takes what is written), or a directory of the host, which is copied into memory and forgotten.

With --net user it has sockets, of TCP and UDP, which reach what this host reaches, as `tane run
--help` says of it; -p leads a port of this host to it, and --to closes all but what is named.
Names are resolved by the host's resolvers where the root is a directory, whose copy gets an
/etc/resolv.conf for it, and else by whom the image's names; without --root by nobody.

The exit code is what main returns, or what it gave to tane_exit, modulo 256. What ends it
before is told with its place in the source:
  124  Time: it ran longer than --time           132  Unreachable: it has given up (ud2)
  136  Divide: by zero, or an overflow           139  Memory, Stack, Call: see docs/checked.md
126: MODULE breaks a rule, or imports what is not there or not allowed; 127: it is not there.
With --json standard error has one object at the end: how it ended, and where.

Examples:
  tane run-module -- hello.tmod
  tane run-module --root disk.img@2 -- scan.tmod needle /etc /home
  tane run-module --root tree --allow openat,read,close -- sum.tmod data.csv
  tane run-module --heap 256M --time 10s -- convert.tmod <input >output
  tane run-module --root tree --net user -p 8080:80 -- http.tmod 80")]
pub struct Args {
    /// The file system whose files it may use: an image, or a directory of the host
    #[arg(long, value_name = "IMAGE[@SELECTOR]|DIR")]
    pub root: Option<OsString>,
    /// Let it write to the image
    #[arg(long)]
    pub rw: bool,
    /// The system calls that it may import: names, files for all on files, sockets for all on
    /// sockets, or none (default: files with --root, sockets with --net); others do not let it begin
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Its network: none but the kernel's own loopback interface, or user (what this host reaches,
    /// through ordinary sockets of yours)
    #[arg(long, value_name = "KIND", default_value = "none")]
    #[arg(value_parser = parse_net)]
    pub net: Net,
    /// With --net user: a TCP port of this host, at 127.0.0.1 unless ADDRESS says another, that
    /// leads to one inside; HOST 0 is any that is free, and is told. Can be repeated
    #[arg(short, long, value_name = "[ADDRESS:]HOST:INSIDE")]
    pub publish: Vec<Forward>,
    /// With --net user: what it may reach, as --allow of `tane run`. Can be repeated
    #[arg(long, value_name = "DESTINATION")]
    pub to: Vec<Rule>,
    /// Memory for its heap and its stack, which is a quarter of it, up to 8M
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub heap: u64,
    /// End it after this time: seconds, or a number and s, m or h (default: none)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// The module, behind --, and its arguments
    #[arg(last = true, required = true, value_name = "MODULE")]
    pub module: Vec<OsString>,
}

/// Wires are for who has a whole kernel.
fn parse_net(text: &str) -> std::result::Result<Net, String> {
    match text.parse()? {
        net @ (Net::None | Net::User) => Ok(net),
        Net::Tap(_) | Net::Switch(_) => Err("a module has none or user".into()),
    }
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    refuse_nonsense(&args, global)?;
    let network = network::Options {
        publish: args.publish.clone(),
        allow: args.to.clone(),
        ..network::Options::default()
    };
    // Before what the module imports is told to be missing.
    network.check(&args.net, network::Asker::RunModule)?;
    let calls = calls(&args)?;
    let has_sockets = calls.find("socket").is_some();
    if args.net != Net::None && !has_sockets {
        let text = "run-module: --net user is for sockets, and --allow lets it have none";
        return Err(Failure::usage(text).remedy("--allow sockets adds all calls on sockets"));
    }
    let global = &match has_sockets {
        true => with_network(global)?,
        false => global.changed(|_| {}),
    };
    let path = Path::new(&args.module[0]);
    let file = std::fs::read(path).map_err(|error| {
        let name = plain(path.as_os_str().as_bytes());
        Failure::new(NOT_FOUND, format!("{name}: {error}")).about(path.as_os_str().as_bytes())
    })?;
    // Before the jail, in which nothing becomes code any more.
    let deadline = args.time.and_then(|time| Instant::now().checked_add(time));
    let mapped = Instance::mapped(&file, args.heap, calls, streams::imports(deadline));
    let mut instance = mapped.map_err(|error| failure(error, &args, path))?;
    if !instance.exports("main") {
        let failure = wrong(path, "it has no function main to be called".into());
        return Err(failure.remedy("write one: int main(int argc, char **argv)"));
    }
    let begun = network::begin(&args.net, &network, network::Asker::RunModule, global);
    let names = begun?.filter(|_| is_directory(&args));
    match root(&args, global)? {
        Root::None(machine) => {
            let way_out = has_sockets.then(|| attach_or_loop(&machine.kernel));
            let way_out = way_out.transpose()?;
            let linux = Side {
                machine: &machine,
                directory: None,
            };
            let code = execute(&mut instance, &linux, &args);
            machine.check()?;
            drop(way_out);
            code
        }
        Root::Opened(session) => {
            let Session::Image(opened) = &session else {
                return Err(Failure::image("no kernel of ours"));
            };
            let machine = opened.machine();
            if let (Some(names), Some(root)) = (names, opened.mount()) {
                names.show_in(root)?;
            }
            let way_out = has_sockets.then(|| attach_or_loop(&machine.kernel));
            let way_out = way_out.transpose()?;
            let linux = Side {
                machine,
                directory: Some(directory(opened)?),
            };
            let code = execute(&mut instance, &linux, &args);
            // What it has open is of the file system that is unmounted.
            drop(instance);
            drop(way_out);
            let closed = session.close();
            let code = code?;
            closed.map(|()| code)
        }
    }
}

fn refuse_nonsense(args: &Args, global: &Global) -> Result<()> {
    let usage = |text: &str| Err(Failure::usage(format!("run-module: {text}")));
    let is_kept = args.rw || global.overlay.is_some() && !global.forgets();
    match &args.root {
        _ if is_host_kernel(global) => {
            usage("modules run beside a Linux in this process, not by --kernel host")
        }
        None if is_kept => usage("--rw and --overlay are for the image that --root names"),
        Some(_) if is_kept && is_directory(args) => {
            usage("a copy of a directory is in memory: --rw and --overlay are for images")
        }
        None if args.allow.iter().any(|word| is_of_files(word)) => {
            usage("calls on files are for those of --root IMAGE or --root DIR")
        }
        _ => Ok(()),
    }
}

/// Whether the root is a directory of the host's.
fn is_directory(args: &Args) -> bool {
    let root = args.root.as_ref();
    root.is_some_and(|root| Path::new(root).is_dir())
}

/// Whether a word of --allow is about files alone.
fn is_of_files(word: &str) -> bool {
    let sockets = Calls::without_files().and_sockets();
    word == "files" || Calls::files().find(word).is_some() && sockets.find(word).is_none()
}

/// The same of sockets.
fn is_of_sockets(word: &str) -> bool {
    let sockets = Calls::without_files().and_sockets();
    word == "sockets" || sockets.find(word).is_some() && Calls::files().find(word).is_none()
}

/// What it may import, beside those that touch no file.
fn calls(args: &Args) -> Result<Calls> {
    let mut calls = match (args.allow.is_empty(), &args.root) {
        (true, Some(_)) => Calls::files(),
        _ => Calls::without_files(),
    };
    if args.allow.is_empty() && args.net != Net::None {
        calls = calls.and_sockets();
    }
    for word in &args.allow {
        calls = match word.as_str() {
            "files" => calls.and_files(),
            "sockets" => calls.and_sockets(),
            "none" => calls,
            name => calls.and_named(name).ok_or_else(|| {
                let all: Vec<_> = Calls::all().list().map(|call| call.name).collect();
                let text = format!("--allow: {name}: no call that a module can have");
                Failure::usage(text).remedy(format!("these are: {}", all.join(", ")))
            })?,
        };
    }
    Ok(calls)
}

enum Root {
    None(Machine),
    Opened(Session),
}

fn root(args: &Args, global: &Global) -> Result<Root> {
    let Some(root) = &args.root else {
        return without_root(global).map(Root::None);
    };
    if is_directory(args) {
        let opened = root_of_directory(Path::new(root), global)?;
        return Ok(Root::Opened(Session::Image(opened.into())));
    }
    let is_kept = args.rw || global.overlay.is_some() && !global.forgets();
    let access = if is_kept { Access::Write } else { Access::Read };
    Session::open(&whole_image(root, global)?, access, global).map(Root::Opened)
}

fn directory(opened: &Opened) -> Result<CString> {
    CString::new(opened.mount_point()).map_err(|_| Failure::image("a mount point with a NUL"))
}

/// Where its calls go.
struct Side<'s> {
    machine: &'s Machine,
    directory: Option<CString>,
}

fn execute(instance: &mut Instance, side: &Side, args: &Args) -> Result<u8> {
    let path = Path::new(&args.module[0]);
    let failed = |error| failure(error, args, path);
    let Some(kernel) = side.machine.kernel.in_process() else {
        return Err(Failure::image("no kernel of ours"));
    };
    let linux = Linux {
        kernel,
        directory: side.directory.as_deref(),
        // 0, 1 and 2 are its standard streams.
        descriptors: 4,
    };
    instance.connect(linux).map_err(failed)?;
    let limit = args.time.unwrap_or(Duration::MAX);
    let watched = instance.limit(limit);
    watched.map_err(|e| Failure::image(format!("a thread to end it in time: {e}")))?;
    if let Some(stopper) = instance.stopper() {
        interrupt::take_over(move |_, _| match STOPPED.swap(true, Relaxed) {
            false => stopper.stop(),
            true => interrupt::leave(INTERRUPTED),
        });
    }
    interrupt::check()?;
    let Some(argv) = give(instance, &args.module) else {
        let text = "run-module: its arguments have no room in its stack";
        return Err(Failure::usage(text).remedy("--heap gives it more"));
    };
    let ended = instance.call("main", &[args.module.len() as u64, argv]);
    let ended = ended.map_err(failed)?;
    side.machine.check()?;
    if matches!(ended, Err(Trap::Time)) && STOPPED.load(Relaxed) {
        return Err(Failure::new(INTERRUPTED, ""));
    }
    Ok(tell(ended, instance.place(), path))
}

/// argc strings and a null pointer, at the end of its memory: where the pointers are.
fn give(instance: &mut Instance, words: &[OsString]) -> Option<u64> {
    let mut pointers = Vec::new();
    for word in words {
        let at = instance.give(&[word.as_bytes(), b"\0"].concat())?;
        pointers.extend(at.to_le_bytes());
    }
    pointers.extend([0; 8]);
    instance.give(&pointers)
}

/// How it ended: what the user is told of it, and the exit code.
fn tell(ended: std::result::Result<u64, Trap>, place: Option<Place>, path: &Path) -> u8 {
    let (trap, code, why) = match ended {
        Ok(code) => return exited(code as u8),
        Err(Trap::Exit(code)) => return exited(code as u8),
        Err(Trap::Memory) => ("memory", 139, "it accessed memory that is not there for it"),
        Err(Trap::Stack) => ("stack", 139, "its stack is full: it calls itself too deep"),
        Err(Trap::Divide) => (
            "divide",
            136,
            "it divided by zero, or the result does not fit",
        ),
        Err(Trap::Unreachable) => ("unreachable", 132, "it has given up (ud2)"),
        Err(Trap::Call) => ("call", 139, "it called a function that there is not"),
        Err(Trap::Time) => ("time", OUT_OF_TIME, "its time is over"),
    };
    let name = plain(path.as_os_str().as_bytes());
    let place = place.as_ref();
    let function = place.and_then(|place| Some(plain(place.function.as_ref()?.as_bytes())));
    let line = place.and_then(|place| place.line.as_ref());
    let line = line.map(|(file, line)| (plain(file.as_bytes()), line));
    if tell::is_json() {
        let end = json!({
            "trap": trap,
            "message": why,
            "code": code,
            "at": place.map(|place| place.at),
            "function": function,
            "file": line.as_ref().map(|(file, _)| file),
            "line": line.as_ref().map(|(_, line)| line),
        });
        eprintln!("{}", json!({ "end": end }));
        return code;
    }
    let place = match (place, line, function) {
        (_, Some((file, line)), _) => format!(" at {file}:{line}"),
        (Some(place), None, Some(name)) => format!(" at code+{:#x}, in {name} or behind", place.at),
        (Some(place), None, None) => format!(" at code+{:#x}", place.at),
        (None, ..) => String::new(),
    };
    let trap = format!("{}{}", trap[..1].to_uppercase(), &trap[1..]);
    eprintln!("tane: {name}: {trap}{place}: {why}");
    code
}

fn exited(code: u8) -> u8 {
    if tell::is_json() {
        eprintln!("{}", json!({ "end": { "code": code } }));
    }
    code
}

fn wrong(path: &Path, text: String) -> Failure {
    let name = plain(path.as_os_str().as_bytes());
    Failure::new(NOT_EXECUTABLE, format!("{name}: {text}")).about(path.as_os_str().as_bytes())
}

/// How it gets a call that it was not given.
fn may_have(call: &str, args: &Args) -> String {
    let lacks_root = is_of_files(call) && args.root.is_none();
    let lacks_network = is_of_sockets(call) && args.net == Net::None;
    let is_of_either = !is_of_files(call) && !is_of_sockets(call);
    match args.allow.is_empty() {
        true if lacks_root => "that is a call on files, which it has with --root".into(),
        true if lacks_network => "that is a call on sockets, which it has with --net user".into(),
        true if is_of_either && args.root.is_none() && args.net == Net::None => {
            "that is a call on files and sockets, which it has with --root or --net user".into()
        }
        false if lacks_root => format!("--root and --allow {call} let it"),
        false if lacks_network => format!("--net user and --allow {call} let it"),
        _ => format!("--allow {call} lets it"),
    }
}

fn failure(error: Error, args: &Args, path: &Path) -> Failure {
    match error {
        Error::Refused(refusal) => wrong(path, refusal.to_string()).remedy(refusal.rule.remedy()),
        Error::Import(name) => {
            let call = Calls::needed(&name);
            let failure = wrong(path, format!("it imports {}", plain(name.as_bytes())));
            failure.remedy(match call {
                Some(call) => may_have(call, args),
                None => "nobody here has that: docs/checked.md has what there is".to_owned(),
            })
        }
        Error::Export(name) => wrong(path, format!("it has no function {name}")),
        Error::Function | Error::Arguments(_) | Error::Forked => {
            wrong(path, "it cannot be called here".into())
        }
        Error::NoKernel => wrong(path, "it makes system calls, and there is no Linux".into()),
        Error::Host(error) => {
            let name = plain(path.as_os_str().as_bytes());
            Failure::new(NO_IMAGE, format!("{name}: cannot be run here: {error}"))
        }
    }
}
