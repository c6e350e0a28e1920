//! The layers of an OCI image layout: a directory with `oci-layout`, `index.json`
//! and blobs named after their digests, which are checked.

use super::tree::{Content, Tree};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Longest manifest that is looked into, in bytes.
const LONGEST: u64 = 16 << 20;

pub fn is_layout(dir: &Path) -> bool {
    dir.join("oci-layout").is_file() && dir.join("index.json").is_file()
}

/// Why the files of an archive are not those of an image: they are the layers of a
/// container image, as `docker save` and `skopeo` write it.
pub fn in_archive(tree: &Tree) -> Option<&'static str> {
    if tree.find(b"oci-layout").is_some() && tree.find(b"index.json").is_some() {
        return Some(
            "is an archive of an OCI image layout: unpack it (tar -xf) into a directory, \
             and give that",
        );
    }
    let manifest = tree.node(tree.find(b"manifest.json")?);
    let Content::Parts(file, parts) = &manifest.content else {
        return None;
    };
    let (_, at, len) = *parts.first()?;
    let mut text = vec![0; len.min(LONGEST) as usize];
    file.read_exact_at(&mut text, at).ok()?;
    let images: Value = serde_json::from_slice(&text).ok()?;
    let image = images.get(0)?;
    (image.get("Config").is_some() && image.get("Layers").is_some()).then_some(
        "is an archive of container images (docker save): make an OCI image layout of it \
         (skopeo copy docker-archive:FILE oci:DIR), and give that",
    )
}

/// Its layers' files, lowest first. `tag` chooses among several images.
pub fn layers(layout: &Path, tag: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let index = json(&layout.join("index.json"))?;
    let mut chosen = choose(&index, tag)?;
    loop {
        let path = blob(layout, &chosen)?;
        let value = json(&path)?;
        // An index can list indexes: one image for each kind of processor.
        if value.get("manifests").is_some() {
            chosen = choose(&value, None)?;
            continue;
        }
        let layers = value.get("layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| format!("{}: lists no layers", path.display()))?;
        return layers.iter().map(|layer| blob(layout, layer)).collect();
    }
}

fn choose(index: &Value, tag: Option<&str>) -> Result<Value, String> {
    let all = index.get("manifests").and_then(Value::as_array);
    let all = all.ok_or("index.json: lists no images")?;
    let name = |m: &Value| {
        let name = m.pointer("/annotations/org.opencontainers.image.ref.name");
        name.and_then(Value::as_str).unwrap_or("").to_owned()
    };
    if let Some(tag) = tag {
        let found = all.iter().find(|m| name(m) == tag);
        let names: Vec<_> = all.iter().map(name).collect();
        let none = || format!("no image is called {tag}; there are: {}", names.join(", "));
        return found.cloned().ok_or_else(none);
    }
    let here = all.iter().find(|m| {
        let is = |key: &str, value: &str| {
            let given = m.pointer(key).and_then(Value::as_str);
            given == Some(value)
        };
        is("/platform/architecture", "amd64") && is("/platform/os", "linux")
    });
    match (&all[..], here) {
        ([one], _) | (_, Some(one)) => Ok(one.clone()),
        ([], _) => Err("index.json: lists no images".into()),
        _ => {
            let names: Vec<_> = all.iter().map(name).collect();
            Err(format!(
                "holds several images: choose one by --tag: {}",
                names.join(", ")
            ))
        }
    }
}

/// The file of a descriptor, if its content has the digest.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf, String> {
    let digest = descriptor.get("digest").and_then(Value::as_str);
    let digest = digest.ok_or("a descriptor without a digest")?;
    let hex = digest.strip_prefix("sha256:");
    let hex = hex.filter(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_hexdigit()));
    let hex = hex.ok_or_else(|| format!("the digest {digest} is not supported: only sha256 is"))?;
    let path = layout.join("blobs/sha256").join(hex);
    let found = hash(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    match found == hex.to_ascii_lowercase() {
        true => Ok(path),
        false => Err(format!(
            "{}: its content has another digest",
            path.display()
        )),
    }
}

fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => sum.update(&buffer[..n]),
        }
    }
    Ok(sum.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn json(path: &Path) -> Result<Value, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = std::fs::read(path).map_err(|e| fail(&e))?;
    serde_json::from_slice(&text).map_err(|e| fail(&e))
}
