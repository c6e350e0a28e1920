//! A file, or a part of one that is read as if it were a file of its own: an entry of an
//! archive.

use super::tree::{Content, Node};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tane_linux::Kind;

#[derive(Clone)]
pub struct Piece {
    pub file: Arc<File>,
    /// Its first byte there.
    pub start: u64,
    pub len: u64,
}

impl Piece {
    /// All of a regular file.
    pub fn whole(file: File) -> io::Result<Piece> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("is no regular file"));
        }
        Ok(Piece {
            file: Arc::new(file),
            start: 0,
            len: found.len(),
        })
    }

    /// What an archive has of a file that is not empty.
    pub fn of(node: &Node) -> io::Result<Piece> {
        if node.stat.kind() != Kind::File {
            return Err(io::Error::other("is no regular file"));
        }
        let len = node.stat.size;
        match &node.content {
            Content::Parts(file, parts) if matches!(parts[..], [(0, _, all)] if all == len) => {
                Ok(Piece {
                    file: file.clone(),
                    start: parts[0].1,
                    len,
                })
            }
            Content::None => Err(io::Error::other("is empty")),
            _ => Err(io::Error::other(
                "has holes in the archive: make that without them (tar without --sparse)",
            )),
        }
    }

    pub fn reader(&self) -> Reader {
        Reader {
            piece: self.clone(),
            at: 0,
        }
    }

    /// All of it, unless that is more than `most` bytes.
    pub fn bytes(&self, most: u64) -> io::Result<Vec<u8>> {
        if self.len > most {
            let text = format!("has {} bytes, and {most} are enough", self.len);
            return Err(io::Error::other(text));
        }
        let mut bytes = vec![0; self.len as usize];
        self.file.read_exact_at(&mut bytes, self.start)?;
        Ok(bytes)
    }
}

/// Reads one from its start to its end, which has to be there.
pub struct Reader {
    piece: Piece,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = (self.piece.len - self.at).min(to.len() as u64) as usize;
        let place = self.piece.start + self.at;
        let n = self.piece.file.read_at(&mut to[..left], place)?;
        if n == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        Ok(n)
    }
}
