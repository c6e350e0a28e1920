//! SQLite's shell as a module: Debian's source, which makes one file of many by Tcl.

use crate::common::*;
use crate::libc::{musl, sources};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is left out needs threads, memory that others map, or programs.
const WITHOUT: [&str; 4] = [
    "-DSQLITE_THREADSAFE=0",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
    "-DSQLITE_OMIT_WAL",
    "-DSQLITE_OMIT_POPEN",
];

const SCRIPT: &str = "\
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<2000)
  insert into t select i, printf('row %d', i*i) from n;
create index i on t(b);
select count(*), sum(length(b)), max(b) from t;
select json_extract('{\"a\":[1,2,{\"b\":3.5}]}', '$.a[2].b');
select round(10/7.0, 6), 1e300*10, 7/2, 'ä' like 'Ä', quote(zeroblob(3));
begin; delete from t where a % 2; rollback;
select count(*) from t where b > 'row 5';
select * from nowhere;
.mode csv
select a, b from t where a % 667 = 0;
pragma integrity_check;
";

/// `sqlite3.c` and `shell.c`, made once.
fn amalgamation(source: &Path) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqlite");
    if to.join("shell.c").exists() && to.join("sqlite3.c").exists() {
        return to;
    }
    std::fs::create_dir_all(&to).expect("a directory");
    let make =
        "\"$1/configure\" --disable-tcl >configured 2>&1 && make sqlite3.c shell.c >made 2>&1";
    let mut sh = Command::new("sh");
    sh.args(["-c", make, "sh"]).arg(source).current_dir(&to);
    succeed(&mut sh);
    to
}

/// What a program says to the script, on standard output and errors.
fn said(command: &mut Command, s: &Scratch) -> (String, String) {
    command.stdin(File::open(s.join("script.sql")).expect("a script"));
    let done = command.output().expect("it runs");
    // It ends with an error, as one of the script's lines is one.
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

#[test]
fn sqlites_shell_makes_of_a_script_what_it_makes_on_the_host_and_each_reads_the_others_file() {
    let (Some(musl), Some(source)) = (musl(), sources("sqlite3")) else {
        return;
    };
    let s = Scratch::new();
    let made = amalgamation(&source);
    let files = ["sqlite3.c", "shell.c"].map(|name| made.join(name));
    let mut build = s.tane();
    build
        .args(["build", "-o", "sqlite.tmod", "--libc"])
        .arg(musl);
    succeed(build.args(WITHOUT).args(&files));
    s.write("script.sql", SCRIPT.as_bytes());
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("tree/none", b"");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 16);

    let mut module = s.tane();
    module.args(["run-module", "--rw", "--root"]).arg(&image);
    module.args(["--", "sqlite.tmod", "-batch", "-init", "none", "made.db"]);
    let mut host = s.tool("sqlite3");
    host.args(["-batch", "-init", "none", "made.db"])
        .current_dir(s.join("tree"));
    let here = said(&mut module, &s);
    let there = said(&mut host, &s);
    assert_eq!(here.0, there.0, "{}", here.1);

    succeed(s.tane().args(["cp", "disk.img:/made.db", "ours.db"]));
    let all = "select count(*), group_concat(b) from t; pragma integrity_check";
    let theirs = succeed(s.tool("sqlite3").args(["ours.db", all])).stdout;
    let mut module = s.tane();
    module.args([
        "run-module",
        "--root",
        "tree",
        "--",
        "sqlite.tmod",
        "made.db",
        all,
    ]);
    assert_eq!(text(&succeed(&mut module).stdout), text(&theirs));
}
