//! Which of an image's volumes an address means.

use super::machine::Machine;
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::path::PathBuf;
use tane::{ImagePath, Volumes};

/// The device inside the kernel of the file system that the address means.
pub fn choose(machine: &Machine, at: &ImagePath, global: &Global) -> Result<PathBuf> {
    let (selector, any_type) = (at.selector.as_ref(), global.fs.is_some());
    let chosen = machine.volumes()?.choose(&at.image, selector, any_type);
    device(machine.volumes()?, chosen)
}

/// The device that the address means, whatever is on it: without a selector the
/// whole disk. Who gives a key means what that opens, and never the encrypted volume itself;
/// `any`: the key may be for another image, if no encrypted volume is there at all.
pub fn choose_place(machine: &Machine, at: &ImagePath, any: bool) -> Result<PathBuf> {
    let volumes = machine.volumes()?;
    let chosen = volumes.choose_place(&at.image, at.selector.as_ref());
    match (chosen, machine.secrets().is_empty()) {
        (Ok(chosen), false) => unlocked(machine, chosen, any, at).map(Ok),
        (chosen, _) => Ok(chosen),
    }
    .and_then(|chosen| device(volumes, chosen))
}

/// The place, if it is in an encrypted volume that is open, else the only one that is in it.
/// Of an image that is encrypted as a whole the key has opened that, if no volume.
fn unlocked(machine: &Machine, chosen: usize, any: bool, at: &ImagePath) -> Result<usize> {
    let volumes = machine.volumes()?;
    let list = volumes.list();
    let is_open = |i: &usize| list[*i].kind.is_unlocked();
    if (0..list.len()).any(|i| is_open(&i) && volumes.lies_on(chosen, i)) {
        return Ok(chosen);
    }
    let inside: Vec<_> = (0..list.len())
        .filter(|i| is_open(i) && volumes.lies_on(*i, chosen))
        .collect();
    // Not what is in another one that is.
    let is_outermost = |i: &&usize| !inside.iter().any(|o| o != *i && volumes.lies_on(**i, *o));
    let outermost: Vec<_> = inside.iter().filter(is_outermost).collect();
    let fail = |text: &str| Err(Failure::image(format!("{}: {text}", at.image.display())));
    // Also if it cannot be opened by any key, since what it asks for is not known here.
    let is_sealed = |i: &usize| {
        let found = list[*i].found.as_ref();
        found.is_some_and(|found| matches!(&*found.fstype, "crypto_LUKS" | "BitLocker"))
    };
    match outermost[..] {
        [one] => Ok(*one),
        [] if machine.is_encrypted() => Ok(chosen),
        [] => match (0..list.len())
            .find(|i| (list[*i].locked || is_sealed(i)) && volumes.lies_on(*i, chosen))
        {
            Some(locked) => {
                let why = list[locked].note.as_deref().unwrap_or("is locked");
                fail(&format!("its encrypted volume {why}"))
            }
            None if any => Ok(chosen),
            None => fail(
                "a passphrase or key is given, and no encrypted volume is there that it opens: \
                 leave it out, or make one first (cryptsetup luksFormat)",
            ),
        },
        _ => {
            let names = outermost.iter().filter_map(|i| {
                let below = list[**i].on.first()?;
                volumes.selector(&list[*below])
            });
            let names = names.map(|name| format!("\n  {}@{name}", at.image.display()));
            fail(&format!(
                "several encrypted volumes are open: choose one{}",
                names.collect::<String>()
            ))
        }
    }
}

pub(super) fn device(volumes: &Volumes, chosen: tane::Result<usize>) -> Result<PathBuf> {
    let index = chosen.map_err(|e| Failure::of_image(&e))?;
    let device = volumes.list()[index].device.clone();
    device.ok_or_else(|| Failure::image("the disk is gone"))
}
