//! Containers that are encrypted inside, made and judged by qemu-img.

mod common;
mod qemu;

use common::read;
use qemu::*;
use tane_images::{Encryption, Format, ImageOptions, Locked};

const SIZE: usize = 5 << 20;
const RIGHT: &str = "a passphrase";

/// Words for qemu-img: the image of that name, with the key to it.
fn opts(format: &str, name: &str) -> String {
    format!("--image-opts driver={format},file.filename={name},encrypt.key-secret=s")
}

fn secret(word: &str) -> String {
    format!("--object secret,id=s,data={}", word.replace(' ', "\u{a0}"))
}

/// An encrypted `image` with these bytes, made by `-o` with these words.
fn encrypted(folder: &Folder, format: &str, words: &str, bytes: &[u8]) {
    folder.write("disk.raw", bytes);
    let (secret, len) = (secret(RIGHT), bytes.len());
    folder.run_luks(&format!(
        "qemu-img create -q {secret} -f {format} -o {words},encrypt.key-secret=s image {len}"
    ));
    let image = opts(format, "image");
    folder.run(&format!(
        "qemu-img convert -n {secret} -f raw disk.raw --target-{}",
        &image[2..]
    ));
}

fn open(folder: &Folder, secrets: &[&str]) -> std::io::Result<tane_images::Image> {
    let mut options = ImageOptions::new();
    for secret in secrets {
        options.secret(*secret);
    }
    options.open(folder.at("image"))
}

const LUKS: &str = "encrypt.format=luks,encrypt.iter-time=10";

#[test]
fn each_cipher_that_qemu_encrypts_a_qcow2_by_reads_as_qemu_reads_it() {
    let bytes = disk_with_holes(SIZE);
    for words in [
        "",
        ",encrypt.cipher-alg=aes-128,encrypt.hash-alg=sha1",
        ",encrypt.cipher-alg=aes-128,encrypt.cipher-mode=cbc,encrypt.ivgen-alg=essiv,encrypt.ivgen-hash-alg=sha256",
        ",encrypt.cipher-alg=aes-192",
        ",encrypt.cipher-mode=cbc,encrypt.ivgen-alg=plain64",
        ",encrypt.cipher-mode=cbc,encrypt.ivgen-alg=plain,encrypt.hash-alg=sha512",
        ",encrypt.cipher-mode=cbc,encrypt.ivgen-alg=essiv,encrypt.ivgen-hash-alg=sha256",
        ",cluster_size=512",
        ",cluster_size=2M,extended_l2=on",
    ] {
        let folder = Folder::new();
        encrypted(&folder, "qcow2", &format!("{LUKS}{words}"), &bytes);
        let image = open(&folder, &[RIGHT]).unwrap();
        assert_eq!(image.layers[0].format, Format::Qcow2);
        assert_eq!(image.layers[0].encryption, Some(Encryption::Luks));
        let disk = &*image.backend;
        assert!(read(disk, 0, SIZE).unwrap() == bytes, "{words}");
        // In pieces that fit no sector, and by the way that must not wait.
        for at in (0..SIZE - 70_001).step_by(234_567) {
            let got = read(disk, at as u64, 70_001).unwrap();
            assert!(got == bytes[at..at + 70_001], "{words}");
            let mut got = vec![1; 3000];
            let to = [tane_images::buffer_mut(&mut got)];
            if disk.try_read(&to, at as u64).unwrap() {
                assert!(got == bytes[at..at + 3000], "{words}");
            }
        }
    }
}

#[test]
fn what_qemu_encrypted_by_aes_at_first_reads_as_qemu_reads_it() {
    let bytes = disk_with_holes(SIZE);
    for (format, words) in [
        ("qcow2", "encrypt.format=aes"),
        ("qcow2", "encrypt.format=aes,compat=0.10"),
        ("qcow", "encrypt.format=aes"),
    ] {
        let folder = Folder::new();
        encrypted(&folder, format, words, &bytes);
        let image = open(&folder, &[RIGHT]).unwrap();
        assert_eq!(image.layers[0].encryption, Some(Encryption::Aes));
        let got = read(&*image.backend, 0, SIZE).unwrap();
        assert!(got == bytes, "{format} {words}");
        // Nothing in it tells a wrong one.
        let image = open(&folder, &["wrong"]).unwrap();
        assert!(read(&*image.backend, 0, SIZE).unwrap() != bytes);
    }
}

#[test]
fn an_encrypted_image_without_the_right_key_is_an_error_that_says_so() {
    let folder = Folder::new();
    encrypted(&folder, "qcow2", LUKS, &disk_with_holes(SIZE));
    let locked = |secrets: &[&str]| {
        let error = open(&folder, secrets).err().expect("no key fits");
        assert!(error.get_ref().unwrap().is::<Locked>(), "{error:?}");
        error.to_string()
    };
    let name = folder.at("image").display().to_string();
    assert_eq!(
        locked(&[]),
        format!("{name}: is encrypted (luks); no passphrase was given")
    );
    assert_eq!(
        locked(&["wrong", ""]),
        format!("{name}: is encrypted (luks); no passphrase fits")
    );
    open(&folder, &["wrong", RIGHT]).unwrap();
}

