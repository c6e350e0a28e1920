//! Promises about open files, by comparison of two Linuxes.

use crate::common::everywhere;
use std::io::{Read, Seek, SeekFrom, Write};
use tane::{errno_of, OpenOptions, SetTime, SetTimes, Timestamp};

#[test]
fn what_was_written_is_read_back() {
    everywhere(|tree| {
        let content: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        tree.write("big", &content).unwrap();
        assert_eq!(tree.read("big").unwrap(), content);
        tree.write("big", b"short").unwrap();
        assert_eq!(tree.read_to_string("big").unwrap(), "short");
        tree.write("bytes", b"\xff").unwrap();
        assert_eq!(
            tree.read_to_string("bytes").unwrap_err().errno(),
            libc::EILSEQ
        );
    });
}

#[test]
fn a_file_reads_writes_and_seeks_like_std() {
    everywhere(|tree| {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(tree, "f")
            .unwrap();
        file.write_all(b"hello world").unwrap();
        assert_eq!(file.seek(SeekFrom::Start(6)).unwrap(), 6);
        let mut word = String::new();
        file.read_to_string(&mut word).unwrap();
        assert_eq!(word, "world");
        assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 6);
        assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap(), 5);
        let error = file.seek(SeekFrom::Start(u64::MAX)).unwrap_err();
        assert_eq!(errno_of(&error), Some(libc::EINVAL));

        let mut two = [0; 2];
        file.read_exact_at(&mut two, 4).unwrap();
        assert_eq!(&two, b"o ");
        file.write_all_at(b"HE", 0).unwrap();
        assert_eq!(file.stream_position().unwrap(), 5);
        let eof = file.read_exact_at(&mut two, 10).unwrap_err();
        assert_eq!(eof.kind(), std::io::ErrorKind::UnexpectedEof);

        file.set_len(5).unwrap();
        assert_eq!(tree.read("f").unwrap(), b"HEllo");
        let again = options.open(tree, "f").unwrap_err();
        assert_eq!(again.errno(), libc::EEXIST);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
    });
}

#[test]
fn appended_writes_go_to_the_end() {
    everywhere(|tree| {
        tree.write("f", "one").unwrap();
        let mut file = OpenOptions::new().append(true).open(tree, "f").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b" two").unwrap();
        assert_eq!(tree.read("f").unwrap(), b"one two");
    });
}

#[test]
fn options_that_std_refuses_are_refused() {
    everywhere(|tree| {
        tree.write("f", "").unwrap();
        let nothing = OpenOptions::new();
        let mut create_only = OpenOptions::new();
        create_only.read(true).create(true);
        let mut cut_and_append = OpenOptions::new();
        cut_and_append.append(true).truncate(true);
        for options in [nothing, create_only, cut_and_append] {
            let error = options.open(tree, "f").unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL, "{options:?}");
        }
    });
}

#[test]
fn holes_are_made_and_found() {
    everywhere(|tree| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .open(tree, "sparse")
            .unwrap();
        const M: u64 = 1 << 20;
        file.write_all_at(&vec![1; 2 << 20], 0).unwrap();
        file.set_len(8 * M).unwrap();
        file.write_all_at(b"end", 8 * M).unwrap();
        file.sync_all().unwrap();
        match file.punch_hole(M, M / 2) {
            Err(e) if e.errno() == libc::EOPNOTSUPP => {
                return tane_test_support::skip("a file system without holes");
            }
            punched => punched.unwrap(),
        }
        assert_eq!(file.seek_hole(0).unwrap(), M);
        assert_eq!(file.seek_data(M).unwrap(), Some(M + M / 2));
        assert_eq!(file.seek_data(3 * M).unwrap(), Some(8 * M));
        assert_eq!(file.seek_data(8 * M + 3).unwrap(), None);
        assert_eq!(file.seek_hole(9 * M).unwrap_err().errno(), libc::ENXIO);
        let mut zeroes = [1; 4096];
        file.read_exact_at(&mut zeroes, M).unwrap();
        assert!(zeroes.iter().all(|&b| b == 0));
        assert!(file.metadata().unwrap().blocks() * 512 < 3 * M);
        file.allocate(libc::FALLOC_FL_KEEP_SIZE, 0, 4 * M).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 8 * M + 3);
    });
}

#[test]
fn metadata_of_an_open_file_is_set_and_read() {
    everywhere(|tree| {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .mode(0o4751)
            .open(tree, "f")
            .unwrap();
        if tree.kernel().dmesg().is_empty() {
            // The host has a umask of its own.
            file.set_permissions(0o4751).unwrap();
        }
        assert_eq!(file.metadata().unwrap().permissions(), 0o4751);
        file.set_permissions(0o600).unwrap();
        let time = Timestamp {
            seconds: -77,
            nanoseconds: 123_456_789,
        };
        file.set_times(SetTimes {
            accessed: SetTime::Keep,
            modified: time.into(),
        })
        .unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.permissions(), 0o600);
        assert_eq!(metadata.mtime(), time);
        assert_ne!(metadata.atime(), time);
        assert_eq!(Timestamp::from(metadata.modified()), time);
        assert!(metadata.is_file());
        assert_eq!(metadata.nlink(), 1);

        file.set_owner(None, None).unwrap();
        if metadata.uid() == 0 {
            file.set_owner(Some(12), Some(345_678)).unwrap();
            let metadata = tree.metadata("f").unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (12, 345_678));
        }
    });
}

#[test]
fn files_are_copied_inside_the_kernel() {
    everywhere(|tree| {
        tree.write("a", vec![5; 100_000]).unwrap();
        tree.set_permissions("a", 0o640).unwrap();
        assert_eq!(tree.copy("a", "b").unwrap(), 100_000);
        assert_eq!(tree.read("b").unwrap(), tree.read("a").unwrap());
        assert_eq!(tree.metadata("b").unwrap().permissions(), 0o640);
    });
}

#[test]
fn a_clone_shares_the_position() {
    everywhere(|tree| {
        tree.write("f", "abcdef").unwrap();
        let mut file = tree.open("f").unwrap();
        let mut clone = file.try_clone().unwrap();
        let mut three = [0; 3];
        file.read_exact(&mut three).unwrap();
        clone.read_exact(&mut three).unwrap();
        assert_eq!(&three, b"def");
    });
}

#[test]
fn threads_share_a_file() {
    everywhere(|tree| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .open(tree, "shared")
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let file = &file;
                scope.spawn(move || {
                    for i in 0..200 {
                        let at = (i * 4 + u64::from(thread)) * 512;
                        file.write_all_at(&[thread; 512], at).unwrap();
                    }
                });
            }
        });
        let content = tree.read("shared").unwrap();
        assert_eq!(content.len(), 800 * 512);
        for (i, block) in content.chunks(512).enumerate() {
            assert!(block.iter().all(|&b| usize::from(b) == i % 4));
        }
    });
}
