//! Images in containers, through the command. Made and judged by qemu-img.

use crate::common::*;
use std::process::Command;
use tane_test_support::tool;

/// An ext4 with one file, as each container.
fn as_container(s: &Scratch, words: &str, name: &str) {
    s.write("tree/f", b"data\n");
    s.ext4("disk.raw", Some(&s.join("tree")), 16);
    let line = format!("convert -f raw {words} disk.raw {name}");
    let mut qemu = Command::new("qemu-img");
    succeed(qemu.args(line.split(' ')).current_dir(s.join(".")));
}

fn qemu_reads(s: &Scratch, image: &str) -> std::path::PathBuf {
    let mut qemu = Command::new("qemu-img");
    let line = ["convert", "-O", "raw", image, "back.raw"];
    succeed(qemu.args(line).current_dir(s.join(".")));
    s.join("back.raw")
}

#[test]
fn containers_are_read_and_written_like_raw_images() {
    if !has_kernel() {
        return;
    }
    for words in [
        "-O qcow2 -c",
        "-O vmdk",
        "-O vpc -o force_size=on",
        "-O vhdx",
    ] {
        let s = Scratch::new();
        as_container(&s, words, "disk");
        assert_eq!(succeed(s.tane().args(["cat", "disk:/f"])).stdout, b"data\n");
        s.write("new", &[7; 3_000_000]);
        succeed(s.tane().args(["cp", "new", "disk:/new"]));
        let back = qemu_reads(&s, "disk");
        assert_sound(&back);
        let debugfs = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(&back));
        assert!(debugfs.stdout == s.read("new"), "{words}");
    }
}

#[test]
fn pieces_and_segments_beside_the_image_are_read_from_the_jail() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "d");
    let run = |mut command: Command, line: &str| {
        succeed(command.args(line.split(' ')).current_dir(s.path()));
    };
    run(
        Command::new("split"),
        "-b 5M -d -a 3 --numeric-suffixes=1 d d.",
    );
    let mut firsts = vec![("d.001", "split")];
    if let Some(ewfacquire) = tool("ewf-tools", "ewfacquire") {
        run(ewfacquire, "-q -u -c none -S 1048576 -t e disk.raw");
        assert!(s.join("e.E02").exists());
        firsts.push(("e.E01", "ewf"));
    }
    for (first, format) in firsts {
        let at = format!("{first}:/f");
        assert_eq!(succeed(s.tane().args(["cat", &at])).stdout, b"data\n");
        let found = text(&succeed(s.tane().args(["inspect", first])).stdout);
        let start = format!("{first}  {format} on ");
        assert!(
            found.starts_with(&start) && found.contains(" raw files, 16M"),
            "{found}"
        );
    }
    succeed(s.tane().args(["touch", "d.001:/g"]));
    let pieces = [1, 2, 3, 4].map(|i| s.read(&format!("d.{i:03}")));
    s.write("joined", &pieces.concat());
    assert_sound(&s.join("joined"));
}

#[test]
fn a_disk_may_be_in_more_pieces_than_files_are_usually_open() {
    use std::os::unix::process::CommandExt;
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "d");
    let mut split = Command::new("split");
    let words = ["-n", "700", "-d", "-a", "3", "d", "d."];
    succeed(split.args(words).current_dir(s.path()));
    let mut tane = s.tane();
    tane.args(["cat", "d.000:/f"]);
    let few = || {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a structure of ours.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            limit.rlim_cur = 1024;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        Ok(())
    };
    // SAFETY: system calls only.
    unsafe { tane.pre_exec(few) };
    assert_eq!(succeed(&mut tane).stdout, b"data\n");
}

#[test]
fn an_overlay_has_the_changes_and_the_image_keeps_its_bytes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O vmdk -o subformat=streamOptimized", "disk");
    let before = s.read("disk");
    let refused = exit(s.tane().args(["touch", "disk:/g"]), 3);
    assert!(text(&refused.stderr).contains("overlay"), "{refused:?}");
    let over = "--overlay=over.qcow2";
    // Nothing is there yet, and reading makes nothing.
    succeed(s.tane().args([over, "cat", "disk:/f"]));
    assert!(!s.join("over.qcow2").exists());
    succeed(s.tane().args([over, "mv", "disk:/f", "disk:/g"]));
    assert_eq!(
        succeed(s.tane().args([over, "cat", "disk:/g"])).stdout,
        b"data\n"
    );
    exit(s.tane().args(["cat", "disk:/g"]), 1);
    assert!(s.read("disk") == before);
    assert_sound(&qemu_reads(&s, "over.qcow2"));
}

