//! Images on web servers: a child of this process talks to these, and runs no Linux. This
//! process, in its jail, asks it for bytes.

use super::jail;
use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::tell;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tane::images::Login;
use tane::ImageHooks;
use tane_worker::servers::{self, Link};

static LINK: OnceLock<Arc<Link>> = OnceLock::new();

/// For these images, and what lies beside them. Before the jail is entered.
pub fn start<'a>(
    images: impl Iterator<Item = &'a Path>,
    logins: impl Iterator<Item = Login>,
) -> Result<()> {
    let named: Vec<_> = images
        .filter_map(|image| image.to_str().map(str::to_owned))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let link = servers::fork(named, logins.collect());
    let fail = |e: io::Error| Failure::image(format!("the process that talks to servers: {e}"));
    let _ = LINK.set(Arc::new(link.map_err(fail)?));
    Ok(())
}

/// An image that is opened with these may be on a server.
pub fn allow(hooks: &mut ImageHooks, global: &Global) {
    // Without a jail this process may talk to servers itself.
    if jail::is_off(global) {
        return;
    }
    let quiet = global.quiet;
    hooks.servers(move |address| {
        let link = LINK.get().ok_or(io::ErrorKind::PermissionDenied)?;
        let (disk, said) = link.open_and_tell(address)?;
        if !said.is_empty() && !quiet {
            tell::note(&said);
        }
        Ok(disk)
    });
}

/// Nothing more is opened.
pub fn seal() -> Result<()> {
    match LINK.get() {
        Some(link) => link.seal().map_err(|e| Failure::image(e.to_string())),
        None => Ok(()),
    }
}
