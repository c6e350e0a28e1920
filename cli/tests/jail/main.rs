//! What code that an image got to run could do to the host.

#[path = "../common/mod.rs"]
mod common;
mod jailed;
#[path = "../prisoner/mod.rs"]
mod prisoner;

mod archives;
mod copy;
mod diff;
mod ends;
mod erofs;
mod image;
mod limits;
mod making;
#[cfg(feature = "fuse")]
mod mount;
mod programs;
mod reach;
mod run;
mod session;
mod table;
