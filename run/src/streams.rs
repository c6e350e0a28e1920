//! A program's input and output, pumped from and to the host's by a thread each.

use crate::pipe::{pipe, End};
use std::io::{self, Read, Write};
use std::thread::JoinHandle;
use tane::Kernel;

pub const CHUNK: usize = 64 << 10;

/// Where a program's standard streams lead.
pub struct Streams {
    /// Read until its end, or for as long as the program reads.
    pub input: Box<dyn Read + Send>,
    /// Gets what the program writes.
    pub output: Box<dyn Write + Send>,
    /// Gets what it says about errors.
    pub errors: Box<dyn Write + Send>,
}

impl Streams {
    /// This process's own.
    pub fn host() -> Self {
        Self {
            input: Box::new(io::stdin()),
            output: Box::new(io::stdout()),
            errors: Box::new(io::stderr()),
        }
    }
}

/// The ends that are the program's, in the order of their numbers.
pub struct Standard(pub [End; 3]);

/// What moves the bytes. The output's threads end when the program has closed its ends.
pub struct Pumps(pub Vec<JoinHandle<io::Result<()>>>);

/// Pipes for a program, and threads for them.
pub fn connect(kernel: &Kernel, streams: Streams) -> io::Result<(Standard, Pumps)> {
    let (theirs_in, ours_in) = pipe(kernel)?;
    let (ours_out, theirs_out) = pipe(kernel)?;
    let (ours_err, theirs_err) = pipe(kernel)?;
    let Streams {
        input,
        output,
        errors,
    } = streams;
    // It may wait for input that never comes, and ends with the process.
    start("tane-input", move || feed(input, &ours_in))?;
    let pumps = vec![
        start("tane-output", move || drain(&ours_out, output))?,
        start("tane-errors", move || drain(&ours_err, errors))?,
    ];
    Ok((Standard([theirs_in, theirs_out, theirs_err]), Pumps(pumps)))
}

type Thread = JoinHandle<io::Result<()>>;

pub fn start(
    name: &str,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<Thread> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(256 << 10)
        .spawn(run)
}

pub fn feed(mut from: Box<dyn Read + Send>, to: &End) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            // Nobody reads any more: EPIPE.
            Ok(n) => to.write_all(&buffer[..n])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// When nobody wants the output any more the program learns it: its end breaks.
fn drain(from: &End, mut to: Box<dyn Write + Send>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.flush(),
            n => {
                to.write_all(&buffer[..n])?;
                to.flush()?;
            }
        }
    }
}

impl Pumps {
    /// Until all output has arrived. A broken pipe is the reader's choice, and no error.
    pub fn finish(self) -> io::Result<()> {
        for pump in self.0 {
            match pump.join().expect("a pump does not panic") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other?,
            }
        }
        Ok(())
    }
}
