//! Files of servers of NFS, through the command: Ganesha serves them.

use super::served::{self, said};
use crate::common::*;
use tane_test_support::nfs::{serve, Served};

const BIG: usize = 9_000_000;

/// A tree, served; None where nothing is to be run.
#[track_caller]
fn served(s: &Scratch) -> Option<Served> {
    if !has_kernel() {
        return None;
    }
    served::tree(s, BIG);
    serve(s.path(), &s.join("tree"), "0,1,2")
}

#[test]
fn verbs_read_files_of_a_server_as_those_of_an_image() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    served::is_read(&s, &server.url());
    // From the root that the server shows.
    let link = format!("{}:/tree/d/link", server.url().replace("/tree", ""));
    assert_eq!(said(s.tane().args(["cat", &link])).0, "data\n");
}

#[test]
fn verbs_write_files_of_a_server_and_images_get_copies_of_them() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    served::is_written(&s, &server.url());
}

#[test]
fn the_server_is_told_who_comes_and_decides_what_that_one_may() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    served::is_told_who_comes(&s, || server.url());
}

#[test]
fn what_is_read_is_not_written() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    served::is_not_written(&s, &server.url());
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error_that_names_it() {
    let s = Scratch::new();
    let Some(mut server) = served(&s) else { return };
    let file = format!("{}:/big", server.url());
    let words = format!("{}: the server has", server.url());
    served::dies_in_the_middle(&s, &file, BIG, &words, || server.kill());
}

#[test]
fn what_cannot_be_is_said() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let url = server.url();
    let commands: &[(&[&str], &str)] = &[
        (&["fsck", &url], "there is no disk"),
        (&["mkfs", "--fs", "ext4", &url], "there is no disk"),
        (&["--kernel", "tiny", "ls", &url], "leave --kernel out"),
        (&["--options", "port=1", "ls", &url], "the option port"),
        (&["ls", &url.replace("/tree", "/none")], "no such export"),
        (&["ls", "nfs://127.0.0.1:1/x"], "refused"),
        (&["ls", "nfs://no-such-user@127.0.0.1/x"], "no user"),
        (&["ls", "nfs://h/x?vers=3"], "?vers=3"),
    ];
    served::are_refused(&s, commands);
}
