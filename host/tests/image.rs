//! The loader refuses what is not an image, and says why.

mod common;

use std::fs;
use std::mem::offset_of;
use std::path::PathBuf;
use tane_host::abi::ImageHeader;
use tane_host::{Builder, Image};

fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tane-image-{}-{name}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    path
}

/// The error of opening or booting these bytes; panics if they boot.
fn refusal(name: &str, bytes: &[u8]) -> String {
    let path = temporary(name, bytes);
    let result = Image::open(&path)
        .map_err(|e| e.to_string())
        .and_then(|image| {
            let builder = Builder {
                ram: 64 << 20,
                ..Builder::default()
            };
            builder.boot(&image).map_err(|e| e.to_string())
        });
    fs::remove_file(&path).unwrap();
    result.map(|_| ()).expect_err("it booted")
}

fn good() -> Vec<u8> {
    fs::read(common::image_path()).unwrap()
}

/// Where the image header lies: the file offset of the first PT_LOAD.
fn header_at(image: &[u8]) -> usize {
    usize::from_le_bytes(image[64 + 8..64 + 16].try_into().unwrap())
}

#[test]
fn a_missing_file_is_named() {
    let error = Image::open("/nowhere/tane.elf".as_ref())
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/tane.elf"), "{error}");
}

#[test]
fn a_foreign_file_is_refused() {
    assert!(refusal("text", b"hello").contains("not a tane kernel image"));
    assert!(refusal("empty", b"").contains("not a tane kernel image"));
    let other = fs::read("/proc/self/exe").unwrap();
    assert!(refusal("exe", &other).contains("not a tane kernel image"));
}

#[test]
fn a_truncated_image_is_refused_at_every_length() {
    let image = good();
    for part in 0..40 {
        let error = refusal("cut", &image[..image.len() / 2 * part / 40]);
        assert!(
            error.contains("truncated") || error.contains("not a tane kernel image"),
            "{error}"
        );
    }
}

#[test]
fn another_abi_version_is_refused() {
    let mut image = good();
    let at = header_at(&image) + 8;
    image[at] = image[at].wrapping_add(1);
    assert!(refusal("version", &image).contains("host ABI version"));
}

#[test]
fn another_structure_size_is_refused() {
    let mut image = good();
    for (field, name) in [(16, "tane_vcpu"), (24, "tane_ops"), (32, "tane_virtio")] {
        let at = header_at(&image) + field;
        image[at] ^= 8;
        let error = refusal("layout", &image);
        assert!(error.contains(name), "{error}");
        image[at] ^= 8;
    }
}

/// Memory that the host put where Linux has more than struct pages would be one
/// page to read(2) and another in a mapping.
#[test]
fn an_image_with_smaller_struct_pages_than_it_says_ends_before_it_runs() {
    let mut image = good();
    let at = header_at(&image) + offset_of!(ImageHeader, struct_page_size);
    image[at..at + 8].copy_from_slice(&1024u64.to_le_bytes());
    let error = refusal("pages", &image);
    assert!(error.contains("struct pages are not what"), "{error}");
}

#[test]
fn a_header_with_any_wrong_word_never_crashes_the_loader() {
    let image = good();
    let start = header_at(&image);
    for field in 0..12 {
        for value in [0u64, 1, 4095, 1 << 31, 1 << 62, u64::MAX] {
            let mut bad = image.clone();
            let at = start + 40 + field * 8;
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            // Opened only: an image whose code begins elsewhere is still code.
            let path = temporary("word", &bad);
            let _ = Image::open(&path);
            fs::remove_file(&path).unwrap();
        }
    }
}

/// A word that holds an address is one of the data, and not of the table itself.
#[test]
fn an_image_whose_table_of_addresses_names_other_words_is_refused() {
    let image = good();
    let header = header_at(&image);
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let field = |offset: usize| word(header + offset);
    let start = field(offset_of!(ImageHeader, rela_start));
    let end = field(offset_of!(ImageHeader, rela_end));
    let text_end = field(offset_of!(ImageHeader, text_end));
    let data_end = field(offset_of!(ImageHeader, data_end));
    let refuses = |at: u64, entry: u64| {
        let mut bad = image.clone();
        // In the file, too, the data comes right behind the code.
        let at = header + at as usize;
        bad[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        let error = refusal("table", &bad);
        assert!(error.contains("a loader must not do"), "{entry:x}: {error}");
    };
    for entry in [0, text_end - 8, text_end + 4, start, data_end, u64::MAX - 7] {
        refuses(start, entry);
        refuses(end - 8, entry);
    }
    // Bits count from the entry before, and there is none.
    refuses(start, u64::MAX);
}
