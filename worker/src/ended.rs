//! What a caller is done with, as its next call says.

/// Below it are handles, which are numbers of 32 bits.
const DESCRIPTORS: u64 = 1 << 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// An object of the worker's.
    Handle(u32),
    /// A descriptor inside the kernel: of a tree, or of a system call that was given up.
    Descriptor(u32),
}

impl Ended {
    pub fn to_wire(self) -> u64 {
        match self {
            Ended::Handle(handle) => handle.into(),
            Ended::Descriptor(fd) => DESCRIPTORS | u64::from(fd),
        }
    }

    pub fn of_wire(number: u64) -> Ended {
        match number & DESCRIPTORS {
            0 => Ended::Handle(number as u32),
            _ => Ended::Descriptor(number as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_arrive_as_they_were_sent() {
        for number in [0, 1, 40, i32::MAX as u32, u32::MAX] {
            for ended in [Ended::Handle(number), Ended::Descriptor(number)] {
                assert_eq!(Ended::of_wire(ended.to_wire()), ended);
            }
        }
    }
}
