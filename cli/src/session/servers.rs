//! Images on servers: a child of this process talks to these, and runs no Linux. This
//! process, in its jail, asks it for bytes.

use super::jail;
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::tell;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tane::images::Login;
use tane::ImageHooks;
use tane_worker::servers::{self, Link, Named};

/// And the process that may say farewell: not a child of it, which has the link as well.
static LINK: OnceLock<(u32, Arc<Link>)> = OnceLock::new();

/// For these images, which are written or not, and what lies beside them. Before the jail is entered.
pub fn start(
    images: impl Iterator<Item = (PathBuf, bool)>,
    logins: impl Iterator<Item = Login>,
) -> Result<()> {
    let named: Vec<_> = images
        .filter_map(|(image, write)| {
            let address = image.to_str()?.to_owned();
            Some(Named { address, write })
        })
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let link = servers::fork(named, logins.collect());
    let fail = |e: io::Error| Failure::image(format!("the process that talks to servers: {e}"));
    let _ = LINK.set((std::process::id(), Arc::new(link.map_err(fail)?)));
    Ok(())
}

/// An image that is opened with these may be on a server.
pub fn allow(hooks: &mut ImageHooks, global: &Global) {
    // Without a jail this process may talk to servers itself.
    if jail::is_off(global) {
        return;
    }
    let quiet = global.quiet;
    hooks.servers(move |address, write| {
        let (_, link) = LINK.get().ok_or(io::ErrorKind::PermissionDenied)?;
        let (disk, said) = link.open_and_tell(address, write)?;
        if !said.is_empty() && !quiet {
            tell::note(&said);
        }
        Ok(disk)
    });
}

/// This process is about to end, and with it the one that talks to servers: they are told.
pub fn farewell() {
    if let Some((_, link)) = LINK.get().filter(|(of, _)| *of == std::process::id()) {
        link.farewell();
    }
}

/// Nothing more is opened.
pub fn seal() -> Result<()> {
    match LINK.get() {
        Some((_, link)) => link.seal().map_err(|e| Failure::image(e.to_string())),
        None => Ok(()),
    }
}
