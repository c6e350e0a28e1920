//! pjdfstest, which asks file systems for what POSIX says of them: permissions, times, errors.
//! A unit is a file system.

use super::{foreign, image, runs, users, Extent, Outcome, Suite};
use crate::common::run::{add_dynamic, add_libraries};
use crate::common::*;
use std::collections::BTreeSet;

pub const SUITE: Suite = Suite {
    name: "pjdfstest",
    about: "pjdfstest 0.2.2 (the crate), on file systems in files and tmpfs",
    make,
    part: PART,
    other_version: || None,
    kernel: "default",
    read,
};

const PART: &[&str] = &["ext4", "xfs", "btrfs", "tmpfs"];

/// Those of images, with what makes one.
const IMAGES: &[(&str, &str)] = &[
    ("ext4", "mke2fs -q -t ext4 -b 4096"),
    ("xfs", "mkfs.xfs -q"),
    ("btrfs", "mkfs.btrfs -q"),
    ("f2fs", "mkfs.f2fs -q"),
];
/// Enough for each; the files have holes.
const SIZE: &str = "512M";

/// Users as the root's /etc/passwd has them; times that are apart by more than a tick.
const CONFIGURATION: &str = r#"[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = REMOUNTS
[dummy_auth]
entries = [["bin", "bin"], ["ann", "ann"]]
"#;

/// What mounts file systems read-only is first: a later test leaves files open.
const RUN: &str = r#"#!/bin/sh
mkdir /tmp/at /tmp/second || exit 2
case $1 in
tmpfs) mount -t tmpfs tmpfs /tmp/at ;;
*) mount -t "$1" -o loop "/suite/$1.img" /tmp/at ;;
esac || exit 2
mount -t tmpfs tmpfs /tmp/second && cd / || exit 2
chmod 755 /tmp/at /tmp/second
code=0
for only in '::erofs' ''; do
	/suite/pjdfstest -c "/suite/$only.toml" -p /tmp/at -s /tmp/second $only </dev/null 2>&1 || code=$?
done
umount /tmp/at
exit $code
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let program = "bin/pjdfstest";
    let program = foreign("pjdfstest", program)?.join(program);
    let program = program.to_str().expect("UTF-8");
    run::root(s, "root");
    run::applets(s, "root");
    succeed(
        s.tool("install")
            .args(["-D", program, "root/suite/pjdfstest"]),
    );
    add_libraries(s, "root", program);
    // A copy of it is executed, which BusyBox's does not survive.
    std::fs::remove_file(s.join("root/bin/sleep")).expect("a link");
    add_dynamic(s, "root", "/usr/bin/sleep");
    std::os::unix::fs::symlink("/usr/bin/sleep", s.join("root/bin/sleep")).expect("a link");
    let mut units = Vec::new();
    let is_chosen = |name: &str| extent == Extent::All || PART.contains(&name);
    for (name, make) in IMAGES.iter().filter(|(name, _)| is_chosen(name)) {
        let file = format!("root/suite/{name}.img");
        succeed(s.tool("truncate").args(["-s", SIZE, &file]));
        let mut words = make.split(' ');
        let mut mkfs = s.tool(words.next().expect("a program"));
        mkfs.args(words).arg(&file);
        let made = mkfs.output().map_err(|e| format!("{make}: {e}"))?;
        assert!(made.status.success(), "{make}: {}", text(&made.stderr));
        units.push((*name).to_owned());
    }
    units.push("tmpfs".to_owned());
    for (name, remounts) in [("::erofs", "true"), ("", "false")] {
        let said = CONFIGURATION.replace("REMOUNTS", remounts);
        s.write(&format!("root/suite/{name}.toml"), said.as_bytes());
    }
    runs(s, RUN);
    users(s);
    image(s);
    Ok(units)
}

/// Each name counts once: those that the first run has are skipped by the second, and what
/// failed in one of them has failed.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut passed, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [name, "ok"] if name.contains("::") => _ = passed.insert(name),
            [name, "skipped"] if name.contains("::") => _ = skipped.insert(name),
            [name, "FAILED"] => {
                let why = lines.peek().map_or("", |line| line.trim());
                outcome.failed.insert(name.to_owned(), why.to_owned());
            }
            _ => {}
        }
    }
    passed.retain(|name| !outcome.failed.contains_key(*name));
    skipped.retain(|name| !outcome.failed.contains_key(*name) && !passed.contains(name));
    outcome.passed = passed.len();
    outcome.skipped = skipped.len();
    outcome
}
