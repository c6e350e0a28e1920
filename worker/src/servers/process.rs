//! The process that talks to servers. It believes nothing of what the worker says.

use super::frame::{
    self, Answer, Question, Shape, DISCARD, FAREWELL, FLUSH, HOLES, MOST, OPEN, READ, SEAL, WRITE,
    ZEROES,
};
use super::named::{Exports, Named};
use crate::failure::{Failure, Result};
use crate::objects::lock;
use crate::take_over::{take_over, Given};
use crate::wire::{List, Reader, Wire};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use tane::images::{buffer, buffer_mut, Backend, Format, ImageOptions, Login};
use tane::jail::Jail;

/// Requests of the worker that are served at once: as many as Linux makes.
const THREADS: usize = 8;
/// Private memory: what was read is kept, 64 MiB for each file.
const MEMORY: u64 = 1 << 30;
/// Files that a worker can have open: an image consists of no more.
const FILES: usize = 1024;

/// Serve the worker, to its end. The descriptors: 0 is its socket, 1 says the addresses.
pub fn run() -> ! {
    let Ok(Given { first, second, .. }) = take_over() else {
        std::process::exit(1);
    };
    let mut addresses = Vec::new();
    let read = File::from(second).read_to_end(&mut addresses);
    let addresses = List::<Named>::get(&mut Reader::new(&addresses));
    let (Ok(_), Ok(List(addresses))) = (read, addresses) else {
        std::process::exit(1);
    };
    let mut logins = Vec::new();
    let bare = |named: Named| match Login::take(&named.address) {
        Some((address, login)) => {
            logins.push(login);
            Named { address, ..named }
        }
        None => named,
    };
    let named = addresses.into_iter().map(bare).collect();
    serve(first, named, logins)
}

/// Serve who is at the other end of this socket, to its end. This process has one thread,
/// and nothing else open.
pub fn serve(line: OwnedFd, named: Vec<Named>, logins: Vec<Login>) -> ! {
    let exports = Exports::connect(&named);
    let is_web = named.iter().any(|named| !named.is_nbd());
    let mut jail = Jail::new();
    if is_web {
        for path in tane::network_files() {
            jail.read(path);
        }
    }
    // What comes as a whole is kept in files that are open already.
    tane::images::set_temporary_files_aside();
    let jailed = jail.network(is_web).memory(MEMORY).enter();
    let refusal = jailed.err().map(|e| {
        let text = format!("the jail of the process that talks to servers cannot be set up: {e}");
        Failure::new(libc::EPERM, text)
    });
    let servers = Servers::new(named, exports, logins, refusal);
    Arc::new(servers).serve(&File::from(line));
    end()
}

/// Without what a program does when it ends: after a fork that is the parent's.
fn end() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

struct Servers {
    /// Addresses without names and passwords.
    named: Vec<Named>,
    exports: Exports,
    options: ImageOptions,
    refusal: Option<Failure>,
    sealed: AtomicBool,
    open: Mutex<Vec<Arc<dyn Backend>>>,
}

