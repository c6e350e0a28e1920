//! Damaged images of every file system, in processes of their own: what a worker
//! does, and who looks after it.
//!
//! The images are changed by the crate tane-hostile, as a seed says.
//!
//! kinds, tree, hfsplus, bases: the sound images that are changed
//! foreign: images that other projects made for their tests
//! worker: what is done with each
//! known: what the kernel is known to do wrong
//! watcher, finding: who counts, and goes on when a worker does not

mod bases;
mod finding;
mod foreign;
mod hfsplus;
pub mod kinds;
mod known;
mod tree;
mod watcher;
mod worker;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane::Kernel;

pub use watcher::{hunt, hunt_foreign};
pub use worker::{work, work_on_foreign};

/// What gets the kernel's log.
type Log = Arc<Mutex<String>>;

/// What is kept of it for each image; more than any oops has.
const LOG: usize = 1 << 20;

/// A kernel with all file systems, and no more memory than damage should take.
fn boot(log: Option<Log>) -> Kernel {
    let mut builder = crate::inside::builder("default").expect("a kernel image");
    builder = builder.memory(160 << 20);
    if let Some(log) = log {
        builder = builder.log(move |text| {
            let mut log = log.lock().unwrap_or_else(|e| e.into_inner());
            // Some file systems complain millions of times.
            if log.len() < LOG || text.contains(tane_hostile::WARNING) {
                log.push_str(text);
            }
        });
    }
    builder.boot().unwrap_or_else(|e| panic!("{e}"))
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// How long one image may take.
fn limit() -> Duration {
    let default = tane_test_support::PATIENCE.as_secs();
    Duration::from_secs(setting("TANE_HOSTILE_LIMIT", default))
}
