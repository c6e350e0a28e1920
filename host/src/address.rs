//! Addresses, of two kinds that must not be taken for one another.

use std::ops::Add;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// The address so many bytes further on, if there is one.
            #[inline]
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;

            /// So many bytes further on. Panics, with overflow checks, if that is
            /// beyond the last address.
            #[inline]
            fn add(self, bytes: u64) -> Self {
                Self(self.0 + bytes)
            }
        }

        impl From<$name> for u64 {
            fn from(address: $name) -> Self {
                address.0
            }
        }
    };
}

address! {
    /// A physical address of a kernel: an offset in its RAM, in bytes.
    Physical
}

address! {
    /// An address in this process, which for its kernels is the same.
    Virtual
}

impl Virtual {
    /// As a pointer; what may be done with it, the address does not know.
    #[inline]
    pub fn pointer<T>(self) -> *mut T {
        self.0 as *mut T
    }
}
