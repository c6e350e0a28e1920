//! What is written into BitLocker volumes, by the library: dislocker and ntfs-3g read it.
//! The volumes are those that cryptsetup tests with (scripts/foreign-images), which Windows
//! made and whose file systems were taken out; another takes its place.

use crate::common::{blank, TempDir};
use crate::inside::{dev, run};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tane::{ImageOptions, Kernel, MountOptions, OpenOptions, ProtectorKind, ToBoot, VolumeKind};
use tane_test_support::{skip, tool};

/// As much as lies before the metadata of each of them.
const MIB: u64 = 32;

fn foreign(name: &str) -> Option<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/foreign/cryptsetup");
    let path = Path::new(dir).join(name);
    if !path.exists() {
        skip("no images of BitLocker: scripts/foreign-images fetches them");
        return None;
    }
    Some(path)
}

/// The bytes of an NTFS with a file in it.
fn ntfs(dir: &TempDir) -> Option<Vec<u8>> {
    let image = blank(dir, "ntfs", MIB);
    run(tool("ntfs-3g", "mkntfs")?.args(["-q", "-F"]).arg(&image));
    let hello = dir.path().join("hello");
    std::fs::write(&hello, "from outside").expect("a file");
    run(tool("ntfs-3g", "ntfscp")?
        .arg(&image)
        .arg(&hello)
        .arg("hello"));
    Some(std::fs::read(image).expect("the image"))
}

#[test]
fn what_is_written_into_a_volume_is_what_dislocker_reads() {
    for name in ["bitlk-aes-xts-128.img", "bitlk-aes-cbc-elephant-256.img"] {
        let (Some(from), Some(mut dislocker)) =
            (foreign(name), tool("dislocker", "dislocker-file"))
        else {
            return;
        };
        let Some(kernel) = crate::inside::image("default") else {
            return;
        };
        let dir = TempDir::new();
        let Some(fresh) = ntfs(&dir) else { return };
        let disk = dir.path().join("disk");
        run(Command::new("cp")
            .arg("--sparse=always")
            .args([&from, &disk]));

        let mut options = ImageOptions::new();
        options.write = true;
        options.secrets.push("anaconda".into());
        let boot = |_: &ToBoot| Kernel::builder().image(&kernel).boot();
        let image = options.open(&disk, boot).expect("the image");
        let [outside, inside] = image.volumes().expect("volumes").list() else {
            panic!("a volume in a disk");
        };
        let kinds: Vec<_> = outside.protectors.iter().map(|p| p.kind).collect();
        assert!(kinds.contains(&ProtectorKind::Password));
        assert!(kinds.contains(&ProtectorKind::RecoveryPassword));
        assert_eq!(inside.kind, VolumeKind::BitLocker);
        let device = inside.device.clone().expect("a device");
        let node = OpenOptions::new()
            .write(true)
            .open(&dev(image.kernel()), device.file_name().expect("a name"))
            .expect("the device");
        node.write_all_at(&fresh, 0).expect("writes");
        node.sync_all().expect("syncs");
        drop(node);

        let new: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        let mut options = MountOptions::new();
        let mount = options.fstype("ntfs3").mount(image.kernel(), &device);
        let mount = mount.unwrap_or_else(|e| panic!("{e}\n{}", image.kernel().dmesg()));
        assert_eq!(mount.read("hello").expect("reads"), b"from outside");
        mount.write("new", &new).expect("writes");
        mount.unmount().expect("unmounts");
        drop(image);

        let plain = dir.path().join("plain");
        dislocker.args(["-r", "-V"]).arg(&disk).arg("-uanaconda");
        run(dislocker.arg("--").arg(&plain));
        let plain_len = plain.metadata().expect("it is there").len();
        assert_eq!(plain_len, disk.metadata().expect("the disk").len());
        let file = File::options().write(true).open(&plain);
        let cut = file.and_then(|file| file.set_len(MIB << 20));
        cut.expect("as long as its file system");
        run(tool("ntfs-3g", "ntfsfix")
            .expect("it")
            .arg("-n")
            .arg(&plain));
        let mut ntfscat = tool("ntfs-3g", "ntfscat").expect("it");
        let read = ntfscat.arg(&plain).arg("new").output().expect("ntfscat");
        assert!(read.stdout == new, "{name}");
    }
}
