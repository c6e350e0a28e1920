//! BitLocker volumes that Windows made: cryptsetup's (scripts/foreign-images), with what
//! opens them and the sums of what is in them.

use crate::common::volumes::*;
use crate::common::*;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What images.conf says of an image.
struct Sealed {
    name: String,
    path: PathBuf,
    facts: HashMap<String, String>,
}

impl Sealed {
    fn fact(&self, name: &str) -> Option<&str> {
        let fact = self.facts.get(name).map(String::as_str);
        fact.filter(|text| !text.is_empty())
    }

    /// Options that give the secret of this name, from a file.
    fn by(&self, s: &Scratch, option: &str, fact: &str) -> String {
        let secret = self.fact(fact).expect("a secret");
        s.write("secret", format!("{secret}\n").as_bytes());
        format!("--{option}=secret")
    }

    fn at(&self) -> &str {
        self.path.to_str().expect("a name")
    }

    /// A copy that can be written.
    fn copied(&self, s: &Scratch, name: &str) -> PathBuf {
        let copy = s.join(name);
        let mut cp = sbin("cp");
        succeed(cp.arg("--sparse=always").arg(&self.path).arg(&copy));
        copy
    }
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/foreign/cryptsetup")
}

/// All of them; none, if the test is to be skipped.
fn images() -> Vec<Sealed> {
    let Ok(conf) = std::fs::read_to_string(dir().join("images.conf")) else {
        tane_test_support::skip("no images of BitLocker: scripts/foreign-images fetches them");
        return Vec::new();
    };
    if !has_kernel() {
        return Vec::new();
    }
    let sections = conf.split('[').skip(1).filter_map(|section| {
        let (name, lines) = section.split_once(']')?;
        let facts = lines.lines().filter_map(|line| line.split_once('='));
        Some(Sealed {
            name: name.to_owned(),
            path: dir().join(format!("{name}.img")),
            facts: facts.map(|(k, v)| (k.into(), v.into())).collect(),
        })
    });
    sections.collect()
}

fn image(name: &str) -> Option<Sealed> {
    images().into_iter().find(|image| image.name == name)
}

/// As it is found to be with these options.
fn uuid(s: &Scratch, options: &str, image: &str) -> Option<String> {
    let found = inspect(s, options, image);
    let volumes = found["volumes"].as_array().expect("volumes");
    let inside = volumes.iter().find(|v| v["kind"] == "bitlocker")?;
    inside["uuid"].as_str().map(str::to_owned)
}

/// All of its content.
fn sum(path: &Path) -> String {
    let out = text(&succeed(sbin("sha256sum").arg(path)).stdout);
    out.split(' ').next().expect("a sum").to_owned()
}

#[test]
fn what_windows_encrypted_comes_out_as_cryptsetup_has_it() {
    let s = Scratch::new();
    let mut ciphers: Vec<String> = Vec::new();
    for image in images() {
        let Some(wanted) = image.fact("SHA256SUM") else {
            continue;
        };
        let mut command = s.tane();
        // None is needed where protection is suspended.
        if let Some(secret) = image.fact("PW").or(image.fact("RP")) {
            let secret = s.write("secret", secret.as_bytes());
            command.arg("--passphrase-file").arg(secret);
        }
        let to = s.join("plain.img");
        let convert = ["convert", "--force"];
        let id = image.fact("GUID").expect("an identity");
        let from = format!("{}@uuid={id}", image.at());
        succeed(command.args(convert).arg(from).arg(&to));
        assert_eq!(sum(&to), wanted, "{}", image.name);
        ciphers.extend(image.fact("CIPHER").map(str::to_owned));
    }
    ciphers.sort();
    ciphers.dedup();
    let known = ["aes-cbc-elephant", "aes-cbc-eboiv", "aes-xts-plain64"];
    assert!(ciphers.is_empty() || known.iter().all(|c| ciphers.iter().any(|i| i == c)));
}

