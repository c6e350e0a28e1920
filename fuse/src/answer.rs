//! How requests are answered.

use crate::attr::attr;
use crate::served::{Found, Result, Served};
use crate::{FOREVER, ROOT};
use fuser::{Generation, ReplyAttr, ReplyEntry, ReplyXattr};
use tane_linux::Stat;

/// Answers a request, with the error if there is one.
macro_rules! answer {
    ($self:ident, $reply:ident, $result:expr, $ok:pat => $done:expr) => {
        match $result {
            Ok($ok) => $done,
            Err(e) => $reply.error($self.death.errno(e)),
        }
    };
}
pub(crate) use answer;

impl Served {
    pub(crate) fn reply_entry(&self, parent: u64, found: Result<Found>, reply: ReplyEntry) {
        answer!(self, reply, found, found => {
            let attr = attr(found.id, &found.stat);
            reply.entry(&self.remembered(parent), &attr, Generation(0));
        });
    }

    /// Node 0: there is none, and that may be remembered too.
    pub(crate) fn reply_no_entry(&self, reply: ReplyEntry) {
        reply.entry(&FOREVER, &attr(0, &Stat::default()), Generation(0));
    }

    pub(crate) fn reply_attr(&self, id: u64, stat: Result<Stat>, reply: ReplyAttr) {
        answer!(self, reply, stat, stat => {
            // The root's number in the protocol is not its own.
            let shown = if id == ROOT { stat.ino } else { id };
            reply.attr(&FOREVER, &attr(shown, &stat));
        });
    }

    /// With no room for it, only the length was asked for.
    pub(crate) fn reply_xattr(&self, reply: ReplyXattr, length: Result<usize>, value: &[u8]) {
        answer!(self, reply, length, length => match value.is_empty() {
            true => reply.size(length as u32),
            false => reply.data(&value[..length]),
        });
    }
}
