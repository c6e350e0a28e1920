//! Promises of the C library, by C programs that are compiled here. They run
//! where there is a kernel image.

mod common;

use common::{compile, has_kernel, libraries, module, run, source, Scratch, SHARED, STATIC};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane_test_support::sums;

fn cc(scratch: &Scratch, file: &str, link: &[&str]) -> PathBuf {
    let program = scratch.0.join("program");
    compile(&program, file, link);
    program
}

/// A file system with one file in it, or None where nothing is to be run.
#[track_caller]
fn image(scratch: &Scratch) -> Option<PathBuf> {
    if !has_kernel() {
        return None;
    }
    let tree = scratch.0.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    std::fs::write(tree.join("hello"), "from C\n").expect("a file");
    Some(ext4(scratch, Some(&tree)))
}

fn ext4(scratch: &Scratch, tree: Option<&Path>) -> PathBuf {
    let image = scratch.0.join("image");
    let file = std::fs::File::create(&image).expect("a file");
    file.set_len(32 << 20).expect("its size");
    let mut mkfs = sbin("mkfs.ext4");
    mkfs.args(["-qF", "-L", "test"]);
    if let Some(tree) = tree {
        mkfs.arg("-d").arg(tree);
    }
    run(mkfs.arg(&image));
    image
}

/// Programs of e2fsprogs lie where an ordinary user's PATH does not look.
fn sbin(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command
}

/// e2fsck is content.
fn fsck(image: &Path) {
    run(sbin("e2fsck").arg("-fn").arg(image));
}

fn start(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries());
    if let Ok(image) = tane::default_image() {
        command.env("TANE_IMAGE", image);
    }
    command
}

#[test]
fn the_calls_keep_the_promises_of_the_header() {
    for (name, link) in [("shared", SHARED), ("static", STATIC)] {
        let scratch = Scratch::new(name);
        let program = cc(&scratch, "tests/api.c", link);
        if !has_kernel() {
            continue;
        }
        let image = ext4(&scratch, None);
        run(start(&program).arg(&image));
        fsck(&image);
    }
}

#[test]
fn memory_keeps_the_promises_of_the_header() {
    let scratch = Scratch::new("memory");
    let program = cc(&scratch, "tests/memory.c", SHARED);
    if !has_kernel() {
        return;
    }
    let image = ext4(&scratch, None);
    run(start(&program).arg(&image));
    fsck(&image);
}

#[test]
fn a_child_of_fork_goes_on_with_a_shared_kernel() {
    let scratch = Scratch::new("forked");
    let program = cc(&scratch, "tests/shared.c", SHARED);
    if has_kernel() {
        run(&mut start(&program));
    }
}

#[test]
fn io_uring_reads_and_writes_through_registered_buffers() {
    let scratch = Scratch::new("ring");
    let program = cc(&scratch, "tests/uring.c", SHARED);
    let Some(kernel) = tane_test_support::image("default") else {
        return;
    };
    let tree = scratch.0.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    // No whole number of pages, which O_DIRECT rounds up to.
    let bytes = sums::bytes(1_300_123, 0);
    std::fs::write(tree.join("data"), &bytes).expect("a file");
    let image = ext4(&scratch, Some(&tree));
    let mut program = start(&program);
    run(program
        .env("TANE_IMAGE", kernel)
        .arg(&image)
        .arg(tree.join("data")));
    fsck(&image);
    for name in ["written", "written-direct"] {
        // It shares no code with Linux.
        let mut debugfs = sbin("debugfs");
        debugfs.arg("-R").arg(format!("cat {name}")).arg(&image);
        let output = debugfs.output().expect("debugfs");
        assert!(output.stdout == bytes, "{name}: {output:?}");
    }
}

