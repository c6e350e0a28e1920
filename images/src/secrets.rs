//! What opens an image that is encrypted: what was given, or whoever can be asked.

use std::sync::Arc;

type Ask = dyn Fn() -> Option<Vec<u8>> + Send + Sync;

#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// Passphrases, and contents of key files.
    pub given: Vec<Vec<u8>>,
    /// Asked if none was given; None ends it.
    pub ask: Option<Arc<Ask>>,
}
