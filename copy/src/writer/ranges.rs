//! Pieces of a file that lie in a file of the host.

use super::super::room::Content;
use super::super::SparseMode;
use super::files::Open;
use super::{Result, Writer};
use std::os::unix::fs::FileExt;
use tane::images::HostRange;
use tane_linux::{Errno, Sys};

/// Bytes that are read and written at once: they stay in the processor's cache.
const BUFFER: usize = 256 << 10;

/// How the host's bytes get into a file, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Within a kind of file system; some share the blocks.
    CopyFileRange,
    SendFile,
    /// Read and written, whatever the two are.
    Buffer,
}

/// Whose fault it is.
#[derive(Debug)]
enum Trouble {
    /// The image's file gives less than it had.
    Source(Errno),
    Destination(Errno),
}

impl Way {
    /// Only the host can copy from its files to its files, and blocks of zeroes
    /// are found only by looking at them.
    pub fn of(sys: Sys, sparse: SparseMode) -> Way {
        if sys.0.is_ours() || sparse == SparseMode::Always {
            Way::Buffer
        } else {
            Way::CopyFileRange
        }
    }

    fn next(self) -> Way {
        match self {
            Way::CopyFileRange => Way::SendFile,
            Way::SendFile | Way::Buffer => Way::Buffer,
        }
    }
}

