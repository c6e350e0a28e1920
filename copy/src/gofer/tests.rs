//! A reader that lies: the gofer ends, and nothing beside its destination has changed.

use super::super::batch::{Batch, Op};
use super::super::room::Room;
use super::wire::{self, Malformed, Put, HEADER};
use super::{files, FromGofer, Memory, ToGofer};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use tane_test_support::Dice;

pub mod answers;
mod making;
mod rig;
mod sequences;

pub use rig::*;

#[test]
fn a_batch_is_understood_as_it_was_meant() {
    let batch = understood(honest()).expect("a batch");
    assert_eq!(batch.ops.len(), 9);
    let Op::Enter(head) = &batch.ops[0] else {
        panic!("a directory comes first");
    };
    assert_eq!(batch.name(head.name), c"d");
    let Op::File(head, data) = &batch.ops[1] else {
        panic!("then a file");
    };
    assert_eq!((head.link, head.stat.size, data.size()), (Some(0), 3, 3));
}

#[test]
fn names_that_are_none_of_an_entry_are_not_understood() {
    for name in [
        &b"..\0"[..],
        b".\0",
        b"\0",
        b"",
        b"a/b\0",
        b"/\0",
        b"a\0b\0",
        b"a",
    ] {
        let mut script = vec![6]; // Omit
        script.string(name);
        assert!(understood(script).is_err(), "{name:?}");
    }
}

#[test]
fn places_and_lengths_that_are_nowhere_are_not_understood() {
    let piece = |at: u64, start: u32, size: u32| {
        let mut script = vec![9];
        script.long(at);
        script.number(start);
        script.number(size);
        understood(script)
    };
    assert!(piece(0, 0, 10).is_ok());
    let most = i64::MAX as u64;
    for (at, start, size) in [
        (most, 0, 1),
        (u64::MAX, 0, 0),
        (0, u32::MAX, 1),
        (0, 1, u32::MAX),
        (0, 2 << 20, 0),
    ] {
        assert_eq!(piece(at, start, size).err(), Some(Malformed));
    }
    // A file that was never handed over.
    let mut range = vec![10];
    range.extend([0; 28]);
    assert!(understood(range).is_err());
    // A list that says it is longer than the message.
    let mut shares = vec![8];
    shares.number(0);
    shares.number(u32::MAX);
    assert!(understood(shares).is_err());
}

#[test]
fn a_reader_that_lies_ends_the_gofer_and_changes_nothing_beside_the_destination() {
    let honest = honest();
    let mut dice = Dice(0x5eed_0001);
    for _ in 0..300 {
        let rig = Rig::new();
        let before = rig.beside();
        let mut peer = rig.gofer(&rig.out());
        peer.look(&rig.out());
        peer.open();
        for _ in 0..4 {
            let mut script = honest.clone();
            for _ in 0..dice.roll(6) {
                let at = dice.roll(script.len());
                script[at] = match dice.roll(4) {
                    0 => b'/',
                    1 => b'.',
                    2 => 0xff,
                    _ => dice.roll(256) as u8,
                };
            }
            if dice.roll(5) == 0 {
                script.truncate(dice.roll(script.len()));
            }
            // Nothing of its mistakes is to fill the disk, or to stay for good.
            if !understood(script.clone()).is_ok_and(|batch| is_harmless(&batch)) {
                peer.say(dice.roll(7) as u32, &script[..script.len().min(64)]);
                continue;
            }
            peer.batch(&script);
        }
        let (_, end) = peer.ends();
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
        let ends = [BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof];
        assert!(ends.contains(&end), "{end:?}");
        assert_eq!(rig.beside(), before);
    }
}

fn is_harmless(batch: &Batch) -> bool {
    batch.ops.iter().all(|op| match op {
        Op::Enter(head) | Op::Begin(head) | Op::File(head, _) => {
            head.stat.size < 1 << 20 && head.stat.flags.is_empty()
        }
        Op::Piece(at, _) => *at < 1 << 20,
        _ => true,
    })
}

