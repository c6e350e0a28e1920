//! Images with volumes in them, and what the command says of these.

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

pub const MIB: u64 = 1 << 20;

pub fn blank(s: &Scratch, name: &str, mib: u64) -> PathBuf {
    let path = s.join(name);
    File::create(&path)
        .and_then(|f| f.set_len(mib * MIB))
        .expect("an image");
    path
}

/// Run a line of words in the scratch directory; it has to succeed.
pub fn run(s: &Scratch, line: &str) -> Output {
    let mut words = line.split(' ');
    let mut command = sbin(words.next().expect("a program"));
    succeed(command.args(words).current_dir(s.join(".")))
}

pub fn ext4_bytes(s: &Scratch, label: &str, mib: u32) -> Vec<u8> {
    s.write(&format!("{label}.d/f"), label.as_bytes());
    let tree = s.join(&format!("{label}.d"));
    let image = s.ext4(&format!("{label}.ext4"), Some(&tree), mib);
    succeed(sbin("e2label").arg(&image).arg(label));
    std::fs::read(image).expect("the image")
}

pub fn put(image: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(image).expect("the image");
    file.write_all_at(bytes, at).expect("writes");
}

pub fn get(image: &Path, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let file = File::open(image).expect("the image");
    file.read_exact_at(&mut bytes, at).expect("reads");
    bytes
}

pub fn cat(s: &Scratch, options: &str, at: &str) -> String {
    let words = options.split(' ').filter(|w| !w.is_empty());
    text(&succeed(s.tane().args(words).args(["cat", at])).stdout)
}

pub fn inspect(s: &Scratch, options: &str, image: &str) -> serde_json::Value {
    let words = options.split(' ').filter(|w| !w.is_empty());
    let json = succeed(s.tane().args(words).args(["inspect", "--json", image])).stdout;
    let found = serde_json::from_slice(&json).expect("JSON");
    schema::assert_inspected(&found);
    found
}
