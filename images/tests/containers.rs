//! Containers, made and judged by qemu-img.

mod common;
mod qemu;

use common::{hash, pattern, read, write};
use qemu::*;
use std::os::unix::fs::MetadataExt;
use tane_images::{Backend, Format, ImageOptions};

const SIZE: usize = 20 << 20;

fn format_of(name: &str) -> Format {
    let family = name.split('-').next().unwrap();
    family.parse().unwrap()
}

/// `image` in each of the ways to make one.
fn each(kinds: &[(&str, &str)], mut test: impl FnMut(&Folder, &str, Format, &[u8])) {
    let bytes = disk_with_holes(SIZE);
    for (name, words) in kinds {
        let folder = Folder::new();
        folder.write("disk.raw", &bytes);
        folder.run(&format!("qemu-img convert -f raw {words} disk.raw image"));
        test(&folder, name, format_of(name), &bytes);
    }
}

#[test]
fn every_container_is_detected_and_reads_as_qemu_reads_it() {
    let kinds = [WRITABLE, READABLE].concat();
    each(&kinds, |folder, name, format, bytes| {
        let image = ImageOptions::new().open(folder.at("image")).unwrap();
        assert_eq!(image.layers[0].format, format, "{name}");
        assert_eq!(image.backend.size(), SIZE as u64, "{name}");
        assert!(image.backend.read_only(), "{name}");
        assert!(read(&*image.backend, 0, SIZE).unwrap() == bytes, "{name}");
        // In pieces that fit no block, and by the way that must not wait.
        for at in (0..SIZE - 70_001).step_by(1_234_567) {
            let got = read(&*image.backend, at as u64, 70_001).unwrap();
            assert!(got == bytes[at..at + 70_001], "{name}");
            let mut got = vec![1; 3000];
            let to = [tane_images::buffer_mut(&mut got)];
            if image.backend.try_read(&to, at as u64).unwrap() {
                assert!(got == bytes[at..at + 3000], "{name}");
            }
        }
        assert!(write(&*image.backend, 0, &[1; 512]).is_err(), "{name}");
    });
}

/// Writes of all kinds at random places, mirrored in `model`.
fn scribble(disk: &dyn Backend, model: &mut [u8], numbers: &mut Numbers, times: u32) {
    for _ in 0..times {
        let len = 1 + numbers.next(200_000) as usize;
        let at = numbers.next((model.len() - len) as u64) as usize;
        let range = at..at + len;
        match numbers.next(8) {
            0 => {
                disk.write_zeroes(at as u64, len as u64, true).unwrap();
                model[range].fill(0);
            }
            1 => {
                disk.discard(at as u64, len as u64).unwrap();
                let now = read(disk, at as u64, len).unwrap();
                // What it holds now does not matter, but it holds it.
                model[range].copy_from_slice(&now);
            }
            2 => assert!(read(disk, at as u64, len).unwrap() == model[range]),
            _ => {
                let data = pattern(len, numbers.next(256) as u8);
                write(disk, at as u64, &data).unwrap();
                model[range].copy_from_slice(&data);
            }
        }
    }
}

#[test]
fn what_is_written_at_random_is_read_by_qemu_which_finds_the_image_sound() {
    each(WRITABLE, |folder, name, _, bytes| {
        let mut model = bytes.to_vec();
        let mut numbers = Numbers(88);
        for _ in 0..2 {
            let image = ImageOptions::new().write(true).open(folder.at("image"));
            let disk = image.unwrap().backend;
            scribble(&*disk, &mut model, &mut numbers, 60);
            disk.flush().unwrap();
            scribble(&*disk, &mut model, &mut numbers, 60);
            assert!(read(&*disk, 0, SIZE).unwrap() == model, "{name}");
            disk.flush().unwrap();
            drop(disk);
            folder.qemu_checks("image", false);
            assert!(folder.qemu_reads_as(name, "image") == model, "{name}");
        }
    });
}

#[test]
fn an_empty_image_is_filled_to_its_last_byte() {
    for (name, words) in WRITABLE.iter().filter(|(name, _)| *name != "qcow2-packed") {
        let folder = Folder::new();
        let words = words.replace("-O", "-f");
        folder.run(&format!("qemu-img create -q {words} image 5M"));
        let image = ImageOptions::new().write(true).open(folder.at("image"));
        let disk = image.unwrap().backend;
        let size = disk.size() as usize;
        assert!(size >= 5 << 20, "{name}");
        assert!(read(&*disk, 0, size).unwrap() == vec![0; size], "{name}");
        let model = pattern(size, 7);
        for (i, piece) in model.chunks(333_333).enumerate() {
            write(&*disk, i as u64 * 333_333, piece).unwrap();
        }
        assert!(write(&*disk, size as u64 - 1, &[1, 2]).is_err());
        disk.flush().unwrap();
        drop(disk);
        folder.qemu_checks("image", false);
        assert!(folder.qemu_reads_as(name, "image") == model, "{name}");
    }
}

