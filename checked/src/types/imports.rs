//! The types of what may be imported. What is not here has none, and is refused.
//!
//! Who imports `tane_view` is given 0, or the address of a text in memory that is nobody's else
//! and not written, until the export that was called has returned: the loader sees to that.

use super::{Type, BYTES, TEXT};

/// An argument of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Descriptor,
    /// Bytes that are read: an array, where in it they begin, and how many they are. The
    /// import gets an address and the number.
    Bytes,
    /// The same, of an array that may be written.
    Buffer,
    /// The same, and the last of them is 0. The import gets an address.
    Path,
    /// The directory that the instance was given: no argument of the module's.
    Root,
}

/// Arguments, and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    pub kinds: &'static [Kind],
    pub result: Type,
}

/// What begins so is a function of the loader's own: six numbers, and a number.
const OF_HOST: &str = "host.";

const KNOWN: &[(&str, &[Kind], Type)] = {
    use Kind::{Buffer, Bytes, Descriptor as Fd, Int, Path, Root};
    use Type::{Descriptor, Int as Number};
    &[
        ("tane_input", &[Buffer], Number),
        ("tane_output", &[Int, Bytes], Number),
        ("tane_exit", &[Int], Number),
        ("getppid", &[], Number),
        ("sched_yield", &[], Number),
        ("getrandom", &[Buffer, Int], Number),
        ("read", &[Fd, Buffer], Number),
        ("write", &[Fd, Bytes], Number),
        ("tane_view", &[Fd, Int, Int], Type::Object(TEXT, TEXT)),
        ("pread", &[Fd, Buffer, Int], Number),
        ("pwrite", &[Fd, Bytes, Int], Number),
        ("openat", &[Root, Path, Int, Int], Descriptor),
        ("close", &[Fd], Number),
        ("lseek", &[Fd, Int, Int], Number),
        ("getdents64", &[Fd, Buffer], Number),
        ("faccessat", &[Root, Path, Int], Number),
        ("mkdirat", &[Root, Path, Int], Number),
        ("unlinkat", &[Root, Path, Int], Number),
        ("fchmod", &[Fd, Int], Number),
        ("ftruncate", &[Fd, Int], Number),
        ("fallocate", &[Fd, Int, Int, Int], Number),
        ("fsync", &[Fd], Number),
        ("fdatasync", &[Fd], Number),
    ]
};

/// What an import of this name takes and gives.
pub fn imported(name: &str) -> Option<Signature> {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let (kinds, result) = match name.starts_with(OF_HOST) {
        true => (&[Kind::Int; 6][..], Type::Int),
        false => known.map(|(_, kinds, result)| (*kinds, *result))?,
    };
    Some(Signature { kinds, result })
}

impl Signature {
    /// The types of what the module gives.
    pub fn arguments(&self) -> Vec<Type> {
        let each = self.kinds.iter().flat_map(|kind| match kind {
            Kind::Int => vec![Type::Int],
            Kind::Descriptor => vec![Type::Descriptor],
            Kind::Bytes | Kind::Path => vec![Type::Object(TEXT, BYTES), Type::Int, Type::Int],
            Kind::Buffer => vec![Type::Object(BYTES, BYTES), Type::Int, Type::Int],
            Kind::Root => vec![],
        });
        each.collect()
    }
}
