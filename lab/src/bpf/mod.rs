//! Programs of BPF in the kernel: what clang makes of C, at functions and tracepoints.
//!
//! ```text
//! object.rs  what a file has: programs and where they belong, maps, variables
//! place.rs   where in the kernel a program runs
//! calls.rs   bpf(2) and perf_event_open(2)
//! data.rs    what is in maps and variables
//! ring.rs    what was sent by a ring buffer
//! ```
//!
//! The kernel's verifier reads each program before it runs, and the kernel interprets it:
//! nothing is compiled. Loading changes the kernel's code where programs belong to
//! functions; beginning and ending to run does not.

mod calls;
mod data;
mod object;
mod place;
mod ring;

pub use data::{shown, Data, Entry, Map, Variable};

use crate::error::{Error, Result};
use crate::Lab;
use calls::{Fd, Program};
use data::Kind;
use object::Object;
use place::Place;
use std::sync::{Mutex, PoisonError};

/// Programs in a kernel, with their maps. Dropping it takes them out.
pub struct Programs<'a> {
    lab: &'a Lab,
    object: Object,
    maps: Vec<Fd>,
    loaded: Vec<Loaded>,
    /// What makes them run.
    links: Mutex<Vec<Fd>>,
}

struct Loaded {
    program: Program,
    place: Place,
}

impl Lab {
    /// The programs of `object`, an ELF file as `clang -target bpf -g -c` makes it, which
    /// errors call `name`. They do not run before [`Programs::start`].
    ///
    /// Their sections say where they belong: `kprobe/FUNCTION`, or `FUNCTION+BYTES`,
    /// `kretprobe/FUNCTION`, `tracepoint/GROUP/NAME` and `raw_tracepoint/NAME`.
    ///
    /// Errors: [`Error::Refused`] for what is no such file, for programs of other kinds or
    /// for places that are not there, for maps that nobody could read, and for what the
    /// verifier refuses, in its words.
    pub fn programs(&self, name: &str, object: &[u8]) -> Result<Programs<'_>> {
        let mut object = Object::read(name, object)?;
        let kernel = self.kernel();
        let mut maps = Vec::new();
        for map in &object.maps {
            let refused = |error: std::io::Error| Error::Refused {
                what: format!("{name}: map {}", map.name),
                why: match error.raw_os_error() {
                    Some(ENOSYS) => "this kernel has no BPF: boot the image lab".into(),
                    _ => error.to_string(),
                },
            };
            let fd = calls::create_map(kernel, map).map_err(refused)?;
            if !map.content.is_empty() {
                calls::update(&fd, &0u32.to_ne_bytes(), &map.content).map_err(refused)?;
            }
            if map.kind == Kind::Constants {
                calls::freeze(&fd).map_err(refused)?;
            }
            maps.push(fd);
        }
        object.link(&maps.iter().map(Fd::raw).collect::<Vec<_>>())?;
        let mut loaded = Vec::new();
        for part in &object.programs {
            let what = format!("{name}: program {}", part.name);
            let program = Program::load(kernel, part, &object.license)
                .map_err(|why| Error::Refused { what, why })?;
            let place = Place::find(self, name, part)?;
            loaded.push(Loaded { program, place });
        }
        Ok(Programs {
            lab: self,
            object,
            maps,
            loaded,
            links: Mutex::new(Vec::new()),
        })
    }

    /// Maps with a value for each CPU have one for all that may ever be there.
    fn possible_cpus(&self) -> Result<usize> {
        let sys = self.kernel().tree("/sys")?;
        let list = sys.read_to_string("devices/system/cpu/possible")?;
        let last = list.trim().rsplit(['-', ',']).next().unwrap_or("");
        let last: usize = last
            .parse()
            .map_err(|_| Error::Record("the list of CPUs"))?;
        Ok(last + 1)
    }
}

const ENOSYS: i32 = 38;

impl Programs<'_> {
    /// They run from now on, whoever comes by: threads of this process, and the kernel's.
    pub fn start(&self) -> Result<()> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.is_empty() {
            return Ok(());
        }
        for Loaded { program, place } in &self.loaded {
            links.push(place.run(program).map_err(Error::File)?);
        }
        Ok(())
    }

    /// They do not run any more.
    pub fn stop(&self) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.clear();
    }

    /// What is in their maps and variables now; ring buffers are empty then. What had no room in
    /// one, the program was told by the helper that writes to it, and nobody else.
    pub fn data(&self) -> Result<Data> {
        let cpus = self.lab.possible_cpus()?;
        let symbols = self.lab.symbols()?;
        let mut data = Data::default();
        for (map, fd) in self.object.maps.iter().zip(&self.maps) {
            data.add(map, fd, cpus, &symbols)?;
        }
        Ok(data)
    }

    /// How often a place was reached while another program was at work on the same CPU, which
    /// then did not run.
    pub fn missed(&self) -> Result<u64> {
        let missed = |loaded: &Loaded| loaded.program.missed().map_err(Error::File);
        self.loaded.iter().map(missed).sum()
    }
}
