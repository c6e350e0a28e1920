//! The end of the Linux inside, which programs and whoever mounted must hear of.

use crate::sys::Errno;
use std::sync::OnceLock;

/// Says once that the kernel inside has died.
pub struct Death {
    said: OnceLock<()>,
    say: Box<dyn Fn() + Send + Sync>,
}

impl Death {
    pub fn new(say: impl Fn() + Send + Sync + 'static) -> Self {
        Death {
            said: OnceLock::new(),
            say: Box::new(say),
        }
    }

    /// What the host's programs are told.
    pub fn errno(&self, error: Errno) -> fuser::Errno {
        if error.0 == libc::ESHUTDOWN {
            self.said.get_or_init(|| (self.say)());
            return fuser::Errno::EIO;
        }
        fuser::Errno::from_i32(error.0)
    }
}
