//! What is known of files, so that each version of one is analysed once, and a site that
//! was proven in one mapping is patched in the next.

use crate::site::Site;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A version of a file.
///
/// A build-id is what a file says of itself. One that lies gets the sites of another
/// file: patches then find other bytes than they expect, and are refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Of files that have one, with the size of the segment.
    BuildId(Vec<u8>, u64),
    /// Of others: device, inode, and its version or time of change in nanoseconds.
    Inode {
        /// st_dev
        device: u64,
        /// st_ino
        inode: u64,
        /// STATX_CHANGE_COOKIE's, or the time of the last change (ctime).
        change: u64,
    },
}

/// A segment of a version, by its offset in the file.
pub type Key = (Version, u64);

/// What is known of a segment.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its sites.
    pub sites: Arc<[Site]>,
    /// Offsets of those that a trap has proven.
    pub proven: BTreeSet<u32>,
}

/// What is known of segments.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    known: HashMap<Key, Known>,
}

impl Cache {
    /// Knows nothing.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// What is known of this segment; what is not known yet, `find` finds out.
    pub fn get(&mut self, key: Key, find: impl FnOnce() -> Vec<Site>) -> &Known {
        self.known.entry(key).or_insert_with(|| Known {
            sites: find().into(),
            proven: BTreeSet::new(),
        })
    }

    /// A trap came from the `syscall` at this offset: whether it is a site that was found
    /// there, and new as a proven one.
    pub fn prove(&mut self, key: &Key, site: u32) -> bool {
        let Some(known) = self.known.get_mut(key) else {
            return false;
        };
        let found = known.sites.binary_search_by_key(&site, |site| site.at);
        found.is_ok() && known.proven.insert(site)
    }
}
