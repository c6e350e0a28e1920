//! Which of an image's file systems is meant.

use super::{Volume, VolumeKind, Volumes};
use crate::address::{Selector, Which};
use crate::error::{Error, Result};
use crate::probe::description;
use std::path::Path;

impl Volumes {
    /// The place in [`Volumes::list`] of the file system that a selector means,
    /// or without one: of the only one. `any_type` says that its type is known
    /// from elsewhere, so that nothing need be recognised. `image` is what the
    /// error calls it all.
    ///
    /// Errors: ENOTUNIQ several fit, and the text lists them; ENOKEY an
    /// encrypted volume is locked; ENXIO there is none.
    pub fn choose(
        &self,
        image: &Path,
        selector: Option<&Selector>,
        any_type: bool,
    ) -> Result<usize> {
        let list = self.list();
        let which = selector.and_then(|s| s.volume.as_ref());
        let candidates = self.candidates(which, any_type);
        if let [only] = candidates[..] {
            if list[only].device.is_some() {
                return Ok(only);
            }
        }
        let fail = |errno, text| Err(Error::plain(errno, "open", text).with_path(image));
        let choices = self.choices(image);
        if !candidates.is_empty() {
            let what = match which {
                None => "holds several file systems: choose one",
                Some(_) => "several match",
            };
            return fail(libc::ENOTUNIQ, format!("{what}{choices}"));
        }
        if let Some(locked) = list.iter().find(|v| v.locked) {
            let why = locked.note.as_deref().unwrap_or_default();
            let what = self.describe(locked);
            let text = format!("{what} {why}: give a passphrase or a key{choices}");
            return fail(libc::ENOKEY, text);
        }
        if let Some(why) = list.iter().find_map(|v| v.note.as_deref()) {
            return fail(libc::ENXIO, format!("no file system in it: {why}{choices}"));
        }
        if let Some(which) = which {
            let selected = list.iter().find(|v| is_selected(v, which));
            let is = |v: &Volume| Some((self.describe(v), description(&v.found.as_ref()?.fstype)?));
            let text = match selected.and_then(is) {
                Some((volume, what)) => format!("{volume} is {what}"),
                None => self.no_such(image, which, "file system"),
            };
            return fail(libc::ENXIO, text + &choices);
        }
        match &list[0].found {
            Some(found) => {
                let what = description(&found.fstype).unwrap_or(&found.fstype);
                fail(libc::ENXIO, format!("is {what}"))
            }
            // Whoever mounts it says the rest.
            None if list.len() == 1 && list[0].device.is_some() => Ok(0),
            None if list.len() == 1 => fail(libc::ENXIO, "is gone".into()),
            None => fail(libc::ENXIO, format!("no file system in it{choices}")),
        }
    }

    /// The place in [`Volumes::list`] of what a selector means, whatever is on it;
    /// without one: of the first disk. `image` is what the error calls it all.
    ///
    /// Errors: ENOTUNIQ several fit, ENXIO none, ENODEV it is not open; the text
    /// lists them all.
    pub fn choose_place(&self, image: &Path, selector: Option<&Selector>) -> Result<usize> {
        let list = self.list();
        let found: Vec<_> = match selector.and_then(|s| s.volume.as_ref()) {
            None => vec![0],
            Some(which) => (0..list.len())
                .filter(|i| is_selected(&list[*i], which))
                .collect(),
        };
        let (errno, text) = match found[..] {
            [one] if list[one].device.is_some() => return Ok(one),
            [_] => (libc::ENODEV, "is not open".into()),
            [] => match selector.and_then(|s| s.volume.as_ref()) {
                Some(which) => (libc::ENXIO, self.no_such(image, which, "place")),
                None => (libc::ENXIO, "no such place in it".into()),
            },
            _ => (libc::ENOTUNIQ, "several match".into()),
        };
        let text = text + &self.choices(image);
        Err(Error::plain(errno, "open", text).with_path(image))
    }

    /// The places of the file systems that the selector leaves.
    fn candidates(&self, which: Option<&Which>, any_type: bool) -> Vec<usize> {
        let list = self.list();
        // What is to be checked is not read past the check.
        let checked = |i: usize| {
            let is_check = |v: &Volume| v.kind == VolumeKind::Verity && v.on.contains(&i);
            list.iter().any(is_check)
        };
        let is_one = |v: &Volume| v.is_mountable() || (any_type && v.device.is_some());
        // What was named itself comes before what lies on it.
        let named: Vec<_> = match which {
            None if !checked(0)
                && is_one(&list[0])
                && (list.len() == 1 || list[0].is_mountable()) =>
            {
                return vec![0]
            }
            None => (0..list.len()).filter(|i| list[*i].on.is_empty()).collect(),
            Some(which) => (0..list.len())
                .filter(|i| is_selected(&list[*i], which))
                .collect(),
        };
        let on_it = |i: &usize| named.iter().any(|n| self.lies_on(*i, *n));
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
        if found.is_empty() && any_type {
            // The type was given, so that there need be no mark of it.
            found = named.into_iter().filter(|i| is_one(&list[*i])).collect();
        }
        found
    }

    /// Nothing that is wanted is what the selector says; what there is, unless
    /// [`Self::choices`] lists it.
    fn no_such(&self, image: &Path, which: &Which, wanted: &str) -> String {
        let list = self.list();
        if list.iter().any(|v| is_selected(v, which)) {
            return format!("no {wanted} that is known is on {which}");
        }
        let whole = || Some((list.first()?, list[0].found.as_ref()?));
        match whole().filter(|(disk, _)| list.len() == 1 && disk.is_mountable()) {
            Some((_, found)) => {
                let (name, kind) = (image.display(), &found.fstype);
                format!("no such {wanted} in it: {which}; the whole image is one, {kind}: {name}:/")
            }
            None => format!("no such {wanted} in it: {which}"),
        }
    }

    /// The shortest selector for a volume; None for a whole disk.
    pub fn selector(&self, volume: &Volume) -> Option<String> {
        let first = self.list().iter().filter(|v| v.on.is_empty()).count() == 1;
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

    fn describe(&self, volume: &Volume) -> String {
        match &volume.kind {
            VolumeKind::Partition(n) => format!("partition {n}"),
            _ => self.selector(volume).unwrap_or_else(|| "it".into()),
        }
    }

    /// A line for each address that there is.
    fn choices(&self, image: &Path) -> String {
        let line = |v: &Volume| {
            let selector = self.selector(v)?;
            let found = v.found.as_ref();
            let label = found.and_then(|f| f.label.as_ref());
            let label = label.map(|l| format!(" label={}", harmless(l)));
            let fstype = found.map_or("nothing known", |f| f.fstype.as_str());
            let note = v.note.as_ref().map(|n| format!(" ({n})"));
            Some(format!(
                "\n  {}@{selector}:/  {fstype}{}{}",
                image.display(),
                label.unwrap_or_default(),
                note.unwrap_or_default()
            ))
        };
        self.list().iter().filter_map(line).collect()
    }
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

/// A label may come from a hostile image, and messages go to terminals.
fn harmless(label: &str) -> String {
    let escaped = label.escape_debug().to_string();
    match escaped == label {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}
