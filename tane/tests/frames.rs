//! A file that fills the kernel's memory is the same by read(2) and in a mapping:
//! every frame that Linux hands out is one that the host can show a second time.

mod inside;

use inside::builder;
use tane::{Kernel, MapOptions, MountOptions, OpenOptions};

const PAGE: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Enough for struct pages to take some of the host's huge pages, of 2 MiB.
const RAM: usize = 256 << 20;

/// Linux keeps some free for itself, and ends if it has none.
const LEFT: usize = 8 << 20;

fn free(kernel: &Kernel) -> usize {
    let proc = kernel.tree("/proc").expect("/proc");
    let text = proc.read_to_string("meminfo").expect("meminfo");
    let line = text.lines().find_map(|l| l.strip_prefix("MemFree:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or_else(|| panic!("no MemFree in {text}")) << 10
}

/// What the file has from there on: no page is like another, and none is empty.
fn content(at: usize) -> Vec<u8> {
    let mut chunk = vec![0xa5; CHUNK];
    for (n, page) in chunk.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(at + n * PAGE).to_ne_bytes());
    }
    chunk
}

/// Pages that differ.
fn differ(a: &[u8], b: &[u8]) -> usize {
    let pairs = a.chunks(PAGE).zip(b.chunks(PAGE));
    pairs.filter(|(a, b)| a != b).count()
}

fn fill_and_map(image: &str) -> Option<()> {
    let kernel = builder(image)?.memory(RAM as u64).boot();
    let kernel = kernel.unwrap_or_else(|e| panic!("{image}: {e}"));
    let mut options = MountOptions::new();
    let options = options.fstype("tmpfs").options("size=100%");
    let mount = options.mount(&kernel, "tmpfs").expect("tmpfs");
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    let file = options.open(&mount, "f").expect("f");

    let mut len = 0;
    while free(&kernel) > LEFT {
        let chunk = content(len);
        file.write_all_at(&chunk, len as u64).expect("writes");
        len += CHUNK;
    }
    assert!(len > RAM / 2, "{image}: only {len} bytes were free");

    let map = file.map(&MapOptions::new()).expect("maps");
    // SAFETY: nobody changes the file.
    let seen = unsafe { map.as_slice() };
    let (mut by_read, mut by_mapping) = (0, 0);
    let mut read = vec![0; CHUNK];
    for at in (0..len).step_by(CHUNK) {
        let should = content(at);
        file.read_exact_at(&mut read, at as u64).expect("reads");
        by_read += differ(&read, &should);
        by_mapping += differ(&seen[at..at + CHUNK], &should);
    }
    map.check().expect("all pages were there");
    let pages = len / PAGE;
    assert_eq!(by_read, 0, "{image}: wrong by read(2), of {pages} pages");
    assert_eq!(by_mapping, 0, "{image}: wrong as mapped, of {pages} pages");
    Some(())
}

#[test]
fn every_frame_is_the_same_in_a_mapping() {
    // struct page is larger in the last.
    for image in ["tiny", "smp", "default"] {
        if fill_and_map(image).is_none() {
            return;
        }
    }
}
