//! Recording what a kernel does, of several threads and from anywhere to anywhere: the
//! graph of its functions, tracepoints and probes.
//!
//! Code changes when a recorder is made and when it is dropped, and not in between:
//! a process may forbid itself to make code after the one, and never do the other.

use crate::bpf::Programs;
use crate::error::{Error, Result};
use crate::graph::{self, between_marks, Graph};
use crate::nearest::no_such;
use crate::probe::{Probe, GROUP};
use crate::record::{events, Event, Record, Thread};
use crate::Lab;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tane::{errno_of, File, OpenOptions};

/// Where events are recorded, apart from calls.
const EVENTS: &str = "instances/tane";

/// What to record. Made by [`Lab::recording`].
#[derive(Clone)]
pub struct Recording<'a> {
    graph: Graph<'a>,
    calls: bool,
    booted: bool,
    everyone: bool,
    events: Vec<String>,
    probes: Vec<(bool, String, String)>,
    /// Names of files, and what is in them.
    programs: Vec<(String, Vec<u8>)>,
    stacks: bool,
}

/// A recording that can begin at once. Made by [`Recording::prepare`]; dropping it takes
/// everything out of the kernel again.
pub struct Recorder<'a> {
    wanted: Recording<'a>,
    /// Those that are wanted, and one that says where something began or ended.
    probes: Vec<Probe<'a>>,
    /// In the order of the files.
    programs: Vec<Programs<'a>>,
    is_on: AtomicBool,
    /// `tracing_on` of the calls and of the events.
    switches: Vec<File>,
    /// Taken last.
    _calls: Option<graph::Off<'a>>,
}

impl Lab {
    /// A recording of several threads: nothing yet but the calls of this process's.
    pub fn recording(&self) -> Recording<'_> {
        Recording {
            graph: self.graph(),
            calls: true,
            booted: false,
            everyone: false,
            events: Vec::new(),
            probes: Vec::new(),
            programs: Vec::new(),
            stacks: false,
        }
    }
}

/// Words for the command line of a kernel that records its calls from its boot on, which
/// [`Recording::since_boot`] then has; as [`Recording::function`] and the others.
pub fn boot_words(functions: &[String], depth: u32, buffer: u64) -> String {
    let mut words = format!("ftrace=function_graph trace_buf_size={}", buffer.max(4096));
    if !functions.is_empty() {
        let functions = functions.join(",");
        words += &format!(" ftrace_graph_filter={functions},{}", graph::MARKED);
    }
    if depth > 0 {
        words += &format!(" ftrace_graph_max_depth={depth}");
    }
    words
}

impl<'a> Recording<'a> {
    /// As [`Graph::function`].
    pub fn function(mut self, name: &str) -> Self {
        self.graph = self.graph.function(name);
        self
    }

    /// As [`Graph::depth`].
    pub fn depth(mut self, levels: u32) -> Self {
        self.graph = self.graph.depth(levels);
        self
    }

    /// Bytes of kernel memory for calls, on each CPU, and as much for events.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.graph = self.graph.buffer(bytes);
        self
    }

    /// Whether calls are recorded; as at first, they are.
    pub fn calls(mut self, yes: bool) -> Self {
        self.calls = yes;
        self
    }

    /// Calls are recorded already: the kernel was booted with [`boot_words`].
    pub fn since_boot(mut self) -> Self {
        self.booted = true;
        self
    }

    /// Of the kernel's own threads too, but for those that idle; else of the threads of
    /// this process alone, and of those that they start.
    pub fn everyone(mut self, yes: bool) -> Self {
        self.everyone = yes;
        self
    }

    /// Tracepoints: a name, a group and a name as "ext4:ext4_writepages", with asterisks,
    /// or all of a group as "ext4:*". May be called several times.
    pub fn events(mut self, which: &str) -> Self {
        self.events.push(which.to_owned());
        self
    }

    /// An event wherever a function, or an instruction in it, is reached: as [`Lab::probe`].
    pub fn probe(mut self, place: &str, fields: &str) -> Self {
        self.probes.push((false, place.into(), fields.into()));
        self
    }

    /// An event wherever a function returns: as [`Lab::return_probe`].
    pub fn return_probe(mut self, function: &str, fields: &str) -> Self {
        self.probes.push((true, function.into(), fields.into()));
        self
    }

    /// Programs of BPF, as [`Lab::programs`] has them: they run while it is recorded. What
    /// they print is an event, `bpf_trace_printk`.
    pub fn programs(mut self, name: &str, object: &[u8]) -> Self {
        self.programs.push((name.into(), object.into()));
        self
    }

    /// With each event the functions that were under way.
    pub fn stacks(mut self, yes: bool) -> Self {
        self.stacks = yes;
        self
    }

    /// Put everything in its place. Nothing is recorded yet, but what is since the boot.
    ///
    /// Errors: [`Error::Refused`] for what the kernel does not have or allow, with what
    /// may have been meant.
    pub fn prepare(self) -> Result<Recorder<'a>> {
        let lab = self.graph.lab;
        lab.symbols()?;
        let mut recorder = Recorder {
            _calls: self.calls.then_some(graph::Off(lab)),
            wanted: self,
            probes: Vec::new(),
            programs: Vec::new(),
            is_on: AtomicBool::new(false),
            switches: Vec::new(),
        };
        recorder.prepare()?;
        Ok(recorder)
    }
}