#[test]
fn a_compressed_image_is_read_and_its_unpacking_is_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "disk");
    let gzip = Command::new("gzip").arg(s.join("disk")).status();
    assert!(gzip.expect("gzip").success());
    let output = succeed(s.tane().args(["cat", "disk.gz:/f"]));
    assert_eq!(output.stdout, b"data\n");
    assert!(text(&output.stderr).contains("unpacking"), "{output:?}");
    let output = succeed(s.tane().args(["-q", "cat", "disk.gz:/f"]));
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_backing_file_elsewhere_is_refused_until_it_is_trusted() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "base");
    std::fs::create_dir(s.join("sub")).expect("a directory");
    let mut qemu = Command::new("qemu-img");
    let line = "create -q -f qcow2 -b ../base -F raw sub/disk";
    succeed(qemu.args(line.split(' ')).current_dir(s.join(".")));
    let refused = exit(s.tane().args(["cat", "sub/disk:/f"]), 3);
    assert!(text(&refused.stderr).contains("--trust"), "{refused:?}");
    let output = succeed(s.tane().args(["--trust=base", "cat", "sub/disk:/f"]));
    assert_eq!(output.stdout, b"data\n");
}

#[test]
fn a_volume_that_was_cut_out_of_a_fixed_vhd_is_a_raw_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data\n");
    s.ext4("volume", Some(&s.join("tree")), 16);
    let disk = [vec![0; 1 << 20], s.read("volume")].concat();
    s.write("disk.raw", &disk);
    let line = "convert -f raw -O vpc -o subformat=fixed,force_size=on disk.raw disk.vhd";
    succeed(&mut s.command("qemu-img", line));
    // To the end, with what tells that all of it is a disk.
    s.write("volume", &s.read("disk.vhd")[1 << 20..]);
    assert_eq!(
        succeed(s.tane().args(["cat", "volume:/f"])).stdout,
        b"data\n"
    );
    let said = exit(s.tane().args(["--format=vhd", "cat", "volume:/f"]), 3);
    assert!(text(&said.stderr).contains("cut short"), "{said:?}");
}

#[test]
fn a_squashfs_whose_last_block_is_there_in_part_is_read_whole() {
    if !has_kernel() || tane_test_support::tool("squashfs-tools", "mksquashfs").is_none() {
        return;
    }
    let s = Scratch::new();
    let mut tried = 0..64;
    // Half of all lengths end in the first sector of a block of 1024 bytes.
    let data = loop {
        let n = tried.next().expect("such a length");
        let mut state = 1u32;
        let byte = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let data: Vec<u8> = (0..100_000 + 100 * n).map(byte).collect();
        s.write("tree/f", &data);
        let line = "tree image -noappend -nopad -quiet -no-progress";
        succeed(&mut s.command("mksquashfs", line));
        let len = s.read("image").len();
        if (1..512).contains(&(len % 1024)) {
            break data;
        }
    };
    assert!(succeed(s.tane().args(["cat", "image:/f"])).stdout == data);
    // As a copy of the flash has it, in sectors.
    let image = s.read("image");
    s.write(
        "image",
        &[&image[..], &[0; 512][image.len() % 512..]].concat(),
    );
    assert!(succeed(s.tane().args(["cat", "image:/f"])).stdout == data);
}

#[test]
fn a_disc_of_windows_shows_what_its_udf_has_and_its_iso9660_when_asked() {
    if !has_kernel() || tane_test_support::tool("genisoimage", "genisoimage").is_none() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/setup.exe", b"all of it\n");
    s.write("tree/readme.txt", b"needs a system with UDF\n");
    let line = "-quiet -udf -V DISC -hide setup.exe -o disc.iso tree";
    succeed(&mut s.command("genisoimage", line));
    let list = |options: &[&str]| {
        let listed = succeed(s.tane().args(options).args(["ls", "disc.iso:/"]));
        text(&listed.stdout).to_lowercase()
    };
    assert_eq!(list(&[]), "readme.txt\nsetup.exe\n");
    assert_eq!(list(&["--fs=iso9660"]), "readme.txt\n");
    let blkid = s.command("blkid", "-p -s TYPE -o value disc.iso").output();
    assert_eq!(text(&blkid.expect("blkid").stdout), "udf\n");
    let picture = text(&succeed(s.tane().args(["inspect", "disc.iso"])).stdout);
    assert!(picture.contains("udf  (and iso9660: --fs)"), "{picture}");
    let found = succeed(s.tane().args(["inspect", "--json", "disc.iso"])).stdout;
    let found: serde_json::Value = serde_json::from_slice(&found).expect("JSON");
    assert_eq!(found["volumes"][0]["also"], serde_json::json!(["iso9660"]));
}
