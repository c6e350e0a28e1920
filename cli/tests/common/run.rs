//! Programs that the Linux of an image runs.

use super::Scratch;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

/// Whether there is a kernel image that runs programs, and a static program; else the
/// test is skipped.
#[track_caller]
pub fn can_run() -> bool {
    tane_test_support::image("default").is_some()
        && tane_test_support::tool("busybox-static", "busybox").is_some()
}

/// The command, with the kernel image of this name.
pub fn on(s: &Scratch, kernel: &str) -> Command {
    let mut command = s.tane();
    if let Some(image) = tane_test_support::image(kernel) {
        command.arg("--kernel").arg(image);
    }
    command
}

/// A program of many, unchanged.
pub fn busybox() -> Vec<u8> {
    let places = ["/bin/busybox", "/usr/bin/busybox"].into_iter();
    let found = places.filter_map(|path| std::fs::read(path).ok()).next();
    found.expect("the package has it there")
}

/// A tree called `name` with what a program needs.
pub fn root(s: &Scratch, name: &str) {
    for dir in ["dev", "proc", "root", "sys", "tmp"] {
        std::fs::create_dir_all(s.join(&format!("{name}/{dir}"))).expect("a directory");
    }
    let program = format!("{name}/bin/busybox");
    s.write(&program, &busybox());
    s.make_executable(&program);
    for applet in [
        "cat", "cksum", "env", "id", "ls", "pwd", "sh", "sleep", "wc",
    ] {
        let path = s.join(&format!("{name}/bin/{applet}"));
        symlink("busybox", path).expect("a link");
    }
}

/// Adds all of BusyBox's programs to that tree.
pub fn applets(s: &Scratch, name: &str) {
    let list = super::succeed(s.tool("busybox").arg("--list")).stdout;
    for applet in super::text(&list).lines() {
        // Some are there.
        let _ = symlink("busybox", s.join(&format!("{name}/bin/{applet}")));
    }
}

/// Adds a program of the host's, with its loader and libraries, to that tree.
pub fn add_dynamic(s: &Scratch, name: &str, program: &str) {
    add_libraries(s, name, program);
    add_file(s, name, program);
}

/// Adds a program's loader and libraries to that tree.
pub fn add_libraries(s: &Scratch, name: &str, program: &str) {
    let said = Command::new("ldd").arg(program).output().expect("ldd");
    let said = String::from_utf8(said.stdout).expect("names");
    for path in said.split_whitespace().filter(|word| word.starts_with('/')) {
        add_file(s, name, path);
    }
}

fn add_file(s: &Scratch, name: &str, path: &str) {
    let copy = format!("{name}{path}");
    s.write(&copy, &std::fs::read(path).expect("a file of the host's"));
    s.make_executable(&copy);
}

/// `tane run` of a program in `disk.img`, made of [`root`].
pub fn run(s: &Scratch, options: &[&str], words: &[&str]) -> Command {
    let mut command = s.tane();
    command.args(["run", "--root", "disk.img"]).args(options);
    command.arg("--").args(words);
    command
}

/// `disk.img`, made of the tree `root`.
pub fn image() -> Option<Scratch> {
    can_run().then(|| {
        let s = Scratch::new();
        root(&s, "root");
        s.write(
            "root/etc/passwd",
            b"root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n",
        );
        s.write("root/etc/group", b"root:x:0:\nstaff:x:50:\n");
        s.write("root/etc/motd", b"good morning\n");
        s.ext4("disk.img", Some(&s.join("root")), 32);
        s
    })
}

/// It ends like this, and says this.
#[track_caller]
pub fn says(command: &mut Command, code: i32, out: &str, err: &str) {
    let done = command.output().expect("tane");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let found = (done.status.code(), text(&done.stdout), text(&done.stderr));
    assert_eq!(found, (Some(code), out.into(), err.into()));
}

/// With pipes for its input and output.
pub fn piped(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    super::heeds_ctrl_c(&mut command);
    command.spawn().expect("tane")
}
