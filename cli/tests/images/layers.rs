//! Partition tables of other sectors, dm-verity, detached LUKS headers and RAID
//! superblocks at the end of a disk, through the command. Other people's programs make them, or say they are right.

use crate::common::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Output, Stdio};

const MIB: u64 = 1 << 20;

fn run(s: &Scratch, line: &str) -> Output {
    let mut words = line.split_whitespace();
    let mut command = sbin(words.next().expect("a program"));
    succeed(command.args(words).current_dir(s.path()))
}

/// An ext4 of this many MiB with the file f, called `name`.
fn ext4(s: &Scratch, name: &str, mib: u32) -> Vec<u8> {
    s.write("tree/f", b"inner");
    std::fs::read(s.ext4(name, Some(&s.join("tree")), mib)).expect("the image")
}

fn put(image: &Path, at: u64, bytes: &[u8]) {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(image);
    let file = file.expect("the image");
    file.write_all_at(bytes, at).expect("writes");
}

fn cat(s: &Scratch, options: &str, at: &str) -> String {
    let words = options.split_whitespace();
    text(&succeed(s.tane().args(words).args(["cat", at])).stdout)
}

fn kinds(s: &Scratch, options: &str, image: &str) -> Vec<String> {
    let words = options.split_whitespace();
    let json = succeed(s.tane().args(words).args(["inspect", "--json", image])).stdout;
    let found: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let volumes = found["volumes"].as_array().expect("volumes");
    let kind = |v: &serde_json::Value| v["kind"].as_str().expect("a kind").to_owned();
    volumes.iter().map(kind).collect()
}

fn root_hash(output: &Output) -> String {
    let said = text(&output.stdout);
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("Root hash:"));
    line.expect("a root hash").trim().to_owned()
}

#[test]
fn verity_lets_through_what_its_root_hash_is_of_and_nothing_else() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4(&s, "data", 16);
    for options in [
        "",
        "--hash=sha512 --salt=-",
        "--data-block-size=1024 --hash-block-size=512",
    ] {
        std::fs::write(s.join("data"), &bytes).expect("the data");
        let root = root_hash(&run(
            &s,
            &format!("veritysetup format {options} data hashes"),
        ));
        let given = format!("--verity={root} --with=hashes");
        assert_eq!(cat(&s, &given, "data:/f"), "inner");
        assert_eq!(kinds(&s, &given, "data"), ["disk", "disk", "verity"]);
        // It cannot be written.
        let mut write = s.tane();
        write.args(given.split(' ')).args(["mkdir", "data:/d"]);
        assert!(!write.output().expect("runs").status.success());
        assert!(s.read("data") == bytes);
        // Another root hash opens nothing, rather than what nobody checked.
        let wrong = given.replace(&root[..8], "00000000");
        let said = text(&exit(s.tane().args(wrong.split(' ')).args(["cat", "data:/f"]), 3).stderr);
        assert!(said.contains("root hash"), "{said}");
        // One bit of the file, and it cannot be read.
        let at = bytes
            .windows(5)
            .position(|w| w == b"inner")
            .expect("the file");
        put(&s.join("data"), at as u64, b"I");
        let said = s
            .tane()
            .args(given.split(' '))
            .args(["cat", "data:/f"])
            .output();
        let said = said.expect("runs");
        assert!(
            !said.status.success() && !text(&said.stdout).contains("nner"),
            "{said:?}"
        );
        assert_eq!(cat(&s, "", "data:/f"), "Inner");
    }
    let picture = text(&succeed(s.tane().args(["inspect", "hashes"])).stdout);
    assert!(picture.contains("DM_verity_hash"), "{picture}");
    assert!(picture.contains("--verity"), "{picture}");
}

#[test]
fn verity_hashes_may_lie_behind_the_data() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4(&s, "data", 16);
    let output = run(
        &s,
        "veritysetup format --data-blocks=4096 --hash-offset=16777216 data data",
    );
    let given = format!("--verity={},offset=16M", root_hash(&output));
    assert_eq!(cat(&s, &given, "data:/f"), "inner");
    assert!(s.read("data")[..bytes.len()] == bytes);
}

