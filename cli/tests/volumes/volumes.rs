//! Partitions and LUKS, through the command. Other people's programs make the images, or
//! read what we wrote into them.

use crate::common::volumes::*;
use crate::common::*;
use std::fs::File;
use tane_test_support::qemu_luks;

/// Put `image` into a new LUKS1 volume with the passphrase in the file `pw`.
fn luks_1(s: &Scratch, options: &str, image: &str, to: &str) {
    let line = format!(
        "convert --object secret,id=s,file=pw -f raw -O luks \
         -o key-secret=s,iter-time=10{options} {image} {to}"
    );
    let mut command = sbin("qemu-img");
    command.args(line.split(' ')).current_dir(s.join("."));
    let output = qemu_luks(&mut command);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_gpt_by_number_label_and_identity() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let disk = blank(&s, "disk", 64);
    let script = "label: gpt\nstart=2048,size=40960,name=first\nsize=40960,name=second\n";
    s.write("script", script.as_bytes());
    let mut sfdisk = sbin("sfdisk");
    let input = File::open(s.join("script")).expect("the script");
    succeed(sfdisk.arg("-q").arg(&disk).stdin(input));
    put(&disk, MIB, &ext4_bytes(&s, "one", 16));
    put(&disk, 21 * MIB, &ext4_bytes(&s, "two", 16));
    let said = text(&exit(s.tane().args(["ls", "disk"]), 3).stderr);
    assert!(said.contains("disk@1:/  ext4 label=one"), "{said}");
    assert!(said.contains("disk@2:/  ext4 label=two"), "{said}");
    let found = inspect(&s, "", "disk");
    assert_eq!(found["table"], "gpt");
    assert_eq!(found["volumes"][1]["name"], "second");
    for (selector, wanted) in [
        ("1".into(), "one"),
        ("label=two".into(), "two"),
        (
            format!(
                "uuid={}",
                found["volumes"][0]["uuid"].as_str().expect("a UUID")
            ),
            "one",
        ),
        (
            format!(
                "uuid={}",
                found["volumes"][1]["part_uuid"].as_str().expect("a UUID")
            ),
            "two",
        ),
    ] {
        assert_eq!(cat(&s, "", &format!("disk@{selector}:/f")), wanted);
    }
}

#[test]
fn luks_1_as_qemu_makes_and_reads_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4_bytes(&s, "inner", 16);
    s.write("pw", b"open sesame");
    for options in [
        "",
        ",cipher-alg=aes-256,cipher-mode=cbc,ivgen-alg=essiv,ivgen-hash-alg=sha256",
        ",hash-alg=sha512",
    ] {
        let secret = "--object secret,id=s,file=pw";
        luks_1(&s, options, "inner.ext4", "disk");
        assert_eq!(cat(&s, "--key-file=pw", "disk:/f"), "inner");
        let found = inspect(&s, "--key-file=pw", "disk");
        assert_eq!(found["volumes"][0]["fs"], "crypto_LUKS");
        assert_eq!(found["volumes"][1]["kind"], "luks");
        assert_eq!(found["volumes"][1]["label"], "inner");
        assert_eq!(found["volumes"][1]["size"], bytes.len());
        s.write("new", &[5; 1 << 20]);
        succeed(s.tane().args(["--key-file=pw", "cp", "new", "disk:/new"]));
        run(&s, &format!("qemu-img convert {secret} --image-opts -O raw driver=luks,key-secret=s,file.filename=disk back"));
        assert_sound(&s.join("back"));
        let read = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(s.join("back")));
        assert!(read.stdout == s.read("new"));
    }
    s.write("wrong", b"open\n");
    let said = text(&exit(s.tane().args(["--key-file=wrong", "ls", "disk"]), 3).stderr);
    assert!(said.contains("no passphrase fits"), "{said}");
    let said = text(&exit(s.tane().args(["ls", "disk"]), 3).stderr);
    assert!(said.contains("--passphrase-file"), "{said}");
}

