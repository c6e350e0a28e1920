//! Operations that are each as they should be, in an order that nobody needs.

use super::super::{files, wire, Terms, ToGofer};
use super::wire::Put;
use super::{adopt, all_kinds, batch, begin, enter, head, settings, told, Peer, Rig};
use crate::batch::{Op, Sender};
use crate::writer::Writer;
use crate::Tally;
use std::ffi::CString;
use std::fs::File;
use std::io::ErrorKind::{InvalidData, UnexpectedEof};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use tane_linux::{Host, Root, Sys};

static HOST: Host = Host;

type Fill = fn(&mut Sender);

/// In a new directory a file is begun that has the name of one beside the directory.
fn victim(sender: &mut Sender) {
    enter(sender, c"new");
    begin(sender, c"victim");
}

fn over(peer: &mut Peer) {
    peer.say(ToGofer::End as u32, b"");
}

#[test]
fn a_new_destination_that_became_a_link_leads_nowhere_else() {
    let rig = Rig::new();
    let new = rig.0.join("new");
    let mut peer = rig.gofer(&new);
    peer.look(&new);
    peer.open();
    peer.batch(&told(|sender| {
        let head = head(sender, c"new", libc::S_IFLNK | 0o777, None);
        let target = sender.put(b".\0");
        sender.push(Op::Symlink(head, target));
    }));
    over(&mut peer);
    for _ in 0..2 {
        peer.look(&new);
        peer.open();
        peer.batch(&told(all_kinds));
        peer.batch(&told(adopt));
        over(&mut peer);
    }
    assert_eq!(peer.ends().1, UnexpectedEof);
    assert_eq!(
        new.read_link().expect("a symlink"),
        std::path::Path::new(".")
    );
    let mut names: Vec<_> = std::fs::read_dir(&rig.0)
        .expect("a listing")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["beside", "new", "out"]);
    assert_ne!(rig.0.metadata().expect("stat").mode() & 0o7777, 0o4711);
}

#[test]
fn a_file_is_not_left_open_while_something_else_is_done() {
    let sequences: [Fill; 8] = [
        |s| {
            victim(s);
            s.push(Op::Leave);
            s.push(Op::Abort);
        },
        |s| {
            victim(s);
            s.push(Op::Leave);
            s.push(Op::End);
        },
        |s| {
            victim(s);
            begin(s, c"other");
        },
        |s| {
            victim(s);
            enter(s, c"d");
        },
        |s| {
            victim(s);
            all_kinds(s);
        },
        |s| s.push(Op::End),
        |s| s.push(Op::Abort),
        |s| {
            let data = s.take(0);
            s.push(Op::Piece(0, data));
        },
    ];
    for sequence in sequences {
        let rig = Rig::new();
        std::fs::write(rig.0.join("victim"), b"precious").expect("write");
        let (new, before) = (rig.0.join("new"), rig.beside());
        let mut peer = rig.gofer(&new);
        peer.look(&new);
        peer.open();
        peer.batch(&told(sequence));
        let (_, end) = peer.ends();
        assert_eq!(end, InvalidData);
        assert_eq!(rig.beside(), before);
    }
    // Nor from one batch to the next.
    let rig = Rig::new();
    let mut peer = rig.gofer(&rig.out());
    peer.look(&rig.out());
    peer.open();
    peer.batch(&told(victim));
    peer.batch(&told(|sender| sender.push(Op::Leave)));
    assert_eq!(peer.ends().1, InvalidData);
}

#[test]
fn a_writer_finishes_a_file_where_it_began_or_not_at_all() {
    let last: [Fill; 3] = [
        |s| s.push(Op::Abort),
        |s| s.push(Op::End),
        |s| {
            begin(s, c"other");
            s.push(Op::End);
        },
    ];
    for last in last {
        let rig = Rig::new();
        std::fs::write(rig.0.join("victim"), b"precious").expect("write");
        let report = Tally::default();
        let shown = rig.0.as_os_str().as_bytes();
        let dir = Root::host(Sys(&HOST)).open_dir(shown).expect("open");
        let names = Some(vec![CString::from(c"new")]);
        let mut writer = Writer::new(dir, shown, &report, settings()).only(names, false);
        let ops = batch(|sender| {
            victim(sender);
            sender.push(Op::Leave);
            last(sender);
        });
        writer.perform(&ops, || false);
        writer.end();
        let kept = std::fs::read(rig.0.join("victim")).expect("the file beside");
        assert_eq!(kept, b"precious");
        let new = std::fs::read_dir(rig.0.join("new")).expect("a listing");
        assert_eq!(new.count(), 0);
        assert!(!rig.0.join("other").exists());
    }
}

#[test]
fn in_a_directory_that_is_there_only_what_the_command_names_is_made() {
    let rig = Rig::new();
    let out = rig.out();
    let before = out.metadata().expect("stat").mode();
    let mut peer = rig.with_terms(Terms::Copy {
        place: out.as_os_str().as_bytes().to_vec(),
        settings: settings(),
        names: Some(vec![c"d".into()]),
        adopts: false,
    });
    peer.look(&out);
    peer.open();
    peer.batch(&told(|sender| {
        all_kinds(sender);
        adopt(sender);
        enter(sender, c"other");
        sender.push(Op::Leave);
        begin(sender, c"victim");
        sender.push(Op::End);
    }));
    over(&mut peer);
    assert_eq!(peer.ends().1, UnexpectedEof);
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .expect("a listing")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["d", "link"]);
    assert!(out.join("d/p").exists());
    assert_eq!(out.metadata().expect("stat").mode(), before);
}

#[test]
fn a_file_of_an_earlier_copy_is_not_kept() {
    let rig = Rig::new();
    let file = File::open(rig.0.join("beside/precious")).expect("a file");
    let copy = |peer: &mut Peer| {
        peer.look(&rig.out());
        peer.open();
        let mut script = told(|sender| begin(sender, c"f"));
        script.push(10); // Range
        script.long(0);
        script.number(7);
        script.long(0);
        script.long(3);
        script.extend(told(|sender| sender.push(Op::End)));
        peer.batch(&script);
        over(peer);
    };
    for (copies, end) in [(1, UnexpectedEof), (2, InvalidData)] {
        let mut peer = rig.gofer(&rig.out());
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::File as u32);
        message.number(7);
        wire::seal(&mut message);
        files::send(&peer.near, &message, &file).expect("sent");
        for _ in 0..copies {
            copy(&mut peer);
        }
        assert_eq!(peer.ends().1, end);
        assert_eq!(std::fs::read(rig.out().join("f")).expect("it"), b"pre");
    }
}
