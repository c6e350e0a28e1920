//! Using an image as a program would that trusts it.

use std::io::Write;
use tane::{Disk, Kernel, Mount, MountOptions, OpenOptions};

/// How many calls failed; an error if it cannot be mounted, or not unmounted.
pub fn exercise(
    kernel: &Kernel,
    disk: &Disk,
    options: &MountOptions,
    write: bool,
) -> tane::Result<u32> {
    let _ = disk.probe();
    let mut options = options.clone();
    let mount = options.read_only(!write).mount(kernel, disk.device())?;
    let mut errors = tane_hostile::walk::everything(&mount, 1500);
    errors += u32::from(mount.statfs().is_err());
    if write {
        errors += change(&mount);
    }
    mount.unmount()?;
    Ok(errors)
}

fn change(mount: &Mount) -> u32 {
    let mut errors = 0;
    if let Ok(mut file) = mount.create("created") {
        errors += u32::from(file.write_all(&[1; 100_000]).is_err());
        errors += u32::from(file.sync_all().is_err());
    }
    let append = OpenOptions::new().append(true).open(mount, "late");
    let append = append
        .map_err(drop)
        .and_then(|mut file| file.write_all(&[2; 3000]).map_err(drop));
    errors += u32::from(append.is_err());
    let attempts = [
        mount.create_dir("dir/created"),
        mount.write("dir/created/small", [3; 10]),
        mount.hard_link("holes", "dir/another"),
        mount.symlink("somewhere", "dir/link"),
        mount.rename("late", "dir/late"),
        mount.truncate("holes", 100_000),
        mount.set_xattr("dir", "user.more", &[1; 200], 0),
        mount.remove_file("dir/hard"),
        mount.remove_dir_all("dir/sub"),
        mount.sync(),
    ];
    errors + attempts.iter().filter(|a| a.is_err()).count() as u32
}
