//! What the tests that run modules share.

/// Whether modules run on this machine; else the test is skipped.
#[track_caller]
pub fn can_run() -> bool {
    match tane_checked_run::lacks() {
        Some(what) => tane_test_support::skip(what),
        None => return true,
    }
    false
}
