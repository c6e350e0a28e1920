//! Recording what the Linux of a command does (`tane trace`, `tane probe`).
//!
//! It is the first kernel that the command boots. It changes its code, which nothing else
//! in a jail may: so it is booted, and all is put in its place, before the image's first
//! byte is read, and from then on this process makes no code any more. What was recorded is
//! in that kernel's memory, and written by a descriptor that was open before the jail.

use super::is_without_jail;
use super::machine::{builder_of_any, no_start};
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard};
use tane::Kernel;
use tane_lab::{boot_words, Error, Lab, Record, Recorder, Trace};

/// What is to be recorded, from when on, and what becomes of it.
pub struct Request {
    pub plan: Plan,
    pub from: From,
    /// Is told what was recorded. Runs in the jail.
    pub report: Box<dyn FnOnce(Record) -> Result<()> + Send>,
}

/// As [`tane_lab::Recording`] has it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub calls: bool,
    pub functions: Vec<String>,
    pub depth: u32,
    /// In bytes.
    pub buffer: u64,
    pub everyone: bool,
    pub events: Vec<String>,
    /// Whether it is where the function returns; where, and what is kept.
    pub probes: Vec<(bool, String, String)>,
    /// Programs of BPF: names of files, and what is in them.
    pub programs: Vec<(String, Vec<u8>)>,
    pub stacks: bool,
    /// Loaded before anything else.
    pub modules: Vec<Module>,
}

/// A module of the kernel, and what it is given.
#[derive(Clone, Debug)]
pub struct Module {
    /// Of its file.
    pub name: String,
    pub bytes: Vec<u8>,
    /// As of insmod(8).
    pub parameters: String,
}

/// When a recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// With Linux itself
    Boot,
    /// When Linux gets the image
    Mount,
    /// When the image is mounted
    Verb,
}

/// Neither is ever dropped: taking a recording out of a kernel changes code.
struct Running {
    kernel: Kernel,
    recorder: ManuallyDrop<Recorder<'static>>,
    request: Request,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Asked(Request),
    /// Booted, and nobody has it yet.
    Ready(Running),
    /// Some command has it, and what is asked for has begun or has not.
    Taken(Running, bool),
    Ended(Result<()>),
}

static STATE: Mutex<State> = Mutex::new(State::Nothing);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// The next kernel is to be recorded.
pub fn ask(request: Request) {
    *state() = State::Asked(request);
}

/// This process only looks something up.
pub(super) fn forget() {
    *state() = State::Nothing;
}

/// Whether the kernel that is to be recorded was not booted yet.
pub(super) fn is_awaited() -> bool {
    matches!(*state(), State::Asked(_))
}

/// Boots it ahead of whoever takes it: no byte of an image was read yet.
pub(super) fn prepare(global: &Global) -> Result<()> {
    match is_awaited() {
        true => ready(builder_of_any(global)?, global),
        false => Ok(()),
    }
}

/// Boots it.
pub(super) fn boot(builder: tane::Builder, global: &Global) -> Result<Kernel> {
    ready(builder, global)?;
    take()?.ok_or_else(|| Failure::image("the kernel to be recorded is not there"))
}

fn ready(mut builder: tane::Builder, global: &Global) -> Result<()> {
    let mut state = state();
    let State::Asked(request) = std::mem::take(&mut *state) else {
        return Ok(());
    };
    let plan = &request.plan;
    if request.from == From::Boot {
        builder = builder.cmdline(&boot_words(&plan.functions, plan.depth, plan.buffer));
    }
    let kernel = builder.boot().map_err(no_start)?;
    if request.from == From::Boot {
        tane_lab::booted(&kernel);
    }
    // For as long as the process: see Running.
    let lab: &'static Lab = Box::leak(Box::new(kernel.trace().map_err(failure)?));
    load(lab, &request.plan.modules)?;
    let recorder = prepare_recorder(lab, &request).map_err(failure)?;
    if !is_without_jail(global) {
        let fail = |e| Failure::image(format!("the jail cannot be set up: {e}"));
        tane::jail::keep_code().map_err(fail)?;
    }
    *state = State::Ready(Running {
        kernel,
        recorder: ManuallyDrop::new(recorder),
        request,
    });
    Ok(())
}

