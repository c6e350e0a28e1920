//! Files of an image and a checked module: lent instead of read, and many of them scanned, beside
//! the same program by the host's system calls.

use super::checked::{function, native};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant, BATCHES};
use crate::report::{Report, HOST, TANE};
use crate::target::Target;
use crate::temporary::Temporary;
use crate::tool;
use crate::workload::{source_at, Kind, Workload, FILE, TREE};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tane_checked_build::{build, kernel_imports, Options};
use tane_checked_run::{Calls, Function, Instance, Linux};

const READ: &str = "read";
const HEAP: u64 = 4 << 20;
const FILES: u64 = 10_000;
const SCAN: &str = include_str!("checked/scan.c");
const LEND: &str = include_str!("checked/lend.c");
/// Of 64 KiB.
const PIECES: u64 = 1024;
/// Name, what it is, how often each piece is looked at, and the step from word to word.
const LENT: [(&str, &str, u64, u64); 3] = [
    (
        "checked-lend",
        "64 KiB of a cached file of 64 MiB, lent at once; each looked at 8 times, here and there",
        8,
        512,
    ),
    ("checked-lend-once", "the same, each looked at once", 1, 512),
    (
        "checked-lend-sum",
        "the same, 8 times, all words added",
        8,
        1,
    ),
];

pub fn promises() -> Vec<Promise> {
    let row =
        |name: &str, what: &str, unit, target| Promise::new(name, Set::Checked, what, unit, target);
    let mut rows: Vec<_> = LENT
        .iter()
        .map(|(name, what, ..)| {
            let target = match *name == LENT[0].0 {
                true => Target::than(READ, 2.0),
                false => Target::None,
            };
            row(name, what, "µs", target)
        })
        .collect();
    rows.push(row(
        "checked-scan",
        "a word looked for in 10,000 small files, cached",
        "ms",
        Target::Faster(2.0),
    ));
    rows.push(row(
        "checked-scan-process",
        "the same by a new process, that boots and mounts or only begins",
        "ms",
        Target::None,
    ));
    rows
}

/// Whether this row is one of these.
pub fn is_of(promise: &Promise) -> bool {
    ["checked-lend", "checked-scan"]
        .iter()
        .any(|name| promise.name.starts_with(name))
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    match promise.name.as_str() {
        "checked-scan" => scan(promise, paths, report),
        "checked-scan-process" => processes(promise, paths, report),
        name => {
            let lent = LENT.iter().find(|lent| lent.0 == name);
            let (_, _, times, step) = lent.ok_or("no such row")?;
            lend(promise, paths, report, *times, *step)
        }
    }
}

fn module(paths: &Paths, text: &str) -> Result<Vec<u8>, String> {
    let source = paths.scratch.join("module.c");
    std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
    let options = Options {
        imports: kernel_imports().map(str::to_owned).collect(),
        ..Options::default()
    };
    build(&[&source], &options).map_err(|e| e.to_string())
}

/// A kernel with an image, and a module beside it whose root is the image's tree.
struct Beside {
    instance: Instance,
    _mount: tane::Mount,
    _device: tane::Disk,
    _kernel: tane::Kernel,
}

impl Beside {
    fn new(image: &Path, folder: &str, module: &[u8]) -> Result<Beside, String> {
        let text = |e: tane::Error| e.to_string();
        let kernel = tane::Kernel::builder()
            .memory(1 << 30)
            .boot()
            .map_err(text)?;
        let mut options = tane::DiskOptions::new();
        options.read_only(true);
        let device = kernel.open_disk(image, &options).map_err(text)?;
        let mut options = tane::MountOptions::new();
        options.read_only(true);
        let mount = options.mount(&kernel, device.device()).map_err(text)?;
        let root = mount.mount_point().join(folder);
        let root = CString::new(root.into_os_string().into_encoded_bytes());
        let root = root.map_err(|e| e.to_string())?;
        let told = |e| format!("{e:?}");
        let mut instance =
            Instance::mapped(module, HEAP, Calls::all(), Vec::new()).map_err(told)?;
        let linux = Linux {
            kernel: kernel.in_process().ok_or("the kernel is elsewhere")?,
            directory: Some(&root),
            descriptors: 1,
        };
        instance.connect(linux).map_err(told)?;
        Ok(Beside {
            instance,
            _mount: mount,
            _device: device,
            _kernel: kernel,
        })
    }