#[test]
fn whoever_is_asked_for_a_passphrase_is_asked_until_one_fits() {
    let folder = Folder::new();
    encrypted(&folder, "qcow2", LUKS, &disk_with_holes(SIZE));
    let words = std::sync::Mutex::new(vec![RIGHT, "wrong"]);
    let next = move || words.lock().unwrap().pop().map(|word| word.into());
    let mut options = ImageOptions::new();
    options.ask(next).open(folder.at("image")).unwrap();
    let error = options.open(folder.at("image")).err().unwrap();
    assert!(error.to_string().contains("no passphrase was given"));
}

#[test]
fn each_layer_of_a_chain_has_its_own_encryption() {
    let bytes = disk_with_holes(SIZE);
    let patch = b"\x07".repeat(4096);
    let written = [&bytes[..65536], &patch, &bytes[65536 + 4096..]].concat();
    let io = "write\u{a0}-q\u{a0}-P\u{a0}7\u{a0}64k\u{a0}4k";
    // The lower one is.
    let folder = Folder::new();
    encrypted(&folder, "qcow2", LUKS, &bytes);
    folder.run("mv image below");
    folder.run(&format!(
        "qemu-img create -q -f qcow2 -F qcow2 -b below -u image {SIZE}"
    ));
    let secret = secret(RIGHT);
    let top = "driver=qcow2,file.filename=image,backing.driver=qcow2,\
               backing.file.filename=below,backing.encrypt.key-secret=s";
    folder.run(&format!("qemu-io {secret} --image-opts -c {io} {top}"));
    let image = open(&folder, &[RIGHT]).unwrap();
    let found: Vec<_> = image.layers.iter().map(|l| l.encryption).collect();
    assert_eq!(found, [None, Some(Encryption::Luks)]);
    assert!(read(&*image.backend, 0, SIZE).unwrap() == written);
    let error = open(&folder, &[]).err().unwrap().to_string();
    assert!(error.contains("/below: is encrypted"), "{error}");
    // The upper one is.
    let folder = Folder::new();
    folder.write("below", &bytes);
    folder.run_luks(&format!(
        "qemu-img create -q {secret} -f qcow2 -F raw -b below -o {LUKS},encrypt.key-secret=s image"
    ));
    let top = "driver=qcow2,file.filename=image,encrypt.key-secret=s";
    folder.run(&format!("qemu-io {secret} --image-opts -c {io} {top}"));
    let image = open(&folder, &[RIGHT]).unwrap();
    assert!(read(&*image.backend, 0, SIZE).unwrap() == written);
}

#[test]
fn the_files_of_an_encrypted_chain_are_found_without_a_key() {
    let folder = Folder::new();
    folder.write("below", &disk_with_holes(SIZE));
    let secret = secret(RIGHT);
    folder.run_luks(&format!(
        "qemu-img create -q {secret} -f qcow2 -F raw -b below -o {LUKS},encrypt.key-secret=s image"
    ));
    let files = ImageOptions::new().files(folder.at("image"));
    let names: Vec<_> = files.iter().map(|f| f.path.file_name().unwrap()).collect();
    assert_eq!(names, ["image", "below"]);
}

#[test]
fn several_threads_read_an_encrypted_image_at_once() {
    let bytes = disk_with_holes(SIZE);
    let folder = Folder::new();
    encrypted(&folder, "qcow2", LUKS, &bytes);
    let disk = open(&folder, &[RIGHT]).unwrap().backend;
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (disk, bytes) = (&disk, &bytes);
            scope.spawn(move || {
                for at in (start * 1000..SIZE - 10_000).step_by(10_000) {
                    let got = read(&**disk, at as u64, 10_000).unwrap();
                    assert!(got == bytes[at..at + 10_000]);
                }
            });
        }
    });
}

#[test]
fn a_key_that_would_take_hours_is_refused_at_once() {
    let folder = Folder::new();
    encrypted(&folder, "qcow2", LUKS, &[0; 4096]);
    let mut bytes = std::fs::read(folder.at("image")).unwrap();
    let header = bytes.windows(8).position(|w| w == b"LUKS\xba\xbe\0\x01");
    // The first slot's number of rounds.
    let at = header.expect("a header") + 212;
    bytes[at..at + 4].fill(0x7f);
    folder.write("image", &bytes);
    let error = open(&folder, &[RIGHT]).err().unwrap().to_string();
    assert!(error.contains("has a key that takes hours"), "{error}");
}

#[test]
fn ciphers_that_are_not_here_are_named() {
    let folder = Folder::new();
    let words = format!("{LUKS},encrypt.cipher-alg=serpent-256");
    encrypted(&folder, "qcow2", &words, &disk_with_holes(SIZE));
    let error = open(&folder, &[RIGHT]).err().unwrap().to_string();
    assert!(
        error.contains("is encrypted by serpent-xts-plain64"),
        "{error}"
    );
}
