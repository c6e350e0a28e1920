//! Block devices made inside the kernel: of memory, of files, of each other.

use crate::common::{blank, TempDir};
use crate::inside::{at, call, default_kernel, dev, into, ok, run};
use std::path::Path;
use tane::{File, Kernel, MountOptions, OpenOptions};
use tane_test_support::tool;

const RAM_DISK: usize = 4 << 20; // CONFIG_BLK_DEV_RAM_SIZE

/// The bytes of an empty ext4 of this size.
fn ext4_bytes(size: usize) -> Option<Vec<u8>> {
    let dir = TempDir::new();
    let image = blank(&dir, "image", size as u64 >> 20);
    run(tool("e2fsprogs", "mkfs.ext4")?
        .args(["-q", "-F", "-O", "^has_journal"])
        .arg(&image));
    Some(std::fs::read(&image).expect("the image"))
}

/// What the host's e2fsck says of these bytes.
fn is_clean(bytes: &[u8]) {
    let dir = TempDir::new();
    let image = dir.path().join("image");
    std::fs::write(&image, bytes).expect("an image");
    if let Some(mut fsck) = tool("e2fsprogs", "e2fsck") {
        run(fsck.arg("-fn").arg(&image));
    }
}

fn open(kernel: &Kernel, name: &str) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    let file = options.open(&dev(kernel), name);
    file.unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn contents(kernel: &Kernel, name: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let file = open(kernel, name);
    file.read_exact_at(&mut bytes, 0).expect("reads");
    bytes
}

/// An ext4 on this device holds files across a mount, and is clean afterwards.
fn serves(kernel: &Kernel, name: &str, size: usize) {
    let Some(fresh) = ext4_bytes(size) else {
        return;
    };
    let file = open(kernel, name);
    file.write_all_at(&fresh, 0).expect("writes");
    file.sync_all().expect("syncs");
    drop(file);
    let data: Vec<u8> = (0..1_000_000u32).map(|i| ((i * 7) >> 5) as u8).collect();
    let device = Path::new("/dev").join(name);
    let mount = || {
        let mut options = MountOptions::new();
        let mount = options.fstype("ext4").mount(kernel, &device);
        mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()))
    };
    let first = mount();
    first.write("f", &data).expect("writes");
    first.unmount().expect("unmounts");
    let second = mount();
    assert!(second.read("f").expect("reads") == data);
    second.unmount().expect("unmounts");
    is_clean(&contents(kernel, name, size));
    assert_eq!(crate::inside::complaints(&kernel.dmesg()), [""; 0]);
}

#[test]
fn ram_disk() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    serves(&kernel, "ram0", RAM_DISK);
}

fn ioctl(file: &File, request: u64, argument: u64) -> Result<u64, i32> {
    let fd = file.kernel_fd() as u64;
    call(file.kernel(), libc::SYS_ioctl, &[fd, request, argument])
}

const LOOP_SET_FD: u64 = 0x4c00;
const LOOP_CLR_FD: u64 = 0x4c01;
const LOOP_CTL_GET_FREE: u64 = 0x4c82;

#[test]
fn loop_device_over_a_file_on_tmpfs() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut options = MountOptions::new();
    let tmpfs = options.fstype("tmpfs").mount(&kernel, "tmpfs");
    let tmpfs = tmpfs.expect("tmpfs");
    tmpfs.write("disk", b"").expect("a file");
    tmpfs.truncate("disk", RAM_DISK as u64).expect("its size");
    let mut options = OpenOptions::new();
    let backing = options.read(true).write(true).open(&tmpfs, "disk");
    let backing = backing.expect("opens");

    let control = open(&kernel, "loop-control");
    let number = ioctl(&control, LOOP_CTL_GET_FREE, 0).expect("a number");
    let name = format!("loop{number}");
    let device = open(&kernel, &name);
    let fd = backing.kernel_fd() as u64;
    ioctl(&device, LOOP_SET_FD, fd).expect("binds");
    serves(&kernel, &name, RAM_DISK);
    ioctl(&device, LOOP_CLR_FD, 0).expect("lets go");
    drop(device);
    is_clean(&tmpfs.read("disk").expect("reads"));
}

const DM_DEV_CREATE: u64 = 0xc138_fd03;
const DM_DEV_REMOVE: u64 = 0xc138_fd04;
const DM_DEV_SUSPEND: u64 = 0xc138_fd06; // resumes, without its flag
const DM_TABLE_LOAD: u64 = 0xc138_fd09;

