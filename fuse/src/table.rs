//! All nodes that the host's kernel knows, by its names for them and by ours.

use crate::node::{locked, Dentry, Node, Open};
use crate::ROOT;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CString;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, Weak};
use tane_linux::{Errno, Kind, Stat};

/// Files that are kept open at a time, beside those that must be: each keeps an
/// inode in the memory of the Linux that serves.
const MOST_OPEN: usize = 4096;

/// Numbers from here on are ours, not inode numbers of the file system.
const OWN_IDS: u64 = 1 << 63;

/// See [`Table::after`].
const MOST_LOOKED_AT: usize = 4096;

struct Known {
    node: Arc<Node>,
    /// How often the host's kernel was told of it, less what it forgot.
    lookups: u64,
}

struct Maps {
    by_id: BTreeMap<u64, Known>,
    by_identity: HashMap<(u64, u64), u64>,
    next_own: u64,
    /// Numbers that must stay with their files a while, even if those are forgotten.
    lent: HashMap<u64, (u64, u64)>,
}

/// A number that stays with its file until this is dropped.
pub struct Lent<'t>(&'t Table, u64);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        locked(&self.0.maps).lent.remove(&self.1);
    }
}

pub struct Table {
    writable: bool,
    maps: Mutex<Maps>,
    /// In the order in which they were opened.
    opened: Mutex<VecDeque<Weak<Node>>>,
}

impl Table {
    pub fn new(root: Node, writable: bool) -> Self {
        let identity = root.identity;
        let known = Known {
            node: Arc::new(root),
            lookups: 1,
        };
        Table {
            writable,
            maps: Mutex::new(Maps {
                by_id: BTreeMap::from([(ROOT, known)]),
                by_identity: HashMap::from([(identity, ROOT)]),
                next_own: OWN_IDS,
                lent: HashMap::new(),
            }),
            opened: Mutex::default(),
        }
    }

    pub fn get(&self, id: u64) -> Result<Arc<Node>, Errno> {
        let maps = locked(&self.maps);
        let known = maps.by_id.get(&id).ok_or(Errno(libc::ESTALE))?;
        Ok(known.node.clone())
    }

    /// The node of a file, if the host's kernel knows it.
    pub fn known(&self, stat: &Stat) -> Option<Arc<Node>> {
        let maps = locked(&self.maps);
        let id = maps.by_identity.get(&stat.identity())?;
        Some(maps.by_id.get(id)?.node.clone())
    }

    /// The node of a file that was found, of which the host's kernel is being told.
    /// It has the inode's number, where that is free: the root is always 1, and in
    /// one btrfs several subvolumes may have a file of the same number.
    pub fn found(&self, stat: &Stat, dentry: impl FnOnce() -> Dentry) -> Arc<Node> {
        let mut maps = locked(&self.maps);
        let maps = &mut *maps;
        if let Some(id) = maps.by_identity.get(&stat.identity()) {
            if let Some(known) = maps.by_id.get_mut(id) {
                known.lookups += 1;
                let node = known.node.clone();
                node.found(dentry);
                return node;
            }
        }
        let mut id = stat.ino;
        let lent = maps.lent.get(&id).is_some_and(|l| *l != stat.identity());
        if id == 0 || id >= OWN_IDS || lent || maps.by_id.contains_key(&id) {
            id = maps.next_own;
            maps.next_own += 1;
        }
        let node = Arc::new(Node::new(id, stat, Some(dentry())));
        maps.by_identity.insert(stat.identity(), id);
        let known = Known {
            node: node.clone(),
            lookups: 1,
        };
        maps.by_id.insert(id, known);
        node
    }

    /// Files of a directory whose numbers come after this one, in their order. Looks
    /// at so many only of others' that it takes no longer than reading those would.
    pub fn after(
        &self,
        id: u64,
        parent: &Node,
        wanted: fn(&Node) -> bool,
        most: usize,
    ) -> Vec<Arc<Node>> {
        let maps = locked(&self.maps);
        let nodes = maps.by_id.range((Excluded(id), Unbounded));
        let nodes = nodes.map(|(_, known)| &known.node).take(MOST_LOOKED_AT);
        let mine = nodes.filter(|node| wanted(node) && node.is_in(parent));
        mine.take(most).cloned().collect()
    }

