//! A raw image holds what was written, and errors name the file.

mod common;

use common::{pattern, read, write, Temporary, DIRECT, READ, WRITE};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tane_images::{buffer, buffer_mut, Backend, Raw};

#[test]
fn what_is_written_is_read_and_is_in_the_file() {
    let file = Temporary::sparse(1 << 20);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    let data = pattern(70_000, 1);
    write(&disk, 1536, &data).unwrap();
    disk.flush().unwrap();
    assert_eq!(read(&disk, 1536, data.len()).unwrap(), data);
    assert_eq!(file.bytes()[1536..1536 + data.len()], data[..]);
}

#[test]
fn a_transfer_spreads_over_many_buffers() {
    let file = Temporary::sparse(1 << 20);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    let data = pattern(3000 * 100, 2);
    // More than the host takes at once, empty ones among them.
    let mut from: Vec<_> = data.chunks(100).map(buffer).collect();
    from.insert(17, buffer(&[]));
    disk.write(&from, 512).unwrap();
    let mut got = vec![0; data.len()];
    let mut to: Vec<_> = got.chunks_mut(100).map(buffer_mut).collect();
    to.insert(2999, buffer_mut(&mut []));
    disk.read(&to, 512).unwrap();
    assert_eq!(got, data);
}

#[test]
fn empty_buffers_are_not_the_end_of_the_file() {
    let data = pattern(512, 7);
    let file = Temporary::new(&data);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    let mut got = vec![0xee; 512];
    let mut to: Vec<_> = (0..1100).map(|_| buffer_mut(&mut [])).collect();
    to.push(buffer_mut(&mut got));
    disk.read(&to, 0).unwrap();
    assert_eq!(got, data);
    disk.write(&to, 0).unwrap();
    disk.write(&[buffer(&[])], 0).unwrap();
    assert_eq!(file.bytes(), data);
}

#[test]
fn behind_the_end_of_an_uneven_file_are_zeros() {
    let data = pattern(1000, 3);
    let file = Temporary::new(&data);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    assert_eq!(disk.size(), 1000);
    let mut want = data[512..].to_vec();
    want.resize(512, 0);
    assert_eq!(read(&disk, 512, 512).unwrap(), want);
}

#[test]
fn a_file_never_grows() {
    let file = Temporary::new(&pattern(1000, 3));
    let disk = Raw::open(&file.0, WRITE).unwrap();
    assert!(write(&disk, 512, &[1; 512]).is_err());
    assert!(write(&disk, 1 << 40, &[1; 512]).is_err());
    assert!(write(&disk, u64::MAX - 511, &[1; 512]).is_err());
    assert!(disk.write_zeroes(512, 512, false).is_err());
    assert!(disk.discard(512, 512).is_err());
    assert_eq!(file.bytes(), pattern(1000, 3));
}

#[test]
fn a_resized_file_is_measured_again() {
    let file = Temporary::sparse(4096);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    let other = fs::File::options().write(true).open(&file.0).unwrap();
    other.set_len(8192).unwrap();
    assert_eq!(disk.size(), 4096);
    assert_eq!(disk.measure().unwrap(), 8192);
    write(&disk, 7680, &[9; 512]).unwrap();
}

#[test]
fn a_reader_changes_nothing() {
    let data = pattern(8192, 4);
    let file = Temporary::new(&data);
    let disk = Raw::open(&file.0, READ).unwrap();
    assert!(disk.read_only());
    assert_eq!(read(&disk, 4096, 4096).unwrap(), data[4096..]);
    let readonly = |r: std::io::Result<()>| {
        assert_eq!(r.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    };
    readonly(write(&disk, 0, &[1; 512]));
    readonly(disk.discard(0, 4096));
    readonly(disk.write_zeroes(0, 4096, true));
    // Refused, or left to the way that refuses it.
    assert!(!matches!(disk.try_write(&[buffer(&[1; 512])], 0), Ok(true)));
    disk.flush().unwrap();
    assert_eq!(file.bytes(), data);
}

#[test]
fn a_second_writer_is_told_that_the_file_is_in_use() {
    let file = Temporary::sparse(4096);
    let named = |e: std::io::Error, what: &str| {
        let text = e.to_string();
        assert_eq!(e.kind(), ErrorKind::ResourceBusy, "{text}");
        assert!(text.contains(file.0.to_str().unwrap()), "{text}");
        assert!(text.contains(what), "{text}");
    };
    let first = Raw::open(&file.0, WRITE).unwrap();
    named(
        Raw::open(&file.0, WRITE).unwrap_err(),
        "in use by this program itself",
    );
    named(
        Raw::open(&file.0, READ).unwrap_err(),
        "in use by this program itself",
    );
    drop(first);
    let readers = [Raw::open(&file.0, READ), Raw::open(&file.0, READ)];
    assert!(readers.iter().all(Result::is_ok));
    named(
        Raw::open(&file.0, WRITE).unwrap_err(),
        "in use by this program itself",
    );
    drop(readers);
    Raw::open(&file.0, WRITE).unwrap();
}

#[test]
fn errors_name_the_file_and_what_is_wrong() {
    let error = |path: &Path, access| Raw::open(path, access).unwrap_err();
    let missing = error("/nowhere/disk.img".as_ref(), READ);
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains("/nowhere/disk.img"));

    let folder = error("/proc".as_ref(), READ);
    assert_eq!(folder.kind(), ErrorKind::IsADirectory);
    assert!(folder.to_string().contains("/proc: is a directory"));

    let device = error("/dev/null".as_ref(), READ).to_string();
    assert!(
        device.contains("neither a file nor a block device"),
        "{device}"
    );
}

