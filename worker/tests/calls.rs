//! Promises about calls that a worker does: what Linux in this process does.

mod common;

use common::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use tane_worker::{Calls, FileCalls, ImageCalls, KernelCalls, Lister, Listing, Options};

fn local(disk: &Path) -> tane::Mount {
    let image = tane::Image::open(disk).expect("an image");
    image
        .mount(None, &tane::MountOptions::new())
        .expect("a mount")
}

#[test]
fn a_worker_answers_what_a_kernel_in_this_process_answers() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, there) = open(&disk);
    let mount = local(&disk);
    let here: &tane::Tree = &mount;
    for path in ["hello", "d", "/", "d/../big", "none", "hello/none", ""] {
        let path = OsStr::new(path);
        for flags in [0, 1] {
            let both = [there.stat(path, flags), Calls::stat(here, path, flags)];
            let [a, b] = both.map(|r| {
                r.map(|mut stat| {
                    // The number of the mount.
                    stat.dev = 0;
                    stat
                })
            });
            assert_eq!(a, b, "{path:?}: errno and text too");
        }
        assert_eq!(there.readlink(path), Calls::readlink(here, path));
        assert_eq!(there.mkdir(path, 0o700), Calls::mkdir(here, path, 0o700));
        assert_eq!(there.listxattr(path, 0), Calls::listxattr(here, path, 0));
    }
    assert_eq!(there.statfs(), Calls::statfs(here));
    assert_eq!(image.volumes().expect("volumes").0.len(), 1);
    assert!(image.is_alive().expect("alive"));
    assert!(image.dmesg().expect("a log").contains("Linux version"));
    let refused = image.mount(Some("7"), &Default::default());
    assert_eq!(refused.expect_err("no such").errno, libc::ENXIO);
    let missing = options().open(s.join("none")).expect_err("no such");
    let text = tane::Image::open(s.join("none"))
        .expect_err("no such")
        .to_string();
    assert_eq!((missing.errno, missing.text), (libc::ENOENT, text));
}

type Tree = BTreeMap<String, Vec<(String, u32, u64)>>;

fn walked(mut next: impl FnMut() -> tane_worker::Result<Option<Listing>>) -> Tree {
    let (mut all, mut at) = (Tree::new(), String::new());
    while let Some(listing) = next().expect("an entry") {
        match listing {
            Listing::Directory(path) => at = path.to_str().expect("ASCII").into(),
            Listing::Entry(entry) => {
                let length = entry.stat.map_or(0, |s| s.length);
                let name = entry.name.to_str().expect("ASCII").into();
                all.entry(at.clone())
                    .or_default()
                    .push((name, entry.kind, length));
            }
        }
    }
    all
}

#[test]
fn listings_and_walks_are_those_of_this_process() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (_image, there) = open(&disk);
    let here = local(&disk);
    for flags in 0..4 {
        let mut remote = there.list("/".as_ref(), flags).expect("a listing");
        let mut own = Lister::new(&here, "/".as_ref(), flags).expect("a listing");
        let tree = walked(|| remote.next());
        assert_eq!(tree, walked(|| own.next()), "{flags}");
        remote.rewind().expect("again");
        own.rewind().expect("again");
        assert_eq!(walked(|| remote.next()), tree);
        assert_eq!(walked(|| own.next()), tree);
        assert_eq!(tree.contains_key("d/deep"), flags & 2 != 0);
    }
}

#[test]
fn data_of_any_length_comes_and_goes_whole() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let image = options().image(writing()).open(&disk).expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    let file = mount
        .open_file("big".as_ref(), libc::O_RDWR, 0)
        .expect("a file");
    let (mut read, all) = (vec![0; BIG + 100], pattern(BIG));
    assert_eq!(file.pread(&mut read, 0), Ok(BIG));
    assert_eq!(&read[..BIG], all);
    assert_eq!(file.pread(&mut read, BIG as u64), Ok(0));
    assert_eq!(file.read(&mut read[..10]), Ok(10));
    assert_eq!(file.lseek(0, libc::SEEK_CUR), Ok(10));
    let new: Vec<_> = all.iter().map(|b| !b).collect();
    assert_eq!(file.pwrite(&new, 1), Ok(BIG));
    file.fsync().expect("it is there");
    assert_eq!(file.fstat().expect("it").length, BIG as u64 + 1);
    drop(file);
    mount.unmount().expect("nothing is open");
    drop(image);
    let here = local(&disk);
    assert_eq!(here.read("big").expect("it")[1..], new);
}

