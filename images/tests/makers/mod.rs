//! Images that qemu-img cannot make: by the programs that do, and DMG, for which
//! there is none but Apple's, by a writer of ours.
#![allow(dead_code)]

pub mod dmg;

use crate::qemu::Folder;
use std::process::Command;
use tane_test_support::tool;

/// Run a program in the folder that has to succeed.
fn run(folder: &Folder, mut command: Command, line: &str) {
    let done = command
        .args(line.split(' '))
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

/// `disk.raw` as image.E01 and so on, by these options. None: it cannot be made here.
#[track_caller]
pub fn ewf(folder: &Folder, words: &str) -> Option<()> {
    let ewfacquire = tool("ewf-tools", "ewfacquire")?;
    let line = format!("-q -u -w {words} -t image disk.raw");
    run(folder, ewfacquire, &line);
    Some(())
}

/// What ewfexport reads in the segments that the first one leads to.
#[track_caller]
pub fn ewf_reads(folder: &Folder, first: &str) -> Option<Vec<u8>> {
    let ewfexport = tool("ewf-tools", "ewfexport")?;
    run(folder, ewfexport, &format!("-q -u -t export {first}"));
    Some(std::fs::read(folder.at("export.raw")).unwrap())
}

/// `disk.raw` as `image`, which Android takes.
#[track_caller]
pub fn android(folder: &Folder, block: u32) -> Option<()> {
    let img2simg = tool("android-sdk-libsparse-utils", "img2simg")?;
    run(folder, img2simg, &format!("disk.raw image {block}"));
    Some(())
}

#[track_caller]
pub fn android_reads(folder: &Folder) -> Option<Vec<u8>> {
    let simg2img = tool("android-sdk-libsparse-utils", "simg2img")?;
    run(folder, simg2img, "image export.raw");
    Some(std::fs::read(folder.at("export.raw")).unwrap())
}

/// The disk that 7-Zip finds in an image that it takes for this.
#[track_caller]
pub fn seven_zip_reads(folder: &Folder, format: &str, image: &str) -> Option<Vec<u8>> {
    let mut seven_zip = tool("7zip", "7z")?;
    let words = ["x", &format!("-t{format}"), "-so", image];
    let done = seven_zip.args(words).current_dir(&folder.0);
    let done = done.output().unwrap();
    assert!(done.status.success(), "{image}: {done:?}");
    Some(done.stdout)
}