#[test]
fn a_fifo_is_refused_without_waiting_for_its_other_end() {
    let path = Temporary::new(&[]);
    fs::remove_file(&path.0).unwrap();
    let name = std::ffi::CString::new(path.0.to_str().unwrap()).unwrap();
    // SAFETY: a string of ours.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(Raw::open(&path.0, READ).is_err());
}

#[test]
fn a_file_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } == 0 {
        // Root may do anything, but not write what is being executed.
        let exe = std::env::current_exe().unwrap();
        let error = Raw::open(&exe, WRITE).unwrap_err().to_string();
        assert!(error.contains(exe.to_str().unwrap()), "{error}");
        return;
    }
    let file = Temporary::sparse(512);
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o400)).unwrap();
    let error = Raw::open(&file.0, WRITE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(file.0.to_str().unwrap()));
    assert!(error.to_string().contains("for writing"));
    Raw::open(&file.0, READ).unwrap();
}

#[test]
fn three_tebibytes_work_at_the_far_end_and_take_no_space() {
    const SIZE: u64 = 3 << 40;
    let file = Temporary::sparse(SIZE);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    assert_eq!(disk.size(), SIZE);
    let data = pattern(4096, 5);
    write(&disk, SIZE - 4096, &data).unwrap();
    assert_eq!(read(&disk, SIZE - 8192, 4096).unwrap(), vec![0; 4096]);
    assert_eq!(read(&disk, SIZE - 4096, 4096).unwrap(), data);
    assert_eq!(read(&disk, SIZE - 512, 512).unwrap(), data[3584..]);
    assert!(write(&disk, SIZE - 512, &[0; 1024]).is_err());
    assert!(fs::metadata(&file.0).unwrap().blocks() * 512 < 1 << 20);
}

#[test]
fn a_discarded_range_gives_its_space_back() {
    let file = Temporary::new(&vec![7; 4 << 20]);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    disk.flush().unwrap();
    let before = fs::metadata(&file.0).unwrap().blocks();
    disk.discard(1 << 20, 2 << 20).unwrap();
    disk.discard(0, 0).unwrap();
    disk.flush().unwrap();
    assert_eq!(fs::metadata(&file.0).unwrap().len(), 4 << 20);
    assert!(fs::metadata(&file.0).unwrap().blocks() < before);
    assert_eq!(read(&disk, 0, 1 << 20).unwrap(), vec![7; 1 << 20]);
    assert_eq!(read(&disk, 3 << 20, 1 << 20).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn zeroed_ranges_read_as_zero_to_the_byte() {
    for may_unmap in [true, false] {
        let mut model = pattern(3 << 20, 6);
        let file = Temporary::new(&model);
        let disk = Raw::open(&file.0, WRITE).unwrap();
        for (offset, len) in [(512, 512), (8192, 100 << 10), (1 << 20, (1 << 20) + 1536)] {
            disk.write_zeroes(offset, len, may_unmap).unwrap();
            model[offset as usize..(offset + len) as usize].fill(0);
        }
        disk.write_zeroes(4096, 0, may_unmap).unwrap();
        disk.flush().unwrap();
        assert!(file.bytes() == model);
    }
}

#[test]
fn an_answer_at_once_is_the_same_answer() {
    let data = pattern(1 << 20, 8);
    let file = Temporary::new(&data);
    let disk = Raw::open(&file.0, WRITE).unwrap();
    let mut got = vec![0; 65536];
    for step in 0..16 {
        let at = step * 65536;
        if disk.try_read(&[buffer_mut(&mut got)], at).unwrap() {
            assert_eq!(got, data[at as usize..at as usize + 65536]);
        }
        let fresh = pattern(65536, step as u8);
        if !disk.try_write(&[buffer(&fresh)], at).unwrap() {
            write(&disk, at, &fresh).unwrap();
        }
        assert_eq!(read(&disk, at, 65536).unwrap(), fresh);
    }
    assert!(!matches!(
        disk.try_write(&[buffer(&[1; 512])], 1 << 20),
        Ok(true)
    ));
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_an_error_and_not_zeros() {
    for access in [WRITE, DIRECT] {
        let file = Temporary::new(&pattern(64 << 10, 1));
        let Ok(disk) = Raw::open(&file.0, access) else {
            return tane_test_support::skip("no direct I/O here");
        };
        let cut = File::options().write(true).open(&file.0).unwrap();
        cut.set_len(8192).unwrap();
        assert_eq!(read(&disk, 0, 4096).is_ok(), access == WRITE);
        for result in [read(&disk, 32 << 10, 4096).map(drop), disk.flush()] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("has been cut to 8192 bytes"), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_deleted_while_it_is_open_is_read_and_not_written_in_vain() {
    let file = Temporary::new(&pattern(8192, 1));
    let disk = Raw::open(&file.0, WRITE).unwrap();
    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(read(&disk, 0, 8192).unwrap(), pattern(8192, 1));
    write(&disk, 0, &[1; 512]).unwrap();
    let error = disk.flush().unwrap_err().to_string();
    assert!(error.contains("has been deleted"), "{error}");
}
