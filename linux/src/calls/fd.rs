//! Descriptors, and who closes them.

use super::Sys;

/// What stands for an open file: its number, or whoever owns that.
pub trait Descriptor {
    /// The number, in the kernel whose file it is.
    fn raw(&self) -> i32;
}

impl Descriptor for i32 {
    fn raw(&self) -> i32 {
        *self
    }
}

impl Descriptor for Fd<'_> {
    fn raw(&self) -> i32 {
        self.raw
    }
}

impl<D: Descriptor + ?Sized> Descriptor for &D {
    fn raw(&self) -> i32 {
        (**self).raw()
    }
}

impl<D: Descriptor + ?Sized> Descriptor for std::rc::Rc<D> {
    fn raw(&self) -> i32 {
        (**self).raw()
    }
}

/// A descriptor of one kernel, closed when dropped.
pub struct Fd<'a> {
    sys: Sys<'a>,
    raw: i32,
}

impl<'a> Fd<'a> {
    /// Owns a number that nobody else closes.
    pub fn new(sys: Sys<'a>, raw: i32) -> Self {
        Fd { sys, raw }
    }

    /// The kernel whose it is.
    pub fn sys(&self) -> Sys<'a> {
        self.sys
    }

    /// Somebody else closes it.
    pub fn into_raw(self) -> i32 {
        std::mem::ManuallyDrop::new(self).raw
    }

    /// Its number.
    pub fn raw(&self) -> i32 {
        self.raw
    }
}

impl Drop for Fd<'_> {
    fn drop(&mut self) {
        self.sys.close(self.raw);
    }
}