impl<'a> Recorder<'a> {
    fn lab(&self) -> &'a Lab {
        self.wanted.graph.lab
    }

    fn prepare(&mut self) -> Result<()> {
        let lab = self.lab();
        let threads = match self.wanted.everyone || self.wanted.booted {
            true => Vec::new(),
            false => own_threads(lab)?,
        };
        if self.wanted.calls {
            if !self.wanted.booted {
                lab.set("options/function-fork", "1")?;
                self.wanted.graph.prepare(&threads)?;
            }
            self.switches.push(switch(lab, "tracing_on")?);
        }
        let wanted = &self.wanted;
        let nothing =
            wanted.events.is_empty() && wanted.probes.is_empty() && wanted.programs.is_empty();
        if !nothing {
            self.prepare_events(&threads)?;
            self.switches.push(switch(lab, &in_events("tracing_on"))?);
        }
        Ok(())
    }

    fn prepare_events(&mut self, threads: &[u64]) -> Result<()> {
        let lab = self.lab();
        lab.mount.create_dir_all(EVENTS)?;
        lab.set(&in_events("tracing_on"), "0")?;
        let size = self.wanted.graph.kilobytes();
        lab.set(&in_events("buffer_size_kb"), &size)?;
        if !threads.is_empty() {
            lab.set(&in_events("options/event-fork"), "1")?;
            lab.set(&in_events("set_event_pid"), &graph::list(threads))?;
        }
        for which in &self.wanted.events {
            enable(lab, which)?;
        }
        if self.wanted.stacks {
            // Not by the option: it would take those of probes from registers, which their
            // handlers do not have all of.
            for event in lab.get(&in_events("set_event"))?.lines() {
                let file = format!("events/{}/trigger", event.replace(':', "/"));
                lab.set(&in_events(&file), "stacktrace\n")?;
            }
        }
        if self.wanted.probes.iter().any(|probe| probe.1.contains('+')) {
            // They would become jumps some time later.
            let proc = lab.kernel().tree("/proc")?;
            proc.write("sys/debug/kprobes-optimization", "0")?;
        }
        for (returns, place, fields) in &self.wanted.probes.clone() {
            let probe = lab.declare(if *returns { 'r' } else { 'p' }, place, fields)?;
            if self.wanted.stacks {
                let trigger = format!("events/{GROUP}/{}/trigger", probe.name());
                lab.set(&in_events(&trigger), "stacktrace\n")?;
            }
            self.add(probe)?;
        }
        for (name, object) in &self.wanted.programs {
            self.programs.push(lab.programs(name, object)?);
            enable(lab, "bpf_trace:bpf_trace_printk")?;
        }
        self.add(lab.declare('p', graph::MARKED, "")?)
    }

    fn add(&mut self, probe: Probe<'a>) -> Result<()> {
        let file = format!("events/{GROUP}/{}/enable", probe.name());
        self.probes.push(probe);
        self.lab().set(&in_events(&file), "1")
    }

    /// From now on.
    pub fn start(&self) -> Result<()> {
        if !self.is_on.swap(true, Ordering::Relaxed) {
            self.switch(true)?;
            graph::mark(self.lab().kernel());
            for programs in &self.programs {
                programs.start()?;
            }
        }
        Ok(())
    }

    /// Until now; [`Recorder::start`] goes on.
    pub fn stop(&self) -> Result<()> {
        if self.is_on.swap(false, Ordering::Relaxed) {
            for programs in &self.programs {
                programs.stop();
            }
            graph::mark(self.lab().kernel());
        }
        self.switch(false)
    }

    fn switch(&self, on: bool) -> Result<()> {
        for switch in &self.switches {
            let text = if on { "1" } else { "0" };
            switch
                .write_all_at(text.as_bytes(), 0)
                .map_err(Error::File)?;
        }
        Ok(())
    }

    /// What was recorded, which is then forgotten. Stops it first.
    pub fn read(&self) -> Result<Record> {
        self.stop()?;
        let lab = self.lab();
        let mut record = Record::default();
        if self.wanted.calls {
            let (by_thread, lost) = self.wanted.graph.collect()?;
            record.lost_calls = lost;
            record.threads = self.named(by_thread)?;
        }
        if self.switches.len() > usize::from(self.wanted.calls) {
            record.lost_events = graph::lost(lab, &format!("{EVENTS}/per_cpu"))?;
            let all = events(&lab.get(&in_events("trace"))?);
            let mark = self.probes.last().map(Probe::name);
            record.events = between_marks(all, |event| Some(event.name.as_str()) == mark);
            for event in &mut record.events {
                self.name(event);
            }
            for probe in &self.probes {
                record.lost_hits += probe.missed()?;
            }
        }
        for (programs, (name, _)) in self.programs.iter().zip(&self.wanted.programs) {
            record.lost_hits += programs.missed()?;
            record.programs.push((name.clone(), programs.data()?));
        }
        Ok(record)
    }

    fn named(&self, by_thread: BTreeMap<u64, crate::Calls>) -> Result<Vec<Thread>> {
        const IDLE: u64 = 0;
        let lab = self.lab();
        let known = lab.get("saved_cmdlines")?;
        let proc = lab.kernel().tree("/proc")?;
        let name = |id: u64| {
            let alive = proc.read_to_string(format!("{id}/comm")).ok();
            let alive = alive.map(|name| name.trim_end().to_owned());
            alive.or_else(|| {
                let mut lines = known.lines().filter_map(|line| line.split_once(' '));
                let line = lines.find(|line| line.0 == id.to_string());
                line.map(|(_, name)| name.to_owned())
            })
        };
        let threads = by_thread.into_iter().filter(|(id, _)| *id != IDLE);
        Ok(threads
            .map(|(id, calls)| Thread {
                id,
                name: name(id).unwrap_or_else(|| "ended".into()),
                calls,
            })
            .collect())
    }

    /// An event of a probe has its function's name, and a stack without the probe's own.
    fn name(&self, event: &mut Event) {
        /// What comes to it last, from a function's beginning and from its end.
        const WAYS: [&str; 2] = ["tane_made_start", "arch_rethook_trampoline"];
        let at = self.probes.iter().position(|p| p.name() == event.name);
        if let Some((returns, place, _)) = at.and_then(|at| self.wanted.probes.get(at)) {
            event.name = place.clone();
            let way = event.stack.iter().position(|f| WAYS.contains(&f.as_str()));
            // Deeper down it is of what was there before; behind it may be what still is.
            let behind = |at: usize| match returns {
                true => Some(at + 1),
                false => (at + 1..at + 4).find(|n| event.stack.get(*n) == Some(place)),
            };
            let own = way.and_then(behind);
            event.stack.drain(..own.unwrap_or(0));
            event.stack.dedup();
        }
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let lab = self.lab();
        // Nobody is there to hear of an error.
        let _ = self.switch(false);
        self.switches.clear();
        for probe in &self.probes {
            let file = |name| in_events(&format!("events/{GROUP}/{}/{name}", probe.name()));
            let _ = lab.set(&file("trigger"), "!stacktrace\n");
            let _ = lab.set(&file("enable"), "0");
        }
        let _ = lab.mount.remove_dir(EVENTS);
        let _ = lab.set("options/function-fork", "0");
    }
}

