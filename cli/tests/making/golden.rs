//! Images are the same bytes on another machine and another day: those whose sums
//! were kept in cli/tests/golden, made of this very tree by the mkfs of Debian 12.
//! `TANE_GOLDEN=write` keeps what is made now.

use crate::common::make::{tree, EPOCH};
use crate::common::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tane_test_support::skip;

/// What the sums are of, in bytes.
const PIECE: usize = 256 << 10;

/// FNV-1a: the same wherever it is computed.
fn sum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Its size, and the sums of what is not all zeroes, by place.
fn sums(image: &Path) -> String {
    let bytes = std::fs::read(image).expect("the image");
    let mut text = format!("size {}\n", bytes.len());
    for (i, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|b| *b != 0) {
            writeln!(text, "{:#x} {:016x}", i * PIECE, sum(piece)).expect("text");
        }
    }
    text
}

/// The first line that a program says of itself.
fn version(program: &str, option: &str) -> Option<String> {
    let output = sbin(program).arg(option).output().ok()?;
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8_lossy(&all).into_owned();
    let known = |line: &&str| line.contains(|c: char| c.is_ascii_digit());
    all.lines().find(known).map(|line| line.trim().to_owned())
}

/// Of the kernels that make images, and whether the tiny one is there.
fn linux() -> String {
    let image = tane::default_image().expect("a kernel image");
    let manifest = std::fs::read_to_string(image.with_extension("manifest"));
    let manifest = manifest.unwrap_or_default();
    let release = manifest.lines().find(|line| line.starts_with("release"));
    let tiny = tane::tiny_image().map_or("without", |_| "with");
    format!("{}, {tiny} the tiny image", release.unwrap_or("unknown"))
}

fn kept(fs: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{fs}"))
}

#[track_caller]
fn is_what_was_kept(fs: &str, (mkfs, option): (&str, &str)) {
    if !has_kernel() {
        return;
    }
    let Some(version) = version(mkfs, option) else {
        return skip(format!("{mkfs} is not installed"));
    };
    let file = kept(fs);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let (about, known) = text.split_once("\n\n").unwrap_or_default();
    let (with, by) = about.split_once('\n').unwrap_or_default();
    let write = std::env::var_os("TANE_GOLDEN").is_some_and(|v| v == "write");
    if !write && with != version {
        return skip(format!(
            "the sums are those of {with}, and here is {version}"
        ));
    }
    let now = linux();
    // Another image of Linux has another allocator's choices.
    let tiny = |about: &str| about.contains(", with the tiny image");
    if !write && tiny(by) != tiny(&now) {
        return skip(format!("the sums are by {by}, and here is {now}"));
    }
    let scratch = Scratch::new();
    let dir = tree(&scratch, "tree", false);
    // Whatever the umask.
    succeed(scratch.tool("chmod").args(["-R", "u=rwX,go=rX"]).arg(&dir));
    succeed(&mut scratch.command("chmod", "1777 tree/dir3"));
    succeed(&mut scratch.command("chmod", "4755 tree/dir1/file8"));
    let args = "--size=320M --owner=0:0 tree image";
    let mut tane = scratch.tane();
    tane.args(["make-image", "--fs", fs, "--epoch", EPOCH]);
    succeed(tane.args(args.split(' ')));
    let start = &scratch.read("image")[..1 << 20];
    let host = std::fs::read("/proc/version").expect("the host's Linux");
    let host = host.trim_ascii_end();
    assert!(
        !start.windows(host.len()).any(|bytes| bytes == host),
        "{fs}: names the host's Linux"
    );
    let found = sums(&scratch.join("image"));
    if write {
        let text = format!("{version}\n{now}\n\n{found}");
        return std::fs::write(file, text).expect("keeps them");
    }
    let differ = |a: &str, b: &str| {
        let b: Vec<_> = b.lines().collect();
        let only = a.lines().filter(|line| !b.contains(line));
        only.map(str::to_owned).collect::<Vec<_>>().join(", ")
    };
    assert!(
        found == known,
        "{fs}: pieces of {PIECE} bytes have other sums\n  kept  {}\n  now   {}\nkept by  {by}\n\
         made by  {now}\nIf that is as it should be: TANE_GOLDEN=write keeps these",
        differ(known, &found),
        differ(&found, known),
    );
}

#[test]
fn an_ext4_is_the_one_that_was_kept() {
    is_what_was_kept("ext4", ("mke2fs", "-V"));
}

#[test]
fn an_xfs_is_the_one_that_was_kept() {
    is_what_was_kept("xfs", ("mkfs.xfs", "-V"));
}

#[test]
fn a_btrfs_is_the_one_that_was_kept() {
    is_what_was_kept("btrfs", ("mkfs.btrfs", "-V"));
}

#[test]
fn an_f2fs_is_the_one_that_was_kept() {
    is_what_was_kept("f2fs", ("mkfs.f2fs", "-V"));
}
