//! What the command line says of how an image is opened, and whom it asks and tells.

use super::{lower, redo, secrets, servers, Access};
use crate::failure::Result;
use crate::session::Global;
use crate::tell;
use tane::{ImageHooks, ImageOptions, ImagePath};

/// How it is opened, with these secrets.
pub fn options(access: Access, secrets: &[Vec<u8>], global: &Global) -> Result<ImageOptions> {
    let below = lower::below(access, global)?;
    Ok(ImageOptions {
        write: access == Access::Write,
        format: global.format,
        overlay: global.overlay.clone(),
        trust: global.trust.clone(),
        with: global.with.clone(),
        lower: below
            .into_iter()
            .map(|at| (at.image, at.selector))
            .collect(),
        secrets: secrets.to_vec(),
        verity: global.verity.clone(),
        sector_size: global.sector_size,
    })
}

/// What `at` asks and tells while it is open.
pub fn hooks(at: &ImagePath, access: Access, global: &Global) -> ImageHooks {
    let mut hooks = ImageHooks::new();
    hooks.ask(secrets::ask);
    for login in &global.logins {
        hooks.login(login.clone());
    }
    servers::allow(&mut hooks, global);
    if let Some(patience) = global.patience() {
        hooks.wait(patience);
    }
    if !global.quiet {
        hooks.notice(tell::note);
    }
    let alone = at.within.is_none() && global.with.is_empty();
    if let Some(redo) = redo::of(access).filter(|_| alone) {
        hooks.redo(redo);
    }
    hooks
}
