//! Promises of `tane run`: what a program's root is, and what becomes of what is written
//! there.

use crate::common::run::{add_dynamic, image, run, says};
use crate::common::*;
use tane_test_support::http::Server;

#[test]
fn a_root_without_the_systems_directories_gets_them_unless_it_is_kept() {
    let Some(s) = image() else { return };
    s.write("bare/sh", &crate::common::run::busybox());
    s.make_executable("bare/sh");
    s.ext4("disk.img", Some(&s.join("bare")), 32);
    let script = [
        "/sh",
        "-c",
        "read -r comm </proc/self/comm; echo $comm /t* /d*",
    ];
    says(&mut run(&s, &[], &script), 0, "sh /tmp /dev\n", "");
    let mut command = s.tane();
    command.args(["run", "--root", "bare", "--"]).args(script);
    says(&mut command, 0, "sh /tmp /dev\n", "");
    let done = run(&s, &["--rw"], &script).output().expect("tane");
    assert_eq!(done.stdout, b"/t* /d*\n", "{done:?}");
}

#[test]
fn what_is_written_is_forgotten_unless_it_was_to_be_kept() {
    let Some(s) = image() else { return };
    let before = s.read("disk.img");
    let write = [
        "sh",
        "-c",
        "echo changed >/etc/motd && read a </etc/motd && echo $a",
    ];
    says(&mut run(&s, &[], &write), 0, "changed\n", "");
    says(
        &mut run(&s, &["--overlay", ":memory:"], &write),
        0,
        "changed\n",
        "",
    );
    assert!(s.read("disk.img") == before);
    says(
        &mut run(&s, &["--overlay", "top.qcow2"], &write),
        0,
        "changed\n",
        "",
    );
    assert!(s.read("disk.img") == before);
    let cat = |name: &str| succeed(s.tane().args(["cat", &format!("{name}:/etc/motd")])).stdout;
    assert_eq!(cat("top.qcow2"), b"changed\n");
    says(&mut run(&s, &["--rw"], &write), 0, "changed\n", "");
    assert_eq!(cat("disk.img"), b"changed\n");
    succeed(&mut s.command("e2fsck", "-fn disk.img"));
    let err = "sh: can't create /etc/motd: Read-only file system\n";
    says(&mut run(&s, &["--options", "ro"], &write), 1, "", err);
}

#[test]
fn a_directory_of_the_host_is_a_root_whose_files_stay_as_they_are() {
    let Some(s) = image() else { return };
    let directory = |script: &str| {
        let mut command = s.tane();
        command.args(["run", "--root", "root", "--", "sh", "-c", script]);
        command
    };
    let script = "echo changed >/etc/motd; read a </etc/motd; echo $a; exec ls -l /bin/cat";
    let done = directory(script).output().expect("tane");
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(out.starts_with("changed\nlrwxrwxrwx"), "{out}");
    assert!(out.ends_with(" /bin/cat -> busybox\n"), "{out}");
    assert_eq!(s.read("root/etc/motd"), b"good morning\n");
    // Links in it lead nowhere else.
    std::os::unix::fs::symlink("/../../../../../../etc/passwd", s.join("root/out"))
        .expect("a link");
    let wanted = String::from_utf8(s.read("root/etc/passwd")).expect("text");
    says(&mut directory("cat /out"), 0, &wanted, "");
}

#[test]
fn a_dynamic_program_with_its_libraries_does_what_it_does_on_the_host() {
    let Some(s) = image() else { return };
    let Some(mut host) = tane_test_support::tool("sqlite3", "sqlite3") else {
        return;
    };
    add_dynamic(&s, "root", "/usr/bin/sqlite3");
    let script = "create table t(a, b); \
                  with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) \
                  insert into t select i, hex(i * i) from n; \
                  create index j on t(b); pragma integrity_check; \
                  select count(*), sum(a), min(b), max(b) from t where b > '4';";
    let done = succeed(host.arg(s.join("host.db")).arg(script));
    let wanted = String::from_utf8(done.stdout).expect("text");
    assert!(wanted.starts_with("ok\n"), "{wanted}");
    let mut command = s.tane();
    let words = ["run", "--root", "root", "--", "sqlite3", "/root/here.db"];
    says(command.args(words).arg(script), 0, &wanted, "");
}

#[test]
fn a_program_of_the_host_runs_alone_in_an_empty_root() {
    let Some(s) = image() else { return };
    let mut command = s.tane();
    command.args(["run", "--", "root/bin/busybox", "ls", "/"]);
    says(&mut command, 0, "bin\ndev\nproc\nsys\ntmp\n", "");
    // Wherever it lies, and by PATH.
    let dir = std::env::temp_dir().join(format!("tane-run-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let program = dir.join("busybox");
    std::fs::copy(s.join("root/bin/busybox"), &program).expect("a copy");
    for name in [program.as_os_str(), "busybox".as_ref()] {
        let mut command = s.tane();
        command.env("PATH", &dir).args(["run", "--"]).arg(name);
        command.args(["sh", "-c", "echo $0 /bin/*"]);
        says(&mut command, 0, "sh /bin/busybox\n", "");
    }
    std::fs::remove_dir_all(&dir).expect("it is there");
}

#[test]
fn an_image_on_a_web_server_is_a_root_too() {
    let Some(s) = image() else { return };
    let server = Server::of(s.read("disk.img"));
    let mut command = s.tane();
    command.args(["run", "--root", &server.url("disk.img"), "--"]);
    command.args([
        "sh",
        "-c",
        "echo new >/etc/motd; read a </etc/motd; echo $a",
    ]);
    says(&mut command, 0, "new\n", "");
}
