//! How images are opened, and what lies in what: containers, layers, other images, web servers.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../tane/tests/hostile/hfsplus.rs"]
mod hfsplus;
mod host_use;
#[path = "../../../tests/opening/mod.rs"]
mod opening_table;

mod containers;
mod convert;
mod guard;
mod http;
mod image;
mod import;
mod kept;
mod kernels;
mod layers;
mod locks;
mod lower;
mod named;
mod nbd;
mod nested;
mod netfs;
mod nfs;
mod opening;
mod served;
mod shrinking;
