//! All of it, from the start to the report.

use crate::cable::Cable;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::node::{self, EPOCH};
use crate::plan::Plan;
use crate::report::{CableReport, Report};
use crate::start::{self, Started, Wires};
use crate::world::World;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;
use tane::net::{Capture, Nic, Wire};
use tane::Kernel;

const SECOND: u64 = 1_000_000_000;
/// After which Linux has seen that its cards' cables lead somewhere: it looks once a second.
const WARM: u64 = 2 * SECOND;

/// Whether somebody wants the laboratory to end at once.
pub type Stop<'s> = &'s (dyn Fn() -> bool + Sync);

/// What is no part of the experiment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The kernel image of all nodes; `None`: [`tane::default_image`].
    pub image: Option<PathBuf>,
    /// Memory of nodes for which the file says none, in bytes; `None`: 64 MiB.
    pub memory: Option<u64>,
    /// For the command line of all nodes.
    pub words: Option<String>,
    /// A directory that gets NAME.pcapng of each link.
    pub captures: Option<PathBuf>,
}

/// Kernels that are set up and joined by cables, on one clock. Dropping it ends them.
pub struct Lab<'a> {
    plan: &'a Plan,
    flows: Vec<Flow>,
    links: Vec<LinkUp>,
    world: World,
    /// The program's beginning, by the world's clock.
    begins: u64,
    took: f64,
}

/// A cable with its two cards.
struct LinkUp {
    cable: Arc<Cable>,
    /// Both, once their nodes have joined.
    nics: [Option<Nic>; 2],
    capture: Option<(PathBuf, Arc<Capture>)>,
}

