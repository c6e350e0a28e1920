//! Real programs, with every call through a trampoline or the net, do what they do
//! without: their output is the oracle.

mod rig;

use rig::{Rig, Seen};
use std::process::{Command, Stdio};

/// Output and exit status of `script` by bash, as it is.
fn native(script: &str) -> (Vec<u8>, i32) {
    let output = bash(script).stdin(Stdio::null()).output().expect("bash");
    use std::os::unix::process::ExitStatusExt;
    (output.stdout, output.status.into_raw())
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("LC_ALL", "C");
    command
}

/// The same through trampolines has the same output; what was seen of it.
fn same(script: &str) -> Seen {
    let (expected, status) = native(script);
    let rig = Rig::new().expect("a pool of areas");
    let (seen, output) = rig.run(bash(script)).expect("traced");
    assert_eq!(
        String::from_utf8_lossy(&output),
        String::from_utf8_lossy(&expected)
    );
    assert_eq!(seen.status, status, "{seen:#?}");
    assert_eq!(status, 0, "{script}");
    eprintln!("{seen:?}");
    let [a, b, c, net] = seen.calls;
    assert!(
        a + b > 100,
        "hardly a call came through trampolines: {seen:#?}"
    );
    // What a trap proved is patched, so the net is not where calls go.
    assert!(net * 10 < a + b + c, "the net had too many: {seen:#?}");
    seen
}

/// Whether a program that the tests need is here; else says so.
fn there(name: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !rig::can_run() {
        return false;
    }
    if !found {
        tane_test_support::skip(format!("{name} is not installed"));
    }
    found
}

#[test]
fn a_shell_with_pipes_and_substitutions_prints_the_same() {
    if !there("bash") {
        return;
    }
    let seen = same(
        "for i in 1 2 3; do echo $i | tr 1-3 a-c; done; echo $(ls / | wc -l); \
         trap 'echo usr1' USR1; kill -USR1 $$; (exit 3) || echo $?; \
         sleep 0.2 & wait $!; echo done",
    );
    assert!(seen.programs > 5, "{seen:#?}");
}

#[test]
fn python_with_threads_signals_and_processes_prints_the_same() {
    if !there("/usr/bin/python3") {
        return;
    }
    let seen = same(
        r#"/usr/bin/python3 -c '
import os, signal, socket, subprocess, threading, time
total = []
lock = threading.Lock()
def work(n):
    r, w = os.pipe()
    for i in range(200):
        os.write(w, b"x"); os.read(r, 1)
    with lock: total.append(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(total))
print(subprocess.run(["ls", "/usr"], capture_output=True, text=True).stdout)
alarms = 0
def alarm(*_):
    global alarms
    alarms += 1
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, .002, .002)
a, b = socket.socketpair()
while alarms < 50:
    a.send(b"y"); b.recv(1); os.getppid()
signal.setitimer(signal.ITIMER_REAL, 0)
time.sleep(.01)
pid = os.fork()
if pid == 0: os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'"#,
    );
    assert!(seen.tasks > 9, "{seen:#?}");
    assert!(seen.moved_out > 0, "{seen:#?}");
}

#[test]
fn git_makes_the_same_commit() {
    if !there("git") {
        return;
    }
    same(
        "d=$(mktemp -d); cd $d; export HOME=$d GIT_CONFIG_NOSYSTEM=1; \
         export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'; \
         git init -q r; cd r; git config user.email a@b; git config user.name c; \
         seq 1 500 | split -l 10 - f; git add .; git commit -qm one; echo more >>faa; \
         git diff --stat; git commit -qam two; git gc -q; git fsck --strict 2>&1; \
         git log --format='%H %s'; cd ..; git clone -q r s; ls s | wc -l; cd /; rm -rf $d",
    );
}

#[test]
fn gcc_makes_the_same_program() {
    if !there("gcc") {
        return;
    }
    same(
        "d=$(mktemp -d); cd $d; \
         printf '#include <stdio.h>\\nint main(void){printf(\"%%d\\\\n\",6*7);return 0;}' >a.c; \
         gcc -O2 -c a.c && sha256sum a.o && gcc -o a a.o && ./a; cd /; rm -rf $d",
    );
}

#[test]
fn sqlite_keeps_the_same_table() {
    if !there("sqlite3") {
        return;
    }
    same(
        "d=$(mktemp -d); cd $d; for i in 1 2 3 4 5; do \
         echo 'create table if not exists t(a integer primary key, b text); \
         with recursive n(x) as (select 1 union all select x+1 from n where x<2000) \
         insert into t(b) select hex(x*x) from n; \
         select count(*), sum(length(b)), max(a) from t; pragma integrity_check;' \
         | sqlite3 db; done; sha256sum <db; cd /; rm -rf $d",
    );
}

#[test]
fn a_static_busybox_prints_the_same() {
    if !there("busybox") {
        return;
    }
    let seen = same(
        "busybox sh -c 'for i in $(busybox seq 1 60); do echo $i; done | busybox sort -rn | \
         busybox awk \"{ s += \\$1 } END { print s }\"; busybox ls /usr | busybox sha256sum'",
    );
    assert!(seen.programs > 5, "{seen:#?}");
}

#[test]
fn go_with_goroutines_and_raw_calls_prints_the_same() {
    if !there("go") {
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls.go");
    let program = concat!(env!("CARGO_TARGET_TMPDIR"), "/calls-go");
    let mut build = Command::new("go");
    build
        .args(["build", "-o", program, source])
        .env("GOFLAGS", "-mod=mod");
    assert!(
        build.status().is_ok_and(|status| status.success()),
        "go build"
    );
    let seen = same(program);
    // Its one site for everything is patched while threads run it.
    assert!(seen.calls[1] + seen.calls[2] > 10_000, "{seen:#?}");
}