#[test]
fn images_are_opened_as_the_command_opens_them() {
    let scratch = Scratch::new("images");
    let program = cc(&scratch, "tests/image.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    run(start(&program).arg(&image));
}

#[test]
fn checkpoints_keep_the_promises_of_the_header() {
    let scratch = Scratch::new("checkpoint");
    let program = cc(&scratch, "tests/checkpoint.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    let before = std::fs::read(&image).expect("the image");
    run(start(&program).arg(&image));
    assert!(std::fs::read(&image).expect("the image") == before);
}

#[test]
fn traces_keep_the_promises_of_the_header() {
    let scratch = Scratch::new("trace");
    let program = cc(&scratch, "tests/trace.c", SHARED);
    let images = ["lab", "default"].map(tane_test_support::image);
    if let [Some(lab), Some(default)] = images {
        run(start(&program).arg(lab).arg(default));
    }
}

#[test]
fn networks_keep_the_promises_of_the_header() {
    let scratch = Scratch::new("net");
    let program = cc(&scratch, "tests/net.c", SHARED);
    if let Some(kernel) = tane_test_support::image("default") {
        let capture = scratch.0.join("packets.pcapng");
        run(start(&program).env("TANE_IMAGE", kernel).arg(capture));
    }
}

#[test]
fn connections_over_several_paths_keep_the_promises_of_the_header() {
    let scratch = Scratch::new("mptcp");
    let program = cc(&scratch, "tests/mptcp.c", SHARED);
    if let Some(kernel) = tane_test_support::image("default") {
        run(start(&program).env("TANE_IMAGE", kernel));
    }
}

#[test]
fn the_cat_example_prints_a_file() {
    let scratch = Scratch::new("cat");
    let program = cc(&scratch, "examples/cat.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    let text = run(start(&program).arg(&image).arg("/hello"));
    assert_eq!(text, "from C\n");
    let output = start(&program).arg(&image).arg("/none").output();
    let errors = output.expect("it runs").stderr;
    let errors = String::from_utf8_lossy(&errors);
    assert!(errors.starts_with("cat: open /none: "), "{errors}");
}

#[test]
fn the_list_example_reads_through_its_own_functions() {
    let scratch = Scratch::new("list");
    let program = cc(&scratch, "examples/list.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    let text = run(start(&program).arg(&image).arg("/"));
    let mut names: Vec<_> = text.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["hello", "lost+found"]);
}

#[test]
fn the_uring_example_reads_a_tree_in_batches() {
    let scratch = Scratch::new("uring");
    let program = cc(&scratch, "examples/uring.c", SHARED);
    let Some(kernel) = tane_test_support::image("default") else {
        return;
    };
    let tree = scratch.0.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    sums::tree(&tree);
    let image = ext4(&scratch, Some(&tree));
    let uring = |arguments: &[&str]| {
        let mut uring = start(&program);
        uring.env("TANE_IMAGE", &kernel).args(arguments);
        uring
    };
    let image = image.to_str().expect("our name");
    for poll in [&[][..], &["--poll"]] {
        let text = run(&mut uring(&[poll, &[image, "/"]].concat()));
        assert_eq!(sums::sorted(&text), sums::cksum(&tree));
        let text = run(&mut uring(&[poll, &[image, "a/b/c/8"]].concat()));
        let lines = sums::sorted(&text);
        assert!(
            lines.len() == 1 && lines[0].ends_with(" 1000003 a/b/c/8/file"),
            "{text}"
        );
    }
    let output = uring(&[image, "/none"]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.starts_with("uring: ") && errors.contains("/none: "),
        "{errors}"
    );
}

#[test]
fn a_jailed_worker_mounts_and_reads_and_does_nothing_else() {
    let scratch = Scratch::new("jail");
    let program = cc(&scratch, "tests/jail.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    let kernel = tane::default_image().expect("has_kernel");
    let outside = scratch.0.join("outside");
    std::fs::write(&outside, "secret").expect("a file");
    run(start(&program).arg(kernel).arg(&image).arg(&outside));
}

#[test]
fn workers_keep_the_promises_of_the_header() {
    let scratch = Scratch::new("worker");
    let program = cc(&scratch, "tests/worker.c", SHARED);
    let Some(image) = image(&scratch) else { return };
    run(start(&program).arg(&image));
}

#[test]
fn mounts_that_the_host_sees_keep_the_promises_of_the_header() {
    for place in ["here", "worker"] {
        let scratch = Scratch::new(&format!("host-mount-{place}"));
        let program = cc(&scratch, "tests/host_mount.c", SHARED);
        let tools = ["acl", "util-linux"]
            .into_iter()
            .zip(["setfacl", "setpriv"]);
        let missing = |(package, name)| tane_test_support::tool(package, name).is_none();
        if tools.clone().any(missing) || !tane_test_support::has_fuse() {
            return;
        }
        let Some(image) = image(&scratch) else { return };
        let point = scratch.0.join("mnt");
        std::fs::create_dir(&point).expect("a directory");
        // Not what the host has as its name.
        let point = point.canonicalize().expect("its full name");
        let done = start(&program)
            .args([&image, &point])
            .arg(place)
            .output()
            .expect("it runs");
        let _ = Command::new("umount").arg("-l").arg(&point).output();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{place}: {errors}");
        fsck(&image);
        let mut debugfs = sbin("debugfs");
        let text = run(debugfs.args(["-R", "cat /last"]).arg(&image));
        assert_eq!(text, "kept\n", "{place}");
    }
}

#[test]
fn checked_code_keeps_the_promises_of_the_header() {
    let scratch = Scratch::new("module");
    let program = cc(&scratch, "tests/module.c", SHARED);
    let [module, sockets] = ["module", "sockets"].map(|name| module(&scratch, name));
    let Some(image) = image(&scratch) else { return };
    run(start(&program).arg(module).arg(&image).arg(sockets));
    fsck(&image);
}

#[test]
fn the_header_is_c99_and_cpp_on_its_own() {
    let scratch = Scratch::new("header");
    let file = scratch.0.join("only.c");
    std::fs::write(&file, "#include <tane.h>\nint tane_only;\n").expect("a file");
    for language in [["-xc", "-std=c99"], ["-xc++", "-std=c++11"]] {
        let mut cc = Command::new("cc");
        cc.args(language);
        cc.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        run(cc.arg("-I").arg(source("include")).arg(&file));
    }
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let header = std::fs::read_to_string(source("include/tane.h")).expect("the header");
    let mut declared: Vec<_> = header
        .split('(')
        .filter_map(|text| {
            text.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
        })
        .filter(|word| word.starts_with("tane_"))
        .collect();
    declared.sort_unstable();
    declared.dedup();
    let library = libraries().join("libtane.so");
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library));
    let mut exported: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| !name.starts_with('_'))
        .collect();
    exported.sort_unstable();
    assert_eq!(exported, declared);
}

/// What is installed, as programs find it.
#[test]
fn the_installed_library_has_a_soname_a_version_for_each_symbol_and_a_pc_file() {
    let scratch = Scratch::new("installed");
    let lib = scratch.0.join("usr/lib");
    let script = source("../scripts/link-library");
    run(Command::new(script).arg(libraries()).arg(&lib));
    let library = lib.join("libtane.so");
    let read = |what: &str| {
        let output = Command::new("readelf")
            .args(["-W", what])
            .arg(&library)
            .output();
        String::from_utf8(output.expect("readelf").stdout).expect("text")
    };
    assert!(read("-d").contains("Library soname: [libtane.so.0]"));
    let symbols = read("--dyn-syms");
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter(|line| !line.contains(" UND ") && line.contains(" FUNC "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(source("include/tane.h")).expect("the header");
    let mut declared: Vec<String> = functions(&header)
        .map(|name| format!("{name}@@TANE_0.1"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 50);
    assert_eq!(exported, declared);

    std::fs::create_dir(scratch.0.join("usr/include")).expect("a directory");
    std::fs::copy(
        source("include/tane.h"),
        scratch.0.join("usr/include/tane.h"),
    )
    .expect("a copy");
    let Some(mut config) = tane_test_support::tool("pkgconf", "pkgconf") else {
        return;
    };
    config.env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let output = config.args(["--cflags", "--libs", "tane"]).output();
    let flags = String::from_utf8(output.expect("pkgconf").stdout).expect("text");
    let code = "#include <tane.h>\nint main(void) { return tane_version() != 1; }\n";
    std::fs::write(scratch.0.join("main.c"), code).expect("a program");
    let program = scratch.0.join("main");
    let mut cc = Command::new("cc");
    cc.arg(scratch.0.join("main.c")).arg("-o").arg(&program);
    run(cc.args(flags.split_whitespace()));
    run(Command::new(&program).env("LD_LIBRARY_PATH", &lib));
}

/// The functions that a header declares: names before a parenthesis, outside comments.
fn functions(header: &str) -> impl Iterator<Item = &str> {
    let code = header
        .split("*/")
        .filter_map(|part| part.split("/*").next());
    code.flat_map(|part| part.split('(').collect::<Vec<_>>())
        .filter_map(|before| {
            let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let name = &before[start.map_or(0, |at| at + 1)..];
            name.starts_with("tane_").then_some(name)
        })
}
