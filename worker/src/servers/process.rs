//! The process that talks to servers. It believes nothing of what the worker says.

use super::frame::{self, Answer, Question, MOST, OPEN, READ, SEAL};
use crate::failure::{Failure, Result};
use crate::objects::lock;
use crate::take_over::{take_over, Given};
use crate::wire::{List, Reader, Wire};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use tane::images::{buffer_mut, Backend, Format, ImageOptions, Login};
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
    let addresses = List::<String>::get(&mut Reader::new(&addresses));
    let (Ok(_), Ok(List(addresses))) = (read, addresses) else {
        std::process::exit(1);
    };
    let mut logins = Vec::new();
    let bare = |address: String| match Login::take(&address) {
        Some((bare, login)) => {
            logins.push(login);
            bare
        }
        None => address,
    };
    let named = addresses.into_iter().map(bare).collect();
    serve(first, named, logins)
}

/// Serve who is at the other end of this socket, to its end. This process has one thread,
/// and nothing else open.
pub fn serve(line: OwnedFd, named: Vec<String>, logins: Vec<Login>) -> ! {
    let mut jail = Jail::new();
    for path in tane::network_files() {
        jail.read(path);
    }
    // What comes as a whole is kept in files that are open already.
    tane::images::set_temporary_files_aside();
    let jailed = jail.network(true).memory(MEMORY).enter();
    let refusal = jailed.err().map(|e| {
        let text = format!("the jail of the process that talks to servers cannot be set up: {e}");
        Failure::new(libc::EPERM, text)
    });
    Arc::new(Servers::new(named, logins, refusal)).serve(&File::from(line));
    end()
}

/// Without what a program does when it ends: after a fork that is the parent's.
fn end() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

struct Servers {
    /// Addresses without names and passwords.
    named: Vec<String>,
    options: ImageOptions,
    refusal: Option<Failure>,
    sealed: AtomicBool,
    open: Mutex<Vec<Arc<dyn Backend>>>,
}

