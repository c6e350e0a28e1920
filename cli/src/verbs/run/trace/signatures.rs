//! What the arguments of system calls are.

use std::collections::HashMap;

const TEXT: &str = include_str!("signatures.txt");

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed number, of 32 bits unless it needs more.
    Int,
    Size,
    Hex,
    /// NULL or an address.
    Pointer,
    Fd,
    DirFd,
    Path,
    /// A text that the call has written.
    Text,
    /// As many bytes as the next argument says, or as the call has written.
    Data,
    /// Pointers to texts, to a NULL.
    Strings,
    /// As many pairs of address and size as the next argument says.
    Iov,
    /// Two descriptors.
    Fds,
    Stat,
    Time,
    WaitStatus,
    SockAddr,
    SigSet,
    /// Whose names `names.rs` has.
    Named(super::names::Names),
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub kind: Kind,
    /// By the call, so that it is known when that is over.
    pub is_written: bool,
}

/// Of all calls.
pub struct Signatures(HashMap<&'static str, Vec<Parameter>>);

impl Signatures {
    pub fn new() -> Self {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
        let parsed = lines.filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            Some((name, words.map(parameter).collect()))
        });
        Self(parsed.collect())
    }

    pub fn of(&self, name: &str) -> Vec<Parameter> {
        let unknown = Parameter {
            kind: Kind::Hex,
            is_written: false,
        };
        let known = self.0.get(name);
        known.map_or_else(|| vec![unknown; 6], Clone::clone)
    }
}

fn parameter(word: &str) -> Parameter {
    let (is_written, word) = match word.strip_prefix('>') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    Parameter {
        kind: kind(word).unwrap_or(Kind::Hex),
        is_written,
    }
}

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "int" => Kind::Int,
        "size" => Kind::Size,
        "hex" => Kind::Hex,
        "pointer" => Kind::Pointer,
        "fd" => Kind::Fd,
        "dirfd" => Kind::DirFd,
        "path" => Kind::Path,
        "string" => Kind::Text,
        "data" => Kind::Data,
        "strings" => Kind::Strings,
        "iov" => Kind::Iov,
        "fds" => Kind::Fds,
        "stat" => Kind::Stat,
        "time" => Kind::Time,
        "status" => Kind::WaitStatus,
        "sockaddr" => Kind::SockAddr,
        "sigset" => Kind::SigSet,
        _ => Kind::Named(super::names::Names::parse(word)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_of_a_call_there_is_and_of_kinds_there_are() {
        let known = include_str!("../../syscall_names.txt");
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name");
            let is_there = known.lines().any(|row| row.split(' ').nth(1) == Some(name));
            assert!(is_there, "{name}");
            let kinds: Vec<_> = words.collect();
            assert!(kinds.len() <= 6, "{line}");
            for word in kinds {
                let word = word.strip_prefix('>').unwrap_or(word);
                assert!(kind(word).is_some(), "{name}: {word}");
            }
        }
    }
}
