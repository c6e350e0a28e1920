//! Promises of `tane convert`. Judges are qemu-img and e2fsck.

use crate::common::*;
use std::path::Path;
use std::process::Command;

fn qemu(scratch: &Scratch, args: &str) {
    let mut command = Command::new("qemu-img");
    succeed(command.args(args.split(' ')).current_dir(scratch.path()));
}

/// A disk with an ext4 on its second partition.
fn disk(scratch: &Scratch) {
    let tree = scratch.sample("tree", 20);
    let part = scratch.ext4("part.img", Some(&tree), 40);
    let shell = "truncate -s 64M disk.img && \
                 printf 'label: gpt\\n,4M\\n,40M\\n' | /usr/sbin/sfdisk -q disk.img && \
                 dd if=part.img of=disk.img bs=1M seek=5 conv=notrunc,sparse status=none";
    let mut sh = Command::new("sh");
    succeed(sh.args(["-c", shell]).current_dir(scratch.path()));
    assert_sound(&part);
}

fn blocks(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    path.metadata().expect("a file").blocks() * 512
}

#[test]
fn every_container_becomes_raw_or_qcow2_with_the_same_bytes() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    disk(&scratch);
    for kind in ["vmdk", "vhdx", "qcow2", "vdi"] {
        qemu(&scratch, &format!("convert -O {kind} disk.img in.{kind}"));
        for to in ["out.img", "out.qcow2"] {
            let source = format!("in.{kind}");
            let args = ["--json", "convert", "--force", &source, to];
            let told = succeed(scratch.tane().args(args)).stdout;
            let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
            assert_eq!(told["size"], 64 << 20, "{told}");
            qemu(&scratch, &format!("compare -q disk.img {to}"));
        }
        qemu(&scratch, "check -q out.qcow2");
    }
    // Holes stay holes.
    assert!(blocks(&scratch.join("out.img")) <= blocks(&scratch.join("disk.img")) + (1 << 20));
}

#[test]
fn a_partition_is_written_alone() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    disk(&scratch);
    succeed(scratch.tane().args(["convert", "disk.img@2", "two.img"]));
    assert!(scratch.read("two.img") == scratch.read("part.img"));
    let to = ["convert", "--to=qcow2", "disk.img@2", "two"];
    succeed(scratch.tane().args(to));
    qemu(&scratch, "compare -q -f raw -F qcow2 part.img two");
}

#[test]
fn a_luks_volume_is_written_decrypted() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("key", b"a secret");
    let Some(mut cryptsetup) = tane_test_support::tool("cryptsetup-bin", "cryptsetup") else {
        return;
    };
    succeed(
        Command::new("truncate")
            .args(["-s", "40M", "luks.img"])
            .current_dir(scratch.path()),
    );
    let words = "luksFormat -q --key-file key --type luks2 --pbkdf pbkdf2 \
                 --pbkdf-force-iterations 1000 luks.img";
    let words = words.split_whitespace();
    succeed(cryptsetup.args(words).current_dir(scratch.path()));
    succeed(
        scratch
            .tane()
            .args(["mkfs", "--key-file", "key", "luks.img"]),
    );
    scratch.write("file", b"inside");
    succeed(
        scratch
            .tane()
            .args(["cp", "--key-file", "key", "file", "luks.img:/"]),
    );
    succeed(
        scratch
            .tane()
            .args(["convert", "--key-file=key", "luks.img", "plain.img"]),
    );
    assert_sound(&scratch.join("plain.img"));
    let read = succeed(scratch.tane().args(["cat", "plain.img:/file"]));
    assert_eq!(read.stdout, b"inside");
    // What is outside takes no key.
    succeed(scratch.tane().args(["convert", "luks.img", "same.img"]));
    assert!(scratch.read("luks.img") == scratch.read("same.img"));
}

#[test]
fn what_is_there_stays_and_what_cannot_be_made_is_named() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4("a.img", None, 8);
    scratch.write("b.img", b"mine");
    for (args, why) in [
        (["a.img", "b.img"], "exists already: --force"),
        (["a.img", "b.vmdk"], "vmdk cannot be made"),
        (["a.img@3", "c.img"], "a.img"),
        (["--force", "a.img"], "required"),
    ] {
        let output = scratch.tane().arg("convert").args(args).output();
        let output = output.expect("runs");
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(why),
            "{args:?}: {said}"
        );
    }
    let same = ["convert", "--force", "a.img", "./a.img"];
    let failed = exit(scratch.tane().args(same), 1);
    assert!(text(&failed.stderr).contains("SOURCE itself"));
    assert_eq!(scratch.read("b.img"), b"mine");
    assert_sound(&scratch.join("a.img"));
    let left: Vec<_> = std::fs::read_dir(scratch.path())
        .expect("a directory")
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
