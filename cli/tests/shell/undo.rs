//! Promises of `tane sh --undo`: what a command wrote is undone, or it is said why not.

use super::sh::{feed, image};
use crate::common::*;

/// A session in which commands can be undone.
fn run(s: &Scratch, script: &str) -> String {
    let mut command = s.tane();
    command.args(["sh", "--undo", "-e", "-c", script, "a.img"]);
    text(&succeed(&mut command).stdout)
}

#[test]
fn the_last_command_that_wrote_is_undone_again_and_again() {
    let s = Scratch::new();
    let a = image(&s, "a.img");
    let before = std::fs::read(&a).expect("the image");
    let said = run(
        &s,
        "mkdir new; touch new/f; cat etc/motd; rm -r etc; sync; ls; undo; cat etc/motd; ls new; \
         undo; ls new; undo; ls",
    );
    let rm = "a.imglost+found\nnew\nundone: rm -r etc\n";
    let touch = "a.imgf\nundone: touch new/f\n";
    assert_eq!(
        said,
        format!("{rm}{touch}undone: mkdir new\netc\nlost+found\n")
    );
    assert!(std::fs::read(&a).expect("the image") == before);
}

#[test]
fn what_is_typed_can_be_undone_too() {
    let s = Scratch::new();
    image(&s, "a.img");
    let mut command = s.tane();
    command.args(["sh", "--undo", "--json", "a.img"]);
    let output = feed(command, "rm etc/motd\nundo\nls etc\n");
    let said = text(&output.stdout);
    assert!(said.contains(r#""undone":"rm etc/motd""#), "{said}");
    assert_eq!(said.matches("motd").count(), 2, "{said}");
}

#[test]
fn a_copy_between_two_images_is_undone_in_both() {
    let s = Scratch::new();
    image(&s, "a.img");
    image(&s, "b.img");
    let script = "cp etc/motd b.img:/new; mv b.img:/new b.img:/old; undo; undo; ls b.img:/; \
                  cp b.img:/etc/motd from-b; cat from-b";
    assert_eq!(
        run(&s, script),
        "undone: mv b.img:/new b.img:/old\nundone: cp etc/motd b.img:/new\n\
         etc\nlost+found\nb.img"
    );
}

#[test]
fn where_there_is_no_way_back_it_is_said_why() {
    let s = Scratch::new();
    image(&s, "a.img");
    let refused = |undo: &[&str], script: &str, code: i32, words: &str| {
        let mut command = s.tane();
        command
            .arg("sh")
            .args(undo)
            .args(["-e", "-c", script, "a.img"]);
        let output = exit(&mut command, code);
        let told = text(&output.stderr);
        assert!(told.contains(words), "{told}");
    };
    let undo = &["--undo"];
    refused(undo, "undo", 1, "no command has written");
    refused(undo, "touch f; undo; undo", 1, "no command has written");
    refused(undo, "touch f; close; undo", 1, "was removed since");
    refused(&[], "touch f; undo", 2, "begin it with tane sh --undo");
    let file = ["--overlay", "over", "--undo"];
    refused(&file, "touch f", 2, "what is written to a file stays there");
    let opens = "open --overlay over a.img; touch f";
    refused(undo, opens, 1, "there would be no way back");
}
