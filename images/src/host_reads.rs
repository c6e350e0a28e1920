//! Parts of disks that the host has side by side: read by few calls instead of one
//! for each, and past every cache of the kernel inside.

use crate::backend::HostRange;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes that nobody wants and that are read all the same, since the next range
/// lies behind them: the ends of blocks, and small files of other directories.
const GAP: usize = 16 << 10;
/// Two for each range: it and the gap before it. Linux takes 1024 at once.
const MAX_BUFFERS: usize = 1000;

/// A range, and where it goes.
struct Wanted {
    file: Arc<File>,
    offset: u64,
    /// In the buffer.
    at: usize,
    len: usize,
    number: usize,
}

impl Wanted {
    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Whether one call can go on from `before` to this one.
    fn follows(&self, before: &Wanted) -> bool {
        let near = before.end()..=before.end() + GAP as u64;
        Arc::ptr_eq(&self.file, &before.file) && near.contains(&self.offset)
    }
}

/// Ranges of the host's files that are to be read, in whatever order.
#[derive(Default)]
pub struct HostReads {
    wanted: Vec<Wanted>,
    gap: Vec<u8>,
}

impl HostReads {
    /// This range goes to `at` in the buffer; `number` is what [`Self::read`] calls it.
    pub fn add(&mut self, range: HostRange, at: usize, number: usize) {
        self.wanted.push(Wanted {
            file: range.file,
            offset: range.offset,
            at,
            len: range.len as usize,
            number,
        });
    }

    /// Read all that was added into the buffer, and forget it; the numbers of those
    /// that cannot be read, and an errno that says why.
    pub fn read(&mut self, buffer: &mut [u8]) -> Vec<(usize, i32)> {
        if self.wanted.is_empty() {
            return Vec::new();
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable_by_key(|w| (Arc::as_ptr(&w.file), w.offset));
        self.gap.resize(GAP, 0);
        let mut failed = Vec::new();
        for near in wanted.chunk_by(|before, next| next.follows(before)) {
            for some in near.chunks(MAX_BUFFERS / 2) {
                if !self.at_once(some, buffer) {
                    // Whatever was wrong, one after the other shows whose it is.
                    failed.extend(some.iter().filter_map(|w| w.alone(buffer)));
                }
            }
        }
        wanted.clear();
        self.wanted = wanted;
        failed
    }

    /// False unless everything was read by this one call.
    fn at_once(&mut self, some: &[Wanted], buffer: &mut [u8]) -> bool {
        let [first, .., _] = some else {
            return false;
        };
        let part = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut parts = Vec::with_capacity(2 * some.len());
        let mut end = first.offset;
        for w in some {
            // The same bytes for all gaps: nobody looks at them.
            parts.push(part(&mut self.gap[..(w.offset - end) as usize]));
            parts.push(part(&mut buffer[w.at..w.at + w.len]));
            end = w.end();
        }
        let (fd, at) = (first.file.as_raw_fd(), first.offset as libc::off_t);
        // SAFETY: the parts lie in memory that is borrowed until after the call.
        let got = unsafe { libc::preadv(fd, parts.as_ptr(), parts.len() as i32, at) };
        got >= 0 && got as u64 == end - first.offset
    }
}

impl Wanted {
    fn alone(&self, buffer: &mut [u8]) -> Option<(usize, i32)> {
        let to = &mut buffer[self.at..self.at + self.len];
        let error = self.file.read_exact_at(to, self.offset).err()?;
        // The image has become shorter than it was.
        let short = error.kind() == io::ErrorKind::UnexpectedEof;
        let errno = error.raw_os_error().filter(|_| !short);
        Some((self.number, errno.unwrap_or(libc::EIO)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the host, and where 5 bytes lie from each of these offsets on.
    fn gathered(content: &[u8], offsets: &[u64]) -> (Vec<Vec<u8>>, Vec<usize>) {
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("tane-host-reads-{process}-{thread:?}"));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(content, 0).unwrap();
        let file = Arc::new(file);
        let mut reads = HostReads::default();
        let mut buffer = vec![0; 7 * offsets.len()];
        for (number, &offset) in offsets.iter().enumerate() {
            let file = file.clone();
            let range = HostRange {
                file,
                offset,
                len: 5,
            };
            reads.add(range, 7 * number, number);
        }
        let failed = reads.read(&mut buffer);
        let parts = buffer.chunks(7).map(|p| p[..5].to_vec()).collect();
        (
            parts,
            failed.into_iter().map(|(number, _)| number).collect(),
        )
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| (i / 5 % 251) as u8 + (i % 5) as u8)
            .collect()
    }

    #[test]
    fn each_range_gets_its_bytes_in_whatever_order_and_distance_they_lie() {
        let content = content(200_000);
        let near = (0..3000).map(|i| i * 11 % 20_000);
        let far = [199_995, 0, 100_000, 5, 5, 8, 40_000];
        let offsets: Vec<u64> = near.chain(far).collect();
        let (parts, failed) = gathered(&content, &offsets);
        assert!(failed.is_empty());
        for (part, at) in parts.iter().zip(offsets) {
            assert_eq!(part, &content[at as usize..][..5], "{at}");
        }
    }

    #[test]
    fn only_what_cannot_be_read_goes_without() {
        let content = content(1000);
        let (parts, failed) = gathered(&content, &[10, 990, 998, 20, 1005]);
        assert_eq!(failed, [2, 4]);
        assert_eq!(parts[0], content[10..15]);
        assert_eq!(parts[1], content[990..995]);
        assert_eq!(parts[3], content[20..25]);
    }
}
