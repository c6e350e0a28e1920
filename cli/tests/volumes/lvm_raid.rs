//! LVM2's RAID volumes, also short of disks, and what lies on them.

use crate::lvm::{content, Bed};

const RAIDS: &str = "r0 r1 r4 r5 r6 r10";

/// A volume of each level on five disks, synchronised.
fn raids() -> Option<Bed> {
    let script = "make() {\nlvcreate -q -y --type $2 -L 18M -n $1 $3 vg\nfill $1\n}\n\
        make r0 raid0 -i3\nmake r1 raid1 -m2\nmake r4 raid4 -i2\nmake r5 raid5 -i3\n\
        make r6 raid6 -i3\nmake r10 raid10 '-i2 -m1'\n\
        for i in r1 r4 r5 r6 r10; do\n\
        until lvs --noheadings -o sync_percent vg/$i | grep -q 100.00; do sleep 1; done\ndone\n";
    Bed::new(5, 128, script)
}

/// sh: LVM reads all of every member, and finds them equal.
const SCRUB: &str = "for i in r1 r4 r5 r6 r10; do\n\
    until lvs --noheadings -o sync_percent vg/$i | grep -q 100.00; do sleep 1; done\n\
    lvchange --syncaction check vg/$i\n\
    until lvs --noheadings -o raid_sync_action vg/$i | grep -q idle; do sleep 1; done\n\
    test $(lvs --noheadings -o raid_mismatch_count vg/$i) = 0\ndone\n";

#[test]
fn raid_volumes_of_every_level() {
    let Some(bed) = raids() else { return };
    let names: Vec<_> = RAIDS.split(' ').collect();
    bed.serves(&names, SCRUB);
}

#[test]
fn raid_volumes_that_lack_disks() {
    let Some(bed) = raids() else { return };
    for volume in ["r1", "r4", "r5", "r6", "r10"] {
        assert!(
            bed.read("a c d e", volume, "one") == content(1, 3_000_000),
            "{volume}"
        );
    }
    let note = bed.volume("a c d e", "r5")["note"].clone();
    let note = note.as_str().unwrap_or_default();
    assert!(note.contains("works without 1 of its 4 disks"), "{note}");
    assert!(note.contains("/dev/ubdb is missing (--with)"), "{note}");
    // Two that are missing are too many for some.
    for volume in ["r1", "r6"] {
        assert!(
            bed.read("a d e", volume, "one") == content(1, 3_000_000),
            "{volume}"
        );
    }
    let said = bed.refuses("a d e", &["ls"], "r5");
    assert!(said.contains("is missing (--with)"), "{said}");
    let said = bed.refuses("a c d e", &["ls"], "r0");
    assert!(said.contains("is missing (--with)"), "{said}");
    // What is written meanwhile is there when the disk is back, and LVM makes all equal.
    for volume in ["r1", "r5", "r6", "r10"] {
        bed.write_two("a c d e", volume);
    }
    let others: String = ["r1", "r5", "r6", "r10"].join(" ");
    let script = SCRUB.replace("r1 r4 r5 r6 r10", &others);
    bed.check(&["r1", "r5", "r6", "r10"], &script);
    // And the disk that was away is as good as any other now.
    assert!(bed.read("a b", "r1", "two") == content(2, 2_500_000));
}

#[test]
fn raid_volumes_whose_members_are_not_yet_equal() {
    // LVM is stopped early in copying the first half to the second.
    let script = "lvcreate -q -L 64M -n up vg /dev/ubda\nfill up\n\
        echo 20 >/proc/sys/dev/raid/speed_limit_min\n\
        echo 20 >/proc/sys/dev/raid/speed_limit_max\n\
        lvconvert -q -y --type raid1 -m1 vg/up /dev/ubdb\n\
        lvs --noheadings -o sync_percent vg/up | grep -v 100.00\n";
    let Some(bed) = Bed::new(2, 96, script) else {
        return;
    };
    let before = bed.bytes();
    assert!(bed.read("a b", "up", "one") == content(1, 3_000_000));
    assert!(bed.bytes() == before, "reading changed a disk");
    let note = bed.volume("a b", "up")["note"].clone();
    let note = note.as_str().unwrap_or_default();
    assert!(note.contains("works without 1 of its 2 disks"), "{note}");
    let said = bed.refuses("b", &["ls"], "up");
    assert!(said.contains("/dev/ubda is missing (--with)"), "{said}");
    bed.write_two("a b", "up");
    bed.check(&["up"], "");
}

#[test]
fn mirrors_with_a_log() {
    let script =
        "lvcreate -q -y --type mirror -m1 -L 24M -n mirror vg /dev/ubda /dev/ubdb /dev/ubdc\n\
        fill mirror\n\
        until lvs --noheadings -o copy_percent vg/mirror | grep -q 100.00; do sleep 1; done\n";
    let Some(bed) = Bed::new(3, 64, script) else {
        return;
    };
    bed.serves(&["mirror"], "");
    // The second half with the log, which says that it has all.
    assert!(bed.read("b c", "mirror", "two") == content(2, 2_500_000));
    let note = bed.volume("b c", "mirror")["note"].clone();
    let note = note.as_str().unwrap_or_default();
    assert!(note.contains("works without its first half"), "{note}");
    let said = bed.refuses("b c", &["cp", "two"], "mirror");
    assert!(said.contains("only read"), "{said}");
    let said = bed.refuses("b", &["ls"], "mirror");
    assert!(said.contains("may be older"), "{said}");
}

#[test]
fn raid_with_checksums_of_its_sectors() {
    // In one step, the other Linux (6.1) sometimes waits for itself for ever: LVM takes the
    // volume away from it while it brings the halves together.
    let script = "lvcreate -q -y --type raid1 -m1 -L 24M -n sums vg\n\
        until lvs --noheadings -o sync_percent vg/sums | grep -q 100.00; do sleep 1; done\n\
        lvconvert -q -y --raidintegrity y vg/sums\nfill sums\n";
    let Some(bed) = Bed::new(2, 96, script) else {
        return;
    };
    bed.serves(&["sums"], "");
}

#[test]
fn a_thin_pool_on_raid_that_lacks_a_disk() {
    let script = "lvcreate -q -y --type raid1 -m1 -L 40M -n pool vg\n\
        lvcreate -q -L 4M -n meta vg /dev/ubdb\n\
        lvconvert -q -y --type thin-pool --poolmetadata vg/meta vg/pool\n\
        lvcreate -q -V 64M -T vg/pool -n thin\nfill thin\n";
    let Some(bed) = Bed::new(2, 96, script) else {
        return;
    };
    assert!(bed.read("b", "thin", "one") == content(1, 3_000_000));
    let note = bed.volume("b", "thin")["note"].clone();
    let note = note.as_str().unwrap_or_default();
    assert!(note.contains("works without 1 of its 2 disks"), "{note}");
    bed.serves(&["thin"], "");
}
