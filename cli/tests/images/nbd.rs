//! Images on servers of NBD, through the command: qemu-nbd and nbdkit serve them.

use crate::common::fuse::{has_fuse, Mounted};
use crate::common::*;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tane_test_support::nbd::{refused, serve, serve_at_port, Served, Server, DISCONNECT};
use tane_test_support::{eventually, tool};

/// An ext4 with the file f, served by qemu-nbd; None where nothing is to be run.
#[track_caller]
fn served(s: &Scratch, name: &str) -> Option<Served> {
    if !has_kernel() {
        return None;
    }
    s.write("tree/f", b"data\n");
    s.write("tree/big", &[7; 3_000_000]);
    let disk = s.ext4(name, Some(&s.join("tree")), 24);
    let disk = disk.to_str().expect("its name");
    serve(
        s.path(),
        &["qemu-nbd", "-f", "raw", "-e", "4", "-x", "x", disk],
    )
}

fn said(command: &mut Command) -> (String, String) {
    let output = succeed(command);
    (text(&output.stdout), text(&output.stderr))
}

const WARNED: &str = "NBD has no locks: see to it that nobody else writes it meanwhile";

#[test]
fn files_come_out_of_an_export_and_go_in() {
    let s = Scratch::new();
    let Some(server) = served(&s, "disk.raw") else {
        return;
    };
    let url = server.url("x");
    // Nothing to be told to who reads.
    let read = said(s.tane().arg("cat").arg(format!("{url}:/f")));
    assert_eq!(read, ("data\n".into(), String::new()));
    s.write("new", &[9; 2_000_000]);
    let (out, err) = said(s.tane().arg("cp").arg("new").arg(format!("{url}:/new")));
    assert_eq!(
        (out, err),
        (String::new(), format!("tane: {url}: {WARNED}\n"))
    );
    succeed(s.tane().args(["-q", "rm"]).arg(format!("{url}:/f")));
    // It is in the server's file, and not in its memory alone.
    drop(server);
    let disk = s.join("disk.raw");
    assert_sound(&disk);
    let (names, _) = said(s.tane().arg("ls").arg(&disk));
    assert_eq!(names, "big\nlost+found\nnew\n");
    succeed(s.tane().arg("cp").arg("disk.raw:/new").arg("back"));
    assert!(s.read("back") == [9; 2_000_000]);
}

#[test]
fn a_server_of_the_network_and_a_partition_of_what_it_has() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data\n");
    let inner = std::fs::read(s.ext4("inner", Some(&s.join("tree")), 8)).expect("it");
    let start = vec![0; 1 << 20];
    let disk = s.write("disk", &[&start[..], &inner, &start[..]].concat());
    let Some(mut sfdisk) = tool("fdisk", "sfdisk") else {
        return;
    };
    s.write("table", b"start=2048, size=16384\n");
    let table = std::fs::File::open(s.join("table")).expect("it");
    succeed(sfdisk.arg("-q").arg(&disk).stdin(table));
    let disk = disk.to_str().expect("its name");
    let Some(server) = serve_at_port(&["file", disk]) else {
        return;
    };
    let by_number = server.url("");
    let by_name = by_number.replace("127.0.0.1", "localhost");
    for address in [format!("{by_name}any@1:/f"), format!("{by_number}@1:/f")] {
        let (out, _) = said(s.tane().arg("cat").arg(&address));
        assert_eq!(out, "data\n", "{address}");
    }
    let (out, _) = said(s.tane().arg("inspect").arg(&by_name));
    assert!(out.contains("on a server"), "{out}");
    let (_port, address) = refused();
    let output = exit(s.tane().arg("ls").arg(address), 3);
    let err = text(&output.stderr);
    assert!(err.contains("onnection refused"), "{err}");
}

