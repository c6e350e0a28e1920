//! What the tests of servers of NBD share that do what the test says.
#![allow(dead_code)]

use super::pattern;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tane_images::{Backend, ImageOptions};
use tane_test_support::nbd::{Client, READ};
use tane_test_support::Scratch;

pub const SIZE: u64 = 8 << 20;
/// What servers that are silent may be silent for; five times that once they are open.
pub const BRIEF: Duration = Duration::from_millis(300);

pub fn options() -> ImageOptions {
    let mut options = ImageOptions::new();
    // Not to be guessed at: that would be requests.
    options.format(tane_images::Format::Raw).write(true);
    options
}

pub fn open(url: &str) -> io::Result<Arc<dyn Backend>> {
    Ok(options().open(url)?.backend)
}

pub fn patient(url: &str) -> Arc<dyn Backend> {
    open(url).unwrap_or_else(|e| panic!("{e}"))
}

/// An error that names the address, and says this.
#[track_caller]
pub fn says<T>(result: io::Result<T>, url: &str, text: &str) -> io::ErrorKind {
    let error = result.err().expect("an error");
    let said = error.to_string();
    assert!(said.starts_with(&format!("{url}: ")), "{said}");
    assert!(said.contains(text), "{said}");
    error.kind()
}

/// Do what a good server does, until the end.
pub fn serve_on(client: &mut Client) -> Option<()> {
    loop {
        let request = client.request()?;
        let data = pattern(
            if request.command == READ {
                request.len as usize
            } else {
                0
            },
            1,
        );
        client.reply(request.cookie, 0, &data)?;
    }
}

/// A file of these bytes, which a server may serve: its path.
pub fn named(s: &Scratch, name: &str, bytes: &[u8]) -> String {
    let path = s.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.to_str().expect("its name").to_owned()
}

pub type Script = fn(&mut Client) -> Option<()>;

pub fn info(kind: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    match (kind, words) {
        (0, [size, flags]) => {
            bytes.extend(size.to_be_bytes());
            bytes.extend((*flags as u16).to_be_bytes());
        }
        _ => words
            .iter()
            .for_each(|word| bytes.extend((*word as u32).to_be_bytes())),
    }
    bytes
}
