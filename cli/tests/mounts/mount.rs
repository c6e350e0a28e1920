//! Promises about images that are mounted, with the host's own kernel (through a
//! loop device) and e2fsprogs as judges.

use crate::common::fuse::*;
use crate::common::terminal::Terminal;
use crate::common::*;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use tane_test_support::eventually;

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    let error = result.expect_err("an error");
    error.raw_os_error().expect("an errno")
}

#[test]
fn a_mount_shows_what_a_loop_mount_shows_and_cp_gets_it_all() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let tree = s.sample("tree", 700);
    let image = s.ext4("disk.img", None, 256);
    succeed(s.tane().args(["cp", "--strict", "tree/.", "disk.img:/"]));
    let wanted = {
        let mounted = Loop::new(&s, &image);
        manifest(mounted.path(), "holes")
    };
    let mounted = Mounted::new(&s, &["disk.img"]);
    assert_same(&wanted, &manifest(mounted.path(), "holes"));
    succeed(s.tool("cp").args(["-a", "mnt/.", "out"]));
    let differences = ["-aniAXHS", "--delete", "mnt/", "out/"];
    let output = succeed(s.tool("rsync").args(differences));
    assert_eq!(text(&output.stdout), "");
    mounted.unmount();
    assert_same(&manifest(&tree, ""), &manifest(&s.join("out"), ""));
}

#[test]
fn what_is_copied_into_a_mount_is_in_the_image() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let wanted = manifest(&s.sample("tree", 700), "");
    let image = s.ext4("disk.img", None, 256);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    succeed(s.tool("cp").args(["-a", "tree/.", "mnt"]));
    mounted.unmount();
    assert_sound(&image);
    {
        let mounted = Loop::new(&s, &image);
        assert_same(&wanted, &manifest(mounted.path(), ""));
    }
    let listed = succeed(sbin("debugfs").args(["-R", "ls -p /"]).arg(&image));
    for entry in fs::read_dir(s.join("tree")).expect("a listing") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        assert!(text(&listed.stdout).contains(&*name), "{name}");
    }
}

#[test]
fn without_rw_nothing_changes() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 64);
    succeed(
        sbin("debugfs")
            .args(["-w", "-R", "feature needs_recovery"])
            .arg(&image),
    );
    let before = s.read("disk.img");
    let mounted = Mounted::new(&s, &["disk.img"]);
    assert_eq!(fs::read(mounted.join("f")).expect("a file"), b"data");
    assert_eq!(errno(fs::write(mounted.join("f"), "other")), libc::EROFS);
    assert_eq!(errno(fs::remove_file(mounted.join("f"))), libc::EROFS);
    mounted.unmount();
    assert!(s.read("disk.img") == before);
}

#[test]
fn a_directory_of_an_image_can_be_mounted() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/a/b/f", b"data");
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    let mounted = Mounted::new(&s, &["disk.img:/a/b"]);
    assert_eq!(fs::read(mounted.join("f")).expect("a file"), b"data");
    mounted.unmount();
}

#[test]
fn a_removed_file_stays_for_those_who_have_it_open() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    let options = || OpenOptions::new().read(true).write(true).clone();
    for (name, go) in [("removed", 0), ("replaced", 1), ("linked", 2)] {
        let path = mounted.join(name);
        fs::write(&path, b"before").expect("written");
        let mut file = options().open(&path).expect("open");
        match go {
            0 => fs::remove_file(&path).expect("removed"),
            1 => {
                fs::write(mounted.join("new"), b"new").expect("written");
                fs::rename(mounted.join("new"), &path).expect("renamed");
            }
            _ => {
                fs::hard_link(&path, mounted.join("other")).expect("linked");
                fs::remove_file(&path).expect("removed");
            }
        }
        file.write_all(b"after!").expect("written");
        file.sync_all().expect("synced");
        file.seek(SeekFrom::Start(0)).expect("seek");
        let mut data = String::new();
        file.read_to_string(&mut data).expect("read");
        assert_eq!(data, "after!", "{name}");
        assert_eq!(file.metadata().expect("stat").nlink(), u64::from(go == 2));
    }
    assert_eq!(fs::read(mounted.join("other")).expect("read"), b"after!");
    assert_eq!(fs::read(mounted.join("replaced")).expect("read"), b"new");
    mounted.unmount();
    assert_sound(&image);
}

