//! What a disk is divided into, joined from, and encrypted with.

#[path = "../common/mod.rs"]
mod common;

mod bitlocker;
mod ddf;
mod encrypted;
mod encrypted_lrw;
mod lvm;
mod lvm_raid;
mod mkfs_encrypted;
mod sets;
mod volumes;
