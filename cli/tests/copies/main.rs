//! What is copied between images and the host: all of it, or a loss that is told.

#[path = "../common/mod.rs"]
mod common;

mod confined;
mod copy;
mod demo;
mod destinations;
mod extents;
mod full;
mod interrupt;
mod reflinks;
mod small;
mod tar;
