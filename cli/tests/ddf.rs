//! Sets of RAID controllers (DDF), which mdadm makes on another Linux: they are read here,
//! also short of disks.

mod common;

use common::uml::Uml;
use common::*;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A volume is written once mdmon(8), or somebody in its place, has let it.
const READY: &str = "ready() {
	state=/sys/block/${1#/dev/}/md/array_state
	for try in 1 2 3 4 5 6 7 8 9 10; do
		echo active >$state && break || sleep 1
	done
}
";

/// By then mdmon(8) has written what there is to know.
const STOP: &str = "sync
for try in 1 2 3 4 5 6 7 8 9 10; do
	mdadm --stop $volumes && break
	sleep 1
done
sync
";

fn content(seed: u32, len: u32) -> Vec<u8> {
    let words = (0..len / 4).map(|i| (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b1));
    words.flat_map(u32::to_le_bytes).collect()
}

/// Disks, after what the script did to them on another Linux.
fn disks(s: &Scratch, names: &[&str], script: &str) -> Option<()> {
    let uml = Uml::find()?;
    tane_test_support::tool("mdadm", "mdadm")?;
    if !has_kernel() {
        return None;
    }
    let disks = names.iter().map(|name| {
        let path = s.join(name);
        let file = std::fs::File::create(&path).expect("a disk");
        file.set_len(128 * MIB).expect("its size");
        path
    });
    let disks: Vec<PathBuf> = disks.collect();
    let nodes = names.iter().map(|name| format!("/dev/ubd{name}"));
    let nodes = nodes.collect::<Vec<_>>().join(" ");
    s.write("one", &content(1, 3_000_000));
    s.write("two", &content(2, 2_000_000));
    let count = names.len();
    let container = format!(
        "mkdir -p /run/mdadm /dev/md\nmdadm -C /dev/md127 -e ddf -l container -n {count} {nodes}\n"
    );
    uml.run(s, &disks, &format!("{READY}{container}{script}{STOP}"));
    Some(())
}

fn tane(s: &Scratch, with: &[&str]) -> std::process::Command {
    let mut tane = s.tane();
    tane.args(with.iter().map(|disk| format!("--with={disk}")));
    tane
}

fn one(s: &Scratch, with: &[&str], first: &str, label: &str) -> Vec<u8> {
    let at = format!("{first}@label={label}:/one");
    succeed(tane(s, with).args(["cat", &at])).stdout
}

#[test]
#[ignore = "mdmon(8) sometimes does not start on the other Linux, which then waits for it"]
fn volumes_of_every_level_are_read_also_short_of_disks() {
    let s = Scratch::new();
    let script = "volumes=
make() {
	name=$1; node=$2; shift 2
	mdadm -C $node --run --assume-clean --name=$name -z 8M \"$@\" /dev/md127
	[ $name = nought ] || ready $node
	mke2fs -q -t ext4 -L $name $node
	mount $node /tmp/mnt
	cp one /tmp/mnt/one
	umount /tmp/mnt
	volumes=\"$volumes $node\"
}
make five /dev/md1 -l5 -n3 --chunk=64
make nought /dev/md2 -l0 -n2 --chunk=64
make copies /dev/md3 -l1 -n2
make ten /dev/md4 -l10 -n4 --chunk=64
make six /dev/md6 -l6 -n4 --chunk=64
make left /dev/md7 -l5 -n3 --chunk=32 --layout=la
";
    let Some(()) = disks(&s, &["a", "b", "c", "d"], script) else {
        return;
    };
    let before = ["a", "b", "c", "d"].map(|disk| s.read(disk));
    let wanted = s.read("one");
    let all = ["b", "c", "d"];
    for volume in ["five", "nought", "copies", "ten", "six", "left"] {
        assert!(one(&s, &all, "a", volume) == wanted, "{volume}");
    }
    // Each disk but one: whoever has no part of a volume is not missed.
    for (first, with) in [("b", ["c", "d"]), ("a", ["b", "d"]), ("a", ["b", "c"])] {
        for volume in ["five", "copies", "ten", "six", "left"] {
            assert!(one(&s, &with, first, volume) == wanted, "{volume}");
        }
    }
    let short = tane(&s, &["b"]).args(["inspect", "--json", "d"]).output();
    let found: serde_json::Value =
        serde_json::from_slice(&short.expect("runs").stdout).expect("JSON");
    schema::assert_inspected(&found);
    let volumes = found["volumes"].as_array().expect("volumes");
    let six = volumes.iter().find(|v| v["label"] == "six").expect("six");
    assert_eq!(six["kind"], "raid");
    assert_eq!(six["note"], "works without 2 of its 4 disks");
    let disk = volumes.iter().find(|v| v["id"] == 0).expect("the disk");
    assert_eq!(disk["fs"], "ddf_raid_member");
    let note = disk["note"].as_str().expect("a note");
    assert!(note.contains("--with"), "{note}");
    let said = exit(tane(&s, &all).args(["cp", "two", "a@label=five:/two"]), 3);
    assert!(text(&said.stderr).contains("only read"), "{said:?}");
    let after = ["a", "b", "c", "d"].map(|disk| s.read(disk));
    assert!(before == after, "reading writes nothing");
}
