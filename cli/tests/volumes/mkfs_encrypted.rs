//! Promises of `tane mkfs` inside LUKS volumes, where what no one has written is noise.

use crate::common::*;
use std::os::unix::fs::MetadataExt;

const SIZE: u64 = 512 << 20;

/// What each kind's own checker is called with, its file at the end.
const KINDS: &[(&str, &str)] = &[
    ("ext4", "e2fsck -fn"),
    ("xfs", "xfs_repair -n -f"),
    ("btrfs", "btrfs check --readonly"),
    ("f2fs", "fsck.f2fs --dry-run"),
    ("vfat", "fsck.vfat -n"),
];

#[test]
fn a_file_system_in_a_luks_volume_takes_what_its_mkfs_wrote_and_is_sound() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("key", b"a secret");
    for (kind, check) in KINDS {
        let Some(mut cryptsetup) = tane_test_support::tool("cryptsetup-bin", "cryptsetup") else {
            return;
        };
        let file = std::fs::File::create(s.join("luks.img")).expect("a file");
        file.set_len(SIZE).expect("its size");
        let words = "luksFormat -q --key-file key --type luks2 --pbkdf pbkdf2 \
                     --pbkdf-force-iterations 1000 luks.img";
        let words = words.split_whitespace();
        succeed(cryptsetup.args(words).current_dir(s.path()));
        let kind = format!("--fs={kind}");
        succeed(s.tane().args(["mkfs", &kind, "--key-file=key", "luks.img"]));
        // Nothing but writing gives blocks to the image.
        let taken = s.join("luks.img").metadata().expect("there").blocks() * 512;
        assert!(taken < SIZE / 2, "{kind}: {taken} bytes were written");
        s.write("file", b"inside");
        succeed(
            s.tane()
                .args(["cp", "--key-file=key", "file", "luks.img:/"]),
        );
        let plain = [
            "convert",
            "--force",
            "--key-file=key",
            "luks.img",
            "plain.img",
        ];
        succeed(s.tane().args(plain));
        let mut words = check.split(' ');
        let mut checker = sbin(words.next().expect("a program"));
        succeed(checker.args(words).arg("plain.img").current_dir(s.path()));
    }
}
