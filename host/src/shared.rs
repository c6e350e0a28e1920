//! Access to a structure in memory that kernel and host share. Either side writes
//! to it at any time: no reference ever covers more than one atomic field.

/// Methods for the fields that any thread may look at while the kernel runs. The type
/// has a `ptr()`, which is valid as long as it is.
macro_rules! atomics {
    ($($(#[$doc:meta])* $method:ident = $field:ident: $kind:ty,)*) => {
        $($(#[$doc])*
        #[inline]
        pub fn $method(&self) -> &$kind {
            // SAFETY: valid as `new` was promised; atomic on both sides.
            unsafe { &(*self.ptr()).$field }
        })*
    };
}
pub(crate) use atomics;
