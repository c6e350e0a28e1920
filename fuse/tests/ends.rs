//! What is left of a mount that a program showed to the host: nothing. Alone in its
//! program, since it counts threads and descriptors.

use std::fs;
use tane::{Kernel, MountOptions};
use tane_fuse::HostMountOptions;
use tane_test_support::{eventually, has_fuse, has_kernel};

fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("a thread").path().join("comm");
        fs::read_to_string(path).unwrap_or_default()
    };
    let serves = |name: &String| name.starts_with("fuse") || name.starts_with("watch");
    tasks.map(name).filter(serves).count()
}

fn devices() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("descriptors");
    let to = |entry: std::io::Result<fs::DirEntry>| {
        fs::read_link(entry.expect("a descriptor").path()).unwrap_or_default()
    };
    let is_device = |path: &std::path::PathBuf| path.as_os_str() == "/dev/fuse";
    open.map(to).filter(is_device).count()
}

#[test]
fn no_thread_and_no_descriptor_is_left_when_it_is_over() {
    if has_kernel(tane::default_image()).is_none() || !has_fuse() {
        return;
    }
    let point = std::env::temp_dir().join(format!("tane-fuse-ends-{}", std::process::id()));
    fs::create_dir(&point).expect("a directory");
    let kernel = Kernel::boot().expect("a kernel");
    let tmpfs = || {
        let mut options = MountOptions::new();
        options.fstype("tmpfs");
        options.mount(&kernel, "none").expect("a tmpfs")
    };
    for go in ["unmounted", "dropped", "refused"] {
        let options = HostMountOptions::new();
        match go {
            "refused" => {
                let file = point.join("file");
                fs::write(&file, "").expect("a file");
                options.mount(tmpfs(), &file).expect_err("no directory");
                fs::remove_file(&file).expect("removed");
            }
            _ => {
                let shown = options.mount(tmpfs(), &point).expect("it is mounted");
                fs::write(point.join("f"), "data").expect("a file");
                assert!(threads() > 0 && devices() > 0);
                if go == "unmounted" {
                    shown.unmount().expect("unmounted");
                    shown.wait().expect("a mount").unmount().expect("unmounted");
                } else {
                    drop(shown);
                }
            }
        }
        eventually(go, || threads() == 0 && devices() == 0);
    }
    fs::remove_dir(&point).expect("nothing is mounted there");
}
