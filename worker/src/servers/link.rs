//! The worker's side: an address as a disk. Any thread may ask; of those that wait one
//! reads the answers, for all.

use super::frame::{
    self, Answer, Question, Shape, DISCARD, FAREWELL, FLUSH, HOLES, MOST, OPEN, READ, SEAL, WRITE,
    ZEROES,
};
use super::FAREWELLS;
use crate::objects::lock;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use tane::images::{gather, scatter, slice, total, Backend, Buffers};

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

    pub(super) fn ask(&self, mut question: Question) -> io::Result<Answer> {
        let mut state = lock(&self.state);
        state.last += 1;
        question.id = state.last;
        drop(state);
        let writing = lock(&self.writing);
        let data = question.address.len() + question.data.len();
        let sent = frame::send(&self.line, &question, data);
        sent.map_err(|_| ended())?;
        drop(writing);
        let answer = self.await_answer(question.id)?;
        match answer.errno {
            0 => Ok(answer),
            errno => {
                let kind = io::Error::from_raw_os_error(errno).kind();
                let text = crate::failure::readable(&answer.bytes);
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
            data: Vec::new(),
        }
    }

    /// A disk on a server, for writing too or not, and a sentence for the user or nothing.
    pub fn open_and_tell(
        self: &Arc<Self>,
        address: &str,
        write: bool,
    ) -> io::Result<(Arc<dyn Backend>, String)> {
        let mut question = Self::question(OPEN);
        question.address = address.into();
        question.len = write.into();
        let answer = self.ask(question)?;
        let (shape, said) = answer.bytes.split_first_chunk().ok_or_else(ended)?;
        let disk = Disk {
            link: self.clone(),
            handle: answer.value,
            shape: Shape::of(shape).ok_or_else(ended)?,
            write,
        };
        Ok((Arc::new(disk), crate::failure::readable(said)))
    }

    #[cfg(test)]
    pub fn open(self: &Arc<Self>, address: &str) -> io::Result<Arc<dyn Backend>> {
        self.open_and_tell(address, false).map(|(disk, _)| disk)
    }

    /// Servers are told that it is the end, after which nothing is read or written any more:
    /// this process will end, and the one that talks to them is killed then. It is given two
    /// seconds.
    pub fn farewell(self: &Arc<Self>) {
        let (tell, told) = channel();
        let link = self.clone();
        // Another thread may be in the midst of a message that is not taken: what waits for
        // that is left behind.
        let ask = move || {
            // Who has ended has nobody to tell.
            let _ = link.ask(Self::question(FAREWELL));
            let _ = tell.send(());
        };
        if std::thread::Builder::new().spawn(ask).is_ok() {
            let _ = told.recv_timeout(FAREWELLS);
        }
    }

    /// Nothing more can be opened, by whatever code will run here.
    pub fn seal(&self) -> io::Result<()> {
        self.ask(Self::question(SEAL)).map(drop)
    }
}

struct Disk {
    link: Arc<Link>,
    handle: u64,
    shape: Shape,
    write: bool,
}

impl Disk {
    fn question(&self, what: u32, offset: u64, len: u64) -> Question {
        let mut question = Link::question(what);
        question.handle = self.handle;
        question.offset = offset;
        question.len = len;
        question
    }

    /// Have it changed, if it may be.
    fn change(&self, question: Question) -> io::Result<()> {
        match self.write {
            true => self.link.ask(question).map(drop),
            false => Err(refused()),
        }
    }
}

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "what is on a server was opened for reading only",
    )
}

impl Backend for Disk {
    fn size(&self) -> u64 {
        self.shape.size
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn block_sizes(&self) -> (u32, u32) {
        self.shape.block_sizes
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let (len, mut done) = (total(to), 0);
        while done < len {
            let want = (len - done).min(MOST);
            let question = self.question(READ, offset + done as u64, want as u64);
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

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let (len, mut done) = (total(from), 0);
        while done < len {
            let now = (len - done).min(MOST);
            let mut question = self.question(WRITE, offset + done as u64, now as u64);
            question.data = vec![0; now];
            // SAFETY: guest memory, see `Buffers`.
            unsafe { gather(&slice(from, done, now), &mut question.data) };
            self.change(question)?;
            done += now;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        match self.write {
            true => self.change(self.question(FLUSH, 0, 0)),
            false => Ok(()),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(self.question(DISCARD, offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        let what = if may_unmap { HOLES } else { ZEROES };
        self.change(self.question(what, offset, len))
    }
}
