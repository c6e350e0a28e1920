//! Promises of Mount and MountOptions that need no disk.

use crate::scratch::{boot, errno, names, scratch, tmpfs_on};
use tane::MountOptions;

#[test]
fn an_unmounted_tmpfs_is_gone() {
    let s = scratch();
    let (kernel, place) = (s.kernel.clone(), s.mount_point().to_owned());
    s.mount.unmount().unwrap();
    assert!(!kernel.tree("/").unwrap().exists(place).unwrap());
}

#[test]
fn dropping_a_mount_unmounts_it() {
    let kernel = boot();
    let mounts = || {
        let proc = kernel.tree("/proc").unwrap();
        let list = proc.read_to_string("self/mounts").unwrap();
        list.lines().count()
    };
    let before = mounts();
    let mount = tmpfs_on(&kernel);
    assert_eq!(mounts(), before + 1);
    drop(mount);
    assert_eq!(mounts(), before);
}

#[test]
fn unmounting_with_an_open_file_is_ebusy_and_the_file_lives_on() {
    let s = scratch();
    s.write("file", "data").unwrap();
    let file = s.open("file").unwrap();
    assert_eq!(errno(s.mount.unmount()), libc::EBUSY);
    let mut data = [0; 4];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"data");
}

#[test]
fn several_mounts_of_a_kernel_are_apart() {
    let kernel = boot();
    let (a, b) = (tmpfs_on(&kernel), tmpfs_on(&kernel));
    a.write("file", "a").unwrap();
    assert_ne!(a.mount_point(), b.mount_point());
    assert!(names(b.read_dir("/").unwrap()).is_empty());
}

#[test]
fn an_unknown_type_is_enodev_and_named() {
    let mut options = MountOptions::new();
    let mounted = options.fstype("nosuchfs").mount(&boot(), "none");
    let error = mounted.unwrap_err();
    assert_eq!(error.errno(), libc::ENODEV);
    assert!(error.to_string().contains("nosuchfs"), "{error}");
}

#[test]
fn a_missing_device_is_enoent() {
    let mounted = MountOptions::new().mount(&boot(), "/dev/nosuchdisk");
    assert_eq!(errno(mounted), libc::ENOENT);
}

#[test]
fn a_refused_option_is_named_in_the_error() {
    let mut options = MountOptions::new();
    options.fstype("tmpfs").options("nosuchoption=1");
    let error = options.mount(&boot(), "tmpfs").unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("nosuchoption"), "{error}");
}

#[test]
fn options_reach_the_file_system() {
    let mut options = MountOptions::new();
    options.fstype("tmpfs").options("size=1m,mode=0700");
    let mount = options.mount(&boot(), "tmpfs").unwrap();
    assert_eq!(mount.statfs().unwrap().total, 1 << 20);
    assert_eq!(mount.metadata("/").unwrap().permissions(), 0o700);
}

#[test]
fn a_full_file_system_is_enospc() {
    let mut options = MountOptions::new();
    options.fstype("tmpfs").options("size=1m");
    let mount = options.mount(&boot(), "tmpfs").unwrap();
    let written = mount.write("file", vec![1; 2 << 20]);
    assert_eq!(errno(written), libc::ENOSPC);
}

#[test]
fn a_read_only_mount_refuses_writes() {
    let mut options = MountOptions::new();
    options.fstype("tmpfs").read_only(true);
    let mount = options.mount(&boot(), "tmpfs").unwrap();
    assert!(mount.statfs().unwrap().read_only);
    assert_eq!(errno(mount.write("file", "x")), libc::EROFS);
    mount.unmount().unwrap();
}

#[test]
fn a_device_node_of_an_image_cannot_be_opened() {
    let s = scratch();
    let null = libc::makedev(1, 3);
    s.mknod("null", libc::S_IFCHR | 0o666, null).unwrap();
    assert_eq!(errno(s.open("null")), libc::EACCES);
}

#[test]
fn a_device_node_can_be_opened_if_devices_are_asked_for() {
    let mut options = MountOptions::new();
    options.fstype("tmpfs").devices(true);
    let mount = options.mount(&boot(), "tmpfs").unwrap();
    let null = libc::makedev(1, 3);
    mount.mknod("null", libc::S_IFCHR | 0o666, null).unwrap();
    assert_eq!(mount.read("null").unwrap(), b"");
}

#[test]
fn absolute_links_resolve_inside_the_mount() {
    let s = scratch();
    s.create_dir("etc").unwrap();
    s.write("etc/file", "inside").unwrap();
    s.symlink("/etc/file", "link").unwrap();
    assert_eq!(s.read("link").unwrap(), b"inside");
}

#[test]
fn dotdot_stops_at_the_root_of_the_mount() {
    let s = scratch();
    s.write("file", "inside").unwrap();
    s.symlink("../../../file", "link").unwrap();
    assert_eq!(s.read("link").unwrap(), b"inside");
    assert_eq!(s.read("../../file").unwrap(), b"inside");
    // /proc is beside the mount, not in it.
    s.symlink("../../proc/version", "out").unwrap();
    assert_eq!(errno(s.read("out")), libc::ENOENT);
}

#[test]
fn writing_through_a_link_stays_inside_the_mount() {
    let s = scratch();
    s.symlink("/new", "link").unwrap();
    s.write("link", "x").unwrap();
    assert_eq!(names(s.read_dir("/").unwrap()), ["link", "new"]);
    assert!(!s.kernel.tree("/").unwrap().exists("new").unwrap());
}

#[test]
fn a_loop_of_links_is_eloop() {
    let s = scratch();
    s.symlink("b", "a").unwrap();
    s.symlink("a", "b").unwrap();
    assert_eq!(errno(s.open("a")), libc::ELOOP);
}

#[test]
fn a_magic_link_is_not_followed() {
    let s = scratch();
    let fd = s.open_dir("/").unwrap();
    let proc = s.kernel.tree("/proc").unwrap();
    let opened = proc.open_dir(format!("self/fd/{}", fd.kernel_fd()));
    assert_eq!(errno(opened), libc::ELOOP);
}
