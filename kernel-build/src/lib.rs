// SPDX-License-Identifier: GPL-2.0-only
//! Kernel images: Debian's Linux source, our overlay, our patches and a configuration in;
//! one ELF image that the loader maps out. `xtask kernel` builds those of a checkout by it,
//! and `tane kernel build` anybody's.
//!
//! Imports of ours: none.
//!
//!   layout.rs    where all of it is
//!   fresh.rs     files that appear whole
//!   origin.rs    what it is unpacked from, and whether that has changed
//!   source.rs    the pristine tree, unpacked once
//!   overlay.rs   arch/tane linked in, kernel/patches applied
//!   recipe.rs    what an image's configuration consists of
//!   config.rs    fragments merged, and every requested symbol verified
//!   kconfig/     why Kconfig did not take one
//!   compile.rs   make, reproducibly
//!   nops.rs      room for a call at the start of each function, where there is any
//!   image.rs     stripped image, debug image and manifest
//!   build.rs     one after the other
//!   modules.rs   modules that somebody has written, for an image that was built
//!   listener.rs  who hears how far it is

pub mod build;
pub mod command;
mod compile;
mod config;
mod fresh;
mod hash;
mod image;
mod kconfig;
pub mod layout;
mod listener;
mod lock;
mod modules;
mod nops;
mod origin;
mod overlay;
pub mod recipe;
mod source;

pub use build::{build, check_experiments, prepared_source, Built, Order};
pub use compile::missing_tools;
pub use config::options;
pub use hash::Fingerprint;
pub use image::in_the_way;
pub use layout::Layout;
pub use listener::{Listener, Step, Terminal};
pub use lock::Lock;
pub use modules::{has_kbuild, modules};
pub use origin::origin;
pub use recipe::Recipe;
pub use source::Source;

/// An outcome; the message is for a person at a terminal.
pub type Result<T> = std::result::Result<T, String>;
