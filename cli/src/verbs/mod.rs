//! One file per verb.

pub mod bench;
pub mod build;
pub mod cat;
mod change;
pub mod check;
pub mod chmod;
pub mod chown;
pub mod convert;
pub mod cp;
pub mod df;
pub mod diff;
pub mod dmesg;
pub mod du;
pub mod edit;
pub mod find;
pub mod fsck;
pub mod fuzz;
pub mod generate;
pub mod inspect;
pub mod kaslr;
pub mod kernel;
pub mod lab;
pub mod label;
pub mod ln;
pub mod ls;
pub mod make_disk;
pub mod make_image;
pub mod mkdir;
pub mod mkfs;
pub mod module;
pub mod mount;
pub mod mv;
pub mod net;
pub mod probe;
pub mod resize;
pub mod rm;
pub mod run;
pub mod run_module;
pub mod sh;
pub mod stat;
pub mod syscall;
pub mod tar;
pub mod touch;
pub mod trace;
pub mod tree;
pub mod trim;
pub mod truncate;
pub mod umount;
pub mod uuid;
pub mod xattr;

use crate::interrupt;
use crate::session::Item;
use std::ffi::{CStr, CString};
use tane_linux::{Errno, Fd, Root};

/// The directory entry a path names, so that it can be walked or changed
/// without following a symlink it may be. Roots are "." of themselves.
fn entry<'a>(root: &Root<'a>, path: &[u8]) -> Result<(Fd<'a>, CString), Errno> {
    match tane_linux::split(path) {
        // A trailing slash asks for a directory, through a symlink if need be.
        Some(_) if !path.ends_with(b"/") => root.parent(path),
        _ => root.open_dir(path).map(|dir| (dir, c".".into())),
    }
}

/// Runs `work` on each argument's entry; complains and goes on.
fn on_entries(
    root: &Root,
    items: &[Item],
    mut work: impl FnMut(&Fd, &CStr, &Item) -> Result<bool, Errno>,
) -> bool {
    let mut all_well = true;
    for item in items {
        if interrupt::requested() {
            break;
        }
        let done = entry(root, item.path()).and_then(|(dir, name)| work(&dir, &name, item));
        all_well &= done.unwrap_or_else(|e| item.complain(e));
    }
    all_well
}