#[test]
fn verbs_that_change_images_change_exports() {
    let s = Scratch::new();
    let (Some(one), Some(two)) = (served(&s, "one.raw"), served(&s, "two.raw")) else {
        return;
    };
    let (from, to) = (one.url("x"), two.url("x"));
    let quiet = |words: &[&str]| said(s.tane().arg("-q").args(words)).0;
    quiet(&["mkfs", "--fs", "ext4", "--force", &to]);
    quiet(&["label", &to, "here"]);
    assert_eq!(quiet(&["label", &to]), "here\n");
    quiet(&["cp", &format!("{from}:/big"), &format!("{to}:/copy")]);
    quiet(&["sh", "--rw", &to, "-c", "cp copy again; rm copy"]);
    assert_eq!(quiet(&["ls", &to]), "again\nlost+found\n");
    quiet(&["fsck", "--repair", &to]);
    let line = quiet(&["trim", &to]);
    assert!(line.contains("discarded"), "{line}");
    quiet(&["convert", &from, "copy.qcow2"]);
    assert_eq!(quiet(&["cat", "copy.qcow2:/f"]), "data\n");
    drop((one, two));
    assert_sound(&s.join("two.raw"));
}

#[test]
fn an_export_is_mounted_for_every_program() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let Some(server) = served(&s, "disk.raw") else {
        return;
    };
    let mounted = Mounted::new(&s, &["--rw", &server.url("x")]);
    assert_eq!(std::fs::read(mounted.join("f")).expect("f"), b"data\n");
    std::fs::write(mounted.join("n"), [3; 100_000]).expect("written");
    mounted.unmount();
    drop(server);
    assert_sound(&s.join("disk.raw"));
    let (out, _) = said(s.tane().arg("stat").arg("disk.raw:/n"));
    assert!(out.contains("100000"), "{out}");
}

#[test]
fn what_is_written_may_go_into_an_overlay() {
    let s = Scratch::new();
    let Some(server) = served(&s, "disk.raw") else {
        return;
    };
    let before = s.read("disk.raw");
    let at = format!("{}:/f", server.url("x"));
    let over = |verb: &str| {
        let mut tane = s.tane();
        tane.args(["--overlay", "over.qcow2", verb]);
        tane
    };
    assert_eq!(said(over("rm").arg(&at)), (String::new(), String::new()));
    exit(over("cat").arg(&at), 1);
    assert_eq!(said(s.tane().arg("cat").arg(&at)).0, "data\n");
    assert!(s.read("disk.raw") == before);
}

#[test]
fn a_server_is_told_of_the_end() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data\n");
    let disk = std::fs::read(s.ext4("disk.raw", Some(&s.join("tree")), 8)).expect("it");
    for (words, code) in [(["cat", "f"], 0), (["cat", "none"], 1)] {
        let asked: Arc<Mutex<Vec<u16>>> = Arc::default();
        let (log, disk) = (asked.clone(), disk.clone());
        let server = Server::new(move |client| client.serve(&disk, &log));
        let at = format!("{}:/{}", server.url("x"), words[1]);
        exit(s.tane().args([words[0], &at]), code);
        eventually("the end", || {
            asked.lock().expect("the log").ends_with(&[DISCONNECT])
        });
    }
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error_that_says_so() {
    let s = Scratch::new();
    let Some(mut server) = served(&s, "disk.raw") else {
        return;
    };
    let file = format!("{}:/big", server.url("x"));
    super::served::dies_in_the_middle(&s, &file, 3_000_000, "the server has", || server.kill());
}

#[test]
fn what_cannot_be_is_said() {
    let s = Scratch::new();
    let Some(server) = served(&s, "disk.raw") else {
        return;
    };
    let url = server.url("x");
    for (words, wanted) in [
        (
            &["ls", &server.url("y")][..],
            "no export \"y\"; it has \"x\"",
        ),
        (&["ls", "nbds://h/x"], "TLS is not supported"),
        (&["ls", "nbd://me@h/x"], "users"),
        (&["resize", &url, "80M"], "only raw images and qcow2 grow"),
        (&["make-image", "--fs", "ext4", "tree", &url], "tane mkfs"),
        (&["convert", "disk.raw", &url], "tane mkfs"),
    ] {
        let output = s.tane().args(words).output().expect("tane");
        assert!(!output.status.success(), "{words:?}");
        let err = text(&output.stderr);
        assert!(err.contains(wanted), "{words:?}: {err}");
    }
}
