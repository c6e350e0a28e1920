//! The images of an OCI image layout.

use super::store::parse;
use super::{hex, Check, Image, Layer, Store};
use crate::means::Means;
use serde_json::Value;

/// What says that it is one.
pub const MARK: &str = "oci-layout";
pub const INDEX: &str = "index.json";

/// Indexes within indexes.
const DEEPEST: u32 = 8;
/// Blobs that are looked into.
const MOST: u32 = 1000;

/// What may be in it: one image for each kind of processor, and what vouches for them.
pub fn images(store: &Store, means: &dyn Means) -> Result<Vec<Image>, String> {
    let mut found = Found {
        store,
        images: Vec::new(),
        read: 0,
        means,
    };
    found.index(&store.json(INDEX)?, INDEX, &[], 0)?;
    Ok(found.images)
}

struct Found<'s> {
    store: &'s Store<'s>,
    images: Vec<Image>,
    read: u32,
    means: &'s dyn Means,
}

impl Found<'_> {
    /// `names`: of what the index is listed as.
    fn index(
        &mut self,
        index: &Value,
        name: &str,
        names: &[String],
        depth: u32,
    ) -> Result<(), String> {
        let all = index.get("manifests").and_then(Value::as_array);
        let all = all.ok_or_else(|| format!("{name}: lists no images"))?;
        if depth > DEEPEST {
            return Err(format!("{name}: is an index in too many others"));
        }
        for descriptor in all.iter().filter(|d| !vouches(d)) {
            let mut own = named(descriptor);
            own.extend(names.iter().cloned());
            self.image(descriptor, own, depth)?;
        }
        Ok(())
    }

    fn image(&mut self, descriptor: &Value, names: Vec<String>, depth: u32) -> Result<(), String> {
        let (name, check) = blob(descriptor)?;
        self.read += 1;
        if self.read > MOST {
            return Err(format!("{INDEX}: lists more than {MOST} images"));
        }
        let mut image = Image {
            names,
            platform: descriptor.get("platform").and_then(platform),
            digest: text(descriptor, "digest").unwrap_or_default().to_owned(),
            layers: Vec::new(),
            lacks: None,
        };
        if let Err(e) = self.store.piece(&name) {
            image.lacks = Some(e);
        } else {
            let value = parse(&check.piece(self.store, &name, self.means)?, &name)?;
            // An index can list indexes.
            if value.get("manifests").is_some() {
                return self.index(&value, &name, &image.names, depth + 1);
            }
            let layers = value.get("layers").and_then(Value::as_array);
            let layers = layers.ok_or_else(|| format!("{name}: lists no layers"))?;
            image.layers = layers.iter().map(layer).collect::<Result<_, _>>()?;
        }
        match self.images.iter_mut().find(|i| i.digest == image.digest) {
            Some(known) => known.names.extend(image.names),
            None => self.images.push(image),
        }
        Ok(())
    }
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Whether it is no image but says something of others: where they come from.
fn vouches(descriptor: &Value) -> bool {
    let notes = descriptor.get("annotations");
    notes.is_some_and(|notes| notes.get("vnd.docker.reference.type").is_some())
}

/// The whole name, as containerd has it, and the one of the specification.
fn named(descriptor: &Value) -> Vec<String> {
    let keys = [
        "io.containerd.image.name",
        "org.opencontainers.image.ref.name",
    ];
    let notes = descriptor.get("annotations");
    let names = keys.iter().filter_map(|key| text(notes?, key));
    names.map(str::to_owned).collect()
}

/// OS/ARCHITECTURE[/VARIANT], as "architecture" and its like have it.
pub fn platform(of: &Value) -> Option<String> {
    let (os, machine) = (text(of, "os")?, text(of, "architecture")?);
    let variant = text(of, "variant").filter(|variant| !variant.is_empty());
    Some(match variant {
        Some(variant) => format!("{os}/{machine}/{variant}"),
        None => format!("{os}/{machine}"),
    })
}

fn layer(descriptor: &Value) -> Result<Layer, String> {
    let (name, check) = blob(descriptor)?;
    match text(descriptor, "mediaType") {
        Some(kind) if kind.ends_with("+encrypted") => {
            Err(format!("{name}: is encrypted: decrypt the image first"))
        }
        Some(kind) if !kind.contains("tar") => {
            Err(format!("{name}: is no layer of files ({kind})"))
        }
        _ => Ok(Layer { name, check }),
    }
}

/// What a descriptor means.
fn blob(descriptor: &Value) -> Result<(String, Check), String> {
    let digest = text(descriptor, "digest").ok_or("a descriptor has no digest")?;
    let digits = hex(digest);
    let digits = digits.ok_or_else(|| format!("the digest {digest} is none of sha256"))?;
    let size = descriptor.get("size").and_then(Value::as_u64);
    let check = Check::Stored(digits.to_owned(), size);
    Ok((format!("blobs/sha256/{digits}"), check))
}