#[test]
fn files_belong_to_who_makes_them_and_permissions_hold() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    if !others_come_to(s.path()) {
        return tane_test_support::skip("others may not come to where it is");
    }
    let image = s.ext4("disk.img", None, 64);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    let mode = |name: &str, mode| {
        fs::set_permissions(mounted.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
    };
    for (name, bits) in [("open", 0o777), ("closed", 0o700), ("inherits", 0o777)] {
        fs::create_dir(mounted.join(name)).expect("a directory");
        mode(name, bits);
    }
    succeed(
        s.tool("setfacl")
            .args(["-d", "-m", "u::rwx,g::rwx,o::rwx", "mnt/inherits"]),
    );
    fs::write(mounted.join("setuid"), b"#!").expect("written");
    mode("setuid", 0o4777);
    let script = "umask 027; mkdir open/d && echo x >open/d/f && ln -s f open/d/l \
        && echo x >inherits/f && echo x >>setuid && ! echo x >closed/f && ! ls closed";
    let mut shell = s.tool("sh");
    shell.args(["-c", script]).uid(4321).gid(8765);
    succeed(shell.current_dir(mounted.path()));
    let owner = |name: &str| {
        let stat = mounted.join(name).symlink_metadata().expect("stat");
        (stat.uid(), stat.gid(), stat.mode() & 0o7777)
    };
    assert_eq!(owner("open/d"), (4321, 8765, 0o750));
    assert_eq!(owner("open/d/f"), (4321, 8765, 0o640));
    assert_eq!(owner("open/d/l"), (4321, 8765, 0o777));
    // A default ACL comes before the umask.
    assert_eq!(owner("inherits/f"), (4321, 8765, 0o666));
    assert_eq!(owner("setuid"), (0, 0, 0o777));
    fs::write(mounted.join("roots"), b"x").expect("written");
    assert_eq!(owner("roots").0, 0);
    mounted.unmount();
    assert_sound(&image);
}

#[test]
fn eight_threads_at_once_leave_a_sound_image() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 128);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    fs::create_dir(mounted.join("shared")).expect("a directory");
    std::thread::scope(|scope| {
        for t in 0..8u8 {
            let mounted = &mounted;
            scope.spawn(move || {
                let own = mounted.join(&format!("own{t}"));
                fs::create_dir(&own).expect("a directory");
                for i in 0..60u32 {
                    let data = vec![t ^ i as u8; (i as usize * 331) % 20_000];
                    let path = own.join(format!("{i}"));
                    fs::write(&path, &data).expect("written");
                    let moved = mounted.join(&format!("shared/{t}-{i}"));
                    fs::rename(&path, &moved).expect("renamed");
                    assert!(fs::read(&moved).expect("read") == data);
                    match i % 3 {
                        0 => fs::remove_file(&moved).expect("removed"),
                        1 => fs::hard_link(&moved, &path).expect("linked"),
                        _ => {}
                    }
                }
            });
        }
    });
    let count = |name: &str| fs::read_dir(mounted.join(name)).expect("listing").count();
    assert_eq!((count("shared"), count("own3")), (8 * 40, 20));
    mounted.unmount();
    assert_sound(&image);
    let again = Mounted::new(&s, &["disk.img"]);
    assert_eq!(
        fs::read_dir(again.join("shared")).expect("listing").count(),
        8 * 40
    );
    again.unmount();
}

pub fn errno_or_zero<T>(result: std::io::Result<T>) -> i32 {
    result.err().and_then(|e| e.raw_os_error()).unwrap_or(0)
}