#[test]
fn a_recovery_password_opens_a_volume_whatever_else_does() {
    let s = Scratch::new();
    for name in ["bitlk-aes-xts-128-smart-card", "bitlk-togo-aes-cbc-128"] {
        let Some(image) = image(name) else { return };
        for option in ["passphrase-file", "key-file"] {
            let given = image.by(&s, option, "RP");
            assert_eq!(uuid(&s, &given, image.at()).as_deref(), image.fact("UUID"));
        }
    }
}

#[test]
fn the_file_of_a_startup_key_opens_its_volume_and_no_other() {
    let s = Scratch::new();
    for name in [
        "bitlk-aes-xts-128-startup-key",
        "bitlk-aes-xts-128-startup-key-win11",
    ] {
        let Some(image) = image(name) else { return };
        let id = image.fact("SK_VMK_GUID").expect("an identity");
        let key = dir().join(format!("{}.BEK", id.to_uppercase()));
        let given = format!("--key-file={}", key.display());
        assert_eq!(uuid(&s, &given, image.at()).as_deref(), image.fact("UUID"));
        let said = text(&exit(s.tane().arg("ls").arg(&image.path), 3).stderr);
        let file = format!("startup key {}.BEK", id.to_uppercase());
        assert!(said.contains(&file), "{said}");
        let Some(other) = self::image("bitlk-aes-xts-128-smart-card") else {
            return;
        };
        assert_eq!(uuid(&s, &given, other.at()), None);
    }
}

#[test]
fn what_opens_a_volume_is_told_where_it_is_locked() {
    let s = Scratch::new();
    let Some(image) = image("bitlk-aes-xts-128-smart-card") else {
        return;
    };
    let id = image
        .fact("RP_VMK_GUID")
        .expect("an identity")
        .to_uppercase();
    let found = inspect(&s, "", image.at());
    let [volume] = &found["volumes"].as_array().expect("volumes")[..] else {
        panic!("{found}");
    };
    assert_eq!(volume["locked"], true);
    let protectors = volume["protectors"].as_array().expect("protectors");
    let kinds: Vec<_> = protectors.iter().map(|p| &p["kind"]).collect();
    assert_eq!(kinds, ["smart card", "recovery password"]);
    assert_eq!(protectors[1]["id"], id);
    let fails = |options: &[&str], said: &[&str]| {
        let failed = exit(s.tane().args(options).arg("ls").arg(&image.path), 3);
        let errors = text(&failed.stderr);
        assert!(said.iter().all(|part| errors.contains(part)), "{errors}");
    };
    fails(&[], &["is locked", &id, "--passphrase-file"]);
    s.write("wrong", b"nothing\n");
    let given = ["--passphrase-file=wrong"];
    fails(&given, &["no passphrase fits", "smart card", &id]);
    let mut typed = image.fact("RP").expect("a password").to_owned();
    typed.replace_range(7..8, if &typed[7..8] == "1" { "2" } else { "1" });
    s.write("wrong", typed.as_bytes());
    fails(&given, &["group 2 of the recovery password is mistyped"]);
}

#[test]
fn a_volume_that_is_encrypted_in_part_is_refused_with_the_reason() {
    let s = Scratch::new();
    for name in ["bitlk-aes-xts-128-eow", "bitlk-clearkey-aes-cbc-128"] {
        let Some(image) = image(name) else { return };
        let given = image.by(&s, "passphrase-file", "PW");
        let said = text(&exit(s.tane().arg(&given).arg("ls").arg(&image.path), 3).stderr);
        assert!(said.contains("is encrypted in part only"), "{said}");
        let found = inspect(&s, &given, image.at());
        assert!(found["volumes"][0]["protectors"][0]["id"].is_string());
        assert_eq!(found["volumes"][0]["locked"], false);
    }
}

