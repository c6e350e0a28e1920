//! CPython's own tests of what an operating system does for it, by `tane run`: its
//! processes, threads, signals, memory maps and files.

use crate::common::run::{add_dynamic, root};
use crate::common::*;
use std::path::Path;
use std::sync::OnceLock;

const PROGRAM: &str = "/usr/bin/python3.11";
const LIBRARY: &str = "/usr/lib/python3.11";

/// An image with Debian's Python, its library and its tests. None: they are not installed.
fn image() -> Option<&'static Scratch> {
    static IMAGE: OnceLock<Option<Scratch>> = OnceLock::new();
    let made = IMAGE.get_or_init(|| {
        let tests = Path::new(LIBRARY).join("test/test_mmap.py");
        if !crate::common::run::can_run() || !tests.exists() {
            assert!(
                std::env::var_os("CI").is_none() || tests.exists(),
                "{} is missing: scripts/install-deps test",
                tests.display()
            );
            return None;
        }
        let s = Scratch::new();
        root(&s, "root");
        add_dynamic(&s, "root", PROGRAM);
        // By dlopen(3), when threads end.
        let unwinder = "/lib/x86_64-linux-gnu/libgcc_s.so.1";
        s.write(
            &format!("root{unwinder}"),
            &std::fs::read(unwinder).expect("a library"),
        );
        std::fs::create_dir_all(s.join("root/usr/lib")).expect("a directory");
        let mut copy = s.tool("cp");
        succeed(copy.args(["-a", LIBRARY, "root/usr/lib/"]));
        s.write("root/etc/passwd", b"root:x:0:0::/root:/bin/sh\n");
        s.write("root/etc/group", b"root:x:0:\n");
        s.write("root/etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n");
        let services = b"echo 7/tcp\necho 7/udp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\n";
        s.write("root/etc/services", services);
        s.ext4("python.img", Some(&s.join("root")), 512);
        Some(s)
    });
    made.as_ref()
}

#[track_caller]
fn passes(module: &str) {
    let Some(s) = image() else { return };
    let mut command = s.tane();
    command.args([
        "run",
        "--root",
        "python.img",
        "--memory",
        "1G",
        "--",
        PROGRAM,
    ]);
    let done = command
        .args(["-m", "test", "-v", module])
        .output()
        .expect("tane");
    let said = String::from_utf8_lossy(&done.stdout);
    // What was skipped as a whole shows nothing.
    let ran = said.contains("Tests result: SUCCESS") && said.contains("\nRan ");
    let end = |bytes: &[u8]| {
        let from = bytes.len().saturating_sub(6000);
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    };
    assert!(
        done.status.success() && ran,
        "{module}: {}\n{}\n{}",
        done.status,
        end(&done.stdout),
        end(&done.stderr)
    );
}

/// One test a module.
macro_rules! modules {
    ($($test:ident: $module:literal,)*) => {
        $(
            #[test]
            fn $test() {
                passes($module);
            }
        )*
    };
}

modules! {
    forks: "test_fork1",
    waits: "test_wait4",
    memory_maps: "test_mmap",
    selects: "test_select",
    posix: "test_posix",
    pipes_of_shells: "test_popen",
    locks_of_threads: "test_thread",
    threads: "test_threading",
    signals_of_threads: "test_threadsignals",
    trees_of_files: "test_shutil",
    temporary_files: "test_tempfile",
    what_an_operating_system_is_asked_for: "test_os",
    programs_that_are_started: "test_subprocess",
    signals: "test_signal",
    readiness: "test_epoll",
    names_of_files: "test_pathlib",
    sockets: "test_socket",
    terminals: "test_pty",
    user_accounts: "test_pwd",
    event_loops: "test_asyncio.test_unix_events",
    child_watchers: "test_asyncio.test_subprocess",
    selectors: "test_selectors",
}
