//! Small files, put into the host's page cache before they are asked for.
//!
//! A request costs many times what reading a small file does, above all in a virtual
//! machine. Programs that copy a tree list a directory and then read its files, by
//! inode number or by name, which is mostly the same order. So whoever reads one
//! small file after another, in the order of their numbers, gets the next ones
//! unasked (FUSE_NOTIFY_STORE), ever more of them, by the thread that would wait for
//! requests otherwise.
//!
//! Only where nothing is written: what the host has not sent yet would be lost under
//! what is stored.

use crate::node::{locked, Node};
use crate::table::Table;
use fuser::{INodeNo, Notifier};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

/// A larger file is read ahead by the host itself.
const SMALL: u64 = 128 << 10;
/// So many files at first, and at most, at once.
const FIRST: usize = 8;
const MOST: usize = 256;
const MOST_BYTES: u64 = 4 << 20;
/// Directories that are read at a time, by different programs.
const RUNS: usize = 8;

/// Files of one directory, one after another.
struct Run {
    dir: u64,
    /// What was read last, and the last that was, or is being, stored behind it.
    read: u64,
    end: u64,
    /// How many were stored at once last time.
    window: usize,
}

#[derive(Default)]
struct State {
    /// The one that was used last comes first.
    runs: VecDeque<Run>,
    /// What is to be stored next.
    next: VecDeque<Arc<Node>>,
}

#[derive(Default)]
pub struct Prefetch {
    host: OnceLock<Notifier>,
    state: Mutex<State>,
}

impl Prefetch {
    /// From now on files are stored there.
    pub fn begin(&self, host: Notifier) {
        let _ = self.host.set(host);
    }

    /// The host has asked for this file's first bytes. What comes after it is stored
    /// when there is time.
    pub fn was_read(&self, table: &Table, node: &Node) {
        if self.host.get().is_none() || !is_small(node) {
            return;
        }
        let Some(dentry) = node.dentry() else { return };
        let after = |id, most| table.after(id, &dentry.parent, is_small, most);
        let mut state = locked(&self.state);
        let known = state.runs.iter().position(|r| r.dir == dentry.parent.id);
        let known = known.and_then(|at| state.runs.remove(at));
        let mut run = known.unwrap_or_else(|| Run {
            dir: dentry.parent.id,
            read: 0,
            end: 0,
            // What was stored in full and read in the directory before.
            window: state.runs.front().map_or(0, |before| before.window / 4),
        });
        if run.read < node.id && node.id <= run.end {
            // Faster than we are: what is behind it is still to come.
            state.next.retain(|next| next.id != node.id);
            run.read = node.id;
        } else if after(run.end, 1).first().is_some_and(|n| n.id == node.id) {
            run.window = (run.window * 2).clamp(FIRST, MOST);
            let mut bytes = 0;
            let fits = |node: &Arc<Node>| {
                bytes += node.size;
                bytes <= MOST_BYTES
            };
            let files = after(node.id, run.window);
            state.next = files.into_iter().take_while(fits).collect();
            run.read = node.id;
            run.end = state.next.back().map_or(node.id, |last| last.id);
        } else {
            (run.read, run.end, run.window) = (node.id, node.id, 0);
        }
        state.runs.push_front(run);
        state.runs.truncate(RUNS);
    }

    pub fn has_more(&self) -> bool {
        !locked(&self.state).next.is_empty()
    }

    /// Stores one file. False: there is none.
    pub fn store(&self, table: &Table, read: impl FnOnce(u64, &mut [u8]) -> Option<usize>) -> bool {
        let Some(host) = self.host.get() else {
            return false;
        };
        let Some(node) = locked(&self.state).next.pop_front() else {
            return false;
        };
        let mut data = vec![0; node.size as usize];
        // What cannot be read is an error for who asks for it.
        if read(node.id, &mut data) == Some(data.len()) {
            // Nor does it matter if the host has no room, or has forgotten it.
            if let Some(_lent) = table.lend(&node) {
                let _ = host.store(INodeNo(node.id), 0, &data);
            }
        }
        true
    }
}

fn is_small(node: &Node) -> bool {
    node.kind == tane_linux::Kind::File && (1..=SMALL).contains(&node.size)
}
