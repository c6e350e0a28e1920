//! What the tests of the command share: scratch directories, a sample tree and
//! its manifest, images made by other people's tools.
#![allow(dead_code)] // every test program uses a part of it

pub mod dns;
pub mod fuse;
pub mod make;
pub mod run;
pub mod schema;
pub mod terminal;
pub mod typist;
pub mod uml;
pub mod volumes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes away with its test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tane-cli-{}-{n}", std::process::id());
        // Not tmpfs: holes and attributes should be those of a real disk.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, data).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The sample tree: everything a file system can hold.
    pub fn sample(&self, name: &str, files: u32) -> PathBuf {
        let path = self.join(name);
        let files = format!("--files={files}");
        let args = ["make", path.to_str().expect("UTF-8"), "--big=3", &files];
        succeed(tree_script().args(args));
        path
    }

    /// Has a file be executed.
    pub fn make_executable(&self, name: &str) {
        make_executable(&self.join(name));
    }

    /// An ext4 image, of a directory's contents or empty.
    pub fn ext4(&self, name: &str, contents: Option<&Path>, mib: u32) -> PathBuf {
        let path = self.join(name);
        std::fs::File::create(&path)
            .and_then(|f| f.set_len(u64::from(mib) << 20))
            .expect("an image file");
        let mut mke2fs = sbin("mke2fs");
        // Small images get 1 KiB blocks, too small for long symlinks.
        mke2fs.args(["-q", "-t", "ext4", "-b", "4096", "-L", "sample"]);
        if let Some(dir) = contents {
            mke2fs.arg("-d").arg(dir);
        }
        succeed(mke2fs.arg(&path));
        path
    }

    /// The command, working here, on directories served by the host's kernel.
    pub fn host(&self) -> Command {
        let mut command = self.tane();
        command.arg("--kernel=host");
        command
    }

    /// Another program, working here, with arguments that hold no spaces.
    pub fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = self.tool(program);
        command.args(arguments.split(' '));
        command
    }

    /// Somebody else's program, working here.
    pub fn tool(&self, name: &str) -> Command {
        let mut command = sbin(name);
        command.current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// The command, working here, on images.
    pub fn tane(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tane"));
        command.current_dir(&self.0).stdin(Stdio::null());
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Command::new("chmod")
            .args(["-R", "u+rwx"])
            .arg(&self.0)
            .stderr(Stdio::null())
            .status();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// False, and the test is skipped, if tests of images were told not to run.
#[track_caller]
pub fn has_kernel() -> bool {
    tane_test_support::has_kernel(tane::default_image()).is_some()
}

fn tree_script() -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tree/tree.py");
    let mut python = Command::new("python3");
    python.arg(script);
    python
}

/// Debian keeps these where an ordinary user's PATH does not look.
pub fn sbin(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// Everything about a tree, to be compared; `without` leaves fields out.
pub fn manifest(dir: &Path, without: &str) -> Vec<String> {
    let args = [
        "manifest",
        dir.to_str().expect("UTF-8"),
        "--without",
        without,
    ];
    text(&succeed(tree_script().args(args)).stdout)
        .lines()
        .map(String::from)
        .collect()
}

pub fn assert_same(a: &[String], b: &[String]) {
    let only = |a: &[String], b: &[String]| {
        let b: std::collections::HashSet<_> = b.iter().collect();
        a.iter()
            .filter(|l| !b.contains(l))
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n  ")
    };
    assert!(
        a == b,
        "trees differ:\nwanted\n  {}\ngot\n  {}",
        only(a, b),
        only(b, a)
    );
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Has a file be executed. Another program copies it: while it was written here, a child
/// that another test was starting may have got the descriptor, and for as long as that is
/// open nobody can execute the file (ETXTBSY).
pub fn make_executable(path: &Path) {
    let written = path.with_extension("written");
    std::fs::rename(path, &written).expect("another name");
    succeed(
        Command::new("install")
            .args(["-m", "755"])
            .arg(&written)
            .arg(path),
    );
    std::fs::remove_file(&written).expect("the first copy");
}

/// Whether users who own none of its directories can: not, for example, below root's home.
pub fn others_come_to(path: &Path) -> bool {
    path.ancestors().skip(1).all(|dir| {
        let found = std::fs::metadata(dir).expect("a directory");
        std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o001 != 0
    })
}

pub fn succeed(command: &mut Command) -> Output {
    exit(command, 0)
}

/// Runs a command that must end with this code.
pub fn exit(command: &mut Command, code: i32) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Nobody else's checker finds fault with the image.
pub fn assert_sound(image: &Path) {
    succeed(sbin("e2fsck").arg("-fn").arg(image));
}

/// Whether the host can keep a copy in its destination; else the test is skipped.
#[track_caller]
pub fn has_landlock() -> bool {
    const VERSION: u32 = 1;
    let none = std::ptr::null::<u8>();
    // SAFETY: without a structure it only tells its version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    if version < 2 {
        tane_test_support::skip("the host has no Landlock of Linux 5.19 or newer");
    }
    version >= 2
}

/// Whoever starts the tests in the background, or by nohup(1), may have them ignore Ctrl-C
/// and the end of the terminal.
pub fn heeds_ctrl_c(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: signal() may be called there.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        });
    }
}