/// QEMU encrypts in a LUKS 1 container; the sectors are those of any LUKS with
/// the same volume key. cryptsetup makes the header without data.
#[test]
fn a_detached_header_is_named_like_another_disk() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4(&s, "inner.img", 16);
    s.write("key", &(0..64).collect::<Vec<u8>>());
    s.write("pw", b"open sesame");
    let common = "--volume-key-file=key --key-size=512 --cipher=aes-xts-plain64 --key-file=pw \
                  --pbkdf-force-iterations=1000 --pbkdf=pbkdf2";
    put(&s.join("one"), 24 * MIB - 1, &[0]);
    run(
        &s,
        &format!("cryptsetup luksFormat -q {common} --type=luks1 one"),
    );
    let dump = text(&run(&s, "cryptsetup luksDump one").stdout);
    let offset = dump.lines().find_map(|l| l.strip_prefix("Payload offset:"));
    let offset: u64 = offset.expect("an offset").trim().parse().expect("a number");
    let file = File::options()
        .write(true)
        .open(s.join("one"))
        .expect("opens");
    file.set_len(offset * 512 + bytes.len() as u64)
        .expect("its length");
    let secret = "--object secret,id=s,file=pw";
    run(&s, &format!("qemu-img convert {secret} -n -f raw --target-image-opts inner.img driver=luks,key-secret=s,file.filename=one"));
    let sealed = s.read("one")[(offset * 512) as usize..].to_vec();
    s.write("other", &[0x5a; 1 << 20]);
    for kind in ["luks1", "luks2 --sector-size=512"] {
        s.write("sealed", &sealed);
        put(&s.join("header"), 17 * MIB - 1, &[0]);
        run(
            &s,
            &format!("cryptsetup luksFormat -q {common} --type={kind} --header=header sealed"),
        );
        assert!(s.read("sealed") == sealed, "the header is not detached");
        let given = "--key-file=pw --with=header";
        assert_eq!(cat(&s, given, "sealed:/f"), "inner", "{kind}");
        assert_eq!(cat(&s, "--key-file=pw --with=sealed", "header:/f"), "inner");
        // The key says which of several it is of.
        assert_eq!(
            cat(&s, "--key-file=pw --with=sealed --with=header", "other:/f"),
            "inner"
        );
        succeed(
            s.tane()
                .args(given.split(' '))
                .args(["mv", "sealed:/f", "sealed:/g"]),
        );
        assert_eq!(cat(&s, given, "sealed:/g"), "inner");
        let said = text(&exit(s.tane().args(["--key-file=pw", "ls", "header"]), 3).stderr);
        assert!(said.contains("detached header"), "{said}");
        std::fs::remove_file(s.join("header")).expect("removes");
    }
}

/// A superblock of version 1.0 for a disk of so many sectors, of a mirror.
fn version_1_0(sectors: u64, number: u32) -> (u64, Vec<u8>) {
    let at = (sectors - 16) & !7;
    let mut b = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| b[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efcu32.to_le_bytes());
    put(4, &1u32.to_le_bytes());
    put(16, &[7; 16]);
    put(32, b"host:end");
    put(72, &1u32.to_le_bytes());
    put(80, &(32 * MIB / 512).to_le_bytes());
    put(92, &2u32.to_le_bytes());
    put(136, &at.to_le_bytes());
    put(144, &at.to_le_bytes());
    put(160, &number.to_le_bytes());
    put(168, &[number as u8 + 1; 16]);
    put(200, &5u64.to_le_bytes());
    put(208, &u64::MAX.to_le_bytes());
    put(220, &2u32.to_le_bytes());
    put(256, &[0, 0, 1, 0]);
    let sum = folded(&b[..260]);
    b[216..220].copy_from_slice(&sum.to_le_bytes());
    (at * 512, b)
}

fn folded(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(4)
        .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    let sum: u64 = words.map(u64::from).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// One of version 0.90.
fn version_0_90(sectors: u64, number: u32) -> (u64, Vec<u8>) {
    let at = ((sectors & !127) - 128) * 512;
    let mut words = [0u32; 1024];
    words[..5].copy_from_slice(&[0xa92b_4efc, 0, 90, 0, 0]);
    for at in [5, 13, 14, 15] {
        words[at] = 0x0707_0707;
    }
    words[6] = 1_000_000_000;
    words[7] = 1;
    words[8] = 32 * 1024;
    words[9..12].copy_from_slice(&[2, 2, 0]);
    words[32] = 1_000_000_000;
    words[33..37].copy_from_slice(&[1, 2, 2, 0]);
    words[39] = 5;
    for disk in 0..2 {
        // Number, major, minor, place, state: active and in sync.
        let at = 128 + 32 * disk;
        words[at..at + 5].copy_from_slice(&[disk as u32, 8, disk as u32, disk as u32, 6]);
    }
    let own = 128 + 32 * number as usize;
    words.copy_within(own..own + 32, 992);
    let bytes = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<_>>()
    };
    words[38] = folded(&bytes(&words));
    (at, bytes(&words))
}

