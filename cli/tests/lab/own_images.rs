//! Promises of `tane kernel build`: an image of one's own, by the command and what is
//! installed beside it alone.

use crate::common::{exit, heeds_ctrl_c, succeed, text, Scratch};
use serde_json::Value;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's package; the tests that build are skipped without it.
fn source() -> Option<PathBuf> {
    let named = std::env::var_os("TANE_LINUX_SOURCE").map(PathBuf::from);
    let source = named.unwrap_or_else(|| "/usr/src/linux-source-6.12.tar.xz".into());
    if !source.exists() {
        tane_test_support::skip(format!("no {}", source.display()));
        return None;
    }
    Some(source)
}

/// A copy of the command below this directory, and nothing else of ours.
fn installed(place: PathBuf) -> Prefix {
    std::fs::create_dir_all(place.join("bin")).expect("directories");
    let tane = env!("CARGO_BIN_EXE_tane");
    succeed(Command::new("install").arg(tane).arg(place.join("bin")));
    Prefix(place)
}

/// What scripts/install puts beside it.
fn add_archive(prefix: &Prefix) {
    let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pack-kernel");
    succeed(Command::new(pack).arg(prefix.0.join("share/tane/kernel.tar.xz")));
}

/// Where it builds, made by it: of nothing nothing is built.
fn begin(prefix: &Prefix, s: &Scratch) {
    errors(
        &mut prefix.build(s, &["-o", "x.elf", "--recipes", "nowhere"]),
        3,
    );
}

/// Linux as it was unpacked for this checkout's images, if it was of the same archive: by
/// links, as unpacking it takes as long as the rest of the test.
fn lend_source(prefix: &Prefix) {
    let ours = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../build"));
    let theirs = prefix.0.join("work/build");
    let Ok(stamp) = std::fs::read_to_string(ours.join("source.stamp")) else {
        return;
    };
    std::fs::create_dir_all(&theirs).expect("directories");
    let version = stamp.lines().nth(1).expect("a version");
    let trees = std::fs::read_dir(ours).expect("reads").flatten();
    let name = format!("linux-{version}-");
    for tree in trees.filter(|e| e.file_name().to_string_lossy().starts_with(&name)) {
        let copied = |how: &[&str]| {
            let mut copy = Command::new("cp");
            copy.args(how).arg(tree.path()).arg(&theirs);
            copy.stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        // Another file system has no links to these files.
        if !copied(&["-al"]) {
            let _ = std::fs::remove_dir_all(theirs.join(tree.file_name()));
            assert!(copied(&["-a", "--reflink=auto"]), "no copy");
        }
    }
    std::fs::write(theirs.join("source.stamp"), stamp).expect("writes");
}

/// Goes away with its test.
struct Prefix(PathBuf);

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Prefix {
    fn build(&self, s: &Scratch, words: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("bin/tane"));
        command.current_dir(s.path()).stdin(Stdio::null());
        command.args(["kernel", "build"]).args(words);
        command.arg("--work").arg(self.0.join("work"));
        command
    }

    /// Processes that work there.
    fn processes(&self) -> usize {
        let place = self.0.join("work");
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let works_there = |entry: &std::fs::DirEntry| {
            let cwd = std::fs::read_link(entry.path().join("cwd"));
            cwd.is_ok_and(|cwd| cwd.starts_with(&place))
        };
        all.filter(works_there).count()
    }
}

fn errors(command: &mut Command, code: i32) -> String {
    text(&exit(command, code).stderr)
}

/// What a build takes at its place.
fn has_room(place: &Path) -> bool {
    const ROOM: u64 = 3 << 30;
    let place = CString::new(place.as_os_str().as_bytes()).expect("a path");
    // SAFETY: zeros are a structure of numbers, which the call fills; the path is a C string.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::statvfs>();
        (libc::statvfs(place.as_ptr(), &raw mut found) == 0).then_some(found)
    };
    let free = found.map_or(0, |found| found.f_bavail * found.f_frsize);
    if free < ROOM {
        tane_test_support::skip(format!("{} MiB free, a build takes 3 GiB", free >> 20));
    }
    free >= ROOM
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stopped by Ctrl-C once it compiles.
fn stop(mut child: Child, log: &Path) {
    until("it compiles", || {
        let ended = child.try_wait().expect("a child");
        assert_eq!(ended, None, "it has ended before it compiled");
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.contains("  CC      mm/")
    });
    // SAFETY: no memory involved.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(130));
}

