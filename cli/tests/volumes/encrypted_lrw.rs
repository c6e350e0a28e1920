//! LUKS with LRW, a cipher mode that Linux keeps for old volumes and few others know: made
//! and checked by cryptsetup on another Linux.

use crate::common::uml::Uml;
use crate::common::*;

/// Where it is, modules that are needed are not found by themselves.
const MODULES: &str = "for m in cbc ctr hmac lrw algif_skcipher dm-crypt; do
	modprobe -d /tmp/m $m
done
export DM_DISABLE_UDEV=1
mkdir -p /run/cryptsetup
";

#[test]
fn a_luks_volume_with_lrw_is_read_and_written_as_another_linux_does() {
    let Some(uml) = Uml::find() else { return };
    if tane_test_support::tool("cryptsetup-bin", "cryptsetup").is_none() || !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let disk = s.join("a");
    let file = std::fs::File::create(&disk).expect("a disk");
    file.set_len(32 << 20).expect("its size");
    s.write("key", b"open sesame");
    // No two blocks are the same, so that none can be in another's place.
    let words = (0..750_000u32).map(|i| i.wrapping_mul(0x9e37_79b1));
    let one: Vec<_> = words.flat_map(u32::to_le_bytes).collect();
    s.write("one", &one);
    // AES-128 and AES-256, each with 128 bits for LRW.
    for bits in ["256", "384"] {
        let make = format!(
            "{MODULES}cryptsetup luksFormat -q --type luks1 -c aes-lrw-benbi -s {bits} \
             --pbkdf-force-iterations 1000 /dev/ubda key\n\
             cryptsetup open --key-file key /dev/ubda c\nmkfs.ext4 -q /dev/mapper/c\n\
             mount /dev/mapper/c /tmp/mnt\ncp one /tmp/mnt/one\numount /tmp/mnt\n\
             cryptsetup close c\n"
        );
        uml.run(&s, std::slice::from_ref(&disk), &make);
        let tane = |args: &str| succeed(s.tane().arg("--key-file=key").args(args.split(' ')));
        assert!(tane("cat a:/one").stdout == one, "{bits}");
        let found = text(&tane("inspect a").stdout);
        assert!(
            found.contains("unlocked") && found.contains("ext4"),
            "{found}"
        );
        tane("cp one a:/two");
        let check = format!(
            "{MODULES}cryptsetup open --key-file key /dev/ubda c\ne2fsck -fn /dev/mapper/c\n\
             mount -o ro /dev/mapper/c /tmp/mnt\ncmp one /tmp/mnt/one\ncmp one /tmp/mnt/two\n\
             umount /tmp/mnt\ncryptsetup close c\n"
        );
        uml.run(&s, std::slice::from_ref(&disk), &check);
    }
}