impl Servers {
    fn new(
        named: Vec<Named>,
        exports: Exports,
        logins: Vec<Login>,
        refusal: Option<Failure>,
    ) -> Servers {
        let mut options = ImageOptions::new();
        // What is in it is the worker's to look at.
        options.format(Format::Raw);
        for login in logins {
            options.login(login);
        }
        Servers {
            named,
            exports,
            options,
            refusal,
            sealed: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    fn serve(self: &Arc<Self>, line: &File) {
        // As many as come, so that a farewell is read behind those that servers keep waiting.
        // A worker that asks for more than fits in this process's memory has had servers.
        let (give, questions) = channel::<Question>();
        let questions = Mutex::new(questions);
        let writing = Mutex::new(());
        let answer = |question: &Question| {
            let answer = self.answer(question);
            let _writing = lock(&writing);
            // If nobody is there to read it, this ends too.
            let _ = frame::send(line, &answer, answer.bytes.len());
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| loop {
                    let question = lock(&questions).recv();
                    let Ok(question) = question else { return };
                    answer(&question);
                });
            }
            // Before somebody asks, who may have much to do before. It is talk with servers:
            // not without the jail.
            if self.refusal.is_none() {
                for agree in self.exports.agree() {
                    scope.spawn(agree);
                }
            }
            while let Ok(Some(question)) = frame::receive::<Question>(line) {
                match question.what {
                    // Whatever others wait for.
                    FAREWELL => answer(&question),
                    _ if give.send(question).is_err() => break,
                    _ => {}
                }
            }
            self.exports.farewell();
            // Without waiting for servers.
            #[cfg(not(test))]
            end();
            #[cfg(test)]
            drop(give);
        });
    }

    fn answer(&self, question: &Question) -> Answer {
        let done = match question.what {
            OPEN => self.open(&question.address, question.len != 0),
            READ => self.read(question),
            WRITE | FLUSH | DISCARD | ZEROES | HOLES => self.change(question),
            SEAL => {
                self.sealed.store(true, SeqCst);
                Ok((0, Vec::new()))
            }
            FAREWELL => {
                self.exports.farewell();
                Ok((0, Vec::new()))
            }
            _ => Err(Failure::new(libc::ENOSYS, "no such request")),
        };
        let (errno, value, bytes) = match done {
            Ok((value, bytes)) => (0, value, bytes),
            Err(failure) => (failure.errno, 0, failure.text.into_bytes()),
        };
        let id = question.id;
        Answer {
            id,
            errno,
            value,
            bytes,
        }
    }

    fn open(&self, address: &str, write: bool) -> Result<(u64, Vec<u8>)> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let mut named = self.named.iter();
        let allowed = named.any(|named| named.allows(address, write));
        if self.sealed.load(SeqCst) || !allowed {
            return Err(Failure::of_errno(libc::EACCES, address));
        }
        let said = Arc::new(Mutex::new(String::new()));
        let say = said.clone();
        let disk = match tane::images::is_nbd(address.as_ref()) {
            true => {
                let say = |text: &str| lock(&say).push_str(&format!("{address}: {text}"));
                self.exports.disk(address, write, &say)
            }
            false => {
                let mut options = self.options.clone();
                options.notice(move |text| lock(&say).push_str(text));
                options.open(address).map(|image| image.backend)
            }
        };
        let disk = disk.map_err(failure)?;
        let mut open = lock(&self.open);
        if open.len() == FILES {
            return Err(Failure::of_errno(libc::EMFILE, address));
        }
        let shape = Shape {
            size: disk.size(),
            block_sizes: disk.block_sizes(),
        };
        let mut bytes = shape.to_bytes().to_vec();
        bytes.extend_from_slice(lock(&said).as_bytes());
        open.push(disk);
        Ok((open.len() as u64 - 1, bytes))
    }

    /// The disk of a question, and an error unless it has what is asked for.
    fn disk(&self, question: &Question) -> Result<Arc<dyn Backend>> {
        let wrong = || Failure::of_errno(libc::EINVAL, "use a disk on a server");
        let at = usize::try_from(question.handle).map_err(|_| wrong())?;
        let disk = lock(&self.open).get(at).cloned().ok_or_else(wrong)?;
        let end = question.offset.checked_add(question.len);
        let fits = end.is_some_and(|end| end <= disk.size());
        let moves = [READ, WRITE].contains(&question.what);
        let is_too_long = moves && question.len > MOST as u64;
        let is_odd = question.what == WRITE && question.data.len() as u64 != question.len;
        match !fits || is_too_long || is_odd {
            true => Err(wrong()),
            false => Ok(disk),
        }
    }

    /// Of a disk that was opened for that: another one refuses.
    fn change(&self, question: &Question) -> Result<(u64, Vec<u8>)> {
        let disk = self.disk(question)?;
        let Question { offset, len, .. } = *question;
        let done = match question.what {
            WRITE => disk.write(&[buffer(&question.data)], offset),
            FLUSH => disk.flush(),
            DISCARD => disk.discard(offset, len),
            what => disk.write_zeroes(offset, len, what == HOLES),
        };
        done.map_err(failure)?;
        Ok((0, Vec::new()))
    }

    fn read(&self, question: &Question) -> Result<(u64, Vec<u8>)> {
        let disk = self.disk(question)?;
        let mut bytes = vec![0; question.len as usize];
        let read = disk.read(&[buffer_mut(&mut bytes)], question.offset);
        read.map_err(failure)?;
        Ok((0, bytes))
    }
}

fn failure(error: std::io::Error) -> Failure {
    Failure::new(tane::errno_or_guess(&error), error.to_string())
}

#[cfg(test)]
mod tests;