/// `struct dm_ioctl` and what follows it; linux/dm-ioctl.h.
fn dm(control: &File, request: u64, name: &str, targets: &[(u64, u64, &str, &str)]) {
    const HEAD: usize = 312;
    let mut buffer = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| buffer[at..][..bytes.len()].copy_from_slice(bytes);
    put(0, &4u32.to_ne_bytes()); // version 4.0.0
    put(12, &4096u32.to_ne_bytes());
    put(16, &(HEAD as u32).to_ne_bytes());
    put(20, &(targets.len() as u32).to_ne_bytes());
    put(48, name.as_bytes());
    let mut place = HEAD;
    for (start, sectors, kind, parameters) in targets {
        let next = (40 + parameters.len() + 1).next_multiple_of(8);
        put(place, &start.to_ne_bytes());
        put(place + 8, &sectors.to_ne_bytes());
        put(place + 20, &(next as u32).to_ne_bytes());
        put(place + 24, kind.as_bytes());
        put(place + 40, parameters.as_bytes());
        place += next;
    }
    let done = ioctl(control, request, into(&mut buffer[..]));
    done.unwrap_or_else(|errno| panic!("{request:#x}: {errno}\n{}", control.kernel().dmesg()));
}

fn dm_device(control: &File, name: &str, targets: &[(u64, u64, &str, &str)]) {
    dm(control, DM_DEV_CREATE, name, &[]);
    dm(control, DM_TABLE_LOAD, name, targets);
    dm(control, DM_DEV_SUSPEND, name, &[]);
}

#[test]
fn device_mapper() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let control = open(&kernel, "mapper/control");
    let half = RAM_DISK as u64 / 512;
    let joined = [
        (0, half, "linear", "/dev/ram0 0"),
        (half, half, "linear", "/dev/ram1 0"),
    ];
    dm_device(&control, "joined", &joined);
    serves(&kernel, "dm-0", 2 * RAM_DISK);

    dm_device(&control, "zero", &[(0, 2048, "zero", "")]);
    let zero = open(&kernel, "dm-1");
    zero.write_all_at(&[1; 4096], 0).expect("is taken");
    drop(zero);
    assert_eq!(contents(&kernel, "dm-1", 1 << 20), vec![0; 1 << 20]);

    for name in ["zero", "joined"] {
        dm(&control, DM_DEV_REMOVE, name, &[]);
    }
    assert!(!dev(&kernel).exists("dm-0").expect("looks"));
}

const SET_ARRAY_INFO: u64 = 0x4048_0923;
const ADD_NEW_DISK: u64 = 0x4014_0921;
const RUN_ARRAY: u64 = 0x400c_0930;
const STOP_ARRAY: u64 = 0x0932;

const RAM_MAJOR: u32 = 1;
const MD_MAJOR: u32 = 9;

/// As `mdadm --build --level=1` does: without a superblock.
#[test]
fn mirror_of_two_ram_disks() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    // Opening the node makes the array.
    let node = libc::makedev(MD_MAJOR, 0);
    if !dev(&kernel).exists("md0").expect("looks") {
        let mode = libc::S_IFBLK | 0o600;
        dev(&kernel).mknod("md0", mode, node).expect("a node");
    }
    let array = open(&kernel, "md0");
    // mdu_array_info_t
    let mut info = [0u32; 18];
    info[1] = 90; // minor version
    info[4] = 1; // level
    info[6] = 2; // disks there are
    info[7] = 2; // disks there should be
    info[9] = 1; // not persistent
    info[11] = 1; // clean
    ioctl(&array, SET_ARRAY_INFO, at(&info)).expect("an array");
    for disk in 0..2 {
        // mdu_disk_info_t; active and in sync
        let disk = [disk, RAM_MAJOR, disk, disk, 6];
        ioctl(&array, ADD_NEW_DISK, at(&disk)).expect("a disk");
    }
    ioctl(&array, RUN_ARRAY, at(&[0u32; 3])).expect("starts");
    let proc = kernel.tree("/proc").expect("/proc");
    let state = proc.read_to_string("mdstat").expect("reads");
    assert!(state.contains("active raid1"), "{state}");
    assert!(state.contains("[2/2] [UU]"), "{state}");

    serves(&kernel, "md0", RAM_DISK);
    ioctl(&array, STOP_ARRAY, 0).expect("stops");
    drop(array);
    let copies = ["ram0", "ram1"].map(|name| contents(&kernel, name, RAM_DISK));
    assert!(copies[0] == copies[1], "the halves differ");
    is_clean(&copies[1]);
    ok(&kernel, libc::SYS_sync, &[]);
}