/// They stay as long as the kernel; what it says of them is told.
fn load(lab: &Lab, modules: &[Module]) -> Result<()> {
    for Module {
        name,
        bytes,
        parameters,
    } in modules
    {
        let loaded = lab.module(name, bytes, parameters).map_err(failure)?;
        for line in loaded.said() {
            crate::tell::note(line);
        }
    }
    Ok(())
}

fn prepare_recorder(lab: &'static Lab, request: &Request) -> tane_lab::Result<Recorder<'static>> {
    let plan = &request.plan;
    let mut recording = lab.recording().calls(plan.calls).depth(plan.depth);
    recording = recording.buffer(plan.buffer).everyone(plan.everyone);
    recording = recording.stacks(plan.stacks);
    for function in &plan.functions {
        recording = recording.function(function);
    }
    for which in &plan.events {
        recording = recording.events(which);
    }
    for (returns, place, fields) in &plan.probes {
        recording = match returns {
            true => recording.return_probe(place, fields),
            false => recording.probe(place, fields),
        };
    }
    for (name, object) in &plan.programs {
        recording = recording.programs(name, object);
    }
    if request.from == From::Boot {
        recording = recording.since_boot();
    }
    recording.prepare()
}

/// The kernel that is to be recorded, for the first who asks.
pub(super) fn take() -> Result<Option<Kernel>> {
    let mut state = state();
    match std::mem::take(&mut *state) {
        State::Ready(running) => {
            let begins = running.request.from != From::Verb;
            if begins {
                running.recorder.start().map_err(failure)?;
            }
            let kernel = running.kernel.clone();
            *state = State::Taken(running, begins);
            Ok(Some(kernel))
        }
        other => {
            *state = other;
            Ok(None)
        }
    }
}

/// An image was mounted.
pub(super) fn mounted() -> Result<()> {
    match &mut *state() {
        State::Taken(running, begun @ false) => {
            *begun = true;
            running.recorder.start().map_err(failure)
        }
        _ => Ok(()),
    }
}

/// This kernel is about to end.
pub(super) fn ends(kernel: &Kernel) {
    let mut state = state();
    match std::mem::take(&mut *state) {
        State::Taken(running, _) if running.kernel == *kernel => {
            *state = State::Ended(report(running));
        }
        other => *state = other,
    }
}

fn report(running: Running) -> Result<()> {
    let Running {
        kernel,
        recorder,
        request,
    } = running;
    if !kernel.is_alive() {
        let text = "nothing is left of what was recorded: the image's Linux has died";
        return Err(Failure::image(text));
    }
    (request.report)(recorder.read().map_err(failure)?)
}

/// The command has done what it does: the recording is told, if it was not yet.
pub fn end() -> Result<()> {
    let mut state = state();
    match std::mem::take(&mut *state) {
        State::Nothing => Ok(()),
        State::Ended(done) => done,
        State::Taken(running, _) | State::Ready(running) => report(running),
        State::Asked(_) => Err(Failure::usage(
            "nothing was recorded: no Linux was booted here",
        )),
    }
}

/// What the recorder says.
pub fn failure(error: Error) -> Failure {
    match &error {
        Error::NoTracers => no_lab("this kernel image has no tracers"),
        Error::NoModules => no_lab("this kernel image loads no modules"),
        Error::Refused { .. } => Failure::usage(error.to_string()),
        _ => Failure::image(format!("it cannot be recorded: {error}")),
    }
}

/// The image lab, where the user has named none.
pub fn prefer_lab(global: &mut Global) -> Result<()> {
    if global.kernel.is_none() {
        let lab = tane::lab_image().map_err(|e| {
            let source = std::error::Error::source(&e);
            no_lab(&source.map_or_else(|| e.to_string(), ToString::to_string))
        })?;
        global.kernel = Some(lab);
    }
    Ok(())
}

/// No kernel image that can be recorded.
fn no_lab(what: &str) -> Failure {
    let remedy = "it takes the kernel image lab: --kernel lab, where that is installed, or \
                  tane kernel build --base lab -o my-lab.elf builds it, and \
                  --kernel ./my-lab.elf names it";
    Failure::image(what).remedy(remedy)
}
