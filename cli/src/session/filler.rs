//! The processes in which Linux fills the new file systems of `make-image`. Each has the file
//! that becomes the image, and a socket to this process, which reads what goes in; it opens
//! nothing, boots one Linux, and enters the jail of `cat` before that sees the disk.

use super::gofer::keep_only;
use super::machine::no_start;
use super::{jail, memory, Machine};
use crate::args::Global;
use crate::copy::gofer::filler::{self, Filling, Refusal};
use crate::copy::gofer::lender::{Lent, Loan};
use crate::failure::{Failure, Result, NO_IMAGE};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use tane::jail::Jail;
use tane_copy::{Destination, Observer, SenderBy};
use tane_make::{into_new, Error, Order};

/// Those that have nothing to do yet.
static FILLERS: Mutex<Vec<filler::Filler>> = Mutex::new(Vec::new());

/// The file in which file systems are made, and how many of them Linux fills.
#[derive(Debug)]
pub struct Fills {
    pub file: File,
    pub systems: usize,
}

/// Start them. Before the jail is entered.
pub(super) fn start(fills: Fills, kernels: &[&Path], global: &Global) -> Result<()> {
    let fail = |e: io::Error| Failure::image(format!("the process that writes the image: {e}"));
    let Fills { file, systems } = fills;
    for _ in 0..systems {
        let loan = Loan::new().map_err(fail)?;
        let (near, far) = UnixStream::pair().map_err(fail)?;
        let far = OwnedFd::from(far);
        // SAFETY: no kernel runs yet. The only other thread waits for signals, and holds
        // nothing that the child could wait for.
        match unsafe { libc::fork() } {
            -1 => return Err(fail(io::Error::last_os_error())),
            0 => {
                let work = || serve(&File::from(far), loan, file, kernels, global);
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) }
            }
            _ => {
                let new = filler::Filler::new(near, loan.lend()).map_err(fail)?;
                FILLERS.lock().unwrap_or_else(|e| e.into_inner()).push(new);
            }
        }
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
    // SAFETY: no memory involved. It ends with who asks, and has no terminal.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
    }
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

/// Has one of them do it; None: there is none.
pub fn fill_elsewhere(
    order: &Order,
    observer: &dyn Observer,
    emit: &dyn Fn(SenderBy<'_>),
) -> Option<Result<()>> {
    let mut fillers = FILLERS.lock().unwrap_or_else(|e| e.into_inner());
    let filler = fillers.pop()?;
    drop(fillers);
    let done = filler.fill(&order.to_bytes(), observer, emit);
    Some(done.map_err(|refusal| match refusal.code {
        0 => Failure::new(NO_IMAGE, refusal.text),
        code => Failure::new(code, crate::names::plain(refusal.text.as_bytes())),
    }))
}
