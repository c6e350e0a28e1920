//! Promises of `tane sh` on a terminal: completion, history, Ctrl-C.

use crate::common::typist::Typist;
use crate::common::*;

#[test]
fn a_terminal_has_completion_and_history() {
    let s = Scratch::new();
    s.write("i/etc/some file", b"the content");
    let state = s.join("state");
    let mut command = s.host();
    command.args(["sh", "i"]).env("XDG_STATE_HOME", &state);
    let mut typist = Typist::at(command);
    typist.sees("i:/> ");
    typist.types("cat e\tso\t\r");
    typist.sees("the content");
    typist.sees("i:/> ");
    // The line before, by the arrow up.
    typist.types("\x1b[A\r");
    typist.sees("the content");
    typist.sees("i:/> ");
    typist.types("exit 5\r");
    assert_eq!(typist.ends().code(), Some(5));
    let history = std::fs::read_to_string(state.join("tane/history")).expect("a history");
    assert!(history.contains("cat 'etc/some file'"), "{history}");
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("d/f", b"");
    let image = s.ext4("disk.img", Some(&s.join("d")), 64);
    succeed(s.tane().args(["truncate", "-s", "8T", "disk.img:/a"]));
    let mut command = s.tane();
    command
        .args(["sh", "--rw", "disk.img"])
        .env("XDG_STATE_HOME", s.join("state"));
    let mut typist = Typist::at(command);
    typist.sees("disk.img:/> ");
    typist.types("touch before; echo $'\\x72eady'\r");
    typist.sees("ready");
    typist.sees("disk.img:/> ");
    // 8 TiB of zeroes take longer than anybody waits.
    typist.types("echo $'\\x62egun'; cat a; echo never\r");
    typist.sees("begun");
    typist.types("\x03");
    typist.sees("interrupted");
    typist.sees("disk.img:/> ");
    typist.types("touch after; echo $'\\x6fn'\r");
    typist.sees("on\r\n");
    // Before that, the terminal takes the key for itself.
    typist.sees("disk.img:/> ");
    typist.types("\x04");
    assert_eq!(typist.ends().code(), Some(0));
    assert_sound(&image);
    let found = text(&succeed(s.tane().args(["ls", "disk.img"])).stdout);
    assert!(found.contains("after\nbefore\n"), "{found}");
}

#[test]
fn what_is_typed_changes_an_image_with_rw_and_is_told_so_without() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let before = std::fs::read(&image).expect("the image");
    let typed = |options: &[&str], seen: &str| {
        let mut command = s.tane();
        command.arg("sh").args(options).arg("disk.img");
        command.env("XDG_STATE_HOME", s.join("state"));
        let mut typist = Typist::at(command);
        typist.sees("disk.img:/> ");
        typist.types("touch f; ls f\r");
        typist.sees(seen);
        typist.sees("disk.img:/> ");
        typist.types("exit 0\r");
        assert_eq!(typist.ends().code(), Some(0));
    };
    typed(&[], "tane sh --rw");
    assert!(std::fs::read(&image).expect("the image") == before);
    typed(&["--rw"], "/f\r\n");
    succeed(s.tane().args(["ls", "disk.img:/f"]));
}

#[test]
fn completion_and_history_work_in_a_jail_that_closes_while_somebody_types() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("d/etc/some file", b"the content");
    s.ext4("disk.img", Some(&s.join("d")), 64);
    let mut command = s.tane();
    command.arg("sh").env("XDG_STATE_HOME", s.join("state"));
    let mut typist = Typist::at(command);
    typist.sees("tane> ");
    typist.types("cd disk.img:/\r");
    typist.sees("disk.img:/> ");
    typist.types("cat e\tso\t\r");
    typist.sees("the content");
    typist.sees("disk.img:/> ");
    typist.types("exit 5\r");
    assert_eq!(typist.ends().code(), Some(5));
    let history = std::fs::read_to_string(s.join("state/tane/history")).expect("a history");
    assert!(history.contains("cat 'etc/some file'"), "{history}");
}
