//! Things that handlers of signals look for, without locks: who reads one may do so at any
//! time, so that none is ever freed but used again.

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// All there have been, in a list that only grows.
pub struct Registry<T: 'static> {
    first: AtomicPtr<Node<T>>,
}

struct Node<T> {
    used: AtomicBool,
    next: *const Node<T>,
    value: T,
}

// SAFETY: only atomics change, but for `next`, which does not once a node is linked.
unsafe impl<T: Sync> Sync for Node<T> {}

impl<T: Default + Sync> Registry<T> {
    /// One without any.
    pub const fn new() -> Registry<T> {
        Registry {
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn nodes(&self) -> impl Iterator<Item = &'static Node<T>> {
        let mut at: *const Node<T> = self.first.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: nodes are never freed, and `next` does not change once one is linked.
            let node = unsafe { at.as_ref() }?;
            at = node.next;
            Some(node)
        })
    }

    /// Also those that nobody has now: what they hold says so. Safe in handlers of signals.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.nodes().map(|node| &node.value)
    }

    /// One that nobody else has, as its last owner left it.
    pub fn take(&self) -> Taken<T> {
        let free = |node: &&Node<T>| !node.used.swap(true, Ordering::AcqRel);
        if let Some(node) = self.nodes().find(free) {
            return Taken(node);
        }
        let at = Box::into_raw(Box::new(Node {
            used: AtomicBool::new(true),
            next: ptr::null(),
            value: T::default(),
        }));
        let mut first = self.first.load(Ordering::Acquire);
        loop {
            // SAFETY: nobody else has it before it is linked.
            unsafe { (*at).next = first };
            let linked =
                self.first
                    .compare_exchange(first, at, Ordering::AcqRel, Ordering::Acquire);
            match linked {
                // SAFETY: never freed.
                Ok(_) => return Taken(unsafe { &*at }),
                Err(now) => first = now,
            }
        }
    }
}

impl<T: Default + Sync> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry::new()
    }
}

/// One of a registry's that is somebody's; dropped, it may be taken again.
pub struct Taken<T: 'static>(&'static Node<T>);

impl<T> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.0.used.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn one_that_was_given_back_is_used_again_and_no_two_have_the_same() {
        let numbers: Registry<AtomicU64> = Registry::new();
        let (one, two) = (numbers.take(), numbers.take());
        one.store(1, Ordering::Relaxed);
        two.store(2, Ordering::Relaxed);
        drop(one);
        let again = numbers.take();
        assert_eq!(again.load(Ordering::Relaxed), 1);
        assert_eq!(numbers.iter().count(), 2);
    }
}
