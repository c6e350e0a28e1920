//! The end of the Linux inside, which programs and whoever mounted must hear of.

use std::sync::OnceLock;
use tane_linux::Errno;

/// Says once that the kernel inside has died.
pub struct Death {
    said: OnceLock<()>,
    say: Box<dyn Fn() + Send + Sync>,
}

impl Death {
    /// `say` is called at most once, by any thread, and must not wait for the mount.
    pub fn new(say: impl Fn() + Send + Sync + 'static) -> Self {
        Death {
            said: OnceLock::new(),
            say: Box::new(say),
        }
    }

    /// What the host's programs are told.
    pub(crate) fn errno(&self, error: Errno) -> fuser::Errno {
        if error.0 == libc::ESHUTDOWN {
            self.said.get_or_init(|| (self.say)());
            return fuser::Errno::EIO;
        }
        fuser::Errno::from_i32(error.0)
    }
}
