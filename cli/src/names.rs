//! File names are bytes. `tane_copy` shows them so that they can neither hide nor steer
//! anything; in JSON nothing is lost.

use serde_json::{Map, Value};
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub use tane_copy::names::{plain, shown};

/// What a name that does not exist may have been meant as: a path in an image, as
/// `disk.img:etc` lacks a slash for.
pub fn without_slash(name: &[u8]) -> Option<String> {
    let is_file = |name: &[u8]| {
        let found = Path::new(OsStr::from_bytes(name)).metadata();
        found.is_ok_and(|m| !m.is_dir())
    };
    let colons = (1..name.len()).filter(|i| name[*i] == b':');
    let mut parts = colons.map(|colon| (&name[..colon], &name[colon + 1..]));
    let (image, path) = parts.find(|(left, right)| {
        let mut bare = (1..left.len()).filter(|i| left[*i] == b'@');
        !right.is_empty()
            && !right.starts_with(b"/")
            && (is_file(left) || bare.any(|at| is_file(&left[..at])))
    })?;
    let meant = [image, b":/", path].concat();
    Some(format!("in the image it is {}", plain(&meant)))
}

/// Puts a name into a JSON object: `key` as text, and, when the bytes are not
/// UTF-8, also `key_bytes` in hexadecimal.
pub fn put(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    object.insert(key.into(), String::from_utf8_lossy(name).into());
    if std::str::from_utf8(name).is_err() {
        object.insert(format!("{key}_bytes"), hex(name).into());
    }
}

/// An object of what is in `others`, and such a name.
pub fn named(key: &str, name: &[u8], others: Value) -> Value {
    let mut object = Map::new();
    put(&mut object, key, name);
    if let Value::Object(others) = others {
        object.extend(others);
    }
    object.into()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
            let _ = write!(out, "{b:02x}");
            out
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_lose_nothing() {
        let mut object = Map::new();
        put(&mut object, "name", b"ok");
        assert_eq!(Value::from(object.clone()).to_string(), r#"{"name":"ok"}"#);
        put(&mut object, "name", b"a\xff");
        assert_eq!(object["name_bytes"], "61ff");
    }
}
