//! What may have been meant by a name that nothing has.

use std::cmp::Reverse;

/// Names that are told, at most.
const MOST: usize = 3;

/// The names most like this one, the most alike first; none that is not like it.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    const ALIKE: u64 = 700;
    // In thousandths, which can be compared.
    let alike = |known: &str| (strsim::normalized_damerau_levenshtein(name, known) * 1000.0) as u64;
    let mut found: Vec<_> = known.map(|known| (Reverse(alike(known)), known)).collect();
    found.retain(|(Reverse(alike), _)| *alike >= ALIKE);
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|(_, known)| known)
        .take(MOST)
        .collect()
}

/// The sentence that there is no such function or event.
pub fn no_such<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str>) -> String {
    match &nearest(name, known)[..] {
        [] => format!("no {kind} has this name"),
        near => format!("no {kind} has this name; there is {}", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_mistake_are_found() {
        let known = ["vfs_read", "vfs_write", "vfs_writev", "kfree", "vfs_read"];
        let known = || known.into_iter();
        assert_eq!(
            nearest("vfs_wriet", known())[..],
            ["vfs_write", "vfs_writev"]
        );
        assert_eq!(nearest("vfs_raed", known()), ["vfs_read"]);
        assert_eq!(nearest("schedule", known()), [""; 0]);
        assert_eq!(
            no_such("event", "schedule", known()),
            "no event has this name"
        );
    }
}