    fn call(&mut self, function: Function, arguments: &[u64]) -> Result<i64, String> {
        match self.instance.call_function(function, arguments) {
            Ok(Ok(value)) => Ok(value as i64),
            ended => Err(format!("{ended:?}")),
        }
    }
}

fn lend(
    promise: &Promise,
    paths: &Paths,
    report: &mut Report,
    times: u64,
    step: u64,
) -> Result<(), String> {
    let workload = Workload::get(paths, Kind::Large)?;
    let beside = Beside::new(&workload.image, TREE, &module(paths, LEND)?)?;
    let beside = std::cell::RefCell::new(beside);
    let of = |name: &str| function(&beside.borrow().instance, name);
    let (opens, reads, lends) = (of("opens")?, of("reads")?, of("lends")?);
    let fd = beside.borrow_mut().call(opens, &[])?;
    let fd = u64::try_from(fd).map_err(|_| format!("{FILE}: {fd}"))?;
    let looks = PIECES * times;
    let expected = beside
        .borrow_mut()
        .call(reads, &[fd, PIECES, looks, step])?;
    let by = |function| {
        let beside = &beside;
        move || {
            let start = Instant::now();
            let sum = beside
                .borrow_mut()
                .call(function, &[fd, PIECES, looks, step])?;
            let each = start.elapsed().as_secs_f64() * 1e6 / looks as f64;
            match sum == expected {
                true => Ok(each),
                false => Err(format!("{sum:x} where {expected:x} was read")),
            }
        }
    };
    let contestants = vec![
        Contestant::new(TANE, by(lends)),
        Contestant::new(READ, by(reads)),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

/// The tree on the host's own disk.
fn on_host(paths: &Paths) -> Result<Temporary, String> {
    source_at(paths.disk.join("source"), Kind::Many)
}

fn timed(work: impl FnOnce() -> Result<i64, String>) -> Result<f64, String> {
    let start = Instant::now();
    let found = work()?;
    let time = tool::ms(start);
    match found == FILES as i64 {
        true => Ok(time),
        false => Err(format!("{found:x} of {FILES} files")),
    }
}

fn scan(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let workload = Workload::get(paths, Kind::Many)?;
    let mut beside = Beside::new(&workload.image, TREE, &module(paths, SCAN)?)?;
    let work = function(&beside.instance, "work")?;
    let here = i64::from(libc::AT_FDCWD) as u64;
    let tree = on_host(paths)?;
    let native = native(paths, "scan", SCAN, &["-DON_HOST"])?;
    let root = File::open(tree.0.join(TREE)).map_err(|e| e.to_string())?;
    let contestants = vec![
        Contestant::new(TANE, || timed(|| beside.call(work, &[here]))),
        Contestant::new(HOST, || {
            // SAFETY: it reads what is below a directory of ours.
            timed(|| Ok(unsafe { native(root.as_raw_fd() as u64) } as i64))
        }),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

fn processes(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let workload = Workload::get(paths, Kind::Many)?;
    let tree = on_host(paths)?;
    let main = format!("#define FILES {FILES}\n{SCAN}");
    let (made, native) = (paths.scratch.join("scan.tmod"), paths.scratch.join("scan"));
    let failed = |e: std::io::Error| e.to_string();
    std::fs::write(&made, module(paths, &main)?).map_err(failed)?;
    let source = paths.scratch.join("module.c");
    let words = ["-O2", "-DON_HOST", "-o"];
    let mut gcc = tool::command(&tool::need("gcc", "gcc")?, words);
    tool::output(gcc.args([&native, &source]))?;
    let run = |command: &mut Command| {
        let start = Instant::now();
        tool::output(command)?;
        Ok(tool::ms(start))
    };
    let ours = || {
        let mut tane = Command::new(&paths.tane);
        tane.arg("run-module").arg("--root").arg(&workload.image);
        run(tane.arg("--").arg(&made))
    };
    let host = || run(Command::new(&native).current_dir(tree.0.join(TREE)));
    let contestants = vec![Contestant::new(TANE, ours), Contestant::new(HOST, host)];
    race(promise, report.runs, contestants, report);
    Ok(())
}
