//! A promise about images that are encrypted as a whole: the secrets of a worker's options
//! open them, as the C, Python and Go libraries give them.

mod common;

use common::*;
use std::process::Command;

#[test]
fn a_worker_reads_an_encrypted_image_with_its_secret_and_says_what_is_missing_without() {
    let s = scratch();
    let Some(plain) = image(&s) else { return };
    let disk = plain.with_extension("qcow2");
    let words = "convert --object secret,id=s,data=word -f raw -O qcow2 -o \
                 encrypt.format=luks,encrypt.iter-time=10,encrypt.key-secret=s";
    let mut qemu = Command::new("qemu-img");
    qemu.args(words.split_whitespace()).arg(&plain).arg(&disk);
    assert!(tane_test_support::qemu_luks(&mut qemu).status.success());
    let failure = options().open(&disk).map(drop).expect_err("no secret");
    assert_eq!(failure.errno, libc::ENOKEY);
    assert!(failure.text.contains("is encrypted (luks)"), "{failure}");
    let image = options()
        .image(with_secret(*b"word"))
        .open(&disk)
        .expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    drop(mount);
}
