//! The Rust, C and Go of the documentation compiles, and does what it says. Rust is
//! here word for word, which is checked; C and Go are compiled from where they are.

mod common;

use common::{has_kernel, libraries, run, source};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const README: &str = include_str!("../../README.md");
const LIBRARY: &str = include_str!("../../docs/library.md");
const GO: &str = include_str!("../../docs/go.md");

/// The blocks of code in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    let parts = text.split(&start).skip(1);
    let block = |part: &str| part.split("```").next().unwrap_or_default().to_owned();
    parts.map(block).collect()
}

fn only(text: &str, language: &str) -> String {
    let mut blocks = blocks(text, language);
    assert_eq!(blocks.len(), 1);
    blocks.remove(0)
}

/// Without what is the formatter's business.
fn plain(code: &str) -> String {
    let lines = code
        .lines()
        .map(|l| l.split("//").next().unwrap_or_default());
    let dense: String = lines.flat_map(str::split_whitespace).collect();
    dense.replace(",)", ")")
}

fn readme() -> Result<()> {
    let image = tane_jailed::Image::open("disk.qcow2")?;
    let mount = image.mount(None, &tane_jailed::MountOptions::new())?;
    print!("{}", mount.read_to_string("/etc/os-release")?);
    for entry in mount.read_dir("/etc")? {
        println!("{}", entry?.path().display());
    }
    assert_ne!(image.pid(), std::process::id());
    Ok(())
}

fn jailed() -> Result<()> {
    use std::io::Write;
    use tane_jailed::{Image, ImageOptions, MountOptions, OpenOptions, Options};

    let mut options = Options::new();
    options.image(ImageOptions {
        write: true,
        ..ImageOptions::new()
    });
    let image = Image::open_with("disk.img", &options)?;
    let mount = image.mount(None, &MountOptions::new())?;
    mount.write("/etc/hostname", "example\n")?;
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&mount, "/log")?;
    log.write_all(b"hostname changed\n")?;
    drop(log);
    mount.copy("/etc/hostname", "/etc/hostname.old")?;
    for entry in mount.read_dir("/etc")? {
        let entry = entry?;
        println!("{} {}", entry.path().display(), entry.metadata()?.len());
    }
    mount.unmount()?;
    Ok(())
}

fn library() -> Result<()> {
    use tane::{DiskOptions, Kernel, MountOptions};

    let kernel = Kernel::boot()?;
    let disk = kernel.open_disk("disk.img", &DiskOptions::new())?;
    for partition in disk.partitions()? {
        println!(
            "{} {:?}",
            partition.number,
            kernel.probe(partition.device())?
        );
    }
    let mount = MountOptions::new().mount(&kernel, "/dev/vda1")?;
    mount.write("/etc/hostname", "example\n")?;
    mount.unmount()?;
    Ok(())
}

#[allow(clippy::needless_borrow)] // as the documentation has it
fn without_a_copy(kernel: &tane::Kernel, mount: &tane::Mount) -> Result<Vec<u8>> {
    use tane::{MapOptions, OpenOptions};
    let mut buffer = kernel.buffer(1 << 20)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&mount, "f")?;
    let n = file.read_at(&mut buffer, 0)?;

    let map = file.map(MapOptions::new().write(true))?;
    // SAFETY: nobody else has the mapping.
    unsafe { *map.as_mut_ptr()? = 1 };
    map.flush()?;
    Ok(buffer[..n].to_vec())
}

fn another_cpu() -> Result<()> {
    let kernel = tane::Kernel::builder()
        .cpus(8)
        .cmdline("maxcpus=1")
        .boot()?;
    let sys = kernel.tree("/sys")?;
    sys.write("devices/system/cpu/cpu1/online", "1")?;
    Ok(())
}

