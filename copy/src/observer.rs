//! Whom the writing half of a copy tells what becomes of it.

use super::counts::Counts;
use super::loss::Loss;
use std::ffi::CStr;
use std::num::NonZeroU64;
use tane_linux::{Errno, Kind};

/// Who is told what becomes of a copy while it is written.
pub trait Observer: Sync {
    /// A finished file.
    fn done(&self, kind: Kind, path: &[u8]);
    /// A further name of a file.
    fn linked(&self, path: &[u8]);
    /// A file that was there already (--no-clobber).
    fn skip(&self);
    /// So many bytes of data.
    fn wrote(&self, bytes: u64);
    /// These come from the image's file directly; writing them is told apart.
    fn read_by_host(&self, bytes: u64);
    /// Something had to be left behind.
    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno);
    /// Something was not copied.
    fn error(&self, path: &[u8], error: Errno);
    /// The host could not read a file's data.
    fn unreadable(&self, path: &[u8], error: Errno);
    /// Something was not copied, for this reason.
    fn failed(&self, path: &[u8], text: String, error: Option<Errno>);
    /// Nothing more is written, and what is still to come is only named.
    fn stop(&self, why: Errno);
    /// Whether nothing more is written.
    fn has_stopped(&self) -> bool;
    /// Something that came after the stop.
    fn untried(&self, path: &[u8]);
    /// The rest of this file is of no use. Those that come in pieces are counted, from 1.
    fn give_up(&self, number: NonZeroU64);
    /// Whether nobody waits for that rest.
    fn has_given_up(&self, number: NonZeroU64) -> bool;
    /// A moment to tell how far it is.
    fn update_progress(&self);

    /// So much was copied by somebody who counts it himself.
    fn count(&self, counts: &Counts);

    /// Whoever waits for a kernel in another process has given up a system call, and with
    /// it the copy.
    fn cancel(&self) {}

    /// The copy is over.
    fn finish(&self) {}

    /// Somebody wants the copy to stop: it does after the file at hand, or within it if
    /// that is large, which then is not there.
    fn interrupted(&self) -> bool {
        false
    }

    /// Why the file at this path below the destination is not to be replaced. Asked of
    /// the host's files that are there.
    fn refusal(&self, _below: &[u8]) -> Option<String> {
        None
    }

    /// Something was not copied, in words alone.
    fn error_text(&self, path: &[u8], text: String) {
        self.failed(path, text, None);
    }

    /// As [`Self::wrote`], of bytes that came from the image's file directly.
    fn wrote_by_host(&self, bytes: u64) {
        self.read_by_host(bytes);
        self.wrote(bytes);
    }

    /// A program that makes images left something out, and says so.
    fn told(&self, _program: &str, line: &str) {
        self.lose(Loss::Told, b"/", line.as_bytes(), Errno(libc::EOPNOTSUPP));
    }

    /// An extended attribute had to be left behind.
    fn lose_xattr(&self, path: &[u8], name: &CStr, error: Errno) {
        let name = name.to_bytes();
        match Loss::of_xattr(name) {
            Loss::Xattr => self.lose(Loss::Xattr, path, name, error),
            known => self.lose(known, path, b"", error),
        }
    }
}
