//! The terminal of `tane run -t`. Two processes: the one that was started keeps the host's
//! terminal (front.rs), and the other one, in which Linux is, has pipes to it.

use super::front::{self, Forked, Front};
use super::Args;
use crate::failure::{Failure, Result};
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use tane_run::{Handle, Size, Terminal};

/// The ends that the process with Linux has.
struct Ends {
    /// What is typed, or nothing.
    input: File,
    output: PipeWriter,
    errors: PipeWriter,
    /// A `struct winsize` for each size that the terminal gets.
    sizes: PipeReader,
    /// One byte: the program is to have the terminal. When it has, its size is told.
    begun: PipeWriter,
}

static ENDS: Mutex<Option<Ends>> = Mutex::new(None);

/// Part from the process that keeps the terminal, if the program is to have one: that one
/// does not return. While there is one thread.
pub fn part(args: &Args) -> Result<()> {
    if !args.tty {
        return Ok(());
    }
    if args.interactive && !io::stdin().is_terminal() {
        let text = "run -t: standard input is no terminal, which -i would have the program read";
        return Err(Failure::usage(text).remedy("-i alone passes it on as it is"));
    }
    let fail = |e| Failure::image(format!("the process that keeps the terminal: {e}"));
    divide(args.interactive).map_err(fail)
}

fn divide(interactive: bool) -> io::Result<()> {
    let (input, keys) = match interactive {
        false => (File::open("/dev/null")?, None),
        true => {
            let (input, keys) = io::pipe()?;
            (File::from(std::os::fd::OwnedFd::from(input)), Some(keys))
        }
    };
    let (screen, output) = io::pipe()?;
    let (complaints, errors) = io::pipe()?;
    let (sizes, resized) = io::pipe()?;
    let (begins, begun) = io::pipe()?;
    let ends = Ends {
        input,
        output,
        errors,
        sizes,
        begun,
    };
    let front = Front {
        keys,
        screen,
        complaints,
        resized,
        begins,
    };
    match front::fork()? {
        Forked::Front(child) => {
            drop(ends);
            front.keep(child)
        }
        Forked::Other => {
            *ENDS.lock().unwrap_or_else(|e| e.into_inner()) = Some(ends);
            Ok(())
        }
    }
}

/// What tells sizes that the terminal gets later.
pub struct Sizes(PipeReader);

/// Give the host's terminal up: this process reads and writes pipes from now on.
pub fn take(args: &Args) -> io::Result<(Terminal, Sizes)> {
    let ends = ENDS.lock().unwrap_or_else(|e| e.into_inner()).take();
    let ends = ends.ok_or_else(|| io::Error::other("nobody keeps it"))?;
    let Ends {
        input,
        output,
        errors,
        mut sizes,
        mut begun,
    } = ends;
    let replaced = [input.as_raw_fd(), output.as_raw_fd(), errors.as_raw_fd()];
    for (number, fd) in replaced.into_iter().enumerate() {
        // SAFETY: no memory involved; whoever uses these goes on with the pipes.
        if unsafe { libc::dup2(fd, number as RawFd) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    begun.write_all(&[1])?;
    // The answer comes when the host's terminal is raw: what is shown from now on is not changed.
    let size = next_size(&mut sizes)?;
    let terminal = Terminal {
        input: args.interactive.then(|| Box::new(input) as Box<_>),
        output: Box::new(output),
        size,
    };
    Ok((terminal, Sizes(sizes)))
}

/// Of the terminal that this process has, if it has one.
pub fn size() -> Option<libc::winsize> {
    (0..=2).find_map(|fd| {
        // SAFETY: the structure is plain data, and the host's to fill.
        unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
        }
    })
}

fn next_size(sizes: &mut PipeReader) -> io::Result<Size> {
    let mut told = [[0; 2]; 4];
    sizes.read_exact(told.as_flattened_mut())?;
    let [rows, columns, ..] = told.map(u16::from_ne_bytes);
    Ok(Size { rows, columns })
}

impl Sizes {
    /// The program's terminal gets them as well.
    pub fn follow(mut self, program: Handle) -> io::Result<()> {
        let follow = move || {
            while let Ok(size) = next_size(&mut self.0) {
                // It may have ended.
                let _ = program.resize(size);
            }
        };
        let thread = std::thread::Builder::new().name("tane-sizes".into());
        thread.spawn(follow).map(drop)
    }
}
