//! Overlays of images: what is below stays as it is, what is above is sound.

use crate::common::{blank, TempDir};
use crate::inside::{complaints, default_kernel, run};
use crate::roundtrip::keeps::{Keeps, ALL};
use crate::roundtrip::manifest::{assert_same, manifest, Manifest};
use crate::roundtrip::{as_we_may, check, rich, tmpfs, TOP};
use std::path::{Path, PathBuf};
use tane::{DiskOptions, ImageOptions, Kernel, Mount, MountOptions};
use tane_test_support::tool;

/// A link that is written to through an overlay is a file of its own afterwards.
const KEEPS: Keeps = Keeps {
    times: 1_000_000_000,
    hard_links: false,
    acls: false,
    holes: false,
    ..ALL
};

fn place(mount: &Mount, name: &str) -> String {
    let path = mount.mount_point().join(name);
    path.to_str().expect("a path").to_owned()
}

struct Images {
    squashfs: PathBuf,
    erofs: PathBuf,
    ext4: PathBuf,
}

impl Images {
    /// The rich tree in one, something below it in another, and an empty one.
    fn new(dir: &TempDir, keeps: &Keeps) -> Option<Images> {
        let [rich, plain] = ["rich", "plain"].map(|name| dir.path().join(name));
        let host = Kernel::host();
        for path in [&rich, &plain] {
            std::fs::create_dir(path).expect("a directory");
        }
        rich::fill(&host.tree(&rich).expect("the directory"), keeps);
        std::fs::create_dir(plain.join("below")).expect("a directory");
        std::fs::write(plain.join("below/f"), "from erofs").expect("a file");
        let [squashfs, erofs] = ["squashfs", "erofs"].map(|name| dir.path().join(name));
        let mut mksquashfs = tool("squashfs-tools", "mksquashfs")?;
        let quiet = ["-noappend", "-quiet", "-no-progress"];
        run(mksquashfs.arg(&rich).arg(&squashfs).args(quiet));
        run(tool("erofs-utils", "mkfs.erofs")?.arg(&erofs).arg(&plain));
        // Attributes of a file, and what overlayfs adds, are to fit into a block.
        let ext4 = blank(dir, "ext4", 64);
        let mut mkfs = tool("e2fsprogs", "mkfs.ext4")?;
        run(mkfs.args(["-q", "-F", "-b", "4096"]).arg(&ext4));
        Some(Images {
            squashfs,
            erofs,
            ext4,
        })
    }

