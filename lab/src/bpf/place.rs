//! Where in the kernel a program runs: whether there is such a place, and what has it run there.

use super::calls::{Event, Fd, Program};
use super::object::{Part, Target};
use crate::error::{Error, Result};
use crate::nearest::no_such;
use crate::Lab;
use std::io;
use tane::MountOptions;

const EINVAL: i32 = 22;

pub(super) enum Place {
    /// A probe or a tracepoint.
    Event(Event),
    /// By its name.
    RawTracepoint(String),
}

impl Place {
    /// Where this program of a file belongs. The kernel's code is changed for it, if it must be.
    ///
    /// Errors: [`Error::Refused`] for what is not there, or where none may be.
    pub fn find(lab: &Lab, file: &str, part: &Part) -> Result<Place> {
        let found = match &part.target {
            Target::Function {
                function,
                offset,
                returns,
            } => of_function(lab, part, function, *offset, *returns)?,
            Target::Tracepoint { group, name } => of_tracepoint(lab, group, name)?,
            Target::RawTracepoint(name) => of_raw_tracepoint(lab, name)?,
        };
        found.map_err(|why| Error::Refused {
            what: format!("{file}: program {}: {}", part.name, part.target),
            why,
        })
    }

    /// The program runs here, until the descriptor is closed.
    pub fn run(&self, program: &Program) -> io::Result<Fd> {
        match self {
            Place::Event(event) => event.run(program),
            Place::RawTracepoint(name) => program.run_at_tracepoint(name),
        }
    }
}

/// A place, or why there is none.
type Found = std::result::Result<Place, String>;

fn of_function(
    lab: &Lab,
    part: &Part,
    function: &str,
    offset: u64,
    returns: bool,
) -> Result<Found> {
    let symbols = lab.symbols()?;
    match symbols.size(function) {
        None => return Ok(Err(no_such("function", function, symbols.names()))),
        Some(size) if offset >= size => return Ok(Err("not in this function".into())),
        Some(_) => {}
    }
    let at_entry = offset == 0 && !returns;
    if part.overrides() && !(at_entry && may_fail(lab, function)?) {
        let why = "bpf_override_return() has a function fail that may not: those in \
                   error_injection/list of debugfs may, at their beginning";
        return Ok(Err(why.into()));
    }
    let sys = lab.kernel().tree("/sys")?;
    let kind = sys.read_to_string("bus/event_source/devices/kprobe/type")?;
    let kind = kind.trim().parse();
    let kind = kind.map_err(|_| Error::Record("the kind of kprobe events"))?;
    let event = Event::of_function(lab.kernel(), kind, function, offset, returns);
    Ok(event
        .map(Place::Event)
        .map_err(|error| match error.raw_os_error() {
            // Nothing else of it can be wrong by now.
            Some(EINVAL) => "no probe may be there: it is what probes are made of, or the way in, \
                         or the middle of an instruction"
                .into(),
            _ => error.to_string(),
        }))
}

/// Whether Linux has this among what may be made to fail.
fn may_fail(lab: &Lab, function: &str) -> Result<bool> {
    let mut options = MountOptions::new();
    let debug = options.fstype("debugfs").mount(lab.kernel(), "none")?;
    let list = debug.read_to_string("error_injection/list")?;
    let mut names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names.any(|name| name == function))
}

fn of_tracepoint(lab: &Lab, group: &str, name: &str) -> Result<Found> {
    let all = lab.get("available_events")?;
    let wanted = format!("{group}:{name}");
    if !all.lines().any(|line| line == wanted) {
        return Ok(Err(no_such("event", &wanted, all.lines())));
    }
    let id = lab.get(&format!("events/{group}/{name}/id"))?;
    let id = id.trim().parse();
    let id = id.map_err(|_| Error::Record("the number of an event"))?;
    let event = Event::of_tracepoint(lab.kernel(), id);
    Ok(event.map(Place::Event).map_err(|error| error.to_string()))
}

fn of_raw_tracepoint(lab: &Lab, name: &str) -> Result<Found> {
    let all = lab.get("available_events")?;
    let names = || all.lines().filter_map(|line| line.rsplit(':').next());
    let is_there = names().any(|known| known == name);
    Ok(match is_there {
        true => Ok(Place::RawTracepoint(name.to_owned())),
        false => Err(no_such("tracepoint", name, names())),
    })
}
