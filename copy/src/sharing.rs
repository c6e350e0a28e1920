//! Which files of a source have blocks in common (reflinks), so that their copies
//! can have them in common too, or the loss is told.
//!
//! Where a file lies is asked only on file systems whose files can share. What is found
//! here is a guess until whoever writes has compared the bytes: a source may change
//! meanwhile, and an image may lie.

use std::collections::{BTreeMap, HashMap};
use tane_linux::{can_share, shared_parts, Fd, Stat};

/// A file that shares something with another one.
pub type SharerId = u32;

/// A part of a file, and where an earlier file has the same blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Twin {
    pub at: u64,
    pub len: u64,
    pub file: SharerId,
    pub from: u64,
}

/// A file that shares blocks with others, and those of them that came before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shares {
    pub file: SharerId,
    pub twins: Vec<Twin>,
}

/// Blocks that a file was the first to have.
struct First {
    len: u64,
    file: SharerId,
    from: u64,
}

/// Which blocks several files share, as far as was seen.
#[derive(Default)]
pub struct Sharing {
    /// By device: its mount, if files on it can share. Btrfs gives each subvolume a
    /// device number of its own.
    mounts: HashMap<u64, Option<u64>>,
    /// By mount and place on the disk.
    firsts: HashMap<u64, BTreeMap<u64, First>>,
    /// Lengths of the files.
    sizes: Vec<u64>,
}

/// Parts that are shared end at a block, or with their file.
const BLOCK: u64 = 4096;

impl Sharing {
    /// The mount of a file that could share its blocks.
    pub fn mount(&mut self, fd: &Fd, stat: &Stat) -> Option<u64> {
        let mount = self.mounts.entry(stat.dev);
        let mount = *mount.or_insert_with(|| match can_share(fd) {
            true => fd.sys().mount_id(fd),
            false => None,
        });
        mount.filter(|_| stat.size > 0)
    }

    /// None if the file shares nothing.
    pub fn of(&mut self, fd: &Fd, stat: &Stat) -> Option<Shares> {
        let mount = self.mount(fd, stat)?;
        let parts = shared_parts(fd, stat.size);
        if parts.is_empty() {
            return None;
        }
        let file = self.sizes.len() as SharerId;
        self.sizes.push(stat.size);
        let firsts = self.firsts.entry(mount).or_default();
        let mut twins = Vec::new();
        for part in parts {
            let new = First {
                len: part.len.min(stat.size.saturating_sub(part.start)),
                file,
                from: part.start,
            };
            add(firsts, part.physical, new, &mut twins);
        }
        let whole = twins
            .into_iter()
            .filter_map(|twin| self.fit(twin, stat.size));
        Some(Shares {
            file,
            twins: whole.collect(),
        })
    }

    /// Linux shares whole blocks only, or the ends of two files.
    fn fit(&self, twin: Twin, size: u64) -> Option<Twin> {
        let other = self.sizes.get(twin.file as usize).copied().unwrap_or(0);
        let ends = twin.at + twin.len == size && twin.from + twin.len == other;
        let len = match ends {
            true => twin.len,
            false => twin.len - twin.len % BLOCK,
        };
        (len > 0).then_some(Twin { len, ..twin })
    }
}

/// Adds blocks that lie at `physical`. Those that are known are twins.
fn add(firsts: &mut BTreeMap<u64, First>, physical: u64, new: First, twins: &mut Vec<Twin>) {
    let end = physical.saturating_add(new.len);
    let mut at = physical;
    while at < end {
        let before = firsts.range(..=at).next_back();
        let known = before.filter(|(start, first)| start.saturating_add(first.len) > at);
        let own = new.from + (at - physical);
        let stop = match known {
            Some((start, first)) => {
                let stop = end.min(start.saturating_add(first.len));
                twins.push(Twin {
                    at: own,
                    len: stop - at,
                    file: first.file,
                    from: first.from + (at - start),
                });
                stop
            }
            None => {
                let next = firsts.range(at..).next();
                let stop = next.map_or(end, |(start, _)| end.min(*start));
                let first = First {
                    len: stop - at,
                    from: own,
                    ..new
                };
                firsts.insert(at, first);
                stop
            }
        };
        at = stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(file: SharerId, from: u64, len: u64) -> First {
        First { len, file, from }
    }

    #[test]
    fn blocks_that_came_before_are_found_piece_by_piece() {
        let (mut firsts, mut twins) = (BTreeMap::new(), Vec::new());
        add(&mut firsts, 1000, first(0, 0, 100), &mut twins);
        add(&mut firsts, 1200, first(1, 50, 100), &mut twins);
        assert_eq!(twins, []);
        // From the middle of the one, over what is new, into the other.
        add(&mut firsts, 1050, first(2, 7, 200), &mut twins);
        let twin = |at, len, file, from| Twin {
            at,
            len,
            file,
            from,
        };
        assert_eq!(twins, [twin(7, 50, 0, 50), twin(157, 50, 1, 50)]);
        twins.clear();
        add(&mut firsts, 1100, first(3, 0, 100), &mut twins);
        assert_eq!(twins, [twin(0, 100, 2, 57)]);
    }
}
