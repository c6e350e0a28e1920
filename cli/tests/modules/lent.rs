//! Promises of files that are lent to modules, in the jail of tane run-module.

use crate::common::*;
use tane_test_support::skip;

const LENDS: &str = r#"#include <tane/module.h>

int main(void)
{
	const void *view;
	int fd = openat(-100, "words", 0, 0);
	long n = tane_lend(fd, &view, 1 << 20, 4);

	if (n < 0)
		return -n;
	tane_output(1, view, n);
	return tane_release(view);
}
"#;

const VIEWS: &str = r#"export fn main(): int {
    let path = "words\0";
    let file = openat(path, 0, len(path), 0, 0);
    let all = tane_view(file, 1 << 20, 0);
    for i in 0..len(all) {
        tane_output(1, all, len(all) - 1 - i, 1);
    }
    print(tane_view(file, 100, 4096));
    print_int(len(tane_view(file, 2, 0)));
    // Not at a page's start.
    return len(tane_view(file, 2, 1));
}
"#;

fn made(name: &str, source: &str) -> Option<Scratch> {
    if !has_kernel() {
        return None;
    }
    if let Some(what) = tane_checked_run::lacks() {
        skip(what);
        return None;
    }
    let s = Scratch::new();
    s.write(name, source.as_bytes());
    succeed(s.tane().args(["build", name]));
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("tree/words", b"one two three");
    Some(s)
}

#[test]
fn a_module_of_c_prints_a_file_that_it_was_lent_if_it_may_read() {
    let Some(s) = made("lends.c", LENDS) else {
        return;
    };
    let run = |allow: &str| {
        let mut tane = s.tane();
        let tane = tane.args(["run-module", "--root", "tree", "--allow", allow]);
        tane.args(["--", "lends.tmod"]).output().expect("tane")
    };
    let output = run("openat,read");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "two three");
    assert_eq!(output.status.code(), Some(0));
    let output = run("openat,pread");
    assert_eq!(output.status.code(), Some(126));
    let told = text(&output.stderr);
    assert!(
        told.contains("it imports tane_") && told.contains("--allow read lets it"),
        "{told}"
    );
}

#[test]
fn a_view_is_a_text_of_tl() {
    let Some(s) = made("views.tl", VIEWS) else {
        return;
    };
    let mut tane = s.tane();
    let output = tane.args(["run-module", "--root", "tree", "--", "views.tmod"]);
    let output = output.output().expect("tane");
    assert_eq!(text(&output.stdout), "eerht owt eno2");
    // What cannot be had ends it, with the line.
    assert_eq!(output.status.code(), Some(139));
    let told = text(&output.stderr);
    assert!(told.contains("Memory at views.tl:11"), "{told}");
}
