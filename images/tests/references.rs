//! An image names other files: which of them are opened.

mod common;
mod qemu;

use common::read;
use qemu::*;
use std::path::Path;
use tane_images::ImageOptions;

const SIZE: usize = 1 << 20;

/// `image` in a directory of its own, naming `backing` by this text.
fn naming(folder: &Folder, name: &str) {
    std::fs::create_dir_all(folder.at("images")).unwrap();
    let make = format!("qemu-img create -q -u -f qcow2 -b {name} -F raw images/image 1M");
    folder.run(&make);
}

fn refused(options: &ImageOptions, image: &Path) -> String {
    let error = options.open(image).err().expect("an error");
    error.to_string()
}

#[test]
fn a_file_beside_the_image_is_read_by_relative_and_absolute_name() {
    let folder = Folder::new();
    let bytes = disk_with_holes(SIZE);
    for absolute in [false, true] {
        let base = folder.at("images/base");
        let name = if absolute { text(&base) } else { "base".into() };
        naming(&folder, &name);
        std::fs::write(&base, &bytes).unwrap();
        let image = ImageOptions::new().open(folder.at("images/image")).unwrap();
        assert!(read(&*image.backend, 0, SIZE).unwrap() == bytes);
        assert_eq!(image.layers[1].path, base);
    }
}

#[test]
fn what_is_elsewhere_is_refused_until_it_is_trusted() {
    let folder = Folder::new();
    let bytes = disk_with_holes(SIZE);
    std::fs::create_dir_all(folder.at("images/below")).unwrap();
    std::fs::write(folder.at("secret"), &bytes).unwrap();
    std::fs::write(folder.at("images/below/secret"), &bytes).unwrap();
    std::os::unix::fs::symlink("../secret", folder.at("images/link")).unwrap();
    let outside = text(&folder.at("secret"));
    let image = folder.at("images/image");
    for name in [
        "../secret",
        &outside,
        "link",
        "file:../secret",
        "below/secret",
    ] {
        naming(&folder, name);
        let said = refused(&ImageOptions::new(), &image);
        assert!(
            said.contains("not beside it") && said.contains("--trust"),
            "{said}"
        );
        assert!(said.contains("images/image"), "{said}");
        for place in [
            folder.0.clone(),
            folder.at("secret"),
            folder.at("images/below/secret"),
        ] {
            let wanted = Path::new(name).file_name() == place.file_name() || place == folder.0;
            let right = (place.starts_with(folder.at("images"))) == name.starts_with("below");
            let mut options = ImageOptions::new();
            let opened = options.trust(&place).open(&image);
            if place == folder.0 || (wanted && right) {
                assert!(read(&*opened.unwrap().backend, 0, SIZE).unwrap() == bytes);
            }
        }
        let said = refused(ImageOptions::new().trust("/usr"), &image);
        assert!(said.contains("not beside it"), "{said}");
    }
}

#[test]
fn what_is_no_ordinary_file_is_refused() {
    let folder = Folder::new();
    for name in [
        "/dev/zero",
        "/etc/passwd",
        "/proc/self/mem",
        "nbd:localhost:1",
        "json:{}",
    ] {
        naming(&folder, name);
        let said = refused(&ImageOptions::new(), &folder.at("images/image"));
        assert!(
            said.contains("not beside it") || said.contains("not there"),
            "{said}"
        );
    }
    naming(&folder, "fifo");
    folder.run("mkfifo images/fifo");
    // Does not wait for a writer.
    let said = refused(&ImageOptions::new(), &folder.at("images/image"));
    assert!(said.contains("no ordinary file"), "{said}");
}

#[test]
fn a_chain_that_bites_its_tail_ends() {
    let folder = Folder::new();
    folder.run("qemu-img create -q -u -f qcow2 -b b -F qcow2 a 1M");
    folder.run("qemu-img create -q -u -f qcow2 -b a -F qcow2 b 1M");
    let said = refused(&ImageOptions::new(), &folder.at("a"));
    assert!(said.contains("has no end"), "{said}");
}

#[test]
fn an_extent_of_a_vmdk_follows_the_same_rule() {
    let folder = Folder::new();
    folder.write("secret", &[7; SIZE]);
    std::fs::create_dir(folder.at("images")).unwrap();
    for name in ["../secret", "/etc/passwd"] {
        let text = format!(
            "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
             createType=\"monolithicFlat\"\nRW 2048 FLAT \"{name}\" 0\n"
        );
        let image = folder.write("images/image", text.as_bytes());
        let said = refused(&ImageOptions::new(), &image);
        assert!(said.contains("not beside it"), "{said}");
        // Nor is it written.
        let said = refused(ImageOptions::new().write(true), &image);
        assert!(said.contains("not beside it"), "{said}");
    }
}

/// A VMDK in `images` whose disk is in this file.
fn flat(folder: &Folder, image: &str, name: &str) -> std::path::PathBuf {
    let text = format!(
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
         createType=\"monolithicFlat\"\nRW 2048 FLAT \"{name}\" 0\n"
    );
    folder.write(&format!("images/{image}"), text.as_bytes())
}

#[test]
fn a_file_that_an_image_names_is_written_only_if_it_has_the_name_of_a_part_of_it() {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("images")).unwrap();
    let names = [".bashrc", "notes.txt", "other-flat.vmdk", "evil.vmdk.sh"];
    for name in names {
        folder.write(&format!("images/{name}"), &[7; SIZE]);
    }
    // By another name it is the same file.
    let link = folder.at("images/evil-link.vmdk");
    std::os::unix::fs::symlink("notes.txt", link).unwrap();
    for name in names.into_iter().chain(["evil-link.vmdk"]) {
        let vmdk = flat(&folder, "evil.vmdk", name);
        let qcow2 = folder.at("images/evil.qcow2");
        folder.run(&format!(
            "qemu-img create -q -f qcow2 -o data_file=images/scratch,data_file_raw=on {} 1M",
            qcow2.display()
        ));
        folder.run(&format!(
            "qemu-img amend -f qcow2 -o data_file={name} {}",
            qcow2.display()
        ));
        for image in [&vmdk, &qcow2] {
            let mut options = ImageOptions::new();
            assert!(options.open(image).is_ok(), "{name} is read");
            let said = refused(options.write(true), image);
            assert!(said.contains("would have"), "{said}");
            let hidden = name.starts_with('.');
            assert_eq!(said.contains("--trust"), !hidden, "{said}");
            // None of them is let into a jail for it, either.
            let files = options.files(image);
            assert_eq!(files.len(), 1, "{files:?}");
            let trusted = options.trust(folder.at("images")).open(image);
            assert_eq!(trusted.is_ok(), !hidden, "{name}");
        }
    }
    folder.write("images/evil-flat.vmdk", &[7; SIZE]);
    let vmdk = flat(&folder, "evil.vmdk", "evil-flat.vmdk");
    let mut options = ImageOptions::new();
    let opened = options.write(true).open(&vmdk).unwrap();
    assert!(opened.layers.iter().all(|layer| layer.write));
    assert_eq!(options.files(&vmdk), opened.layers);
}

#[test]
fn what_a_guest_wrote_into_a_raw_disk_is_not_followed_when_the_format_is_stated() {
    let folder = Folder::new();
    naming(&folder, "base");
    folder.write("images/base", &[7; SIZE]);
    let mut options = ImageOptions::new();
    let image = options.format(tane_images::Format::Raw);
    let image = image.open(folder.at("images/image")).unwrap();
    assert_eq!(image.layers.len(), 1);
}
