//! Debian's tracers, unchanged, on programs inside.

use crate::common::run::{add_dynamic, root};
use crate::common::*;
use std::process::Command;

/// An image with this tracer, and a program to trace. None: it is not installed.
fn image(tracer: &str) -> Option<Scratch> {
    if !crate::common::run::can_run() {
        return None;
    }
    let name = tracer.rsplit('/').next().unwrap_or(tracer);
    tane_test_support::tool(name, name)?;
    let s = Scratch::new();
    root(&s, "root");
    add_dynamic(&s, "root", tracer);
    s.write("debuggee.c", DEBUGGEE.as_bytes());
    let mut cc = s.tool("cc");
    succeed(cc.args([
        "-g",
        "-O0",
        "-static",
        "-o",
        "root/bin/debuggee",
        "debuggee.c",
    ]));
    Some(s)
}

const DEBUGGEE: &str = r#"#include <pthread.h>
#include <stdio.h>
int total;
int add(int n)
{
	total += n;
	return total;
}
static void *adds(void *unused)
{
	for (int i = 10; i < 13; i++)
		add(i);
	return unused;
}
int main(void)
{
	pthread_t thread;
	for (int i = 1; i < 4; i++)
		printf("%d\n", add(i));
	pthread_create(&thread, 0, adds, 0);
	pthread_join(thread, 0);
	printf("total %d\n", total);
	return 3;
}
"#;

fn traced(s: &Scratch, image: &str, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.args(["run", "--root", image, "--memory", "1G", "--"]);
    command.args(words);
    command
}

#[test]
fn strace_prints_the_calls_of_a_program_and_of_what_it_starts() {
    let Some(s) = image("/usr/bin/strace") else {
        return;
    };
    s.ext4("strace.img", Some(&s.join("root")), 64);
    let script = "echo hello >/tmp/file; (exit 7); cat /tmp/file; cat /missing";
    let words = ["/usr/bin/strace", "-f", "-o", "/dev/stderr", "sh", "-c"];
    let mut command = traced(&s, "strace.img", &words);
    let done = command.arg(script).output().expect("tane");
    let told = text(&done.stderr);
    assert_eq!(text(&done.stdout), "hello\n", "{told}");
    assert_eq!(done.status.code(), Some(1), "{told}");
    for line in [
        "execve(\"/bin/sh\", [\"sh\", \"-c\", ",
        "openat(AT_FDCWD, \"/tmp/file\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3",
        "write(1, \"hello\\n\", 6) ",
        "clone(child_stack=NULL, ",
        "exit_group(7) ",
        "+++ exited with 7 +++",
        "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, ",
        "WEXITSTATUS(s) == 7}",
        "openat(AT_FDCWD, \"/missing\", O_RDONLY) = -1 ENOENT (No such file or directory)",
        "+++ exited with 1 +++",
    ] {
        assert!(told.contains(line), "no {line} in {told}");
    }
}

#[test]
fn gdb_sets_breakpoints_steps_calls_and_sees_threads() {
    let Some(s) = image("/usr/bin/gdb") else {
        return;
    };
    // By dlopen(3), and its own scripts.
    for file in ["libgcc_s.so.1", "libthread_db.so.1"] {
        let path = format!("/lib/x86_64-linux-gnu/{file}");
        let content = std::fs::read(&path).expect("a library");
        s.write(&format!("root{path}"), &content);
    }
    let copy = "mkdir -p root/usr/share root/usr/lib && cp -r /usr/share/gdb root/usr/share/ && \
                tar -C / --exclude=test --exclude=__pycache__ -cf - usr/lib/python3.11 | \
                tar -C root -xf -";
    succeed(s.tool("sh").args(["-c", copy]));
    s.ext4("gdb.img", Some(&s.join("root")), 384);
    let mut words = vec!["/usr/bin/gdb", "-nx", "-batch"];
    for command in [
        "set can-use-hw-watchpoints 0",
        "break add",
        "run",
        "backtrace",
        "continue",
        "watch total",
        "continue",
        "delete",
        "stepi",
        "print add(100)",
        "break adds",
        "continue",
        "thread apply all print $_thread",
        "delete",
        "continue",
    ] {
        words.extend(["-ex", command]);
    }
    words.push("/bin/debuggee");
    let done = traced(&s, "gdb.img", &words).output().expect("tane");
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    for line in [
        "Breakpoint 1, add (n=1) at debuggee.c:6",
        "in main () at debuggee.c:19",
        "Breakpoint 1, add (n=2) at debuggee.c:6",
        "Old value = 1\nNew value = 3\n",
        "$1 = 103\n",
        "hit Breakpoint 3, adds (",
        "Thread 2 (Thread ",
        "total 139\n",
        "exited with code 03]",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
}
