//! Whether a session runs in its jail: who asks that needs nothing else of what knows it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// A session runs, in a jail.
pub fn confines_session() -> bool {
    CONFINED.load(Relaxed)
}

/// From now on.
pub(super) fn confine_session() {
    CONFINED.store(true, Relaxed);
}
