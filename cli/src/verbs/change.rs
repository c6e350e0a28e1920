//! What chmod and chown share: the same change of a file, or of a whole tree.

use crate::failure::Failure;
use crate::tell;
use crate::walk::{walk, Next, Visit, Visitor};
use std::ffi::CStr;
use tane_linux::{Errno, Fd};

struct Changer<F> {
    change: F,
    recursive: bool,
    all_well: bool,
}

/// Changes `name` in `dir`, and with `recursive` all below; directories before
/// what is in them. Complains of what cannot be changed, and goes on. False: it
/// had to.
pub fn change(
    dir: &Fd,
    name: &CStr,
    shown: &[u8],
    recursive: bool,
    change: impl Fn(&Visit) -> Result<(), Errno>,
) -> bool {
    let mut changer = Changer {
        change,
        recursive,
        all_well: true,
    };
    let _ = walk(dir, name, shown, &mut changer);
    changer.all_well
}

impl<F: Fn(&Visit) -> Result<(), Errno>> Visitor for Changer<F> {
    type Error = std::convert::Infallible;

    fn visit(&mut self, visit: &Visit) -> Result<Next, Self::Error> {
        if !visit.after {
            if let Err(e) = (self.change)(visit) {
                self.unreadable(visit.path, e);
            }
        }
        Ok(if self.recursive {
            Next::Into
        } else {
            Next::Past
        })
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        tell::failure(&Failure::file(path, error));
    }
}