#[test]
fn an_image_of_ones_own_is_built_from_a_fragment_without_our_source_tree() {
    let Some(source) = source() else { return };
    let s = Scratch::new();
    if !has_room(s.path()) {
        return;
    }
    let prefix = installed(s.join("prefix"));
    add_archive(&prefix);
    begin(&prefix, &s);
    lend_source(&prefix);
    let source = ["--base", "tiny", "--source", source.to_str().expect("text")];

    // What Kconfig does not take is named with why, before anything is compiled.
    let wrong =
        "CONFIG_BRIDGE=y\nCONFIG_EXT4_FSS=y\nCONFIG_MINIX_FS=m\n# CONFIG_CRC16 is not set\n";
    s.write("wrong.config", wrong.as_bytes());
    let words = [&source[..], &["--fragment", "wrong.config", "-o", "x.elf"]].concat();
    let said = errors(&mut prefix.build(&s, &words), 1);
    for reason in [
        "CONFIG_BRIDGE=y (wrong.config) came out as n: it needs NET, which is not set",
        "this Linux has no such option for this architecture; is EXT4_FS meant?",
        "CONFIG_MINIX_FS=m (wrong.config) came out as n: there are no modules in this image",
        "CONFIG_CRC16=n (wrong.config) came out as y: EXT4_FS selects it",
    ] {
        assert!(said.contains(reason), "{reason}\n{said}");
    }
    assert!(!s.join("x.elf").exists());

    let fragment = "# A file system more.\nCONFIG_MISC_FILESYSTEMS=y\nCONFIG_MINIX_FS=y\n";
    s.write("minix.config", fragment.as_bytes());
    let words = [
        &source[..],
        &["--fragment", "minix.config", "-o", "mine.elf"],
    ]
    .concat();
    let mut command = prefix.build(&s, &words);
    heeds_ctrl_c(&mut command);
    let child = command.stderr(Stdio::null()).spawn().expect("tane");
    stop(
        child,
        &prefix.0.join("work/build/logs/kernel-tiny+minix.log"),
    );
    until("nothing goes on", || prefix.processes() == 0);
    assert!(!s.join("mine.elf").exists());

    let output = succeed(prefix.build(&s, &words).arg("--json"));
    let told: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(told["name"], "tiny+minix");
    assert_eq!(told["built"], true);
    let bytes = std::fs::metadata(s.join("mine.elf"))
        .expect("the image")
        .len();
    assert_eq!(told["bytes"], bytes);
    let config = text(&s.read("mine.config"));
    assert!(config.contains("\nCONFIG_MINIX_FS=y\n"));
    // Nothing has changed since.
    let again = text(&succeed(&mut prefix.build(&s, &words)).stdout);
    assert!(again.ends_with("as it was\n"), "{again}");

    // It is booted by its name as a file, and has what was asked for.
    let image = s.join("disk.img");
    std::fs::write(&image, vec![0; 1 << 20]).expect("writes");
    succeed(s.tool("mkfs.minix").arg("-3").arg(&image));
    s.write("hello", b"hello\n");
    let with = |words: &[&str]| succeed(s.tane().args(["--kernel", "mine.elf"]).args(words));
    with(&["cp", "hello", "disk.img:/"]);
    assert_eq!(with(&["cat", "disk.img:/hello"]).stdout, b"hello\n");
}

