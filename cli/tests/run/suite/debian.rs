//! A root with packages of Debian's, as they are installed here.

use super::users;
use crate::common::*;
use std::path::Path;

/// What shells' scripts take for granted, and its libraries.
const BASE: &[&str] = &[
    "base-files",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libacl1",
    "libattr1",
    "libc-bin",
    "libc6",
    "libcap-ng0",
    "libcrypt1",
    "libgcc-s1",
    "libgmp10",
    "libpcre2-8-0",
    "libselinux1",
    "libsmartcols1",
    "libtinfo6",
    "login",
    "mawk",
    "ncurses-base",
    "passwd",
    "procps",
    "sed",
    "tar",
    "util-linux",
    "util-linux-extra",
    "zlib1g",
];

/// Takes what dpkg(1) says that packages have, without what is only to be read.
const COPY: &str = r#"set -eu
root=$1; shift
dpkg-query -L "$@" | sort -u | grep -Ev '^/usr/share/(doc|man|info|locale|lintian|bash-completion)/' |
while read -r path; do
	if [ -L "$path" ] || [ ! -d "$path" ]; then echo "$path"; fi
done >"$root.list"
tar -C / --no-recursion --ignore-failed-read -cf - -T "$root.list" 2>/dev/null | tar -xf - -C "$root"
"#;

/// Makes the tree `root` with Debian's base and `packages`; or says what is missing.
pub fn root(s: &Scratch, packages: &[&str]) -> Result<(), String> {
    if !Path::new("/var/lib/dpkg/status").is_file() {
        return Err("this is not Debian, whose programs the lists are of".into());
    }
    let all = || BASE.iter().chain(packages).copied();
    let missing: Vec<_> = all().filter(|package| !is_installed(package)).collect();
    if !missing.is_empty() {
        let missing = missing.join(" ");
        return Err(format!("not installed: apt-get install {missing}"));
    }
    for dir in ["bin", "lib", "sbin"] {
        std::fs::create_dir_all(s.join(&format!("root/usr/{dir}"))).expect("a directory");
        let link = s.join(&format!("root/{dir}"));
        std::os::unix::fs::symlink(format!("usr/{dir}"), link).expect("a link");
    }
    std::fs::create_dir_all(s.join("root/usr/lib64")).expect("a directory");
    std::os::unix::fs::symlink("usr/lib64", s.join("root/lib64")).expect("a link");
    for dir in [
        "dev", "etc", "home/ann", "proc", "root", "suite", "sys", "tmp",
    ] {
        std::fs::create_dir_all(s.join(&format!("root/{dir}"))).expect("a directory");
    }
    let mut copy = s.tool("sh");
    succeed(copy.args(["-c", COPY, "sh", "root"]).args(all()));
    for (link, to) in [("sh", "dash"), ("awk", "mawk")] {
        let link = s.join(&format!("root/usr/bin/{link}"));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(to, link).expect("a link");
    }
    s.write("root/usr/bin/busybox", &run::busybox());
    s.make_executable("root/usr/bin/busybox");
    users(s);
    s.write("root/etc/hosts", b"127.0.0.1 localhost\n");
    Ok(())
}

/// Why a suite's list is none of the program that is installed: it was made for one release
/// of the program, that of Debian 12, and other ones have other tests and other mistakes.
pub fn other_version(suite: &str, package: &str, release: &str) -> Option<String> {
    let mut query = std::process::Command::new("dpkg-query");
    let said = query.args(["-W", "-f=${Version}", package]).output().ok()?;
    let here = text(&said.stdout);
    differs(&here, release).then(|| {
        format!("run/suites/{suite}.expected is of {package} {release}, and here is {here}")
    })
}

/// Of a version with an epoch before and more behind; none is not another one.
pub fn differs(version: &str, release: &str) -> bool {
    let own = version.split_once(':').map_or(version, |(_, own)| own);
    let rest = own.strip_prefix(release);
    !own.is_empty() && !rest.is_some_and(|rest| rest.starts_with(['.', '-']))
}

fn is_installed(package: &str) -> bool {
    let mut query = std::process::Command::new("dpkg-query");
    let said = query.args(["-W", "-f=${db:Status-Status}", package]);
    said.output().is_ok_and(|done| done.stdout == b"installed")
}