impl Servers {
    fn new(named: Vec<String>, logins: Vec<Login>, refusal: Option<Failure>) -> Servers {
        let mut options = ImageOptions::new();
        // What is in it is the worker's to look at.
        options.format(Format::Raw);
        for login in logins {
            options.login(login);
        }
        Servers {
            named,
            options,
            refusal,
            sealed: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    fn serve(self: &Arc<Self>, line: &File) {
        let (give, questions) = sync_channel::<Question>(THREADS);
        let questions = Mutex::new(questions);
        let writing = Mutex::new(());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| loop {
                    let question = lock(&questions).recv();
                    let Ok(question) = question else { return };
                    let answer = self.answer(&question);
                    let _writing = lock(&writing);
                    // If nobody is there to read it, this ends too.
                    let _ = frame::send(line, &answer, answer.bytes.len());
                });
            }
            while let Ok(Some(question)) = frame::receive(line) {
                if give.send(question).is_err() {
                    break;
                }
            }
            // Without waiting for servers.
            #[cfg(not(test))]
            end();
            #[cfg(test)]
            drop(give);
        });
    }

    fn answer(&self, question: &Question) -> Answer {
        let done = match question.what {
            OPEN => self.open(&question.address),
            READ => self.read(question),
            SEAL => {
                self.sealed.store(true, SeqCst);
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

    fn open(&self, address: &str) -> Result<(u64, Vec<u8>)> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let named = &self.named;
        let allowed = named
            .iter()
            .any(|own| own == address || tane::images::is_beside(own, address));
        if self.sealed.load(SeqCst) || !allowed {
            return Err(Failure::of_errno(libc::EACCES, address));
        }
        let said = Arc::new(Mutex::new(String::new()));
        let mut options = self.options.clone();
        let say = said.clone();
        options.notice(move |text| lock(&say).push_str(text));
        let image = options.open(address);
        let image = image.map_err(failure)?;
        let mut open = lock(&self.open);
        if open.len() == FILES {
            return Err(Failure::of_errno(libc::EMFILE, address));
        }
        let mut bytes = image.backend.size().to_le_bytes().to_vec();
        bytes.extend_from_slice(lock(&said).as_bytes());
        open.push(image.backend);
        Ok((open.len() as u64 - 1, bytes))
    }

    fn read(&self, question: &Question) -> Result<(u64, Vec<u8>)> {
        let wrong = || Failure::of_errno(libc::EINVAL, "read");
        let at = usize::try_from(question.handle).map_err(|_| wrong())?;
        let backend = lock(&self.open).get(at).cloned().ok_or_else(wrong)?;
        let end = question.offset.checked_add(question.len);
        let fits = end.is_some_and(|end| end <= backend.size());
        if !fits || question.len > MOST as u64 {
            return Err(wrong());
        }
        let mut bytes = vec![0; question.len as usize];
        let read = backend.read(&[buffer_mut(&mut bytes)], question.offset);
        read.map_err(failure)?;
        Ok((0, bytes))
    }
}

fn failure(error: std::io::Error) -> Failure {
    Failure::new(tane::errno_or_guess(&error), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::link::Link;
    use super::*;
    use std::os::unix::net::UnixStream;
    use tane_test_support::http::Server;

    /// A link to servers that may open this address.
    fn link(address: String, test: impl FnOnce(&Arc<Link>)) {
        let (near, far) = UnixStream::pair().expect("sockets");
        let servers = Arc::new(Servers::new(vec![address], Vec::new(), None));
        let thread = std::thread::spawn(move || servers.serve(&File::from(OwnedFd::from(far))));
        test(&Arc::new(Link::new(near.into())));
        thread.join().expect("it ends with the link");
    }

    #[test]
    fn only_what_was_named_and_what_lies_beside_it_is_opened() {
        let server = Server::of(vec![7; 5000]);
        link(server.url("dir/disk"), |link| {
            let good = ["dir/disk", "dir/part-2.vmdk"];
            assert!(good.map(|name| link.open(&server.url(name)).is_ok()) == [true; 2]);
            let other = Server::of(vec![7; 5000]);
            let bad = [
                server.url(""),
                server.url("disk"),
                server.url("dir/"),
                server.url("dir/.."),
                server.url("dir/deep/disk"),
                server.url("dir/disk?more"),
                other.url("dir/disk"),
                format!("http://me:pw@{}/dir/disk", server.address()),
                "/etc/passwd".into(),
            ];
            for address in bad {
                let error = link.open(&address).err().expect("refused");
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            }
            assert_eq!(other.requests(), 0);
        });
    }

    #[test]
    fn once_sealed_it_reads_what_is_open_and_opens_nothing() {
        let file: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
        let server = Server::of(file.clone());
        link(server.url("disk"), |link| {
            let disk = link.open(&server.url("disk")).expect("a disk");
            link.seal().expect("sealed");
            assert!(link.open(&server.url("disk")).is_err());
            let mut bytes = vec![0; file.len() - 9];
            disk.read(&[buffer_mut(&mut bytes)], 9).expect("bytes");
            assert!(bytes == file[9..]);
            let past = disk.read(&[buffer_mut(&mut bytes)], 10);
            assert!(past.is_err(), "past its end");
        });
    }

    #[test]
    fn threads_get_what_each_of_them_asked_for() {
        let file: Vec<u8> = (0..2_000_000u32).map(|i| (i / 5) as u8).collect();
        let server = Server::of(file.clone());
        link(server.url("disk"), |link| {
            let disk = &link.open(&server.url("disk")).expect("a disk");
            let file = &file;
            std::thread::scope(|scope| {
                for thread in 0..16 {
                    scope.spawn(move || {
                        for round in 0..20 {
                            let at = (thread * 104_729 + round * 60_013) % 1_900_000;
                            let mut bytes = vec![0; 4096 + thread];
                            let to = [buffer_mut(&mut bytes)];
                            disk.read(&to, at as u64).expect("bytes");
                            assert!(bytes == file[at..][..bytes.len()]);
                        }
                    });
                }
            });
        });
    }
}