fn worker() -> Result<Vec<u8>> {
    let image = tane_worker::Options::new().open("disk.qcow2")?;
    let mount = image.mount(None, &Default::default())?;
    let file = mount.open_file("/etc/os-release".as_ref(), libc::O_RDONLY, 0)?;
    let mut bytes = vec![0; 100];
    let n = file.pread(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// An ext4 with etc/os-release and `f`, beside it one on a partition and one in a
/// qcow2, in a directory of their own, which this process is in from now on.
struct Here(PathBuf);

impl Here {
    fn new() -> Here {
        let dir = std::env::temp_dir().join(format!("tane-snippets-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("tree/etc")).expect("a directory");
        std::fs::create_dir_all(dir.join("on-partition")).expect("a directory");
        std::env::set_current_dir(&dir).expect("a directory");
        std::fs::write("tree/etc/os-release", "ID=seed\n").expect("a file");
        std::fs::write("tree/f", [7; 5000]).expect("a file");
        tool("mke2fs", "-q -t ext4 -d tree disk.img 32M");
        let mut disk = vec![0; 1 << 20];
        disk.extend(std::fs::read("disk.img").expect("the image"));
        disk.resize(disk.len() + (1 << 20), 0);
        std::fs::write("on-partition/disk.img", disk).expect("an image");
        let mut sfdisk = command("sfdisk", "-q on-partition/disk.img");
        let mut sfdisk = sfdisk.stdin(Stdio::piped()).spawn().expect("sfdisk");
        let input = sfdisk.stdin.take().expect("its input");
        let table = "label: gpt\nstart=1MiB, size=32MiB\n";
        std::io::Write::write_all(&mut &input, table.as_bytes()).expect("writes");
        drop(input);
        assert!(sfdisk.wait().expect("sfdisk").success());
        tool("qemu-img", "convert -O qcow2 disk.img disk.qcow2");
        tool(
            "qemu-img",
            "convert -O qcow2 on-partition/disk.img on-partition/disk.qcow2",
        );
        Here(dir)
    }

    fn at(&self, place: &str) {
        std::env::set_current_dir(self.0.join(place)).expect("a directory");
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = std::env::set_current_dir("/");
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(program: &str, args: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.args(args.split(' '));
    command
}

fn tool(program: &str, args: &str) {
    run(&mut command(program, args));
}

fn read(file: &str) -> String {
    let kernel = tane::Kernel::boot().expect("boots");
    let disk = kernel.open_disk("disk.img", tane::DiskOptions::new().read_only(true));
    let disk = disk.expect("opens");
    let mut options = tane::MountOptions::new();
    let mount = options.read_only(true).mount(&kernel, disk.device());
    mount.expect("mounts").read_to_string(file).expect("reads")
}

fn rust_runs(here: &Here) {
    readme().expect("README.md");
    jailed().expect("docs/library.md");
    assert_eq!(read("/etc/hostname.old"), "example\n");
    assert_eq!(read("/log"), "hostname changed\n");
    let kernel = tane::Kernel::boot().expect("boots");
    let disk = kernel.open_disk("disk.img", &tane::DiskOptions::new());
    let disk = disk.expect("opens");
    let mount = tane::MountOptions::new().mount(&kernel, disk.device());
    let mount = mount.expect("mounts");
    let seen = without_a_copy(&kernel, &mount).expect("docs/library.md");
    assert_eq!(seen, [7; 5000]);
    assert_eq!(mount.read("f").expect("reads")[..2], [1, 7]);
    mount.unmount().expect("unmounts");
    drop(disk);
    another_cpu().expect("docs/library.md");
    assert_eq!(worker().expect("docs/library.md"), b"ID=seed\n");
    here.at("on-partition");
    library().expect("docs/library.md");
    here.at("");
}

fn c_runs() {
    let code = only(LIBRARY, "c");
    let program = format!(
        "#include <tane.h>\n#include <err.h>\n#include <stdio.h>\nint main(void)\n{{\n{code}\n\
         \tputs(\"mounted\");\n\treturn tane_unmount(mount);\n}}\n"
    );
    std::fs::write("snippet.c", program).expect("a file");
    let place = libraries().display();
    let mut cc = command(
        "cc",
        "-std=gnu11 -Wall -Wextra -Werror -Wno-misleading-indentation -o snippet snippet.c",
    );
    cc.arg("-I").arg(source("include"));
    run(cc.args([
        &format!("-L{place}"),
        "-ltane",
        &format!("-Wl,-rpath,{place}"),
    ]));
    assert_eq!(run(&mut Command::new("./snippet")), "mounted\n");
}

/// As a module of its own, which finds ours as go/README.md says.
fn go_runs(here: &Here) {
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        let missing = "no go: Debian's package golang-go has it (make deps)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return tane_test_support::skip(missing);
    }
    let (long, short) = (only(GO, "go"), only(README, "go"));
    let program = format!(
        "package main\n\nimport (\n\t\"fmt\"\n\t\"io/fs\"\n\t\"tane\"\n)\n\nfunc long() error \
         {{\n{long}\n\tfmt.Print(string(release))\n\treturn err\n}}\n\nfunc short() (fs.FS, \
         error) {{\n{short}\n\treturn fsys, err\n}}\n\nfunc main() {{\n\tif err := long(); err \
         != nil {{\n\t\tpanic(err)\n\t}}\n\t_ = short\n}}\n"
    );
    here.at("on-partition");
    std::fs::write("main.go", program).expect("a file");
    let advice = only(include_str!("../../go/README.md"), "sh");
    let advice = advice.replace("/path/to/tane/go", &source("../go").display().to_string());
    let place = libraries().display();
    let shell = |script: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-euc", script]);
        sh.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
        sh.env("CGO_LDFLAGS", format!("-L{place} -Wl,-rpath,{place}"));
        sh.env("TANE_IMAGE", tane::default_image().expect("a kernel image"));
        run(&mut sh)
    };
    shell(&format!("go mod init snippet 2>/dev/null\n{advice}"));
    assert_eq!(shell("go run ."), "ID=seed\n");
    here.at("");
}

#[test]
fn what_the_documentation_shows_runs() {
    let own = plain(include_str!("snippets.rs"));
    let rust = [README, LIBRARY].map(|text| blocks(text, "rust")).concat();
    assert_eq!(rust.len(), 6);
    for block in rust {
        assert!(
            own.contains(&plain(&block)),
            "is not in this test:\n{block}"
        );
    }
    if !has_kernel() {
        return;
    }
    let here = Here::new();
    // libtane finds what it needs beside itself, which this program is not.
    let worker = libraries().join("tane-worker");
    assert!(Path::new(&worker).is_file());
    std::env::set_var("TANE_WORKER", worker);
    rust_runs(&here);
    c_runs();
    go_runs(&here);
}