#[test]
fn noise_ends_the_gofer() {
    let mut dice = Dice(0x5eed_0002);
    for _ in 0..200 {
        let rig = Rig::new();
        let before = rig.beside();
        let mut peer = rig.gofer(&rig.out());
        let noise: Vec<u8> = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
        let _ = peer.near.write_all(&noise);
        peer.ends();
        assert_eq!(rig.beside(), before);
    }
}

#[test]
fn another_place_than_that_of_the_command_is_none() {
    let rig = Rig::new();
    let mut peer = rig.gofer(&rig.out());
    peer.look(&rig.0.join("beside"));
    let (said, end) = peer.ends();
    assert_eq!(
        (&said[..], end),
        (&b""[..], std::io::ErrorKind::InvalidData)
    );
}

#[test]
fn beside_a_new_destination_nothing_is_made_or_changed() {
    let rig = Rig::new();
    let new = rig.0.join("new");
    let before = rig.beside();
    let mut peer = rig.gofer(&new);
    peer.look(&new);
    peer.open();
    // Its names are others than `new`.
    peer.batch(&honest());
    // For the directory that the destination is in.
    peer.batch(&told(adopt));
    peer.say(ToGofer::End as u32, b"");
    peer.ends();
    assert_eq!(rig.beside(), before);
}

#[test]
fn links_in_the_destination_are_not_followed() {
    let rig = Rig::new();
    let before = rig.beside();
    let mut peer = rig.gofer(&rig.out());
    peer.look(&rig.out());
    peer.open();
    let script = honest();
    // The directory is called as the symlink that is there.
    let mut renamed = vec![script[0]];
    renamed.string(b"link\0");
    renamed.extend(&script[1 + 4 + 2..]);
    assert!(peer.batch(&renamed));
    assert!(peer.say(ToGofer::End as u32, b""));
    let (said, end) = peer.ends();
    assert_eq!(end, std::io::ErrorKind::UnexpectedEof);
    let kinds = kinds(&said);
    assert_eq!(kinds.last(), Some(&(FromGofer::Ended as u32)), "{kinds:?}");
    assert_eq!(rig.beside(), before);
    let listed = std::fs::read_dir(rig.out()).expect("a listing").count();
    assert_eq!(listed, 1);
}

fn kinds(mut said: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while let Some(header) = said.first_chunk::<HEADER>() {
        let (kind, length) = wire::header(*header);
        kinds.push(kind);
        said = &said[HEADER + length..];
    }
    kinds
}

#[test]
fn only_files_and_disks_are_taken_to_copy_from() {
    let rig = Rig::new();
    let file = File::open(rig.0.join("beside/precious")).expect("a file");
    let directory = File::open(&rig.0).expect("a directory");
    let null = File::open("/dev/null").expect("a device");
    for (handed, end) in [
        (&file, std::io::ErrorKind::UnexpectedEof),
        (&directory, std::io::ErrorKind::InvalidData),
        (&null, std::io::ErrorKind::InvalidData),
    ] {
        let peer = rig.gofer(&rig.out());
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::File as u32);
        message.number(7);
        wire::seal(&mut message);
        let sent = files::send(&peer.near, &message, handed).expect("sent");
        assert_eq!(sent, message.len());
        assert_eq!(peer.ends().1, end, "{handed:?}");
    }
}

#[test]
fn a_file_keeps_its_number_until_others_need_it() {
    let mut numbers = files::Numbers::default();
    let open = || Arc::new(File::open("/dev/null").expect("a file"));
    let first = open();
    numbers.begin();
    assert_eq!(numbers.of(&first), 0);
    assert_eq!(numbers.unsent().len(), 1);
    numbers.begin();
    assert_eq!(numbers.of(&first), 0);
    assert_eq!(numbers.unsent().len(), 0);
    // As many as a batch may have, beside one that it has not.
    numbers.begin();
    let all: Vec<_> = (0..super::FILES).map(|_| open()).collect();
    let mut given: Vec<_> = all.iter().map(|file| numbers.of(file)).collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), super::FILES);
    assert_eq!(numbers.unsent().len(), super::FILES);
    assert_eq!(numbers.of(&all[3]), numbers.of(&all[3].clone()));
}

#[test]
fn memory_that_is_another_ones_is_not_filled() {
    let memory = Memory::new().expect("memory");
    assert!(Room::Theirs(memory.slot(0)).bytes().is_empty());
}
