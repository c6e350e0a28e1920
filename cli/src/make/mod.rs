//! What an image is made of: a tree of files, put together in memory from
//! directories and archives, and written into the image in one fixed order.
//!
//! ```text
//! tree.rs      the tree
//! host.rs      a directory of the host into it
//! layer.rs     tar archives into it, with OCI's whiteouts
//! oci/         the layers of a container image, in a directory or an archive
//! piece.rs     a file in a file
//! mtree.rs     owners, modes and devices from an mtree(5) file
//! labels.rs    SELinux labels from file_contexts(5)
//! xattrs.rs    attributes from what getfattr(1) dumps
//! plan.rs      sizes, and identities that follow from the content
//! build.rs     all of it, in order
//! table.rs     a partition table
//! layout.rs    what is on several partitions, by a TOML file
//! readonly.rs  squashfs and erofs
//!   limits.rs      what they cannot hold
//!   namespace.rs   their program takes itself for another user
//! file.rs      the image while it is not finished
//! container.rs what it is in
//! settle.rs    what is left of chance, clocks and mounting, taken out again
//!   superblock.rs btrfs.rs xfs.rs    of ext4 and those
//! fill.rs      mounting the empty file system, and filling it
//!   disk.rs      the disk it is on
//!   emit.rs      the tree to operations of a copy
//! ```

pub mod btrfs;
pub mod build;
pub mod container;
pub mod disk;
pub mod emit;
pub mod f2fs;
pub mod file;
pub mod fill;
pub mod host;
#[cfg(test)]
mod hostile;
pub mod labels;
pub mod layer;
pub mod layout;
pub mod limits;
pub mod mtree;
pub mod namespace;
pub mod oci;
pub mod piece;
pub mod plan;
pub mod readonly;
pub mod settle;
pub mod superblock;
pub mod table;
pub mod tree;
pub mod xattrs;
pub mod xfs;
