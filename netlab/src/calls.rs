//! Calls that do not wait.

use std::cell::RefCell;
use std::io;
use tane::net::Socket;

/// Of one call.
const PIECE: usize = 64 << 10;

thread_local! {
    /// What is sent: no part of the program's file, as a constant would be.
    static ZEROES: Vec<u8> = vec![0; PIECE];
    /// For what nobody looks at.
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// `None`: not now.
pub fn ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

/// As much of so many bytes as there is room for.
pub fn send(socket: &Socket, bytes: u64) -> io::Result<u64> {
    ZEROES.with(|zeroes| {
        let mut sent = 0;
        while sent < bytes {
            let piece = &zeroes[..(bytes - sent).min(PIECE as u64) as usize];
            match ready(socket.send(piece, None, libc::MSG_DONTWAIT))? {
                Some(n) => sent += n as u64,
                None => break,
            }
        }
        Ok(sent)
    })
}

/// As much as has come, up to so many bytes, and whether that was the end.
pub fn receive(socket: &Socket, most: u64) -> io::Result<(u64, bool)> {
    ROOM.with_borrow_mut(|room| {
        let mut got = 0;
        while got < most {
            let room = &mut room[..(most - got).min(PIECE as u64) as usize];
            match ready(socket.receive(room, libc::MSG_DONTWAIT, false))? {
                Some((0, _)) => return Ok((got, true)),
                Some((n, _)) => got += n as u64,
                None => break,
            }
        }
        Ok((got, false))
    })
}
