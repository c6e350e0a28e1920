//! What goes with a kernel and is made above it: its disks, the thread that watches. The
//! kernel knows that it is there, and not what it is; whoever made it knows the type.

use std::any::Any;
use std::sync::{Arc, Weak};

/// One of them, or none; it lives as long as somebody else has it.
pub(crate) struct Companion(Weak<dyn Any + Send + Sync>);

impl Companion {
    pub(crate) fn of<T: Send + Sync + 'static>(one: &Arc<T>) -> Self {
        let one: Arc<dyn Any + Send + Sync> = one.clone();
        Self(Arc::downgrade(&one))
    }

    /// Whether nobody has it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// It, if it is there and of this type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.upgrade()?.downcast().ok()
    }
}

impl Default for Companion {
    fn default() -> Self {
        Self(Weak::<()>::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_is_there_for_its_type_as_long_as_somebody_has_it() {
        let seven = Arc::new(7u32);
        let known = Companion::of(&seven);
        assert_eq!(known.get::<u32>().as_deref(), Some(&7));
        assert!(known.get::<u64>().is_none());
        assert!(!known.is_gone());
        drop(seven);
        assert!(known.is_gone());
        assert!(known.get::<u32>().is_none());
        assert!(Companion::default().is_gone());
    }
}