/// QEMU knows LUKS 1 only, so it encrypts and decrypts the data with the same
/// volume key in a LUKS 1 container; the sectors are the same in both.
#[test]
fn luks_2_as_cryptsetup_makes_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4_bytes(&s, "inner", 16);
    s.write("key", &(0..64).collect::<Vec<u8>>());
    s.write("pw", b"open sesame\n");
    s.write("pw-bare", b"open sesame");
    let common = "--volume-key-file=key --key-size=512 --cipher=aes-xts-plain64 --key-file=pw-bare";
    let format = |kind: &str, image: &str| {
        run(
            &s,
            &format!("cryptsetup luksFormat -q {common} {kind} {image}"),
        );
    };
    blank(&s, "one", 24);
    format(
        "--type=luks1 --pbkdf-force-iterations=1000 --hash=sha256",
        "one",
    );
    let secret = "--object secret,id=s,file=pw-bare";
    let target = "driver=luks,key-secret=s,file.filename=one";
    let offset = text(&run(&s, "cryptsetup luksDump one").stdout);
    let offset = offset
        .lines()
        .find_map(|l| l.strip_prefix("Payload offset:"));
    let offset: u64 = offset
        .and_then(|o| o.trim().parse().ok())
        .expect("an offset");
    let file = File::options().write(true).open(s.join("one"));
    let fit = file.and_then(|f| f.set_len(offset * 512 + bytes.len() as u64));
    fit.expect("its length");
    run(
        &s,
        &format!("qemu-img convert {secret} -n -f raw --target-image-opts inner.ext4 {target}"),
    );
    let sealed = get(&s.join("one"), offset * 512, bytes.len());
    for kdf in [
        "--pbkdf=argon2id --pbkdf-memory=65536 --pbkdf-force-iterations=4",
        "--pbkdf=argon2i --pbkdf-memory=32768 --pbkdf-parallel=1 --pbkdf-force-iterations=4",
        "--pbkdf=pbkdf2 --pbkdf-force-iterations=2000 --hash=sha512",
        "--pbkdf=pbkdf2 --pbkdf-force-iterations=2000 --hash=whirlpool",
    ] {
        let two = blank(&s, "two", 32);
        format(&format!("--type=luks2 --sector-size=512 {kdf}"), "two");
        put(&two, 16 * MIB, &sealed);
        assert_eq!(cat(&s, "--passphrase-file=pw", "two:/f"), "inner");
        let mut stdin = s.tane();
        stdin.args(["--passphrase-file=-", "cat", "two:/f"]);
        stdin.stdin(File::open(s.join("pw")).expect("the passphrase"));
        assert_eq!(succeed(&mut stdin).stdout, b"inner");
        succeed(
            s.tane()
                .args(["--passphrase-file=pw", "mv", "two:/f", "two:/g"]),
        );
        put(
            &s.join("one"),
            offset * 512,
            &get(&two, 16 * MIB, bytes.len()),
        );
        run(&s, &format!("qemu-img convert {secret} --image-opts -O raw driver=luks,key-secret=s,file.filename=one back"));
        assert_sound(&s.join("back"));
        let read = succeed(sbin("debugfs").args(["-R", "cat /g"]).arg(s.join("back")));
        assert_eq!(read.stdout, b"inner");
    }
}

#[test]
fn the_picture_shows_luks_on_a_partition_and_what_is_installed() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write(
        "system.d/etc/os-release",
        b"NAME=x\nPRETTY_NAME=\"Testix 7\"\n",
    );
    ext4_bytes(&s, "system", 16);
    s.write("pw", b"pw");
    luks_1(&s, "", "system.ext4", "sealed");
    let sealed = s.read("sealed");
    let disk = blank(&s, "disk", 32);
    let mut table = [0u8; 512];
    table[446 + 4] = 0x83;
    table[454..458].copy_from_slice(&2048u32.to_le_bytes());
    table[458..462].copy_from_slice(&((sealed.len() / 512) as u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    put(&disk, 0, &table);
    put(&disk, MIB, &sealed);
    let picture = text(&succeed(s.tane().args(["--key-file=pw", "inspect", "disk"])).stdout);
    let lines: Vec<_> = picture.lines().collect();
    assert!(lines[0].starts_with("disk  raw, 32M"), "{picture}");
    assert_eq!(lines[1], "  dos table");
    assert!(lines[2].starts_with("  └─ 1  "), "{picture}");
    assert!(lines[2].contains("crypto_LUKS"), "{picture}");
    assert!(
        lines[3].starts_with("     └─ unlocked  16M  ext4  label=system"),
        "{picture}"
    );
    assert!(lines[3].contains("[Testix 7]"), "{picture}");
    assert_eq!(lines.len(), 4, "{picture}");
    let locked = inspect(&s, "", "disk");
    assert_eq!(locked["volumes"][0]["locked"], true);
    assert_eq!(locked["volumes"].as_array().map(Vec::len), Some(1));
    // The partition's number means what is inside.
    assert!(cat(&s, "--key-file=pw", "disk@1:/etc/os-release").contains("Testix"));
}
