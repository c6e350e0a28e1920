//! Whose kernel serves what is opened, and what may be done with that.

use super::Global;
use std::path::Path;
use tane::{HostFiles, ImagePath};
use tane_linux::Host;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Over an overlay in memory: the image's file does not change.
    Read,
    Write,
}

/// The host's kernel, as a side.
pub static HOST: Host = Host;

/// True for `--kernel host`: directories stand for images and the host's own
/// kernel serves them. For comparisons and for tests.
pub fn is_host_kernel(global: &Global) -> bool {
    global
        .kernel
        .as_deref()
        .is_some_and(|k| k.as_os_str() == "host")
}

pub fn host_files(global: &Global) -> HostFiles {
    HostFiles {
        directories_too: is_host_kernel(global),
    }
}

/// A file of the host, as an image.
pub fn whole(image: &Path) -> ImagePath {
    ImagePath {
        image: image.into(),
        selector: None,
        path: b"/".to_vec(),
        within: None,
    }
}