    /// Keeps this node's number from being another file's. None: it may be already.
    /// One at a time for each node.
    pub fn lend(&self, node: &Arc<Node>) -> Option<Lent<'_>> {
        let mut maps = locked(&self.maps);
        let known = maps.by_id.get(&node.id)?;
        if !Arc::ptr_eq(&known.node, node) || maps.lent.contains_key(&node.id) {
            return None;
        }
        maps.lent.insert(node.id, node.identity);
        Some(Lent(self, node.id))
    }

    pub fn forget(&self, id: u64, times: u64) {
        let mut maps = locked(&self.maps);
        let Some(known) = maps.by_id.get_mut(&id) else {
            return;
        };
        known.lookups = known.lookups.saturating_sub(times);
        if known.lookups > 0 || id == ROOT {
            return;
        }
        let gone = maps.by_id.remove(&id);
        if let Some(known) = &gone {
            if maps.by_identity.get(&known.node.identity) == Some(&id) {
                maps.by_identity.remove(&known.node.identity);
            }
        }
        // Closing takes a while, and maybe its parents with it.
        drop(maps);
        drop(gone);
    }

    /// The node's descriptor. Opens what is closed on the way to it, of which
    /// there may be any number.
    pub fn open(&self, node: &Arc<Node>) -> Result<Arc<Open>, Errno> {
        // A rename may come between looking at a place and opening it.
        for _ in 0..8 {
            if let Some(open) = node.held() {
                return Ok(open);
            }
            match self.open_from_above(node) {
                Ok(Some(open)) => return Ok(open),
                Ok(None) | Err(Errno(libc::ENOENT)) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Errno(libc::ESTALE))
    }

    fn open_from_above(&self, node: &Arc<Node>) -> Result<Option<Arc<Open>>, Errno> {
        let mut closed = Vec::new();
        let mut at = node.clone();
        let mut open = loop {
            let dentry = at.dentry().ok_or(Errno(libc::ESTALE))?;
            let parent = dentry.parent.clone();
            closed.push((at, dentry.name));
            match parent.held() {
                Some(open) => break open,
                None => at = parent,
            }
        };
        while let Some((node, name)) = closed.pop() {
            let Some((opened, fresh)) = node.open_in(&open.fd, &name, self.writable)? else {
                return Ok(None);
            };
            if fresh {
                self.count(&node);
            }
            open = opened;
        }
        Ok(Some(open))
    }

    /// As [`Self::open`], but of files for writing, or with an error that says why
    /// not.
    pub fn open_to_write(&self, node: &Arc<Node>) -> Result<Arc<Open>, Errno> {
        let open = self.open(node)?;
        if open.writable || node.kind != Kind::File {
            return Ok(open);
        }
        // What forbade it may be gone.
        let dentry = node.dentry().ok_or(Errno(libc::EPERM))?;
        let parent = self.open(&dentry.parent)?;
        node.reopen_to_write(&parent.fd, &dentry.name)
    }

    /// This name is about to go. If a node is known by it, that stays open.
    pub fn pin(&self, parent: &Node, name: &CString, stat: &Stat) -> Option<Arc<Node>> {
        let node = self.known(stat).filter(|node| node.is_at(parent, name))?;
        // What cannot be opened is lost to who still has it; nothing else is.
        let _ = self.open(&node);
        node.pin();
        Some(node)
    }

    /// One more is open; the oldest of too many is closed.
    fn count(&self, node: &Arc<Node>) {
        let mut opened = locked(&self.opened);
        opened.push_back(Arc::downgrade(node));
        let oldest = match opened.len() > MOST_OPEN {
            true => opened.pop_front(),
            false => None,
        };
        drop(opened);
        if let Some(node) = oldest.and_then(|node| node.upgrade()) {
            node.close();
        }
    }
}

impl Drop for Table {
    /// Each node holds the one above it: they must not go in a chain of calls as
    /// long as a tree is deep.
    fn drop(&mut self) {
        let maps = locked(&self.maps);
        let places: Vec<_> = maps
            .by_id
            .values()
            .map(|k| k.node.forget_dentry())
            .collect();
        drop(maps);
        drop(places);
    }
}