fn in_events(file: &str) -> String {
    format!("{EVENTS}/{file}")
}

fn switch(lab: &Lab, file: &str) -> Result<File> {
    Ok(OpenOptions::new().write(true).open(&lab.mount, file)?)
}

/// The threads of this process, by their numbers in that kernel.
fn own_threads(lab: &Lab) -> Result<Vec<u64>> {
    let mut ids = vec![graph::thread_id(lab.kernel())];
    for task in lab.kernel().tree("/proc")?.read_dir("1/task")? {
        let id = task?.file_name().to_string_lossy().parse::<u64>();
        ids.extend(id.ok());
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

fn enable(lab: &Lab, which: &str) -> Result<()> {
    const EINVAL: i32 = 22;
    let refused = |why: String| Error::Refused {
        what: which.to_owned(),
        why,
    };
    if which.is_empty() || which.contains(char::is_whitespace) || which.contains(['!', ',']) {
        return Err(refused("an event is one word".into()));
    }
    let done = lab.add(&in_events("set_event"), &format!("{which}\n"));
    done.map_err(|error| {
        let known = lab.get("available_events").unwrap_or_default();
        let name = |line: &str| match which.contains(':') {
            true => line.to_owned(),
            false => line.rsplit(':').next().unwrap_or(line).to_owned(),
        };
        let mut all: Vec<_> = known.lines().map(name).collect();
        let groups = known.lines().filter_map(|line| line.split_once(':'));
        all.extend(groups.flat_map(|(group, _)| [group.to_owned(), format!("{group}:*")]));
        let Error::File(cause) = &error else {
            return error;
        };
        match errno_of(cause) {
            Some(EINVAL) => refused(no_such("event", which, all.iter().map(String::as_str))),
            _ => error,
        }
    })
}