    fn overlaid<T>(&self, kernel: &Kernel, work: impl Fn(&Mount) -> T) -> T {
        let lower = [("squashfs", &self.squashfs), ("erofs", &self.erofs)];
        let lower = lower.map(|(fstype, image)| {
            let mut options = DiskOptions::new();
            let disk = kernel.open_disk(image, options.read_only(true));
            let disk = disk.expect("opens");
            let mut options = MountOptions::new();
            options.fstype(fstype).read_only(true);
            let mount = options.mount(kernel, disk.device()).expect("mounts");
            (mount, disk)
        });
        let disk = kernel.open_disk(&self.ext4, &DiskOptions::new());
        let disk = disk.expect("opens");
        let upper = MountOptions::new().mount(kernel, disk.device());
        let upper = upper.expect("mounts");
        for name in ["upper", "work"] {
            if !upper.exists(name).expect("looks") {
                upper.create_dir(name).expect("a directory");
            }
        }
        let below: Vec<_> = lower.iter().map(|(mount, _)| place(mount, "")).collect();
        let mut options = MountOptions::new();
        options
            .fstype("overlay")
            .option("lowerdir", below.join(":"))
            .option("upperdir", place(&upper, "upper"))
            .option("workdir", place(&upper, "work"))
            .option("redirect_dir", "on")
            .option("metacopy", "on");
        let overlay = options.mount(kernel, "overlay");
        let overlay = overlay.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
        let result = work(&overlay);
        overlay.unmount().expect("unmounts");
        upper.unmount().expect("unmounts");
        disk.remove().expect("goes away");
        for (mount, disk) in lower {
            mount.unmount().expect("unmounts");
            disk.remove().expect("goes away");
        }
        result
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the image")
}

#[test]
fn of_squashfs_and_erofs_below_ext4() {
    let keeps = as_we_may(KEEPS);
    let dir = TempDir::new();
    let Some(images) = Images::new(&dir, &keeps) else {
        return;
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    let below = [&images.squashfs, &images.erofs].map(|image| bytes(image));
    let reference = tmpfs(&kernel);
    rich::fill(&reference, &keeps);
    let seen = |overlay: &Mount| -> Manifest {
        let text = overlay.read_to_string("below/f");
        assert_eq!(text.expect("reads"), "from erofs");
        manifest(overlay, TOP, &keeps)
    };
    let wanted = manifest(&reference, TOP, &keeps);
    assert_same(&wanted, &images.overlaid(&kernel, seen));

    rich::change(&reference, &keeps);
    images.overlaid(&kernel, |overlay| rich::change(overlay, &keeps));
    check(&images.ext4, &[("e2fsprogs", "e2fsck", &["-fn"])]);
    let wanted = manifest(&reference, TOP, &keeps);
    assert_same(&wanted, &images.overlaid(&kernel, seen));
    assert!([&images.squashfs, &images.erofs].map(|image| bytes(image)) == below);
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}
#[test]
fn of_two_tmpfs() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (lower, upper) = (tmpfs(&kernel), tmpfs(&kernel));
    lower.write("changed", "below").expect("writes");
    lower.write("removed", "below").expect("writes");
    lower.write("kept", "below").expect("writes");
    upper.create_dir("upper").expect("a directory");
    upper.create_dir("work").expect("a directory");
    let place = |mount: &Mount, name: &str| {
        let path = mount.mount_point().join(name);
        path.to_str().expect("a path").to_owned()
    };
    let mut options = MountOptions::new();
    options
        .fstype("overlay")
        .option("lowerdir", place(&lower, ""))
        .option("upperdir", place(&upper, "upper"))
        .option("workdir", place(&upper, "work"));
    let overlay = options.mount(&kernel, "overlay");
    let overlay = overlay.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    overlay.write("changed", "above").expect("copies up");
    overlay.remove_file("removed").expect("whites out");
    assert_eq!(overlay.read("changed").expect("reads"), b"above");
    assert_eq!(overlay.read("kept").expect("reads"), b"below");
    assert!(!overlay.exists("removed").expect("looks"));
    overlay.unmount().expect("unmounts");
    assert_eq!(lower.read("changed").expect("reads"), b"below");
    assert_eq!(lower.read("removed").expect("reads"), b"below");
    assert_eq!(upper.read("upper/changed").expect("reads"), b"above");
    assert!(!upper.exists("upper/kept").expect("looks"));
}

#[test]
fn an_image_is_seen_above_those_that_were_named_with_it() {
    let dir = TempDir::new();
    let Some(images) = Images::new(&dir, &KEEPS) else {
        return;
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut options = ImageOptions::new();
    options.lower.push((images.squashfs.clone(), None));
    let image = options.open(&images.erofs, |_| Ok(kernel.clone()));
    let image = image.expect("an image");
    let seen = image.mount(None, &MountOptions::new()).expect("a mount");
    assert_eq!(seen.read("below/f").expect("reads"), b"from erofs");
    let rich = images.overlaid(&kernel, |overlay| manifest(overlay, TOP, &KEEPS));
    assert_same(&rich, &manifest(&seen, TOP, &KEEPS));
    options.write = true;
    let error = options.open(&images.ext4, |_| Ok(kernel.clone()));
    assert_eq!(error.expect_err("only read").errno(), libc::EINVAL);
}