#[test]
fn a_panic_is_eio_for_programs_and_said_by_the_server() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/bad/f", b"data");
    s.write("tree/good/f", b"data");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 64);
    let block = succeed(sbin("debugfs").args(["-R", "bmap /bad 0"]).arg(&image));
    let block: u64 = text(&block.stdout).trim().parse().expect("a block");
    let file = OpenOptions::new()
        .write(true)
        .open(&image)
        .expect("the image");
    file.write_all_at(&[0xff; 4096], block * 4096)
        .expect("written");
    drop(file);
    let mut child = foreground(&s, &["--options", "errors=panic", "disk.img"]);
    let mounted = Mounted::adopt(&s);
    assert_eq!(fs::read(mounted.join("good/f")).expect("read"), b"data");
    let listed = fs::read_dir(mounted.join("bad")).and_then(|mut l| l.next().transpose());
    assert_eq!(errno(listed.map(drop)), libc::EIO);
    assert_eq!(errno(fs::metadata(mounted.join("good/none"))), libc::EIO);
    succeed(s.tool("umount").arg("mnt"));
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("stderr")
        .read_to_string(&mut said)
        .expect("UTF-8");
    assert_eq!(child.wait().expect("exit").code(), Some(3), "{said}");
    assert!(
        said.contains("has died") && said.contains("panic"),
        "{said}"
    );
}

#[test]
fn flags_and_special_files_pass_through() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    fs::write(mounted.join("f"), b"data").expect("written");
    succeed(s.tool("chattr").args(["+i", "mnt/f"]));
    let flags = succeed(s.tool("lsattr").arg("mnt/f"));
    assert!(text(&flags.stdout)[..20].contains('i'), "{flags:?}");
    assert_eq!(errno(fs::remove_file(mounted.join("f"))), libc::EPERM);
    succeed(s.tool("chattr").args(["-i", "mnt/f"]));
    succeed(s.tool("mkfifo").arg("mnt/fifo"));
    succeed(s.tool("mknod").args(["mnt/tty", "c", "5", "300"]));
    succeed(s.tool("ln").args(["-s", "nowhere", "mnt/link"]));
    // Before 1970, with a fraction: half a second before.
    for name in ["fifo", "tty", "link", "f"] {
        let path = format!("mnt/{name}");
        succeed(s.tool("touch").args(["-h", "-d", "@-1.5", &path]));
        succeed(s.tool("chown").args(["-h", "12:34", &path]));
        let stat = mounted.join(name).symlink_metadata().expect("stat");
        assert_eq!(
            (stat.mtime(), stat.mtime_nsec()),
            (-2, 500_000_000),
            "{name}"
        );
        assert_eq!((stat.uid(), stat.gid()), (12, 34), "{name}");
    }
    succeed(
        s.tool("setfattr")
            .args(["-h", "-n", "trusted.x", "-v", "y", "mnt/link"]),
    );
    succeed(s.tool("chmod").args(["604", "mnt/fifo"]));
    let wanted = manifest(mounted.path(), "holes");
    assert!(
        wanted.iter().any(|line| line.contains("trusted.x")),
        "{wanted:?}"
    );
    mounted.unmount();
    assert_sound(&image);
    let mounted = Loop::new(&s, &image);
    assert_same(&manifest(mounted.path(), "holes"), &wanted);
}

#[test]
fn where_nothing_can_be_mounted_it_says_why() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 64);
    let wrong = |args: &[&str], code, words: &str| {
        let output = exit(s.tane().args(args), code);
        assert!(text(&output.stderr).contains(words), "{args:?}: {output:?}");
    };
    wrong(&["mount", "disk.img", "none"], 1, "no such file");
    wrong(&["mount", "disk.img", "disk.img"], 1, "not a directory");
    wrong(&["mount", "none.img", "."], 3, "none.img");
    wrong(&["mount", "--background", "none.img", "."], 3, "none.img");
    wrong(&["umount", "."], 1, "no image is mounted there");
    wrong(&["umount", "none"], 1, "no such file");
}

#[test]
fn nothing_of_a_mount_in_the_background_has_the_terminal() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    std::fs::create_dir(s.join("mnt")).expect("a directory");
    let terminal = Terminal::new();
    let mut mount = s.tane();
    mount.args(["mount", "--background", "disk.img", "mnt"]);
    terminal.give(&mut mount);
    let mut started = mount.spawn().expect("tane");
    // It has the terminal too.
    drop(mount);
    assert!(started.wait().expect("a status").success());
    let mounted = Mounted::adopt(&s);
    eventually("nobody has the terminal", || !terminal.is_used());
    assert!(mounted.join("lost+found").is_dir());
    mounted.unmount();
}
