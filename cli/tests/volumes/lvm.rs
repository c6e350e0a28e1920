//! LVM2's volumes of all kinds, made and checked by LVM2's own tools on another
//! Linux; in between they are read and written through the command.

use crate::common::uml::Uml;
use crate::common::*;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
const DISKS: &str = "a b c d e f";

/// A group of volumes on some disks, and another Linux that knows it.
pub struct Bed {
    pub s: Scratch,
    pub uml: Uml,
    pub disks: Vec<PathBuf>,
}

/// Files that are the same each time: no two blocks of them are.
pub fn content(seed: u32, len: usize) -> Vec<u8> {
    let words =
        (0..len as u32 / 4 + 1).map(|i| (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b1));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

impl Bed {
    /// A group called "vg" on `disks` of `mib` each, and what `script` does to it.
    #[track_caller]
    pub fn new(disks: usize, mib: u64, script: &str) -> Option<Bed> {
        let uml = Uml::find()?;
        if !has_kernel() {
            return None;
        }
        let s = Scratch::new();
        let names: Vec<_> = DISKS.split(' ').take(disks).collect();
        let disks = names.iter().map(|name| {
            let path = s.join(name);
            let file = std::fs::File::create(&path).expect("a disk");
            file.set_len(mib * MIB).expect("its size");
            path
        });
        let disks: Vec<_> = disks.collect();
        s.write("one", &content(1, 3_000_000));
        s.write("two", &content(2, 2_500_000));
        let bed = Bed { s, uml, disks };
        let nodes: Vec<_> = names.iter().map(|name| format!("/dev/ubd{name}")).collect();
        let nodes = nodes.join(" ");
        bed.lvm(&format!(
            "pvcreate -q {nodes}\nvgcreate -q vg {nodes}\n{FILL}\n{script}"
        ));
        Some(bed)
    }

    pub fn lvm(&self, script: &str) -> String {
        let script = format!("{script}\nsync\nvgchange -q -an vg\n");
        self.uml.run(&self.s, &self.disks, &script)
    }

    /// What LVM and its friends say of volumes that were written: each has `two`.
    pub fn check(&self, volumes: &[&str], more: &str) -> String {
        let mut script = String::from("vgchange -q -ay vg\n");
        for volume in volumes {
            script += &format!(
                "e2fsck -fn /dev/vg/{volume}\nmount -o ro /dev/vg/{volume} /tmp/mnt\n\
                 cmp one /tmp/mnt/one\ncmp two /tmp/mnt/two\numount /tmp/mnt\n"
            );
        }
        self.lvm(&(script + more))
    }

    pub fn tane(&self, disks: &str) -> std::process::Command {
        let mut tane = self.s.tane();
        tane.args(
            disks
                .split(' ')
                .skip(1)
                .map(|disk| format!("--with={disk}")),
        );
        tane
    }

    /// A file as the command has it, from these disks and no others.
    pub fn read(&self, disks: &str, volume: &str, name: &str) -> Vec<u8> {
        let first = disks.split(' ').next().expect("a disk");
        let at = format!("{first}@vg/{volume}:/{name}");
        succeed(self.tane(disks).args(["cat", &at])).stdout
    }

    pub fn refuses(&self, disks: &str, verb: &[&str], volume: &str) -> String {
        let first = disks.split(' ').next().expect("a disk");
        let at = format!("{first}@vg/{volume}:/");
        text(&exit(self.tane(disks).args(verb).arg(at), 3).stderr)
    }

    pub fn write_two(&self, disks: &str, volume: &str) {
        let first = disks.split(' ').next().expect("a disk");
        let at = format!("{first}@vg/{volume}:/two");
        succeed(self.tane(disks).args(["cp", "two", &at]));
    }

    pub fn all(&self) -> String {
        let names = DISKS.split(' ').take(self.disks.len());
        names.collect::<Vec<_>>().join(" ")
    }

    pub fn bytes(&self) -> Vec<Vec<u8>> {
        let read = |disk: &PathBuf| std::fs::read(disk).expect("a disk");
        self.disks.iter().map(read).collect()
    }

    pub fn volumes(&self, disks: &str) -> Vec<serde_json::Value> {
        let first = disks.split(' ').next().expect("a disk");
        let json = succeed(self.tane(disks).args(["inspect", "--json", first])).stdout;
        let found: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        crate::common::schema::assert_inspected(&found);
        found["volumes"].as_array().expect("volumes").clone()
    }

    pub fn volume(&self, disks: &str, name: &str) -> serde_json::Value {
        let name = format!("vg/{name}");
        let found = self.volumes(disks).into_iter().find(|v| v["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    }

    /// That it has the file, that reading changed no disk, and that LVM finds what is
    /// written then.
    pub fn serves(&self, volumes: &[&str], more: &str) -> String {
        let before = self.bytes();
        let all = self.all();
        for volume in volumes {
            assert!(
                self.read(&all, volume, "one") == content(1, 3_000_000),
                "{volume}"
            );
        }
        assert!(self.bytes() == before, "reading changed a disk");
        for volume in volumes {
            self.write_two(&all, volume);
        }
        self.check(volumes, more)
    }
}

/// sh: make an ext4 with the file `one`.
const FILL: &str = "fill() {\nmkfs.ext4 -q /dev/vg/$1\nmount /dev/vg/$1 /tmp/mnt\n\
    cp one /tmp/mnt/one\numount /tmp/mnt\n}";

#[test]
fn a_volume_over_two_disks_gets_the_bytes_of_an_image() {
    let script = "lvcreate -q -i 2 -L 32M -n new vg\nmkfs.ext4 -q /dev/vg/new";
    let Some(bed) = Bed::new(2, 40, script) else {
        return;
    };
    let s = &bed.s;
    let tree = s.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    for name in ["one", "two"] {
        std::fs::copy(s.join(name), tree.join(name)).expect("a copy");
    }
    s.ext4("root.img", Some(&tree), 24);
    let import = |more: &[&str]| {
        let mut tane = bed.tane("a b");
        let image = std::fs::File::open(s.join("root.img")).expect("opens");
        tane.args(["convert", "-", "a@vg/new"])
            .args(more)
            .stdin(image);
        tane
    };
    let before = bed.bytes();
    let said = text(&exit(&mut import(&[]), 1).stderr);
    assert!(said.contains("holds ext4: --force"), "{said}");
    assert!(bed.bytes() == before, "it was written");
    succeed(&mut import(&["--force"]));
    bed.check(&["new"], "");
}

#[test]
fn thin_volumes_and_their_snapshots() {
    let script =
        "lvcreate -q -L 40M -T vg/pool\nlvcreate -q -V 64M -T vg/pool -n thin\nfill thin\n\
        lvcreate -q -s vg/thin -n snap -kn\n\
        mount /dev/vg/thin /tmp/mnt\nrm /tmp/mnt/one\ncp two /tmp/mnt/two\numount /tmp/mnt\n";
    let Some(bed) = Bed::new(2, 96, script) else {
        return;
    };
    assert!(bed.read("a b", "thin", "two") == content(2, 2_500_000));
    exit(bed.tane("a b").args(["cat", "a@vg/thin:/one"]), 1);
    exit(bed.tane("a b").args(["cat", "a@vg/snap:/two"]), 1);
    // The volumes are shown on their pool.
    let (pool, thin) = (bed.volume("a b", "pool"), bed.volume("a b", "thin"));
    assert_eq!(thin["on"], serde_json::json!([pool["id"]]));
    assert_eq!(
        (&pool["note"], &pool["fs"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let check =
        "vgchange -q -an vg\nlvchange -q -y -ay vg/pool_tmeta\nthin_check /dev/vg/pool_tmeta\n\
        lvchange -q -an vg/pool_tmeta\n";
    bed.serves(&["snap"], check);
    // What was written to one is not in the other.
    let script = "vgchange -q -ay vg\nmount -o ro /dev/vg/thin /tmp/mnt\ncmp two /tmp/mnt/two\n\
        test ! -e /tmp/mnt/one\numount /tmp/mnt\n";
    bed.lvm(script);
}

#[test]
fn old_snapshots_keep_what_their_origin_had() {
    let script =
        "lvcreate -q -L 24M -n root vg\nfill root\nlvcreate -q -s -L 12M -n snap vg/root\n\
        mount /dev/vg/root /tmp/mnt\ncp two /tmp/mnt/one\numount /tmp/mnt\n";
    let Some(bed) = Bed::new(2, 64, script) else {
        return;
    };
    let before = bed.bytes();
    assert!(bed.read("a b", "root", "one") == content(2, 2_500_000));
    assert!(bed.read("a b", "snap", "one") == content(1, 3_000_000));
    assert!(bed.bytes() == before, "reading changed a disk");
    // Writing to the origin, over what only the origin has, copies it into the store.
    succeed(bed.tane("a b").args(["rm", "a@vg/root:/one"]));
    bed.s.write("three", &content(3, 5_000_000));
    succeed(bed.tane("a b").args(["cp", "three", "a@vg/root:/three"]));
    bed.write_two("a b", "snap");
    bed.check(
        &["snap"],
        "e2fsck -fn /dev/vg/root\nmount -o ro /dev/vg/root /tmp/mnt\ncmp three /tmp/mnt/three\n\
         test ! -e /tmp/mnt/one\numount /tmp/mnt\n",
    );
}

#[test]
fn an_origin_is_not_written_without_the_store_of_its_snapshot() {
    let script = "lvcreate -q -L 24M -n root vg /dev/ubda\nfill root\n\
        lvcreate -q -s -L 12M -n snap vg/root /dev/ubdb\n";
    let Some(bed) = Bed::new(2, 64, script) else {
        return;
    };
    assert!(bed.read("a", "root", "one") == content(1, 3_000_000));
    let said = bed.refuses("a", &["cp", "two"], "root");
    assert!(said.contains("its snapshot snap would be spoilt"), "{said}");
    assert!(said.contains("/dev/ubdb is missing (--with)"), "{said}");
}

const CACHED: &str = "lvcreate -q -L 32M -n root vg /dev/ubda\n";

#[test]
fn a_cache_that_has_what_its_origin_lacks() {
    // What was discarded before is written into the cache, and stays there if nothing
    // may be copied back.
    let script = format!(
        "{CACHED}lvcreate -q -y --type cache-pool -L 24M -n fast vg /dev/ubdb\n\
         lvconvert -q -y --type cache --cachemode writeback --cachepool vg/fast vg/root\n\
         dmsetup message vg-root 0 migration_threshold 0\nfill root\ntest $(lvs --noheadings -o cache_dirty_blocks vg/root) -gt 0\n"
    );
    let Some(bed) = Bed::new(2, 96, &script) else {
        return;
    };
    let said = bed.refuses("a", &["ls"], "root");
    assert!(said.contains("its cache has what it lacks"), "{said}");
    bed.serves(&["root"], "");
}

#[test]
fn a_cache_that_has_nothing_of_its_own_is_not_needed_to_read() {
    let script = format!(
        "{CACHED}fill root\nlvcreate -q -L 24M -n fast vg /dev/ubdb\n\
         lvconvert -q -y --type cache --cachemode writethrough --cachevol vg/fast vg/root\n"
    );
    let Some(bed) = Bed::new(2, 96, &script) else {
        return;
    };
    assert!(bed.read("a", "root", "one") == content(1, 3_000_000));
    let said = bed.refuses("a", &["cp", "two"], "root");
    assert!(said.contains("without its cache it is only read"), "{said}");
    bed.serves(&["root"], "");
}

#[test]
fn a_cache_of_writes() {
    let script = format!(
        "{CACHED}fill root\nlvcreate -q -L 24M -n fast vg /dev/ubdb\n\
         lvchange -q -an vg/root vg/fast\n\
         lvconvert -q -y --type writecache --cachevol vg/fast vg/root\nlvchange -q -ay vg/root\n\
         mount /dev/vg/root /tmp/mnt\ncp two /tmp/mnt/more\nsync\numount /tmp/mnt\n"
    );
    let Some(bed) = Bed::new(2, 96, &script) else {
        return;
    };
    assert!(bed.read("a b", "root", "more") == content(2, 2_500_000));
    let said = bed.refuses("a", &["ls"], "root");
    assert!(said.contains("/dev/ubdb is missing (--with)"), "{said}");
    bed.serves(&["root"], "");
}

#[test]
fn a_volume_that_lies_on_itself_is_refused() {
    let script =
        "lvcreate -q -L 40M -T vg/pool\nlvcreate -q -V 64M -T vg/pool -n thin\nfill thin\n\
        lvcreate -q -L 16M -n good vg\nfill good\n";
    let Some(bed) = Bed::new(1, 128, script) else {
        return;
    };
    let mut bytes = bed.s.read("a");
    let (from, to) = (b"thin_pool = \"pool\"", b"thin_pool = \"thin\"");
    let mut changed = 0;
    for at in 0..MIB as usize {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
            changed += 1;
        }
    }
    assert!(changed > 0);
    bed.s.write("a", &bytes);
    let said = bed.refuses("a", &["ls"], "thin");
    assert!(said.contains("its metadata is damaged"), "{said}");
    assert!(bed.read("a", "good", "one") == content(1, 3_000_000));
}

#[test]
fn several_volumes_without_a_selector_are_listed() {
    let script =
        "lvcreate -q -L 24M -n root vg\nfill root\nlvcreate -q -L 24M -n home vg\nfill home\n";
    let Some(bed) = Bed::new(1, 64, script) else {
        return;
    };
    for at in ["a", "a@vg/none"] {
        let said = text(&exit(bed.tane("a").args(["ls", at]), 3).stderr);
        for choice in ["a@vg/root:/  ext4", "a@vg/home:/  ext4"] {
            assert!(said.contains(choice), "{at}: {said}");
        }
    }
    // --fs is of the one that is chosen.
    let ls = ["ls", "a@vg/home:/"];
    succeed(bed.tane("a").arg("--fs=ext4").args(ls));
    exit(bed.tane("a").arg("--fs=xfs").args(ls), 3);
}
