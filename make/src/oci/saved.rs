//! The images of what `docker save` writes, and podman, skopeo and others after it.

use super::layout::platform;
use super::store::parse;
use super::{hex, Check, Image, Layer, Store};
use crate::means::Means;
use crate::piece::Piece;
use serde_json::Value;
use std::fs::File;

/// What lists them.
pub const MANIFEST: &str = "manifest.json";

/// Programs call their own files so, too.
pub fn is_one(store: &Store) -> bool {
    store.json(MANIFEST).is_ok_and(|list| lists_images(&list))
}

/// Whether a file of that name is such a list.
pub fn is_list(file: File) -> bool {
    let piece = Piece::whole(file).map_err(|e| e.to_string());
    let list = piece.and_then(|piece| parse(&piece, MANIFEST));
    list.is_ok_and(|list| lists_images(&list))
}

fn lists_images(list: &Value) -> bool {
    let has = |image: &Value, key| image.get(key).is_some();
    let mut images = list.as_array().into_iter().flatten().peekable();
    images.peek().is_some() && images.all(|image| has(image, "Config") && has(image, "Layers"))
}

pub fn images(store: &Store, means: &dyn Means) -> Result<Vec<Image>, String> {
    let list = store.json(MANIFEST)?;
    let list = list.as_array().into_iter().flatten();
    list.map(|image| self::image(store, image, means)).collect()
}

fn image(store: &Store, image: &Value, means: &dyn Means) -> Result<Image, String> {
    let config = image.get("Config").and_then(Value::as_str);
    let config = config.ok_or_else(|| format!("{MANIFEST}: an image has no configuration"))?;
    // It is called by its digest.
    let digest = match hex(config) {
        Some(digits) => Some(digits.to_owned()),
        None => {
            let name = config.rsplit('/').next().unwrap_or(config);
            let name = name.strip_suffix(".json").unwrap_or(name);
            hex(&format!("sha256:{name}")).map(str::to_owned)
        }
    };
    let piece = match &digest {
        Some(digits) => Check::Stored(digits.clone(), None).piece(store, config, means)?,
        None => store.piece(config)?,
    };
    let says = parse(&piece, config)?;
    let names = strings(image.get("RepoTags"));
    let files = strings(image.get("Layers"));
    let digests = strings(says.pointer("/rootfs/diff_ids"));
    if files.len() != digests.len() {
        return Err(format!(
            "{config}: has digests of {} layers, and {MANIFEST} lists {}",
            digests.len(),
            files.len()
        ));
    }
    let layer = |(name, digest): (String, String)| {
        let digits = hex(&digest).map(str::to_owned);
        let none = || format!("{config}: the digest {digest} is none of sha256");
        digits.ok_or_else(none).map(|digits| Layer {
            name,
            check: Check::Unpacked(digits),
        })
    };
    let layers: Result<Vec<_>, _> = files.into_iter().zip(digests).map(layer).collect();
    Ok(Image {
        names,
        platform: platform(&says),
        digest: digest.map_or_else(|| config.to_owned(), |digits| format!("sha256:{digits}")),
        layers: layers?,
        lacks: None,
    })
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let list = list.map(|value| value.as_str().unwrap_or_default());
    list.map(str::to_owned).collect()
}