#[test]
fn discarded_clusters_give_their_room_back_to_the_host() {
    let folder = Folder::new();
    folder.run("qemu-img create -q -f qcow2 image 20M");
    let image = ImageOptions::new().write(true).open(folder.at("image"));
    let disk = image.unwrap().backend;
    let model = pattern(SIZE, 9);
    write(&*disk, 0, &model).unwrap();
    disk.flush().unwrap();
    let taken = || folder.at("image").metadata().unwrap().blocks() * 512;
    let full = taken();
    let (from, to) = ((1 << 20) + 100, 17 << 20);
    disk.discard(from as u64, (to - from) as u64).unwrap();
    disk.flush().unwrap();
    // But for the cluster that it begins within.
    assert!(full - taken() >= 15 << 20, "{full} {}", taken());
    assert!(read(&*disk, 0, from).unwrap() == model[..from]);
    assert!(read(&*disk, to as u64, SIZE - to).unwrap() == model[to..]);
    // What was given back is used again, and stays.
    write(&*disk, 2 << 20, &model[..4 << 20]).unwrap();
    disk.flush().unwrap();
    assert!(read(&*disk, 2 << 20, 4 << 20).unwrap() == model[..4 << 20]);
    drop(disk);
    folder.qemu_checks("image", false);
}

#[test]
fn snapshots_inside_a_qcow2_keep_what_they_hold() {
    let folder = Folder::new();
    let mut model = disk_with_holes(SIZE);
    let before = model.clone();
    folder.write("disk.raw", &model);
    folder.run("qemu-img convert -O qcow2 disk.raw image");
    folder.run("qemu-img snapshot -c first image");
    let image = ImageOptions::new().write(true).open(folder.at("image"));
    let disk = image.unwrap().backend;
    scribble(&*disk, &mut model, &mut Numbers(3), 100);
    disk.flush().unwrap();
    drop(disk);
    folder.qemu_checks("image", false);
    assert!(folder.qemu_reads("image") == model);
    folder.run("qemu-img snapshot -a first image");
    assert!(folder.qemu_reads("image") == before);
}

#[test]
fn a_chain_of_backing_files_is_read_and_only_its_top_is_written() {
    let folder = Folder::new();
    let mut model = disk_with_holes(SIZE);
    folder.write("base.raw", &model);
    folder.run("qemu-img convert -O vhdx base.raw base.vhdx");
    folder.run("qemu-img create -q -f qcow2 -b base.vhdx -F vhdx middle.qcow2");
    let io = ["-f", "qcow2", "-c", "write -P 7 1M 300k", "middle.qcow2"];
    let mut qemu_io = std::process::Command::new("qemu-io");
    let done = qemu_io.args(io).current_dir(&folder.0).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    model.copy_from_slice(&folder.qemu_reads("middle.qcow2"));
    // A top that is larger than what is below it.
    folder.run("qemu-img create -q -f qcow2 -b middle.qcow2 -F qcow2 top.qcow2 24M");
    model.resize(24 << 20, 0);
    let sums = |folder: &Folder| {
        ["base.vhdx", "middle.qcow2"].map(|name| hash(&std::fs::read(folder.at(name)).unwrap()))
    };
    let before = sums(&folder);
    let image = ImageOptions::new().write(true).open(folder.at("top.qcow2"));
    let image = image.unwrap();
    let formats: Vec<_> = image.layers.iter().map(|layer| layer.format).collect();
    assert_eq!(formats, [Format::Qcow2, Format::Qcow2, Format::Vhdx]);
    assert!(read(&*image.backend, 0, model.len()).unwrap() == model);
    scribble(&*image.backend, &mut model, &mut Numbers(5), 100);
    image.backend.flush().unwrap();
    drop(image);
    folder.qemu_checks("top.qcow2", false);
    assert!(folder.qemu_reads("top.qcow2") == model);
    assert_eq!(sums(&folder), before);
}

