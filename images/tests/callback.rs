//! A disk of functions: they see what the guest asks for and nothing behind
//! the size they named.

mod common;

use common::{pattern, read, write};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tane_images::{buffer, Backend, Callback, Callbacks};

fn refuse() -> io::Error {
    io::Error::from_raw_os_error(libc::EREMOTEIO)
}

/// A disk kept in a vector, and the longest slice its functions saw.
fn vector(bytes: Vec<u8>) -> (Callback, Arc<Mutex<Vec<u8>>>, Arc<AtomicUsize>) {
    let (bytes, longest) = (Arc::new(Mutex::new(bytes)), Arc::new(AtomicUsize::new(0)));
    let (r, rl, w, wl) = (
        bytes.clone(),
        longest.clone(),
        bytes.clone(),
        longest.clone(),
    );
    let disk = Callback::new(Callbacks {
        size: bytes.lock().unwrap().len() as u64,
        read: Box::new(move |to, at| {
            rl.fetch_max(to.len(), Ordering::Relaxed);
            to.copy_from_slice(&r.lock().unwrap()[at as usize..at as usize + to.len()]);
            Ok(())
        }),
        write: Some(Box::new(move |from, at| {
            wl.fetch_max(from.len(), Ordering::Relaxed);
            w.lock().unwrap()[at as usize..at as usize + from.len()].copy_from_slice(from);
            Ok(())
        })),
        flush: None,
        discard: None,
    });
    (disk, bytes, longest)
}

#[test]
fn the_functions_are_the_disk() {
    let (disk, bytes, longest) = vector(pattern(5 << 20, 1));
    assert_eq!(
        read(&disk, 512, 512).unwrap(),
        bytes.lock().unwrap()[512..1024]
    );
    let data = pattern(3 << 20, 2);
    let (a, b) = data.split_at(1_500_001);
    disk.write(&[buffer(a), buffer(b)], 1024).unwrap();
    assert!(bytes.lock().unwrap()[1024..1024 + (3 << 20)] == data[..]);
    assert!(read(&disk, 1024, 3 << 20).unwrap() == data);
    disk.write_zeroes(2048, 2 << 20, true).unwrap();
    assert!(read(&disk, 2048, 2 << 20).unwrap() == vec![0; 2 << 20]);
    // Larger requests come in parts: a guest asks for as much as it likes.
    assert_eq!(longest.load(Ordering::Relaxed), 1 << 20);
    disk.flush().unwrap();
    disk.discard(0, 512).unwrap();
}

#[test]
fn nothing_behind_the_size_is_asked_of_them() {
    let (disk, ..) = vector(vec![1; 1000]);
    assert!(read(&disk, 512, 512).is_err());
    assert!(write(&disk, 1000, &[1]).is_err());
    assert!(disk.write_zeroes(u64::MAX, 2, false).is_err());
    assert!(disk.discard(999, 2).is_err());
}

#[test]
fn a_disk_without_a_write_function_is_read_only() {
    let disk = Callback::new(Callbacks {
        size: 512,
        read: Box::new(|to, _| {
            to.fill(8);
            Ok(())
        }),
        write: None,
        flush: None,
        discard: Some(Box::new(|_, _| panic!("called"))),
    });
    assert!(disk.read_only());
    assert_eq!(read(&disk, 0, 512).unwrap(), [8; 512]);
    for result in [
        write(&disk, 0, &[1; 512]),
        disk.write_zeroes(0, 512, true),
        disk.discard(0, 512),
    ] {
        assert_eq!(
            result.unwrap_err().kind(),
            io::ErrorKind::ReadOnlyFilesystem
        );
    }
}

#[test]
fn their_errors_arrive_unchanged() {
    let disk = Callback::new(Callbacks {
        size: 512,
        read: Box::new(|_, _| Err(refuse())),
        write: Some(Box::new(|_, _| Err(refuse()))),
        flush: Some(Box::new(|| Err(refuse()))),
        discard: Some(Box::new(|_, _| Err(refuse()))),
    });
    for result in [
        read(&disk, 0, 512).map(drop),
        write(&disk, 0, &[1; 512]),
        disk.flush(),
        disk.discard(0, 512),
        disk.write_zeroes(0, 512, true),
    ] {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EREMOTEIO));
    }
}
