//! What an image is made of: a tree of files, put together in memory from
//! directories and archives, and written into the image in one fixed order.
//!
//! ```text
//! tree.rs      the tree
//! host.rs      a directory of the host into it
//! layer.rs     tar archives into it, with OCI's whiteouts
//! oci.rs       the layers of an OCI image layout
//! mtree.rs     owners, modes and devices from an mtree(5) file
//! labels.rs    SELinux labels from file_contexts(5)
//! xattrs.rs    attributes from what getfattr(1) dumps
//! emit.rs      the tree to operations of a copy
//! plan.rs      sizes, and identities that follow from the content
//! superblock.rs  what mounting leaves in an ext4 superblock, taken away again
//! ```

pub mod emit;
pub mod host;
pub mod labels;
pub mod layer;
pub mod mtree;
pub mod oci;
pub mod plan;
pub mod superblock;
pub mod tree;
pub mod xattrs;
