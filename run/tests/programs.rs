//! Ordinary static programs do on this kernel what they do on the host's.

mod common;

use common::{here, on_the_host, put, start};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tane::Kernel;
use tane_run::{Command, Ending, Error, Streams};

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("program.c"))
}

fn with_kernel(test: impl FnOnce(&Kernel)) {
    common::with_kernel(program(), test);
}

#[track_caller]
fn same(words: &[&str], input: &'static [u8]) {
    common::same(program(), words, input);
}

#[test]
fn a_program_gets_arguments_and_environment_and_its_code_comes_back() {
    same(&["hello", "a b", "", "c"], b"");
}

#[test]
fn memory_is_allocated_moved_and_given_back() {
    same(&["memory"], b"");
}

#[test]
fn files_are_read_written_and_mapped() {
    same(&["files"], b"");
}

#[test]
fn signals_arrive_with_frames_stacks_and_restarts() {
    same(&["signals"], b"");
}

#[test]
fn time_passes_as_on_the_host() {
    same(&["clocks"], b"");
}

#[test]
fn threads_share_memory_wait_for_each_other_and_end() {
    same(&["threads"], b"");
}

#[test]
fn threads_that_still_compute_end_with_their_program() {
    same(&["leave-threads"], b"");
}

#[test]
fn a_program_puts_another_in_its_place() {
    with_kernel(|kernel| {
        let ours = here(kernel, &["/bin/program", "exec"], b"");
        assert_eq!(ours.code, 7, "{}", kernel.dmesg());
        assert!(ours.output.starts_with("0 again\ngood morning"), "{ours:?}");
    });
}

#[test]
fn input_output_and_errors_are_pumped() {
    same(&["stdin"], b"one\ntwo\nthree\n");
}

#[test]
fn a_signal_that_ends_a_program_is_told() {
    same(&["abort"], b"");
}

#[test]
fn many_calls_and_one_program_after_the_other() {
    with_kernel(|kernel| {
        for _ in 0..5 {
            assert_eq!(here(kernel, &["/bin/program", "many"], b"").code, 0);
        }
    });
}

#[test]
fn a_program_that_computes_is_killed_from_outside() {
    with_kernel(|kernel| {
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGINT] {
            let (child, _, _) = start(kernel, &["/bin/program", "loop"], b"");
            std::thread::sleep(Duration::from_millis(20));
            child.kill(signal).expect("it is there");
            assert_eq!(child.wait().expect("it ends"), Ending::Killed(signal));
        }
    });
}

#[test]
fn what_cannot_be_done_before_a_program_starts_is_not_told_as_the_programs() {
    with_kernel(|kernel| {
        let root = kernel.tree("/").expect("a root");
        root.create_dir_with("/shut", 0o700).expect("a directory");
        let command = Command::new("/bin/program").directory("/shut");
        let error = command.clone().user(1000, 1000).start(kernel, silent());
        let text = error.map(|c| c.pid()).expect_err("not that user's");
        let text = text.to_string();
        assert!(
            text.starts_with("the directory to start in: Permission denied"),
            "{text}"
        );
        let child = command.start(kernel, silent()).expect("it is root's");
        child.wait().expect("it ends");
    });
}

#[test]
fn busybox_does_what_it_does_on_the_host() {
    let Some(busybox) = tane_test_support::tool("busybox-static", "busybox") else {
        return;
    };
    let busybox = Path::new(busybox.get_program());
    with_kernel(|kernel| {
        put(kernel, busybox, "/bin/busybox");
        for words in [
            &["seq", "1", "20000"][..],
            &[
                "sh",
                "-c",
                "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; echo $i",
            ],
            &[
                "awk",
                "BEGIN { for (i = 0; i < 50000; i++) s += i * i; print s }",
            ],
            &["sha256sum"],
            &["sort", "-r"],
            &["false"],
            &["nosuchapplet"],
        ] {
            let input = b"some\nlines\nof\ntext\n";
            let mut all = vec!["/bin/busybox"];
            all.extend(words);
            let (ours, theirs) = (
                here(kernel, &all, input),
                on_the_host(busybox, words, input),
            );
            assert_eq!(ours, theirs, "{words:?}: {}", kernel.dmesg());
        }
        let maps = here(kernel, &["/bin/busybox", "cat", "/proc/self/maps"], b"");
        assert!(maps.output.contains("/bin/busybox\n"), "{maps:?}");
        assert!(maps.output.contains("[stack]\n"), "{maps:?}");
    });
}

fn silent() -> Streams {
    Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(std::io::sink()),
        errors: Box::new(std::io::sink()),
    }
}

#[test]
fn what_cannot_be_executed_is_named_with_the_reason() {
    with_kernel(|kernel| {
        let root = kernel.tree("/").unwrap();
        let mut arm = std::fs::read(program()).unwrap();
        arm[18..20].copy_from_slice(&183u16.to_le_bytes());
        let cut = std::fs::read(program()).unwrap()[..100].to_vec();
        for (name, content, mode, why) in [
            ("/text", b"echo hello\n".to_vec(), 0o755, "without #!"),
            (
                "/script",
                b"#!/bin/nosuch -x\n".to_vec(),
                0o755,
                "the interpreter /bin/nosuch",
            ),
            (
                "/steering",
                b"#!/bin/\x1b[2Jnosuch\n".to_vec(),
                0o755,
                "the interpreter /bin/\\u{1b}[2Jnosuch",
            ),
            ("/arm", arm, 0o755, "ARM64"),
            ("/cut", cut, 0o755, "damaged"),
            ("/empty", Vec::new(), 0o755, "is empty"),
            ("/plain", b"x".to_vec(), 0o644, "not executable"),
        ] {
            root.write(name, content).unwrap();
            root.set_permissions(name, mode).unwrap();
            let error = Command::new(name).start(kernel, silent()).err();
            let text = error.map(|e| e.to_string()).unwrap_or_default();
            assert!(
                text.contains(why) && text.contains(name),
                "{name}: {text:?}"
            );
        }
        let args = [
            c"/pipe".as_ptr() as u64,
            (libc::S_IFIFO | 0o755).into(),
            0,
            0,
            0,
            0,
        ];
        // SAFETY: the string lives as long as the call.
        assert_eq!(unsafe { kernel.syscall(libc::SYS_mknod, args) }, 0);
        for (name, why) in [
            ("/nosuch", "there is no /nosuch"),
            ("nosuch", "PATH"),
            ("/bin", "is a directory"),
            ("/pipe", "is no regular file"),
        ] {
            match Command::new(name).start(kernel, silent()) {
                Err(Error::Program(_, text) | Error::Missing(_, text)) => {
                    assert!(text.contains(why), "{name}: {text}")
                }
                other => panic!("{name}: {:?}", other.map(|c| c.pid())),
            }
        }
        // And after all that one runs.
        assert_eq!(here(kernel, &["program", "hello"], b"").code, 7);
    });
}