#[test]
fn a_vmdk_on_its_parent_reads_and_writes_as_qemu_has_it() {
    let folder = Folder::new();
    let mut model = disk_with_holes(SIZE);
    folder.write("base.raw", &model);
    folder.run("qemu-img convert -O vmdk base.raw base.vmdk");
    folder.run("qemu-img create -q -f vmdk -b base.vmdk -F vmdk image");
    let image = ImageOptions::new().write(true).open(folder.at("image"));
    let image = image.unwrap();
    assert_eq!(image.layers.len(), 2);
    assert!(read(&*image.backend, 0, SIZE).unwrap() == model);
    scribble(&*image.backend, &mut model, &mut Numbers(9), 60);
    image.backend.flush().unwrap();
    drop(image);
    folder.qemu_checks("image", false);
    assert!(folder.qemu_reads("image") == model);
}

#[test]
fn qed_and_qcow_above_other_images_read_as_qemu_has_them() {
    for format in ["qed", "qcow"] {
        for below in ["raw", "vdi"] {
            let folder = Folder::new();
            folder.write("disk.raw", &disk_with_holes(SIZE));
            folder.run(&format!("qemu-img convert -O {below} disk.raw base"));
            folder.run(&format!(
                "qemu-img create -q -f {format} -b base -F {below} image 24M"
            ));
            folder.run("qemu-io -c write\u{a0}-P\u{a0}7\u{a0}1M\u{a0}300k image");
            let model = folder.qemu_reads("image");
            assert_eq!(model.len(), 24 << 20);
            let image = ImageOptions::new().open(folder.at("image")).unwrap();
            assert_eq!(image.layers.len(), 2, "{format} on {below}");
            assert!(read(&*image.backend, 0, model.len()).unwrap() == model);
        }
    }
}

#[test]
fn parts_of_clusters_hide_what_is_below_or_not() {
    let folder = Folder::new();
    folder.write("base", &pattern(SIZE, 4));
    let options = "extended_l2=on,cluster_size=64k";
    folder.run(&format!(
        "qemu-img create -q -f qcow2 -b base -F raw -o {options} image 24M"
    ));
    // A part has 2 KiB.
    let io = "write\u{a0}-P\u{a0}7\u{a0}1000k\u{a0}6k -c write\u{a0}-z\u{a0}1010k\u{a0}4k \
              -c write\u{a0}-P\u{a0}8\u{a0}3M\u{a0}300k -c write\u{a0}-z\u{a0}-u\u{a0}3100k\u{a0}66k";
    folder.run(&format!("qemu-io -c {io} image"));
    let model = folder.qemu_reads("image");
    let image = ImageOptions::new().open(folder.at("image")).unwrap();
    assert_eq!(image.layers.len(), 2);
    assert!(read(&*image.backend, 0, model.len()).unwrap() == model);
    for at in (0..4 << 20).step_by(1777) {
        assert!(read(&*image.backend, at as u64, 2500).unwrap() == model[at..at + 2500]);
    }
    drop(image);
    let told = ImageOptions::new().write(true).open(folder.at("image"));
    let told = told.err().unwrap().to_string();
    assert!(told.contains("can only be read"), "{told}");
}

#[test]
fn compressed_clusters_of_a_qcow_are_read() {
    let folder = Folder::new();
    let model = packed_qcow(&folder, SIZE);
    assert!(model.iter().any(|b| *b != 0));
    let image = ImageOptions::new().open(folder.at("image")).unwrap();
    assert!(read(&*image.backend, 0, SIZE).unwrap() == model);
}

#[test]
fn zeros_in_a_qed_hide_what_is_below() {
    let folder = Folder::new();
    folder.write("base", &pattern(SIZE, 3));
    folder.run("qemu-img create -q -f qed -b base -F raw image");
    folder.run("qemu-io -c write\u{a0}-z\u{a0}2M\u{a0}4M image");
    let image = ImageOptions::new().open(folder.at("image")).unwrap();
    let got = read(&*image.backend, 0, SIZE).unwrap();
    assert!(got[2 << 20..6 << 20].iter().all(|b| *b == 0));
    assert!(got == folder.qemu_reads("image"));
}

