//! Files of servers of 9p, through the command: diod serves them.

use super::served::{self, said};
use crate::common::*;
use tane_test_support::ninep::{serve, Served};

const BIG: usize = 3_000_000;

/// A tree, served; None where nothing is to be run.
#[track_caller]
fn served(s: &Scratch) -> Option<Served> {
    if !has_kernel() {
        return None;
    }
    served::tree(s, BIG);
    serve(s.path(), &s.join("tree"))
}

#[test]
fn verbs_read_files_of_a_server_as_those_of_an_image() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    served::is_read(&s, &server.url());
    let link = format!("{}:/d/link", server.url_of_port());
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
    if tane_test_support::has_root() {
        served::is_told_who_comes(&s, || server.url_of_port());
    }
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
    s.ext4("disk.img", None, 16);
    let refused = "127.0.0.1:1";
    let commands: &[(&[&str], &str)] = &[
        (&["fsck", &url], "there is no disk"),
        (&["inspect", &url], "there is no disk"),
        (&["resize", &url, "80M"], "there is no disk"),
        (&["convert", &url, "x.qcow2"], "there is no disk"),
        (&["mkfs", "--fs", "ext4", &url], "there is no disk"),
        (&["--with", "disk.img", "ls", &url], "--with is for images"),
        (
            &["--overlay", ":memory:", "ls", &url],
            "--overlay is for images",
        ),
        (&["--kernel", "tiny", "ls", &url], "leave --kernel out"),
        (&["ls", &url.replace("/tree?", "/none?")], "another tree"),
        (&["ls", &format!("9p://{refused}/x")], "refused"),
        (&["ls", "9p://h/x,y"], "comma"),
    ];
    served::are_refused(&s, commands);
}
