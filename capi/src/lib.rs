//! The C library. `include/tane.h` is its documentation; nothing is exported
//! that is not there.
//!
//! ```text
//! error.rs    the last error of each thread; panics stop here
//! pass.rs     pointers, strings and sized structures from and to C
//! kernel.rs   tane_kernel_*, tane_syscall
//! checkpoint.rs tane_checkpoint, tane_rollback
//! disk.rs     tane_disk_*, tane_probe
//! block.rs    disks that the caller implements
//! image.rs    tane_image_*, tane_address, tane_read_files
//! mount.rs    tane_mount, tane_unmount, what concerns a whole file system
//! host_mount.rs tane_host_mount and what follows
//! path.rs     calls by path
//! xattr.rs    extended attributes
//! stat.rs     struct tane_stat
//! file.rs     tane_open and what follows
//! copy.rs     tane_copy_out, _in, _across
//! make.rs     tane_make_image
//! dir.rs      tane_opendir and what follows
//! net.rs      tane_nic_*
//! link.rs     tane_link_*, tane_route_add, tane_lookup
//! mptcp.rs    tane_mptcp_*
//! socket.rs   tane_socket and what follows
//! memory.rs   tane_buffer_*, tane_map and what follows
//! jail.rs     tane_jail
//! trace.rs    tane_trace_*
//! module.rs   tane_module_*
//! instance/   tane_instance_*
//! worker.rs   struct tane_worker_options
//! ```
//!
//! Imports of ours: `tane`, `tane-checked`, `tane-checked-run`, `tane-copy`, `tane-fuse`,
//! `tane-lab`, `tane-linux`, `tane-make`, `tane-worker`.

//!
//! What images give is here or in a worker (crate `tane-worker`): the same calls are
//! made of either.

#![deny(unsafe_op_in_unsafe_fn)]
// What callers must know is in tane.h, for all functions alike.
#![allow(clippy::missing_safety_doc)]

mod block;
mod checkpoint;
mod copy;
mod dir;
mod disk;
mod error;
mod file;
mod host_mount;
mod image;
mod instance;
mod jail;
mod kernel;
mod link;
mod make;
mod memory;
mod module;
mod mount;
mod mptcp;
mod net;
mod pass;
mod path;
mod socket;
mod stat;
mod trace;
mod worker;
mod xattr;