#[test]
fn what_cannot_be_read_of_vdi_and_qed_says_why() {
    let folder = Folder::new();
    folder.run("qemu-img create -q -f vdi vdi 1M");
    folder.run("qemu-img create -q -f qed qed 1M");
    let refused = |name: &str, at: usize, byte: u8| {
        let mut bytes = std::fs::read(folder.at(name)).unwrap();
        bytes[at] = byte;
        bytes[0x1a8..0x1b8].copy_from_slice(&std::array::from_fn::<u8, 16, _>(|i| i as u8));
        let image = folder.write("image", &bytes);
        ImageOptions::new().open(image).err().unwrap().to_string()
    };
    let said = refused("vdi", 0x4c, 4);
    let uuid = "03020100-0504-0706-0809-0a0b0c0d0e0f";
    assert!(
        said.contains("differencing") && said.contains(uuid),
        "{said}"
    );
    let said = refused("qed", 16, 2);
    assert!(said.contains("qemu-img check"), "{said}");
}

#[test]
fn what_is_only_read_is_not_opened_for_writing_but_by_an_overlay() {
    for name in ["vdi", "qed", "qcow"] {
        let folder = Folder::new();
        let bytes = disk_with_holes(SIZE);
        folder.write("disk.raw", &bytes);
        folder.run(&format!("qemu-img convert -O {name} disk.raw image"));
        let mut options = ImageOptions::new();
        let said = options.write(true).open(folder.at("image"));
        let said = said.err().unwrap().to_string();
        assert!(said.contains("only be read"), "{said}");
        let over = options.overlay(folder.at("over.qcow2"));
        let disk = over.open(folder.at("image")).unwrap().backend;
        let mut model = bytes;
        scribble(&*disk, &mut model, &mut Numbers(11), 40);
        disk.flush().unwrap();
        drop(disk);
        assert!(folder.qemu_reads("over.qcow2") == model, "{name}");
    }
}

#[test]
fn an_overlay_takes_the_writes_and_qemu_reads_it() {
    let kinds = [
        ("raw", "-O raw"),
        ("vmdk-stream", READABLE[0].1),
        ("vhd", "-O vpc -o force_size=on"),
    ];
    each(&kinds, |folder, name, _, bytes| {
        let mut model = bytes.to_vec();
        let before = hash(&std::fs::read(folder.at("image")).unwrap());
        let mut options = ImageOptions::new();
        options.write(true).overlay(folder.at("over.qcow2"));
        let mut numbers = Numbers(17);
        // The second time it is there already.
        for _ in 0..2 {
            let disk = options.open(folder.at("image")).unwrap().backend;
            assert!(!disk.read_only());
            assert!(read(&*disk, 0, SIZE).unwrap() == model, "{name}");
            scribble(&*disk, &mut model, &mut numbers, 60);
            disk.flush().unwrap();
        }
        assert_eq!(hash(&std::fs::read(folder.at("image")).unwrap()), before);
        folder.qemu_checks("over.qcow2", false);
        assert!(folder.qemu_reads("over.qcow2") == model, "{name}");
        // It belongs to that image.
        folder.write("other", bytes);
        let error = options.open(folder.at("other")).err().unwrap().to_string();
        assert!(error.contains("is an overlay of"), "{error}");
    });
}

#[test]
fn an_overlay_in_memory_leaves_no_trace() {
    each(&[("vhdx", "-O vhdx")], |folder, _, _, bytes| {
        let before = hash(&std::fs::read(folder.at("image")).unwrap());
        let mut options = ImageOptions::new();
        options.write(true).overlay_in_memory(true);
        let disk = options.open(folder.at("image")).unwrap().backend;
        let mut model = bytes.to_vec();
        scribble(&*disk, &mut model, &mut Numbers(1), 50);
        assert!(read(&*disk, 0, SIZE).unwrap() == model);
        drop(disk);
        assert_eq!(hash(&std::fs::read(folder.at("image")).unwrap()), before);
    });
}

#[test]
fn a_stated_format_is_believed_before_the_content() {
    each(&[("qcow2", "-O qcow2")], |folder, _, _, _| {
        let file = std::fs::read(folder.at("image")).unwrap();
        let raw = ImageOptions::new()
            .format(Format::Raw)
            .open(folder.at("image"));
        let raw = raw.unwrap().backend;
        assert!(read(&*raw, 0, file.len()).unwrap() == file);
        let wrong = ImageOptions::new()
            .format(Format::Vhdx)
            .open(folder.at("image"));
        assert!(wrong.is_err());
    });
}

#[test]
fn an_image_in_use_is_not_opened_for_writing() {
    each(&[("vmdk", "-O vmdk")], |folder, _, _, _| {
        let mut options = ImageOptions::new();
        let first = options.write(true).open(folder.at("image")).unwrap();
        let second = options.open(folder.at("image")).err().unwrap();
        assert!(second.to_string().contains("in use"), "{second}");
        drop(first);
        options.open(folder.at("image")).unwrap();
    });
}
