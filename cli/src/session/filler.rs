//! The processes in which Linux fills the new file systems of `make-image`. Each has the file
//! that becomes the image, and a socket to this process, which reads what goes in; it opens
//! nothing, boots one Linux, and enters the jail of `cat` before that sees the disk.

use super::child::{fork, keep_only, run, End, Forked};
use super::machine::no_start;
use super::{jail, memory, Machine};
use crate::copy::gofer::filler::{self, Filling, Refusal};
use crate::copy::gofer::lender::{Lent, Loan};
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::session::Global;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane::jail::Jail;
use tane_copy::{Destination, Observer, SenderBy};
use tane_make::{into_new, Error, Order};

/// Those that have nothing to do yet.
static FILLERS: Mutex<Vec<(PathBuf, filler::Filler)>> = Mutex::new(Vec::new());

/// How many file systems are made, and the files in which Linux fills them: one of each that
/// is made so.
#[derive(Debug)]
pub struct Fills {
    pub systems: usize,
    pub files: Vec<(PathBuf, File)>,
}

impl Fills {
    /// What each kind of file system is filled in, if it is.
    pub fn of(
        files: impl Iterator<Item = tane_make::Result<Option<(PathBuf, File)>>>,
    ) -> Result<Fills> {
        let all = files.collect::<tane_make::Result<Vec<_>>>()?;
        Ok(Fills {
            systems: all.len(),
            files: all.into_iter().flatten().collect(),
        })
    }
}

/// Start them. Before the jail is entered.
pub(super) fn start(fills: Fills, kernels: &[&Path], global: &Global) -> Result<()> {
    let fail = |e: io::Error| Failure::image(format!("the process that writes the image: {e}"));
    for (name, file) in fills.files {
        let loan = Loan::new().map_err(fail)?;
        let (near, far) = UnixStream::pair().map_err(fail)?;
        let far = OwnedFd::from(far);
        match fork(End::Killed).map_err(fail)? {
            Forked::Child => run(|| serve(&File::from(far), loan, file, kernels, global)),
            Forked::Starter => {}
        }
        drop(far);
        let new = filler::Filler::new(near, loan.lend()).map_err(fail)?;
        let mut all = FILLERS.lock().unwrap_or_else(|e| e.into_inner());
        all.push((name, new));
    }
    Ok(())
}

/// In the child. An error: nobody asks it, or any more.
fn serve(
    socket: &File,
    loan: Loan,
    file: File,
    kernels: &[&Path],
    global: &Global,
) -> io::Result<()> {
    // SAFETY: no memory involved. It has no terminal.
    unsafe { libc::setsid() };
    let memory: Lent = loan.borrow()?;
    keep_only(vec![socket.as_raw_fd(), file.as_raw_fd()])?;
    // What is wrong is told when there is somebody who asks.
    let ready = confine(kernels, global);
    let mut filling = Filling::new(socket, &memory);
    let order = filling.order()?;
    let done = ready.and_then(|()| {
        let order = Order::of_bytes(&order);
        let order = order.ok_or_else(|| Failure::image("no order that makes sense"))?;
        fill(&mut filling, &order, file, global)
    });
    let told = done.map_err(|failure| Refusal {
        code: failure.code,
        text: failure.to_string(),
    });
    filling.end(told)
}

/// The first jail: nothing is opened from now on.
fn confine(kernels: &[&Path], global: &Global) -> Result<()> {
    let provided = tane::provide(kernels, 1, memory::most(global)).map_err(no_start)?;
    let mut first = Jail::new();
    first.boots_from(&provided);
    jail::limit_memory(&mut first, global);
    first.enter().map(drop).map_err(jail::failure)
}

fn fill(filling: &mut Filling, order: &Order, file: File, global: &Global) -> Result<()> {
    let machine = Machine::deterministic(&order.wanted, global)?;
    // The second, before Linux sees what mkfs has made.
    Jail::new().enter().map_err(jail::failure)?;
    let verbose = global.verbose;
    let name = Path::new("the new image");
    let write = |to: Destination<'_>, settings| {
        let written = filling.write(to, settings, verbose);
        written.map_err(|e| Error::of(name, &e))
    };
    Ok(into_new(
        file,
        name,
        &machine.kernel,
        order,
        Box::new(write),
    )?)
}

/// Has one of them do it that has the file of this name; None: there is none.
pub fn fill_elsewhere(
    name: &Path,
    order: &Order,
    observer: &dyn Observer,
    emit: &dyn Fn(SenderBy<'_>),
) -> Option<Result<()>> {
    let mut fillers = FILLERS.lock().unwrap_or_else(|e| e.into_inner());
    let at = fillers.iter().position(|(known, _)| known == name)?;
    let (_, filler) = fillers.remove(at);
    drop(fillers);
    let done = filler.fill(&order.to_bytes(), observer, emit);
    Some(done.map_err(|refusal| match refusal.code {
        0 => Failure::new(NO_IMAGE, refusal.text),
        code => Failure::new(code, crate::names::plain(refusal.text.as_bytes())),
    }))
}