#[test]
fn what_images_are_made_of_is_packed_to_the_same_bytes_whoever_packs_it() {
    let s = Scratch::new();
    let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pack-kernel");
    succeed(Command::new(pack).arg(s.join("one.tar.xz")));
    let mut other = Command::new("sh");
    other.args(["-c", "umask 077; exec \"$0\" \"$1\"", pack]);
    other.env("TAR_OPTIONS", "--mtime=@1").env("XZ_OPT", "-0");
    succeed(other.arg(s.join("another place/other.tar.xz")));
    assert_eq!(s.read("one.tar.xz"), s.read("another place/other.tar.xz"));
    let found = std::fs::metadata(s.join("another place/other.tar.xz"));
    let mode = found.expect("the archive").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn what_is_missing_for_packing_is_named_with_the_remedy() {
    let s = Scratch::new();
    let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pack-kernel");
    s.write(
        "scripts/pack-kernel",
        &std::fs::read(pack).expect("a script"),
    );
    let refused = |script: &mut Command, code: i32, reasons: &[&str]| {
        let done = script.output().expect("a shell");
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{said}");
        for reason in reasons {
            assert!(said.contains(reason), "{reason}\n{said}");
        }
    };
    refused(&mut Command::new(pack), 2, &["usage: ", "FILE.tar.xz"]);
    let mut without_tools = Command::new("/bin/sh");
    without_tools.arg(pack).arg(s.join("one.tar.xz"));
    without_tools.env("PATH", s.path());
    refused(
        &mut without_tools,
        1,
        &["there is no tar (Debian: tar)", "make deps-build"],
    );
    let mut without_source = s.tool("sh");
    without_source.args(["scripts/pack-kernel", "one.tar.xz"]);
    refused(
        &mut without_source,
        1,
        &["kernel/configs/images", "the whole source"],
    );
}

#[test]
fn what_cannot_be_built_is_refused_before_anything_is() {
    let s = Scratch::new();
    let build = |words: &[&str]| {
        let mut command = s.tane();
        command.args(["kernel", "build"]).args(words);
        command.arg("--work").arg(s.join("work"));
        command
    };
    let refused = |words: &[&str], code: i32, reasons: &[&str]| {
        let said = errors(&mut build(words), code);
        for reason in reasons {
            assert!(said.contains(reason), "{reason}\n{said}");
        }
    };
    s.write("odd.config", b"CONFIG_A=y\nEXT4_FS=y\n");
    refused(
        &["--fragment", "odd.config", "-o", "x.elf"],
        2,
        &["odd.config:2: no option: EXT4_FS=y", "CONFIG_NAME=VALUE"],
    );
    refused(
        &["--fragment", "smal", "-o", "x.elf"],
        2,
        &["smal: no such file", "small, smp"],
    );
    refused(
        &["--base", "tinny", "-o", "x.elf"],
        2,
        &["\"tinny\"", "tiny, smp"],
    );
    refused(
        &["--base", "lab-probes", "-o", "x.elf"],
        2,
        &["is an experiment"],
    );
    s.write("shell.config", b"CONFIG_LOCALVERSION=\"$(shell id)\"\n");
    refused(
        &["--fragment", "shell.config", "-o", "x.elf"],
        2,
        &["shell.config:1: no option: ", "in quotes"],
    );
    refused(&["-o", "x"], 2, &["NAME.elf"]);
    s.write("my.config", b"CONFIG_A=y\n");
    refused(
        &["--fragment", "my.config", "-o", "my.elf"],
        2,
        &["my.config would be replaced"],
    );
    s.write("disk.elf", b"a file of somebody's");
    refused(&["-o", "disk.elf"], 1, &["disk.elf: is there", "--force"]);
    assert_eq!(s.read("disk.elf"), b"a file of somebody's");
    s.write("other.sizes", b"another one");
    refused(&["-o", "other.elf"], 1, &["other.sizes: is there"]);
    s.write("ship.manifest", b"image: of a ship\n");
    refused(&["-o", "ship.elf"], 1, &["ship.manifest: is there"]);
    refused(
        &["-o", "x.elf", "--source", "nowhere.tar.xz"],
        3,
        &["nowhere.tar.xz: ", "a Linux 6.12"],
    );
    refused(
        &["-o", "x.elf", "--recipes", "my.config"],
        3,
        &["kernel.tar.xz"],
    );
    std::fs::create_dir_all(s.join("my kernel")).expect("a directory");
    refused(
        &["-o", "x.elf", "--recipes", "my kernel"],
        3,
        &["my kernel: ", "spaces"],
    );
    let said = errors(build(&["-o", "x.elf"]).env("PATH", s.path()), 3);
    assert!(
        said.contains("gcc") && said.contains("bison, flex"),
        "{said}"
    );
    // A tree that is another Linux's.
    let makefile = "VERSION = 6\nPATCHLEVEL = 11\nSUBLEVEL = 2\nEXTRAVERSION =\n";
    s.write("linux/Makefile", makefile.as_bytes());
    refused(
        &["-o", "x.elf", "--source", "linux"],
        3,
        &["Linux 6.11.2, and the port is for 6.12.x"],
    );
    assert!(!s.join("x.elf").exists());
}

#[test]
fn a_directory_with_files_of_somebody_is_not_built_in() {
    let s = Scratch::new();
    s.write("mine/kernel/notes", b"mine");
    let build = |work: &str| {
        let mut command = s.tane();
        command.args(["kernel", "build", "-o", "x.elf", "--work", work]);
        command.args(["--recipes", "nowhere"]);
        errors(&mut command, 3)
    };
    let said = build("mine");
    assert!(
        said.contains("mine/kernel: is there") && said.contains("--work"),
        "{said}"
    );
    assert_eq!(s.read("mine/kernel/notes"), b"mine");
    assert!(!s.join("mine/work.lock").exists());
    // What another program has marked as its own is not ours.
    s.write(
        "cache/CACHEDIR.TAG",
        b"Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    assert!(build("cache").contains("CACHEDIR.TAG: is there"));
    // What was empty is its own from then on.
    std::fs::create_dir_all(s.join("empty")).expect("a directory");
    for _ in 0..2 {
        assert!(build("empty").contains("nowhere: "));
    }
}

#[test]
fn a_command_without_what_images_are_made_of_says_where_it_looked() {
    let s = Scratch::new();
    let name = format!("tane-without-recipes-{}", std::process::id());
    let prefix = installed(std::env::temp_dir().join(name));
    let said = errors(&mut prefix.build(&s, &["-o", "x.elf"]), 3);
    let place = prefix.0.join("share/tane");
    let place = place.canonicalize().unwrap_or(place);
    assert!(said.contains(&*place.to_string_lossy()), "{said}");
    assert!(
        said.contains("kernel.tar.xz") && said.contains("--recipes"),
        "{said}"
    );
}
