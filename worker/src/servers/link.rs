//! The worker's side: an address as a disk. Any thread may ask; of those that wait one
//! reads the answers, for all.

use super::frame::{self, Answer, Question, MOST, OPEN, READ, SEAL};
use crate::objects::lock;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use tane::images::{scatter, slice, total, Backend, Buffers};

pub struct Link {
    line: File,
    writing: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Answers that somebody else has read.
    come: HashMap<u64, Answer>,
    somebody_reads: bool,
    /// The other process has ended, or talks nonsense.
    broken: bool,
}

fn ended() -> io::Error {
    io::Error::other("the process that talks to servers has ended")
}

impl Link {
    pub fn new(line: OwnedFd) -> Link {
        Link {
            // Not a socket to the standard library: its calls are not in the jail.
            line: File::from(line),
            writing: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn ask(&self, mut question: Question) -> io::Result<Answer> {
        let mut state = lock(&self.state);
        state.last += 1;
        question.id = state.last;
        drop(state);
        let writing = lock(&self.writing);
        let sent = frame::send(&self.line, &question, question.address.len());
        sent.map_err(|_| ended())?;
        drop(writing);
        let answer = self.await_answer(question.id)?;
        match answer.errno {
            0 => Ok(answer),
            errno => {
                let kind = io::Error::from_raw_os_error(errno).kind();
                let text = crate::client::readable(&answer.bytes);
                Err(io::Error::new(kind, text))
            }
        }
    }

    fn await_answer(&self, id: u64) -> io::Result<Answer> {
        let mut state = lock(&self.state);
        loop {
            if let Some(answer) = state.come.remove(&id) {
                return Ok(answer);
            }
            if state.broken {
                return Err(ended());
            }
            if state.somebody_reads {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(|e| e.into_inner());
                continue;
            }
            state.somebody_reads = true;
            drop(state);
            let next = frame::receive::<Answer>(&self.line);
            state = lock(&self.state);
            state.somebody_reads = false;
            match next {
                Ok(Some(answer)) => drop(state.come.insert(answer.id, answer)),
                _ => state.broken = true,
            }
            self.changed.notify_all();
        }
    }

    fn question(what: u32) -> Question {
        Question {
            id: 0,
            what,
            handle: 0,
            offset: 0,
            len: 0,
            address: String::new(),
        }
    }

    /// A file on a server, and a sentence for the user or nothing.
    pub fn open_and_tell(
        self: &Arc<Self>,
        address: &str,
    ) -> io::Result<(Arc<dyn Backend>, String)> {
        let mut question = Self::question(OPEN);
        question.address = address.into();
        let answer = self.ask(question)?;
        let (size, said) = answer.bytes.split_first_chunk().ok_or_else(ended)?;
        let disk = Disk {
            link: self.clone(),
            handle: answer.value,
            size: u64::from_le_bytes(*size),
        };
        Ok((Arc::new(disk), crate::client::readable(said)))
    }

    #[cfg(test)]
    pub fn open(self: &Arc<Self>, address: &str) -> io::Result<Arc<dyn Backend>> {
        self.open_and_tell(address).map(|(disk, _)| disk)
    }

    /// Nothing more can be opened, by whatever code will run here.
    pub fn seal(&self) -> io::Result<()> {
        self.ask(Self::question(SEAL)).map(drop)
    }
}

struct Disk {
    link: Arc<Link>,
    handle: u64,
    size: u64,
}

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "what is on a server can only be read",
    )
}

impl Backend for Disk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let (len, mut done) = (total(to), 0);
        while done < len {
            let want = (len - done).min(MOST);
            let mut question = Link::question(READ);
            question.handle = self.handle;
            question.offset = offset + done as u64;
            question.len = want as u64;
            let answer = self.link.ask(question)?;
            if answer.bytes.len() != want {
                return Err(ended());
            }
            // SAFETY: guest memory, see `Buffers`.
            unsafe { scatter(&answer.bytes, &slice(to, done, want)) };
            done += want;
        }
        Ok(())
    }

    fn write(&self, _: Buffers, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Err(refused())
    }
}
