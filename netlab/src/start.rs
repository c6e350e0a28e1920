//! Nodes start beside each other, on two threads for each processor.
//!
//! What a node is does not depend on the others, nor on who starts it: while they start, no cable
//! leads anywhere; each is set up by a thread of its own, which has left its kernel before
//! time is led there; and they join in the order of the file.

use crate::error::{Error, Result};
use crate::lab::{Options, Stop};
use crate::node;
use crate::plan::Plan;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use tane::net::{Nic, Wire};
use tane::Kernel;

/// Threads for each processor: they wait now and then, for the kernels' own.
const EACH: usize = 2;

/// A kernel that is set up, and whose time is led.
pub struct Started {
    pub kernel: Kernel,
    /// Its cards, with the link of each, and at which end of it they are.
    pub nics: Vec<(usize, usize, Nic)>,
}

/// The ends of a link.
pub type Wires = [Arc<dyn Wire>; 2];

/// Start all nodes, in the order of the file; behind the first that fails, not all are there.
pub fn all(plan: &Plan, options: &Options, wires: &[Wires], stop: Stop) -> Vec<Result<Started>> {
    let nodes: Vec<OnceLock<_>> = plan.nodes.iter().map(|_| OnceLock::new()).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || loop {
        let index = next.fetch_add(1, Ordering::SeqCst);
        let Some(node) = nodes.get(index) else { return };
        if failed.load(Ordering::SeqCst) {
            return;
        }
        let started = match stop() {
            true => Err(Error::Interrupted),
            false => apart(plan, index, options, wires),
        };
        failed.fetch_or(started.is_err(), Ordering::SeqCst);
        node.set(started).ok();
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let others = (EACH * processors).min(plan.nodes.len()) - 1;
        for _ in 0..others {
            // Who is refused a thread has fewer.
            thread::Builder::new().spawn_scoped(scope, work).ok();
        }
        work();
    });
    nodes.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// On a thread that ends with it, so that the kernel is without callers then.
fn apart(plan: &Plan, index: usize, options: &Options, wires: &[Wires]) -> Result<Started> {
    let failed = |e| Error::Node(plan.nodes[index].name.clone(), e);
    let started = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, || one(plan, index, options, wires))
            .map_err(|e| {
                let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
                failed(tane::Error::plain(errno, "start a thread", e.to_string()))
            })?;
        // The end of the closure is not that of the thread, for which only this waits.
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    started.kernel.lead_time(true).map_err(failed)?;
    Ok(started)
}

fn one(plan: &Plan, index: usize, options: &Options, wires: &[Wires]) -> Result<Started> {
    let kernel = node::boot(plan, index, options)?;
    let mut nics = Vec::new();
    for (link, planned) in plan.links.iter().enumerate() {
        if let Some(side) = planned.side(index) {
            let nic = node::plug(plan, link, side, &kernel, wires[link][side].clone())?;
            nics.push((link, side, nic));
        }
    }
    let nic = |at: usize| {
        nics.iter()
            .find_map(|(link, _, nic)| (*link == at).then_some(nic))
    };
    node::add_routes(&plan.nodes[index], &kernel, nic)?;
    node::add_endpoints(plan, index, &kernel, nic)?;
    Ok(Started { kernel, nics })
}
