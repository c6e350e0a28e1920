//! What the tests of the worker share: an image, made by mke2fs.
#![allow(dead_code)] // every test program uses a part of it

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tane::ImageOptions;
use tane_test_support::{tool, Scratch};
use tane_worker::{Image, Mount, Options};

/// On a disk.
pub fn scratch() -> Scratch {
    Scratch::within(Path::new(env!("CARGO_TARGET_TMPDIR")), "worker")
}

pub const BIG: usize = 3 << 20;

/// `hello`, `big` and a hundred files in `d`; None where nothing is to be run.
#[track_caller]
pub fn image(s: &Scratch) -> Option<PathBuf> {
    tane_test_support::has_kernel(tane::default_image())?;
    let tree = s.join("tree");
    std::fs::create_dir_all(tree.join("d/deep")).expect("a directory");
    let write = |name: &str, data: &[u8]| std::fs::write(tree.join(name), data).expect("a file");
    write("hello", b"from the image\n");
    write("d/deep/down", b"deeper\n");
    write("big", &pattern(BIG));
    for n in 0..100 {
        write(&format!("d/{n:03}"), n.to_string().as_bytes());
    }
    let image = s.join("disk.img");
    let made = tool("e2fsprogs", "mke2fs")?
        .args(["-qF", "-t", "ext4", "-d"])
        .args([&tree, &image])
        .arg("64M")
        .status();
    assert!(made.expect("mke2fs").success());
    Some(image)
}

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 251 + i) as u8).collect()
}

pub fn options() -> Options {
    let mut options = Options::new();
    options.program(env!("CARGO_BIN_EXE_tane-worker"));
    options
}

pub fn writing() -> ImageOptions {
    ImageOptions {
        write: true,
        ..ImageOptions::new()
    }
}

pub fn with_secret(secret: impl Into<Vec<u8>>) -> ImageOptions {
    ImageOptions {
        secrets: vec![secret.into()],
        ..ImageOptions::new()
    }
}

pub fn open(image: &Path) -> (Image, Mount) {
    let image = options().open(image).expect("an image");
    let mount = image.mount(None, &Default::default()).expect("a mount");
    (image, mount)
}

/// A process of its own that has an image open: this program again, which runs the test
/// of that name, which calls [`Caller::work`].
pub struct Caller {
    pub child: Child,
    pub worker: u32,
}

const CALLER: &str = "TANE_TEST_CALLER";

impl Caller {
    /// In the process that is one: open the image, do this, and wait for the end.
    pub fn work(more: impl FnOnce()) {
        let Some(disk) = std::env::var_os(CALLER) else {
            return;
        };
        let (image, _mount) = open(disk.as_ref());
        println!("worker {}", image.pid());
        more();
        println!("ready");
        loop {
            std::thread::park();
        }
    }

    pub fn start(test: &str, disk: &Path) -> Caller {
        let mut child = Command::new(std::env::current_exe().expect("this"))
            .args(["--exact", test, "--nocapture"])
            .env(CALLER, disk)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a caller");
        let output = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines();
        let find = |lines: &mut Lines<BufReader<ChildStdout>>, word: &str| loop {
            let line = lines.next().expect("a line").expect("text");
            if let Some((_, rest)) = line.split_once(word) {
                break rest.trim().to_owned();
            }
        };
        let worker = find(&mut lines, "worker ").parse().expect("a number");
        find(&mut lines, "ready");
        Caller { child, worker }
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}
