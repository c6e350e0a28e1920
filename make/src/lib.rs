//! Images, made: a tree of files is put together in memory from directories, archives and
//! container images, and written into a new file system by Linux, in one fixed order.
//!
//! It knows no command line and no terminal, and keeps nothing of one image for the next:
//! whoever is told is an [`Observer`](tane_copy::Observer), and what is done outside of
//! this crate (programs of the host, a kernel, a mount) are the [`Means`] that the caller
//! lends. The same input gives the same bytes: see `docs/cli.md`.
//!
//! ```text
//! tree.rs      the tree
//! host.rs      a directory of the host into it
//!   told.rs      as another process tells it
//! layer.rs     tar archives into it, with OCI's whiteouts
//! oci/         the layers of a container image, in a directory or an archive
//! piece.rs     a file in a file
//! mtree.rs     owners, modes and devices from an mtree(5) file
//! labels.rs    SELinux labels from file_contexts(5)
//! xattrs.rs    attributes from what getfattr(1) dumps
//! gather.rs    all of these, as it is asked for
//! plan.rs      sizes, and identities that follow from the content
//! image.rs     an image, under its name when it is complete
//! build.rs     all of it, in order
//! means.rs     what others do for it
//! tool.rs mkfs.rs    programs that make empty file systems
//! table.rs     a partition table
//! layout.rs    what is on several partitions, by a TOML file
//!   partitions.rs  such a disk
//! readonly.rs  squashfs and erofs
//!   limits.rs      what they cannot hold
//!   feed.rs        a program that reads what is made meanwhile
//!   namespace.rs   it takes itself for another user
//!   sigpipe.rs     and may end before it has read all
//! file.rs      the image while it is not finished
//! container.rs what it is in
//! settle.rs    what is left of chance, clocks and mounting, taken out again
//!   superblock.rs btrfs.rs xfs.rs    of ext4 and those
//! fill.rs      mounting the empty file system, and filling it
//!   order.rs     what is told of it to who does that
//!   disk.rs      the disk it is on
//!   emit.rs      the tree to operations of a copy
//! ```
//!
//! Imports of ours: `tane`, `tane-copy`, `tane-fuse`, `tane-linux`.

mod btrfs;
pub mod build;
pub mod container;
mod disk;
mod emit;
mod error;
mod f2fs;
mod feed;
pub mod file;
mod fill;
mod gather;
mod host;
#[cfg(test)]
mod hostile;
mod image;
mod labels;
mod layer;
pub mod layout;
mod limits;
mod means;
pub mod mkfs;
mod mtree;
mod namespace;
mod oci;
mod order;
pub mod partitions;
mod piece;
mod plan;
mod readonly;
mod settle;
mod sigpipe;
mod superblock;
pub mod table;
pub mod told;
mod tool;
mod tree;
mod xattrs;
mod xfs;

pub use error::{Error, Result};
pub use feed::Feed;
pub use fill::into_new;
pub use gather::{Gathered, Spec};
pub use image::{image, Made, Terms};
pub use means::{open_at_once, Beside, By, Direct, Means, Wanted};
pub use namespace::run_as;
pub use oci::{
    is_layout as is_container_layout, is_list as is_list_of_saved, list_of_saved,
    may_be as may_be_container, Choice,
};
pub use order::Order;
pub use plan::{Identity, Plan};
pub use tool::Tool;
