//! Images that are made: of trees, archives, container images and descriptions.

#[path = "../common/mod.rs"]
mod common;

mod containers;
mod disk;
mod golden;
mod image;
mod kinds;
mod readonly;
mod table;
