//! Which of an image's file systems an address means.

use super::machine::Machine;
use crate::address::{ImagePath, Which};
use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::names;
use std::path::PathBuf;
use tane::{Volume, VolumeKind, Volumes};

/// The device inside the kernel that the address means.
pub fn choose(machine: &Machine, at: &ImagePath, global: &Global) -> Result<PathBuf> {
    let volumes = machine.volumes()?;
    let which = at.selector.as_ref().and_then(|s| s.volume.as_ref());
    let device = |index: usize| volumes.list()[index].device.clone();
    let candidates = candidates(volumes, which, global);
    if let [only] = candidates[..] {
        if let Some(device) = device(only) {
            return Ok(device);
        }
    }
    let name = at.image.display();
    let fail = |text: String| Err(Failure::image(format!("{name}: {text}")));
    let choices = || list(volumes, at);
    if !candidates.is_empty() {
        return fail(match which {
            None => format!("holds several file systems: choose one{}", choices()),
            Some(_) => format!("several match{}", choices()),
        });
    }
    if let Some(locked) = volumes.list().iter().find(|v| v.locked) {
        let why = locked.note.as_deref().unwrap_or_default();
        let what = describe(volumes, locked);
        return fail(format!(
            "{what} {why}: give --passphrase-file or --key-file{}",
            choices()
        ));
    }
    if let Some(why) = volumes.list().iter().find_map(|v| v.note.as_deref()) {
        return fail(format!("no file system in it: {why}{}", choices()));
    }
    if which.is_some() {
        return fail(format!("no such file system in it{}", choices()));
    }
    match &volumes.list()[0].found {
        Some(found) => fail(format!("holds {}, not a file system", found.fstype)),
        // Whoever mounts it says the rest.
        None if volumes.list().len() == 1 => device(0).map_or_else(|| fail("is gone".into()), Ok),
        None => fail(format!("no file system in it{}", choices())),
    }
}

/// The device that the address means, whatever is on it: without a selector the
/// whole disk.
pub fn choose_place(machine: &Machine, at: &ImagePath) -> Result<PathBuf> {
    let volumes = machine.volumes()?;
    let list = volumes.list();
    let which = at.selector.as_ref().and_then(|s| s.volume.as_ref());
    let found: Vec<_> = match which {
        None => list.iter().take(1).collect(),
        Some(which) => list.iter().filter(|v| is_selected(v, which)).collect(),
    };
    let fail = |text: &str| {
        let text = format!("{}: {text}{}", at.image.display(), self::list(volumes, at));
        Failure::image(text)
    };
    match found[..] {
        [one] => one.device.clone().ok_or_else(|| fail("is not open")),
        [] => Err(fail("no such place in it")),
        _ => Err(fail("several match")),
    }
}

/// The places of the file systems that the selector leaves.
fn candidates(volumes: &Volumes, which: Option<&Which>, global: &Global) -> Vec<usize> {
    let list = volumes.list();
    // What is to be checked is not read past the check.
    let checked = |i: usize| {
        let is_check = |v: &Volume| v.kind == VolumeKind::Verity && v.on.contains(&i);
        list.iter().any(is_check)
    };
    let is_one = |v: &Volume| v.is_mountable() || (global.fs.is_some() && v.device.is_some());
    // What was named itself comes before what lies on it.
    let named: Vec<_> = match which {
        None if !checked(0) && is_one(&list[0]) && (list.len() == 1 || list[0].is_mountable()) => {
            return vec![0]
        }
        None => (0..list.len()).filter(|i| list[*i].on.is_empty()).collect(),
        Some(which) => (0..list.len())
            .filter(|i| is_selected(&list[*i], which))
            .collect(),
    };
    let on_it = |i: &usize| named.iter().any(|n| volumes.lies_on(*i, *n));
    let mut found: Vec<_> = (0..list.len())
        .filter(|i| list[*i].is_mountable() && on_it(i) && !checked(*i))
        .collect();
    // The devices of one btrfs are one file system.
    let mut seen = Vec::new();
    found.retain(|i| {
        let found = list[*i].found.as_ref();
        let id = found
            .filter(|f| f.fstype == "btrfs")
            .and_then(|f| f.uuid.clone());
        let fresh = id.as_ref().is_none_or(|id| !seen.contains(id));
        seen.extend(id);
        fresh
    });
    if found.is_empty() && global.fs.is_some() {
        // The type was given, so that there need be no mark of it.
        found = named.into_iter().filter(|i| is_one(&list[*i])).collect();
    }
    found
}

fn is_selected(volume: &Volume, which: &Which) -> bool {
    let found = volume.found.as_ref();
    match which {
        Which::Partition(n) => volume.kind == VolumeKind::Partition(*n),
        Which::Label(label) => found.is_some_and(|f| f.label.as_ref() == Some(label)),
        Which::Uuid(uuid) => {
            let ids = [found.and_then(|f| f.uuid.as_ref()), volume.uuid.as_ref()];
            ids.into_iter()
                .flatten()
                .any(|id| id.eq_ignore_ascii_case(uuid))
        }
        Which::Logical(a, b) => {
            matches!(&volume.kind, VolumeKind::Logical { group, name } if group == a && name == b)
        }
    }
}

/// The shortest selector for a volume; None for a whole disk.
pub fn selector(volumes: &Volumes, volume: &Volume) -> Option<String> {
    let first = volumes.list().iter().filter(|v| v.on.is_empty()).count() == 1;
    match &volume.kind {
        VolumeKind::Disk => None,
        VolumeKind::Partition(n) if first => Some(n.to_string()),
        VolumeKind::Logical { group, name } => Some(format!("{group}/{name}")),
        _ => {
            let found = volume.found.as_ref();
            let uuid = found.and_then(|f| f.uuid.as_ref()).or(volume.uuid.as_ref());
            uuid.map(|uuid| format!("uuid={uuid}"))
        }
    }
}

fn describe(volumes: &Volumes, volume: &Volume) -> String {
    match &volume.kind {
        VolumeKind::Partition(n) => format!("partition {n}"),
        _ => selector(volumes, volume).unwrap_or_else(|| "it".into()),
    }
}

fn list(volumes: &Volumes, at: &ImagePath) -> String {
    let line = |v: &Volume| {
        let selector = selector(volumes, v)?;
        let found = v.found.as_ref();
        let label = found.and_then(|f| f.label.as_ref());
        let label = label.map(|l| format!(" label={}", names::plain(l.as_bytes())));
        let fstype = found.map_or("nothing known", |f| f.fstype.as_str());
        let note = v.note.as_ref().map(|n| format!(" ({n})"));
        Some(format!(
            "\n  {}@{selector}:/  {fstype}{}{}",
            at.image.display(),
            label.unwrap_or_default(),
            note.unwrap_or_default()
        ))
    };
    volumes.list().iter().filter_map(line).collect()
}