/// Where the copies of the metadata are.
fn copies(image: &Path) -> [u64; 3] {
    let places = get(image, 176, 24);
    [0, 1, 2].map(|i| u64::from_le_bytes(places[8 * i..8 * i + 8].try_into().expect("eight")))
}

#[test]
fn one_sound_copy_of_the_metadata_is_enough() {
    let s = Scratch::new();
    let Some(image) = image("bitlk-aes-xts-256") else {
        return;
    };
    let copy = image.copied(&s, "damaged");
    let given = image.by(&s, "passphrase-file", "PW");
    let places = copies(&copy);
    put(&copy, places[0] + 200, b"damaged");
    put(&copy, places[2], &[0xff; 4096]);
    assert_eq!(uuid(&s, &given, "damaged").as_deref(), image.fact("UUID"));
    put(&copy, places[1] + 300, b"damaged");
    let said = text(&exit(s.tane().arg(&given).args(["ls", "damaged"]), 3).stderr);
    let why = "all copies of its metadata are damaged";
    assert!(said.contains(why), "{said}");
}

/// Who has no key can make a checksum right, and no more.
#[test]
fn metadata_that_others_changed_is_refused() {
    let s = Scratch::new();
    let Some(image) = image("bitlk-aes-xts-256") else {
        return;
    };
    let copy = image.copied(&s, "changed");
    for at in copies(&copy) {
        let size = get(&copy, at + 8, 2);
        let size = u64::from(u16::from_le_bytes([size[0], size[1]])) * 16;
        // Of the description.
        put(&copy, at + 120, b"X");
        let sum = crc32fast::hash(&get(&copy, at, size as usize));
        put(&copy, at + size + 4, &sum.to_le_bytes());
    }
    let given = image.by(&s, "passphrase-file", "PW");
    let said = text(&exit(s.tane().arg(&given).args(["ls", "changed"]), 3).stderr);
    assert!(
        said.contains("changed by somebody without its keys"),
        "{said}"
    );
}

#[test]
fn a_volume_on_a_partition_has_its_selector_and_tells_its_name() {
    let s = Scratch::new();
    let Some(image) = image("bitlk-aes-xts-128") else {
        return;
    };
    let disk = blank(&s, "disk", 120);
    s.write("script", b"label: gpt\nstart=2048,size=204800\n");
    let input = File::open(s.join("script")).expect("the script");
    succeed(sbin("sfdisk").arg("-q").arg(&disk).stdin(input));
    put(&disk, MIB, &std::fs::read(&image.path).expect("the image"));
    let given = image.by(&s, "passphrase-file", "PW");
    let found = inspect(&s, &given, "disk");
    let inside = &found["volumes"][1];
    assert_eq!(inside["kind"], "bitlocker");
    assert_eq!(inside["on"], serde_json::json!([found["volumes"][0]["id"]]));
    assert_eq!(inside["part_uuid"].as_str(), image.fact("GUID"));
    assert_eq!(inside["name"], "DESKTOP-NPM7RCA H: 7/4/2019");
    let convert = ["convert", "disk@1", "plain.img"];
    succeed(s.tane().arg(&given).args(convert));
    let wanted = image.fact("SHA256SUM");
    assert_eq!(Some(&*sum(&s.join("plain.img"))), wanted);
}

/// What is written where the metadata is would be lost.
#[test]
fn no_file_system_is_made_inside() {
    let s = Scratch::new();
    let Some(image) = image("bitlk-aes-xts-128") else {
        return;
    };
    image.copied(&s, "disk");
    let before = sum(&s.join("disk"));
    let given = image.by(&s, "passphrase-file", "PW");
    let mkfs = ["mkfs", "--force", "--fs=ext4", "disk"];
    let said = text(&exit(s.tane().arg(&given).args(mkfs), 3).stderr);
    assert!(said.contains("its files can be changed"), "{said}");
    assert_eq!(sum(&s.join("disk")), before);
}
