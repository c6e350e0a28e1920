//! What damaged images are known to do to this kernel, as docs/hostile.md tells it:
//! anything else fails the tests, so that somebody looks.

/// The functions that warn, each with the image that was the first to show it.
const WARNINGS: [(&str, &str); 2] = [
    ("__btrfs_free_extent", "btrfs seed 223"),
    ("drop_nlink", "minix seed 257"),
];
/// File systems that warn of, or end the kernel for, much that they do not expect, each in many
/// functions: reiserfs by BUG and by its own panic, which is why Linux has given it up.
const MORTAL: [&str; 1] = ["reiserfs"];
/// Images that it never comes back from.
const HANGS: [(&str, u64); 0] = [];

/// "fs/inode.c:336 drop_nlink"; the compiler may have added to the name.
pub fn warns(place: &str) -> bool {
    let function = place.split(' ').nth(1).unwrap_or_default();
    let function = function.split('.').next().unwrap_or_default();
    let is_mortal = MORTAL
        .iter()
        .any(|name| place.starts_with(&format!("fs/{name}/")));
    is_mortal || WARNINGS.iter().any(|(known, _)| *known == function)
}

/// Of damage to a file system of this kind.
pub fn dies(name: &str) -> bool {
    MORTAL.contains(&name)
}

pub fn hangs(name: &str, seed: u64) -> bool {
    HANGS.contains(&(name, seed))
}
