//! How a call ends, and why there is none.

use std::io;
use tane_checked::Refusal;

/// What ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Memory that cannot be accessed so.
    Memory,
    /// Too deep.
    Stack,
    /// A division by zero, or one whose result does not fit.
    Divide,
    /// `ud2`, or an instruction that this processor lacks.
    Unreachable,
    /// A call through an empty slot of the table.
    Call,
    /// Longer than [`Instance::limit`](crate::Instance::limit) allows.
    Time,
    /// None: it called `tane_exit` with this.
    Exit(i32),
}

/// Why there is no instance, or no call.
#[derive(Debug)]
pub enum Error {
    Refused(Refusal),
    /// The module imports what was not given.
    Import(String),
    /// The module does not export this.
    Export(String),
    /// The function is another instance's.
    Function,
    /// The module makes calls of a kernel, and was given none.
    NoKernel,
    /// More arguments than a call has registers for.
    Arguments(usize),
    /// The instance is of the process that this one was forked from.
    Forked,
    Host(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Host(error)
    }
}
