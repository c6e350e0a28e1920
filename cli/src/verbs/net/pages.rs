//! What is served: names in URLs, lists of directories, kinds of files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// %XX are bytes.
pub fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(bytes)
}

/// A name as URLs have it.
pub fn encoded(name: &[u8]) -> String {
    let mut text = String::new();
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A text as HTML has it.
pub fn escaped(text: &str) -> String {
    let pairs = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('"', "&quot;"),
    ];
    let mut all = String::new();
    for letter in text.chars() {
        match pairs.iter().find(|(from, _)| *from == letter) {
            Some((_, to)) => all.push_str(to),
            None => all.push(letter),
        }
    }
    all
}

/// A page of links to what is in a directory.
pub fn list(dir: &Path) -> io::Result<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)?
        .flatten()
        .map(|entry| {
            let mut name = entry.file_name().as_bytes().to_vec();
            if entry.path().is_dir() {
                name.push(b'/');
            }
            name
        })
        .collect();
    names.sort();
    let mut page = "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<ul>\n".to_owned();
    for name in names {
        let bare = name.strip_suffix(b"/").unwrap_or(&name);
        let slash = if bare.len() < name.len() { "/" } else { "" };
        // "./", or a name with a colon would be taken for a scheme.
        let to = format!("./{}{slash}", encoded(bare));
        let shown = escaped(&String::from_utf8_lossy(&name));
        page.push_str(&format!("<li><a href=\"{to}\">{shown}</a>\n"));
    }
    page.push_str("</ul>\n");
    Ok(page)
}

/// What browsers are told that a file is, by its name.
pub fn kind_of(file: &Path) -> &'static str {
    let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_urls_and_pages() {
        let name = b"a/ \xff:";
        assert_eq!(
            decoded(encoded(name).as_bytes()).as_deref(),
            Some(&name[..])
        );
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
        assert_eq!(kind_of(Path::new("a.HTML")), "text/html; charset=utf-8");
    }
}