impl Writer<'_, '_> {
    /// Adds to the open file. A file that cannot be read any more is given up;
    /// others may be.
    pub(super) fn range(&mut self, at: u64, range: &HostRange) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        match self.copy_range(&mut open, at, range) {
            Ok(()) => {
                self.open = Some(open);
                self.report.wrote_by_host(range.len);
                self.report.update_progress();
                Ok(())
            }
            Err(Trouble::Source(e)) => {
                self.report.unreadable(&self.path, e);
                self.open = Some(open);
                self.abort();
                Ok(())
            }
            Err(Trouble::Destination(e)) => self.close(open, Err(e)),
        }
    }

    fn copy_range(
        &mut self,
        open: &mut Open,
        at: u64,
        range: &HostRange,
    ) -> std::result::Result<(), Trouble> {
        let mut done = 0;
        let mut way = self.way;
        while done < range.len && way != Way::Buffer {
            let (from, to, len) = (range.offset + done, at + done, range.len - done);
            let moved = match way {
                Way::CopyFileRange => {
                    self.sys
                        .copy_file_range(&range.file, from, &open.fd, to, len)
                }
                _ => self.sys.sendfile(&range.file, from, &open.fd, to, len),
            };
            match moved {
                Ok(n @ 1..) => {
                    done += n;
                    open.end = at + done;
                }
                // Those who cannot do it will not learn it. For the rest the
                // buffer tells who is to blame.
                Err(e) if e.is_unsupported() || e == Errno(libc::EXDEV) => {
                    way = way.next();
                    self.way = way;
                }
                Ok(0) | Err(_) => way = Way::Buffer,
            }
        }
        if done == range.len {
            return Ok(());
        }
        self.buffer.resize(BUFFER, 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.copy_buffered(open, at, range, done, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn copy_buffered(
        &self,
        open: &mut Open,
        at: u64,
        range: &HostRange,
        mut done: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), Trouble> {
        while done < range.len {
            let len = (range.len - done).min(buffer.len() as u64) as usize;
            let part = &mut buffer[..len];
            let read = range.file.read_exact_at(part, range.offset + done);
            read.map_err(|e| Trouble::Source(Errno(e.raw_os_error().unwrap_or(libc::EIO))))?;
            let put = self.put(open, at + done, Content::Settled(part));
            put.map_err(Trouble::Destination)?;
            done += len as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::batch::{Batch, Op, Sender};
    use super::super::super::{Owner, Settings, Tally};
    use super::*;
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{channel, sync_channel};
    use std::sync::Arc;
    use tane_linux::{Host, Root, Xattrs};

    static HOST: Host = Host;

    /// A directory with a file of the host, `source`, to be copied to `f`.
    struct Rig(PathBuf);

    impl Rig {
        fn new(name: &str, source: &[u8]) -> Rig {
            let dir = format!("tane-ranges-{}-{name}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            std::fs::create_dir(&dir).expect("mkdir");
            std::fs::write(dir.join("source"), source).expect("write");
            Rig(dir)
        }

        /// One file of these ranges: where they go, where they are, how long.
        fn batch(&self, ranges: &[(u64, u64, u64)]) -> Batch {
            let (full, batches) = sync_channel(1);
            let mut sender = Sender::new(full, channel().1);
            let root = Root::host(Sys(&HOST));
            let path = self.0.join("source");
            let mut stat = root
                .stat(path.as_os_str().as_encoded_bytes(), true)
                .expect("stat");
            stat.size = ranges.iter().map(|r| r.0 + r.2).max().unwrap_or(0);
            let head = sender.head(c"f", stat, &Xattrs::default(), None);
            sender.push(Op::Begin(head));
            let file = Arc::new(File::open(path).expect("open"));
            for &(at, offset, len) in ranges {
                let file = file.clone();
                sender.push(Op::Range(at, HostRange { file, offset, len }));
            }
            sender.push(Op::End);
            assert!(sender.flush().is_ok());
            batches.recv().expect("a batch")
        }

        fn write(
            &self,
            way: Way,
            ranges: &[(u64, u64, u64)],
            stop: impl Fn() -> bool,
        ) -> Tally<'static> {
            let report = Tally::default();
            let settings = Settings {
                owner: Owner::Keep,
                sparse: SparseMode::Auto,
                devices: false,
                no_clobber: false,
                duplicates: false,
                empty: false,
                no_umask: true,
            };
            let root = Root::host(Sys(&HOST));
            let shown = self.0.as_os_str().as_encoded_bytes();
            let dir = root.open_dir(shown).expect("open");
            let mut writer = Writer::new(dir, shown, &report, settings);
            writer.way = way;
            writer.perform(&self.batch(ranges), stop);
            assert!(!writer.fatal);
            writer.end();
            report
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).expect("a listing");
            let names = entries.map(|e| e.expect("an entry").file_name());
            let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }

        fn copy(&self) -> Vec<u8> {
            std::fs::read(Path::new(&self.0).join("f")).expect("the copy")
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| ((i * i) >> 7) as u8).collect()
    }

    const WAYS: [Way; 3] = [Way::CopyFileRange, Way::SendFile, Way::Buffer];

    #[test]
    fn every_way_gives_the_same_bytes() {
        let data = noise(2_000_000);
        let ranges = [(0, 1_000_000, 700_001), (700_001, 3, 5), (900_000, 0, 999)];
        let mut wanted = vec![0; 900_999];
        for (at, from, len) in ranges.map(|r| (r.0 as usize, r.1 as usize, r.2 as usize)) {
            wanted[at..at + len].copy_from_slice(&data[from..from + len]);
        }
        for way in WAYS {
            let rig = Rig::new(&format!("same-{way:?}"), &data);
            let report = rig.write(way, &ranges, || false);
            assert!(report.failures().is_empty());
            assert!(rig.copy() == wanted, "{way:?}");
            assert_eq!(report.counts().by_host, 701_005);
        }
    }

    #[test]
    fn a_source_that_ends_early_is_an_error_and_leaves_no_file() {
        for way in WAYS {
            let rig = Rig::new(&format!("short-{way:?}"), &noise(500_000));
            let report = rig.write(way, &[(0, 0, 400_000), (400_000, 400_000, 200_000)], || {
                false
            });
            let failures = report.failures();
            let why = failures.first().map_or("", |failure| &failure.why);
            assert!(why.contains("the image cannot be read"), "{way:?}: {why}");
            assert_eq!(rig.names(), ["source"], "{way:?}");
        }
    }

    #[test]
    fn an_interrupt_is_heard_between_two_ranges_and_leaves_no_file() {
        let rig = Rig::new("stop", &noise(100_000));
        let asked = std::cell::Cell::new(0);
        // Asked before the file begins, and before each range.
        let stop = || asked.replace(asked.get() + 1) == 2;
        let ranges = [(0, 0, 50_000), (50_000, 50_000, 50_000)];
        let report = rig.write(Way::CopyFileRange, &ranges, stop);
        assert_eq!(report.counts().by_host, 50_000);
        assert_eq!(rig.names(), ["source"]);
    }
}
