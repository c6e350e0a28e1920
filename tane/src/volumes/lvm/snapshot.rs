//! Snapshots as they were before thin volumes: what the origin held is copied into
//! a store before it is overwritten.

use super::group::{damaged, Made, Snapshot};
use super::stack::{Part, Stack};
use crate::volumes::mapper::Target;
use crate::volumes::Writes;

impl Stack<'_> {
    /// What the user knows as the volume of that name.
    pub(super) fn visible(&mut self, name: &str) -> Made<Part> {
        if let Some(known) = self.visible.get(name) {
            return known.clone();
        }
        let made = match self.group.snapshot(name) {
            Some(of) if of.merging && self.writes == Writes::Last => Err(self.merges(name)),
            Some(of) => self.with_store(name, of),
            None => self.origin(name),
        };
        self.visible.insert(name.to_owned(), made.clone());
        made
    }

    fn origin(&mut self, name: &str) -> Made<Part> {
        let lasts = self.writes == Writes::Last;
        let stores = self.group.stores(name);
        if let Some((store, of)) = stores.iter().find(|(_, of)| of.merging) {
            // It has become its snapshot, but for the copying.
            return match lasts {
                true => Err(self.merges(store)),
                false => self.with_store(store, *of),
            };
        }
        let origin = self.part(name)?;
        let mut kept = 0;
        for (store, _) in stores {
            // Whoever writes to the origin without it spoils it.
            match self.visible(store) {
                Ok(_) => kept += 1,
                Err(why) if lasts => {
                    return Err(format!("its snapshot {store} would be spoilt: {why}"))
                }
                Err(_) => {}
            }
        }
        if kept == 0 || self.writes == Writes::Refused {
            return Ok(origin);
        }
        let target = Target {
            start: 0,
            len: origin.sectors,
            kind: "snapshot-origin",
            parameters: origin.device.display().to_string(),
        };
        self.device(vec![target], origin.under, false)
    }

    fn merges(&self, store: &str) -> String {
        format!("LVM was merging the snapshot {store} into its origin: until that ended they are only read")
    }

    fn with_store(&mut self, store: &str, of: Snapshot) -> Made<Part> {
        if of.chunk == 0 {
            return Err(damaged());
        }
        let origin = self.part(of.origin)?;
        let store = self.part(store)?;
        let (origin_node, store_node) = (origin.device.display(), store.device.display());
        let target = Target {
            start: 0,
            len: origin.sectors,
            kind: "snapshot",
            parameters: format!("{origin_node} {store_node} P {}", of.chunk),
        };
        let mut under = origin.under.clone();
        under.add(&store.under);
        self.device(vec![target], under, self.writes == Writes::Refused)
    }
}