impl<'a> Lab<'a> {
    /// Boot and set up all kernels, and let time pass until their links are up. `stop` is asked again
    /// and again whether somebody wants it to end at once, as [`Lab::run`] does.
    ///
    /// Errors: those of [`tane::Builder::boot`], of a node; a line of the file asks for what
    /// the image has not; a capture cannot be written; [`Error::Interrupted`].
    pub fn start(plan: &'a Plan, options: &Options, stop: Stop) -> Result<Lab<'a>> {
        let began = Instant::now();
        let mut lab = Lab {
            plan,
            flows: Vec::new(),
            links: Vec::new(),
            world: World::default(),
            begins: 0,
            took: 0.0,
        };
        let mut wires = Vec::new();
        for link in 0..plan.links.len() {
            let (link, ends) = lab.lay(link, options)?;
            lab.links.push(link);
            wires.push(ends);
        }
        let mut failed = Ok(());
        for started in start::all(plan, options, &wires, stop) {
            match started {
                Ok(started) => lab.join(started),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        lab.links.iter().for_each(|link| link.cable.cut(false));
        let begun = lab.world.begin();
        begun.map_err(|e| lab.of(e))?;
        for flow in 0..plan.flows.len() {
            lab.flows.push(Flow::prepare(plan, flow, &lab.world)?);
        }
        lab.warm_up(stop)?;
        lab.took = began.elapsed().as_secs_f64();
        Ok(lab)
    }

    /// The kernel of a node, by its number in the file from 0.
    pub fn kernel(&self, node: usize) -> &Kernel {
        self.world.kernel(node)
    }

    /// Run the program to its end, and say what was measured. Captures are whole in any case.
    ///
    /// Errors: a kernel has ended; a capture cannot be written; [`Error::Interrupted`].
    pub fn run(mut self, stop: Stop) -> Result<Report> {
        let began = Instant::now();
        self.go(stop)?;
        self.flush()?;
        let now = self.now();
        let took = began.elapsed().as_secs_f64();
        let plan = self.plan;
        let flows = std::mem::take(&mut self.flows).into_iter();
        let flows = flows.map(|flow| flow.report(now, plan)).collect();
        let links = self.links.iter().zip(&plan.links);
        let links = links
            .map(|(link, planned)| link.report(&planned.name))
            .collect();
        let events = plan.events.iter().filter(|event| event.time <= now);
        let events = events.map(|event| event.report(plan)).collect();
        Ok(Report {
            seed: plan.seed,
            nodes: plan.nodes.len(),
            seconds: now as f64 / SECOND as f64,
            host_seconds: took,
            start_seconds: self.took,
            steps: self.world.steps(),
            frames: self.world.frames(),
            flows,
            links,
            events,
        })
    }

    /// Write what captures have in their buffers, of all of them; the first error of any.
    fn flush(&self) -> Result<()> {
        let captures = self.links.iter().filter_map(|link| link.capture.as_ref());
        let flushed = captures
            .map(|(path, capture)| capture.flush().map_err(|e| Error::File(path.clone(), e)));
        flushed.fold(Ok(()), Result::and)
    }

    /// By the program's clock.
    fn now(&self) -> u64 {
        self.world.now() - self.begins
    }

    fn of(&self, (member, error): (usize, tane::Error)) -> Error {
        let name = self.plan.nodes[member].name.clone();
        let kernel = self.world.kernel(member);
        let error = match kernel.is_alive() {
            true => error,
            false => tane::Error::plain(libc::ESHUTDOWN, "go on", kernel.last_words()),
        };
        Error::Node(name, error)
    }

    fn join(&mut self, started: Started) {
        for (link, side, nic) in started.nics {
            self.links[link].nics[side] = Some(nic);
        }
        self.world.join(started.kernel);
    }

    /// Nobody is at the other end of it yet.
    fn lay(&self, link: usize, options: &Options) -> Result<(LinkUp, Wires)> {
        let planned = &self.plan.links[link];
        let (cable, mut wires) = self.world.cable(planned.ends.map(|end| end.node));
        let mut capture = None;
        if let Some(directory) = &options.captures {
            let path = directory.join(format!("{}.pcapng", planned.name));
            let around = self.capture(&path, wires[0].clone(), &planned.name);
            let around = around.map_err(|e| Error::File(path.clone(), e))?;
            wires[0] = around.clone();
            capture = Some((path, around));
        }
        let nics = [None, None];
        let link = LinkUp {
            cable,
            nics,
            capture,
        };
        Ok((link, wires))
    }

    fn capture(
        &self,
        path: &std::path::Path,
        wire: Arc<dyn Wire>,
        name: &str,
    ) -> std::io::Result<Arc<Capture>> {
        let clock = self.world.clock().clone();
        let time = move || EPOCH * SECOND + clock.now();
        Capture::by_clock(wire, File::create(path)?, name, time)
    }

    /// Until all links are up, and a whole second begins.
    fn warm_up(&mut self, stop: Stop) -> Result<()> {
        let until = self.world.now().next_multiple_of(SECOND) + WARM;
        self.pass_until(until, stop)?;
        for (link, planned) in self.links.iter().zip(&self.plan.links) {
            for (nic, end) in link.nics.iter().flatten().zip(&planned.ends) {
                let failed = |e| Error::Node(self.plan.nodes[end.node].name.clone(), e);
                if !nic.is_running().map_err(failed)? {
                    let text = format!("the interface {} did not come up", nic.name());
                    let error = tane::Error::plain(libc::ENOLINK, "join a link", text);
                    return Err(failed(error));
                }
            }
        }
        self.begins = until;
        Ok(())
    }

    fn pass_until(&mut self, until: u64, stop: Stop) -> Result<()> {
        loop {
            look(stop)?;
            let next = self.world.next();
            let next = next.unwrap_or(until).min(until);
            let passed = self.world.pass(next);
            passed.map_err(|e| self.of(e))?;
            if next == until {
                return Ok(());
            }
        }
    }

    fn go(&mut self, stop: Stop) -> Result<()> {
        let plan = self.plan;
        let (mut events, mut next_sample) = (plan.events.iter().peekable(), plan.sample);
        loop {
            look(stop)?;
            let now = self.now();
            while let Some(event) = events.next_if(|event| event.time <= now) {
                self.happens(event)?;
            }
            self.step_flows(now, stop)?;
            if now >= next_sample {
                self.flows.iter_mut().for_each(|flow| flow.sample(now));
                next_sample = now + plan.sample;
            }
            let is_over = self.flows.iter().all(Flow::is_over) && !self.flows.is_empty();
            if is_over || now >= plan.length {
                return Ok(());
            }
            let appointments = self.flows.iter().filter_map(Flow::appointment);
            let event = events.peek().map(|event| event.time);
            let own = appointments.chain(event).chain([next_sample, plan.length]);
            let own = own.min().unwrap_or(plan.length).max(now);
            let next = self.world.next();
            let next = next.map_or(own, |next| own.min(next - self.begins));
            let passed = self.world.pass(self.begins + next);
            passed.map_err(|e| self.of(e))?;
        }
    }

    /// Let the programs go on whose kernels have run, until they wait.
    fn step_flows(&mut self, now: u64, stop: Stop) -> Result<()> {
        let ran = self.world.take_ran();
        for number in 0..self.flows.len() {
            let flow = &mut self.flows[number];
            let is_due = flow.appointment().is_some_and(|time| time <= now);
            let has_run = flow.members().iter().any(|member| ran.contains(member));
            // Within a node all of it may be at one instant.
            let mut goes_on = is_due || has_run;
            while goes_on {
                look(stop)?;
                let stepped = self.flows[number].step(now, &mut self.world);
                goes_on = stepped.map_err(|e| self.of(e))?;
            }
        }
        // What they have set going has been done.
        self.world.take_ran();
        Ok(())
    }

    fn happens(&mut self, event: &crate::plan::EventPlan) -> Result<()> {
        let members = self.plan.links[event.link].ends.map(|end| end.node);
        let mut each = members.iter();
        let ready = each.try_for_each(|member| self.world.catch_up(*member));
        ready.map_err(|e| self.of(e))?;
        let link = &self.links[event.link];
        if let Some(cut) = event.cut {
            link.cable.cut(cut);
        }
        for (side, how) in event.impair.iter().enumerate() {
            if let (Some(how), Some(nic)) = (how, &link.nics[side]) {
                node::impair(self.plan, event.at, nic, how, 2 * event.link + side)?;
            }
        }
        let mut each = members.iter();
        let done = each.try_for_each(|member| self.world.run(*member));
        done.map_err(|e| self.of(e))
    }
}

fn look(stop: Stop) -> Result<()> {
    match stop() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

impl LinkUp {
    fn report(&self, name: &str) -> CableReport {
        let counts = [0, 1].map(|side| self.cable.counts(side));
        CableReport {
            name: name.to_owned(),
            delivered: counts.map(|counts| counts.delivered.load(Ordering::Relaxed)),
            dropped: counts.map(|counts| counts.dropped.load(Ordering::Relaxed)),
            bytes: counts.map(|counts| counts.bytes.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Lab<'_> {
    /// Kernels whose time is led would not give up cards by themselves.
    fn drop(&mut self) {
        // Whoever was interrupted has another error to tell, and else there is none.
        self.flush().ok();
        for member in 0..self.world.members() {
            self.world.kernel(member).halt();
        }
    }
}