#[test]
fn raid_superblocks_at_the_end_are_found_before_what_the_start_looks_like() {
    if !has_kernel() {
        return;
    }
    type Make = fn(u64, u32) -> (u64, Vec<u8>);
    for (name, make) in [("1.0", version_1_0 as Make), ("0.90", version_0_90 as Make)] {
        let s = Scratch::new();
        let bytes = ext4(&s, "data", 32);
        for (number, disk) in ["a", "b"].iter().enumerate() {
            let path = s.write(disk, &bytes);
            put(&path, 33 * MIB - 1, &[0]);
            let (at, superblock) = make(33 * MIB / 512, number as u32);
            put(&path, at, &superblock);
            let said = text(&run(&s, &format!("mdadm --examine {disk}")).stdout);
            assert!(
                said.contains("- correct") && said.contains("clean"),
                "{said}"
            );
        }
        assert_eq!(
            kinds(&s, "--with=b", "a"),
            ["disk", "disk", "raid"],
            "{name}"
        );
        assert_eq!(cat(&s, "--with=b", "a:/f"), "inner", "{name}");
        succeed(s.tane().args(["--with=b", "mv", "a:/f", "a:/g"]));
        // Both have it, and one alone will do.
        for disk in ["a", "b"] {
            assert_eq!(cat(&s, "", &format!("{disk}:/g")), "inner", "{name}");
        }
        assert!(s.read("a")[..bytes.len()] == s.read("b")[..bytes.len()]);
    }
}

/// What a program reads on its standard input.
fn feed(s: &Scratch, line: &str, input: &str) {
    s.write("script", input.as_bytes());
    let mut words = line.split_whitespace();
    let mut command = sbin(words.next().expect("a program"));
    let script = File::open(s.join("script")).expect("the script");
    let done = command
        .args(words)
        .current_dir(s.path())
        .stdin(Stdio::from(script));
    succeed(done);
}

#[test]
fn a_table_that_counts_in_sectors_of_4096_bytes_is_read_when_that_is_said() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4(&s, "fs", 16);
    for (table, kind) in [("g", "gpt"), ("o", "dos")] {
        let disk = s.write("disk", &[]);
        put(&disk, 64 * MIB - 1, &[0]);
        let primary = if table == "o" { "p\n" } else { "" };
        let script = format!("{table}\nn\n{primary}1\n256\n+20M\nn\n{primary}2\n\n+20M\nw\n");
        feed(&s, "fdisk -b 4096 disk", &script);
        put(&disk, MIB, &bytes);
        let given = "--sector-size=4096";
        assert_eq!(cat(&s, given, "disk@1:/f"), "inner", "{kind}");
        let json = succeed(s.tane().args([given, "inspect", "--json", "disk"])).stdout;
        let found: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(found["table"], kind);
        assert_eq!(found["volumes"][0]["start"], MIB);
        succeed(s.tane().args([given, "mv", "disk@1:/f", "disk@1:/g"]));
        assert_eq!(cat(&s, given, "disk@1:/g"), "inner");
    }
    let said = text(&exit(s.tane().args(["--sector-size=520", "ls", "disk"]), 2).stderr);
    assert!(said.contains("512, 1024, 2048 or 4096"), "{said}");
}

/// A GPT and an MBR that names some of its partitions: the GPT counts.
#[test]
fn of_a_hybrid_table_the_gpt_counts() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4(&s, "fs", 16);
    let disk = s.write("disk", &[]);
    put(&disk, 64 * MIB - 1, &[0]);
    let script = "label: gpt\nstart=2048,size=40960,name=one\nsize=40960,name=two\n";
    feed(&s, "sfdisk -q disk", script);
    put(&disk, 21 * MIB, &bytes);
    let mut entry = [0u8; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&43008u32.to_le_bytes());
    entry[12..].copy_from_slice(&40960u32.to_le_bytes());
    put(&disk, 446 + 16, &entry);
    assert_eq!(cat(&s, "", "disk@2:/f"), "inner");
    let json = succeed(s.tane().args(["inspect", "--json", "disk"])).stdout;
    let found: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(found["volumes"][1]["name"], "two");
    assert_eq!(found["table"], "gpt");
}