#[test]
fn small_reads_and_seeks_have_one_position() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (_image, mount) = open(&disk);
    let file = mount
        .open_file("big".as_ref(), libc::O_RDONLY, 0)
        .expect("a file");
    let all = pattern(BIG);
    let mut at = 0;
    let read = |file: &tane_worker::File, at: &mut usize, len: usize| {
        let mut room = vec![0; len];
        let n = file.read(&mut room).expect("its data");
        assert!(n > 0 && room[..n] == all[*at..][..n], "{n} at {at}");
        *at += n;
    };
    for len in [3, 100, 70_000, 1, 16_383, 60_000, 5] {
        read(&file, &mut at, len);
        assert_eq!(file.lseek(0, libc::SEEK_CUR), Ok(at as i64));
        read(&file, &mut at, len);
        at -= 2;
        assert_eq!(file.lseek(-2, libc::SEEK_CUR), Ok(at as i64));
    }
    for back in [7, 200_000] {
        at = BIG - back;
        assert_eq!(file.lseek(-(back as i64), libc::SEEK_END), Ok(at as i64));
        while at < BIG {
            read(&file, &mut at, 1000);
        }
        assert_eq!(file.read(&mut [0; 10]), Ok(0));
    }
    let failure = file
        .lseek(-1, libc::SEEK_SET)
        .expect_err("before the start");
    assert_eq!(failure.errno, libc::EINVAL);
}

#[test]
fn many_files_are_read_by_few_messages() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (_image, mount) = open(&disk);
    let mut names: Vec<_> = (0..100).map(|n| format!("d/{n:03}")).collect();
    names.insert(50, "none".into());
    names.insert(60, "big".into());
    let name = |at: usize| names.get(at).map(|n| Ok(OsStr::new(n.as_str())));
    let mut room = vec![0; BIG + 4096];
    let mut fared = Vec::new();
    let done = mount.read_files(name, &mut room, |at, one| {
        assert_eq!(at, fared.len());
        fared.push(one);
    });
    assert_eq!(done, Ok(names.len()));
    assert_eq!(fared[50], Err(libc::ENOENT));
    assert_eq!(fared[60], Ok(BIG));
    let text: String = (0..59).map(|n| n.to_string()).collect();
    assert!(room.starts_with(text.as_bytes()));
    assert_eq!(room[text.len()..][..BIG], pattern(BIG));
    // Where one has no room, it ends.
    let done = mount.read_files(name, &mut room[..BIG], |_, _| {});
    assert_eq!(done, Ok(60));
}

#[test]
fn what_is_only_read_is_unmounted_before_it_is_mounted_again() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mut mount) = open(&disk);
    for _ in 0..20 {
        assert_eq!(mount.stat(OsStr::new("hello"), 0).expect("it").length, 15);
        mount.unmount().expect("unmounted");
        mount = image.mount(None, &Default::default()).expect("mounted");
    }
    // Linux says nothing when it gives somebody else what is mounted already.
    let log = image.dmesg().expect("a log");
    let times = |what: &str| log.matches(what).count();
    assert_eq!(times("): mounted filesystem"), 21, "{log}");
    assert_eq!(times("): unmounting filesystem"), 20, "{log}");
}

#[test]
fn a_mount_with_an_open_file_is_busy() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk);
    let file = mount.open_file(OsStr::new("hello"), libc::O_RDONLY, 0);
    let busy = mount.unmount().expect_err("a file is open");
    assert_eq!(busy.errno, libc::EBUSY);
    let mut text = [0; 4];
    assert_eq!(file.expect("a file").pread(&mut text, 0), Ok(4));
    let again = image.mount(None, &Default::default()).expect("mounted");
    again.unmount().expect("unmounted");
}

#[test]
fn threads_call_at_once() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (_image, mount) = open(&disk);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let mount = &mount;
            scope.spawn(move || {
                for n in 0..100 {
                    let n = (n * 7 + thread) % 100;
                    let name = format!("d/{n:03}");
                    let flags = libc::O_RDONLY;
                    let file = mount.open_file(name.as_ref(), flags, 0).expect("a file");
                    let mut text = [0; 8];
                    let len = file.pread(&mut text, 0).expect("its data");
                    assert_eq!(text[..len], *n.to_string().as_bytes());
                }
            });
        }
    });
}

#[test]
fn a_missing_program_is_an_error_that_says_what_to_do() {
    let failure = Options::new()
        .program("/none")
        .open("x")
        .expect_err("no program");
    assert_eq!(failure.errno, libc::ENOENT);
    assert!(failure.text.contains("start the worker /none"), "{failure}");
    let failure = Options::new()
        .program("/bin/true")
        .open("x")
        .expect_err("no worker");
    assert_eq!(failure.errno, libc::ESHUTDOWN);
    assert!(failure.text.contains("ended with code 0"), "{failure}");
}
