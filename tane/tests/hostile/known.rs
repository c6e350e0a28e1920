//! What damaged images are known to do to this kernel, as docs/hostile.md tells it:
//! anything else fails the tests, so that somebody looks.

/// The functions that warn, each with the image that was the first to show it.
const WARNINGS: [(&str, &str); 2] = [
    ("__btrfs_free_extent", "btrfs seed 223"),
    ("drop_nlink", "minix seed 257"),
];
/// What the kernel says when it dies, and in which function.
const DEATHS: [(&str, &str); 0] = [];
/// Images that it never comes back from.
const HANGS: [(&str, u64); 0] = [];

/// "fs/inode.c:336 drop_nlink"; the compiler may have added to the name.
pub fn warns(place: &str) -> bool {
    let function = place.split(' ').nth(1).unwrap_or_default();
    let function = function.split('.').next().unwrap_or_default();
    WARNINGS.iter().any(|(known, _)| *known == function)
}

/// "kernel BUG at fs/x.c:12, in function"
pub fn dies(place: &str) -> bool {
    DEATHS.iter().any(|(known, _)| *known == place)
}

pub fn hangs(name: &str, seed: u64) -> bool {
    HANGS.contains(&(name, seed))
}
